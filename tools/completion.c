/*
 * Completion scripts for shells, made from the table of commands, so that they
 * know every option. They ask for names of sinks, receivers and relays when they need
 * them: `pgcourier completion sinks -c FILE`, with the file on the line.
 */
#include "cli/commands.h"
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a value, or an operand, is the name of. */
enum completes {
        COMPLETES_NOTHING,
        COMPLETES_FILE,
        COMPLETES_FOLDER,
        COMPLETES_SINK,
        COMPLETES_RECEIVER,
        COMPLETES_RELAY,
        COMPLETES_TYPE,
        COMPLETES_COMMAND,
};

static enum completes value_completes(const char *value)
{
        if (strcmp(value, "FILE") == 0)
                return COMPLETES_FILE;
        if (strcmp(value, "FOLDER") == 0)
                return COMPLETES_FOLDER;
        return strcmp(value, "SINK") == 0 ? COMPLETES_SINK : COMPLETES_NOTHING;
}

static enum completes option_completes(const struct command_option *option)
{
        if (strcmp(option->name, "sink") == 0)
                return COMPLETES_SINK;
        if (strcmp(option->name, "receiver") == 0)
                return COMPLETES_RECEIVER;
        if (strcmp(option->name, "type") == 0)
                return COMPLETES_TYPE;
        return option->value != NULL ? value_completes(option->value) : COMPLETES_NOTHING;
}

/* The operands of a command, or of one of its subcommands. */
static enum completes operand_completes(const struct command *root, const struct command *command)
{
        const char *usage = command->usage != NULL ? command->usage : "";

        usage += *usage == '[';
        if (strncmp(usage, "SINK", 4) == 0)
                return COMPLETES_SINK;
        if (strncmp(usage, "COMMAND", 7) == 0)
                return COMPLETES_COMMAND;
        if (strcmp(root->name, "type") == 0 && strncmp(usage, "NAME", 4) == 0)
                return COMPLETES_TYPE;
        if (strcmp(root->name, "relay") == 0 && strncmp(usage, "NAME", 4) == 0)
                return COMPLETES_RELAY;
        /* What is added has a name that no receiver has yet. */
        return strcmp(root->name, "receiver") == 0 && strcmp(command->name, "add") != 0 &&
                       strncmp(usage, "NAME", 4) == 0
                   ? COMPLETES_RECEIVER
                   : COMPLETES_NOTHING;
}

/* The words that an option's value is one of, with blanks between; NULL: it may be any. */
static const char *option_choices(
    const struct command *command, const struct command_option *option)
{
        static const struct {
                const char *command;
                const char *option;
                const char *choices;
        } all[] = {
            {"run", "log-level", "debug info warn error"},
            {"dead", "reason", "rejected attempts age too_large unjudged skipped"},
            {"parked", "state", "retry blocked delayed"},
            {"receiver", "state", "active paused disabled"},
            {"receiver", "start", "now beginning"},
            {"type", "format", "html openapi asyncapi"},
            {"maintain", "types", "any strict"},
            {"status", "color", "auto always never"},
            {"attach", "on", "insert insert,update"},
            {"attach", "done", "mark delete keep"},
            {"attach", "when", "taken delivered"},
            {"capture", "payload", "new both diff"},
            {"capture", "level", "statement row"},
            {"capture", "bigint-as", "number text"},
        };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                if (strcmp(command->name, all[i].command) == 0 &&
                    strcmp(option->name, all[i].option) == 0)
                        return all[i].choices;
        return NULL;
}

/* The first line of a help text, within single quotes of a shell; `mask` gets a backslash before
 * it. */
static void print_quoted(const char *text, const char *mask)
{
        for (; *text != '\0' && *text != '\n'; text++)
                if (*text == '\'')
                        fputs("'\\''", stdout);
                else if (strchr(mask, *text) != NULL)
                        printf("\\%c", *text);
                else
                        putchar(*text);
}

static const char *const bash_kinds[] = {[COMPLETES_NOTHING] = "nothing",
    [COMPLETES_FILE] = "files",
    [COMPLETES_FOLDER] = "folders",
    [COMPLETES_SINK] = "sinks",
    [COMPLETES_RECEIVER] = "receivers",
    [COMPLETES_RELAY] = "relays",
    [COMPLETES_TYPE] = "types",
    [COMPLETES_COMMAND] = "commands"};

static void print_subcommands(const struct command *command, const char *separator)
{
        for (size_t i = 0; command->subcommands != NULL && command->subcommands[i] != NULL; i++)
                printf("%s%s", command->subcommands[i]->name, separator);
}

static void print_option_words(const struct command *root, const struct command *command)
{
        const struct command_option **options = command_options(root, command);

        for (size_t i = 0; options[i] != NULL; i++)
                printf("--%s ", options[i]->name);
        fputs("--help'", stdout);
        free(options);
}

static void print_bash_operands(enum completes completes)
{
        if (completes != COMPLETES_NOTHING)
                printf(" operands=%s", bash_kinds[completes]);
}

/* Behind a subcommand only its own options are offered. */
static void print_bash_subcommands(const struct command *command)
{
        puts("      ((COMP_CWORD == 2)) || case ${COMP_WORDS[2]} in");
        for (size_t i = 0; command->subcommands[i] != NULL; i++) {
                printf("        %s) words='", command->subcommands[i]->name);
                print_option_words(command, command->subcommands[i]);
                print_bash_operands(operand_completes(command, command->subcommands[i]));
                puts(" ;;");
        }
        puts("      esac");
}

static void print_bash_commands(void)
{
        fputs("  local commands='", stdout);
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        printf("%s ", commands[i]->name);
        puts("'");
}

static void print_bash_case(const struct command *command)
{
        const struct command_option **options = command_options(command, command);

        printf("    %s)\n      words='", command->name);
        print_subcommands(command, " ");
        print_option_words(command, command);
        print_bash_operands(operand_completes(command, command));
        puts("");
        if (command->subcommands != NULL)
                print_bash_subcommands(command);
        puts("      case $previous in");
        for (size_t i = 0; options[i] != NULL; i++) {
                const struct command_option *option = options[i];
                const char *choices = option_choices(command, option);
                if (option->value == NULL)
                        continue;
                fputs("        ", stdout);
                if (option->letter != 0)
                        printf("-%c|", option->letter);
                if (choices != NULL)
                        printf("--%s) value=words words='%s' ;;\n", option->name, choices);
                else
                        printf("--%s) value=%s ;;\n", option->name,
                            bash_kinds[option_completes(option)]);
        }
        puts("      esac ;;");
        free(options);
}

static void print_bash(void)
{
        puts(
            "# bash completion of pgcourier; made by `pgcourier-tools completion bash`\n"
            "_pgcourier_names() { # sinks|receivers|relays|types\n"
            "  local i\n"
            "  for ((i = 1; i + 1 < ${#COMP_WORDS[@]}; i++)); do\n"
            "    case ${COMP_WORDS[i]} in\n"
            "      -c|--config)\n"
            "        [[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))\n"
            "        \"${COMP_WORDS[0]}\" completion \"$1\" -c \"${COMP_WORDS[i + 1]}\" "
            "2>/dev/null ;;\n"
            "    esac\n"
            "  done\n"
            "}\n"
            "_pgcourier() {\n"
            "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
            "  local words='' operands='' value=''\n"
            "  # --option=value comes as three words\n"
            "  [[ $current != = ]] || { previous='='; current=; COMP_CWORD=$((COMP_CWORD + 1)); }\n"
            "  [[ $previous != = ]] || previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
            "  COMPREPLY=()");
        print_bash_commands();
        puts("  if ((COMP_CWORD == 1)); then\n"
             "    words=$commands\n"
             "  else\n"
             "    case ${COMP_WORDS[1]} in");
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        print_bash_case(commands[i]);
        puts("    esac\n"
             "  fi\n"
             "  case $value in\n"
             "    nothing) return ;;\n"
             "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return ;;\n"
             "    folders) mapfile -t COMPREPLY < <(compgen -d -- \"$current\"); return ;;\n"
             "    sinks|receivers|relays|types) words=$(_pgcourier_names \"$value\") ;;\n"
             "    words) ;;\n"
             "    *)\n"
             "      case $operands/$current in\n"
             "      */-*) ;;\n"
             "      commands/*) words+=\" $commands\" ;;\n"
             "      ?*/*) words+=\" $(_pgcourier_names \"$operands\")\" ;;\n"
             "      esac ;;\n"
             "  esac\n"
             "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
             "}\n"
             "complete -o filenames -F _pgcourier pgcourier");
}

static void print_zsh_option(const struct command_option *option)
{
        static const char *const actions[] = {[COMPLETES_NOTHING] = " ",
            [COMPLETES_FILE] = "_files",
            [COMPLETES_FOLDER] = "_files -/",
            [COMPLETES_SINK] = "_pgcourier_sinks",
            [COMPLETES_RECEIVER] = " ",
            [COMPLETES_RELAY] = " ",
            [COMPLETES_TYPE] = " ",
            [COMPLETES_COMMAND] = " "};

        fputs("        '", stdout);
        if (option->repeats)
                putchar('*');
        else if (option->letter != 0)
                printf("(-%c --%s)", option->letter, option->name);
        if (option->letter != 0)
                printf("'{-%c,--%s}'[", option->letter, option->name);
        else
                printf("--%s[", option->name);
        print_quoted(option->help, "[]:\\");
        putchar(']');
        if (option->value != NULL)
                printf(":%s:%s", option->value, actions[option_completes(option)]);
        puts("' \\");
}

static void print_zsh_case(const struct command *command)
{
        const struct command_option **options = command_options(command, command);

        printf("    %s)\n      _arguments -S \\\n", command->name);
        for (size_t i = 0; options[i] != NULL; i++)
                print_zsh_option(options[i]);
        puts("        '(-h --help)'{-h,--help}'[print this]' \\");
        if (command->subcommands != NULL) {
                fputs("        '1:subcommand:(", stdout);
                print_subcommands(command, " ");
                puts(")' ;;");
        } else if (operand_completes(command, command) == COMPLETES_SINK) {
                puts("        '1:sink:_pgcourier_sinks' ;;");
        } else {
                puts("        '*:operand: ' ;;");
        }
        free(options);
}

static void print_zsh(void)
{
        puts(
            "#compdef pgcourier\n"
            "# zsh completion of pgcourier; made by `pgcourier-tools completion zsh`\n"
            "_pgcourier_sinks() {\n"
            "  local file=${opt_args[-c]:-${opt_args[--config]}}\n"
            "  [[ -n $file ]] || return 1\n"
            "  local -a sinks=(${(f)\"$(pgcourier completion sinks -c ${(Q)file} 2>/dev/null)\"})\n"
            "  compadd -a sinks\n"
            "}\n"
            "_pgcourier() {\n"
            "  if (( CURRENT == 2 )); then\n"
            "    local -a commands=(");
        for (size_t i = 0; commands[i] != NULL; i++) {
                if (commands[i]->is_hidden)
                        continue;
                printf("      '%s:", commands[i]->name);
                print_quoted(commands[i]->summary, ":\\");
                puts("'");
        }
        puts("    )\n"
             "    _describe command commands\n"
             "    return\n"
             "  fi\n"
             "  local command=$words[2]\n"
             "  shift words\n"
             "  (( CURRENT-- ))\n"
             "  local -A opt_args\n"
             "  case $command in");
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        print_zsh_case(commands[i]);
        puts("  esac\n"
             "}\n"
             "if [[ $funcstack[1] = _pgcourier ]]; then _pgcourier \"$@\"; else compdef _pgcourier "
             "pgcourier; fi");
}

static void print_fish_option(const struct command *command, const struct command_option *option)
{
        static const char *const actions[] = {[COMPLETES_NOTHING] = " -x",
            [COMPLETES_FILE] = " -r -F",
            [COMPLETES_FOLDER] = " -x -a '(__fish_complete_directories)'",
            [COMPLETES_SINK] = " -x -a '(__pgcourier_sinks)'",
            [COMPLETES_RECEIVER] = " -x",
            [COMPLETES_RELAY] = " -x",
            [COMPLETES_TYPE] = " -x",
            [COMPLETES_COMMAND] = " -x"};

        printf("complete -c pgcourier -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            option->name);
        if (option->letter != 0)
                printf(" -s %c", option->letter);
        if (option->value != NULL)
                fputs(actions[option_completes(option)], stdout);
        fputs(" -d '", stdout);
        print_quoted(option->help, "\\");
        puts("'");
}

static void print_fish(void)
{
        puts("# fish completion of pgcourier; made by `pgcourier-tools completion fish`\n"
             "function __pgcourier_sinks\n"
             "  set -l words (commandline -opc)\n"
             "  for i in (seq (count $words))\n"
             "    if contains -- $words[$i] -c --config; and test $i -lt (count $words)\n"
             "      pgcourier completion sinks -c $words[(math $i + 1)] 2>/dev/null\n"
             "    end\n"
             "  end\n"
             "end\n"
             "complete -c pgcourier -f");
        for (size_t i = 0; commands[i] != NULL; i++) {
                const struct command *command = commands[i];
                const struct command_option **options;
                if (command->is_hidden)
                        continue;
                printf("complete -c pgcourier -n __fish_use_subcommand -a %s -d '", command->name);
                print_quoted(command->summary, "\\");
                puts("'");
                options = command_options(command, command);
                for (size_t k = 0; options[k] != NULL; k++)
                        print_fish_option(command, options[k]);
                free(options);
                printf("complete -c pgcourier -n '__fish_seen_subcommand_from %s' -s h -l help -d "
                       "'print this'\n",
                    command->name);
                if (operand_completes(command, command) == COMPLETES_SINK)
                        printf("complete -c pgcourier -n '__fish_seen_subcommand_from %s' -a "
                               "'(__pgcourier_sinks)'\n",
                            command->name);
                if (command->subcommands != NULL) {
                        printf("complete -c pgcourier -n '__fish_seen_subcommand_from %s' -a '",
                            command->name);
                        print_subcommands(command, " ");
                        puts("'");
                }
        }
}

bool completion_print(const char *shell, struct error *error)
{
        if (strcmp(shell, "bash") == 0)
                print_bash();
        else if (strcmp(shell, "zsh") == 0)
                print_zsh();
        else if (strcmp(shell, "fish") == 0)
                print_fish();
        else
                return error_set(
                    error, ERROR_USAGE, "completion: \"%.64s\" is not bash, zsh or fish", shell);
        return true;
}

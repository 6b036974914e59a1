/* The command line → one command → one exit code. */
#include "base/bytes.h"
#include "cli/cli.h"
#include "cli/libraries.h"
#include "cli/remedy.h"
#include "config/suggest.h"
#include "pgcourier/version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command init_command;
extern const struct command run_command;
extern const struct command migrate_command;
extern const struct command maintain_command;
extern const struct command check_command;
extern const struct command doctor_command;
extern const struct command config_command;
extern const struct command publish_command;
extern const struct command send_command;
extern const struct command endpoint_command;
extern const struct command dead_command;
extern const struct command parked_command;
extern const struct command pause_command;
extern const struct command resume_command;
extern const struct command replay_command;
extern const struct command rewind_command;
extern const struct command rebase_command;
extern const struct command schedule_command;
extern const struct command tail_command;
extern const struct command health_command;
extern const struct command reload_command;
extern const struct command status_command;
extern const struct command cursor_command;
extern const struct command completion_command;
extern const struct command manual_command;
extern const struct command version_command;
extern const struct command help_command;

const struct command *const commands[] = {
    &init_command,
    &run_command,
    &migrate_command,
    &maintain_command,
    &check_command,
    &doctor_command,
    &config_command,
    &publish_command,
    &send_command,
    &endpoint_command,
    &dead_command,
    &parked_command,
    &pause_command,
    &resume_command,
    &schedule_command,
    &replay_command,
    &rewind_command,
    &cursor_command,
    &rebase_command,
    &tail_command,
    &health_command,
    &reload_command,
    &status_command,
    &completion_command,
    &manual_command,
    &version_command,
    &help_command,
    NULL,
};

const struct command *command_find(const char *name)
{
        for (const struct command *const *command = commands; *command != NULL; command++)
                if (strcmp((*command)->name, name) == 0)
                        return *command;
        return NULL;
}

bool command_unknown(const char *name, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        meant = suggest_nearer(name, meant, commands[i]->name);
        bytes_printf(&text, "there is no command \"%.64s\"", name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Commands:");
        for (size_t i = 0; commands[i] != NULL; i++)
                if (!commands[i]->is_hidden)
                        bytes_printf(&text, "%s %s", i > 0 ? "," : "", commands[i]->name);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool run_one(int argc, char **argv, struct error *error)
{
        const struct command *command;
        struct arguments arguments;
        bool ok = true;

        if (argc < 2)
                return error_set(error, ERROR_USAGE, "which command? See `pgcourier help`");
        if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
                help_print_overview();
                return true;
        }
        if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0) {
                puts("pgcourier " PGCOURIER_VERSION);
                return true;
        }
        if (argv[1][0] == '-')
                return error_set(error, ERROR_USAGE,
                    "\"%.64s\" before the command; options stand behind it: "
                    "pgcourier COMMAND OPTIONS. See `pgcourier help`",
                    argv[1]);
        command = command_find(argv[1]);
        if (command == NULL)
                return command_unknown(argv[1], error);

        if (!arguments_parse(&arguments, command, argc - 1, argv + 1, error))
                return false;
        remedy_init(&arguments);
        if (arguments.wants_help)
                help_print_command(command);
        else
                ok = command->run(&arguments, error);
        arguments_deinit(&arguments);
        return ok;
}

/* Without this a socket or file of ours could become "standard output" of whoever closed it. */
static bool open_missing_standard_files(void)
{
        for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
                if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != file)
                        return false;
        return true;
}

/* Where glibc has no memory for a buffer it takes one of a single byte, and what then gets lost is no
 * error of the stream. */
static void give_output_a_buffer(void)
{
        static char buffer[BUFSIZ];

        setvbuf(stdout, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
}

/* Output that did not arrive is a failure, whatever the command did. */
static bool finish_output(struct error *error)
{
        bool failed_before = ferror(stdout) != 0;

        errno = 0;
        if (fflush(stdout) == 0 && !failed_before)
                return true;
        return error_set(error, ERROR_SYSTEM, "cannot write to standard output%s%s",
            errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
}

/* Some of the text may be a peer's or the caller's: it may not move the terminal's cursor. */
static void print_error(const struct error *error)
{
        char *text = remedy_complete(error->text);

        for (char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || *at == 0x7f)
                        *at = '?';
        fprintf(stderr, "pgcourier: %s\n", text);
        free(text);
}

int main(int argc, char **argv)
{
        struct error error = {0};
        struct error output_error = {0};

        if (!open_missing_standard_files())
                return EXIT_FAILURE;
        give_output_a_buffer();
        libraries_share_allocator();
        signal(SIGPIPE, SIG_IGN); /* a closed peer or pipe is an error of that write */

        if (!run_one(argc, argv, &error))
                print_error(&error);
        if (!finish_output(&output_error))
                print_error(&output_error);
        return error_exit_code(error.kind != ERROR_NONE ? error.kind : output_error.kind);
}

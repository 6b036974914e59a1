/* The command line as people and scripts meet it: what is refused, how, and what the rest
 * prints. */
#include "support/program.h"

#include "base/alloc.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define RUN(...) program_run(NULL, __VA_ARGS__, NULL)

Test(cli, refuses_what_it_does_not_understand_and_says_what_is_right)
{
        static const struct {
                const char *words[6];
                int code;
                const char *error; /* a part of standard error */
        } cases[] = {
            {{"publsh"}, 2,
                "there is no command \"publsh\"; did you mean \"publish\"? Commands: init, run, "
                "migrate,"},
            {{"xyzzy"}, 2, "there is no command \"xyzzy\". Commands: init, run, migrate,"},
            {{"help", "migrat"}, 2, "did you mean \"migrate\"?"},
            {{"help", "run", "now"}, 2, "help: unexpected argument \"now\""},
            {{"-c", "file", "run"}, 2, "\"-c\" before the command; write options after it"},
            {{"publish", "--paylod", "{}"}, 2,
                "publish has no option \"--paylod\"; did you mean \"--payload\"? Options: "
                "--payload,"},
            {{"publish", "--paylod={}"}, 2, "did you mean \"--payload\"?"},
            {{"publish", "-z"}, 2, "publish has no option \"-z\". Options:"},
            {{"publish", "t", "--key"}, 2, "publish: --key needs a value: --key KEY"},
            {{"version", "--json=yes"}, 2, "version: --json takes no value"},
            {{"version", "--help=yes"}, 2, "version: --help takes no value"},
            {{"publish", "--payload", "{}"}, 2,
                "publish: an argument is missing: pgcourier publish TOPIC"},
            {{"publish", "--payload", "{}"}, 2,
                "[--type TYPE] [--header NAME=VALUE]... [--dedup-key KEY] [--dsn DSN | -c FILE]\n"},
            {{"completion", "bash"}, 2,
                "completion cannot \"bash\". Possible: sinks, receivers, relays, types. The "
                "packages "
                "install"},
            {{"send", "t", "--payload", "{}"}, 2,
                "send has no option \"--payload\"; did you mean \"--data\"?"},
            {{"publish", "t", "--data", "{\"a\":1}"}, 2, "JSON is given with --payload\n"},
            {{"receiver", "change", "acme"}, 2, "receiver cannot \"change\""},
            {{"publish", "a", "b", "--payload", "{}"}, 2, "publish: unexpected argument \"b\""},
            {{"publish", "t"}, 2, "needs exactly one body"},
            {{"publish", "t", "--payload={}", "--data=-"}, 2, "needs exactly one body"},
            {{"publish", "t", "--payload={}", "--payload={}"}, 2, "--payload is given twice"},
            {{"publish", "t", "--data", "text"}, 2, "data: write @FILE"},
            {{"publish", "t", "--payload={}", "--header", "=x"}, 2, "\"=x\" is not NAME=VALUE"},
            {{"publish", "t", "--payload={}", "--header", "x"}, 2, "\"x\" is not NAME=VALUE"},
            {{"publish", "t", "--payload={}", "--header=a=1", "--header=a=2"}, 2,
                "header: \"a\" is given twice"},
            {{"publish", "t", "--payload={}", "--header=a=\xff"}, 2, "is not valid UTF-8"},
            {{"publish", "t", "--payload=@/nonexistent"}, 1, "cannot open /nonexistent: No such"},
            {{"publish", "t", "--payload=@/"}, 1, "cannot read /: Is a directory"},
            {{"publish", "t", "--payload={}", "--dsn=x", "--config=y"}, 2,
                "--dsn and --config both name a database"},
            {{"publish", "t", "--payload={}", "--dsn=nonsense=1"}, 3,
                "the dsn is not valid: libpq does not understand its options. "},
            {{"publish", "t", "--payload={}", "--dsn=sslmod=require"}, 3,
                "did you mean \"sslmode\"?"},
            {{"publish", "t", "--payload={}", "--dsn=host=/nonexistent"}, 4,
                "cannot connect to PostgreSQL: "},
            {{"migrate", "up"}, 2, "migrate cannot \"up\". Possible: status\n"},
            {{"migrate", "--print", "status"}, 2,
                "migrate status takes no --print; it is for: migrate\n"},
            {{"migrate", "--print", "--dsn=x"}, 2, "--print does not connect"},
            {{"run"}, 2, "run needs a configuration: pgcourier run -c FILE"},
            {{"run", "-c"}, 2, "run: --config needs a value"},
            {{"run", "-c", "f", "--log-level", "loud"}, 2,
                "\"loud\" is not one of debug, info, warn, error"},
            {{"check"}, 2, "check needs a configuration: pgcourier check -c FILE"},
            {{"xy\x1b[2Jz"}, 2, "there is no command \"xy?[2Jz\""},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                struct program_run run =
                    RUN(words[0], words[1], words[2], words[3], words[4], words[5]);
                cr_expect_eq(run.code, cases[i].code, "%zu: %d", i, run.code);
                cr_expect_str_empty(run.out, "%zu: %s", i, run.out);
                cr_expect_not_null(strstr(run.err, cases[i].error), "%zu: %s", i, run.err);
                cr_expect_eq(strncmp(run.err, "pgcourier: ", 11), 0, "%zu: %s", i, run.err);
                cr_expect_eq(strchr(run.err, '\n'), run.err + strlen(run.err) - 1,
                    "%zu: more than one line: %s", i, run.err);
                program_run_free(&run);
        }
}

Test(cli, asks_for_a_command)
{
        struct program_run run = program_run(NULL, NULL);

        cr_expect_eq(run.code, 2);
        cr_expect_str_eq(run.err, "pgcourier: which command? See `pgcourier help`\n");
        program_run_free(&run);
}

Test(cli, never_echoes_the_password_of_a_dsn)
{
        struct program_run run = RUN("migrate", "--dsn", "postgres//app:hunter2@db/shop");

        cr_expect_eq(run.code, 3);
        cr_expect_null(strstr(run.err, "hunter2"), "%s", run.err);
        program_run_free(&run);
}

Test(cli, lists_commands_and_exit_codes)
{
        static const char *const spellings[] = {"help", "--help", "-h"};
        static const char *const lines[] = {"\n  run ", "\n  migrate ", "\n  check ",
            "\n  publish ", "\n  dead ", "\n  parked ", "\n  pause ", "\n  resume ", "\n  version ",
            "\n  help ", "\n  0 ", "\n  1 ", "\n  2 ", "\n  3 ", "\n  4 ", "\n  5 ", "\n  6 ",
            "\n  7 ", "\n  8 ", "\n  75 ", "\n  130, 143 "};

        for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
                struct program_run run = RUN(spellings[i]);
                cr_expect_eq(run.code, 0);
                cr_expect_str_empty(run.err);
                for (size_t j = 0; j < sizeof lines / sizeof *lines; j++)
                        cr_expect_not_null(strstr(run.out, lines[j]), "%s", lines[j]);
                program_run_free(&run);
        }
}

Test(cli, helps_with_every_command_in_two_ways)
{
        static const char *const names[] = {"run", "migrate", "check", "publish", "dead", "parked",
            "pause", "resume", "version", "help"};

        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                struct program_run help = RUN("help", names[i]);
                struct program_run option = RUN(names[i], "--help");
                char *first = xasprintf("Usage: pgcourier %s ", names[i]);
                cr_expect_eq(help.code, 0);
                cr_expect_eq(option.code, 0);
                cr_expect_str_eq(help.out, option.out);
                cr_expect_eq(strncmp(help.out, first, strlen(first)), 0, "%s", help.out);
                cr_expect_not_null(strstr(help.out, "-h, --help"));
                free(first);
                program_run_free(&help);
                program_run_free(&option);
        }
}

Test(cli, helps_with_a_subcommand_by_its_own_options)
{
        struct program_run run = RUN("receiver", "recover", "--help");

        cr_expect_eq(run.code, 0);
        cr_expect_not_null(strstr(run.out, "Usage: pgcourier receiver recover NAME ["));
        cr_expect_not_null(strstr(run.out, "--since DURATION"));
        cr_expect_not_null(strstr(run.out, "--dsn DSN"));
        cr_expect_null(strstr(run.out, "--overlap"));
        program_run_free(&run);
}

Test(cli, prints_versions_for_people)
{
        struct program_run whole = RUN("version");
        struct program_run brief = RUN("--version");

        cr_expect_eq(whole.code, 0);
        cr_expect_eq(brief.code, 0);
        cr_expect_eq(strncmp(whole.out, brief.out, strlen(brief.out)), 0);
        cr_expect_not_null(strstr(whole.out, "\nlibpq "));
        cr_expect_not_null(strstr(whole.out, "\nTLS to Redis by OpenSSL\n"));
        program_run_free(&whole);
        program_run_free(&brief);
}

Test(cli, prints_versions_for_programs)
{
        static const char *const libraries[] = {"libpq", "libuv", "c-ares", "libcurl", "hiredis",
            "libyaml", "jansson", "smartcols", "OpenSSL"};
        struct program_run run = RUN("version", "--json");
        json_t *version = json_loads(run.out, 0, NULL);

        cr_assert_not_null(version, "%s", run.out);
        cr_expect(json_is_string(json_object_get(version, "version")));
        cr_expect(json_is_string(json_object_get(version, "compiler")));
        cr_expect(json_is_true(json_object_get(version, "redis_tls")));
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
                json_t *library =
                    json_object_get(json_object_get(version, "libraries"), libraries[i]);
                cr_expect(json_is_string(json_object_get(library, "compiled")), "%s", libraries[i]);
        }
        json_decref(version);
        program_run_free(&run);
}

static int run_in_shell(const char *script, char **out_text)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/output", folder);
        const char *argv[] = {"bash", "-c", script, NULL};
        int code = process_run(argv, path, false);

        *out_text = read_file(path);
        free(path);
        free(folder);
        return code;
}

Test(cli, fails_when_its_output_does_not_arrive)
{
        static const char *const scripts[] = {"\"$PGCOURIER\" help >/dev/full",
            "\"$PGCOURIER\" migrate --print >/dev/full", "\"$PGCOURIER\" version >&-",
            /* The reader is gone before the program starts. */
            "exec 3> >(:); wait $!; \"$PGCOURIER\" help >&3"};

        for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
                char *text;
                cr_expect_eq(run_in_shell(scripts[i], &text), 1, "%s", scripts[i]);
                cr_expect_not_null(
                    strstr(text, "pgcourier: cannot write to standard output"), "%s", text);
                free(text);
        }
}

/*
 * Sinks of others: the package as it is installed, the example built against it in both ways, the
 * real program with it, and all that is refused.
 */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_EVENTS = 400 };

/* An installed pgcourier of the test's own. */
struct package {
        char *folder; /* of everything */
        char *prefix;
        char *modules;
        char *log;
};

static void run(const struct package *package, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line of shell with `prefix`, `modules` and `folder` set. */
static void run(const struct package *package, const char *format, ...)
{
        const char *argv[] = {"sh", "-ec", NULL, "sh", package->folder, NULL};
        char *body;
        char *script;
        va_list arguments;

        va_start(arguments, format);
        body = xvasprintf(format, arguments);
        va_end(arguments);
        script = xasprintf("folder=$1; prefix=$folder/usr; lib=$prefix/" PGCOURIER_LIBDIR "; "
                           "modules=$lib/pgcourier/modules; "
                           "source='" PGCOURIER_SOURCE_FOLDER "'; umask 022\n%s",
            body);
        argv[2] = script;
        if (process_run(argv, package->log, false) != 0)
                test_abort("%s failed: %s", body, read_file(package->log));
        free(script);
        free(body);
}

static void package_install(struct package *package)
{
        char *program;

        package->folder = temp_folder();
        package->prefix = xasprintf("%s/usr", package->folder);
        package->modules = xasprintf("%s/" PGCOURIER_LIBDIR "/pgcourier/modules", package->prefix);
        package->log = xasprintf("%s/log", package->folder);
        /* Without what is ours: the folder is for modules of others. */
        run(package, "cmake --install '%s' --prefix $prefix; rm -f $modules/kafka.so",
            PGCOURIER_BUILD_FOLDER);
        program = xasprintf("%s/bin/pgcourier", package->prefix);
        setenv("PGCOURIER", program, 1);
        free(program);
}

static void package_free(struct package *package)
{
        free(package->folder);
        free(package->prefix);
        free(package->modules);
        free(package->log);
}

static void build_example(const struct package *package)
{
        run(package, "PKG_CONFIG_PATH=$lib/pkgconfig; export PKG_CONFIG_PATH\n"
                     "cp -r \"$source\"/examples/sink-file $folder/example; cd $folder/example\n"
                     "make CFLAGS='-O0 -Werror'; make install");
}

/* The config file of a module's sink; free the path. */
static char *write_config(const struct package *package, const char *module)
{
        char *text = xasprintf("postgres: {dsn: \"host=/nonexistent\"}\n"
                               "relay: {modules: %s}\n"
                               "sinks:\n"
                               "  - name: own\n"
                               "    topics: [\"**\"]\n"
                               "    module: %s\n",
            package->modules, module);
        char *path = program_file("config.yaml", text, strlen(text));

        free(text);
        return path;
}

static struct program_run check(const struct package *package, const char *module)
{
        char *path = write_config(package, module);
        struct program_run result = program_run(NULL, "check", "-c", path, NULL);

        free(path);
        return result;
}

static void expect_refused(
    const struct package *package, const char *module, int code, const char *reason)
{
        struct program_run result = check(package, module);

        cr_expect_eq(result.code, code, "%s: exit code %d: %s%s", reason, result.code, result.out,
            result.err);
        cr_expect_not_null(
            strstr(result.out, reason), "%s not in:\n%s%s", reason, result.out, result.err);
        program_run_free(&result);
}

/* ---- the example ---------------------------------------------------------------------------- */

static struct relay_process *start_archive(
    const struct relay_fixture *fixture, const struct package *package, const char *path)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {modules: %s}\n"
                           "sinks:\n"
                           "  - name: archive\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    module: {file: sink-file.so, options: {path: %s}}\n",
            fixture->relay, package->modules, path);
}

static void publish_some(PGconn *connection, int first, int n)
{
        char *sql = xasprintf(
            "SELECT courier.publish('orders.created', json_build_object('n', n), key => (n %% "
            "7)::text, type => 'O', headers => '{\"a\": \"b\\\"c\"}') FROM generate_series(%d, %d) "
            "AS n",
            first, first + n - 1);

        database_exec(connection, sql);
        free(sql);
}

struct awaited_events {
        const char *path;
        int n;
};

/* How many of the events 1 to n stand in the file, however often. */
static int count_events(const char *path, int n)
{
        static const char before[] = "\"payload\": {\"n\" : ";
        char *text = read_file(path);
        bool *seen = xcalloc((size_t)n + 1, sizeof *seen);
        int n_seen = 0;

        for (const char *at = text; (at = strstr(at, before)) != NULL; at++) {
                long number = strtol(at + sizeof before - 1, NULL, 10);
                if (number < 1 || number > n || seen[number])
                        continue;
                seen[number] = true;
                n_seen++;
        }
        free(seen);
        free(text);
        return n_seen;
}

static bool has_events(void *context)
{
        const struct awaited_events *awaited = context;

        return count_events(awaited->path, 1000) >= awaited->n;
}

static void await_events(const char *path, int n)
{
        struct awaited_events awaited = {.path = path, .n = n};

        wait_until(has_events, &awaited, 30000, "events in the sink's file");
}

/* Each of `n` events is there; of each key the new ones come in order. */
static void expect_all(const char *path, int n)
{
        char *text = read_file(path);
        bool *seen = xcalloc((size_t)n + 1, sizeof *seen);
        int last[7] = {0};
        int n_seen = 0;
        char *rest = text;
        char *line;

        while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
                json_error_t error;
                json_t *event = json_loads(line, 0, &error);
                json_int_t number =
                    json_integer_value(json_object_get(json_object_get(event, "payload"), "n"));
                cr_assert(number > 0 && number <= n, "not an event: %s", line);
                cr_expect_str_eq(
                    json_string_value(json_object_get(json_object_get(event, "headers"), "a")),
                    "b\"c");
                if (!seen[number]) {
                        cr_expect_gt(number, last[number % 7], "out of order: %s", line);
                        last[number % 7] = (int)number;
                        seen[number] = true;
                        n_seen++;
                }
                json_decref(event);
        }
        cr_expect_eq(n_seen, n, "%d of %d events arrived", n_seen, n);
        free(seen);
        free(text);
}

Test(modules, lose_nothing_when_the_relay_is_killed)
{
        struct relay_fixture fixture;
        struct package package;
        struct relay_process *relay;
        char *path;

        package_install(&package);
        run(&package,
            "cmake -S \"$source\"/examples/sink-file -B $folder/build -DCMAKE_BUILD_TYPE=Debug "
            "-DCMAKE_PREFIX_PATH=$prefix -DCMAKE_C_FLAGS=-Werror\n"
            "cmake --build $folder/build; cmake --install $folder/build");
        path = xasprintf("%s/events.jsonl", package.folder);
        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_archive(&fixture, &package, path);
        relay_wait_for_log(relay,
            "event=module_loaded sink=archive file=sink-file.so kind=file version=1.0.0", 30000);
        for (int first = 1; first < N_EVENTS / 2; first += 20)
                publish_some(fixture.admin, first, 20);
        await_events(path, 40);
        relay_kill(relay);
        /* As if it had been killed within a line. */
        run(&package, "printf '{\"id\": \"broken' >>$folder/events.jsonl");
        publish_some(fixture.admin, N_EVENTS / 2 + 1, N_EVENTS / 2);
        relay_start_again(relay);
        await_events(path, N_EVENTS);
        relay_stop(relay);

        run(&package, "grep -c 'broken$' $folder/events.jsonl; sed -i '/broken$/d' "
                      "$folder/events.jsonl");
        expect_all(path, N_EVENTS);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        free(path);
        package_free(&package);
}

Test(modules, follow_a_file_that_is_moved_away_and_wait_for_one_that_cannot_be_written)
{
        struct relay_fixture fixture;
        struct package package;
        struct relay_process *relay;
        struct program_run resumed;
        char *path;
        char *moved;

        package_install(&package);
        build_example(&package);
        run(&package, "mkdir $folder/out");
        path = xasprintf("%s/out/events.jsonl", package.folder);
        moved = xasprintf("%s/out/events.jsonl.1", package.folder);
        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_archive(&fixture, &package, path);
        publish_some(fixture.admin, 1, 10);
        await_events(path, 10);
        run(&package, "mv $folder/out/events.jsonl $folder/out/events.jsonl.1");
        publish_some(fixture.admin, 11, 10);
        await_events(path, 10);
        cr_expect_eq(count_events(moved, 10), 10);

        run(&package, "mv $folder/out $folder/away");
        publish_some(fixture.admin, 21, 10);
        relay_wait_for_log(relay, "event=sink_down sink=archive", 30000);
        run(&package, "mv $folder/away $folder/out");
        resumed = program_run(NULL, "resume", "archive", "--dsn", fixture.relay, NULL);
        cr_expect_eq(resumed.code, 0, "%s", resumed.err);
        program_run_free(&resumed);
        await_events(path, 20);
        cr_expect_eq(relay_count_in_log(relay, "event=delivery_failed"), 0, "it cost an attempt");
        relay_stop(relay);
        run(&package, "cat $folder/out/events.jsonl >>$folder/out/events.jsonl.1");
        expect_all(moved, 30);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        free(moved);
        free(path);
        package_free(&package);
}

Test(modules, are_named_by_check_and_version)
{
        struct package package;
        struct program_run result;
        char *expected;

        package_install(&package);
        build_example(&package);
        result = check(&package, "{file: sink-file.so, options: {path: /tmp/x, fsync: false}}");
        cr_expect_eq(result.code, 0, "%s%s", result.out, result.err);
        cr_expect_not_null(
            strstr(result.out, "ok    sink own: file, topics **\n"), "%s", result.out);
        program_run_free(&result);

        run(&package, "echo x >$modules/empty.so");
        result = program_run(NULL, "version", "--modules", package.modules, NULL);
        expected = xasprintf("modules   interface 1, 2 in %s\n", package.modules);
        cr_expect_not_null(strstr(result.out, expected), "%s", result.out);
        cr_expect_not_null(
            strstr(result.out, "\n          sink-file.so: kind file, version 1.0.0\n"), "%s",
            result.out);
        cr_expect_not_null(
            strstr(result.out, "\n          empty.so: refused: the module "), "%s", result.out);
        program_run_free(&result);
        free(expected);

        result = program_run(NULL, "version", "--json", "--modules", package.modules, NULL);
        cr_expect_not_null(
            strstr(
                result.out, "{\"file\":\"sink-file.so\",\"kind\":\"file\",\"version\":\"1.0.0\"}"),
            "%s", result.out);
        program_run_free(&result);
        package_free(&package);
}

Test(modules, refuse_options_where_they_stand)
{
        struct package package;

        package_install(&package);
        build_example(&package);
        expect_refused(&package, "{file: sink-file.so, options: {path: /tmp/x, fsnyc: true}}", 3,
            "config.yaml:6:58: sinks[0].module.options.fsnyc: is not a known option; did you mean "
            "fsync? allowed: path, fsync");
        expect_refused(&package, "{file: sink-file.so, options: {path: /tmp/x, fsync: yes}}", 3,
            "sinks[0].module.options.fsync: is neither true nor false");
        expect_refused(&package, "{file: sink-file.so, options: {path: here}}", 3,
            "sinks[0].module.options.path: is not an absolute path");
        expect_refused(&package, "{file: sink-file.so}", 3,
            "sinks[0].module.options: path is required: the file to append to");
        expect_refused(&package, "{file: sink-file.so, options: {path: [/tmp/x]}}", 3,
            "sinks[0].module.options.path: must be a single value; found a list");
        expect_refused(&package, "{file: sink-file.so, options: {Path: /tmp/x}}", 3,
            "sinks[0].module.options.Path: is not the name of an option");
        expect_refused(&package, "{file: sink-file.so, options: {path: }}", 3,
            "sinks[0].module.options.path: is empty");
        expect_refused(&package, "{file: sink-file.so, options: {path: \"${NOT_SET}\"}}", 3,
            "the environment variable NOT_SET is not set");
        expect_refused(&package, "{file: sink-file.so, options: {path: \"/a\\nb\"}}", 3,
            "sinks[0].module.options.path: holds a line break");
        expect_refused(&package, "{file: sink-file.so, options: [path]}", 3,
            "sinks[0].module.options: must be a mapping of names to single values");
        package_free(&package);
}

/* ---- what is not loaded --------------------------------------------------------------------- */

static void build_variant(const struct package *package, const char *name, const char *definitions)
{
        run(package,
            "gcc -std=gnu17 -fPIC -shared -Wall -Wextra -Wno-unused -I $prefix/include %s "
            "-o $modules/%s \"$source\"/tests/integration/modules/variant.c",
            definitions, name);
}

static const struct {
        const char *file;
        const char *definitions;
        const char *reason;
} unfit[] = {
    {"a.so", "-DOTHER_INTERFACE",
        "is for version 2 of the interface, this pgcourier (0.1.0) has version 1: build it with "
        "the headers of this one"},
    {"b.so", "-DOTHER_SIZE", "was compiled with a struct sink_ops of "},
    {"c.so", "-DNO_SYMBOL", "is not a module of pgcourier: it lacks the symbol pgcourier_module"},
    {"d.so", "-DCALLS_NOTHING", "undefined symbol: function_that_is_nowhere"},
    {"e.so", "-DNO_DELIVER", "lacks a member of its sink_ops: deliver"},
    {"f.so", "-DKIND='\"redis\"'", "calls its kind redis, which is one of pgcourier's own"},
    {"g.so", "-DKIND='\"my kind\"'", "has an invalid name for its kind"},
    {"null.so", "", "null.so: kind null, version 0.0.1"},
    {"other.so", "", "calls its kind null, as null.so does: rename one of them"},
};

Test(modules, are_refused_if_they_were_built_for_another_version)
{
        struct package package;
        struct program_run result;
        char *line;
        char *end;

        package_install(&package);
        for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++)
                build_variant(&package, unfit[i].file, unfit[i].definitions);
        result = program_run(NULL, "version", "--modules", package.modules, NULL);
        line = strstr(result.out, "\nmodules   ");
        cr_assert_not_null(line, "%s%s", result.out, result.err);
        for (size_t i = 0; i < sizeof unfit / sizeof *unfit; i++) {
                line = strchr(line + 1, '\n');
                cr_assert_not_null(line);
                end = strchrnul(line + 1, '\n');
                cr_expect_not_null(
                    memmem(line, (size_t)(end - line), unfit[i].reason, strlen(unfit[i].reason)),
                    "%s not in %s", unfit[i].reason, line);
        }
        program_run_free(&result);
        expect_refused(&package, "{file: a.so}", 3, unfit[0].reason);
        package_free(&package);
}

Test(modules, are_held_to_the_contract)
{
        struct package package;

        package_install(&package);
        build_variant(&package, "null.so", "");
        build_variant(&package, "silent.so", "-DSILENT");
        build_variant(&package, "raw.so", "-DUNINITIALISED");
        expect_refused(&package, "{file: silent.so}", 5, "the kind null did not say why");
        expect_refused(&package, "{file: raw.so}", 5,
            "the kind null has not called sink_init() in its open()");
        expect_refused(&package, "{file: null.so, receivers: table}", 3,
            "the sink own has module.receivers: table, but the module null.so (null) does not "
            "deliver to receivers");
        expect_refused(&package, "{file: null.so}", 0, "ok    sink own: null, topics **\n");
        package_free(&package);
}

Test(modules, are_refused_where_others_could_have_put_them)
{
        struct package package;

        package_install(&package);
        build_variant(&package, "null.so", "");
        expect_refused(&package, "{file: none.so}", 3, "none.so cannot be read: No such file");
        expect_refused(&package, "{file: ../null.so}", 3,
            "sinks[0].module.file: is not the name of a module; allowed: a file name without a "
            "path");
        run(&package, "chmod 775 $modules/null.so");
        expect_refused(&package, "{file: null.so}", 7,
            "null.so is writable by its group, who could run any code as pgcourier");
        run(&package, "chmod 755 $modules/null.so; chmod 777 $modules");
        expect_refused(&package, "{file: null.so}", 7, "modules is writable by every user");
        run(&package, "chmod 755 $modules; ln -s null.so $modules/link.so");
        expect_refused(&package, "{file: link.so}", 3, "link.so is not a regular file");
        if (geteuid() == 0) {
                run(&package, "chown 65534 $modules/null.so");
                expect_refused(&package, "{file: null.so}", 7, "null.so belongs to user 65534");
                run(&package, "chown 0 $modules/null.so; chown 65534 $modules");
                expect_refused(&package, "{file: null.so}", 7, "modules belongs to user 65534");
                run(&package, "chown 0 $modules");
        }
        expect_refused(&package, "{file: null.so}", 0, "ok    sink own: null");
        run(&package, "mv $modules $prefix/elsewhere");
        expect_refused(&package, "{file: null.so}", 3, "the folder of modules ");
        package_free(&package);
}

/* ---- receivers of a table ------------------------------------------------------------------- */

static char *write_table_config(const struct relay_fixture *fixture, const struct package *package)
{
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "relay: {modules: %s}\n"
                               "sinks:\n"
                               "  - {name: own, topics: [\"**\"], start: beginning,\n"
                               "     module: {file: null.so, receivers: table}}\n",
            fixture->dsn, package->modules);
        char *path = program_file("table.yaml", text, strlen(text));

        free(text);
        return path;
}

static void expect_error(struct program_run result, int code, const char *words)
{
        cr_expect_eq(result.code, code, "exit code %d: %s", result.code, result.err);
        cr_expect_not_null(strstr(result.err, words), "%s not in %s", words, result.err);
        program_run_free(&result);
}

Test(modules, deliver_to_receivers_of_a_table_and_end_with_a_broken_contract)
{
        struct relay_fixture fixture;
        struct package package;
        char *path;

        package_install(&package);
        build_variant(&package, "null.so", "-DFANS_OUT");
        relay_fixture_begin(&fixture, postgres_shared());
        path = write_table_config(&fixture, &package);
        expect_error(
            program_run(NULL, "receiver", "add", "acme", "--url", "ftp://box", "-c", path, NULL), 2,
            "the URL is none of ours");
        expect_error(program_run(NULL, "receiver", "add", "acme", "--url", "https://box", "--start",
                         "beginning", "-c", path, NULL),
            0, "");
        expect_error(program_run(NULL, "receiver", "test", "acme", "-c", path, NULL), 5,
            "rejected: box wants nothing");
        publish_some(fixture.admin, 1, 3);
        expect_error(program_run(NULL, "run", "--once", "-c", path, NULL), 0, "event=stopped");
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM courier.dead_letter "
                         "WHERE topic = 'orders.created' AND error ~ 'box wants nothing'"),
            3);
        build_variant(&package, "null.so", "-DFINISHES_AT_ONCE");
        expect_error(
            program_run(NULL, "receiver", "test", "acme", "-c", path, NULL), 128 + 6, "is_calling");
        relay_fixture_end(&fixture);
        free(path);
        package_free(&package);
}

/* The module rejects what is more than fits into a turn of the loop. */
Test(modules, that_are_slow_to_begin_leave_the_turn_to_others)
{
        struct relay_fixture fixture;
        struct package package;
        char *config;
        char *path;

        package_install(&package);
        build_variant(&package, "null.so", "-DSLOW");
        relay_fixture_begin(&fixture, postgres_shared());
        config = xasprintf(
            "postgres: {dsn: \"%s\"}\n"
            "relay: {modules: %s}\n"
            "sinks:\n"
            "  - {name: one, topics: [\"**\"], start: beginning, module: {file: null.so}}\n"
            "  - {name: many, topics: [\"**\"], module: {file: null.so, receivers: table}}\n",
            fixture.dsn, package.modules);
        path = program_file("slow.yaml", config, strlen(config));
        database_exec(fixture.admin, "INSERT INTO courier.receiver (sink, name, url, start)"
                                     " SELECT 'many', 'r' || n, 'https://box', 'beginning'"
                                     " FROM generate_series(1, 5) AS n");
        publish_some(fixture.admin, 1, 40);
        expect_error(program_run(NULL, "run", "--once", "-c", path, NULL), 0, "event=stopped");
        cr_expect_eq(
            database_integer(fixture.admin, "SELECT count(*) FROM courier.dead_letter"), 0);
        relay_fixture_end(&fixture);
        free(path);
        free(config);
        package_free(&package);
}

/* Its dispatcher has given its shards back, and waits for the sink. */
Test(modules, may_close_late_while_a_session_is_lost)
{
        static const char config[] =
            "postgres: {dsn: \"%s\"}\n"
            "relay: {modules: %s}\n"
            "sinks:\n"
            "  - {name: own, topics: [\"**\"], shards: 2, max_in_flight: %d,"
            " module: {file: null.so}}\n";
        struct relay_fixture fixture;
        struct package package;
        struct relay_process *relay;

        package_install(&package);
        build_variant(&package, "null.so", "-DCLOSES_LATE");
        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_start(config, fixture.relay, package.modules, 100);
        await_in_database(fixture.admin, "SELECT count(*) = 2 FROM courier.cursor WHERE epoch = 1",
            "both shards are owned");
        relay_reload(relay, config, fixture.relay, package.modules, 50);
        await_in_database(fixture.admin, "SELECT count(*) = 2 FROM courier.cursor WHERE epoch = 2",
            "the new sink owns both");
        cr_expect_eq(relay_count_in_log(relay, "event=reloaded"), 0);
        database_exec(fixture.admin,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'relay'"
            " AND datname = current_database()");
        await_in_database(fixture.admin, "SELECT count(*) = 2 FROM courier.cursor WHERE epoch = 3",
            "both are owned again");
        relay_wait_for_log(relay, "event=reloaded", 30000);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        package_free(&package);
}

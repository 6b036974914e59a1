/* `pgcourier check`: each thing that would keep `run` from working is found, named and remedied. */
#include "base/alloc.h"
#include "support/dns_server.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONE_SINK "sinks: [{name: out, topics: ['**'], stdout: {}}]\n"

/* A configuration file; free the path. */
static char *write_config(const char *dsn, const char *rest)
{
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n%s", dsn, rest);
        char *path = program_file("config.yaml", text, strlen(text));

        free(text);
        return path;
}

static struct program_run check_connect(const char *dsn, const char *rest)
{
        char *path = write_config(dsn, rest);
        struct program_run run = program_run(NULL, "check", "-c", path, "--connect", NULL);

        free(path);
        return run;
}

/* `finding` stands in standard output. Frees the run. */
static void expect_finding(struct program_run run, int code, const char *finding)
{
        cr_expect_eq(run.code, code, "exit code %d: %s%s", run.code, run.out, run.err);
        cr_expect_not_null(strstr(run.out, finding), "%s not in:\n%s%s", finding, run.out, run.err);
        if (code == 0)
                cr_expect_str_empty(run.err);
        else
                cr_expect_not_null(strstr(run.err, "checks failed\n"), "%s", run.err);
        program_run_free(&run);
}

Test(check, reads_the_file_without_connecting)
{
        char *path = write_config("host=/nonexistent",
            "sinks:\n"
            "  - {name: out, topics: ['orders.*', users], stdout: {}}\n");
        struct program_run run = program_run(NULL, "check", "-c", path, NULL);
        char *expected = xasprintf("ok    config: %s is valid\n"
                                   "ok    sink out: stdout, topics orders.*, users\n",
            path);

        cr_expect_str_eq(run.out, expected);
        cr_expect_eq(run.code, 0);
        cr_expect_str_empty(run.err);
        free(expected);
        free(path);
        program_run_free(&run);
}

Test(check, refuses_a_named_pipe_that_libpq_would_wait_for)
{
        char *folder = temp_folder();
        char *pipe = xasprintf("%s/pipe", folder);
        char *dsn = xasprintf("host=/nonexistent sslrootcert=%s", pipe);
        char *finding = xasprintf(
            "the dsn: sslrootcert: '%s' is a named pipe; it must be a regular file", pipe);

        cr_assert_eq(mkfifo(pipe, 0600), 0);
        expect_finding(check_connect(dsn, ONE_SINK), 3, finding);
        free(finding);
        free(dsn);
        free(pipe);
        free(folder);
}

Test(check, says_where_the_file_is_wrong)
{
        char *path = program_file("config.yaml", "postgers: {}\n", 13);

        expect_finding(program_run(NULL, "check", "-c", path, NULL), 3, "config.yaml:1:");
        expect_finding(program_run(NULL, "check", "-c", "/nonexistent", NULL), 3,
            "fail  config: /nonexistent");
        free(path);
}

Test(check, accepts_a_good_setup)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *relay_dsn = dsn_as_user(dsn, "relay");
        static const char *const findings[] = {"ok    config: ", "ok    postgres: version ",
            "(user relay, database ", "ok    session: the connection is to the server itself\n",
            "ok    schema: version ", "ok    rights: relay may read events and move cursors\n",
            "ok    doorbell: publishing rings it\n",
            "ok    schedules: 0 recurring events, no errors\n",
            "ok    sink out: stdout: can be reached\n"};
        struct program_run run = check_connect(relay_dsn, ONE_SINK);

        cr_expect_eq(run.code, 0, "%s", run.err);
        for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
                cr_expect_not_null(
                    strstr(run.out, findings[i]), "%s not in:\n%s", findings[i], run.out);
        cr_expect_null(strstr(run.out, "warn"), "%s", run.out);
        cr_expect_null(strstr(run.out, "fail"), "%s", run.out);
        program_run_free(&run);
        free(relay_dsn);
        free(dsn);
}

Test(check, names_each_missing_right_and_the_remedy)
{
        static const struct {
                const char *sql;
                const char *finding;
        } cases[] = {
            {"REVOKE SELECT ON courier.outbox FROM courier_relay",
                "fail  rights: the role lacks SELECT on courier.outbox\n"
                "      GRANT courier_relay TO \"relay\"\n"},
            {"REVOKE SELECT ON courier.outbox_id_seq FROM courier_relay",
                "fail  rights: the role lacks SELECT on courier.outbox_id_seq\n"},
            {"REVOKE SELECT ON courier.cursor FROM courier_relay",
                "fail  rights: the role lacks SELECT on courier.cursor\n"},
            {"REVOKE INSERT ON courier.cursor FROM courier_relay",
                "fail  rights: the role lacks INSERT on courier.cursor\n"},
            {"REVOKE UPDATE ON courier.cursor FROM courier_relay",
                "fail  rights: the role lacks UPDATE on courier.cursor\n"},
            {"REVOKE INSERT ON courier.sink FROM courier_relay",
                "fail  rights: the role lacks all on courier.sink\n"},
            {"REVOKE EXECUTE ON FUNCTION courier.note_sink FROM courier_relay",
                "fail  rights: the role lacks EXECUTE on courier.note_sink()\n"},
            {"REVOKE EXECUTE ON FUNCTION courier.tick() FROM courier_relay",
                "fail  rights: the role lacks EXECUTE on courier.tick()\n"},
            {"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
                "fail  rights: the role lacks EXECUTE on pg_control_system()\n"
                "      GRANT EXECUTE ON FUNCTION pg_control_system() TO courier_relay\n"},
            {"REVOKE SELECT ON courier.schema_version FROM courier_relay",
                "fail  schema: permission denied for table schema_version\n"
                "      GRANT courier_relay TO \"relay\"\n"},
            {"REVOKE USAGE ON SCHEMA courier FROM courier_relay",
                "fail  rights: the role may not use schema courier\n"
                "      GRANT courier_relay TO \"relay\"\n"},
        };
        char *dsn = postgres_new_database(postgres_shared());
        char *relay_dsn = dsn_as_user(dsn, "relay");

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                database_exec_once(dsn, cases[i].sql);
                expect_finding(check_connect(relay_dsn, ONE_SINK), 7, cases[i].finding);
        }
        free(relay_dsn);
        free(dsn);
}

/* The command that a role which may not is told works as it stands. */
static void expect_migration_as_owner(const char *empty_dsn)
{
        static const char words[] =
            "relay may not make it; its owner may: `pgcourier migrate --dsn '";
        char *relay_dsn = dsn_as_user(empty_dsn, "relay password=hunter2");
        struct program_run run = check_connect(relay_dsn, ONE_SINK), made;
        char *told = strstr(run.out, words);

        cr_assert_not_null(told, "%s", run.out);
        cr_expect_null(strstr(run.out, "hunter2"), "%s", run.out);
        told += strlen(words);
        told[strcspn(told, "'")] = '\0';
        cr_expect_null(strstr(told, "user=relay"), "%s", told);
        made = program_run(NULL, "migrate", "--dsn", told, NULL);
        cr_expect_eq(made.code, 0, "%s", made.err);
        program_run_free(&made);
        program_run_free(&run);
        free(relay_dsn);
}

Test(check, says_what_a_login_lacks)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *nobody_dsn = dsn_as_user(dsn, "nobody_here");
        char *nowhere_dsn = xasprintf("%s dbname='no where'", dsn);

        expect_finding(check_connect(nobody_dsn, ONE_SINK), 4,
            "      Make the role as an administrator: CREATE ROLE \"nobody_here\" LOGIN; and, when "
            "the "
            "schema is there (pgcourier migrate makes it): GRANT courier_relay TO "
            "\"nobody_here\".");
        expect_finding(check_connect(nowhere_dsn, ONE_SINK), 4,
            "      The database does not exist. Make it on that server, as a role with CREATEDB: "
            "createdb 'no where'; or ");
        free(nowhere_dsn);
        free(nobody_dsn);
        free(dsn);
}

Test(check, finds_a_schema_that_is_missing_or_too_new)
{
        char *empty_dsn = postgres_new_empty_database(postgres_shared());
        char *dsn = postgres_new_database(postgres_shared());

        database_exec_once(
            dsn, "INSERT INTO courier.schema_version (version, name) VALUES (99, 'later')");

        expect_finding(check_connect(empty_dsn, ONE_SINK), 6,
            "fail  schema: schema courier is missing in this database: run `pgcourier migrate -c "
            "/");
        expect_migration_as_owner(empty_dsn);
        expect_finding(check_connect(dsn, ONE_SINK), 6, "upgrade pgcourier\n");
        free(empty_dsn);
        free(dsn);
}

#define RING                                                                                       \
        "ALTER TABLE courier.outbox ALTER txid SET DEFAULT CASE "                                  \
        "WHEN pg_catalog.pg_try_advisory_xact_lock_shared(1668248946, 0) "                         \
        "OR pg_catalog.current_setting('courier.has_rung', true) = 'yes' "                         \
        "THEN pg_catalog.pg_current_xact_id() ELSE courier.ring() END"

Test(check, warns_of_a_doorbell_that_does_not_ring_unless_polling)
{
        char *dsn = postgres_new_database(postgres_shared());

        database_exec_once(
            dsn, "ALTER TABLE courier.outbox ALTER txid SET DEFAULT pg_current_xact_id()");
        expect_finding(check_connect(dsn, ONE_SINK), 0,
            "warn  doorbell: the default of courier.outbox.txid does not ring: events wait for the "
            "sweep\n      " RING "\n");
        expect_finding(check_connect(dsn, "relay: {wakeup: poll}\n" ONE_SINK), 0,
            "ok    doorbell: not needed: wakeup is poll\n");
        database_exec_once(dsn, "ALTER TABLE courier.outbox ALTER txid SET DEFAULT courier.ring()");
        expect_finding(check_connect(dsn, ONE_SINK), 0,
            "warn  doorbell: the default of courier.outbox.txid has no condition: every "
            "transaction notifies\n");
        database_exec_once(dsn, RING);
        expect_finding(check_connect(dsn, ONE_SINK), 0, "ok    doorbell: publishing rings it\n");
        free(dsn);
}

Test(check, warns_of_schedules_that_fail)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *relay_dsn = dsn_as_user(dsn, "relay");

        database_exec_once(dsn, "SELECT courier.schedule(name, 't', '{}', every => '1 day')"
                                " FROM unnest('{good,bad}'::text[]) AS name");
        expect_finding(check_connect(relay_dsn, ONE_SINK), 0,
            "ok    schedules: 2 recurring events, no errors\n");
        database_exec_once(dsn, "UPDATE courier.schedule SET last_error = 'no' WHERE name = 'bad'");
        expect_finding(check_connect(relay_dsn, ONE_SINK), 0,
            "warn  schedules: \"bad\" does not tick: no\n"
            "      Correct it with courier.schedule(), or remove it: `pgcourier schedule remove "
            "bad -c /");
        free(relay_dsn);
        free(dsn);
}

Test(check, finds_types_of_schedules_and_taps_that_publishing_refuses)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *relay_dsn = dsn_as_user(dsn, "relay");
        static const char *const findings[] = {
            "fail  types: outbox.types is strict, so publishing refuses the type \"it's b\" of"
            " schedule s, tap o\n"
            "      Add it to the catalogue: `pgcourier type set 'it'\\''s b' -c /",
            "refuses the type \"delete\" of tap orders\n",
            "refuses the type \"update\" of tap orders\n"};
        struct program_run run;

        database_exec_once(dsn,
            "SET client_min_messages = error;"
            "INSERT INTO courier.event_type VALUES ('insert'), ('a');"
            "SELECT courier.schedule('s', 't', '1', every => '1 day', type => 'it''s b');"
            "SELECT courier.schedule('known', 't', '1', every => '1 day', type => 'a');"
            "SELECT courier.schedule('ours', 't', '1', every => '1 day', type => 'courier.x');"
            "SELECT courier.schedule('none', 't', '1', every => '1 day');"
            "CREATE TABLE orders (id integer PRIMARY KEY, kind text);"
            "SELECT courier.capture('orders', '{id}');"
            "SELECT courier.capture('orders', '{id}', name => 'o', type => '''it''''s b''');"
            "SELECT courier.capture('orders', '{id}', name => 'k', type => 'new.kind')");
        run = check_connect(relay_dsn, ONE_SINK);
        cr_expect_eq(run.code, 0, "%s", run.out);
        cr_expect_null(strstr(run.out, "types: "), "%s", run.out);
        program_run_free(&run);

        run = check_connect(relay_dsn, ONE_SINK "outbox: {types: strict}\n");
        cr_expect_eq(run.code, 3, "%s", run.out);
        for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
                cr_expect_not_null(
                    strstr(run.out, findings[i]), "%s not in:\n%s", findings[i], run.out);
        cr_expect_not_null(strstr(run.err, "3 checks failed\n"), "%s", run.err);
        program_run_free(&run);

        database_exec_once(dsn, "SELECT courier.require_known_types(true)");
        expect_finding(check_connect(relay_dsn, ONE_SINK), 3, findings[1]);
        database_exec_once(
            dsn, "INSERT INTO courier.event_type VALUES ('update'), ('delete'), ('it''s b')");
        expect_finding(check_connect(relay_dsn, ONE_SINK), 0, "ok    types: strict; ");
        free(relay_dsn);
        free(dsn);
}

Test(check, still_looks_at_the_sinks_when_postgres_is_away)
{
        struct program_run run = check_connect("host=/nonexistent", ONE_SINK);

        cr_expect_not_null(strstr(run.out, "ok    sink out: "), "%s", run.out);
        expect_finding(run, 4, "fail  postgres: cannot connect to PostgreSQL: ");
}

Test(check, finds_a_sink_that_cannot_be_reached)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *sinks = xasprintf("sinks:\n"
                                "  - {name: away, topics: ['**'], redis: {url: "
                                "'redis://127.0.0.1:%u'}}\n"
                                "  - {name: here, topics: ['**'], stdout: {}}\n",
            free_port());
        struct program_run run = check_connect(dsn, sinks);

        cr_expect_not_null(strstr(run.out, "ok    sink here: "), "%s", run.out);
        expect_finding(run, 5, "fail  sink away: redis: ");
        free(sinks);
        free(dsn);
}

Test(check, leaves_out_the_sinks_that_other_relays_serve)
{
        struct program_run run = check_connect("host=/nonexistent",
            "relay: {sinks: ['o*']}\n"
            "sinks:\n"
            "  - {name: cache, topics: ['*'], redis: {url: 'redis://127.0.0.1:1'}}\n"
            "  - {name: out, topics: ['*'], stdout: {}}\n");

        cr_expect_null(strstr(run.out, "sink cache"), "%s", run.out);
        expect_finding(run, 4, "ok    sink out: stdout: can be reached");
}

Test(check, finds_a_filter_that_postgresql_does_not_accept)
{
        char *dsn = postgres_new_database(postgres_shared());
        struct program_run run = check_connect(dsn,
            "sinks:\n"
            "  - {name: good, topics: ['**'], filter: '$.amount > 100', stdout: {}}\n"
            "  - {name: bad, topics: ['**'], filter: '$.amount >', stdout: {}}\n");

        cr_expect_not_null(
            strstr(run.out, "ok    filter: sink good: is a jsonpath predicate\n"), "%s", run.out);
        expect_finding(run, 3,
            "fail  filter: sink bad: PostgreSQL does not accept it as a jsonpath predicate: "
            "syntax error");
        free(dsn);
}

/* Without care the connection would become "standard output", and take the findings for queries. */
/* A name that only the server of the configuration knows; and none that it would answer. */
Test(check, asks_the_name_servers_of_the_configuration)
{
        struct dns_server *names = dns_server_start();
        struct http_receiver *receiver = http_receiver_start(NULL, NULL);
        char *rest = xasprintf("relay: {dns_servers: ['%s']}\n"
                               "sinks: [{name: hook, topics: ['*'], "
                               "http: {url: 'http://receiver.test:%u/'}}]\n",
            dns_server_address(names), http_receiver_port(receiver));
        struct program_run run;

        dns_server_answer(names, "127.0.0.1");
        run = check_connect("host=/nonexistent", rest);
        expect_finding(run, 4, "ok    sink hook: http: can be reached\n");
        dns_server_answer(names, NULL);
        run = check_connect("host=/nonexistent", rest);
        expect_finding(run, 4, "fail  sink hook: http: the host of the sink's url has no address");
        free(rest);
        http_receiver_destroy(receiver);
        dns_server_destroy(names);
}

Test(check, writes_no_finding_into_the_connection_when_its_output_is_closed)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *config_path = write_config(dsn, ONE_SINK);
        char *folder = temp_folder();
        char *output_path = xasprintf("%s/output", folder);
        const char *argv[] = {"sh", "-c", "exec \"$PGCOURIER\" check --connect -c \"$1\" >&-", "sh",
            config_path, NULL};
        int code = process_run(argv, output_path, false);
        char *output = read_file(output_path);

        cr_expect_neq(code, 0);
        cr_expect_not_null(strstr(output, "cannot write to standard output"), "%s", output);
        cr_expect_null(strstr(output, "lost the connection"), "%s", output);
        free(output);
        free(output_path);
        free(folder);
        free(config_path);
        free(dsn);
}

Test(check, finds_a_standby)
{
        struct postgres *postgres = postgres_start();
        char *dsn = postgres_new_database(postgres);
        char *signal_path = xasprintf("%s/data/standby.signal", postgres->folder);
        FILE *signal_file;

        postgres_stop(postgres);
        signal_file = fopen(signal_path, "w");
        cr_assert_not_null(signal_file);
        fclose(signal_file);
        postgres_start_again(postgres);

        expect_finding(check_connect(dsn, ONE_SINK), 4,
            "fail  primary: this server is a standby: cursors cannot be written\n");
        postgres_stop(postgres);
        free(signal_path);
        free(dsn);
}

Test(check, prints_its_findings_for_programs)
{
        char *dsn = postgres_new_empty_database(postgres_shared());
        char *path = write_config(dsn, ONE_SINK);
        struct program_run run =
            program_run(NULL, "check", "-c", path, "--connect", "--json", NULL);
        json_t *whole = json_loads(run.out, 0, NULL);
        bool found = false;
        size_t i;
        json_t *finding;

        cr_assert_not_null(whole, "%s", run.out);
        cr_expect(json_is_false(json_object_get(whole, "ok")));
        cr_expect_eq(json_integer_value(json_object_get(whole, "exit_code")), 6);
        json_array_foreach(json_object_get(whole, "checks"), i,
            finding) if (strcmp(json_string_value(json_object_get(finding, "check")), "schema") ==
                         0)
        {
                const char *result = json_string_value(json_object_get(finding, "result"));
                cr_expect_str_eq(result, "fail");
                found = true;
        }
        cr_expect(found, "%s", run.out);
        json_decref(whole);
        program_run_free(&run);
        free(path);
        free(dsn);
}

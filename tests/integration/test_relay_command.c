/* `pgcourier relay`: which relays there are, and who is to have no shards. Sessions of the test stand
 * for relays: each joined, and holds the locks of its shards. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/program_expect.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>

static char *dsn;
static PGconn *owner;
static PGconn *web1, *web2;

static PGconn *join(const char *name, const char *host, int weight, const char *shards)
{
        char *relay_dsn = dsn_as_user(dsn, "relay");
        PGconn *session = database_connect(relay_dsn);
        char *sql =
            xasprintf("SELECT courier.join_relays('%s', '%s', '0.2.0', %d, '%s'); UPDATE "
                      "courier.member SET joined_at = '2026-01-02 03:04:05+00' WHERE name = '%s'",
                name, host, weight, shards, name);

        database_exec(session, sql);
        free(sql);
        free(relay_dsn);
        return session;
}

static void lock_shards(PGconn *session, const char *sink, const char *lanes)
{
        char *sql = xasprintf("SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor"
                              " WHERE sink = '%s' AND lane IN (%s)",
            sink, lanes);

        database_exec(session, sql);
        free(sql);
}

static void start(void)
{
        dsn = postgres_new_database(postgres_shared());
        owner = database_connect(dsn);
        database_exec(owner, "SELECT courier.agree_shards('bus', 4, false, true, 'web1');"
                             "SELECT courier.agree_shards('mail', 1, false, true, 'web1')");
        web1 = join("web1", "host-a", 1, "{\"bus\": 4, \"mail\": 1}");
        web2 = join("web2", "host-b", 20, "{\"bus\": 4}");
        lock_shards(web1, "bus", "-1, -4");
        lock_shards(web1, "mail", "0");
        lock_shards(web2, "bus", "-3");
}

static void stop(void)
{
        PQfinish(web2);
        PQfinish(web1);
        PQfinish(owner);
        free(dsn);
}

TestSuite(relay_command, .init = start, .fini = stop);

#define RELAY(...) program_run(NULL, "relay", __VA_ARGS__, "--dsn", dsn, NULL)
#define SINCE      "2026-01-02T03:04:05Z"

static bool is_gone(void *pid)
{
        char *sql = xasprintf("SELECT count(*) FROM pg_locks WHERE pid = %d", *(const int *)pid);
        bool gone = database_integer(owner, sql) == 0;

        free(sql);
        return gone;
}

static void leave(PGconn **session)
{
        int pid = PQbackendPID(*session);

        PQfinish(*session);
        *session = NULL;
        wait_until(is_gone, &pid, 10000, "the locks are free");
}

Test(relay_command, lists_for_people)
{
        char *relay = dsn_as_user(dsn, "relay");

        expect_output(program_run(NULL, "relay", "list", "--dsn", relay, NULL),
            "RELAY STATE  HOST   VERSION SINCE                WEIGHT SHARDS\n"
            "web1  active host-a 0.2.0   " SINCE "      1 bus 2/4, mail 1/1\n"
            "web2  active host-b 0.2.0   " SINCE "     20 bus 1/4\n");
        free(relay);
}

Test(relay_command, lists_for_programs)
{
        struct program_run run = RELAY("list", "--json");
        json_t *first = json_loads(run.out, JSON_DISABLE_EOF_CHECK, NULL);
        const char *name, *host, *version, *joined_at;
        int weight, is_live, is_leaving, is_drained, pid, n_bus, a, b, n_mail, c;

        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_assert_eq(json_unpack(first,
                         "{s:s, s:s, s:s, s:i, s:s, s:b, s:b, s:b, s:i, s:{s:{s:i, s:[ii!]}, "
                         "s:{s:i, s:[i!]} !}}",
                         "name", &name, "host", &host, "version", &version, "weight", &weight,
                         "joined_at", &joined_at, "is_live", &is_live, "is_leaving", &is_leaving,
                         "is_drained", &is_drained, "pid", &pid, "sinks", "bus", "shards", &n_bus,
                         "owns", &a, &b, "mail", "shards", &n_mail, "owns", &c),
            0, "%s", run.out);
        cr_expect_str_eq(name, "web1");
        cr_expect_str_eq(host, "host-a");
        cr_expect_str_eq(version, "0.2.0");
        cr_expect_eq(weight, 1);
        cr_expect_str_eq(joined_at, "2026-01-02T03:04:05.000000Z");
        cr_expect(is_live && !is_leaving && !is_drained);
        cr_expect_eq(pid, PQbackendPID(web1));
        cr_expect(n_bus == 4 && a == 0 && b == 3 && n_mail == 1 && c == 0);
        json_decref(first);
        program_run_free(&run);
}

Test(relay_command, lists_what_is_drained_and_with_all_what_is_gone)
{
        leave(&web2);
        expect_output(RELAY("list"),
            "RELAY STATE  HOST   VERSION SINCE                WEIGHT SHARDS\n"
            "web1  active host-a 0.2.0   " SINCE "      1 bus 2/4, mail 1/1\n");
        expect_output(RELAY("list", "--all"),
            "RELAY STATE  HOST   VERSION SINCE                WEIGHT SHARDS\n"
            "web1  active host-a 0.2.0   " SINCE "      1 bus 2/4, mail 1/1\n"
            "web2  gone   host-b 0.2.0   " SINCE "     20 \n");
        expect_output(
            RELAY("drain", "web2"), "web2 does not run; when it does, it takes no shards\n");
        expect_output(RELAY("list"),
            "RELAY STATE         HOST   VERSION SINCE                WEIGHT SHARDS\n"
            "web1  active        host-a 0.2.0   " SINCE "      1 bus 2/4, mail 1/1\n"
            "web2  gone, drained host-b 0.2.0   " SINCE "     20 \n");
        web2 = join("web2", "host-c", 1, "{}");
        expect_texts(RELAY("list"), 0, "web2  drained host-c");
        expect_output(RELAY("undrain", "web2"), "web2 takes its part of the shards again\n");
        expect_texts(RELAY("list"), 0, "web2  active host-c");
        leave(&web2);
        leave(&web1);
        expect_output(RELAY("list"), "");
        expect_refusal(RELAY("list", "--fail-empty"), 8, "no relay is running");
}

Test(relay_command, drains_a_relay_and_tells_all)
{
        PGnotify *notice;
        struct program_run run;

        database_exec(owner, "LISTEN courier_control");
        run = RELAY("drain", "web1");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(
            strstr(run.out, "web1 gives its shards to the other relays; `pgcourier relay list "
                            "--dsn "),
            "%s", run.out);
        cr_expect_str_empty(run.err);
        program_run_free(&run);
        PQconsumeInput(owner);
        notice = PQnotifies(owner);
        cr_assert_not_null(notice);
        cr_expect_str_eq(notice->relname, "courier_control");
        PQfreemem(notice);

        expect_texts(RELAY("list"), 0, "web1  draining host-a");
        database_exec(web1, "SELECT pg_advisory_unlock(1668248946, lock_id) FROM courier.cursor"
                            " WHERE lane IN (0, -1, -4)");
        expect_texts(RELAY("list"), 0, "web1  drained host-a");
        expect_output(RELAY("drain", "web1"), "web1 was already drained\n");
        PQconsumeInput(owner);
        cr_expect_null(PQnotifies(owner), "nothing has changed");

        /* The last one. */
        run = RELAY("drain", "web2");
        cr_expect_eq(run.code, 0);
        cr_expect_str_eq(run.err,
            "no other relay runs that could take shards: nothing is delivered meanwhile\n");
        program_run_free(&run);
        expect_output(RELAY("undrain", "web1"), "web1 takes its part of the shards again\n");
        run = RELAY("undrain", "web1");
        cr_expect_eq(run.code, 0);
        cr_expect_str_eq(run.err, "web1 is not drained\n");
        program_run_free(&run);
}

Test(relay_command, says_that_a_relay_leaves)
{
        database_exec(web1, "UPDATE courier.member SET is_leaving = true WHERE name = 'web1'");
        expect_texts(RELAY("list"), 0, "web1  leaving host-a");
}

Test(relay_command, names_the_relays_if_one_is_unknown)
{
        expect_refusal(
            RELAY("drain", "web3"), 8, "there is no relay \"web3\"; there are: web1, web2\n");
        expect_refusal(RELAY("undrain", "WEB1"), 8, "there is no relay \"WEB1\"; there are: web1");
        database_exec(owner,
            "INSERT INTO courier.member (name, host, version, weight, shards)"
            " SELECT 'w' || n, 'h', '1', 1, '{}' FROM generate_series(1, 20) AS n");
        expect_refusal(RELAY("drain", "x"), 8, "w8, w9 and 2 more\n");
        database_exec(owner, "DELETE FROM courier.member");
        expect_refusal(RELAY("drain", "x"), 8, "there is no relay \"x\"; none has run here yet\n");
}

Test(relay_command, refuses_what_it_does_not_understand)
{
        char *app = dsn_as_user(dsn, "app");

        expect_refusal(RELAY("drian", "web1"), 2, "did you mean \"drain\"?");
        expect_refusal(RELAY("drain"), 2, "relay drain: an argument is missing");
        expect_refusal(RELAY("drain", "web1", "--json"), 2, "relay drain takes no --json");
        expect_refusal(program_run(NULL, "relay", "drain", "web1", "--dsn", app, NULL), 7,
            "GRANT courier_relay TO \"app\"");
        free(app);
}

Test(relay_command, names_relays_for_completion)
{
        char *text = xasprintf(
            "postgres: {dsn: \"%s\"}\nsinks: [{name: a, topics: [t], stdout: {}}]\n", dsn);
        char *config = program_file("config.yaml", text, strlen(text));

        expect_output(
            program_run(NULL, "completion", "relays", "-c", config, NULL), "web1\nweb2\n");
        free(config);
        free(text);
}

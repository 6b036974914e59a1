/* Behind a real PgBouncer in each of its modes: sessions that stay are all that is needed, and
 * without them nothing is delivered, which is said. */
#include "base/alloc.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 30000 };

static struct relay_fixture fixture;
static struct process pgbouncer;
static uint16_t port;
static char *dsn;

static void prepare(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
}

static bool accepts(void *context)
{
        return port_accepts(*(uint16_t *)context);
}

static void start_pgbouncer(const char *mode, const char *settings)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/pgbouncer.ini", folder);
        char *users = xasprintf("%s/users.txt", folder);
        char *log = xasprintf("%s/log", folder);
        char *database = database_value(fixture.admin, "SELECT current_database()");
        char *text;

        port = free_port();
        text = xasprintf("[databases]\n* = host=%s port=%u\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
                         "listen_port = %u\nunix_socket_dir =\nauth_type = trust\nauth_file = %s\n"
                         "pool_mode = %s\n%s",
            postgres_shared()->folder, postgres_shared()->port, port, users, mode, settings);
        replace_file(path, text);
        replace_file(users, "\"relay\" \"\"\n\"postgres\" \"\"\n");
        process_start(&pgbouncer, (const char *[]){"pgbouncer", path, NULL}, log, true);
        wait_until(accepts, &port, DEADLINE_MS, "pgbouncer does not listen");
        dsn = xasprintf("host=127.0.0.1 port=%u user=relay dbname=%s", port, database);
        free(text);
        free(database);
        free(log);
        free(users);
        free(path);
        free(folder);
}

static void clean_up(void)
{
        process_stop(&pgbouncer);
        relay_fixture_end(&fixture);
        free(dsn);
}

TestSuite(pooling, .init = prepare, .fini = clean_up, .timeout = 120);

static struct relay_process *start_relay(void)
{
        return relay_start("postgres: {dsn: \"%s\"}\nsinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            dsn, fixture.redis.socket_path);
}

static void expect_finding(const char *command, const char *path, const char *finding)
{
        struct program_run run = strcmp(command, "check") == 0
                                     ? program_run(NULL, "check", "--connect", "-c", path, NULL)
                                     : program_run(NULL, command, "-c", path, NULL);

        cr_expect_not_null(strstr(run.out, finding), "%s: %s%s", command, run.out, run.err);
        program_run_free(&run);
}

#define REFUSAL "a connection pooler in between shares server connections"

/* Once, and then again: what the first one left in the pooler's connections changes nothing. */
static void expect_refusal(void)
{
        struct relay_process *relay;
        char *log;

        publish(fixture.admin, "a", NULL, "1");
        relay = start_relay();
        for (int i = 0; i < 2; i++) {
                cr_expect_eq(relay_wait(relay, DEADLINE_MS), 3);
                log = read_file(relay->log_path);
                cr_expect_not_null(strstr(log, REFUSAL), "%s", log);
                cr_expect_null(strstr(log, "event=outbox_connection_lost"), "%s", log);
                free(log);
                if (i == 0)
                        relay_start_again(relay);
        }
        expect_finding("check", relay->config_path, "fail  session: " REFUSAL);
        expect_finding("doctor", relay->config_path, "fail  session: " REFUSAL);
        cr_expect_eq(
            redis_server_count(&fixture.redis, "EXISTS events"), 0, "nothing is delivered");
        cr_expect_eq(database_integer(fixture.admin,
                         "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                         " AND database = (SELECT oid FROM pg_database"
                         "                 WHERE datname = current_database())"),
            0, "no lock is left behind");
        relay_destroy(relay);
}

Test(pooling, of_sessions_is_as_good_as_none)
{
        struct relay_process *relay;

        start_pgbouncer("session", "");
        relay = start_relay();
        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        expect_finding("check", relay->config_path, "ok    session: a connection pooler");
        expect_finding("doctor", relay->config_path, "ok    session: a connection pooler");
        relay_stop(relay);
        relay_destroy(relay);
}

Test(pooling, of_transactions_is_refused)
{
        start_pgbouncer("transaction", "");
        expect_refusal();
}

/* One server connection for all: each client gets the same one. */
Test(pooling, of_transactions_over_one_connection_is_refused)
{
        start_pgbouncer("transaction", "default_pool_size = 1\n");
        expect_refusal();
}

Test(pooling, of_transactions_in_turn_is_refused)
{
        start_pgbouncer("transaction", "server_round_robin = 1\nmin_pool_size = 5\n");
        expect_refusal();
}

Test(pooling, of_statements_is_refused)
{
        start_pgbouncer("statement", "");
        expect_refusal();
}

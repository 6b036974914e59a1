/* `pgcourier send`, `replay` and `rewind` where a sink has many receivers. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <stdlib.h>

static struct relay_fixture fixture;
static struct http_receiver *receiver;
static struct relay_process *relay;

static void add_endpoint(const char *name, const char *topics, const char *filter)
{
        char *sql =
            xasprintf("INSERT INTO courier.endpoint (sink, name, url, topics, filter, start)"
                      " VALUES ('hooks', '%s', 'http://127.0.0.1:%u/%s', '%s', %s,"
                      " 'beginning')",
                name, http_receiver_port(receiver), name, topics, filter);

        database_exec(fixture.admin, sql);
        free(sql);
}

static void start(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, "GRANT courier_publisher TO relay");
        receiver = http_receiver_start(NULL, NULL);
        add_endpoint("acme", "{orders.**}", "'$.n > 1'");
        add_endpoint("beta", "{**}", "NULL");
        add_endpoint("gone", "{**}", "NULL");
        database_exec(fixture.admin, "UPDATE courier.endpoint SET state = 'disabled', state_reason "
                                     "= '410' WHERE name = 'gone'");
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks: [{name: hooks, topics: ['**', '!secret'],"
                            " http: {endpoints: table, allow_networks: [127.0.0.1],"
                            " allow_ports: [%u]}}]\n",
            fixture.relay, http_receiver_port(receiver));
        await_in_database(fixture.admin,
            "SELECT count(*) >= 3 AND bool_and(epoch > 0 OR lane = 3) FROM courier.cursor",
            "the lanes are taken");
}

static void stop(void)
{
        relay_destroy(relay);
        http_receiver_destroy(receiver);
        database_exec(fixture.admin, "REVOKE courier_publisher FROM relay");
        relay_fixture_end(&fixture);
}

TestSuite(receivers_commands, .init = start, .fini = stop);

#define RUN(...) program_run(NULL, __VA_ARGS__, "-c", relay->config_path, NULL)

static void expect_lines(struct program_run run, int code, const char *const *lines)
{
        cr_expect_eq(run.code, code, "exit code %d: %s%s", run.code, run.out, run.err);
        for (; *lines != NULL; lines++)
                cr_expect_not_null(strstr(run.out, *lines), "%s not in:\n%s", *lines, run.out);
        program_run_free(&run);
}

#define EXPECT(run, code, ...) expect_lines((run), (code), (const char *const[]){__VA_ARGS__, NULL})

Test(receivers_commands, send_follows_each_receiver)
{
        EXPECT(RUN("send", "orders.new", "--data", "{\"n\": 2}"), 75,
            "sink hooks, endpoint acme: ", "sink hooks, endpoint beta: ",
            "sink hooks, endpoint gone: waits: the endpoint is not active (410): pgcourier "
            "endpoint "
            "resume gone\n");
        cr_expect_eq(http_receiver_n_requests(receiver), 2);
        EXPECT(RUN("send", "orders.new", "--data", "{\"n\": 1}"), 75,
            "sink hooks, endpoint acme: not taken: its filter is not true of the payload\n");
        EXPECT(RUN("send", "users.new"), 75,
            "sink hooks, endpoint acme: not taken: none of its topics matches");
        EXPECT(
            RUN("send", "secret"), 8, "sink hooks, endpoint beta: not taken: none of its topics");
}

Test(receivers_commands, replay_and_rewind_go_to_one_of_them)
{
        const struct http_request *request;

        EXPECT(RUN("send", "orders.new", "--data", "{\"n\": 2}"), 75, "acme: ", "beta: ");
        expect_refusal(RUN("replay", "--sink", "hooks", "--from", "1", "--dry-run"), 2,
            "sink hooks has many receivers: which one? --endpoint NAME");
        expect_refusal(
            RUN("replay", "--sink", "hooks", "--endpoint", "none", "--from", "1", "--dry-run"), 2,
            "sink hooks has no endpoint \"none\"");
        expect_output(
            RUN("replay", "--sink", "hooks", "--endpoint", "acme", "--from", "1", "--yes"),
            "1 events are on their way to sink hooks, endpoint acme once more\n");
        http_receiver_wait(receiver, 3, 30000);
        request = http_receiver_request(receiver, 2);
        char *mark = http_request_header(request, "x-event-redriven");
        cr_expect_str_eq(request->target, "/acme");
        cr_expect_str_eq(mark, "true");
        free(mark);
        expect_refusal(RUN("rewind", "--sink", "hooks", "--lane", "2", "--to", "1", "--yes"), 75,
            "a relay is running and owns");
        relay_stop(relay);
        expect_output(RUN("rewind", "--sink", "hooks", "--lane", "2", "--to", "1", "--yes"),
            "sink hooks: 1 of 1 cursors moved back to id 1; up to 1 events are delivered again\n");
        relay_start_again(relay);
        http_receiver_wait(receiver, 4, 30000);
        cr_expect_str_eq(http_receiver_request(receiver, 3)->target, "/beta");
}

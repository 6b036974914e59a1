/* `pgcourier send`, `replay` and `rewind` where a sink has many receivers. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct relay_fixture fixture;
static struct http_receiver *receiver;
static struct relay_process *relay;

static char *socket_path;

static void add_receiver(const char *name, const char *topics, const char *filter)
{
        char *sql =
            xasprintf("INSERT INTO courier.receiver (sink, name, url, topics, filter, start)"
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
        add_receiver("acme", "{orders.**}", "'$.n > 1'");
        add_receiver("beta", "{**}", "NULL");
        add_receiver("gone", "{**}", "NULL");
        database_exec(fixture.admin, "UPDATE courier.receiver SET state = 'disabled', state_reason "
                                     "= '410' WHERE name = 'gone'");
        socket_path = program_file("admin.sock", "", 0);
        unlink(socket_path);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "admin: {listen: \"unix:%s\"}\n"
                            "sinks: [{name: hooks, topics: ['**', '!secret'],"
                            " http: {receivers: table, allow_networks: [127.0.0.1],"
                            " allow_ports: [%u]}}]\n",
            fixture.relay, socket_path, http_receiver_port(receiver));
        await_in_database(fixture.admin,
            "SELECT count(*) >= 3 AND bool_and(epoch > 0 OR lane = 3) FROM courier.cursor",
            "the lanes are taken");
}

static void stop(void)
{
        relay_destroy(relay);
        free(socket_path);
        http_receiver_destroy(receiver);
        database_exec(fixture.admin, "REVOKE courier_publisher FROM relay");
        relay_fixture_end(&fixture);
}

TestSuite(receivers_commands, .init = start, .fini = stop);

#define RUN(...) program_run(NULL, __VA_ARGS__, "-c", relay->config_path, NULL)

Test(receivers_commands, send_follows_each_receiver)
{
        expect_texts(RUN("send", "orders.new", "--data", "{\"n\": 2}"), 75,
            "sink hooks/acme: ", "sink hooks/beta: ",
            "sink hooks/gone: waits: it is disabled (410): `pgcourier "
            "receiver "
            "resume gone -c /");
        cr_expect_eq(http_receiver_n_requests(receiver), 2);
        expect_texts(RUN("send", "orders.new", "--data", "{\"n\": 1}"), 75,
            "sink hooks/acme: not taken: its filter is not true of the payload\n");
        expect_texts(
            RUN("send", "users.new"), 75, "sink hooks/acme: not taken: none of its topics matches");
        expect_texts(RUN("send", "secret"), 8, "sink hooks/beta: not taken: none of its topics");
}

Test(receivers_commands, replay_and_rewind_go_to_one_of_them)
{
        const struct http_request *request;

        expect_texts(RUN("send", "orders.new", "--data", "{\"n\": 2}"), 75, "acme: ", "beta: ");
        expect_refusal(RUN("replay", "--sink", "hooks", "--from", "1", "--dry-run"), 2,
            "sink hooks has several receivers; give --receiver NAME");
        expect_refusal(
            RUN("replay", "--sink", "hooks", "--receiver", "none", "--from", "1", "--dry-run"), 2,
            "sink hooks has no receiver \"none\"");
        expect_output(RUN("replay", "--receiver", "acme", "--from", "1", "--yes"),
            "1 event is on its way to sink hooks/acme once more\n");
        http_receiver_wait(receiver, 3, 30000);
        request = http_receiver_request(receiver, 2);
        char *mark = http_request_header(request, "x-event-redriven");
        cr_expect_str_eq(request->target, "/acme");
        cr_expect_str_eq(mark, "true");
        free(mark);
        expect_refusal(RUN("rewind", "--sink", "hooks", "--lane", "2", "--to", "1", "--yes"), 75,
            "a running relay owns");
        relay_stop(relay);
        expect_output(RUN("rewind", "--sink", "hooks", "--lane", "2", "--to", "1", "--yes"),
            "sink hooks: 1 of 1 cursors moved back to id 1; up to 1 events are delivered again\n");
        relay_start_again(relay);
        http_receiver_wait(receiver, 4, 30000);
        cr_expect_str_eq(http_receiver_request(receiver, 3)->target, "/beta");
}

static void publish_order(void)
{
        database_exec(
            fixture.admin, "SELECT courier.publish('orders.new', '{\"n\": 2}', key => 'k')");
}

/* Publishes until the follower has seen enough: only the follower can tell when it is connected. */
static bool has_followed(void *context)
{
        if (!process_is_running(context))
                return true;
        publish(fixture.admin, "users.new", "k", "1"); /* for beta alone */
        publish_order();
        return false;
}

static char *tail(const char *sink, const char *option)
{
        char *path = xasprintf("%s/tail.out", relay->folder);
        const char *const argv[] = {getenv("PGCOURIER"), "tail", "-c", relay->config_path, "--sink",
            sink, "-n", "3", option, NULL};
        struct process process;
        char *text;

        unlink(path);
        process_start(&process, argv, path, false);
        wait_until(has_followed, &process, 30000, "tail does not end");
        cr_expect_eq(process_wait(&process, 30000), 0);
        text = read_file(path);
        free(path);
        return text;
}

/* As the log calls them. */
Test(receivers_commands, tail_names_the_receiver_and_follows_one)
{
        char *lines = tail("hooks/acme", NULL);
        char *json = tail("hooks", "--json");

        cr_expect_not_null(strstr(lines, "  hooks/acme  delivered  "), "%s", lines);
        cr_expect_null(strstr(lines, "beta"), "%s", lines);
        cr_expect_not_null(strstr(json, "\"sink\":\"hooks\",\"receiver\":\"beta\""), "%s", json);
        expect_refusal(
            RUN("tail", "--sink", "hooks/acme", "--receiver", "acme"), 2, "both name a receiver");
        expect_refusal(RUN("tail", "--sink", "hooks/"), 2, "a name is empty");
        expect_refusal(RUN("tail", "--receiver", "amce"), 8,
            "there is no receiver \"amce\"; did you mean \"acme\"?");
        expect_refusal(RUN("tail", "--sink", "hooks/bta"), 8, "did you mean \"beta\"?");
        expect_refusal(RUN("tail", "--sink", "nobody"), 1, "; see `pgcourier status -c /");
        free(lines);
        free(json);
}

static bool is_named(void *context)
{
        struct program_run run = RUN("status");
        bool is_there = strstr(run.out, "acme, gone. 1 other is served") != NULL;

        (void)context;
        program_run_free(&run);
        return is_there;
}

Test(receivers_commands, status_knows_where_to_ask_for_one)
{
        expect_refusal(RUN("status", "hooks/acme"), 2,
            "for the receiver acme: `pgcourier receiver show acme -c /");
        database_exec(fixture.admin, "UPDATE courier.receiver SET failing_since = now(),"
                                     " last_error = '500' WHERE name = 'acme'");
        wait_until(is_named, NULL, 30000, "status names the receivers");
        expect_refusal(RUN("status", "qqqqqqq"), 2, "`pgcourier receiver show qqqqqqq -c /");
}

Test(receivers_commands, send_sums_up_many)
{
        struct program_run run;

        for (int i = 0; i < 6; i++) {
                char name[8];
                snprintf(name, sizeof name, "m%d", i);
                add_receiver(name, i < 5 ? "{orders.**}" : "{users.**}", "NULL");
        }
        await_in_database(fixture.admin,
            "SELECT count(*) = 8 FROM courier.cursor WHERE epoch > 0 AND lane NOT IN (0, 3)",
            "the lanes are taken");
        run = RUN("send", "orders.new", "--data", "{\"n\": 2}");
        cr_expect_eq(run.code, 75, "%s%s", run.out, run.err);
        cr_expect_null(strstr(run.out, "hooks/m"), "%s", run.out);
        cr_expect_not_null(strstr(run.out, "sink hooks/gone: waits: "), "%s", run.out);
        cr_expect_not_null(
            strstr(run.out, " ms: delivered to 7 of its 9 receivers\n"), "%s", run.out);
        cr_expect_not_null(
            strstr(run.out, "sink hooks: not taken by 1 of its 9 receivers\n"), "%s", run.out);
        program_run_free(&run);
}

/* What waits for a receiver that is paused is neither parked nor delivered. */
Test(receivers_commands, show_and_remove_count_what_waits)
{
        struct program_run run;

        database_exec(
            fixture.admin, "UPDATE courier.receiver SET state = 'paused' WHERE name = 'acme'");
        relay_wait_for_log(relay, "event=receiver_paused sink=hooks/acme", 30000);
        for (int i = 0; i < 3; i++)
                publish_order();
        publish(fixture.admin, "users.new", "k", "1");
        run = RUN("receiver", "show", "acme");
        cr_expect_not_null(strstr(run.out, "about 3\n"), "%s", run.out);
        program_run_free(&run);
        expect_refusal(RUN("receiver", "remove", "acme"), 2,
            "acme has about 3 undelivered events and 0 parked deliveries, which would go");
        database_exec(fixture.admin,
            "UPDATE courier.receiver SET state = 'paused' WHERE name = 'beta';"
            "UPDATE courier.sink SET settings = '{\"topics\": \"**\"}'");
        relay_wait_for_log(relay, "event=receiver_paused sink=hooks/beta", 30000);
        publish(fixture.admin, "users.new", "k", "1");
        await_in_database(fixture.admin,
            "SELECT greatest(from_floor, last_id) >= 4 FROM courier.cursor WHERE lane = 2",
            "what was delivered is settled");
        expect_refusal(RUN("receiver", "remove", "beta"), 2,
            "beta has 1 undelivered event and 0 parked deliveries, which would go");
}

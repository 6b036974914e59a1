/* `pgcourier send`: one event, and what becomes of it with each sink of a running relay. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/postgres.h"
#include "support/program_expect.h"
#include "support/relay_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct relay_fixture fixture;
static struct http_receiver *receiver;
static struct relay_process *relay;

/* Three sinks: bus takes all, hook takes orders and goes to the receiver, picky takes few. */
static void start(void)
{
        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin, "GRANT courier_publisher TO relay");
        receiver = http_receiver_start(NULL, NULL);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {standby: 50ms}\n"
                            "sinks:\n"
                            "  - {name: bus, topics: ['**'], start: beginning,"
                            " redis: {url: 'unix://%s', stream: events}}\n"
                            "  - {name: hook, topics: ['orders.**'], start: beginning,"
                            " retry: {delays: [300ms, 300ms], attempts: 3},"
                            " http: {url: 'http://127.0.0.1:%u/', signing: none}}\n"
                            "  - {name: picky, topics: ['**'], types: [order.*],"
                            " match_headers: [tenant=a], filter: '$.n > 1', start: beginning,"
                            " stdout: {}}\n"
                            "  - {name: mails, topics: [mail.*], start: beginning,"
                            " email: {url: 'smtp://127.0.0.1:1', from: a@b.example}}\n",
            fixture.relay, fixture.redis.socket_path, http_receiver_port(receiver));
        await_in_database(fixture.admin, "SELECT count(*) = 4 FROM courier.cursor WHERE epoch > 0",
            "all lanes are taken");
}

static void stop(void)
{
        relay_destroy(relay);
        http_receiver_destroy(receiver);
        database_exec(fixture.admin, "REVOKE courier_publisher FROM relay");
        relay_fixture_end(&fixture);
}

TestSuite(send, .init = start, .fini = stop);

#define SEND(...) program_run(NULL, "send", __VA_ARGS__, "-c", relay->config_path, NULL)

Test(send, follows_an_event_to_every_sink_that_takes_it)
{
        expect_texts(SEND("orders.new", "--type", "order.made", "--header", "tenant=a", "--data",
                         "{\"n\": 2}", "--key", "k"),
            0, "published: id 1, event_id ",
            "\nsink bus: ", "\nsink hook: ", "\nsink picky: ", " ms: delivered and settled\n");
        relay_fixture_expect_field(&fixture, "events", 0, "key", "k");
        relay_fixture_expect_field(&fixture, "events", 0, "payload", "{\"n\": 2}");
        cr_expect_eq(http_receiver_n_requests(receiver), 1);
}

Test(send, says_who_does_not_take_it_and_why)
{
        expect_texts(SEND("users.new", "--type", "order.made"), 0,
            "sink hook: not taken: none of its topics matches, or one excludes it\n",
            "sink picky: not taken: the event does not have the headers that it asks for\n",
            "sink bus: ");
        expect_texts(SEND("users.new"), 0, "sink picky: not taken: none of its types matches\n");
        expect_texts(SEND("users.new", "--type", "order.made", "--header", "tenant=a", "--data",
                         "{\"n\":1}"),
            0, "sink picky: not taken: its filter is not true of the payload\n");
}

Test(send, tells_of_each_failed_attempt_and_of_the_end)
{
        http_receiver_answer_next(receiver, &(struct http_answer){.status = 500, .body = "busy"});
        http_receiver_answer_next(receiver, &(struct http_answer){.status = 500, .body = "busy"});
        expect_texts(SEND("orders.new"), 0,
            "attempt 1 failed: 500 Internal Server Error: busy; tried again",
            "attempt 2 failed: 500 ", " ms: delivered and settled\n");
        http_receiver_answer(receiver, &(struct http_answer){.status = 422, .body = "no"});
        expect_texts(SEND("orders.new"), 5,
            "given up (attempts): 422 Unprocessable Content: no; `pgcourier dead show 1 -c /");
}

Test(send, ends_at_once_at_a_paused_sink_and_otherwise_at_its_timeout)
{
        int64_t since;

        http_receiver_answer(receiver, &(struct http_answer){.status = 500});
        expect_texts(SEND("orders.new", "--timeout", "50ms"), 75, "sink bus: ", "sink hook: ");
        database_exec(fixture.admin,
            "INSERT INTO courier.pause (sink, by, reason) VALUES ('hook', 'operator', 'deploy')");
        since = (int64_t)time(NULL);
        expect_texts(SEND("orders.new", "--timeout", "1h"), 75,
            "sink hook: waits: paused by the operator (deploy): `pgcourier resume hook -c /",
            "sink bus: ");
        cr_expect_lt((int64_t)time(NULL) - since, 60);
        relay_stop(relay);
        expect_texts(SEND("orders.new", "--timeout", "1h"), 75,
            "sink bus: waits: no relay is running it: `pgcourier run -c /");
        database_exec(fixture.admin, "DELETE FROM courier.cursor WHERE sink = 'bus'");
        expect_texts(
            SEND("users.new", "--timeout", "1h"), 75, "sink bus: waits: no relay has ever run it");
}

Test(send, says_what_is_wrong)
{
        expect_refusal(program_run(NULL, "send", "t", NULL), 2, "needs the relay's configuration");
        expect_refusal(SEND("t", "--timeout", "soon"), 2, "--timeout: \"soon\" is not");
        expect_refusal(SEND("t", "--data", "{"), 2, "payload: invalid input syntax for type json");
        expect_refusal(SEND(""), 2, "topic must not be empty");
        database_exec(fixture.admin, "REVOKE courier_publisher FROM relay");
        expect_refusal(SEND("t"), 7, "GRANT courier_publisher TO \"relay\"");
}

/* A trial needs no clean-up. */
Test(send, publishes_no_event_that_an_email_sink_could_not_send)
{
        char *n;

        expect_refusal(SEND("mail.welcome"), 2, "sink mails takes mail.welcome and sends mail");
        expect_refusal(
            SEND("mail.welcome", "--to", "a@b.example", "--data", "1"), 2, "--data and --to both");
        expect_refusal(
            SEND("mail.welcome", "--to", "nobody"), 2, "--to \"nobody\": expected one address");
        expect_refusal(SEND("orders.new", "--to", "a@b.example"), 2,
            "no sink of kind email takes such an event (orders.new)");
        n = database_value(fixture.admin, "SELECT count(*) FROM courier.outbox");
        cr_expect_str_eq(n, "0");
        free(n);
        expect_texts(SEND("mail.welcome", "--to", "a@b.example", "--timeout", "50ms"), 75,
            "sink mails: ", "`pgcourier status mails -c /");
        n = database_value(fixture.admin, "SELECT payload ->> 'to' FROM courier.outbox");
        cr_expect_str_eq(n, "a@b.example");
        free(n);
}

Test(send, says_that_a_tap_had_no_part_in_it)
{
        struct program_run run;

        database_exec(fixture.admin,
            "CREATE TABLE public.m (id integer PRIMARY KEY, topic text, key text, type text,"
            " payload jsonb, headers jsonb);"
            "SELECT courier.attach('public.m', name => 'messages');"
            "INSERT INTO m (id, topic, payload) VALUES (1, 'users.new', '{}')");
        expect_texts(SEND("users.new"), 0,
            "\nnote: events of this topic come from table public.m, by the tap messages; this one "
            "did not pass it\n",
            "\nsink bus: ");
        run = SEND("users.old");
        cr_expect_null(strstr(run.out, "note:"), "%s", run.out);
        program_run_free(&run);
        database_exec(fixture.admin, "SELECT courier.detach('messages')");
        run = SEND("users.new");
        cr_expect_null(strstr(run.out, "note:"), "%s", run.out);
        program_run_free(&run);
}

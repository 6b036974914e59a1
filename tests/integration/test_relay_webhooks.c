/* The whole program towards webhooks: what survives a kill, and a batch with a poisonous event
 * in it. */
#include "http_verify.h"

#include "base/alloc.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

Test(relay_webhooks, sends_the_same_message_after_a_kill)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer(http, &(struct http_answer){.is_held = true});
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     http: {url: \"http://127.0.0.1:%u/\", secret: " SECRET ",\n"
                            "            body: standard}}\n",
            fixture.relay, http_receiver_port(http));
        publish(fixture.admin, "orders", "k", "once");
        http_receiver_wait(http, 1, 30000);
        relay_kill(relay);
        http_receiver_release(http);
        http_await_next_second();
        relay_start_again(relay);
        http_receiver_wait(http, 2, 30000);
        relay_stop(relay);

        const struct http_request *first = http_receiver_request(http, 0);
        const struct http_request *second = http_receiver_request(http, 1);
        char *id = http_request_header(first, "webhook-id");
        char *at = http_request_header(first, "webhook-timestamp");
        char *later = http_request_header(second, "webhook-timestamp");

        expect_header(second, "webhook-id", id);
        cr_expect_str_eq(second->body, first->body);
        cr_expect_lt(atoll(at), atoll(later));
        expect_signature_verified(first, "standard", SECRET);
        expect_signature_verified(second, "standard", SECRET);
        cr_expect_eq(http_receiver_n_requests(http), 2);
        free(id);
        free(at);
        free(later);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

/* Called by the threads of several connections. */
static struct http_answer refuse_poison(void *context, const struct http_request *request)
{
        unsigned *n_taken = context;

        if (strstr(request->body, "poison") != NULL)
                return (struct http_answer){.status = 422};
        for (const char *at = request->body; (at = strstr(at, "\"good\"")) != NULL; at++)
                __atomic_add_fetch(n_taken, 1, __ATOMIC_RELAXED);
        return (struct http_answer){.status = 200};
}

enum { N_GOOD = 60 };

static bool are_all_taken(void *n_taken)
{
        return __atomic_load_n((unsigned *)n_taken, __ATOMIC_RELAXED) >= N_GOOD;
}

Test(relay_webhooks, makes_a_dead_letter_only_of_the_refused_event_of_a_batch)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        unsigned n_taken = 0;

        http_receiver_decide(http, refuse_poison, &n_taken);
        relay_fixture_begin(&fixture, postgres_shared());
        database_exec(fixture.admin,
            "SELECT count(courier.publish('orders', to_json(CASE n WHEN 30 THEN 'poison' ELSE "
            "'good' END), key => (n % 20)::text)) FROM generate_series(0, 60) AS n");
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     retry: {attempts: 1},\n"
                            "     http: {url: \"http://127.0.0.1:%u/\", batch: {linger: 5ms}}}\n",
            fixture.relay, http_receiver_port(http));
        await_in_database(fixture.admin, "SELECT count(*) = 1 FROM courier.dead_letter",
            "the poisonous event to be given up");
        wait_until(are_all_taken, &n_taken, 30000, "the others to arrive");
        relay_stop(relay);

        cr_expect_eq(n_taken, N_GOOD);
        cr_expect_eq(
            database_integer(fixture.admin,
                "SELECT count(*) FROM courier.dead_letter WHERE payload::text LIKE '%poison%'"),
            1);
        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM courier.parked"), 0);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

static bool is_told(void *path)
{
        char *log = read_file(path);
        bool is_there = strstr(log, "event=few_files limit=64 wanted=1056") != NULL;

        free(log);
        return is_there;
}

Test(relay_webhooks, says_that_too_few_files_may_be_open_for_many_receivers)
{
        char *folder = temp_folder();
        char *config = xasprintf("%s/config.yaml", folder);
        char *log = xasprintf("%s/log", folder);
        FILE *file = fopen(config, "w");
        struct process process;

        fputs("postgres: {dsn: \"host=/nonexistent\"}\n"
              "sinks:\n"
              "  - {name: hooks, topics: [\"**\"], http: {receivers: table}}\n",
            file);
        fclose(file);
        /* The soft limit alone is no trouble: it is raised. */
        const char *const argv[] = {"sh", "-c",
            "ulimit -Sn 48; ulimit -Hn 64; exec \"$PGCOURIER\" run -c \"$0\"", config, NULL};

        process_start(&process, argv, log, false);
        wait_until(is_told, log, 30000, "the relay to say that it may open too few files");
        process_kill(&process);
        free(folder);
        free(config);
        free(log);
}

/* 410 pauses the sink where people see it, and a restart does not forget that. */
Test(relay_webhooks, stays_paused_for_a_receiver_that_is_gone)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer(
            http, &(struct http_answer){.status = 410, .headers = {"Retry-After: 3600"}});
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                            "     http: {url: \"http://127.0.0.1:%u/\"}}\n",
            fixture.relay, http_receiver_port(http));
        publish(fixture.admin, "orders", "k", "once");
        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM courier.pause WHERE by = 'relay'", "the pause");
        relay_stop(relay);
        relay_start_again(relay);
        relay_wait_for_log(relay, "event=lane_owned", 30000);
        relay_stop(relay);

        cr_expect_eq(database_integer(fixture.admin, "SELECT count(*) FROM courier.pause"), 1);
        cr_expect_eq(
            database_integer(fixture.admin, "SELECT count(*) FROM courier.dead_letter"), 0);
        cr_expect_leq(http_receiver_n_requests(http), 2);
        relay_destroy(relay);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

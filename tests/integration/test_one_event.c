/*
 * The whole program, and a destination that takes all events but one, or all of one target: that
 * one becomes a dead letter, and the others arrive. An outage of all costs none of them an attempt.
 */
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_OTHERS = 30, N_KEYS = 10 };

#define RETRY "retry: {first: 50ms, max: 100ms, attempts: 5}"

/* How a receiver may answer the one event; 0: it hangs up. The sink of each has that path. */
static const unsigned answers[] = {502, 503, 504, 429, 404, 403, 0};
enum { N_ANSWERS = sizeof answers / sizeof *answers };

struct world {
        struct relay_fixture fixture;
        struct http_receiver *http;
        struct relay_process *relay;
        unsigned n_taken[N_ANSWERS];
        unsigned n_refused;
        bool is_down; /* it answers all events so */
};

static struct http_answer decide(void *context, const struct http_request *request)
{
        struct world *world = context;
        unsigned status = (unsigned)strtoul(request->target + 1, NULL, 10);

        if (strstr(request->body, "poison") != NULL ||
            __atomic_load_n(&world->is_down, __ATOMIC_SEQ_CST)) {
                __atomic_add_fetch(&world->n_refused, 1, __ATOMIC_SEQ_CST);
                return (struct http_answer){
                    .status = status, .manner = status == 0 ? ANSWER_NONE : ANSWER_WHOLE};
        }
        for (unsigned i = 0; i < N_ANSWERS; i++)
                if (answers[i] == status)
                        for (const char *at = request->body; (at = strstr(at, "good")) != NULL;
                             at++)
                                __atomic_add_fetch(&world->n_taken[i], 1, __ATOMIC_SEQ_CST);
        return (struct http_answer){.status = 204};
}

static void open_world(struct world *world)
{
        *world = (struct world){0};
        relay_fixture_begin(&world->fixture, postgres_shared());
        world->http = http_receiver_start(NULL, NULL);
        http_receiver_decide(world->http, decide, world);
}

static void close_world(struct world *world)
{
        await_in_database(world->fixture.admin, "SELECT " ALL_IS_SETTLED, "all is settled");
        relay_stop(world->relay);
        relay_destroy(world->relay);
        http_receiver_destroy(world->http);
        relay_fixture_end(&world->fixture);
}

static void start(struct world *world, const char *sinks)
{
        world->relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                   "relay: {sweep: 500ms}\n"
                                   "sinks:\n%s",
            world->fixture.relay, sinks);
        relay_wait_for_log(world->relay, "event=lane_owned", 30000);
}

static void publish_others(struct world *world)
{
        char key[8];

        for (int i = 0; i < N_OTHERS; i++) {
                snprintf(key, sizeof key, "k%d", i % N_KEYS);
                publish(world->fixture.admin, "t", key, "good");
        }
}

struct deaths {
        struct world *world;
        int n;
};

/* An event that is alone proves nothing about itself, so others go on coming. */
static bool has_so_many_dead(void *context)
{
        const struct deaths *deaths = context;

        publish(deaths->world->fixture.admin, "t", NULL, "more");
        return database_integer(deaths->world->fixture.admin,
                   "SELECT count(*) FROM courier.dead_letter") >= deaths->n;
}

static bool have_all_taken(void *context)
{
        struct world *world = context;

        for (unsigned i = 0; i < N_ANSWERS; i++)
                if (__atomic_load_n(&world->n_taken[i], __ATOMIC_SEQ_CST) < N_OTHERS)
                        return false;
        return true;
}

static bool has_first_taken(void *context)
{
        struct world *world = context;

        return __atomic_load_n(&world->n_taken[0], __ATOMIC_SEQ_CST) >= N_OTHERS;
}

static bool have_most_taken(void *context) /* by the 404 */
{
        struct world *world = context;

        return __atomic_load_n(&world->n_taken[4], __ATOMIC_SEQ_CST) >= N_OTHERS * 2 / 3;
}

/* So many dead letters of one event, of five attempts each, and nothing is paused. */
static void expect_dead(struct world *world, int n)
{
        wait_until(has_so_many_dead, &(struct deaths){world, n}, 30000, "the dead letters");
        expect_value(world->fixture.admin,
            "SELECT string_agg(DISTINCT attempts || ' ' || reason, ', ') FROM courier.dead_letter",
            "5 attempts");
        expect_value(world->fixture.admin, "SELECT count(*) FROM courier.pause", "0");
}

Test(one_event, of_http_is_given_up_and_the_others_arrive)
{
        struct world world;
        char sinks[2000] = "";

        open_world(&world);
        for (unsigned i = 0; i < N_ANSWERS; i++)
                snprintf(sinks + strlen(sinks), sizeof sinks - strlen(sinks),
                    "  - {name: hook_%u, topics: [\"**\"], start: beginning, " RETRY
                    ", http: {url: \"http://127.0.0.1:%u/%u\"}}\n",
                    answers[i], http_receiver_port(world.http), answers[i]);
        start(&world, sinks);
        publish(world.fixture.admin, "t", "p", "poison");
        publish_others(&world);
        wait_until(have_all_taken, &world, 30000, "the others do not arrive");
        expect_dead(&world, N_ANSWERS);
        close_world(&world);
}

/* As after a deployment that broke one kind of event: many at once, and more among the others. */
Test(one_event, of_many_that_are_refused_holds_up_none_that_are_taken)
{
        struct world world;
        char sinks[300], key[8];

        open_world(&world);
        snprintf(sinks, sizeof sinks,
            "  - {name: hook, topics: [\"**\"], start: beginning, " RETRY
            ", http: {url: \"http://127.0.0.1:%u/404\"}}\n",
            http_receiver_port(world.http));
        start(&world, sinks);
        database_exec(world.fixture.admin,
            "SELECT courier.publish('t', '\"poison\"', key => 'p' || n)"
            " FROM generate_series(1, 30) AS n");
        for (int i = 0; i < N_OTHERS; i++) {
                snprintf(key, sizeof key, "k%d", i);
                publish(world.fixture.admin, "t", key, i % 3 == 0 ? "poison" : "good");
        }
        wait_until(have_most_taken, &world, 30000, "the others do not arrive");
        expect_dead(&world, 30 + N_OTHERS / 3);
        close_world(&world);
}

static void start_batches(struct world *world)
{
        char sinks[400];

        snprintf(sinks, sizeof sinks,
            "  - {name: hook, topics: [\"**\"], start: beginning, " RETRY
            ", http: {url: \"http://127.0.0.1:%u/502\", batch: {events: 10, linger: 20ms}}}\n",
            http_receiver_port(world->http));
        start(world, sinks);
}

Test(one_event, of_a_batch_is_given_up_alone)
{
        struct world world;

        open_world(&world);
        start_batches(&world);
        publish(world.fixture.admin, "t", "p", "poison");
        publish_others(&world);
        wait_until(has_first_taken, &world, 30000, "the others do not arrive");
        expect_dead(&world, 1);
        close_world(&world);
}

/* All in one batch: two that go alone, and after that one at a time. */
static bool were_some_refused(void *context)
{
        struct world *world = context;

        return __atomic_load_n(&world->n_refused, __ATOMIC_SEQ_CST) >= 6;
}

Test(one_event, is_charged_nothing_in_an_outage_of_all)
{
        struct world world;

        open_world(&world);
        world.is_down = true;
        start_batches(&world);
        publish_others(&world);
        wait_until(were_some_refused, &world, 30000, "there are no probes");
        relay_wait_for_log(world.relay, "event=sink_down", 30000);
        __atomic_store_n(&world.is_down, false, __ATOMIC_SEQ_CST);
        wait_until(has_first_taken, &world, 30000, "the outage does not end");
        relay_wait_for_log(world.relay, "event=sink_up", 30000);
        expect_value(world.fixture.admin, "SELECT count(*) FROM courier.dead_letter", "0");
        cr_expect_eq(relay_count_in_log(world.relay, "event=delivery_failed"), 0);
        close_world(&world);
}

Test(one_event, of_a_stream_that_is_forbidden_holds_up_no_other_stream)
{
        struct world world;
        char sinks[400];

        open_world(&world);
        redis_server_do(&world.fixture.redis, "ACL SETUSER default resetkeys ~s:t");
        snprintf(sinks, sizeof sinks,
            "  - {name: bus, topics: [\"**\"], start: beginning, " RETRY
            ", redis: {url: \"unix://%s\", stream: \"s:{{topic}}\"}}\n",
            world.fixture.redis.socket_path);
        start(&world, sinks);
        for (int i = 0; i < 3; i++)
                publish(world.fixture.admin, "forbidden", i > 0 ? "p" : NULL, "poison");
        publish_others(&world);
        relay_fixture_await(&world.fixture, "s:t", N_OTHERS);
        expect_dead(&world, 3);
        expect_value(
            world.fixture.admin, "SELECT DISTINCT target FROM courier.dead_letter", "s:forbidden");
        close_world(&world);
}

/* As if the disk of its database were full. */
Test(one_event, of_a_function_is_given_up_and_the_others_are_done)
{
        struct world world;
        char sinks[400];

        open_world(&world);
        database_make_inbox(world.fixture.admin);
        database_exec(world.fixture.admin,
            "CREATE TABLE public.done (payload text);"
            "CREATE FUNCTION public.run(event courier_inbox.event) RETURNS void LANGUAGE plpgsql"
            " AS $$"
            "BEGIN"
            "  IF event.payload::text LIKE '%poison%' THEN"
            "    RAISE USING ERRCODE = '53100', MESSAGE = 'no space left';"
            "  END IF;"
            "  INSERT INTO public.done VALUES (event.payload::text);"
            "END $$");
        snprintf(sinks, sizeof sinks,
            "  - {name: tasks, topics: [\"**\"], start: beginning, " RETRY
            ", postgres: {dsn: \"%s\", call: public.run}}\n",
            world.fixture.dsn);
        start(&world, sinks);
        publish(world.fixture.admin, "t", "p", "poison");
        publish_others(&world);
        await_in_database(world.fixture.admin,
            "SELECT count(*) >= 30 FROM public.done WHERE payload LIKE '%good%'", "the others");
        expect_dead(&world, 1);
        close_world(&world);
}

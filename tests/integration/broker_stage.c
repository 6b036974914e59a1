#include "broker_stage.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* One event of a key is in flight at a time. */
enum { N_WRITERS = 16, PAUSE_US = 200000, DEADLINE_MS = 120000, LONG_DEADLINE_MS = 1800000 };

struct stage {
        const struct broker *broker;
        struct relay_fixture fixture; /* its history is that of the broker */
        struct relay_process *relay;
        size_t n_awaited; /* arrivals at the broker */
};

static void begin(struct stage *stage, const struct broker *broker)
{
        *stage = (struct stage){.broker = broker};
        relay_fixture_begin(&stage->fixture, postgres_shared());
        stage->fixture.writers = writers_start(stage->fixture.app,
            &(struct writer_options){.n_writers = N_WRITERS, .pause_us = PAUSE_US, .seed = 51});
        stage->relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                   "relay: {standby: 50ms, drain: 1s%s}\n"
                                   "sinks:\n"
                                   "  - name: bus\n"
                                   "    topics: [\"**\"]\n"
                                   "    start: beginning\n"
                                   "    %s%s}\n"
                                   "  - name: other\n"
                                   "    topics: [\"**\"]\n"
                                   "    start: beginning\n"
                                   "    redis: {url: \"unix://%s\", stream: other}\n",
            stage->fixture.relay, broker->relay_keys, broker->sink, broker->patient_keys,
            stage->fixture.redis.socket_path);
}

static void read_broker(struct stage *stage)
{
        stage->broker->read(stage->broker->server, &stage->fixture.history);
}

static bool has_awaited(void *stage_)
{
        struct stage *stage = stage_;

        read_broker(stage);
        return stage->fixture.history.n_arrivals >= stage->n_awaited;
}

static void await_more(struct stage *stage, size_t n)
{
        read_broker(stage);
        stage->n_awaited = stage->fixture.history.n_arrivals + n;
        wait_until(has_awaited, stage, DEADLINE_MS, "events arrive at the broker");
}

static bool is_settled(void *stage_)
{
        const struct stage *stage = stage_;
        char *settled = database_value(stage->fixture.admin,
            "SELECT count(*) = 2 AND " ALL_IS_SETTLED
            " AND NOT EXISTS (SELECT FROM courier.parked) FROM courier.cursor");
        bool is = strcmp(settled, "t") == 0;

        free(settled);
        return is;
}

static struct filter_result judge(const struct stage *stage, const struct history *history)
{
        struct filter_result verdict = history_judge(history, stage->fixture.writers);

        cr_expect(verdict.n_lost + verdict.n_misordered + verdict.n_uncommitted == 0,
            "%zu lost, %zu out of order, %zu never committed: %s", verdict.n_lost,
            verdict.n_misordered, verdict.n_uncommitted, verdict.first_fault);
        return verdict;
}

static void end(struct stage *stage, size_t n_repeated_max)
{
        struct history others = {0};
        size_t n_repeated;

        writers_stop(stage->fixture.writers);
        wait_until(is_settled, stage, LONG_DEADLINE_MS, "both sinks have everything");
        relay_stop(stage->relay);
        cr_expect(relay_count_in_log(stage->relay, "event=drain_limit_reached") == 0);
        cr_expect(
            relay_count_in_log(stage->relay, "event=delivery_failed") == 0, "none is charged");
        cr_expect(database_integer(
                      stage->fixture.admin, "SELECT count(*) FROM courier.dead_letter") == 0);
        read_broker(stage);
        n_repeated = judge(stage, &stage->fixture.history).n_repeated;
        history_read_stream(&others, &stage->fixture.redis, "other");
        cr_expect(judge(stage, &others).n_repeated == 0);
        fprintf(stderr, "%zu events arrived, %zu of them twice\n",
            stage->fixture.history.n_arrivals, n_repeated);
        if (n_repeated > n_repeated_max)
                test_show_logs();
        cr_expect(
            n_repeated <= n_repeated_max, "%zu came twice, %zu may", n_repeated, n_repeated_max);

        history_deinit(&others);
        relay_destroy(stage->relay);
        relay_fixture_end(&stage->fixture);
}

void broker_expect_stop_while_it_stands_still(const struct broker *broker)
{
        long long n_others;
        struct stage stage;

        begin(&stage, broker);
        await_more(&stage, 100);
        broker->pause(broker->server);
        n_others = redis_server_count(&stage.fixture.redis, "XLEN other");
        relay_fixture_await(&stage.fixture, "other", n_others + 1000);
        relay_stop(stage.relay);
        cr_expect(relay_count_in_log(stage.relay, "event=drain_limit_reached") == 1,
            "events were in flight");
        cr_expect(relay_count_in_log(stage.relay, "event=delivery_failed") == 0);
        broker->resume(broker->server);
        relay_start_again(stage.relay);
        await_more(&stage, 100);
        end(&stage, broker->knows_repeats ? 0 : N_WRITERS);
}

struct growth {
        PGconn *connection;
        int64_t n_events;
};

static bool has_grown(void *growth_)
{
        const struct growth *growth = growth_;

        return database_integer(growth->connection, "SELECT count(*) FROM courier.outbox") >=
               growth->n_events;
}

static void await_published(struct stage *stage, unsigned n)
{
        struct growth growth = {stage->fixture.admin,
            database_integer(stage->fixture.admin, "SELECT count(*) FROM courier.outbox") + n};

        wait_until(has_grown, &growth, LONG_DEADLINE_MS, "events are published");
}

static unsigned number_from(const char *variable, unsigned otherwise)
{
        const char *text = getenv(variable);

        return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

void broker_expect_outages_lose_nothing(
    const struct broker *broker, unsigned n_kills, unsigned backlog)
{
        struct stage stage;

        n_kills = number_from("PGCOURIER_TEST_KILLS", n_kills);
        backlog = number_from("PGCOURIER_TEST_BACKLOG", backlog);
        begin(&stage, broker);
        for (unsigned i = 0; i < n_kills; i++) {
                await_more(&stage, 100);
                broker->kill(broker->server);
                await_published(&stage, backlog);
                broker->restart(broker->server);
        }
        await_more(&stage, 100);
        end(&stage, broker->knows_repeats ? 0 : n_kills * N_WRITERS);
}

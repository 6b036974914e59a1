#include "sinks/redis/redis_burst.h"

#include "pgcourier/sink.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N_MAX = 2000 };

static struct event events[N_MAX];
static struct attempt attempts[N_MAX];
static struct redis_ring ring;
static struct redis_keys keys;

/* n events of this many bytes; those with odd numbers have a key if `has_keys`. */
static void fill(size_t n, size_t bytes, bool has_keys)
{
        redis_ring_deinit(&ring);
        for (size_t i = 0; i < n; i++) {
                events[i] = (struct event){.topic = "t", .payload_bytes = bytes};
                events[i].key = has_keys && i % 2 == 1 ? "k" : NULL;
                attempts[i].event = &events[i];
                redis_ring_push(&ring, (struct redis_request){&attempts[i]});
        }
}

static struct redis_burst plan(bool by_key, bool is_alone)
{
        const struct redis_burst_policy policy = {.by_key = by_key};

        return redis_burst_plan(&ring, &policy, &keys, is_alone);
}

static void expect_plan(size_t n, bool is_transaction)
{
        struct redis_burst burst = plan(true, false);

        cr_expect(redis_burst_is_open(&burst));
        cr_expect_eq(burst.n, n, "%zu", burst.n);
        cr_expect_eq(burst.kind, is_transaction ? BURST_TRANSACTION : BURST_PLAIN);
        cr_expect_eq(plan(true, true).n, 1);
        cr_expect(plan(true, true).kind == BURST_PLAIN);
}

Test(redis_burst, is_a_transaction_only_if_there_is_an_order_to_keep)
{
        fill(1, 10, true);
        expect_plan(1, false);
        fill(3, 10, true); /* one key among them */
        expect_plan(3, false);
        fill(4, 10, true);
        expect_plan(4, true);
        fill(N_MAX, 10, false);
        expect_plan(REDIS_BURST_MAX, false);
        fill(N_MAX, 10, true);
        expect_plan(REDIS_BURST_MAX / 2, true);
        cr_expect(plan(false, false).kind == BURST_PLAIN);
        redis_ring_deinit(&ring);
}

/* n events, each with a key of its own but for this one, which has that of another. */
static void fill_distinct(size_t n, size_t repeats, size_t of)
{
        static char texts[N_MAX][32];

        fill(n, 10, false);
        for (size_t i = 0; i < n; i++) {
                snprintf(texts[i], sizeof texts[i], "customer-%zu", i);
                events[i].key = texts[i == repeats ? of : i];
        }
}

Test(redis_burst, is_no_transaction_where_each_key_comes_once)
{
        for (size_t n = 1; n <= REDIS_BURST_MAX; n++) {
                fill_distinct(n, 0, 0);
                expect_plan(n, false);
        }
        fill_distinct(N_MAX, 0, 0);
        expect_plan(REDIS_BURST_MAX, false);
        fill_distinct(N_MAX, REDIS_BURST_MAX, 0); /* it is the first of the next burst */
        expect_plan(REDIS_BURST_MAX, false);
        redis_ring_deinit(&ring);
}

Test(redis_burst, finds_a_repetition_wherever_it_stands)
{
        for (size_t of = 0; of < 20; of++)
                for (size_t i = of + 1; i < 20; i++) {
                        fill_distinct(20, i, of);
                        expect_plan(20, true);
                }
        fill_distinct(20, 19, 0);
        for (size_t i = 1; i < 19; i++)
                events[i].key = NULL;
        expect_plan(20, true);
        cr_expect(plan(false, false).kind == BURST_PLAIN);
        redis_ring_deinit(&ring);
}

Test(redis_burst, is_short_if_a_key_comes_twice)
{
        const size_t short_max = REDIS_BURST_MAX / 2;

        fill_distinct(N_MAX, 1, 0);
        expect_plan(short_max, true);
        fill_distinct(N_MAX, short_max - 1, 0);
        expect_plan(short_max, true);
        for (size_t i = short_max; i < REDIS_BURST_MAX; i++) { /* those before it go plain */
                fill_distinct(N_MAX, i, i - 1);
                expect_plan(i, false);
        }
        redis_ring_deinit(&ring);
}

/* What one burst held is nothing to the next one. */
Test(redis_burst, knows_the_keys_of_one_burst_only)
{
        fill_distinct(100, 0, 0);
        for (int i = 0; i < 3; i++)
                expect_plan(100, false);
        redis_ring_deinit(&ring);
}

/* The burst is sent, and so many of it are answered; what may be sent behind it? */
static struct redis_burst plan_behind(
    const struct redis_burst_policy *policy, const struct redis_burst *front, size_t n_answered)
{
        ring.n_sent = front->n;
        for (size_t i = 0; i < n_answered; i++)
                (void)redis_ring_take(&ring);
        return redis_burst_plan_behind(&ring, policy, &keys, front);
}

Test(redis_burst, is_followed_by_a_burst_of_other_keys)
{
        const struct redis_burst_policy policy = {.by_key = true};
        struct redis_burst front;
        struct redis_burst behind;

        fill_distinct(N_MAX, 0, 0);
        front = plan(true, false);
        behind = plan_behind(&policy, &front, 100);
        cr_expect(redis_burst_is_open(&behind) && behind.n == REDIS_BURST_MAX &&
                  behind.kind == BURST_PLAIN);
        for (size_t i = 0; i < 20; i++) { /* it ends before a key of either */
                for (size_t of = 0; of < i; of += 3) {
                        fill_distinct(20, i, of);
                        ring.n = 10;
                        front = plan(true, false);
                        ring.n = 20;
                        if (front.kind == BURST_TRANSACTION)
                                continue;
                        behind = plan_behind(&policy, &front, 5);
                        cr_expect_eq(behind.n, i < 10 ? 10 : i - 10);
                        cr_expect_eq(redis_burst_is_open(&behind), behind.n > 0);
                }
        }
        redis_ring_deinit(&ring);
}

Test(redis_burst, is_followed_by_its_own_keys_once_it_is_answered)
{
        const struct redis_burst_policy policy = {.by_key = true};
        struct redis_burst front;

        fill_distinct(30, 20, 0); /* three tens: the first and the last share a key */
        ring.n = 10;
        front = plan(true, false);
        ring.n = 20;
        front = plan_behind(&policy, &front, 10);
        cr_expect(front.n == 10);
        redis_keys_forget_others(&keys);
        ring.n = 20;
        front = plan_behind(&policy, &front, 0);
        cr_expect(front.n == 10);
        redis_ring_deinit(&ring);
}

Test(redis_burst, is_not_followed_in_modes_that_need_its_answer)
{
        const struct redis_burst_policy policies[] = {{.by_key = true, .is_cluster = true},
            {.by_key = true, .is_script = true}, {.by_key = true, .wait_replicas = 1}};
        const struct redis_burst_policy by_key = {.by_key = true};
        const struct redis_burst_policy none = {0};
        struct redis_burst front = {.stage = STAGE_SENT, .n = 1};

        fill_distinct(10, 0, 0);
        for (size_t i = 0; i < 3; i++)
                cr_expect(plan_behind(&policies[i], &front, 0).n == 0);
        cr_expect(plan_behind(&by_key, &front, 0).n == 9);
        front.kind = BURST_TRANSACTION;
        cr_expect(plan_behind(&by_key, &front, 0).n == 0);
        fill(10, 10, true);
        front = plan(false, true);
        cr_expect(plan_behind(&none, &front, 0).n == 9);
        redis_ring_at(&ring, 4)->attempt = NULL; /* a probe */
        cr_expect(plan_behind(&none, &front, 0).n == 3);
        redis_ring_deinit(&ring);
}

/* Whatever is in flight together is bounded, and a large event is alone. */
Test(redis_burst, is_not_followed_by_more_bytes_than_a_burst_may_have)
{
        const struct redis_burst_policy none = {0};
        struct redis_burst front;

        fill(10, 300000, false);
        front = plan(false, true);
        cr_expect(plan_behind(&none, &front, 0).n == 2);
        events[1].payload_bytes = 1100000;
        cr_expect(plan_behind(&none, &front, 0).n == 0);
        fill(10, 10, false);
        events[0].payload_bytes = 1100000;
        front = plan(false, false);
        cr_expect(front.n == 1);
        cr_expect(plan_behind(&none, &front, 0).n == 0);
        redis_ring_deinit(&ring);
}

/* A cluster redirects a transaction as a whole or not at all. */
Test(redis_burst, is_a_transaction_of_several_in_a_cluster)
{
        const struct redis_burst_policy policy = {.by_key = true, .is_cluster = true};
        struct redis_burst burst;

        fill_distinct(N_MAX, 0, 0);
        burst = redis_burst_plan(&ring, &policy, &keys, false);
        cr_expect(burst.kind == BURST_TRANSACTION && burst.n == REDIS_BURST_MAX);
        fill(N_MAX, 10, true);
        burst = redis_burst_plan(&ring, &policy, &keys, false);
        cr_expect(burst.kind == BURST_TRANSACTION && burst.n == REDIS_BURST_MAX);
        fill(1, 10, true);
        cr_expect(redis_burst_plan(&ring, &policy, &keys, false).kind == BURST_PLAIN);
        redis_ring_deinit(&ring);
}

Test(redis_burst, sends_large_events_and_probes_alone)
{
        fill(10, 300000, false);
        expect_plan(3, false);
        fill(10, 1100000, false);
        cr_expect(redis_event_is_large(&events[0]));
        expect_plan(1, false);
        fill(10, 10, true);
        events[4].payload_bytes = 1100000;
        expect_plan(4, true);
        fill(10, 10, true); /* just large, with little behind it */
        events[0].payload_bytes = 1024 * 1024 - 4096;
        cr_expect(redis_event_is_large(&events[0]));
        expect_plan(1, false);
        fill(10, 10, true);
        redis_ring_at(&ring, 5)->attempt = NULL;
        expect_plan(5, true);
        redis_ring_at(&ring, 0)->attempt = NULL;
        expect_plan(1, false);
        redis_ring_deinit(&ring);
}

static enum redis_burst_step answer(struct redis_burst *burst, int type, const char *text)
{
        redisReply reply = {.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};

        return redis_burst_take(burst, &reply, false);
}

static void expect_all(const struct redis_burst *burst, enum outcome_kind kind)
{
        for (size_t i = 0; i < burst->n; i++) {
                struct redis_verdict verdict = redis_burst_verdict(burst, NULL, i, false);
                cr_expect_eq(verdict.outcome.kind, kind, "%s", verdict.outcome.reason);
        }
}

Test(redis_burst, has_one_verdict_for_all_if_the_sink_is_refused)
{
        struct redis_burst burst;

        fill(4, 10, true);
        burst = plan(true, false);
        cr_expect_eq(answer(&burst, REDIS_REPLY_STATUS, "OK"), BURST_GOES_ON);
        for (int i = 0; i < 4; i++)
                cr_expect_eq(answer(&burst, REDIS_REPLY_STATUS, "QUEUED"), BURST_GOES_ON);
        cr_expect(redis_burst_is_open(&burst));
        cr_expect_eq(answer(&burst, REDIS_REPLY_ERROR,
                         "EXECABORT Transaction discarded because of: READONLY You can't write"),
            BURST_ANSWERS_ALL);
        cr_expect_not(redis_burst_is_open(&burst));
        expect_all(&burst, OUTCOME_SINK_DOWN);
        redis_ring_deinit(&ring);
}

Test(redis_burst, is_to_be_sent_one_by_one_after_the_first_refusal)
{
        struct redis_burst burst;

        fill(4, 10, true);
        for (int n_ok = 0; n_ok < 4; n_ok++) {
                burst = plan(true, false);
                answer(&burst, REDIS_REPLY_STATUS, "OK");
                for (int i = 0; i < 4; i++)
                        answer(&burst, i == n_ok ? REDIS_REPLY_ERROR : REDIS_REPLY_STATUS,
                            i == n_ok ? "NOPERM no" : "QUEUED");
                answer(&burst, REDIS_REPLY_ERROR, "EXECABORT previous errors.");
                expect_all(&burst, OUTCOME_CANCELLED);
                cr_expect(burst.refusal.outcome.needs_operator);
        }
        burst = plan(true, false);
        answer(&burst, REDIS_REPLY_STATUS, "OK");
        for (int i = 0; i < 4; i++)
                answer(&burst, REDIS_REPLY_ERROR, "ERR something new");
        answer(&burst, REDIS_REPLY_ERROR, "EXECABORT previous errors.");
        expect_all(&burst, OUTCOME_CANCELLED);
        redis_ring_deinit(&ring);
}

Test(redis_burst, judges_each_answer_alone_when_multi_was_refused)
{
        struct redis_burst burst;

        fill(4, 10, true);
        burst = plan(true, false);
        cr_expect_eq(answer(&burst, REDIS_REPLY_ERROR, "NOPERM no"), BURST_GOES_ON);
        for (int i = 0; i < 4; i++)
                cr_expect_eq(answer(&burst, REDIS_REPLY_STRING, "1-1"), BURST_ANSWERS_ONE);
        cr_expect(redis_burst_is_open(&burst));
        cr_expect_eq(answer(&burst, REDIS_REPLY_ERROR, "ERR EXEC without MULTI"), BURST_LOST_MULTI);
        cr_expect_not(redis_burst_is_open(&burst));
        redis_ring_deinit(&ring);
}

/* No EXEC is answered on a connection that Redis closes. */
Test(redis_burst, ends_with_the_connection)
{
        struct redis_burst burst;

        fill(4, 10, true);
        burst = plan(true, false);
        answer(&burst, REDIS_REPLY_STATUS, "OK");
        answer(&burst, REDIS_REPLY_STATUS, "QUEUED");
        cr_expect_eq(answer(&burst, REDIS_REPLY_ERROR, "ERR Protocol error: invalid bulk length"),
            BURST_ANSWERS_ALL);
        cr_expect_not(redis_burst_is_open(&burst));
        expect_all(&burst, OUTCOME_CANCELLED);
        redis_ring_deinit(&ring);
}

Test(redis_burst, survives_an_exec_of_another_size)
{
        struct redis_burst burst;
        redisReply *elements[1] = {NULL};
        const redisReply exec = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = elements};

        fill(4, 10, true);
        burst = plan(true, false);
        answer(&burst, REDIS_REPLY_STATUS, "OK");
        for (int i = 0; i < 4; i++)
                answer(&burst, REDIS_REPLY_STATUS, "QUEUED");
        cr_expect_eq(redis_burst_take(&burst, &exec, false), BURST_ANSWERS_ALL);
        expect_all(&burst, OUTCOME_CANCELLED);
        redis_ring_deinit(&ring);
}

Test(redis_burst, is_a_transaction_of_any_size_if_replicas_are_to_have_it)
{
        const struct redis_burst_policy policy = {.wait_replicas = 2};
        struct redis_burst burst;

        fill(1, 10, false);
        burst = redis_burst_plan(&ring, &policy, &keys, false);
        cr_expect(burst.kind == BURST_TRANSACTION && burst.wait_replicas == 2);
        redis_ring_at(&ring, 0)->attempt = NULL; /* a probe asks for none */
        burst = redis_burst_plan(&ring, &policy, &keys, false);
        cr_expect(burst.kind == BURST_PLAIN && burst.wait_replicas == 0);
        redis_ring_deinit(&ring);
}

Test(redis_burst, holds_its_answers_until_the_replicas_are_counted)
{
        static char text[] = "1-1";
        redisReply id = {.type = REDIS_REPLY_STRING, .str = text, .len = 3};
        redisReply *ids[] = {&id};
        const redisReply all = {.type = REDIS_REPLY_ARRAY, .elements = 1, .element = ids};
        redisReply count = {.type = REDIS_REPLY_INTEGER, .integer = 2};

        for (int shortage = 0; shortage < 2; shortage++) {
                struct redis_burst burst = {
                    .kind = BURST_TRANSACTION, .stage = STAGE_SENT, .n = 1, .wait_replicas = 2};

                cr_expect(answer(&burst, REDIS_REPLY_STATUS, "OK") == BURST_GOES_ON);
                cr_expect(answer(&burst, REDIS_REPLY_STATUS, "QUEUED") == BURST_GOES_ON);
                cr_expect(redis_burst_take(&burst, &all, false) == BURST_EXECUTED);
                cr_expect(redis_burst_is_delivered(&burst, &all, 0));
                cr_expect(redis_burst_is_open(&burst));
                count.integer = 2 - shortage;
                cr_expect(redis_burst_take(&burst, &count, false) == BURST_WAITED);
                cr_expect_not(redis_burst_is_open(&burst));
                cr_expect(burst.is_refused == (shortage > 0));
        }
}

Test(redis_burst, gives_back_the_events_behind_the_first_error_of_a_script)
{
        static char words[] = "OOM command not allowed";
        static char text[] = "1-1";
        redisReply id = {.type = REDIS_REPLY_STRING, .str = text, .len = 3};
        redisReply error = {.type = REDIS_REPLY_ERROR, .str = words, .len = sizeof words - 1};
        redisReply *replies[] = {&id, &error};
        const redisReply all = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = replies};
        struct redis_burst burst = {.kind = BURST_SCRIPT, .stage = STAGE_SENT, .n = 3};

        cr_expect(redis_burst_take(&burst, &all, false) == BURST_ANSWERS_ALL);
        cr_expect(redis_burst_is_delivered(&burst, &all, 0));
        cr_expect_not(redis_burst_is_delivered(&burst, &all, 1));
        cr_expect(redis_burst_verdict(&burst, &all, 1, false).outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect_not(redis_burst_is_delivered(&burst, &all, 2));
        cr_expect(redis_burst_verdict(&burst, &all, 2, false).outcome.kind == OUTCOME_CANCELLED);
}

Test(redis_burst, leaves_a_connection_that_no_longer_owns_its_stream)
{
        const redisReply nil = {.type = REDIS_REPLY_NIL};
        struct redis_burst burst = {.kind = BURST_SCRIPT, .stage = STAGE_SENT, .n = 2};

        cr_expect(redis_burst_take(&burst, &nil, false) == BURST_ANSWERS_ALL);
        for (size_t i = 0; i < 2; i++) {
                const struct redis_verdict verdict = redis_burst_verdict(&burst, &nil, i, false);
                cr_expect_not(redis_burst_is_delivered(&burst, &nil, i));
                cr_expect(verdict.outcome.kind == OUTCOME_SINK_DOWN && verdict.leaves_server);
        }
}

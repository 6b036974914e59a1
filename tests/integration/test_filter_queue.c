/* The queue by itself, on a real server: what filters say, and what those may cost that take
 * long. */
#include "base/alloc.h"
#include "outbox/filter_internal.h" /* what a filter has to do to be proven */
#include "support/dear_filter.h"
#include "support/postgres.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_EVENTS_MAX = 1000 };

/* Whether a filter is being asked at this moment. */
#define IS_ASKED                                                                                   \
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"                 \
        " AND state = 'active' AND query LIKE '%true_filters%' AND pid <> pg_backend_pid()"

struct asker {
        struct filter *filter;
        struct filter_request ask;
        enum filter_answer answers[N_EVENTS_MAX];
        bool is_done;
        char given_up[256];
};

struct rig {
        uv_loop_t loop;
        char *dsn, *relay;
        PGconn *admin;
        struct postgres_config config;
        struct filter_queue *queue;
        struct event events[N_EVENTS_MAX]; /* with the ids 1, 2, 3 … */
        unsigned n_lost, n_back;
        struct error trouble;
};

static void on_lost(void *owner, const struct error *error, int64_t retry_ms)
{
        struct rig *rig = owner;

        (void)retry_ms;
        rig->n_lost++;
        rig->trouble = *error;
}

static void on_back(void *owner)
{
        struct rig *rig = owner;

        rig->n_back++;
}

static void begin(struct rig *rig)
{
        static const struct filter_queue_events events = {
            .on_trouble = on_lost, .on_back = on_back};
        char *server;

        *rig = (struct rig){.dsn = postgres_new_database(postgres_shared())};
        rig->relay = dsn_as_user(rig->dsn, "relay");
        rig->admin = database_connect(rig->dsn);
        rig->config = (struct postgres_config){
            .dsn = rig->relay, .connect_timeout_ms = 30000, .query_timeout_ms = 30000};
        uv_loop_init(&rig->loop);
        rig->queue = filter_queue_create(&rig->loop, &rig->config, &events, rig);
        for (int i = 0; i < N_EVENTS_MAX; i++)
                rig->events[i].id = i + 1;
        server = database_value(rig->admin, "SELECT pg_postmaster_start_time()");
        filter_queue_session_up(rig->queue, server);
        free(server);
}

static void end(struct rig *rig)
{
        filter_queue_session_down(rig->queue);
        filter_queue_destroy(rig->queue);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        uv_loop_close(&rig->loop);
        PQfinish(rig->admin);
        free(rig->relay);
        free(rig->dsn);
}

static void on_given_up(void *owner, const char *words)
{
        struct asker *asker = owner;

        snprintf(asker->given_up, sizeof asker->given_up, "%s", words);
}

static void on_answered(struct filter_request *ask)
{
        list_owner(ask, struct asker, ask)->is_done = true;
}

static void open_asker(struct rig *rig, struct asker *asker, const char *filter)
{
        *asker = (struct asker){0};
        asker->filter = filter_open(rig->queue, filter, on_given_up, asker);
        filter_request_init(&asker->ask, on_answered);
}

static void close_asker(struct asker *asker)
{
        filter_queue_withdraw(&asker->ask);
        filter_close(asker->filter);
}

/* About the events from..to. */
static void ask(struct rig *rig, struct asker *asker, size_t from, size_t to)
{
        asker->is_done = false;
        asker->ask.events = &rig->events[from - 1];
        asker->ask.n_events = to - from + 1;
        asker->ask.answers = asker->answers;
        filter_queue_ask(asker->filter, &asker->ask);
}

static void await(struct rig *rig, const struct asker *asker)
{
        while (!asker->is_done)
                uv_run(&rig->loop, UV_RUN_ONCE);
}

/* One letter for each event: Yes, no, or unjudged. */
static const char *answers(struct rig *rig, struct asker *asker, size_t from, size_t to)
{
        static char text[N_EVENTS_MAX + 1];

        ask(rig, asker, from, to);
        await(rig, asker);
        for (size_t i = 0; i < asker->ask.n_answered; i++)
                text[i] = asker->answers[i] == FILTER_PASSED    ? 'Y'
                          : asker->answers[i] == FILTER_STOPPED ? '-'
                                                                : '?';
        text[asker->ask.n_answered] = '\0';
        return text;
}

static const char *answer_once(struct rig *rig, const char *filter, size_t from, size_t to)
{
        struct asker asker;
        const char *text;

        open_asker(rig, &asker, filter);
        text = answers(rig, &asker, from, to);
        close_asker(&asker);
        return text;
}

static void publish(struct rig *rig, const char *payload, int n)
{
        char *sql = xasprintf("INSERT INTO courier.outbox (topic, payload) SELECT 't', '%s'"
                              " FROM generate_series(1, %d)",
            payload, n);

        database_exec(rig->admin, sql);
        free(sql);
}

/* The last ones are what jsonb cannot hold, and bytes. */
static void publish_all_kinds(struct rig *rig)
{
        database_exec(rig->admin,
            "INSERT INTO courier.outbox (topic, payload) VALUES"
            " ('t', '{\"amount\": 150, \"country\": \"DE\"}'),"
            " ('t', '{\"amount\": 50, \"country\": \"DE\"}'),"
            " ('t', '{\"amount\": \"many\", \"country\": \"DE\"}'),"
            " ('t', '{\"country\": \"DE\"}'), ('t', '7'),"
            " ('t', '{\"amount\": 150, \"country\": \"\\u0000\"}'),"
            " ('t', '{\"amount\": 1e999999}'),"
            " ('t', '{\"amount\": 200, \"country\": \"FR\", \"at\": \"2026-01-01T00:00:00\"}');"
            "INSERT INTO courier.outbox (topic, data) VALUES ('t', '{\"amount\": 150}')");
}

Test(queue, answers_each_filter_and_never_fails)
{
        struct rig rig;

        begin(&rig);
        publish_all_kinds(&rig);
        cr_expect_str_eq(answer_once(&rig, "$.amount > 100", 1, 9), "Y------Y-");
        cr_expect_str_eq(
            answer_once(&rig, "$.amount > 100 && $.country == \"DE\"", 1, 9), "Y--------");
        cr_expect_str_eq(answer_once(&rig, "exists($.country)", 1, 9), "YYYY---Y-");
        /* A jsonpath that complains although told to be silent: about time zones, of one event. */
        cr_expect_str_eq(
            answer_once(&rig,
                "$.at.datetime() < \"2027-01-01T00:00:00+00:00\".datetime() || $.amount == 50", 1,
                9),
            "-Y-------");
        cr_expect_eq(rig.n_lost, 0);
        end(&rig);
}

Test(queue, answers_a_thousand_filters_of_many_events)
{
        enum { N = 1000 };
        struct rig rig;
        static struct asker askers[N];
        char filter[32];

        begin(&rig);
        database_exec(rig.admin, "INSERT INTO courier.outbox (topic, payload) SELECT 't',"
                                 " json_build_object('n', i) FROM generate_series(1, 300) AS i");
        for (int i = 0; i < N; i++) {
                snprintf(filter, sizeof filter, "$.n == %d", i % 500);
                open_asker(&rig, &askers[i], filter);
        }
        for (int round = 0; round < 3; round++) {
                for (int i = 0; i < N; i++)
                        ask(&rig, &askers[i], 1, 300);
                for (int i = 0; i < N; i++) {
                        await(&rig, &askers[i]);
                        cr_assert_eq(askers[i].ask.n_answered, 300);
                        for (int e = 0; e < 300; e++)
                                cr_assert_eq(askers[i].answers[e],
                                    e + 1 == i % 500 ? FILTER_PASSED : FILTER_STOPPED);
                }
        }
        for (int i = 0; i < N; i++)
                close_asker(&askers[i]);
        end(&rig);
}

Test(queue, gives_up_a_filter_that_takes_too_long_while_others_are_answered)
{
        struct rig rig;
        struct asker dear, good;

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_asker(&rig, &dear, DEAR);
        open_asker(&rig, &good, "$.id == 1");
        cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        ask(&rig, &dear, 1, 10);
        cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        cr_expect_not(dear.is_done, "the others did not wait for it");
        for (int i = 0; i < 20; i++)
                cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        await(&rig, &dear);
        cr_expect(filter_is_given_up(dear.filter));
        cr_expect_eq(dear.ask.n_answered, 3, "three in a row are enough");
        for (int i = 0; i < 3; i++)
                cr_expect_eq(dear.answers[i], FILTER_UNJUDGED);
        cr_expect_str_eq(dear.given_up,
            "its filter takes too long: more than 400 ms for each of 3 events in a row, the last "
            "with the id 3; simplify it");
        cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        cr_expect_eq(rig.n_lost, 0, "no session was lost over it");
        close_asker(&dear);
        close_asker(&good);
        end(&rig);
}

/* There may be many that are slow, each with a text of its own. */
static void open_dear(struct rig *rig, struct asker *askers, int n)
{
        char filter[400];

        for (int i = 0; i < n; i++) {
                snprintf(filter, sizeof filter, "%s && $.id == %d", DEAR, i);
                open_asker(rig, &askers[i], filter);
                ask(rig, &askers[i], 1, 10);
        }
}

static int n_given_up(const struct asker *askers, int n)
{
        int n_given_up = 0;

        for (int i = 0; i < n; i++)
                n_given_up += filter_is_given_up(askers[i].filter);
        return n_given_up;
}

Test(queue, answers_new_filters_while_many_slow_filters_wait)
{
        enum { N_DEAR = 6, N_NEW = 10 };
        struct rig rig;
        struct asker dear[N_DEAR], new;
        char filter[32];

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_dear(&rig, dear, N_DEAR);
        for (int i = 0; i < N_NEW; i++) {
                snprintf(filter, sizeof filter, "$.id < %d", i + 2);
                open_asker(&rig, &new, filter);
                cr_expect_str_eq(answers(&rig, &new, 1, 10), "YYYYYYYYYY");
                close_asker(&new);
        }
        cr_expect_leq(
            n_given_up(dear, N_DEAR), 1, "one after the other, they did not wait for all");
        for (int i = 0; i < N_DEAR; i++)
                close_asker(&dear[i]);
        end(&rig);
}

Test(queue, judges_slow_filters_one_after_the_other)
{
        enum { N_DEAR = 3 };
        struct rig rig;
        struct asker dear[N_DEAR];

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_dear(&rig, dear, N_DEAR);
        while (n_given_up(dear, N_DEAR) == 0)
                uv_run(&rig.loop, UV_RUN_ONCE);
        for (int i = 0; i < N_DEAR; i++) {
                cr_expect_eq(dear[i].ask.n_answered, i == 0 ? 3 : 0, "of %d", i);
                cr_expect_eq(filter_is_slow(dear[i].filter), i > 0, "it has been found out");
        }
        for (int i = 0; i < N_DEAR; i++)
                close_asker(&dear[i]);
        end(&rig);
}

/* Else each event that makes it slow would be the others', too. */
Test(queue, asks_more_of_a_filter_that_was_slow_before_it_is_asked_with_others)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        publish(&rig, "{\"id\":1}", 5);
        publish(&rig, A_DOZEN, 1);
        publish(&rig, "{\"id\":1}", 500);
        open_asker(&rig, &asker, "$.id == 1 && !(exists($.e) && " DEAR ")");
        while (!asker.filter->is_proven) /* a busy machine may take longer */
                cr_expect_str_eq(answers(&rig, &asker, 1, 5), "YYYYY");
        for (int round = 0, n_good = 4; round < 3; round++, n_good *= 4) {
                cr_expect_str_eq(answers(&rig, &asker, 6, 6), "?");
                cr_expect(filter_is_slow(asker.filter));
                (void)answers(&rig, &asker, 7, 7 + n_good - 3);
                cr_expect_not(asker.filter->is_proven, "after %d events", n_good - 2);
                while (!asker.filter->is_proven)
                        (void)answers(&rig, &asker, 7, 8);
        }
        cr_expect_not(filter_is_given_up(asker.filter));
        close_asker(&asker);
        end(&rig);
}

/* The server has no memory for a filter, if that is so of the event $3. */
static void lack_memory(struct rig *rig, const char *condition)
{
        char *sql = xasprintf(
            "ALTER FUNCTION courier.true_filters(json, jsonpath[], bigint) RENAME TO enough_memory;"
            "CREATE FUNCTION courier.true_filters(json, jsonpath[], bigint) RETURNS integer[]"
            " LANGUAGE plpgsql AS $$ BEGIN"
            "  IF %s THEN RAISE EXCEPTION 'out of memory' USING ERRCODE = 'out_of_memory'; END IF;"
            "  RETURN courier.enough_memory($1, $2, $3);"
            " END $$;"
            "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA courier TO PUBLIC",
            condition);

        database_exec(rig->admin, sql);
        free(sql);
}

/* It is neither true nor false then: it is asked again. */
Test(queue, waits_for_a_server_that_cannot_answer)
{
        struct rig rig;
        struct asker asker, other;

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        database_exec(rig.admin, "CREATE TABLE public.short_of_memory ();"
                                 "GRANT SELECT ON public.short_of_memory TO PUBLIC");
        lack_memory(&rig, "EXISTS (SELECT FROM public.short_of_memory)");
        open_asker(&rig, &asker, "$.id == 1");
        open_asker(&rig, &other, "$.id == 2");
        cr_expect_str_eq(answers(&rig, &asker, 1, 5), "YYYYY");
        cr_expect_str_eq(answers(&rig, &other, 1, 5), "-----");
        database_exec(rig.admin, "INSERT INTO public.short_of_memory DEFAULT VALUES");
        ask(&rig, &asker, 6, 10);
        ask(&rig, &other, 6, 10);
        while (rig.n_lost == 0)
                uv_run(&rig.loop, UV_RUN_ONCE);
        cr_expect_not_null(strstr(rig.trouble.text, "out of memory"), "%s", rig.trouble.text);
        database_exec(rig.admin, "TRUNCATE public.short_of_memory");
        await(&rig, &asker);
        await(&rig, &other);
        for (int i = 0; i < 5; i++) {
                cr_expect_eq(asker.answers[i], FILTER_PASSED);
                cr_expect_eq(other.answers[i], FILTER_STOPPED);
        }
        cr_expect_eq(rig.n_back, 1);
        close_asker(&asker);
        close_asker(&other);
        end(&rig);
}

/* A payload may be more than the server has memory for, for ever. */
Test(queue, leaves_an_event_unjudged_that_the_server_can_never_answer_for)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        publish(&rig, A_DOZEN, 3);
        lack_memory(&rig, "$3 = 2");
        open_asker(&rig, &asker, "$.id == 1");
        cr_expect_str_eq(answers(&rig, &asker, 1, 3), "Y?Y");
        cr_expect_not(filter_is_given_up(asker.filter));
        cr_expect_eq(rig.n_lost, 4, "asked five times");
        close_asker(&asker);
        end(&rig);
}

Test(queue, does_not_judge_an_event_that_makes_a_good_filter_slow)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        publish(&rig, "{\"id\": 1}", 4);
        publish(&rig, A_DOZEN, 1);
        publish(&rig, "{\"id\": 1}", 4);
        open_asker(&rig, &asker, "$.id == 1 && !" DEAR);
        cr_expect_str_eq(answers(&rig, &asker, 1, 4), "YYYY");
        cr_expect_str_eq(answers(&rig, &asker, 1, 9), "YYYY?YYYY");
        cr_expect_not(filter_is_given_up(asker.filter));
        close_asker(&asker);
        end(&rig);
}

Test(queue, forgets_slow_answers_after_a_good_answer)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        for (int i = 0; i < 4; i++) {
                publish(&rig, A_DOZEN, 1);
                publish(&rig, "{\"id\": 1}", 1);
        }
        open_asker(&rig, &asker, "$.id == 1 && !" DEAR);
        cr_expect_str_eq(answers(&rig, &asker, 1, 8), "?Y?Y?Y?Y");
        cr_expect_not(filter_is_given_up(asker.filter));
        close_asker(&asker);
        end(&rig);
}

/* Also where a filter of the same words waits for it, and while others are asked about the same
 * event. */
Test(queue, finds_the_slow_filter_among_many_that_are_asked_together)
{
        enum { N = 20 };
        struct rig rig;
        struct asker askers[N];
        char filter[1024];

        begin(&rig);
        publish(&rig, "{\"id\": 1}", 3);
        publish(&rig, A_DOZEN, 1);
        for (int i = 0; i < N; i++) {
                snprintf(filter, sizeof filter, "$.id == 1 && $.id < %d%s", i + 5,
                    i == 7 || i == 8 ? " && !" DEAR : "");
                open_asker(&rig, &askers[i], filter);
                cr_expect_str_eq(answers(&rig, &askers[i], 1, 3), "YYY");
        }
        for (int i = 0; i < N; i++)
                ask(&rig, &askers[i], 1, 4);
        for (int i = 0; i < N; i++) {
                await(&rig, &askers[i]);
                cr_expect_eq(
                    askers[i].answers[3], i == 7 || i == 8 ? FILTER_UNJUDGED : FILTER_PASSED);
                cr_expect_not(filter_is_given_up(askers[i].filter));
                close_asker(&askers[i]);
        }
        end(&rig);
}

Test(queue, does_not_judge_an_event_that_no_longer_exists)
{
        struct rig rig;

        begin(&rig);
        publish(&rig, "{\"id\": 1}", 5);
        database_exec(rig.admin, "DELETE FROM courier.outbox WHERE id IN (2, 5)");
        cr_expect_str_eq(answer_once(&rig, "$.id == 1", 1, 5), "Y?YY?");
        end(&rig);
}

/* PostgreSQL reads each for longer than a filter may take in its last try. */
#define SLOW_READING                                                                               \
        "ALTER FUNCTION courier.true_filters(json, jsonpath[], bigint) RENAME TO quick_filters;"   \
        "CREATE FUNCTION courier.true_filters(payload json, filters jsonpath[], id bigint)"        \
        " RETURNS integer[] LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6);"                     \
        " RETURN courier.quick_filters(payload, filters, id); END'"

Test(queue, does_not_blame_a_filter_for_a_large_payload)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        database_exec(rig.admin, SLOW_READING);
        publish(&rig, "{\"n\": 1}", 1);
        publish(&rig, "{\"n\": 2}", 1);
        for (int i = 0; i < 2; i++)
                rig.events[i].payload_bytes = 600 << 20; /* as far as the relay knows */
        open_asker(&rig, &asker, "$.n > 1");
        cr_expect_str_eq(answers(&rig, &asker, 1, 2), "-Y");
        cr_expect_not(filter_is_given_up(asker.filter));
        close_asker(&asker);
        end(&rig);
}

Test(queue, asks_again_after_its_connections_were_lost)
{
        struct rig rig;
        struct asker dear, good;

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_asker(&rig, &dear, DEAR);
        open_asker(&rig, &good, "$.id == 1");
        cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        ask(&rig, &dear, 1, 10);
        database_exec(rig.admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                 " WHERE usename = 'relay' AND datname = current_database()");
        cr_expect_str_eq(answers(&rig, &good, 1, 10), "YYYYYYYYYY");
        await(&rig, &dear);
        cr_expect(filter_is_given_up(dear.filter));
        cr_expect_gt(rig.n_lost, 0);
        cr_expect_eq(rig.n_back, rig.n_lost);
        close_asker(&dear);
        close_asker(&good);
        end(&rig);
}

Test(queue, asks_only_the_server_that_has_the_events)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        publish(&rig, A_DOZEN, 1);
        filter_queue_session_down(rig.queue);
        filter_queue_session_up(rig.queue, "2001-01-01 00:00:00+00");
        open_asker(&rig, &asker, "$.id == 1");
        ask(&rig, &asker, 1, 1);
        while (rig.n_lost == 0 && !asker.is_done)
                uv_run(&rig.loop, UV_RUN_ONCE);
        cr_expect_not(asker.is_done);
        cr_expect_not_null(strstr(rig.trouble.text, "another server"));
        close_asker(&asker);
        end(&rig);
}

/* The answer comes when its question has been withdrawn. */
Test(queue, forgets_a_slow_filter_whose_ask_was_withdrawn)
{
        struct rig rig;
        struct asker dear, good;

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_asker(&rig, &dear, DEAR);
        open_asker(&rig, &good, "$.id == 1");
        ask(&rig, &dear, 1, 10);
        while (database_integer(rig.admin, IS_ASKED) == 0)
                uv_run(&rig.loop, UV_RUN_NOWAIT);
        ask(&rig, &good, 1, 10); /* waits for it */
        filter_queue_withdraw(&dear.ask);
        await(&rig, &good);
        cr_expect_eq(good.ask.n_answered, 10);
        cr_expect_eq(dear.ask.n_answered, 0);
        cr_expect_not(filter_is_given_up(dear.filter));
        close_asker(&dear);
        close_asker(&good);
        end(&rig);
}

Test(queue, lets_an_ask_be_withdrawn_while_it_is_under_way)
{
        struct rig rig;
        struct asker asker;

        begin(&rig);
        publish(&rig, A_DOZEN, 10);
        open_asker(&rig, &asker, "$.id == 1");
        ask(&rig, &asker, 1, 10);
        uv_run(&rig.loop, UV_RUN_NOWAIT);
        filter_queue_withdraw(&asker.ask);
        cr_expect_not(filter_request_is_under_way(&asker.ask));
        cr_expect_str_eq(answers(&rig, &asker, 5, 10), "YYYYYY");
        close_asker(&asker);
        end(&rig);
}

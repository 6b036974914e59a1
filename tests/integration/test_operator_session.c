/* The relay's third connection: looks, and what operators want done (src/operator/operator_session.h). */
#include "operator/operator_session.h"

#include "base/alloc.h"
#include "failures_rig.h"

#include <stdlib.h>

static struct failures_rig rig;

/* A watch in the test's process, and what it was told. */
struct watched {
        uv_loop_t loop;
        struct operator_session *session;
        struct sink_config sink;
        struct stdout_config printed;
        struct config config;
        char *topics[1];
        unsigned n_looks;
        unsigned n_answers;
        bool is_calling; /* into the watch: nothing may be answered now */
        struct operator_session_answer answer;
        char *failure; /* owned; of the answer */
        json_t *rows;  /* the same */
};

static struct watched watched;

static void on_look(void *owner)
{
        struct watched *self = owner;

        self->n_looks++;
        uv_stop(&self->loop); /* a turn ends with it, and does not wait for the next */
}

static void on_answer(void *owner, const struct operator_session_answer *answer)
{
        struct watched *self = owner;

        cr_assert_not(self->is_calling, "answered inside the call");
        self->n_answers++;
        uv_stop(&self->loop);
        self->answer = *answer;
        free(self->failure);
        self->failure = answer->failure != NULL ? xstrdup(answer->failure) : NULL;
        json_decref(self->rows);
        self->rows = json_incref(answer->rows);
}

static void start(void)
{
        static const struct operator_session_events events = {.on_look = on_look};

        failures_rig_start(&rig);
        database_exec(rig.owner,
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot,"
            " from_floor, from_xid) VALUES ('mail', 1, '10:10:', 0, '10')");
        watched = (struct watched){.topics = {(char[]){"**"}}};
        watched.sink =
            (struct sink_config){.name = (char[]){"mail"}, .topics = watched.topics, .n_topics = 1};
        watched.sink.stdout_ = &watched.printed;
        watched.config = (struct config){.sinks = &watched.sink, .n_sinks = 1};
        watched.config.postgres = (struct postgres_config){
            .dsn = rig.dsn, .connect_timeout_ms = 30000, .query_timeout_ms = 30000};
        uv_loop_init(&watched.loop);
        watched.session =
            operator_session_create(&watched.loop, &watched.config, &events, &watched);
}

static void stop(void)
{
        operator_session_destroy(watched.session);
        uv_run(&watched.loop, UV_RUN_DEFAULT);
        cr_expect_eq(uv_loop_close(&watched.loop), 0);
        free(watched.failure);
        json_decref(watched.rows);
        failures_rig_stop(&rig);
}

TestSuite(session, .init = start, .fini = stop);

static void await(const unsigned *count, unsigned n)
{
        bool is_alive = true;

        while (*count < n && is_alive)
                is_alive = uv_run(&watched.loop, UV_RUN_ONCE) != 0;
        cr_assert_geq(*count, n, "the loop has nothing left to do");
}

static void open_watch(void)
{
        operator_session_open(watched.session);
        await(&watched.n_looks, 1);
}

/* What a call comes to; nothing may come twice. */
#define answered(call)                                                                             \
        do {                                                                                       \
                unsigned n_before = watched.n_answers;                                             \
                watched.is_calling = true;                                                         \
                call;                                                                              \
                watched.is_calling = false;                                                        \
                await(&watched.n_answers, n_before + 1);                                           \
        } while (0)

static json_int_t n_dead(void)
{
        const json_t *sinks =
            json_object_get(operator_session_ask_status(watched.session), "sinks");

        return json_integer_value(json_object_get(json_object_get(sinks, "mail"), "dead"));
}

Test(session, looks_again_soon_if_somebody_asks)
{
        cr_expect_null(operator_session_ask_status(watched.session));
        cr_expect_eq(operator_session_age_ms(watched.session), -1);
        cr_expect_not_null(operator_session_failure(watched.session));
        open_watch();
        cr_expect_eq(n_dead(), 0);
        cr_expect_null(operator_session_failure(watched.session));

        insert_dead_letter(&rig, NULL);
        operator_session_ask(watched.session);
        operator_session_ask(watched.session);
        await(&watched.n_looks, 2);
        cr_expect_eq(n_dead(), 1);
        insert_dead_letter(&rig, NULL);
        await(&watched.n_looks, 3); /* by itself */
        cr_expect_eq(n_dead(), 2);
}

Test(session, looks_at_other_sinks_when_they_change)
{
        open_watch();
        watched.sink.name = (char[]){"web"};
        operator_session_set_sinks(watched.session, &watched.config);
        await(&watched.n_looks, 2);
        cr_expect_not_null(json_object_get(
            json_object_get(operator_session_ask_status(watched.session), "sinks"), "web"));
        cr_expect_eq(json_array_size(
                         json_object_get(operator_session_ask_status(watched.session), "orphans")),
            1);
}

Test(session, pauses_and_resumes)
{
        PGconn *listener = listen_to_control(&rig);

        open_watch();
        answered(operator_session_pause(watched.session, "mail", "tea's up", on_answer, &watched));
        cr_expect_null(watched.failure);
        cr_expect_eq(watched.answer.n, 1);
        cr_expect_geq(count_notifications(listener), 1);
        answered(operator_session_pause(watched.session, "mail", NULL, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 0);
        cr_expect_eq(
            database_integer(rig.owner, "SELECT count(*) FROM courier.pause WHERE sink = 'mail'"
                                        " AND by = 'operator' AND reason = 'tea''s up'"),
            1);
        answered(operator_session_resume(watched.session, "mail", on_answer, &watched));
        cr_expect_eq(watched.answer.n, 1);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.pause"), 0);
        answered(
            operator_session_pause(watched.session, "mail", "two\nlines", on_answer, &watched));
        cr_expect_str_eq(
            watched.failure, "the reason has a control character at byte 4; it must be one line");
        PQfinish(listener);
}

Test(session, lists_dead_letters_from_the_newest_on)
{
        json_t *first;

        for (int i = 0; i < 5; i++)
                insert_dead_letter(&rig, i == 2 ? "sink = 'web'" : "target = 'box', key = 'k'");
        open_watch();
        answered(operator_session_list_dead(watched.session, "mail", 0, 2, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 2);
        cr_expect(watched.answer.has_more);
        first = json_array_get(watched.rows, 0);
        cr_expect_eq(json_integer_value(json_object_get(first, "id")), 5);
        cr_expect_str_eq(json_string_value(json_object_get(first, "target")), "box");
        cr_expect_null(json_object_get(first, "payload"));
        answered(operator_session_list_dead(watched.session, "mail", 4, 2, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 2);
        cr_expect_not(watched.answer.has_more);
        answered(operator_session_list_dead(watched.session, NULL, 0, 50, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 5);
}

Test(session, redrives_and_drops)
{
        const int64_t ids[] = {1, 3, 77};
        PGconn *listener = listen_to_control(&rig);

        for (int i = 0; i < 4; i++)
                insert_dead_letter(&rig, i == 3 ? "sink = 'web'" : NULL);
        insert_parked(&rig, "outbox_id = 3");
        open_watch();
        answered(operator_session_redrive(watched.session,
            &(struct operator_session_dead){.ids = ids, .n_ids = 3}, on_answer, &watched));
        cr_expect_null(watched.failure);
        cr_expect_eq(watched.answer.n, 1);
        cr_expect_eq(watched.answer.n_kept, 1); /* its event is parked already */
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.parked"), 2);
        cr_expect_geq(count_notifications(listener), 1);

        answered(operator_session_drop(
            watched.session, &(struct operator_session_dead){.sink = "mail"}, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 2);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.dead_letter"), 1);
        PQfinish(listener);
}

Test(session, goes_through_many_batch_by_batch)
{
        database_exec(rig.owner,
            "INSERT INTO courier.dead_letter (sink, lane, outbox_id, reason, attempts, error,"
            " event_id, topic, payload, created_at)"
            " SELECT 'mail', 0, n, 'rejected', 1, 'no', gen_random_uuid(), 't', '{}', now()"
            " FROM generate_series(1, 2500) AS n");
        open_watch();
        answered(operator_session_redrive(
            watched.session, &(struct operator_session_dead){.sink = "mail"}, on_answer, &watched));
        cr_expect_eq(watched.answer.n, 2500);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.parked"), 2500);
}

static void end_sessions(void)
{
        database_exec(rig.owner,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'pgcourier'");
}

Test(session, says_that_nothing_can_be_done_while_the_database_is_away)
{
        PGconn *blocker = database_connect(rig.dsn);

        answered(operator_session_resume(
            watched.session, "mail", on_answer, &watched)); /* not open yet */
        cr_expect_not_null(strstr(watched.failure, "not connected"), "%s", watched.failure);

        open_watch();
        database_exec(blocker, "BEGIN; LOCK TABLE courier.pause");
        operator_session_pause(watched.session, "mail", NULL, on_answer, &watched);
        wait_until_locked_out(&rig, 1);
        end_sessions();
        await(&watched.n_answers, 2);
        cr_expect_not_null(watched.failure);
        cr_expect_not_null(operator_session_failure(watched.session));
        cr_expect_not_null(operator_session_ask_status(watched.session), "the last look is gone");
        PQfinish(blocker);

        await(&watched.n_looks, 2); /* it comes back by itself */
        cr_expect_null(operator_session_failure(watched.session));
        answered(operator_session_pause(watched.session, "mail", NULL, on_answer, &watched));
        cr_expect_null(watched.failure);
}

Test(session, answers_nobody_who_was_forgotten)
{
        unsigned elsewhere = 0;

        open_watch();
        operator_session_pause(watched.session, "mail", NULL, on_answer, &elsewhere);
        operator_session_forget(watched.session, &elsewhere);
        answered(operator_session_resume(watched.session, "mail", on_answer, &watched));
        cr_expect_eq(watched.answer.n, 1); /* it was done all the same */
        cr_expect_eq(elsewhere, 0);
}

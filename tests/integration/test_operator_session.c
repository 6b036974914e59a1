/* The operators' session: the status, and what operators ask for
 * (src/operator/operator_session.h). */
#include "operator/operator_session.h"

#include "base/alloc.h"
#include "failures_rig.h"

#include <stdlib.h>

static struct failures_rig rig;

/* A session in the test's process, and what it was told. */
struct watched {
        uv_loop_t loop;
        struct operator_session *session;
        struct sink_config sink;
        struct stdout_config printed;
        struct config config;
        char *topics[1];
        json_t *status; /* owned; the last */
        unsigned n_looks;
        unsigned n_answers;
        bool is_calling; /* into the session: nothing may be answered now */
        json_t *answer;  /* owned; the last; NULL: it failed */
        struct error failure;
};

static struct watched watched;

static void on_status(void *owner, const json_t *status)
{
        struct watched *self = owner;

        json_decref(self->status);
        self->status = json_incref((json_t *)(uintptr_t)status);
        self->n_looks++;
        uv_stop(&self->loop); /* a turn ends with it, and does not wait for the next */
}

static void on_done(void *context, json_t *result, const struct error *error)
{
        struct watched *self = context;

        cr_assert_not(self->is_calling, "answered inside the call");
        cr_assert_neq(result == NULL, error == NULL);
        self->n_answers++;
        uv_stop(&self->loop);
        json_decref(self->answer);
        self->answer = json_incref(result);
        self->failure = error != NULL ? *error : (struct error){.kind = ERROR_NONE};
}

static void start(void)
{
        static const struct operator_session_events events = {.on_status = on_status};
        static char name[] = "mail", all[] = "**";

        failures_rig_start(&rig);
        database_exec(rig.owner,
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot,"
            " from_floor, from_xid) VALUES ('mail', 1, '10:10:', 0, '10')");
        watched = (struct watched){.topics = {all}};
        watched.sink = (struct sink_config){.name = name, .topics = watched.topics, .n_topics = 1};
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
        while (uv_run(&watched.loop, UV_RUN_DEFAULT) != 0) /* a report may have stopped it before */
                continue;
        cr_expect_eq(uv_loop_close(&watched.loop), 0);
        json_decref(watched.status);
        json_decref(watched.answer);
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

#define operate(operation, ...)                                                                    \
        operator_session_operations.operation(watched.session, __VA_ARGS__, on_done, &watched)

static json_int_t answer(const char *member)
{
        return json_integer_value(json_object_get(watched.answer, member));
}

static const char *failure(void)
{
        return operator_session_operations.look_failure(watched.session);
}

/* What a call comes to; nothing may come twice. */
#define answered(operation, ...)                                                                   \
        do {                                                                                       \
                unsigned n_before = watched.n_answers;                                             \
                watched.is_calling = true;                                                         \
                operate(operation, __VA_ARGS__);                                                   \
                watched.is_calling = false;                                                        \
                await(&watched.n_answers, n_before + 1);                                           \
        } while (0)

static json_int_t n_dead(void)
{
        const json_t *sinks = json_object_get(watched.status, "sinks");

        return json_integer_value(json_object_get(json_object_get(sinks, "mail"), "dead"));
}

Test(session, asks_again_soon_after_a_change)
{
        cr_expect_null(operator_session_operations.look(watched.session));
        cr_expect_not_null(failure());
        open_watch();
        cr_expect_eq(n_dead(), 0);
        cr_expect_null(failure());
        cr_expect_eq(operator_session_operations.look(watched.session), watched.status);

        insert_dead_letter(&rig, NULL);
        answered(resume, "mail");
        answered(resume, "mail");
        await(&watched.n_looks, 2);
        cr_expect_eq(n_dead(), 1);
        insert_dead_letter(&rig, NULL);
        await(&watched.n_looks, 3); /* by itself */
        cr_expect_eq(n_dead(), 2);
}

Test(session, asks_again_for_one_request_unless_the_status_is_fresh)
{
        const struct admin_operations *operations = &operator_session_operations;

        cr_expect_not(operations->look_again(watched.session, on_done, &watched), "no connection");
        open_watch();
        cr_expect_not(operations->look_again(watched.session, on_done, &watched), "it is fresh");
        while (!operations->look_again(watched.session, on_done, &watched))
                uv_run(&watched.loop, UV_RUN_NOWAIT);
        cr_expect_eq(watched.n_answers, 0);
        await(&watched.n_answers, 1);
        cr_expect_eq(watched.n_looks, 2);
        cr_expect(json_is_null(watched.answer));
}

Test(session, looks_at_other_sinks_when_they_change)
{
        open_watch();
        watched.sink.name = (char[]){"web"};
        operator_session_set_sinks(watched.session, &watched.config);
        await(&watched.n_looks, 2);
        cr_expect_not_null(json_object_get(json_object_get(watched.status, "sinks"), "web"));
        cr_expect_eq(json_array_size(json_object_get(watched.status, "orphans")), 1);
}

Test(session, pauses_and_resumes)
{
        PGconn *listener = listen_to_control(&rig);

        open_watch();
        answered(pause, "mail", "tea's up");
        cr_expect(json_is_false(json_object_get(watched.answer, "was_paused")));
        cr_expect_geq(count_notifications(listener), 1);
        answered(pause, "mail", NULL);
        cr_expect(json_is_true(json_object_get(watched.answer, "was_paused")));
        cr_expect_eq(
            database_integer(rig.owner, "SELECT count(*) FROM courier.pause WHERE sink = 'mail'"
                                        " AND by = 'operator' AND reason = 'tea''s up'"),
            1);
        answered(resume, "mail");
        cr_expect_eq(answer("removed"), 1);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.pause"), 0);
        PQfinish(listener);
}

Test(session, lists_dead_letters_from_the_newest_on)
{
        json_t *first;

        for (int i = 0; i < 5; i++)
                insert_dead_letter(&rig, i == 2 ? "sink = 'web'" : "target = 'box', key = 'k'");
        open_watch();
        answered(list_dead, "mail", 0, 2);
        cr_expect_eq(json_array_size(json_object_get(watched.answer, "dead")), 2);
        cr_expect(json_is_true(json_object_get(watched.answer, "more")));
        first = json_array_get(json_object_get(watched.answer, "dead"), 0);
        cr_expect_eq(json_integer_value(json_object_get(first, "id")), 5);
        cr_expect_str_eq(json_string_value(json_object_get(first, "target")), "box");
        cr_expect_null(json_object_get(first, "payload"));
        answered(list_dead, "mail", 4, 2);
        cr_expect_eq(json_array_size(json_object_get(watched.answer, "dead")), 2);
        cr_expect(json_is_false(json_object_get(watched.answer, "more")));
        answered(list_dead, NULL, 0, 50);
        cr_expect_eq(json_array_size(json_object_get(watched.answer, "dead")), 5);
}

Test(session, redrives_and_drops)
{
        const int64_t ids[] = {1, 3, 77};
        PGconn *listener = listen_to_control(&rig);

        for (int i = 0; i < 4; i++)
                insert_dead_letter(&rig, i == 3 ? "sink = 'web'" : NULL);
        insert_parked(&rig, "outbox_id = 3");
        open_watch();
        answered(redrive, (&(struct admin_selection){.ids = ids, .n_ids = 3}));
        cr_expect_eq(answer("redriven"), 1);
        cr_expect_eq(answer("kept"), 1); /* its event is parked already */
        cr_expect_not_null(json_string_value(json_object_get(watched.answer, "words")));
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.parked"), 2);
        cr_expect_geq(count_notifications(listener), 1);

        answered(drop, &(struct admin_selection){.sink = "mail"});
        cr_expect_eq(answer("dropped"), 2);
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
        answered(redrive, &(struct admin_selection){.sink = "mail"});
        cr_expect_eq(answer("redriven"), 2500);
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

        answered(resume, "mail"); /* not open yet */
        cr_expect_not_null(
            strstr(watched.failure.text, "not connected"), "%s", watched.failure.text);

        open_watch();
        database_exec(blocker, "BEGIN; LOCK TABLE courier.pause");
        operate(pause, "mail", NULL);
        wait_until_locked_out(&rig, 1);
        end_sessions();
        await(&watched.n_answers, 2);
        cr_expect_null(watched.answer);
        cr_expect_not_null(failure());
        cr_expect_not_null(
            operator_session_operations.look(watched.session), "the last status is gone");
        PQfinish(blocker);

        await(&watched.n_looks, 2); /* it comes back by itself */
        cr_expect_null(failure());
        answered(pause, "mail", NULL);
        cr_expect_not_null(watched.answer);
}

Test(session, ends_what_is_under_way_when_it_is_closed)
{
        PGconn *blocker = database_connect(rig.dsn);

        open_watch();
        database_exec(blocker, "BEGIN; LOCK TABLE courier.pause");
        operate(pause, "mail", NULL);
        wait_until_locked_out(&rig, 1);
        operator_session_close(watched.session);
        cr_expect_eq(watched.n_answers, 1);
        cr_expect_eq(watched.failure.kind, ERROR_TEMPORARY);
        cr_expect_not_null(strstr(watched.failure.text, "it is unknown whether this was done"));
        PQfinish(blocker);
}

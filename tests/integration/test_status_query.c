/* The look at everything (src/operator/status_query.sql), held against what the tables really
 * hold. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "failures_rig.h"
#include "operator/status_query.h"
#include "support/attached_table.h"
#include "support/shards.h"
#include "support/writers.h"

#include <stdlib.h>

static struct failures_rig rig;
static PGconn *looker; /* a session of role relay, as the statement wants it */

static void start(void)
{
        failures_rig_start(&rig);
        looker = database_connect(rig.dsn);
        database_exec(looker, look_session_sql);
}

static void stop(void)
{
        PQfinish(looker);
        failures_rig_stop(&rig);
}

TestSuite(look, .init = start, .fini = stop);

/* With the sinks of a configuration, or NULL. */
static json_t *look_for(const struct config *config)
{
        char *sinks = config != NULL ? look_sinks(config) : NULL;
        const char *const values[] = {sinks};
        PGresult *result = PQexecParams(looker, status_query_sql, 1, NULL, values, NULL, NULL, 0);
        json_t *look;

        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(looker));
        look = json_loads(PQgetvalue(result, 0, 0), 0, NULL);
        cr_assert_not_null(look);
        PQclear(result);
        free(sinks);
        return look;
}

static json_t *sink_of(const json_t *look, const char *sink)
{
        json_t *found = json_object_get(json_object_get(look, "sinks"), sink);

        cr_assert_not_null(found, "the look does not know %s", sink);
        return found;
}

static json_int_t integer_of(const json_t *object, const char *member)
{
        const json_t *found = json_object_get(object, member);

        cr_assert(json_is_integer(found), "%s is no integer", member);
        return json_integer_value(found);
}

static json_int_t backlog_of(const json_t *look, const char *sink)
{
        return integer_of(json_object_get(sink_of(look, sink), "backlog"), "events");
}

static bool is_exact(const json_t *look, const char *sink)
{
        return json_is_true(
            json_object_get(json_object_get(sink_of(look, sink), "backlog"), "is_exact"));
}

/* A cursor of now, or (until) the difference from the sink's cursor to now, open and read up to
 * some id of it: as the relay takes them, snapshot and floor by one statement, the xid by a
 * later one. */
static void frame_now(const char *sink, int lane, bool until)
{
        char *frame = database_value(rig.owner,
            "SELECT format('%L, %s', pg_current_snapshot(),"
            " coalesce(pg_sequence_last_value('courier.outbox_id_seq'), 0))");
        char *sql =
            until
                ? xasprintf(
                      "UPDATE courier.cursor SET (until_snapshot, until_floor, until_xid, last_id)"
                      " = (SELECT s::pg_snapshot, f, pg_current_xact_id(), (random() * f)::bigint"
                      "    FROM (VALUES (%s)) AS v (s, f)) WHERE sink = '%s' AND lane = %d",
                      frame, sink, lane)
                : xasprintf("DELETE FROM courier.cursor WHERE sink = '%s' AND lane = %d;"
                            "INSERT INTO courier.cursor (sink, lane, system_identifier,"
                            " from_snapshot, from_floor, from_xid)"
                            " SELECT '%s', %d, system_identifier, s::pg_snapshot, f,"
                            " pg_current_xact_id() FROM pg_control_system(),"
                            " (VALUES (%s)) AS v (s, f)",
                      sink, lane, sink, lane, frame);

        database_exec(rig.owner, sql);
        free(sql);
        free(frame);
}

/* What a cursor means, without any index: the definition that the statement is held against. */
#define NOT_DELIVERED                                                                              \
        "NOT pg_visible_in_snapshot(o.txid, c.from_snapshot)"                                      \
        " AND NOT coalesce(pg_visible_in_snapshot(o.txid, c.until_snapshot)"                       \
        "                  AND o.id <= c.last_id, false)"

static json_int_t count_by_force(PGconn *session, const char *sink, const char *condition)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.cursor AS c, courier.outbox AS o"
                              " WHERE c.sink = '%s' AND " NOT_DELIVERED " AND %s",
            sink, condition);
        json_int_t n = database_integer(session, sql);

        free(sql);
        return n;
}

static void publish_some(int n, const char *topic)
{
        char *sql = xasprintf("INSERT INTO courier.outbox (topic, payload)"
                              " SELECT '%s', '{}' FROM generate_series(1, %d)",
            topic, n);

        database_exec(rig.owner, sql);
        free(sql);
}

static PGconn *begin_writing(int n)
{
        char *dsn = dsn_as_user(rig.dsn, "app");
        PGconn *writer = database_connect(dsn);
        char *sql = xasprintf("BEGIN; INSERT INTO courier.outbox (topic, payload)"
                              " SELECT 'slow', '{}' FROM generate_series(1, %d)",
            n);

        database_exec(writer, sql);
        free(dsn);
        free(sql);
        return writer;
}

struct comparison {
        unsigned n_exact, n_estimates;
        unsigned n_stragglers; /* cursors that have some */
};

/* Both in one snapshot, with writers at work: any event that is counted too often, or not,
 * shows. */
static void compare(struct comparison *comparison)
{
        json_t *look;

        database_exec(looker, "BEGIN ISOLATION LEVEL REPEATABLE READ");
        look = look_for(NULL);
        for (int i = 0; i < 6; i++) {
                char sink[] = "sink-0";
                json_int_t n;

                sink[5] = (char)('0' + i);
                if (!is_exact(look, sink)) { /* after a bulk insert */
                        comparison->n_estimates++;
                        continue;
                }
                n = count_by_force(looker, sink, "true");
                cr_assert_eq(backlog_of(look, sink), n, "%s: %lld, not %lld", sink,
                    (long long)backlog_of(look, sink), (long long)n);
                comparison->n_exact++;
                comparison->n_stragglers +=
                    count_by_force(looker, sink, "o.id <= greatest(c.from_floor, c.last_id)") > 0;
        }
        json_decref(look);
        database_exec(looker, "COMMIT");
}

Test(look, counts_every_backlog_as_it_is)
{
        char *app = dsn_as_user(rig.dsn, "app");
        struct writers *writers = writers_start(
            app, &(struct writer_options){.n_writers = 6, .pause_us = 20000, .seed = 5});
        struct comparison comparison = {0};

        for (int i = 0; i < 24; i++) {
                char sink[] = "sink-0";

                for (int j = 0; j < 6; j++) {
                        sink[5] = (char)('0' + j);
                        if (i == 0 || i % 6 == j)
                                frame_now(sink, 0, false);
                        else if (i % 3 == j % 3)
                                frame_now(sink, 0, true);
                }
                compare(&comparison);
        }
        cr_expect_gt(comparison.n_exact, comparison.n_estimates);
        cr_expect_gt(
            comparison.n_stragglers, 5, "only %u cursors had stragglers", comparison.n_stragglers);
        writers_stop(writers);
        writers_destroy(writers);
        free(app);
}

/* Neither in a list nor above the floor: the second trap of docs/architecture.md. False if it
 * was not set, because another session of the cluster ended a transaction meanwhile. */
static bool look_behind_the_end_of_a_snapshot(void)
{
        PGconn *listed = begin_writing(2), *completed = begin_writing(3),
               *hidden = begin_writing(5);
        json_t *look;
        bool is_set;

        database_exec(completed, "COMMIT");
        frame_now("sink", 0, false);
        database_exec(listed, "COMMIT");
        database_exec(hidden, "COMMIT");
        publish_some(11, "later");
        is_set = database_integer(rig.owner,
                     "SELECT count(*) FROM courier.cursor AS c, courier.outbox AS o"
                     " WHERE o.txid >= pg_snapshot_xmax(c.from_snapshot)"
                     " AND o.txid < c.from_xid") == 5;
        look = look_for(NULL);
        cr_expect_eq(backlog_of(look, "sink"), 2 + 5 + 11);
        cr_expect(is_exact(look, "sink"));
        json_decref(look);
        PQfinish(listed);
        PQfinish(completed);
        PQfinish(hidden);
        return is_set;
}

Test(look, counts_events_that_the_end_of_a_snapshot_hides)
{
        bool is_set = false;

        for (int i = 0; i < 50 && !is_set; i++)
                is_set = look_behind_the_end_of_a_snapshot();
        cr_expect(is_set, "the trap could not be set");
}

Test(look, counts_only_events_that_a_sink_takes)
{
        char *some[] = {(char[]){"orders.*"}, (char[]){"mail.**"}, (char[]){"!*.secret"}},
             *any[] = {(char[]){"**"}}, *none[] = {(char[]){"nothing"}};
        char *types[] = {(char[]){"v*"}, (char[]){"!v2"}},
             *headers[] = {(char[]){"region=eu"}, (char[]){"trace"}};
        struct sink_config sinks[] = {
            {.name = (char[]){"some"}, .topics = some, .n_topics = 3},
            {.name = (char[]){"typed"}, .topics = any, .n_topics = 1, .types = types, .n_types = 2},
            {.name = (char[]){"headed"},
                .topics = any,
                .n_topics = 1,
                .match_headers = headers,
                .n_match_headers = 2},
            {.name = (char[]){"filtered"},
                .topics = any,
                .n_topics = 1,
                .filter = (char[]){"$.amount > 100"}},
            {.name = (char[]){"wrong"}, .topics = any, .n_topics = 1, .filter = (char[]){"$.a >"}},
            {.name = (char[]){"none"}, .topics = none, .n_topics = 1},
            {.name = (char[]){"new"}, .topics = any, .n_topics = 1},
        };
        const struct config config = {.sinks = sinks, .n_sinks = 7};
        struct stdout_config printed = {0};
        json_t *look;

        for (unsigned i = 0; i < config.n_sinks; i++)
                sinks[i].stdout_ = &printed;
        for (unsigned i = 0; i < config.n_sinks - 1; i++)
                frame_now(sinks[i].name, 0, false);
        frame_now("orphan", 0, false);
        database_exec(rig.owner,
            "INSERT INTO courier.outbox (topic, type, headers, payload) VALUES"
            " ('orders.new', 'v1', NULL, '{\"amount\": 5}'),"
            " ('orders.eu.new', NULL, '{\"region\": \"eu\", \"trace\": \"1\"}', '{\"amount\": "
            "500}'),"
            " ('orders.secret', 'v2', '{\"region\": \"eu\"}', '{\"amount\": 101}'),"
            " ('mail.a.b', 'v3', '{\"region\": \"us\", \"trace\": \"1\"}', '[]'),"
            " ('mail', 'w', NULL, '{\"amount\": \"x\"}')");
        look = look_for(&config);

        cr_expect_eq(backlog_of(look, "some"), 2);
        cr_expect_eq(backlog_of(look, "typed"), 2);
        cr_expect_eq(backlog_of(look, "headed"), 1);
        cr_expect_eq(
            backlog_of(look, "filtered"), 5, "a filter may take any time: it is not asked");
        cr_expect(
            !is_exact(look, "filtered") && is_exact(look, "some"), "so that is no exact number");
        cr_expect_eq(backlog_of(look, "wrong"), 5); /* the relay refuses it; the look goes on */
        cr_expect_eq(backlog_of(look, "none"), 0);
        cr_expect_eq(backlog_of(look, "new"), 0);
        cr_expect_eq(json_object_size(json_object_get(look, "sinks")), 7);

        json_t *orphans = json_object_get(look, "orphans");
        cr_assert_eq(json_array_size(orphans), 1);
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(orphans, 0), "sink")), "orphan");
        cr_expect_eq(integer_of(json_array_get(orphans, 0), "behind"), 5);
        json_decref(look);
}

/* What the looker has read of the outbox. PostgreSQL adds up what it has not reported yet, which
 * may be of transactions that are over: only differences within one mean anything. */
static int64_t rows_read(void)
{
        return database_integer(looker,
            "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables"
            " WHERE relname LIKE 'outbox%'");
}

Test(look, reads_no_more_however_much_waits)
{
        char *halves[] = {(char[]){"half"}};
        struct stdout_config printed = {0};
        struct sink_config sink = {
            .name = (char[]){"sink"}, .topics = halves, .n_topics = 1, .stdout_ = &printed};
        json_t *look;
        int64_t before, n_read;
        PGconn *writer = begin_writing(20000);

        frame_now("sink", 0, false);
        database_exec(rig.owner, "INSERT INTO courier.outbox (topic, payload)"
                                 " SELECT CASE i % 2 WHEN 0 THEN 'half' ELSE 'other' END, '{}'"
                                 " FROM generate_series(1, 60000) AS i");
        database_exec(looker, "BEGIN");
        before = rows_read();
        look = look_for(&(struct config){.sinks = &sink, .n_sinks = 1});
        n_read = rows_read() - before;
        cr_expect_leq(n_read, 6000, "it read %lld rows", (long long)n_read);
        cr_expect_not(is_exact(look, "sink"));
        cr_expect_float_eq((double)backlog_of(look, "sink"), 30000, 300, "about %lld",
            (long long)backlog_of(look, "sink"));
        json_decref(look);
        database_exec(looker, "COMMIT");

        database_exec(writer, "COMMIT"); /* stragglers: a transaction with many */
        database_exec(looker, "BEGIN");
        before = rows_read();
        look = look_for(NULL);
        n_read = rows_read() - before;
        cr_expect_leq(n_read, 11000, "it read %lld rows", (long long)n_read);
        cr_expect_geq(n_read, 5000, "it read %lld rows", (long long)n_read);
        cr_expect_float_eq((double)backlog_of(look, "sink"), 80000, 800, "about %lld",
            (long long)backlog_of(look, "sink"));
        json_decref(look);
        database_exec(looker, "COMMIT");
        PQfinish(writer);
}

static double age_of(const json_t *sink, const char *member)
{
        return json_number_value(json_object_get(json_object_get(sink, "backlog"), member));
}

Test(look, counts_parked_events_and_names_blocked_keys)
{
        json_t *look, *sink, *key;

        frame_now("mail", 0, false);
        insert_parked(&rig, "key = 'a', last_error = 'no such box', first_failed_at = now(),"
                            " created_at = now() - interval '1 hour'");
        insert_parked(&rig, "key = 'a', state = 'blocked'");
        insert_parked(&rig, "key = 'a', state = 'blocked'");
        insert_parked(&rig,
            "key = 'b', first_failed_at = now(), due_at = now() + interval '1 minute',"
            " last_error = '503'");
        insert_parked(&rig, "key = 'slow'"); /* parked while it is under way */
        insert_parked(&rig, "state = 'delayed', created_at = now() - interval '2 days'");
        insert_dead_letter(&rig, NULL);
        insert_dead_letter(&rig, NULL);
        insert_dead_letter(&rig, "sink = 'web'");
        database_exec(rig.owner, "INSERT INTO courier.pause (sink, by, reason)"
                                 " VALUES ('mail', 'operator', 'tea'), ('mail', 'relay', 'no')");
        look = look_for(NULL);
        sink = sink_of(look, "mail");

        cr_expect_eq(integer_of(sink, "retrying"), 2);
        cr_expect_eq(integer_of(sink, "blocked"), 2);
        cr_expect_eq(integer_of(sink, "delayed"), 1);
        cr_expect_eq(integer_of(sink, "dead"), 2);
        cr_expect(json_is_true(json_object_get(sink, "counts_are_exact")));
        cr_expect_eq(json_array_size(json_object_get(sink, "pauses")), 2);
        cr_expect(json_is_string(json_object_get(sink, "next_retry_at")));
        cr_expect_eq(integer_of(sink, "next_retry_id"), 4);
        cr_expect_str_eq(json_string_value(json_object_get(sink, "next_retry_error")), "503");
        /* What is to wait is not late. */
        cr_expect_float_eq(age_of(sink, "oldest_age"), 3600, 600);
        cr_expect_float_eq(age_of(sink, "overdue_age"), 0, 600, "it is due by now");

        cr_assert_eq(json_array_size(json_object_get(look, "blocked_keys")), 1);
        key = json_array_get(json_object_get(look, "blocked_keys"), 0);
        cr_expect_str_eq(json_string_value(json_object_get(key, "key")), "a");
        cr_expect_str_eq(json_string_value(json_object_get(key, "error")), "no such box");
        cr_expect_eq(integer_of(key, "waiting"), 2);
        cr_expect_eq(integer_of(key, "behind_id"), 1);
        json_decref(look);
}

static double age_of_marks(void)
{
        json_t *look = look_for(NULL), *marks = json_object_get(look, "marks"), *tap;
        double age = json_number_value(json_object_get(marks, "oldest_age"));

        tap = json_array_get(json_object_get(json_object_get(look, "taps"), "first"), 0);
        cr_expect_eq(integer_of(marks, "waiting"), 1);
        cr_expect_float_eq(
            json_number_value(json_object_get(json_object_get(tap, "unmarked"), "oldest_age")), age,
            0.001);
        json_decref(look);
        return age;
}

static char *mark_waits_since(void)
{
        json_t *look = look_for(NULL);
        json_t *one =
            json_array_get(json_object_get(json_object_get(look, "marks"), "waits_for"), 0);
        char *since = xstrdup(json_string_value(json_object_get(one, "since")));

        json_decref(look);
        return since;
}

/* An event of a day ago that is delivered later, and that lanes have parked. */
Test(look, counts_the_wait_of_a_mark_from_when_its_event_was_to_be_delivered)
{
        char *since;

        database_exec(rig.owner,
            "CREATE TABLE box (id integer PRIMARY KEY, topic text, payload text, done boolean);"
            "SELECT courier.attach('box', topic => 'topic', payload => 'payload', done => 'mark',"
            " done_set => 'done = true');"
            "INSERT INTO courier.outbox (topic, payload, deliver_at, created_at) VALUES"
            " ('t', '{}', '2100-01-01 00:00Z', now() - interval '1 day')");
        frame_now("mail", 0, false);
        frame_now("courier.marks", 0, false);
        insert_parked(&rig, "state = 'delayed', due_at = '2100-01-01 00:00Z',"
                            " created_at = now() - interval '1 day'");
        database_exec(rig.owner,
            "UPDATE courier.parked SET outbox_id = (SELECT id FROM courier.outbox);"
            "INSERT INTO courier.unmarked (outbox_id, source, source_key, event_id, topic,"
            " created_at, state, sink, lane, due_at, since)"
            " SELECT id, (SELECT id FROM courier.attachment), '1', event_id, topic, created_at,"
            " 'parked', 'mail', 0, deliver_at, created_at FROM courier.outbox");
        cr_expect_eq(age_of_marks(), 0);
        since = mark_waits_since();
        cr_expect_str_eq(since, "2100-01-01T00:00:00.000Z");
        free(since);

        database_exec(rig.owner, "UPDATE courier.outbox SET deliver_at = now() - interval '1 hour';"
                                 "DELETE FROM courier.parked");
        cr_expect_float_eq(age_of_marks(), 3600, 600, "its time is over");

        database_exec(rig.owner, "UPDATE courier.outbox SET deliver_at = NULL");
        cr_expect_float_eq(age_of_marks(), 86400, 600, "it was not to wait");
        insert_parked(&rig, "state = 'delayed', due_at = '2100-01-01'");
        database_exec(rig.owner,
            "UPDATE courier.parked SET outbox_id = (SELECT id FROM courier.outbox);"
            "DELETE FROM courier.outbox");
        cr_expect_eq(age_of_marks(), 0, "the outbox was cut");
}

Test(look, sums_up_the_receivers_that_are_not_paused)
{
        char *any[] = {(char[]){"**"}, (char[]){"!mail.*"}};
        struct http_config http = {.receivers = HTTP_RECEIVERS_TABLE};
        struct sink_config hooks = {
            .name = (char[]){"hooks"}, .topics = any, .n_topics = 2, .http = &http};
        json_t *look, *receivers;

        insert_receiver(&rig, 1, "hooks", "acme");
        insert_receiver(&rig, 2, "hooks", "beta");
        insert_receiver(&rig, 3, "hooks", "gone");
        database_exec(rig.owner,
            "UPDATE courier.receiver SET topics = '{orders.*}' WHERE id = 1;"
            "UPDATE courier.receiver SET topics = '{**}', types = '{v1}', failing_since = now()"
            " WHERE id = 2;"
            "UPDATE courier.receiver SET topics = '{**}', state = 'disabled' WHERE id = 3");
        for (int lane = 0; lane <= 3; lane++)
                frame_now("hooks", lane, false);
        publish_some(4, "orders.new");
        publish_some(3, "mail.new");
        database_exec(rig.owner,
            "INSERT INTO courier.outbox (topic, type, payload) VALUES ('orders.eu', 'v1', '{}'),"
            " ('courier.receiver.failing', 'v1', '{}')");
        look = look_for(&(struct config){.sinks = &hooks, .n_sinks = 1});
        receivers = json_object_get(sink_of(look, "hooks"), "receivers");

        cr_expect_eq(backlog_of(look, "hooks"), 5 + 1);
        cr_expect(is_exact(look, "hooks"));
        cr_expect_eq(integer_of(receivers, "total"), 3);
        cr_expect_eq(integer_of(receivers, "failing"), 1);
        cr_expect_eq(integer_of(receivers, "disabled"), 1);
        json_decref(look);
}

static double overdue(void)
{
        json_t *look = look_for(NULL);
        double age_s = age_of(sink_of(look, "hooks"), "overdue_age");

        json_decref(look);
        return age_s;
}

/* Those are known to fail, or to have failed; others should have had theirs. */
Test(look, counts_no_failed_event_of_a_receiver_as_overdue)
{
        insert_receiver(&rig, 1, "hooks", "acme");
        insert_receiver(&rig, 2, "hooks", "dead");
        frame_now("hooks", 2, false);
        publish_some(1, "t");
        database_exec(
            rig.owner, "UPDATE courier.outbox SET created_at = now() - interval '1 hour'");
        frame_now("hooks", 1, false);
        insert_parked(&rig, "sink = 'hooks', lane = 1, due_at = now() + interval '1 hour',"
                            " created_at = now() - interval '2 hours'");
        insert_parked(&rig, "sink = 'hooks', lane = 2, due_at = now() - interval '2 hours'");

        cr_expect_float_eq(overdue(), 7200, 600);
        database_exec(rig.owner, "UPDATE courier.receiver SET failing_since = now() WHERE id = 2");
        cr_expect_eq(overdue(), 0);
        database_exec(rig.owner, "UPDATE courier.receiver SET failing_since = NULL;"
                                 "DELETE FROM courier.parked WHERE lane = 2");
        cr_expect_float_eq(overdue(), 3600, 600);
        database_exec(rig.owner, "UPDATE courier.parked SET due_at = now() - interval '2 hours'");
        cr_expect_float_eq(overdue(), 7200, 600);
}

Test(look, names_the_owner_of_a_sink)
{
        PGconn *owner;
        json_t *look, *known;
        char *dsn = xasprintf("%s application_name='the relay'", rig.dsn);

        frame_now("sink", 0, false);
        owner = database_connect(dsn);
        look = look_for(NULL);
        cr_expect(json_is_null(json_object_get(sink_of(look, "sink"), "owner")));
        json_decref(look);

        database_exec(owner, "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor");
        look = look_for(NULL);
        known = json_object_get(sink_of(look, "sink"), "owner");
        cr_expect_eq(integer_of(known, "pid"), PQbackendPID(owner));
        cr_expect_str_eq(
            json_string_value(json_object_get(known, "application_name")), "the relay");
        cr_expect_eq(integer_of(json_object_get(look, "source"), "owner_pid"), PQbackendPID(owner));
        json_decref(look);
        PQfinish(owner);
        free(dsn);
}

Test(look, lists_the_relays_that_live_with_their_shards)
{
        static const char expected[] =
            "[{\"name\":\"web1\",\"host\":\"h\",\"version\":\"1\","
            "\"since\":\"2026-01-02T03:04:05.000Z\",\"weight\":2,\"is_leaving\":false,"
            "\"is_drained\":true,\"sinks\":{\"bus\":{\"shards\":4,\"owns\":2},"
            "\"mail\":{\"shards\":1,\"owns\":0}}}]";
        PGconn *relay = database_connect(rig.dsn);
        json_t *look = look_for(NULL);
        char *relays;

        cr_expect_eq(json_array_size(json_object_get(look, "relays")), 0);
        json_decref(look);
        database_exec(relay,
            "SELECT courier.agree_shards('bus', 4, false, true, 'web1');"
            "SELECT courier.agree_shards('mail', 1, false, true, 'web1');"
            "SELECT courier.join_relays('web1', 'h', '1', 2, '{\"bus\": 4, \"mail\": 1}');"
            "INSERT INTO courier.member (name, host, version, weight, shards)"
            " VALUES ('gone', 'h', '1', 1, '{\"bus\": 4}');"
            "UPDATE courier.member SET joined_at = '2026-01-02 03:04:05+00', is_drained = true;"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor"
            " WHERE sink = 'bus' AND lane IN (-1, -3)");
        look = look_for(NULL);
        relays = json_dumps(json_object_get(look, "relays"), JSON_COMPACT);
        cr_expect_str_eq(relays, expected, "%s", relays);
        cr_expect_eq(
            json_array_size(json_object_get(json_object_get(look, "source"), "foreign_locks")), 0);
        json_decref(look);
        free(relays);
        PQfinish(relay);
}

Test(look, does_not_forget_the_sinks_of_other_relays)
{
        char *any[] = {(char[]){"**"}};
        struct sink_config sinks[] = {
            {.name = (char[]){"ours"}, .topics = any, .n_topics = 1},
            {.name = (char[]){"theirs"}, .topics = any, .n_topics = 1},
        };
        json_t *look, *orphans;

        frame_now("ours", 0, false);
        frame_now("theirs", 0, false);
        frame_now("old", 0, false);
        look = look_for(&(struct config){.sinks = sinks, .n_sinks = 1, .n_unserved = 1});
        orphans = json_object_get(look, "orphans");
        cr_expect_eq(json_object_size(json_object_get(look, "sinks")), 1);
        cr_assert_eq(json_array_size(orphans), 1);
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(orphans, 0), "sink")), "old");
        json_decref(look);
}

static json_t *holder_of(const json_t *look)
{
        return json_object_get(json_object_get(look, "source"), "oldest_xmin");
}

/* As a role that may not see what others do. */
Test(look, finds_who_holds_the_oldest_snapshot)
{
        char *superuser = dsn_as_user(rig.dsn, "postgres");
        char *dsn = xasprintf("%s application_name=report", superuser);
        PGconn *holder, *younger;
        json_t *look;

        holder = database_connect(dsn);
        younger = database_connect(dsn);
        database_exec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM courier.outbox");
        for (int i = 0; i < 3; i++)
                publish_some(1, "x");
        database_exec(younger, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM courier.outbox");
        look = look_for(NULL);
        cr_expect_eq(integer_of(holder_of(look), "pid"), PQbackendPID(holder));
        cr_expect_geq(integer_of(holder_of(look), "age_xids"), 3);
        cr_expect_not_null(strstr(
            json_string_value(json_object_get(holder_of(look), "what")), "application report"));
        json_decref(look);
        PQfinish(holder);

        database_exec(
            rig.owner, "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'");
        database_exec(younger, "ROLLBACK");
        for (int i = 0; i < 3; i++)
                publish_some(1, "x");
        look = look_for(NULL);
        cr_expect(json_is_null(json_object_get(holder_of(look), "pid")));
        cr_expect_not_null(strstr(json_string_value(json_object_get(holder_of(look), "what")),
            "prepared transaction forgotten"));
        json_decref(look);
        database_exec(rig.owner, "ROLLBACK PREPARED 'forgotten'");
        PQfinish(younger);
        free(superuser);
        free(dsn);
}

static void expect_retention(const char *expected)
{
        json_t *look = look_for(NULL);
        json_t *retention = json_object_get(json_object_get(look, "source"), "retention");
        char *text;

        cr_expect_eq(json_integer_value(json_object_get(retention, "held_bytes")) > 0,
            json_integer_value(json_object_get(retention, "held_partitions")) > 0);
        json_object_del(retention, "held_bytes"); /* their exact numbers are PostgreSQL's */
        cr_expect(json_is_number(json_object_get(retention, "held_for")));
        json_object_del(retention, "held_for");
        text = json_dumps(retention, JSON_PRESERVE_ORDER);
        cr_expect_str_eq(text, expected);
        free(text);
        json_decref(look);
}

static json_int_t held_for(void)
{
        json_t *look = look_for(NULL);
        json_t *retention = json_object_get(json_object_get(look, "source"), "retention");
        json_int_t seconds = (json_int_t)json_number_value(json_object_get(retention, "held_for"));

        json_decref(look);
        return seconds;
}

Test(look, tells_what_retention_cannot_drop_and_what_it_did)
{
        json_t *look;

        frame_now("old", 0, false);
        frame_now("young", 0, false);
        expect_retention("{\"held_partitions\": 0, \"held_by\": [], \"holders\": 0,"
                         " \"lost_events\": 0, \"default_bytes\": 0}");
        database_exec(rig.owner,
            "UPDATE courier.outbox_partition SET held_since = now() - interval '2 hours',"
            " held_by = ARRAY['old'] || ARRAY(SELECT 'hooks/' || i FROM generate_series(1, 9) AS i)"
            " WHERE lower = 1;"
            "UPDATE courier.outbox_partition SET held_since = now(), held_by = '{young}' WHERE "
            "lower > 1;"
            "INSERT INTO courier.outbox_loss SELECT 'old', 0, 'p', 1, 9, 5, now() - age"
            " FROM unnest('{1 hour,23 hours,25 hours}'::interval[]) AS age;"
            /* An id that no partition was made for. */
            "INSERT INTO courier.outbox (id, topic, payload) OVERRIDING SYSTEM VALUE"
            " VALUES (1000000000000, 't', '1')");
        expect_retention("{\"held_partitions\": 2, \"held_by\": [\"old\", \"hooks/1\", "
                         "\"hooks/2\", \"hooks/3\", \"hooks/4\", \"hooks/5\", \"hooks/6\","
                         " \"hooks/7\"], \"holders\": 10, \"lost_events\": 10,"
                         " \"default_bytes\": 8192}");
        cr_expect(held_for() >= 7200 && held_for() < 7800);
        look = look_for(NULL);
        cr_expect(json_is_true(json_object_get(sink_of(look, "old"), "holds_outbox")));
        cr_expect(json_is_false(json_object_get(sink_of(look, "young"), "holds_outbox")));
        json_decref(look);

        database_exec(rig.owner, "UPDATE courier.outbox_partition SET emptied_at = now() WHERE "
                                 "lower = 1");
        expect_retention("{\"held_partitions\": 1, \"held_by\": [\"young\"], \"holders\": 1,"
                         " \"lost_events\": 10, \"default_bytes\": 8192}");
}

/* Tables m1 to mN of layout message, each attached by its name. */
static void attach_some(int n)
{
        char *sql = xasprintf("DO $$ BEGIN FOR i IN 1 .. %d LOOP"
                              "  EXECUTE format('CREATE TABLE public.m%%s (id integer PRIMARY KEY,"
                              "    topic text, key text, type text, payload jsonb, headers jsonb,"
                              "    done timestamptz)', i);"
                              "  PERFORM courier.attach(format('public.m%%s', i)::regclass);"
                              " END LOOP; END $$",
            n);

        database_exec(rig.owner, sql);
        free(sql);
}

/* Of the taps that are listed "name state table", a line each. */
static char *list_taps(const json_t *look)
{
        const json_t *taps = json_object_get(look, "taps"), *tap;
        struct bytes lines = {0};
        size_t i;

        json_array_foreach(json_object_get(taps, "first"), i, tap)
        {
                bytes_printf(&lines, "%s %s %s\n", json_string_value(json_object_get(tap, "name")),
                    json_string_value(json_object_get(tap, "state")),
                    json_string_value(json_object_get(tap, "table")));
        }
        return lines.data;
}

static void expect_taps(const char *expected)
{
        json_t *look = look_for(NULL);
        char *taps = list_taps(look);

        cr_expect_str_eq(taps, expected);
        free(taps);
        json_decref(look);
}

Test(look, tells_the_state_of_each_tap_with_those_in_trouble_first)
{
        json_t *look = look_for(NULL);
        json_t *states, *tap;

        cr_expect(json_object_get(json_object_get(look, "taps"), "states") != NULL);
        cr_expect_eq(json_array_size(json_object_get(json_object_get(look, "taps"), "first")), 0);
        json_decref(look);

        attach_some(7);
        database_exec(rig.owner, "ALTER TABLE m2 DISABLE TRIGGER USER;"
                                 "DROP TRIGGER courier_m3_insert ON m3;"
                                 "DROP TABLE m4;"
                                 "CREATE TABLE parent (LIKE m5) PARTITION BY LIST (id);"
                                 "ALTER TABLE parent ATTACH PARTITION m5 FOR VALUES IN (1);"
                                 "ALTER FUNCTION courier_tap.m6_insert() SET work_mem = '1MB';"
                                 "CREATE SCHEMA other;"
                                 "ALTER TABLE m7 SET SCHEMA other");
        expect_taps("m2 disabled public.m2\nm3 trigger_missing public.m3\n"
                    "m4 table_gone public.m4\nm5 now_a_partition public.m5\n"
                    "m6 edited public.m6\nm7 edited other.m7\nm1 ok public.m1\n");

        look = look_for(NULL);
        states = json_object_get(json_object_get(look, "taps"), "states");
        cr_expect_eq(integer_of(states, "ok"), 1);
        cr_expect_eq(integer_of(states, "disabled"), 1);
        tap = json_array_get(json_object_get(json_object_get(look, "taps"), "first"), 0);
        cr_expect_str_eq(json_string_value(json_object_get(tap, "detail")),
            "on public.m2 this trigger does not fire: courier_m2_insert");
        cr_expect_str_eq(json_string_value(json_object_get(tap, "remedy")),
            "ALTER TABLE public.m2 ENABLE TRIGGER courier_m2_insert");
        cr_expect_str_eq(json_string_value(json_object_get(tap, "kind")), "attach");
        cr_expect_str_eq(json_string_value(json_object_get(tap, "layout")), "message");
        cr_expect_str_eq(json_string_value(json_object_get(tap, "done")), "keep");
        cr_expect(json_is_null(json_object_get(tap, "unmarked")), "no rows of it are marked");
        json_decref(look);
}

/* What a finding says that helps must help. */
Test(look, tells_what_helps_a_tap)
{
        attach_some(4);
        database_exec(rig.owner, "ALTER TABLE m1 DISABLE TRIGGER USER;"
                                 "DROP TRIGGER courier_m2_insert ON m2;"
                                 "DROP TABLE m3;"
                                 "ALTER FUNCTION courier_tap.m4_insert() SET work_mem = '1MB'");
        for (int i = 0; i < 4; i++) {
                json_t *look = look_for(NULL);
                const json_t *taps = json_object_get(look, "taps");
                const json_t *tap = json_array_get(json_object_get(taps, "first"), 0);

                database_exec(rig.owner, json_string_value(json_object_get(tap, "remedy")));
                json_decref(look);
        }
        expect_taps("m1 ok public.m1\nm2 ok public.m2\nm4 ok public.m4\n");
        database_exec(rig.owner, "INSERT INTO m1 (id, topic, payload) VALUES (1, 't', '{}');"
                                 "INSERT INTO m2 (id, topic, payload) VALUES (1, 't', '{}');"
                                 "INSERT INTO m4 (id, topic, payload) VALUES (1, 't', '{}')");
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.outbox"), 3);
}

Test(look, lists_a_bounded_number_of_taps_and_counts_all)
{
        json_t *look, *taps;

        attach_some(203);
        look = look_for(NULL);
        taps = json_object_get(look, "taps");
        cr_expect_eq(json_array_size(json_object_get(taps, "first")), 200);
        cr_expect_eq(integer_of(json_object_get(taps, "states"), "ok"), 203);
        json_decref(look);
}

/* ---- shards ------------------------------------------------------------------------------- */

static void expect_shards(const char *expected)
{
        json_t *look = look_for(NULL);
        json_t *shards = json_object_get(sink_of(look, "bus"), "shards");
        char *text = json_dumps(shards, JSON_ENCODE_ANY | JSON_COMPACT);

        cr_expect_str_eq(text, expected, "%s", text);
        free(text);
        json_decref(look);
}

Test(look, a_backlog_is_that_of_all_shards_without_what_former_ones_had)
{
        json_t *look;

        shards_divide(rig.owner);
        look = look_for(NULL);
        cr_expect_eq(backlog_of(look, "bus"),
            database_integer(rig.owner, "SELECT count(*) FROM shard_event WHERE NOT is_passed"));
        cr_expect(is_exact(look, "bus"));
        json_decref(look);
        database_exec(rig.owner, "SELECT shard_go('bus', -1, 45), shard_pass('bus', -2)");
        look = look_for(NULL);
        cr_expect_eq(backlog_of(look, "bus"),
            database_integer(rig.owner, "SELECT count(*) FROM shard_event WHERE NOT is_passed"));
        json_decref(look);
}

Test(look, a_shard_that_stands_still_is_not_hidden_by_the_others)
{
        json_t *look;

        shards_divide(rig.owner);
        database_exec(rig.owner, "UPDATE courier.cursor SET settled_at = now() - interval '1 hour'"
                                 " WHERE lane = -2");
        look = look_for(NULL);
        cr_expect_geq(
            json_number_value(json_object_get(sink_of(look, "bus"), "settled_age")), 3600);
        json_decref(look);
}

/* Rows of courier.unmarked name the lane that they wait for. */
Test(look, marks_wait_for_a_sink_and_not_for_its_shards)
{
        json_t *look, *waits;

        shards_divide(rig.owner);
        attached_table_make(rig.owner, "orders", "mark", "NULL");
        database_exec(rig.owner,
            "INSERT INTO courier.unmarked (outbox_id, source, source_key, event_id, topic,"
            " created_at, state, sink, lane, due_at) SELECT i, 1, i, gen_random_uuid(), 't', now(),"
            " 'behind', 'bus', -1 - i % 3, now() FROM generate_series(1, 9) AS i");
        look = look_for(NULL);
        waits = json_object_get(json_object_get(look, "marks"), "waits_for");
        cr_expect_eq(json_array_size(waits), 1);
        cr_expect_eq(integer_of(json_array_get(waits, 0), "events"), 9);
        json_decref(look);
}

Test(look, stragglers_of_a_shard_are_those_of_its_keys)
{
        PGconn *writer = database_connect(rig.dsn);
        json_t *look;

        shards_divide(rig.owner);
        database_exec(rig.owner, "GRANT courier_publisher TO relay");
        database_exec(writer, "BEGIN; SELECT count(courier.publish('t', '1', 'k' || i))"
                              " FROM generate_series(1, 20) AS i");
        database_exec(
            rig.owner, "SELECT shard_pass('bus', lane) FROM generate_series(-3, -1) AS lane");
        database_exec(writer, "COMMIT");
        look = look_for(NULL);
        cr_expect_eq(backlog_of(look, "bus"), 20);
        json_decref(look);
        database_exec(rig.owner, "REVOKE courier_publisher FROM relay");
        PQfinish(writer);
}

Test(look, says_who_has_which_shards_and_who_wants_another_number)
{
        PGconn *member = database_connect(rig.dsn);
        char *expected;

        database_exec(rig.owner, "SELECT courier.agree_shards('bus', 1, false, false, 'test')");
        expect_shards("null");
        database_exec(rig.owner, "SELECT courier.agree_shards('bus', 3, false, false, 'test')");
        expect_shards("{\"total\":3,\"wanted\":null,\"owners\":[],\"unowned\":[0,1,2],"
                      "\"otherwise\":[]}");
        database_exec(member,
            "SET application_name = 'mine';"
            "SELECT courier.join_relays('a', 'host', '1', 1, '{\"bus\": 2, \"other\": 1}');"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane IN (-1, "
            "-3)");
        database_exec(rig.owner, "UPDATE courier.sink SET shards_wanted = 4");
        expected =
            xasprintf("{\"total\":3,\"wanted\":4,\"owners\":[{\"relay\":\"a\",\"pid\":%d,"
                      "\"application_name\":\"mine\",\"client\":\"unix socket\",\"shards\":[0,2],"
                      "\"overdue_age\":0}],"
                      "\"unowned\":[1],\"otherwise\":[{\"relay\":\"a\",\"shards\":2}]}",
                PQbackendPID(member));
        expect_shards(expected);
        free(expected);
        PQfinish(member);
}

static double overdue_of_first_owner(void)
{
        json_t *look = look_for(NULL);
        json_t *shards = json_object_get(sink_of(look, "bus"), "shards");
        const json_t *owner = json_array_get(json_object_get(shards, "owners"), 0);
        double age_s = json_number_value(json_object_get(owner, "overdue_age"));

        json_decref(look);
        return age_s;
}

Test(look, says_for_how_long_events_wait_for_each_owner_of_shards)
{
        static const char insert[] = "INSERT INTO courier.outbox (topic, key, payload, created_at) "
                                     "SELECT 't', n::text, '{}',"
                                     " now() - interval '1 hour' FROM generate_series(1, 20) AS n"
                                     " WHERE courier.shard_of(n::text, 3) = %d";
        PGconn *member = database_connect(rig.dsn);
        char sql[400];

        database_exec(rig.owner, "SELECT courier.agree_shards('bus', 3, false, false, 'test')");
        database_exec(member,
            "SELECT courier.join_relays('a', 'host', '1', 1, '{\"bus\": 3}');"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE lane = -1");
        snprintf(sql, sizeof sql, insert, 1);
        database_exec(rig.owner, sql);
        cr_expect_eq(overdue_of_first_owner(), 0);
        snprintf(sql, sizeof sql, insert, 0);
        database_exec(rig.owner, sql);
        cr_expect_geq(overdue_of_first_owner(), 3600);
        PQfinish(member);
}

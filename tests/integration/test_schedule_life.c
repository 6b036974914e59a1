/* What recurring events do besides ticking: they come later, end, pause, are run by hand, fill their
 * payload, and tell their history. */
#include "base/alloc.h"
#include "support/postgres_expect.h"

#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static PGconn *begin(void)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

static PGconn *connect_as(PGconn *connection, const char *user)
{
        char *dsn = xasprintf("host=%s port=%s dbname=%s user=%s", PQhost(connection),
            PQport(connection), PQdb(connection), user);
        PGconn *other = database_connect(dsn);

        free(dsn);
        return other;
}

/* A schedule whose ticks of the last five hours, each on the hour, were missed. */
#define FIVE_HOURS_AGO "starting => date_trunc('hour', now()) - interval '5 hours'"
#define ALL_ARE_DUE    "UPDATE courier.schedule SET next_at = starting, held_until = NULL"

Test(schedule_life, delays_each_event_by_less_than_the_jitter_and_alike_each_time)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '10 seconds',"
                                  " jitter => '9 seconds', starting => '2999-01-01Z')");
        expect_value(connection,
            "SELECT (count(*), count(DISTINCT due_at - tick) > 900,"
            " bool_and(due_at - tick >= '0' AND due_at - tick < '9 seconds'),"
            " min(due_at - tick) < '1 second', max(due_at - tick) > '8 seconds')"
            " FROM courier.next_ticks('s', 1000)",
            "(1000,t,t,t,t)");
        expect_value(connection,
            "SELECT count(*) FROM courier.next_ticks('s', 100) AS a"
            " JOIN courier.next_ticks('s', 100) AS b USING (tick, due_at)",
            "100");
        expect_value(connection,
            "SELECT held_until = (SELECT due_at FROM courier.next_ticks('s', 1))"
            " FROM courier.schedule",
            "t");

        /* The tick has passed, its event has not come yet. */
        database_exec(connection, "UPDATE courier.schedule SET starting = '2020-01-01Z', next_at = "
                                  "'2020-01-01Z', missed = 'all',"
                                  " held_until = now() + interval '1 hour'; SELECT courier.tick()");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "0");
        database_exec(connection, "UPDATE courier.schedule SET held_until = now();"
                                  "SELECT courier.publish_ticks(now(), 1)");
        expect_value(connection, "SELECT headers ->> 'scheduled_for' FROM courier.outbox",
            "2020-01-01T00:00:00Z");
        expect_value(connection,
            "SELECT next_at = '2020-01-01 00:00:10Z' AND held_until ="
            " next_at + courier.tick_delay(id, next_at, jitter) FROM courier.schedule",
            "t");
        PQfinish(connection);
}

Test(schedule_life, refuses_a_jitter_that_reaches_the_next_tick)
{
        static const struct {
                const char *timing;
                const char *most;
                const char *too_much;
        } cases[] = {
            {"every => '10 seconds'", "9.999 seconds", "10 seconds"},
            {"every => '1 day 02:00'", "24:59:59", "25:00"},
            {"every => '1 month'", "27 days 22:00", "27 days 23:00"},
            {"every => '2 years'", "671 days 22:00", "671 days 23:00"},
            {"at => '06:30'", "22:59:59", "23:00"},
            {"at => '06:30', days => '{mon}'", "22:59:59", "23:00"},
            {"cron => '* * * * *'", "59.999 seconds", "1 minute"},
            {"cron => '0,10 * * * *'", "9 minutes", "10 minutes"},
            {"cron => '5,50 * * * *'", "14 minutes", "15 minutes"},
            {"cron => '5,50 1,5 * * *'", "44 minutes", "45 minutes"},
            {"cron => '30 8,17 * * *'", "8:59", "9:00"},
            {"cron => '30 2,22 * * *'", "3:59", "4:00"},
            {"cron => '0 0 1 * *'", "22:59", "23:00"},
        };
        PGconn *connection = begin();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *sql = xasprintf("SELECT courier.schedule('s', 't', '{}', %s, jitter => '%s')"
                                      " IS NOT NULL",
                    cases[i].timing, cases[i].most);

                expect_value(connection, sql, "t");
                free(sql);
                sql = xasprintf("SELECT courier.schedule('s', 't', '{}', %s, jitter => '%s')",
                    cases[i].timing, cases[i].too_much);
                expect_error(connection, sql, "22023", "less than the least distance of its ticks");
                free(sql);
        }
        expect_error(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '6:30', jitter => '-1 second')", "22023",
            "which is not from 0 to less than");
        PQfinish(connection);
}

Test(schedule_life, ends_after_so_many_events_and_goes_on_when_it_may_have_more)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 hour', "
                                  "missed => 'all', times => 3,"
                                  " " FIVE_HOURS_AGO "); " ALL_ARE_DUE);
        expect_value(connection, "SELECT courier.tick() IS NULL", "t");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "3");
        expect_value(connection,
            "SELECT (ticks, next_at, last_at = starting + interval '2 hours') FROM "
            "courier.schedule",
            "(3,infinity,t)");
        expect_value(connection, "SELECT count(*) FROM courier.next_ticks('s')", "0");

        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', times => 3)", "infinity");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', times => 5)"
            " - now() BETWEEN '0' AND '1 hour'",
            "t");
        expect_value(connection, "SELECT count(*) FROM courier.next_ticks('s')", "2");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '2 hours', times => 3) > now()", "t");
        expect_value(connection, "SELECT ticks FROM courier.schedule", "0");
        expect_error(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', times => 0)", "22023",
            "times is 0, which is less than 1");
        PQfinish(connection);
}

Test(schedule_life, has_its_last_tick_at_until)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule(missed, missed, '{}', every => '1 hour', missed => missed,"
            " " FIVE_HOURS_AGO ", until => date_trunc('hour', now()) - interval '3 hours')"
            " FROM unnest('{one,all}'::text[]) AS missed;"
            "SELECT courier.schedule('at', 'at', '{}', at => '00:00', starting => now() - interval "
            "'9 days',"
            " until => now() - interval '7 days'); " ALL_ARE_DUE);
        expect_value(connection, "SELECT courier.tick() IS NULL", "t");
        expect_value(connection,
            "SELECT string_agg(topic || ' ' || n, ', ' ORDER BY topic) FROM"
            " (SELECT topic, count(*) AS n FROM courier.outbox GROUP BY topic) AS counted",
            "all 3, at 1, one 1");
        expect_value(connection,
            "SELECT count(*) FILTER (WHERE last_at = until) || ' ' || min(next_at) FROM "
            "courier.schedule",
            "2 infinity");

        expect_value(connection,
            "SELECT courier.schedule('one', 'one', '{}', every => '1 hour', until => now() - "
            "interval"
            " '1 hour')",
            "infinity");
        expect_value(connection,
            "SELECT courier.schedule('one', 'one', '{}', every => '1 hour',"
            " until => now() + interval '2 hours') < now() + interval '1 hour'",
            "t");
        expect_error(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', until => 'infinity')",
            "22023", "until is infinity, which is not in the years 1 to 9998");
        PQfinish(connection);
}

static int n_notifications(PGconn *connection)
{
        PGnotify *notify;
        int n = 0;

        database_exec(connection, "SELECT");
        while ((notify = PQnotifies(connection)) != NULL) {
                n++;
                PQfreemem(notify);
        }
        return n;
}

Test(schedule_life, leaves_out_the_ticks_of_a_pause)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 hour', "
                                  "missed => 'all'," FIVE_HOURS_AGO ")");
        database_exec(connection, "LISTEN courier_control");
        expect_value(connection, "SELECT courier.pause_schedule('s')", "t");
        cr_expect_eq(n_notifications(connection), 1);
        database_exec(connection, "UPDATE courier.schedule SET next_at = starting");
        expect_value(connection, "SELECT courier.tick() IS NULL", "t");
        expect_value(connection, "SELECT count(*) FROM courier.next_ticks('s')", "0");
        /* Whatever replaces it, it stays paused. */
        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 hour');"
                                  "SELECT courier.schedule('s', 't', '{}', every => '2 hours',"
                                  " jitter => '1 hour', " FIVE_HOURS_AGO ");"
                                  "UPDATE courier.schedule SET next_at = starting");
        expect_value(connection, "SELECT courier.tick() IS NULL", "t");
        expect_value(connection, "SELECT courier.pause_schedule('s')", "t");
        (void)n_notifications(connection);

        expect_value(connection, "SELECT courier.resume_schedule('s')", "t");
        cr_expect_eq(n_notifications(connection), 1);
        expect_value(connection, "SELECT courier.tick() > 0", "t");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "0");
        expect_value(connection,
            "SELECT next_at - now() BETWEEN '0' AND '2 hours' AND paused_at IS NULL"
            " AND held_until = next_at + courier.tick_delay(id, next_at, jitter) FROM "
            "courier.schedule",
            "t");
        /* One that is not paused keeps its ticks. */
        database_exec(connection,
            "UPDATE courier.schedule SET next_at = starting, held_until = NULL;"
            "SELECT courier.resume_schedule('s'); SELECT courier.tick()");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "1");
        expect_value(connection, "SELECT courier.pause_schedule('x')", "f");
        expect_value(connection, "SELECT courier.resume_schedule('x')", "f");
        PQfinish(connection);
}

Test(schedule_life, publishes_by_hand_besides_its_ticks)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{\"n\": \"{{tick}}\"}', every => '1 hour', key => "
            "'k',"
            " type => 'y', headers => '{\"a\": \"b\"}'); SELECT courier.pause_schedule('s');"
            "CREATE TABLE was AS SELECT next_at, ticks FROM courier.schedule");
        expect_value(
            connection, "SELECT courier.run_schedule('s') = courier.run_schedule('s')", "f");
        expect_value(connection,
            "SELECT (topic, key, type, payload, headers - 'scheduled_for') FROM courier.outbox"
            " ORDER BY id LIMIT 1",
            "(t,k,y,\"{\"\"n\"\": \"\"0\"\"}\",\"{\"\"a\"\": \"\"b\"\", \"\"schedule\"\": "
            "\"\"s\"\","
            " \"\"run_by_hand\"\": \"\"true\"\"}\")");
        expect_value(connection,
            "SELECT bool_and((headers ->> 'scheduled_for')::timestamptz"
            " BETWEEN created_at - interval '1 minute' AND created_at) FROM courier.outbox",
            "t");
        expect_value(connection,
            "SELECT s.next_at = was.next_at AND s.ticks = 0 AND s.last_at IS NULL"
            " AND (s.last_outbox_id, s.last_event_id) = (SELECT id, event_id FROM courier.outbox"
            "  ORDER BY id DESC LIMIT 1) FROM courier.schedule AS s, was",
            "t");
        expect_value(connection, "SELECT courier.run_schedule('x') IS NULL", "t");
        PQfinish(connection);
}

Test(schedule_life, fills_the_strings_of_a_payload_at_each_tick)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't',"
            " E'{\"n\":  \"{{tick}}\", \"{{tick}}\" : [\"{{scheduled_for}}/{{tick}}\", "
            "\"{{other}}\"],\\n"
            " \"q\\\\\"{{tick}}\":\"\\\\\"{{tick}}\\\\\\\\\", \"esc\": \"\\\\u007b{tick}}\", "
            "\"d\": 5}',"
            " every => '1 hour', missed => 'all', starting => '2026-01-01 00:00Z', times => 2);"
            "UPDATE courier.schedule SET next_at = starting, until = '2026-01-01 01:00Z';"
            "SELECT courier.tick()");
        expect_value(connection, "SELECT payload FROM courier.outbox ORDER BY id LIMIT 1",
            "{\"n\":  \"1\", \"{{tick}}\" : [\"2026-01-01T00:00:00Z/1\", \"{{other}}\"],\n"
            " \"q\\\"{{tick}}\":\"\\\"1\\\\\", \"esc\": \"\\u007b{tick}}\", \"d\": 5}");
        expect_value(connection,
            "SELECT payload ->> 'n' || ' ' || (payload -> '{{tick}}' ->> 0) FROM courier.outbox"
            " ORDER BY id DESC LIMIT 1",
            "2 2026-01-01T01:00:00Z/2");

        /* A string alone is a payload, and one without {{ stays as it is, byte for byte. */
        database_exec(connection,
            "DELETE FROM courier.outbox;"
            "SELECT courier.schedule('a', 'a', '\"{{tick}}\"', every => '1 hour');"
            "SELECT courier.schedule('b', 'b', '{ \"a\" : 1,\"a\":{\"b\":{}}}', every => '1 hour');"
            "SELECT courier.schedule('c', 'c', data => '{{tick}}', every => '1 hour');"
            "UPDATE courier.schedule SET next_at = now() WHERE name <> 's'; SELECT courier.tick()");
        expect_value(connection,
            "SELECT string_agg(coalesce(payload::text, convert_from(data, 'UTF8')), ' ' ORDER BY "
            "topic)"
            " FROM courier.outbox",
            "\"1\" { \"a\" : 1,\"a\":{\"b\":{}}} {{tick}}");
        expect_value(connection,
            "SELECT string_agg(name, '') FROM courier.schedule WHERE is_template AND name <> 's'",
            "a");
        PQfinish(connection);
}

Test(schedule_life, tells_its_last_events)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule(name, name, '{}', every => '1 hour', missed => "
            "'all'," FIVE_HOURS_AGO ") FROM unnest('{a,b}'::text[]) AS name; " ALL_ARE_DUE
            "; SELECT courier.tick();"
            "SELECT courier.run_schedule('a');"
            "INSERT INTO courier.outbox (topic, payload) SELECT 't', '1' FROM generate_series(1, "
            "5000);"
            /* An event may have any header of that name. */
            "INSERT INTO courier.outbox (topic, payload, headers) SELECT 't', '1',"
            " jsonb_build_object('schedule', string_agg(md5(i::text), '')) FROM generate_series(1, "
            "300) AS i");
        expect_value(connection,
            "SELECT string_agg(coalesce(concat_ws(' ', extract(epoch FROM date_trunc('hour', now())"
            " - scheduled_for)::integer / 3600, CASE WHEN run_by_hand THEN 'by hand' END), '?'), "
            "', ')"
            " FROM courier.schedule_history('a', 4)",
            "0 by hand, 0, 1, 2");
        expect_value(connection,
            "SELECT bool_and((h.event_id, h.created_at, o.headers ->> 'schedule') = (o.event_id, "
            "o.created_at, 'a'))"
            " FROM courier.schedule_history('a') AS h JOIN courier.outbox AS o ON o.id = "
            "h.outbox_id",
            "t");
        expect_value(connection, "SELECT count(*) FROM courier.schedule_history('a', 100)", "7");
        expect_value(connection, "SELECT count(*) FROM courier.schedule_history('x')", "0");

        /* It looks at the index only, also of partitions that come. */
        database_exec(connection, "VACUUM ANALYZE courier.outbox");
        database_exec(connection,
            "BEGIN; CREATE TABLE was AS"
            " SELECT seq_scan FROM pg_stat_xact_all_tables WHERE relname = 'outbox_p1'");
        expect_value(connection,
            "SELECT now.seq_scan - was.seq_scan FROM was,"
            " (SELECT count(*) AS n FROM courier.schedule_history('a', 100)) AS read,"
            " LATERAL (SELECT seq_scan FROM pg_stat_xact_all_tables"
            "  WHERE relname = 'outbox_p1' AND read.n = 7) AS now",
            "0");
        database_exec(connection, "COMMIT; SELECT setval('courier.outbox_id_seq', 1000001);"
                                  "SELECT count(*) FROM courier.maintain()");
        expect_value(connection,
            "SELECT count(*) FILTER (WHERE indexed) = count(*) AND count(*) >= 4 FROM"
            " (SELECT EXISTS (SELECT FROM pg_index WHERE indrelid = inhrelid AND indpred IS NOT "
            "NULL) AS indexed"
            "  FROM pg_inherits WHERE inhparent = 'courier.outbox'::regclass) AS partitions",
            "t");
        PQfinish(connection);
}

Test(schedule_life, goes_on_with_the_others_when_the_last_event_of_one_cannot_be_judged)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule(name, name, '{}', every => '1 hour', overlap => 'skip')"
            " FROM unnest('{a,bad,c}'::text[]) AS name;"
            "UPDATE courier.schedule SET last_outbox_id = CASE name WHEN 'bad' THEN 7 ELSE 8 END,"
            " next_at = now();"
            "CREATE OR REPLACE FUNCTION courier.is_open(outbox_id bigint) RETURNS boolean LANGUAGE "
            "plpgsql AS"
            " $$ BEGIN IF outbox_id = 7 THEN RAISE EXCEPTION 'no judgement'; END IF; RETURN false; "
            "END $$;"
            "SELECT courier.tick()");
        expect_value(
            connection, "SELECT string_agg(topic, ' ' ORDER BY topic) FROM courier.outbox", "a c");
        expect_value(connection,
            "SELECT last_error = 'no judgement' AND retry_at > now() FROM courier.schedule"
            " WHERE name = 'bad'",
            "t");
        PQfinish(connection);
}

Test(schedule_life, lets_publishers_change_and_relays_look)
{
        static const char *const of_neither[] = {
            "SELECT courier.parse_cron('s', '@daily')", "SELECT courier.publish_ticks(now(), 1)"};
        PGconn *admin = begin();
        PGconn *app = connect_as(admin, "app");
        PGconn *relay = connect_as(admin, "relay");

        database_exec(app, "SELECT courier.schedule('s', 't', '{}', cron => '@daily', times => 3)");
        expect_value(app, "SELECT courier.pause_schedule('s')", "t");
        expect_value(app, "SELECT courier.resume_schedule('s')", "t");
        expect_value(app, "SELECT courier.run_schedule('s') IS NOT NULL", "t");
        expect_value(app, "SELECT count(*) FROM courier.next_ticks('s')", "3");
        expect_value(app,
            "SELECT count(*) FROM (SELECT cron, jitter, until, times, overlap, paused_at, ticks, "
            "skipped,"
            " last_outbox_id, last_event_id, created_at FROM courier.schedule) AS open",
            "1");
        expect_value(app,
            "SELECT courier.schedule_timing(every, at, days, cron, time_zone) FROM "
            "courier.schedule",
            "cron @daily");
        expect_error(
            app, "SELECT * FROM courier.schedule_history('s')", "42501", "permission denied");
        expect_error(app, "SELECT courier.is_open(1)", "42501", "permission denied");
        expect_error(app, "SELECT * FROM courier.schedule_runs('s')", "42501", "permission denied");

        expect_value(relay, "SELECT count(*) FROM courier.next_ticks('s')", "3");
        expect_value(relay, "SELECT count(*) FROM courier.schedule_history('s')", "1");
        /* By its live page. */
        expect_value(relay, "SELECT courier.pause_schedule('s')", "t");
        expect_value(relay, "SELECT courier.resume_schedule('s')", "t");
        expect_value(relay, "SELECT courier.run_schedule('s') IS NOT NULL", "t");
        expect_value(relay, "SELECT count(*) FROM courier.schedule_runs('s')", "2");
        expect_error(relay, "SELECT courier.schedule('s', 't', '{}', every => '1 day')", "42501",
            "permission denied");
        for (size_t i = 0; i < sizeof of_neither / sizeof *of_neither; i++) {
                expect_error(app, of_neither[i], "42501", "permission denied");
                expect_error(relay, of_neither[i], "42501", "permission denied");
        }
        PQfinish(relay);
        PQfinish(app);
        PQfinish(admin);
}

/* courier.schedule() and courier.tick(): when ticks are, and that each is published once. */
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

/* Another session in the same database. */
static PGconn *connect_as(PGconn *connection, const char *user)
{
        char *dsn = xasprintf("host=%s port=%s dbname=%s user=%s", PQhost(connection),
            PQport(connection), PQdb(connection), user);
        PGconn *other = database_connect(dsn);

        free(dsn);
        return other;
}

/* The first ticks after a moment of the only schedule there is, in UTC. */
static void expect_ticks(PGconn *connection, const char *after, int n, const char *expected)
{
        char *sql = xasprintf(
            "WITH RECURSIVE ticks (n, tick) AS ("
            " SELECT 1, (courier.ticks_around(s, '%s')).next_tick FROM courier.schedule AS s"
            " UNION ALL SELECT n + 1, (courier.ticks_around(s, tick)).next_tick"
            " FROM ticks, courier.schedule AS s WHERE n < %d)"
            "SELECT string_agg(to_char(tick AT TIME ZONE 'UTC', 'MM-DD HH24:MI'), ', ' ORDER BY n)"
            " FROM ticks",
            after, n);

        expect_value(connection, sql, expected);
        free(sql);
}

Test(schedule_sql, counts_months_from_the_anchor_so_that_the_31st_comes_back)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 month',"
                                  " starting => '2023-12-31 12:00Z')");
        expect_ticks(connection, "2023-12-30", 6,
            "12-31 12:00, 01-31 12:00, 02-29 12:00, 03-31 12:00, 04-30 12:00, 05-31 12:00");
        /* And a century later, no day has got lost. */
        expect_ticks(connection, "2124-02-01", 2, "02-29 12:00, 03-31 12:00");
        PQfinish(connection);
}

Test(schedule_sql, counts_days_on_the_clock_of_the_zone_and_hours_in_elapsed_time)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 day',"
            " time_zone => 'Europe/Berlin', starting => '2026-03-27 12:00 Europe/Berlin')");
        expect_ticks(
            connection, "2026-03-27", 4, "03-27 11:00, 03-28 11:00, 03-29 10:00, 03-30 10:00");
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '24 hours',"
            " time_zone => 'Europe/Berlin', starting => '2026-03-27 12:00 Europe/Berlin')");
        expect_ticks(
            connection, "2026-03-27", 4, "03-27 11:00, 03-28 11:00, 03-29 11:00, 03-30 11:00");
        /* An hour that comes twice has two ticks, one that is skipped none. */
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour',"
            " time_zone => 'Europe/Berlin', starting => '2026-03-01 00:00Z')");
        expect_ticks(connection, "2026-03-29 00:00Z", 3, "03-29 01:00, 03-29 02:00, 03-29 03:00");
        expect_ticks(connection, "2026-10-25 00:00Z", 3, "10-25 01:00, 10-25 02:00, 10-25 03:00");
        /* Also when it was anchored in the first of the two. */
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour',"
            " time_zone => 'Europe/Berlin', starting => '2026-10-25 00:30Z')");
        expect_ticks(connection, "2026-10-25 00:00Z", 3, "10-25 00:30, 10-25 01:30, 10-25 02:30");
        PQfinish(connection);
}

Test(schedule_sql, ticks_once_at_a_time_of_day_that_is_skipped_or_comes_twice)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', at => '02:30',"
                                  " time_zone => 'Europe/Berlin', starting => '2026-01-01Z')");
        expect_ticks(connection, "2026-03-28 00:00Z", 4,
            "03-28 01:30, 03-29 01:30, 03-30 00:30, 03-31 00:30");
        expect_ticks(connection, "2026-10-24 00:00Z", 4,
            "10-24 00:30, 10-25 01:30, 10-26 01:30, 10-27 01:30");
        /* Half past eleven is skipped and comes at half past midnight, when it is another date. */
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '23:30',"
            " time_zone => 'America/Scoresbysund', starting => '2026-01-01Z')");
        expect_ticks(connection, "2026-03-28 00:00Z", 3, "03-28 01:30, 03-29 01:30, 03-30 00:30");
        expect_ticks(connection, "2026-03-29 01:10Z", 2, "03-29 01:30, 03-30 00:30");
        /* Samoa left out the 30th of December 2011. */
        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', at => '10:00',"
                                  " time_zone => 'Pacific/Apia', starting => '2011-01-01Z')");
        expect_ticks(connection, "2011-12-29 00:00Z", 3, "12-29 20:00, 12-30 20:00, 12-31 20:00");
        PQfinish(connection);
}

Test(schedule_sql, ticks_only_on_the_days_that_are_given)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '00:30', days => '{mon,fri}',"
            " time_zone => 'Asia/Tokyo', starting => '2026-01-01Z')");
        expect_ticks(connection, "2026-06-01 00:00Z", 4, /* a Monday; in Tokyo it is 9 hours on */
            "06-04 15:30, 06-07 15:30, 06-11 15:30, 06-14 15:30");
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '00:30', days => '{sun}',"
            " starting => '2026-06-08Z')");
        expect_value(connection,
            "SELECT last_tick = '2026-06-14 00:30Z' FROM courier.schedule AS s,"
            " courier.ticks_around(s, '2026-06-21 00:29Z')",
            "t");
        expect_ticks(connection, "2026-01-01 00:00Z", 2, "06-14 00:30, 06-21 00:30");
        PQfinish(connection);
}

/* Against PostgreSQL's own arithmetic in a session of that zone, enumerated from the anchor. */
Test(schedule_sql, finds_the_same_ticks_as_counting_from_the_anchor)
{
        static const char *const every[] = {"1 second", "7.25 seconds", "90 minutes", "1 day",
            "9 days", "1 month", "5 months", "1 year", "1 day 2 hours", "1 month 1 day 01:00:01"};
        static const char *const zones[] = {
            "UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"};
        PGconn *connection = begin();

        for (size_t i = 0; i < sizeof every / sizeof *every; i++)
                for (size_t j = 0; j < sizeof zones / sizeof *zones; j++) {
                        char *prepare =
                            xasprintf("SET timezone = '%s'; SELECT setseed(0.%zu);"
                                      "SELECT courier.schedule('s', 't', '{}', every => '%s',"
                                      " time_zone => '%s', starting => '2019-07-31 12:34:56')",
                                zones[j], i + 1, every[i], zones[j]);
                        database_exec(connection, prepare);
                        free(prepare);
                        expect_value(connection,
                            "WITH counted AS MATERIALIZED ("
                            " SELECT starting + k * every AS tick"
                            " FROM courier.schedule, generate_series(0, 1500) AS k),"
                            " moments AS MATERIALIZED ("
                            " SELECT min(tick) + random() * (max(tick) - min(tick)) AS moment"
                            " FROM counted, generate_series(1, 8) AS i GROUP BY i"
                            " UNION ALL SELECT * FROM (SELECT tick FROM counted LIMIT 20) AS few)"
                            "SELECT count(*) FROM moments, courier.schedule AS s,"
                            " courier.ticks_around(s, moment) AS found"
                            " WHERE found.last_tick IS DISTINCT FROM"
                            " (SELECT max(tick) FROM counted WHERE tick <= moment)"
                            " OR found.next_tick IS DISTINCT FROM"
                            " (SELECT min(tick) FROM counted WHERE tick > moment)",
                            "0");
                }
        PQfinish(connection);
}

Test(schedule_sql, begins_when_it_is_told_or_an_interval_from_now)
{
        PGconn *connection = begin();

        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour')"
            " = date_trunc('second', now()) + interval '1 hour'",
            "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', starting => '2999-01-01Z')"
            " = '2999-01-01Z'",
            "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour',"
            " starting => date_trunc('hour', now()) - interval '1000 days' + interval '1 minute')"
            " - now() BETWEEN '0' AND '1 hour'",
            "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '12:00', starting => '2999-01-01 "
            "13:00Z')"
            " = '2999-01-02 12:00Z'",
            "t");
        expect_value(connection, "SELECT courier.unschedule('s')", "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '12:00') - now() BETWEEN '0' AND '1 "
            "day'",
            "t");
        PQfinish(connection);
}

Test(schedule_sql, keeps_its_next_tick_when_it_is_replaced_with_the_same_timing)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't', '1', every => '1 day', starting => '2026-01-01Z');"
            "UPDATE courier.schedule SET next_at = '2026-02-01Z', last_at = '2026-01-31Z',"
            " retry_at = 'infinity', last_error = 'x'");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '2', every => '1 day') = '2026-02-01Z'", "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '2', every => '1 day', starting => '2026-01-01Z')"
            " = '2026-02-01Z'",
            "t");
        expect_value(connection,
            "SELECT (topic, payload::text, starting = '2026-01-01Z', last_at = '2026-01-31Z',"
            " retry_at, last_error) FROM courier.schedule",
            "(u,2,t,t,,)");

        /* Equal to PostgreSQL, but not when the clocks change. */
        expect_value(
            connection, "SELECT courier.schedule('s', 'u', '2', every => '24 hours') > now()", "t");
        database_exec(connection, "UPDATE courier.schedule SET next_at = '2026-02-01Z'");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '2', every => '24 hours',"
            " time_zone => 'Asia/Tokyo') > now()",
            "t");
        database_exec(connection, "UPDATE courier.schedule SET next_at = '2026-02-01Z'");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '2', every => '24 hours', time_zone => 'asia/tokyo',"
            " starting => '2026-01-02Z') > now()",
            "t");
        expect_value(connection, "SELECT count(*) FROM courier.schedule", "1");
        PQfinish(connection);
}

Test(schedule_sql, refuses_what_could_not_tick_and_says_what_to_write)
{
        static const struct {
                const char *arguments;
                const char *sqlstate;
                const char *words;
        } cases[] = {
            {"'s', 't', '{}'", "22023", "schedule 's': give one of every, at and cron"},
            {"'s', 't', '{}'", "22023",
                "every => '5 minutes', or at => '06:30', or cron => '*/15 9-17 * * mon-fri'"},
            {"'s', 't', '{}', every => '1 day', at => '1:00'", "22023",
                "give one of every, at and cron"},
            {"'s', 't', '{}', every => '0'", "22023",
                "which is not between 1 second and 1000 years"},
            {"'s', 't', '{}', every => '-1 hour'", "22023", "every is -01:00:00, which is not"},
            {"'s', 't', '{}', every => '999 ms'", "22023", "Write it like '90 seconds'"},
            {"'s', 't', '{}', every => '1 month -1 day'", "22023", "every is 1 mon -1 days,"},
            {"'s', 't', '{}', every => '1 day -1 hour'", "22023",
                "not between 1 second and 1000 years"},
            {"'s', 't', '{}', at => '1:00', time_zone => 'Berlin'", "22023",
                "there is no time zone 'Berlin'"},
            {"'s', 't', '{}', at => '1:00', time_zone => 'UTC+2'", "22023",
                "Use a name of pg_timezone_names, like Europe/Berlin"},
            {"'s', 't', '{}', at => '1:00', time_zone => NULL", "22023", "no time zone NULL"},
            {"'s', 't', '{}', every => '1001 years'", "22023", "every is 1001 years, which is not"},
            {"'s', 't', '{}', at => '1:00', starting => 'infinity'", "22023",
                "starting is infinity, which is not in the years 1 to 9998"},
            {"'s', 't', '{}', at => '1:00', starting => '-infinity'", "22023",
                "Leave it out to start now"},
            {"'s', 't', '{}', every => '1 day', starting => '9999-01-02'", "22023",
                "which is not in the years 1 to 9998"},
            {"'s', 't', '{}', at => '1:00', starting => '1-01-01 BC'", "22023",
                "which is not in the years 1 to 9998"},
            {"'s', 't', '{}', at => '1:00', days => '{}'", "22023",
                "days are {}, which are not days of"},
            {"'s', 't', '{}', at => '1:00', days => '{monday}'", "22023", "Write them like '{mon,"},
            {"'s', 't', '{}', at => '1:00', days => '{mon,NULL}'", "22023", "days are {mon,NULL}"},
            {"'s', 't', '{}', every => '1:00', days => '{mon}'", "23514", "days_go_with_at"},
            {"'s', 't', '{}', at => '1:00', missed => 'none'", "22023",
                "missed is 'none', neither one nor all"},
            {"'s', 't', '{}', at => '1:00', missed => NULL", "22023",
                "'one' publishes the last tick that was missed"},
            {"'s', 't', '{}', at => '1:00', cron => '@daily'", "22023",
                "give one of every, at and cron"},
            {"'s', 't', '{}', at => '1:00', overlap => 'no'", "22023",
                "overlap is 'no', not allow, skip or queue"},
            {"'s', 't', '{}', at => '1:00', overlap => NULL", "22023", "'queue' waits"},
            {"NULL, 't', '{}', at => '1:00'", "23502", "name"},
            {"'', 't', '{}', at => '1:00'", "23514", "name_must_not_be_empty"},
            {"E'a\\nb', 't', '{}', at => '1:00'", "23514", "name_must_not_contain_control"},
            {"repeat('x', 256), 't', '{}', at => '1:00'", "23514",
                "name_must_be_at_most_255_bytes"},
            {"'s', NULL, '{}', at => '1:00'", "23502", "topic"},
            {"'s', '', '{}', at => '1:00'", "23514", "topic_must_not_be_empty"},
            {"'s', E'a\\tb', '{}', at => '1:00'", "23514", "topic_must_not_contain_control"},
            {"'s', repeat('x', 256), '{}', at => '1:00'", "23514", "topic_must_be_at_most_255"},
            {"'s', 't', '{}', at => '1:00', key => ''", "23514", "key_must_be_null_rather"},
            {"'s', 't', '{}', at => '1:00', key => repeat('x', 1025)", "23514", "key_must_be_at"},
            {"'s', 't', '{}', at => '1:00', type => ''", "23514", "type_must_be_null_rather"},
            {"'s', 't', '{}', at => '1:00', type => repeat('x', 256)", "23514", "type_must_be_at"},
            {"'s', 't', at => '1:00'", "23514", "exactly_one_of_payload_and_data"},
            {"'s', 't', '{}', at => '1:00', data => ''", "23514",
                "exactly_one_of_payload_and_data"},
            {"'s', 't', '{}', at => '1:00', headers => '[]'", "23514", "headers_must_be_an_object"},
            {"'s', 't', '{}', at => '1:00', headers => jsonb_build_object('x', repeat('x', 15360))",
                "23514", "headers_must_be_at_most_15_kibibytes"},
        };
        PGconn *connection = begin();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *sql = xasprintf("SELECT courier.schedule(%s)", cases[i].arguments);
                expect_error(connection, sql, cases[i].sqlstate, cases[i].words);
                free(sql);
        }
        expect_value(connection, "SELECT count(*) FROM courier.schedule", "0");
        PQfinish(connection);
}

Test(schedule_sql, knows_the_names_of_time_zones_in_any_case_and_nothing_else)
{
        PGconn *connection = begin();

        /* Some servers have the same files twice: posix/ and right/. */
        expect_value(connection,
            "SELECT string_agg(name, ' ') FROM pg_timezone_names"
            " WHERE name !~ '^(posix|right)/' AND (courier.time_zone_name(lower(name)) <> name"
            " OR courier.time_zone_name(upper(name)) <> name"
            " OR courier.time_zone_name(name) IS NULL)",
            "");
        expect_value(connection,
            "SELECT string_agg(given, ' ') FROM unnest(ARRAY['CEST', 'PDT', 'ACDT', 'UTC+2', "
            "'utc0',"
            " 'CET-1', 'CET-1CEST', 'CET-1CEST,M3.5.0,M10.5.0/3', 'EST5', 'EST5EDT4', "
            "'xyz5EST5EDT',"
            " 'GMT1', 'GMT+1', 'GMT00', '<+03>-3', '5', '+02', '-02:30', '.5', '1e1', ' UTC', 'UTC "
            "',"
            " 'inf', 'Infinity', 'nan', 'interval ''2'' hour', 'local', 'default', 'system', '',"
            " 'Europe', 'Europe/', 'Europe/Nowhere', 'Etc/../UTC', './UTC', '/etc/localtime'])"
            " AS given WHERE courier.time_zone_name(given) IS NOT NULL",
            "");
        /* They are looked up in the same way, whatever the session's own zone is. */
        expect_value(connection,
            "SELECT courier.time_zone_name('europe/berlin') || ' ' || current_setting('TimeZone')"
            " FROM set_config('TimeZone', 'Asia/Kolkata', false)",
            "Europe/Berlin Asia/Kolkata");
        PQfinish(connection);
}

Test(schedule_sql, has_each_rule_of_the_outbox_so_that_no_tick_can_break_one)
{
        PGconn *connection = begin();

        expect_value(connection,
            "WITH rule AS ("
            " SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint"
            " WHERE conrelid = 'courier.outbox'::regclass AND contype = 'c'"
            " UNION ALL"
            " SELECT conname, replace(pg_get_constraintdef(r.oid), 'VALUE', a.attname)"
            " FROM pg_constraint AS r JOIN pg_attribute AS a ON a.atttypid = r.contypid"
            " WHERE a.attrelid = 'courier.outbox'::regclass AND r.contypid <> 0)"
            " SELECT (count(*), count(*) FILTER (WHERE NOT EXISTS (SELECT FROM pg_constraint AS s"
            " WHERE s.conrelid = 'courier.schedule'::regclass AND s.conname = rule.conname"
            " AND pg_get_constraintdef(s.oid) = rule.definition))) FROM rule"
            " WHERE conname <> 'headers_must_be_at_most_16_kibibytes'",
            "(9,0)");
        /* The largest that is allowed, also when it came compressed. */
        database_exec(connection,
            "CREATE TABLE big AS SELECT jsonb_build_object('x', repeat('x', 15320)) AS headers;"
            "SELECT courier.schedule(repeat('n', 255), repeat('t', 255), '{}', every => '1 second',"
            " key => repeat('k', 1024), type => repeat('y', 255), headers => big.headers) FROM big;"
            "UPDATE courier.schedule SET next_at = now();"
            "SELECT courier.tick()");
        expect_value(connection, "SELECT last_error IS NULL FROM courier.schedule", "t");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "1");
        expect_error(connection,
            "SELECT courier.schedule('s', 't', '{}', at => '1:00',"
            " headers => headers || jsonb_build_object('y', repeat('y', 200))) FROM big",
            "23514", "headers_must_be_at_most_15_kibibytes");
        PQfinish(connection);
}

Test(schedule_sql, publishes_what_it_was_given_and_for_when)
{
        PGconn *connection = begin();

        /* Nothing of the session's may show. */
        database_exec(connection, "SET timezone = 'Asia/Kolkata'; SET datestyle = 'German';"
                                  "SET intervalstyle = 'sql_standard'; SET search_path = nowhere");
        database_exec(connection,
            "SELECT courier.schedule('a', 't.a', '{\"b\": 1,  \"b\": 2}', every => '1 hour',"
            " starting => '2026-01-01 00:00Z', key => 'k', type => 'y', missed => 'all',"
            " headers => '{\"tenant\": \"x\", \"schedule\": \"mine\"}');"
            "UPDATE courier.schedule SET next_at = '2026-01-01 02:00Z';"
            "SELECT courier.tick(); SELECT courier.unschedule('a')");
        database_exec(connection,
            "SELECT courier.schedule('b', 't.b', data => '\\x00ff', every => '1.5 seconds',"
            " starting => '2026-01-01 00:00Z', missed => 'all');"
            "UPDATE courier.schedule SET next_at = '2026-01-01 00:00:01.5Z';"
            "SELECT courier.tick()");
        expect_value(connection,
            "SELECT (topic, key, type, payload::text, headers::text) FROM courier.outbox"
            " WHERE topic = 't.a' ORDER BY id LIMIT 1",
            "(t.a,k,y,\"{\"\"b\"\": 1,  \"\"b\"\": 2}\",\"{\"\"tenant\"\": \"\"x\"\","
            " \"\"schedule\"\": \"\"a\"\", \"\"scheduled_for\"\": "
            "\"\"2026-01-01T02:00:00Z\"\"}\")");
        expect_value(connection,
            "SELECT (payload, data, headers->>'scheduled_for') FROM courier.outbox"
            " WHERE topic = 't.b' ORDER BY id LIMIT 1",
            "(,\"\\\\x00ff\",2026-01-01T00:00:01.5Z)");
        PQfinish(connection);
}

Test(schedule_sql, gives_a_tick_the_same_event_id_again_and_another_to_every_other)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule(name, 't', '{}', every => '1 hour', missed => 'all',"
            " starting => date_trunc('hour', now()) - interval '9 hours')"
            " FROM unnest('{a,b}'::text[]) AS name;"
            "UPDATE courier.schedule SET next_at = starting;"
            "SELECT courier.tick();"
            "UPDATE courier.schedule SET next_at = starting WHERE name = 'a';"
            "SELECT courier.tick()");
        expect_value(connection,
            "SELECT (count(*), count(DISTINCT event_id), count(DISTINCT headers)) FROM "
            "courier.outbox",
            "(30,20,20)");
        expect_value(connection,
            "SELECT bool_and(event_id::text ~ '^.{14}8.{4}[89ab]') FROM courier.outbox", "t");
        /* A receiver of two databases must not take one's tick for the other's. */
        database_exec(connection, "SELECT courier.unschedule('a');"
                                  "SELECT courier.schedule('a', 't', '{}', every => '1 hour',"
                                  " starting => date_trunc('hour', now()) - interval '9 hours');"
                                  "UPDATE courier.schedule SET next_at = starting WHERE name = 'a';"
                                  "SELECT courier.tick()");
        expect_value(connection, "SELECT count(DISTINCT event_id) FROM courier.outbox", "21");
        PQfinish(connection);
}

Test(schedule_sql, publishes_one_event_for_all_the_ticks_missed_or_each)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SET timezone = 'UTC';"
            "CREATE TEMP TABLE expected AS SELECT tick"
            " FROM generate_series(current_date - 20 + time '06:00', now(), '1 day') AS tick;"
            "SELECT courier.schedule(missed, missed, '{}', every => '1 day', missed => missed,"
            " starting => (SELECT min(tick) FROM expected))"
            " FROM unnest('{one,all}'::text[]) AS missed;"
            "SELECT courier.schedule('at', 'at', '{}', at => '06:00',"
            " starting => (SELECT min(tick) FROM expected));"
            "UPDATE courier.schedule SET next_at = (SELECT min(tick) FROM expected);"
            "SELECT courier.tick()");
        expect_value(connection,
            "SELECT count(*) = (SELECT count(*) FROM expected)"
            " AND count(*) = count(DISTINCT (headers->>'scheduled_for')::timestamptz)"
            " AND bool_and((headers->>'scheduled_for')::timestamptz IN (SELECT tick FROM expected))"
            " FROM courier.outbox WHERE topic = 'all'",
            "t");
        expect_value(connection,
            "SELECT bool_and((headers->>'scheduled_for')::timestamptz ="
            " (SELECT max(tick) FROM expected)) AND count(*) = 2"
            " FROM courier.outbox WHERE topic IN ('one', 'at')",
            "t");
        expect_value(connection,
            "SELECT bool_and(last_at = (SELECT max(tick) FROM expected)"
            " AND next_at = last_at + interval '1 day') FROM courier.schedule",
            "t");
        PQfinish(connection);
}

Test(schedule_sql, publishes_at_most_a_hundred_events_in_one_call_and_then_goes_on)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 hour', missed => 'all',"
            " starting => date_trunc('hour', now()) - interval '249 hours');"
            "SELECT courier.schedule('t', 't', '{}', every => '1 hour', missed => 'all');"
            "UPDATE courier.schedule SET next_at = starting WHERE name = 's'");
        expect_value(connection, "SELECT courier.tick()", "0");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "100");
        expect_value(connection, "SELECT courier.tick()", "0");
        expect_value(connection, "SELECT courier.tick() > 1000", "t");
        expect_value(connection,
            "SELECT count(*) = 250 AND count(DISTINCT headers) = 250 FROM courier.outbox", "t");
        PQfinish(connection);
}

Test(schedule_sql, says_how_long_until_the_next_tick)
{
        PGconn *connection = begin();

        expect_value(connection, "SELECT courier.tick() IS NULL", "t");
        database_exec(connection,
            "SELECT courier.schedule('s', 't', '{}', every => '1 day');"
            "SELECT courier.schedule('t', 't', '{}', every => '1 hour');"
            "UPDATE courier.schedule SET next_at = clock_timestamp() + interval '1 hour'"
            " WHERE name = 't'");
        expect_value(connection, "SELECT courier.tick() BETWEEN 3000000 AND 3600000", "t");
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "0");
        expect_value(connection, "SELECT courier.unschedule('t')", "t");
        expect_value(connection, "SELECT courier.unschedule('t')", "f");
        expect_value(connection, "SELECT courier.tick() BETWEEN 80000000 AND 86400000", "t");
        PQfinish(connection);
}

/* A delivered event that a crash of the server takes back would be an event without a cause. */
Test(schedule_sql, makes_a_tick_durable_whatever_the_session_does_without)
{
        PGconn *connection = begin();

        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 hour');"
                                  "SET synchronous_commit = off");
        database_exec(connection, "BEGIN");
        database_exec(connection, "SELECT courier.tick()");
        expect_value(connection, "SHOW synchronous_commit", "off");
        database_exec(connection, "UPDATE courier.schedule SET next_at = now()");
        database_exec(connection, "SELECT courier.tick()");
        expect_value(connection, "SHOW synchronous_commit", "local");
        database_exec(connection, "COMMIT");
        expect_value(connection, "SHOW synchronous_commit", "off");
        PQfinish(connection);
}

Test(schedule_sql, goes_on_with_the_others_when_one_cannot_be_published)
{
        PGconn *connection = begin();

        database_exec(connection,
            "SELECT courier.schedule(name, name, '{}', every => '1 hour', missed => 'all',"
            " starting => date_trunc('hour', now()) - interval '2 hours')"
            " FROM unnest('{a,bad,c}'::text[]) AS name;"
            "UPDATE courier.schedule SET next_at = starting;"
            "ALTER TABLE courier.outbox ADD CONSTRAINT no_bad CHECK (topic <> 'bad')");
        expect_value(connection, "SELECT courier.tick() BETWEEN 1000 AND 60000", "t");
        expect_value(connection, "SELECT count(*) FROM courier.outbox WHERE topic <> 'bad'", "6");
        expect_value(connection,
            "SELECT last_error ~ 'no_bad' AND next_at = starting AND last_at IS NULL"
            " FROM courier.schedule WHERE name = 'bad'",
            "t");
        expect_value(
            connection, "SELECT count(*) FROM courier.schedule WHERE last_error IS NOT NULL", "1");

        /* A minute later its ticks are still there. */
        database_exec(
            connection, "ALTER TABLE courier.outbox DROP CONSTRAINT no_bad; SELECT courier.tick()");
        expect_value(connection, "SELECT count(*) FROM courier.outbox WHERE topic = 'bad'", "0");
        database_exec(connection, "UPDATE courier.schedule SET retry_at = now() WHERE name = "
                                  "'bad'; SELECT courier.tick()");
        expect_value(connection, "SELECT count(*) FROM courier.outbox WHERE topic = 'bad'", "3");
        expect_value(connection,
            "SELECT count(*) FROM courier.schedule"
            " WHERE last_error IS NOT NULL OR retry_at IS NOT NULL",
            "0");
        PQfinish(connection);
}

Test(schedule_sql, leaves_a_tick_to_the_session_that_publishes_it_until_it_rolls_back)
{
        PGconn *first = begin();
        PGconn *second = connect_as(first, "relay");

        database_exec(first, "SELECT courier.schedule('s', 't', '{}', every => '1 hour');"
                             "UPDATE courier.schedule SET next_at = now()");
        database_exec(first, "BEGIN");
        database_exec(first, "SELECT courier.tick()");
        database_exec(second, "SET statement_timeout = '20s'");
        expect_value(second, "SELECT courier.tick()", "1000"); /* and does not wait */
        database_exec(first, "ROLLBACK");
        expect_value(second, "SELECT courier.tick() > 1000", "t");
        expect_value(first, "SELECT courier.tick() > 1000", "t");
        expect_value(first, "SELECT count(*) FROM courier.outbox", "1");

        /* The same when a session replaces it in a transaction that takes its time. */
        database_exec(first, "UPDATE courier.schedule SET next_at = now()");
        database_exec(first, "BEGIN");
        database_exec(first, "SELECT courier.schedule('s', 't', '2', every => '1 hour')");
        expect_value(second, "SELECT courier.tick()", "1000");
        database_exec(first, "COMMIT");
        expect_value(second, "SELECT courier.tick() > 1000", "t");
        expect_value(
            first, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM courier.outbox", "{} 2");
        PQfinish(second);
        PQfinish(first);
}

#define N_SESSIONS 8

Test(schedule_sql, ticks_once_however_many_sessions_ask_at_the_same_time)
{
        PGconn *connection = begin();
        PGconn *sessions[N_SESSIONS];

        for (int i = 0; i < N_SESSIONS; i++)
                sessions[i] = connect_as(connection, "relay");
        database_exec(connection,
            "SELECT courier.schedule('s' || i, 't', '{}', every => '1 minute', missed => 'all',"
            " starting => date_trunc('minute', now()) - interval '1 hour')"
            " FROM generate_series(1, 60) AS i");
        for (int round = 0; round < 60; round++) {
                /* One more minute of the hour that was missed becomes due, for all of them. */
                database_exec(connection,
                    "UPDATE courier.schedule SET next_at = coalesce(last_at + interval '1 minute',"
                    " starting), starting = now() + interval '1 day'");
                for (int i = 0; i < N_SESSIONS; i++)
                        cr_assert(PQsendQuery(sessions[i], "SELECT courier.tick()"));
                for (int i = 0; i < N_SESSIONS; i++) {
                        PGresult *result;
                        while ((result = PQgetResult(sessions[i])) != NULL) {
                                cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s",
                                    PQresultErrorMessage(result));
                                PQclear(result);
                        }
                }
        }
        expect_value(connection,
            "SELECT (count(*), count(DISTINCT event_id), count(DISTINCT headers)) FROM "
            "courier.outbox",
            "(3600,3600,3600)");
        for (int i = 0; i < N_SESSIONS; i++)
                PQfinish(sessions[i]);
        PQfinish(connection);
}

Test(schedule_sql, may_be_made_by_publishers_and_ticked_by_relays)
{
        PGconn *admin = begin();
        PGconn *app = connect_as(admin, "app");
        PGconn *relay = connect_as(admin, "relay");

        database_exec(admin, "DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN;"
                             "GRANT USAGE ON SCHEMA courier TO stranger");
        PGconn *stranger = connect_as(admin, "stranger");

        database_exec(app, "SELECT courier.schedule('s', 't', '{}', every => '1 second')");
        expect_value(app, "SELECT name FROM courier.schedule", "s");
        expect_error(app, "SELECT payload FROM courier.schedule", "42501", "permission denied");
        expect_error(app, "SELECT courier.tick()", "42501", "permission denied for function tick");
        expect_error(app, "DELETE FROM courier.schedule", "42501", "permission denied");
        expect_error(app, "UPDATE courier.schedule SET next_at = now()", "42501", "permission");

        expect_error(relay, "SELECT courier.schedule('s', 't', '{}', every => '1 second')", "42501",
            "permission denied for function schedule");
        expect_error(relay, "UPDATE courier.schedule SET next_at = now()", "42501", "permission");
        expect_error(relay, "INSERT INTO courier.outbox (topic, payload) VALUES ('t', '{}')",
            "42501", "permission");
        expect_error(relay, "SELECT courier.publish_ticks(now(), 1)", "42501",
            "permission denied for function publish_ticks");
        database_exec(admin, "UPDATE courier.schedule SET next_at = now()");
        expect_value(relay, "SELECT courier.tick() <= 1000", "t");
        expect_value(relay, "SELECT count(*) FROM courier.outbox", "1");

        expect_error(stranger, "SELECT courier.tick()", "42501", "permission");
        expect_error(stranger, "SELECT courier.unschedule('s')", "42501", "permission");
        expect_error(stranger, "SELECT courier.schedule('x', 't', '{}', every => '1 second')",
            "42501", "permission");
        expect_value(app, "SELECT courier.unschedule('s')", "t");
        expect_value(relay, "SELECT courier.unschedule('s')", "f");
        PQfinish(stranger);
        PQfinish(relay);
        PQfinish(app);
        PQfinish(admin);
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

Test(schedule_sql, tells_relays_of_changes_but_not_of_ticks)
{
        PGconn *connection = begin();

        database_exec(connection, "LISTEN courier_control");
        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 second')");
        cr_expect_eq(n_notifications(connection), 1);
        database_exec(connection, "SELECT courier.schedule('s', 't', '{}', every => '1 hour')");
        cr_expect_eq(n_notifications(connection), 1);
        database_exec(connection, "UPDATE courier.schedule SET next_at = now()");
        database_exec(connection, "SELECT courier.tick()");
        cr_expect_eq(n_notifications(connection), 0);
        expect_value(connection, "SELECT count(*) FROM courier.outbox", "1");
        database_exec(connection, "SELECT courier.unschedule('s')");
        cr_expect_eq(n_notifications(connection), 1);
        PQfinish(connection);
}

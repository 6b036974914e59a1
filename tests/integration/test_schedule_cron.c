/* Lines of cron: when they tick, and what is refused. */
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

Test(schedule_cron, ticks_as_the_line_says_before_and_after_a_moment)
{
        static const struct {
                const char *line;
                const char *zone;
                const char *moment;
                const char *last_and_next;
        } cases[] = {
            {"*/15 9-17 * * mon-fri", "UTC", "2026-06-05 17:45",
                "2026-06-05 17:45, 2026-06-08 09:00"},
            {"5/20 * * * *", "UTC", "2026-06-05 10:50", "2026-06-05 10:45, 2026-06-05 11:05"},
            {"0 22 ? JAN,Jul Sat-Sun", "UTC", "2026-06-10", "2026-01-31 22:00, 2026-07-04 22:00"},
            {"0 0 * * fri-sun/2", "UTC", "2026-06-10", "2026-06-07 00:00, 2026-06-12 00:00"},
            {"0 0 * * 7", "UTC", "2026-06-10", "2026-06-07 00:00, 2026-06-14 00:00"},
            {"0 0 * * 0", "UTC", "2026-06-10", "2026-06-07 00:00, 2026-06-14 00:00"},
            {" 59\t23 31  12 * ", "UTC", "2026-12-31 23:59", "2026-12-31 23:59, 2027-12-31 23:59"},
            {"@hourly", "UTC", "2026-06-10 10:30", "2026-06-10 10:00, 2026-06-10 11:00"},
            {"@DAILY", "UTC", "2026-06-10", "2026-06-10 00:00, 2026-06-11 00:00"},
            {"@midnight", "Asia/Tokyo", "2026-06-10", "2026-06-09 15:00, 2026-06-10 15:00"},
            {"@weekly", "UTC", "2026-06-10", "2026-06-07 00:00, 2026-06-14 00:00"},
            {"@monthly", "UTC", "2026-06-10", "2026-06-01 00:00, 2026-07-01 00:00"},
            {"@yearly", "UTC", "2026-06-10", "2026-01-01 00:00, 2027-01-01 00:00"},
            {"@annually", "UTC", "2026-06-10", "2026-01-01 00:00, 2027-01-01 00:00"},

            /* Leap days: the year 2100 has none. */
            {"0 0 29 2 *", "UTC", "2026-01-01", "2024-02-29 00:00, 2028-02-29 00:00"},
            {"0 0 29 2 *", "UTC", "2097-01-01", "2096-02-29 00:00, 2104-02-29 00:00"},
            {"0 0 * 2 sat#5", "UTC", "2026-01-01", "2020-02-29 00:00, 2048-02-29 00:00"},
            {"0 0 * 2 mon#5", "UTC", "2080-01-01", "2072-02-29 00:00, 2112-02-29 00:00"},

            /* Both fields of days: either, unless one begins with *. The 1st of June is a monday. */
            {"0 12 1 * mon", "UTC", "2026-06-02", "2026-06-01 12:00, 2026-06-08 12:00"},
            {"0 12 1 * mon", "UTC", "2026-06-29 13:00", "2026-06-29 12:00, 2026-07-01 12:00"},
            {"0 12 */2 * mon", "UTC", "2026-06-02", "2026-06-01 12:00, 2026-06-15 12:00"},
            {"0 12 13 * */5", "UTC", "2026-01-01", "2025-07-13 12:00, 2026-02-13 12:00"},
            {"0 12 L * mon#1", "UTC", "2026-06-02", "2026-06-01 12:00, 2026-06-30 12:00"},

            {"0 0 L * *", "UTC", "2026-02-10", "2026-01-31 00:00, 2026-02-28 00:00"},
            {"0 0 l-2 * *", "UTC", "2028-02-10", "2028-01-29 00:00, 2028-02-27 00:00"},
            {"0 0 1,L * *", "UTC", "2026-06-30", "2026-06-30 00:00, 2026-07-01 00:00"},
            {"0 0 L-30 * *", "UTC", "2026-02-10", "2026-01-01 00:00, 2026-03-01 00:00"},
            {"30 18 * * friL", "UTC", "2026-06-10", "2026-05-29 18:30, 2026-06-26 18:30"},
            {"30 18 * * 5l", "UTC", "2026-06-10", "2026-05-29 18:30, 2026-06-26 18:30"},
            {"0 6 * * fri#2", "UTC", "2026-06-10", "2026-05-08 06:00, 2026-06-12 06:00"},
            {"0 6 * * 5#5", "UTC", "2026-06-10", "2026-05-29 06:00, 2026-07-31 06:00"},
            {"0 6 * * mon,7#1,thuL", "UTC", "2026-06-23", "2026-06-22 06:00, 2026-06-25 06:00"},

            /* Berlin left out two to three on the 29th of March, and had it twice on the 25th of October. */
            {"30 2 * * *", "Europe/Berlin", "2026-03-29", "2026-03-28 01:30, 2026-03-29 01:30"},
            {"30 2 * * *", "Europe/Berlin", "2026-03-29 01:30",
                "2026-03-29 01:30, 2026-03-30 00:30"},
            {"15 2-3 * * *", "Europe/Berlin", "2026-03-29 00:50",
                "2026-03-28 02:15, 2026-03-29 01:15"},
            {"15 2-3 * * *", "Europe/Berlin", "2026-03-29 01:15",
                "2026-03-29 01:15, 2026-03-30 00:15"},
            {"*/20 2 * * *", "Europe/Berlin", "2026-03-29 01:05",
                "2026-03-29 01:00, 2026-03-29 01:20"},
            {"50 2,3 * * *", "Europe/Berlin", "2026-03-29 01:49",
                "2026-03-28 02:50, 2026-03-29 01:50"},
            {"50 2 * * *", "Europe/Berlin", "2026-03-29 04:05",
                "2026-03-29 01:50, 2026-03-30 00:50"},
            {"*/30 * * * *", "Europe/Berlin", "2026-03-29 00:50",
                "2026-03-29 00:30, 2026-03-29 01:00"},
            {"30 2 * * *", "Europe/Berlin", "2026-10-25", "2026-10-24 00:30, 2026-10-25 01:30"},
            {"*/30 1-3 * * *", "Europe/Berlin", "2026-10-25 00:40",
                "2026-10-24 23:30, 2026-10-25 01:00"},
            {"*/30 * * * *", "Europe/Berlin", "2026-10-25 00:40",
                "2026-10-25 00:30, 2026-10-25 01:00"},
            {"30 * * * *", "Europe/Berlin", "2026-10-25 01:00",
                "2026-10-25 00:30, 2026-10-25 01:30"},
            /* Lord Howe leaves out half an hour: 2:20 is 2:50, and comes after 2:40. */
            {"20,40 2 * * *", "Australia/Lord_Howe", "2026-10-03 15:00",
                "2026-10-02 16:10, 2026-10-03 15:40"},
            {"20,40 2 * * *", "Australia/Lord_Howe", "2026-10-03 15:40",
                "2026-10-03 15:40, 2026-10-03 15:50"},
            {"20,40 2 * * *", "Australia/Lord_Howe", "2026-10-03 15:55",
                "2026-10-03 15:50, 2026-10-04 15:20"},
            {"30 2 * * *", "America/New_York", "2026-03-08 06:00",
                "2026-03-07 07:30, 2026-03-08 07:30"},
            {"30 1 * * *", "America/New_York", "2026-11-01 04:00",
                "2026-10-31 05:30, 2026-11-01 06:30"},
            {"0 * * * *", "America/New_York", "2026-11-01 05:30",
                "2026-11-01 05:00, 2026-11-01 06:00"},
            {"15 2 8 3 *", "America/New_York", "2025-04-01", "2025-03-08 07:15, 2026-03-08 07:15"},
        };
        PGconn *connection = begin();

        database_exec(connection, "SET timezone = 'UTC'");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *sql = xasprintf(
                    "SELECT to_char(courier.cron_tick(line, '%s', at, -1), 'YYYY-MM-DD HH24:MI') ||"
                    " ', ' || to_char(courier.cron_tick(line, '%s', at, 1), 'YYYY-MM-DD HH24:MI')"
                    " FROM courier.parse_cron('s', '%s') AS line,"
                    " (SELECT '%s'::timestamptz AS at) AS moment",
                    cases[i].zone, cases[i].zone, cases[i].line, cases[i].moment);
                expect_value(connection, sql, cases[i].last_and_next);
                free(sql);
        }
        PQfinish(connection);
}

/*
 * Random lines, as their words and as sets, against another way to find their ticks: all times of the
 * nearest days that fit, each as the moments that it is, and the nearest of these.
 */
static const char random_lines_sql[] =
    "CREATE FUNCTION one_of(lowest integer, highest integer) RETURNS integer LANGUAGE sql"
    " AS 'SELECT lowest + floor(random() * (highest - lowest + 1))::integer';"
    /* A field as a line has it, and what it means. */
    "CREATE FUNCTION random_field(lowest integer, highest integer, OUT word text, OUT means "
    "integer[])"
    " LANGUAGE plpgsql AS $$ DECLARE a integer := one_of(lowest, highest);"
    "  b integer := one_of(a, highest); step integer := one_of(1, 9); BEGIN"
    " CASE one_of(1, 6)"
    "  WHEN 1, 2 THEN word := '*'; means := ARRAY(SELECT generate_series(lowest, highest));"
    "  WHEN 3 THEN word := a; means := ARRAY[a];"
    "  WHEN 4 THEN word := '*/' || step; means := ARRAY(SELECT generate_series(lowest, highest, "
    "step));"
    "  WHEN 5 THEN word := a || '-' || b || '/' || step; means := ARRAY(SELECT generate_series(a, "
    "b, step));"
    "  WHEN 6 THEN word := b || ',' || a || '-' || b; means := ARRAY(SELECT generate_series(a, b));"
    " END CASE; END $$;"
    "CREATE TABLE random_line (zone text, moment timestamptz, words text, minutes integer[], hours "
    "integer[],"
    " days integer[], before_end integer, months integer[], weekdays integer[], nth integer, last "
    "integer,"
    " either boolean);"
    "CREATE FUNCTION make_line() RETURNS void LANGUAGE plpgsql AS $$ DECLARE"
    "  minute record := random_field(0, 59); hour record := random_field(0, 23);"
    "  day record := random_field(1, 31); month record := random_field(1, 12);"
    "  weekday record := random_field(0, 6); made random_line; change date;"
    " BEGIN"
    "  made.minutes := minute.means; made.hours := hour.means; made.days := day.means;"
    "  made.months := month.means; made.weekdays := weekday.means;"
    "  IF one_of(1, 6) = 1 THEN made.before_end := one_of(0, 5); made.days := '{}';"
    "   day.word := 'L-' || made.before_end; END IF;"
    "  CASE one_of(1, 8)"
    "   WHEN 1 THEN made.nth := one_of(0, 6) * 10 + one_of(1, 5); made.weekdays := '{}';"
    "    weekday.word := made.nth / 10 || '#' || made.nth % 10;"
    "   WHEN 2 THEN made.last := one_of(0, 6); made.weekdays := '{}'; weekday.word := made.last || "
    "'L';"
    "   ELSE NULL; END CASE;"
    "  made.either := day.word NOT LIKE '*%' AND weekday.word NOT LIKE '*%';"
    "  made.words := concat_ws(' ', minute.word, hour.word, day.word, month.word, weekday.word);"
    /* Most moments are near a change of the clock. */
    "  made.zone := ('{Europe/Berlin,America/New_York,Australia/Lord_Howe,UTC}'::text[])[one_of(1, "
    "4)];"
    "  change := "
    "('{2026-03-29,2026-10-25,2026-03-08,2026-11-01,2026-04-05,2026-10-04,2028-02-29}'::date[])"
    "   [one_of(1, 7)];"
    "  made.moment := change AT TIME ZONE 'UTC' + interval '1 day' - random() * interval '2 days';"
    "  IF random() < 0.5 THEN made.moment := date_trunc('minute', made.moment); END IF;"
    "  INSERT INTO random_line SELECT made.*;"
    " END $$;"
    "CREATE FUNCTION parse_or_refuse(words text) RETURNS courier.cron LANGUAGE plpgsql AS $$ BEGIN"
    " RETURN courier.parse_cron('s', words); EXCEPTION WHEN invalid_parameter_value THEN RETURN "
    "NULL; END $$;"
    "SELECT setseed(0.25); SELECT make_line() FROM generate_series(1, 1200)";

static const char compare_sql[] =
    "WITH found AS MATERIALIZED ("
    " SELECT random_line.*, parse_or_refuse(words) AS parsed FROM random_line"
    "), near AS ("
    " SELECT found.*, tick FROM found,"
    "  LATERAL (SELECT d FROM ("
    "    SELECT d, row_number() OVER (PARTITION BY d >= date_trunc('day', moment) ORDER BY"
    "     abs(extract(epoch FROM d - date_trunc('day', moment)))) AS n"
    "    FROM generate_series(date_trunc('day', moment AT TIME ZONE 'UTC') - interval '500 days',"
    "     moment AT TIME ZONE 'UTC' + interval '500 days', interval '1 day') AS d,"
    "    LATERAL (SELECT extract(day FROM date_trunc('month', d) + interval '1 month -1 "
    "day')::integer AS length,"
    "     extract(day FROM d)::integer AS n_day, extract(isodow FROM d)::integer % 7 AS wd) AS its,"
    "    LATERAL (SELECT coalesce(n_day = ANY (days) OR length - n_day = before_end, false) AS a,"
    "     coalesce(wd = ANY (weekdays), false) OR coalesce(wd = last AND n_day + 7 > length, false)"
    "     OR coalesce(wd = nth / 10 AND (n_day - 1) / 7 + 1 = nth % 10, false) AS b) AS fits"
    "    WHERE extract(month FROM d)::integer = ANY (months)"
    "     AND CASE WHEN either THEN a OR b ELSE a AND b END) AS days WHERE n <= 4) AS day,"
    "  unnest(hours) AS h, unnest(minutes) AS m,"
    "  LATERAL (SELECT d + make_interval(hours => h, mins => m) AS wall) AS walls,"
    "  LATERAL (SELECT wall AT TIME ZONE zone AS tick UNION"
    "   SELECT earlier FROM (SELECT wall AT TIME ZONE zone - make_interval(mins => back) AS earlier"
    "    FROM unnest('{30,60}'::integer[]) AS back) AS before"
    "   WHERE cardinality(hours) = 24 AND earlier AT TIME ZONE zone = wall) AS ticks"
    "), expected AS ("
    " SELECT words, zone, moment, max(tick) FILTER (WHERE tick <= moment) AS last_tick,"
    "  min(tick) FILTER (WHERE tick > moment) AS next_tick FROM near GROUP BY words, zone, moment)"
    "SELECT (count(*) > 1000)::text || ', ' || count(*) FILTER (WHERE differs) || ' differ: '"
    " || coalesce(min(concat_ws(' | ', words, zone, moment, last_tick, next_tick,"
    "  courier.cron_tick(parsed, zone, moment, -1), courier.cron_tick(parsed, zone, moment, 1)))"
    "  FILTER (WHERE differs), 'none')"
    " FROM (SELECT found.*, last_tick, next_tick,"
    "  courier.cron_tick(parsed, zone, moment, -1) IS DISTINCT FROM last_tick"
    "  OR courier.cron_tick(parsed, zone, moment, 1) IS DISTINCT FROM next_tick AS differs"
    "  FROM found JOIN expected USING (words, zone, moment)"
    "  WHERE last_tick IS NOT NULL AND next_tick IS NOT NULL) AS each";

Test(schedule_cron, finds_the_same_ticks_as_looking_at_all_times_of_the_nearest_days)
{
        PGconn *connection = begin();

        database_exec(connection, random_lines_sql);
        expect_value(connection, compare_sql, "true, 0 differ: none");
        PQfinish(connection);
}

/* `place` is where the caret stands, from 1. */
static void expect_refused(PGconn *connection, const char *line, size_t place, const char *words)
{
        char *literal = PQescapeLiteral(connection, line, strlen(line));
        char *sql = xasprintf("SELECT courier.schedule('s', 't', '{}', cron => %s)", literal);
        char *detail = xasprintf("The caret shows where:\n%s\n%*s", line, (int)place, "^");
        PGresult *result = PQexec(connection, sql);

        cr_assert_eq(PQresultStatus(result), PGRES_FATAL_ERROR, "%s", line);
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_SQLSTATE), "22023", "%s", line);
        cr_expect_not_null(strstr(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY), words),
            "%s: %s", line, PQresultErrorMessage(result));
        cr_expect_str_eq(PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL), detail);
        cr_expect_not_null(PQresultErrorField(result, PG_DIAG_MESSAGE_HINT));
        PQclear(result);
        PQfreemem(literal);
        free(detail);
        free(sql);
}

Test(schedule_cron, refuses_a_line_and_shows_the_place)
{
        static const struct {
                const char *line;
                size_t place;
                const char *words;
        } cases[] = {
            {"", 1, "schedule 's': cron: the minute is missing"},
            {"  ", 3, "the minute is missing"},
            {"* * * *", 8, "the day of week is missing"},
            {"* * * * * *", 11, "there are more than five fields"},
            {"* * * * * /bin/true", 11, "there are more than five fields"},
            {"@reboot", 1, "there is no such word"},
            {"@every 5m", 1, "there is no such word"},
            {"60 * * * *", 1, "60 is no minute"},
            {"* 24 * * *", 3, "24 is no hour"},
            {"* * 0 * *", 5, "0 is no day of month"},
            {"* * 32 * *", 5, "32 is no day of month"},
            {"* * * 13 *", 7, "13 is no month"},
            {"* * * * 8", 9, "8 is no day of week"},
            {"0 0 * * mon-fru", 13, "'fru' is no day of week"},
            {"0 0 * * monday", 9, "'monday' is no day of week"},
            {"0 0 * foo,jan *", 7, "'foo' is no month"},
            {"0 0 * jan,foo *", 11, "'foo' is no month"},
            {"mon 0 * * *", 1, "'mon' is no minute"},
            {"1,,2 * * * *", 3, "a minute is missing"},
            {"1, * * * *", 3, "a minute is missing"},
            {"1- * * * *", 3, "a minute is missing"},
            {"1-5-7 * * * *", 3, "'5-7' is no minute"},
            {"-5 * * * *", 1, "a minute is missing"},
            {"1.5 * * * *", 1, "'1.5' is no minute"},
            {"99999999999999999999 * * * *", 1, "is no minute"},
            {"5-1 * * * *", 1, "the range 5-1 runs backwards"},
            {"*-5 * * * *", 2, "* is the whole range already"},
            {"** * * * *", 1, "'**' is no minute"},
            {"*/0 * * * *", 3, "'0' is no step"},
            {"*/ * * * *", 3, "'' is no step"},
            {"*/5/5 * * * *", 3, "'5/5' is no step"},
            {"5-9/x * * * *", 5, "'x' is no step"},
            {"*/1000 * * * *", 3, "'1000' is no step"},
            {"L * * * *", 1, "'l' is no minute"},
            {"0 0 L-31 * *", 5, "'l' is no day of month"},
            {"0 0 5L * *", 5, "'5l' is no day of month"},
            {"0 0 15W * *", 5, "'15w' is no day of month"},
            {"0 0 * * L", 9, "'l' is no day of week"},
            {"0 0 * * 8L", 9, "8 is no day of week"},
            {"0 0 * * fri#6", 13, "'6' is not one of the first five"},
            {"0 0 * * fri#", 13, "'' is not one of the first five"},
            {"0 0 * * #2", 9, "a day of week is missing"},
            {"0 0 * * fri#2#3", 13, "'2#3' is not one of the first five"},
            {"0 0 30 2 *", 5, "no year has such a day"},
            {"30 0  31 apr,jun,sep,nov *", 7, "no year has such a day"},
            {"0 0 L-29 2 *", 5, "no year has such a day"},
        };
        PGconn *connection = begin();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
                expect_refused(connection, cases[i].line, cases[i].place, cases[i].words);
        expect_value(connection, "SELECT count(*) FROM courier.schedule", "0");
        PQfinish(connection);
}

Test(schedule_cron, goes_with_starting_and_until_and_keeps_its_next_tick)
{
        PGconn *connection = begin();

        database_exec(connection, "SET timezone = 'UTC'");
        expect_value(connection,
            "SELECT courier.schedule('s', 't', '{}', cron => '0 0 1 * *', time_zone => "
            "'Europe/Berlin',"
            " starting => '2999-01-31 23:00Z', until => '2999-03-31 22:00Z')",
            "2999-01-31 23:00:00+00");
        expect_value(connection,
            "SELECT string_agg(to_char(tick, 'MM-DD HH24:MI'), ', ') FROM courier.next_ticks('s', "
            "9)",
            "01-31 23:00, 02-28 23:00, 03-31 22:00");
        expect_value(connection,
            "SELECT concat_ws(' ', a.last_tick IS NULL, a.next_tick = s.starting, b.last_tick, "
            "b.next_tick IS NULL)"
            " FROM courier.schedule AS s, courier.ticks_around(s, starting - interval '1 second') "
            "AS a,"
            " courier.ticks_around(s, '3001-01-01') AS b",
            "t t 2999-03-31 22:00:00+00 t");

        database_exec(connection, "UPDATE courier.schedule SET next_at = '2999-02-28 23:00Z'");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '{}', cron => '0 0 1 * *', time_zone => "
            "'Europe/Berlin',"
            " until => '2999-03-31 22:00Z') = '2999-02-28 23:00Z'",
            "t");
        expect_value(connection,
            "SELECT courier.schedule('s', 'u', '{}', cron => '0 1 1 * *', time_zone => "
            "'Europe/Berlin')"
            " < '2999-02-28 23:00Z'",
            "t");
        expect_error(connection,
            "SELECT courier.schedule('s', 't', '{}', cron => '@daily', days => '{mon}')", "23514",
            "days_go_with_at");
        PQfinish(connection);
}

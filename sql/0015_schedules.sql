-- pgcourier schema, version 15: recurring events by lines of cron, with an end, a jitter, a pause and a history.

-- What a line of cron says, so that no tick reads the line again.
CREATE TYPE courier.cron AS (
  minutes         integer[],
  hours           integer[],
  days            integer[],
  days_before_end integer[],
  months          integer[],
  weekdays        integer[],
  nth_weekdays    integer[],
  last_weekdays   integer[],
  is_either_day   boolean
);
COMMENT ON TYPE courier.cron IS 'A line of cron that has been parsed';
COMMENT ON COLUMN courier.cron.days_before_end IS 'L and L-n: so many days before the last day of the month';
COMMENT ON COLUMN courier.cron.weekdays IS '0 is sunday';
COMMENT ON COLUMN courier.cron.nth_weekdays IS 'fri#2: ten times the weekday, plus n';
COMMENT ON COLUMN courier.cron.last_weekdays IS 'friL';
COMMENT ON COLUMN courier.cron.is_either_day
  IS 'Neither field of days begins with *: a day that fits one of them is enough; else it must fit both';

ALTER TABLE courier.schedule
  ADD COLUMN cron           text,
  ADD COLUMN cron_sets      courier.cron,
  ADD COLUMN jitter         interval,
  ADD COLUMN until          timestamptz,
  ADD COLUMN times          integer,
  ADD COLUMN overlap        text    NOT NULL DEFAULT 'allow',
  ADD COLUMN is_template    boolean NOT NULL DEFAULT false,
  ADD COLUMN held_until     timestamptz,
  ADD COLUMN paused_at      timestamptz,
  ADD COLUMN ticks          bigint  NOT NULL DEFAULT 0,
  ADD COLUMN skipped        bigint  NOT NULL DEFAULT 0,
  ADD COLUMN last_outbox_id bigint,
  ADD COLUMN last_event_id  uuid,
  DROP CONSTRAINT exactly_one_of_every_and_at,
  ADD CONSTRAINT exactly_one_of_every_at_and_cron CHECK (num_nonnulls(every, at, cron) = 1),
  ADD CONSTRAINT cron_and_its_sets_go_together CHECK ((cron IS NULL) = (cron_sets IS NULL)),
  ADD CONSTRAINT times_must_be_at_least_1 CHECK (times >= 1),
  ADD CONSTRAINT overlap_must_be_allow_skip_or_queue CHECK (overlap IN ('allow', 'skip', 'queue'));
COMMENT ON COLUMN courier.schedule.every IS 'Ticks at starting + n * every; NULL if at or cron is set';
COMMENT ON COLUMN courier.schedule.at IS 'Ticks at this time of day in time_zone; NULL if every or cron is set';
COMMENT ON COLUMN courier.schedule.cron IS 'Ticks by this line of cron, on the clock of time_zone; NULL if every or at is set';
COMMENT ON COLUMN courier.schedule.cron_sets IS 'What the line says';
COMMENT ON COLUMN courier.schedule.time_zone
  IS 'The time zone of at and cron, and of the days and months in every';
COMMENT ON COLUMN courier.schedule.jitter IS 'Each event comes later than its tick by less than this; NULL: at its tick';
COMMENT ON COLUMN courier.schedule.until IS 'There is no tick after; NULL: it does not end';
COMMENT ON COLUMN courier.schedule.times IS 'It ends when it has published so many ticks; NULL: it does not end';
COMMENT ON COLUMN courier.schedule.overlap
  IS 'While the last event is not delivered: allow the next, skip it, or queue it until then';
COMMENT ON COLUMN courier.schedule.is_template IS 'The payload has {{, so each tick looks into it';
COMMENT ON COLUMN courier.schedule.next_at IS 'The next tick; infinity: it has ended';
COMMENT ON COLUMN courier.schedule.held_until
  IS 'Its next tick is not published before: the jitter, or when a queued tick looks again; infinity: it is paused';
COMMENT ON COLUMN courier.schedule.paused_at IS 'When it was paused; NULL: it is not';
COMMENT ON COLUMN courier.schedule.ticks IS 'How many ticks it has published since it was made, or was given other times';
COMMENT ON COLUMN courier.schedule.skipped IS 'How many ticks overlap => skip has left out';
COMMENT ON COLUMN courier.schedule.last_outbox_id IS 'Its last event, of a tick or run by hand; NULL: none yet';
COMMENT ON COLUMN courier.schedule.last_event_id IS 'The same';
COMMENT ON COLUMN courier.schedule.last_error IS 'Why its tick could not be published; NULL: all is well';

DROP INDEX courier.schedule_due_idx;
CREATE INDEX schedule_due_idx ON courier.schedule (greatest(next_at, held_until, retry_at));

-- Refuses a line of cron, and shows the place.
CREATE FUNCTION courier.refuse_cron(schedule text, line text, place integer, trouble text, remedy text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'schedule %: cron: %', quote_nullable(schedule), trouble
    USING ERRCODE = 'invalid_parameter_value', HINT = remedy,
          DETAIL = E'The caret shows where:\n' || line || E'\n'
                   || regexp_replace(left(line, place - 1), '[^\t]', ' ', 'g') || '^';
END
$$;
COMMENT ON FUNCTION courier.refuse_cron(text, text, integer, text, text) IS 'Refuses a line of cron, and shows the place';

-- The number that a word of field i of a line of cron stands for: a number or a name.
CREATE FUNCTION courier.cron_number(schedule text, line text, place integer, i integer, word text) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  field   text    := ('{minute,hour,day of month,month,day of week}'::text[])[i];
  lowest  integer := ('{0,0,1,1,0}'::integer[])[i];
  highest integer := ('{59,23,31,12,7}'::integer[])[i];
  names   text[]  := CASE i WHEN 4 THEN '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'::text[]
                            WHEN 5 THEN '{sun,mon,tue,wed,thu,fri,sat}' END;
  hint    text    := format('Write %s to %s', lowest, highest)
                     || coalesce(', or ' || array_to_string(names, ', '), '')
                     || CASE i WHEN 3 THEN ', or L for the last, or L-1' WHEN 5 THEN ', or friL or fri#2' ELSE '' END;
BEGIN
  IF word = '' THEN
    PERFORM courier.refuse_cron(schedule, line, place, format('a %s is missing', field), hint);
  ELSIF word ~ '^[0-9]+$' THEN
    IF length(word) > 4 OR word::integer NOT BETWEEN lowest AND highest THEN
      PERFORM courier.refuse_cron(schedule, line, place, format('%s is no %s', word, field), hint);
    END IF;
    RETURN word::integer;
  ELSIF array_position(names, word) IS NULL THEN
    PERFORM courier.refuse_cron(schedule, line, place, format('%s is no %s', quote_literal(word), field), hint);
  END IF;
  RETURN array_position(names, word) - 1 + lowest;
END
$$;
COMMENT ON FUNCTION courier.cron_number(text, text, integer, integer, text)
  IS 'The number that a word of a line of cron stands for';

-- Field i of a line of cron, which begins at that place: its values; of the days also what counts from the end of the
-- month (L, L-n, friL), and the n-th weekdays of it (fri#2).
CREATE FUNCTION courier.cron_field(
  schedule text, line text, place integer, i integer, field text,
  OUT every integer[], OUT from_end integer[], OUT nth integer[]
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  lowest  integer := ('{0,0,1,1,0}'::integer[])[i];
  highest integer := ('{59,23,31,12,6}'::integer[])[i];
  item    text;
  words   text[];
  low     integer;
  high    integer;
BEGIN
  every := '{}';
  from_end := '{}';
  nth := '{}';
  FOREACH item IN ARRAY string_to_array(lower(field), ',') LOOP
    IF i = 3 AND item ~ '^l(-([12]?[0-9]|30))?$' THEN
      from_end := from_end || coalesce(nullif(substr(item, 3), ''), '0')::integer;
    ELSIF i = 5 AND item ~ '^.+l$' THEN
      from_end := from_end || courier.cron_number(schedule, line, place, i, left(item, -1)) % 7;
    ELSIF i = 5 AND item ~ '#' THEN
      low := courier.cron_number(schedule, line, place, i, split_part(item, '#', 1)) % 7;
      IF item !~ '^[^#]+#[1-5]$' THEN
        PERFORM courier.refuse_cron(schedule, line, place + strpos(item, '#'),
          format('%s is not one of the first five', quote_literal(substr(item, strpos(item, '#') + 1))),
          'Write fri#1 to fri#5, or friL for the last one of a month');
      END IF;
      nth := nth || low * 10 + right(item, 1)::integer;
    ELSE
      words := regexp_match(item, '^([^-/]*)(-[^/]*)?(/.*)?$'); -- low, -high, /step
      IF words[1] IN ('*', '?') THEN
        low := lowest;
        high := highest;
        IF words[2] IS NOT NULL THEN
          PERFORM courier.refuse_cron(schedule, line, place + 1, words[1] || ' is the whole range already',
            'Write either * or a range, such as 1-5');
        END IF;
      ELSE
        low := courier.cron_number(schedule, line, place, i, words[1]);
        high := CASE WHEN words[2] IS NOT NULL
                  THEN courier.cron_number(schedule, line, place + length(words[1]) + 1, i, substr(words[2], 2))
                WHEN words[3] IS NOT NULL THEN highest
                ELSE low END;
        IF i = 5 AND high = 0 AND low > 0 THEN -- fri-sun
          high := 7;
        END IF;
        IF high < low THEN
          PERFORM courier.refuse_cron(schedule, line, place, format('the range %s%s runs backwards', words[1], words[2]),
            format('Write two ranges: %s-%s,%s%s', words[1], highest, lowest, words[2]));
        END IF;
      END IF;
      IF words[3] !~ '^/0*[1-9][0-9]{0,2}$' THEN
        PERFORM courier.refuse_cron(schedule, line, place + length(words[1]) + coalesce(length(words[2]), 0) + 1,
          format('%s is no step', quote_literal(substr(words[3], 2))), 'Write a number from 1 on, such as */15');
      END IF;
      every := every || ARRAY(SELECT CASE i WHEN 5 THEN n % 7 ELSE n END
                              FROM generate_series(low, high, coalesce(substr(words[3], 2)::integer, 1)) AS n);
    END IF;
    place := place + length(item) + 1;
  END LOOP;
  every := ARRAY(SELECT DISTINCT n FROM unnest(every) AS n ORDER BY n);
END
$$;
COMMENT ON FUNCTION courier.cron_field(text, text, integer, integer, text) IS 'What a field of a line of cron says';

-- Parses a line of cron (courier.schedule()). Refuses what is wrong, and what never comes.
CREATE FUNCTION courier.parse_cron(schedule text, given text) RETURNS courier.cron
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  line      text    := given;
  place     integer := 1;
  days_at   integer;
  is_either boolean := true;
  field     text;
  found     record;
  parsed    courier.cron;
BEGIN
  IF given ~ '^[ \t]*@' THEN
    line := CASE lower(btrim(given, E' \t'))
              WHEN '@hourly' THEN '0 * * * *' WHEN '@daily' THEN '0 0 * * *' WHEN '@midnight' THEN '0 0 * * *'
              WHEN '@weekly' THEN '0 0 * * 0' WHEN '@monthly' THEN '0 0 1 * *'
              WHEN '@yearly' THEN '0 0 1 1 *' WHEN '@annually' THEN '0 0 1 1 *' END;
    IF line IS NULL THEN
      PERFORM courier.refuse_cron(schedule, given, strpos(given, '@'), 'there is no such word',
        'Write @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually, or five fields');
    END IF;
  ELSIF length(given) > 1000 THEN
    PERFORM courier.refuse_cron(schedule, left(given, 1000), 1001, 'the line is longer than 1000 characters',
      'Use ranges and steps');
  END IF;
  FOR i IN 1 .. 5 LOOP
    place := place + length(substring(substr(line, place) FROM '^[ \t]*'));
    field := substring(substr(line, place) FROM '^[^ \t]+');
    IF field IS NULL THEN
      PERFORM courier.refuse_cron(schedule, line, place,
        format('the %s is missing', ('{minute,hour,day of month,month,day of week}'::text[])[i]),
        'Write five fields: minute, hour, day of month, month and day of week, such as ''30 6 * * mon-fri''');
    END IF;
    found := courier.cron_field(schedule, line, place, i, field);
    CASE i
      WHEN 1 THEN parsed.minutes := found.every;
      WHEN 2 THEN parsed.hours := found.every;
      WHEN 3 THEN parsed.days := found.every; parsed.days_before_end := found.from_end; days_at := place;
      WHEN 4 THEN parsed.months := found.every;
      WHEN 5 THEN parsed.weekdays := found.every; parsed.last_weekdays := found.from_end; parsed.nth_weekdays := found.nth;
    END CASE;
    is_either := is_either AND (i NOT IN (3, 5) OR field !~ '^[*?]');
    place := place + length(field);
  END LOOP;
  parsed.is_either_day := is_either;
  place := place + length(substring(substr(line, place) FROM '^[ \t]*'));
  IF place <= length(line) THEN
    PERFORM courier.refuse_cron(schedule, line, place, 'there are more than five fields',
      'Write minute, hour, day of month, month and day of week: no seconds, no user and no command');
  ELSIF courier.cron_step(parsed, '2000-01-01', 1) IS NULL THEN
    PERFORM courier.refuse_cron(schedule, line, days_at, 'no year has such a day',
      'February has 28 or 29 days; April, June, September and November have 30');
  END IF;
  RETURN parsed;
END
$$;
COMMENT ON FUNCTION courier.parse_cron(text, text) IS 'Parses a line of cron, or refuses it';

-- The first time after a time of the clock that a line of cron fits (direction 1), or the last one before it (-1), by
-- the minute. NULL: there is none in 41 years; the next 29th of February on a certain weekday may be 40 years away.
-- Months that do not fit are passed over.
CREATE FUNCTION courier.cron_step(line courier.cron, wall timestamp, direction integer) RETURNS timestamp
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  this_month date    := date_trunc('month', wall);
  minute     integer := extract(hour FROM wall) * 60 + extract(minute FROM wall); -- of the day
  first_hour integer := line.hours[CASE direction WHEN 1 THEN 1 ELSE cardinality(line.hours) END];
  first_min  integer := line.minutes[CASE direction WHEN 1 THEN 1 ELSE cardinality(line.minutes) END];
  month      date;
  length     integer;
  day        integer := extract(day FROM wall);
  weekday    integer;
  hour       integer;
  found      integer;
  day_fits   boolean;
  weekday_fits boolean;
BEGIN
  FOR i IN 0 .. 12 * 41 LOOP
    month := this_month + direction * i * interval '1 month';
    CONTINUE WHEN NOT extract(month FROM month)::integer = ANY (line.months);
    length := extract(day FROM month + interval '1 month -1 day');
    IF i > 0 THEN
      day := CASE direction WHEN 1 THEN 1 ELSE length END;
    END IF;
    weekday := extract(dow FROM month + (day - 1));
    WHILE day BETWEEN 1 AND length LOOP
      day_fits := day = ANY (line.days) OR length - day = ANY (line.days_before_end);
      weekday_fits := weekday = ANY (line.weekdays) OR weekday * 10 + (day + 6) / 7 = ANY (line.nth_weekdays)
                      OR day > length - 7 AND weekday = ANY (line.last_weekdays);
      IF day_fits AND weekday_fits OR line.is_either_day AND (day_fits OR weekday_fits) THEN
        IF month + (day - 1) <> wall::date THEN
          RETURN month + (day - 1) + make_interval(hours => first_hour, mins => first_min);
        END IF;
        -- On the same day: in its hour, or in another.
        hour := minute / 60;
        IF hour = ANY (line.hours) THEN
          found := (SELECT min(n * direction) * direction FROM unnest(line.minutes) AS n
                    WHERE n * direction > minute % 60 * direction);
        END IF;
        IF found IS NULL THEN
          found := first_min;
          hour := (SELECT min(n * direction) * direction FROM unnest(line.hours) AS n
                   WHERE n * direction > hour * direction);
        END IF;
        IF hour IS NOT NULL THEN
          RETURN month + (day - 1) + make_interval(hours => hour, mins => found);
        END IF;
      END IF;
      day := day + direction;
      weekday := (weekday + direction + 7) % 7;
    END LOOP;
  END LOOP;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.cron_step(courier.cron, timestamp, integer)
  IS 'The next (1) or previous (-1) time of the clock that a line of cron fits';

-- By how much the clock of a time zone changes within a day of a moment, in either direction.
CREATE FUNCTION courier.clock_change(time_zone text, moment timestamptz) RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(change, -change)
  FROM (SELECT (moment + interval '24 hours') AT TIME ZONE time_zone - (moment - interval '24 hours') AT TIME ZONE time_zone
               - interval '48 hours' AS change) AS clock
$$;
COMMENT ON FUNCTION courier.clock_change(text, timestamptz)
  IS 'By how much the clock of a time zone changes within a day of a moment';

-- The first tick of a line of cron after a moment (direction 1), or the last one at or before it (-1).
--
-- Each time of the clock that the line fits is one moment, as for `at` (0003_schedule.sql): so what the clock skips
-- comes once, after the skip, and what comes twice comes the second time. But a line for every hour also ticks in the
-- first of two equal hours, so that its ticks are an hour apart at most.
-- Where the clock changes, moments do not come in the order of the times of the clock. So the search begins earlier
-- by the change, and goes on for as long once it has found a tick.
CREATE FUNCTION courier.cron_tick(line courier.cron, time_zone text, moment timestamptz, direction integer) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  change interval  := courier.clock_change(time_zone, moment);
  wall   timestamp := date_trunc('minute', moment AT TIME ZONE time_zone);
  tick   timestamptz;
  best   timestamptz;
  stop   timestamp;
BEGIN
  wall := CASE direction WHEN 1 THEN wall - change ELSE wall + change + interval '1 minute' END;
  LOOP
    wall := courier.cron_step(line, wall, direction);
    EXIT WHEN wall IS NULL;
    tick := wall AT TIME ZONE time_zone;
    change := courier.clock_change(time_zone, tick);
    FOR i IN 1 .. CASE WHEN change > '0' AND cardinality(line.hours) = 24 THEN 2 ELSE 1 END LOOP
      IF i = 2 THEN
        tick := tick - change;
        CONTINUE WHEN tick AT TIME ZONE time_zone <> wall;
      END IF;
      IF direction = 1 AND tick > moment AND (tick < best) IS NOT FALSE
         OR direction = -1 AND tick <= moment AND (tick > best) IS NOT FALSE THEN
        best := tick;
        stop := coalesce(stop, wall + direction * change);
      END IF;
    END LOOP;
    EXIT WHEN (stop - wall) * direction <= interval '0';
  END LOOP;
  RETURN best;
END
$$;
COMMENT ON FUNCTION courier.cron_tick(courier.cron, text, timestamptz, integer)
  IS 'The first tick of a line of cron after a moment (1), or the last one until it (-1)';

-- The last tick at or before a moment, and the first one after it; none is after `until`.
--
-- For every and at: 0003_schedule.sql, where this function began.
CREATE OR REPLACE FUNCTION courier.ticks_around(
  s courier.schedule, moment timestamptz, OUT last_tick timestamptz, OUT next_tick timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dates  interval;
  rest   interval;
  around timestamptz;
  n      bigint;
BEGIN
  IF s.every < '1 day' AND s.starting <= moment AND s.until IS NULL THEN -- what is asked for most
    last_tick := date_bin(s.every, moment, s.starting);
    next_tick := last_tick + s.every;
    RETURN;
  END IF;
  moment := least(moment, s.until);
  around := greatest(moment, s.starting);
  dates := date_trunc('day', s.every); -- its months and days
  rest := s.every - dates;
  IF s.cron IS NOT NULL THEN
    next_tick := courier.cron_tick(s.cron_sets, s.time_zone, greatest(moment, s.starting - interval '1 microsecond'), 1);
    IF s.starting <= moment THEN
      last_tick := courier.cron_tick(s.cron_sets, s.time_zone, moment, -1);
      last_tick := CASE WHEN last_tick >= s.starting THEN last_tick END;
    END IF;
  ELSIF s.at IS NOT NULL THEN
    SELECT max(tick) FILTER (WHERE tick <= moment), min(tick) FILTER (WHERE tick > moment)
      INTO last_tick, next_tick
      FROM generate_series(-8, 8) AS k,
           LATERAL (SELECT (around AT TIME ZONE s.time_zone)::date + k AS date) AS calendar,
           LATERAL (SELECT (date + s.at) AT TIME ZONE s.time_zone AS tick) AS clock
      WHERE tick >= s.starting
        AND (s.days IS NULL OR to_char(date, 'dy') = ANY (s.days));
  ELSIF dates = '0' THEN
    n := floor(extract(epoch FROM around - s.starting) / extract(epoch FROM rest));
    last_tick := CASE WHEN s.starting <= moment THEN s.starting + n * rest END;
    next_tick := CASE WHEN s.starting <= moment THEN s.starting + (n + 1) * rest ELSE s.starting END;
  END IF;
  -- For every: always so, unless n * rest is so large, centuries, that it is rounded.
  IF s.every IS NOT NULL AND (next_tick > moment AND (last_tick <= moment) IS NOT FALSE) IS NOT TRUE THEN
    -- By the average length of a month, so only about right: by a day or two, which is less than
    -- three ticks if there are dates in it, and exact if there are none.
    n := floor(extract(epoch FROM around - s.starting)
               / (extract(year FROM s.every) * 31556952 + extract(month FROM s.every) * 2629746
                  + extract(day FROM s.every) * 86400 + extract(epoch FROM rest)));
    SELECT max(tick) FILTER (WHERE tick <= moment), min(tick) FILTER (WHERE tick > moment)
      INTO last_tick, next_tick
      FROM generate_series(greatest(n - 3, 0), n + 3) AS k,
           LATERAL (SELECT CASE WHEN dates = '0' THEN s.starting
                           ELSE (s.starting AT TIME ZONE s.time_zone + k * dates) AT TIME ZONE s.time_zone
                           END + k * rest AS tick) AS clock;
  END IF;
  IF next_tick > s.until THEN
    next_tick := NULL;
  END IF;
END
$$;
COMMENT ON FUNCTION courier.ticks_around(courier.schedule, timestamptz)
  IS 'The last tick of a schedule at or before a moment, and the first one after it; NULL: there is none';

-- By how much the event of a tick comes later: the same each time it is asked, less than the jitter, in milliseconds.
CREATE FUNCTION courier.tick_delay(id uuid, tick timestamptz, jitter interval) RETURNS interval
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
  SELECT make_interval(secs => trunc(
    extract(epoch FROM jitter)
    * (uuid_hash_extended(id, (extract(epoch FROM tick) * 1000)::bigint) & 1048575) / 1048576, 3)::double precision)
$$;
COMMENT ON FUNCTION courier.tick_delay(uuid, timestamptz, interval)
  IS 'By how much the event of a tick comes later than the tick';

-- The least that two ticks of a schedule are apart on the clock.
CREATE FUNCTION courier.least_distance(s courier.schedule) RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN s.at IS NOT NULL THEN interval '23 hours' -- the clock may be put forward
    WHEN s.every < '1 day' THEN s.every
    WHEN s.every IS NOT NULL THEN
      make_interval(hours => 24 * (28 * (extract(year FROM s.every) * 12 + extract(month FROM s.every))
                                   + extract(day FROM s.every))::integer)
      + (s.every - date_trunc('day', s.every)) - CASE WHEN date_trunc('day', s.every) > '0' THEN interval '1 hour' ELSE '0' END
    ELSE (SELECT make_interval(mins => least(23 * 60,
                   (SELECT min(m - before) FROM (SELECT m, lag(m) OVER (ORDER BY m) AS before
                                                 FROM unnest((s.cron_sets).minutes) AS m) AS of_hour),
                   (SELECT min(h - before) FROM (SELECT h, lag(h) OVER (ORDER BY h) AS before
                                                 FROM unnest((s.cron_sets).hours || (s.cron_sets).hours[1] + 24) AS h) AS of_day)
                   * 60 - (SELECT max(m) - min(m) FROM unnest((s.cron_sets).minutes) AS m))))
  END
$$;
COMMENT ON FUNCTION courier.least_distance(courier.schedule) IS 'The least that two ticks of a schedule are apart';

-- Makes a recurring event, or replaces the one of that name. Returns its next tick, infinity if there is none. From the
-- commit on, a running relay publishes one event for each tick; while none runs, ticks are kept.
--
--   SELECT courier.schedule('heartbeat', 'ops.heartbeat', '{}', every => '1 minute');
--   SELECT courier.schedule('report', 'reports.daily', '{"for": "sales"}',
--                           at => '06:30', time_zone => 'Europe/Berlin', days => '{mon,fri}');
--   SELECT courier.schedule('close', 'books.close', '{"at": "{{scheduled_for}}"}',
--                           cron => '0 18 * * friL', time_zone => 'Europe/Berlin', overlap => 'queue');
--
-- When: exactly one of
--   every      an interval from a second to 1000 years. The ticks are at starting + n * every and never
--              drift; months and days are counted in time_zone
--   at         a time of day in time_zone, also across changes of its clock: a time that is skipped
--              comes once, when the clock has moved on; one that comes twice comes the second time
--   cron       a line of five fields, on the clock of time_zone, with the same rules as at: minute (0-59), hour (0-23),
--              day of month (1-31), month (1-12 or jan-dec), day of week (0-7 or sun-sat; 0 and 7 are sunday).
--              A field is a list, separated by commas, of: * or ? (all), 5, 1-5, */15, 1-30/2, 5/15 (5 to the end).
--              In the day of month also L, the last one, and L-3, three before; in the day of week also friL, the
--              last friday of the month, and fri#2, the second. If neither field of days begins with * or ?, a
--              day that fits one of them is enough, else it must fit both, as in Vixie's cron.
--              If the hour is *, it also ticks in the first of two equal hours. Or one of @hourly, @daily,
--              @midnight, @weekly, @monthly, @yearly and @annually
--
-- And:
--   time_zone  a name of pg_timezone_names
--   days       with at: only on these days of the week, of mon, tue, wed, thu, fri, sat, sun
--   starting   no tick before; by default now, so that the first `every` has to pass first
--   until      no tick after
--   times      so many events, then it ends; its row stays
--   jitter     an event comes later than its tick by a delay from 0 to less than this, which is a hash of the
--              schedule and the tick. It must be smaller than the least distance of two ticks
--   missed     after a stop of all relays, or if the clock jumps: 'one' event for all the ticks
--              that were missed, the last of them, or 'all' of them, without jitter
--   overlap    while the last event is not delivered at each sink and receiver that takes it, nor a dead letter:
--              'allow' the next tick, 'skip' it, or 'queue' it until then; ticks that come meanwhile are missed ones
--   the rest   as of courier.publish(); headers get "schedule", the name, and "scheduled_for", the
--              time of the tick. In the strings of a payload (not in names), {{scheduled_for}} becomes that
--              time and {{tick}} the number of the event, from 1; \u007b{tick}} stays what it is
--
-- Replacing keeps the next tick if every, at, cron, days, time_zone and starting (or none is given) are
-- what they were: it may be called at each start of an application. It also keeps the pause.
--
-- Errors: check_violation with the name of the broken rule, invalid_parameter_value with a hint.
DROP FUNCTION courier.schedule(
  text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[]);
CREATE FUNCTION courier.schedule(
  name      text,
  topic     text,
  payload   json        DEFAULT NULL,
  every     interval    DEFAULT NULL,
  at        time        DEFAULT NULL,
  time_zone text        DEFAULT 'UTC',
  key       text        DEFAULT NULL,
  type      text        DEFAULT NULL,
  headers   jsonb       DEFAULT NULL,
  data      bytea       DEFAULT NULL,
  missed    text        DEFAULT 'one',
  starting  timestamptz DEFAULT NULL,
  days      text[]      DEFAULT NULL,
  cron      text        DEFAULT NULL,
  jitter    interval    DEFAULT NULL,
  until     timestamptz DEFAULT NULL,
  times     integer     DEFAULT NULL,
  overlap   text        DEFAULT 'allow'
) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made courier.schedule;
  old  courier.schedule;
BEGIN
  IF num_nonnulls(every, at, cron) <> 1 THEN
    RAISE EXCEPTION 'schedule %: give one of every, at and cron', quote_nullable(name)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'every => ''5 minutes'', or at => ''06:30'', or cron => ''*/15 9-17 * * mon-fri'', time_zone => ''Europe/Berlin''';
  ELSIF least(extract(year FROM every), extract(month FROM every), extract(day FROM every),
              extract(epoch FROM every - date_trunc('day', every))) < 0
        OR every NOT BETWEEN '1 second' AND '1000 years' THEN
    RAISE EXCEPTION 'schedule %: every is %, which is not between 1 second and 1000 years',
        quote_nullable(name), every
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it like ''90 seconds'' or ''1 month''';
  ELSIF days = '{}' OR NOT days <@ '{mon,tue,wed,thu,fri,sat,sun}' THEN
    RAISE EXCEPTION 'schedule %: days are %, which are not days of the week', quote_nullable(name), days
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write them like ''{mon,tue,wed,thu,fri,sat,sun}''';
  ELSIF starting NOT BETWEEN '0001-01-01 00:00Z' AND '9999-01-01 00:00Z' THEN
    RAISE EXCEPTION 'schedule %: starting is %, which is not in the years 1 to 9998', quote_nullable(name), starting
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out to start now';
  ELSIF until NOT BETWEEN '0001-01-01 00:00Z' AND '9999-01-01 00:00Z' THEN
    RAISE EXCEPTION 'schedule %: until is %, which is not in the years 1 to 9998', quote_nullable(name), until
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out, and it does not end';
  ELSIF times < 1 THEN
    RAISE EXCEPTION 'schedule %: times is %, which is less than 1', quote_nullable(name), times
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out, and it does not end';
  ELSIF missed IS NULL OR missed NOT IN ('one', 'all') THEN
    RAISE EXCEPTION 'schedule %: missed is %, neither one nor all', quote_nullable(name), quote_nullable(missed)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'After a stop ''one'' publishes the last tick that was missed, ''all'' each of them';
  ELSIF overlap IS NULL OR overlap NOT IN ('allow', 'skip', 'queue') THEN
    RAISE EXCEPTION 'schedule %: overlap is %, not allow, skip or queue', quote_nullable(name), quote_nullable(overlap)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'While the last event is not delivered, ''allow'' publishes the next, ''skip'' leaves it out, ''queue'' waits';
  END IF;
  made.time_zone := courier.time_zone_name(time_zone);
  IF made.time_zone IS NULL THEN
    RAISE EXCEPTION 'schedule %: there is no time zone %', quote_nullable(name), quote_nullable(time_zone)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Use a name of pg_timezone_names, like Europe/Berlin. Abbreviations and offsets do not know when clocks change.';
  END IF;

  made.name := name;
  made.id := gen_random_uuid();
  made.every := every;
  made.at := at;
  made.cron := cron;
  made.days := days;
  made.jitter := nullif(jitter, '0');
  made.until := until;
  made.times := times;
  made.missed := missed;
  made.overlap := overlap;
  made.topic := topic;
  made.key := key;
  made.type := type;
  made.payload := payload;
  made.data := data;
  made.headers := headers;
  made.is_template := coalesce(strpos(payload::text, '{{') > 0, false);
  made.created_at := clock_timestamp();
  made.ticks := 0;
  made.skipped := 0;
  IF cron IS NOT NULL THEN
    made.cron_sets := courier.parse_cron(name, cron);
  END IF;
  IF jitter IS NOT NULL AND jitter NOT BETWEEN '0' AND courier.least_distance(made) - interval '1 millisecond' THEN
    RAISE EXCEPTION 'schedule %: jitter is %, which is not from 0 to less than the least distance of its ticks, %',
        quote_nullable(name), jitter, courier.least_distance(made)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'The event of a tick has to come before the next tick';
  END IF;

  -- '1 day' = '24 hours' to PostgreSQL, but not when the clocks change: compared as they are written.
  SELECT * INTO old FROM courier.schedule AS s WHERE s.name = schedule.name FOR UPDATE;
  IF FOUND THEN
    made.id := old.id;
    made.paused_at := old.paused_at;
  END IF;
  IF (old.every::text, old.at, old.cron, old.days, old.time_zone)
     IS NOT DISTINCT FROM (every::text, at, cron, days, made.time_zone)
     AND coalesce(starting, old.starting) = old.starting THEN
    made.starting := old.starting;
    made.ticks := old.ticks;
    made.skipped := old.skipped;
    made.next_at := old.next_at;
    IF old.next_at = 'infinity' OR old.next_at > until THEN -- it has ended, or does now, or goes on after all
      made.next_at := (courier.ticks_around(made, clock_timestamp())).next_tick;
    END IF;
  ELSE
    made.starting := coalesce(starting, date_trunc('second', now()));
    made.next_at := (courier.ticks_around(made, clock_timestamp())).next_tick;
  END IF;
  made.next_at := CASE WHEN made.ticks >= times THEN 'infinity' ELSE coalesce(made.next_at, 'infinity') END;
  made.held_until := CASE WHEN made.paused_at IS NOT NULL THEN 'infinity'
                          WHEN made.next_at < 'infinity'
                            THEN made.next_at + courier.tick_delay(made.id, made.next_at, made.jitter) END;

  INSERT INTO courier.schedule SELECT made.*
    ON CONFLICT ON CONSTRAINT schedule_pkey DO UPDATE SET
      every = excluded.every, at = excluded.at, cron = excluded.cron, cron_sets = excluded.cron_sets,
      days = excluded.days, time_zone = excluded.time_zone, starting = excluded.starting,
      until = excluded.until, times = excluded.times, jitter = excluded.jitter,
      missed = excluded.missed, overlap = excluded.overlap,
      topic = excluded.topic, key = excluded.key, type = excluded.type,
      payload = excluded.payload, data = excluded.data, headers = excluded.headers, is_template = excluded.is_template,
      ticks = excluded.ticks, skipped = excluded.skipped,
      next_at = excluded.next_at, held_until = excluded.held_until, retry_at = NULL, last_error = NULL;
  RETURN made.next_at;
END
$$;
COMMENT ON FUNCTION courier.schedule(
  text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[],
  text, interval, timestamptz, integer, text)
  IS 'Makes or replaces a recurring event; returns its next tick';

-- Stops the ticks of a recurring event; false if there is none of that name. What it has published stays.
CREATE FUNCTION courier.pause_schedule(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE courier.schedule AS s
    SET paused_at = coalesce(s.paused_at, clock_timestamp()), held_until = 'infinity'
    WHERE s.name = pause_schedule.name;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION courier.pause_schedule(text)
  IS 'Stops the ticks of a recurring event; false if there is none of that name';

-- Lets a paused recurring event tick again; false if there is none of that name. The ticks of the pause are left out,
-- whatever `missed` says.
CREATE FUNCTION courier.resume_schedule(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s courier.schedule;
BEGIN
  SELECT * INTO s FROM courier.schedule AS of WHERE of.name = resume_schedule.name FOR UPDATE;
  IF s.paused_at IS NOT NULL THEN
    IF s.next_at < 'infinity' THEN
      s.next_at := coalesce((courier.ticks_around(s, clock_timestamp())).next_tick, 'infinity');
    END IF;
    UPDATE courier.schedule AS of
      SET paused_at = NULL, next_at = s.next_at,
          held_until = CASE WHEN s.next_at < 'infinity'
                         THEN s.next_at + courier.tick_delay(s.id, s.next_at, s.jitter) END,
          retry_at = NULL, last_error = NULL
      WHERE of.name = s.name;
  END IF;
  RETURN s.name IS NOT NULL;
END
$$;
COMMENT ON FUNCTION courier.resume_schedule(text)
  IS 'Lets a paused recurring event tick again; false if there is none of that name';

CREATE FUNCTION courier.scheduled_for(tick timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN pg_catalog.date_trunc('second', tick) = tick
           THEN pg_catalog.to_char(tick AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
           ELSE pg_catalog.rtrim(pg_catalog.to_char(tick AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0') || 'Z' END
$$;
COMMENT ON FUNCTION courier.scheduled_for(timestamptz) IS 'The time of a tick, as its event shows it';

-- The payload of a tick. The text stays as it was written but for {{scheduled_for}} and {{tick}} in strings that are
-- values. What comes in their place has no character that JSON would escape.
CREATE FUNCTION courier.fill_template(payload json, scheduled_for text, tick bigint) RETURNS json
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(
    CASE WHEN piece[1] ~ '"$' THEN
      replace(replace(piece[1], '{{scheduled_for}}', scheduled_for), '{{tick}}', tick::text)
    ELSE piece[1] END, '' ORDER BY n)::json
  FROM regexp_matches(payload::text, '("(?:[^"\\]|\\.)*"\s*:?|[^"]+)', 'g') WITH ORDINALITY AS found (piece, n)
$$;
COMMENT ON FUNCTION courier.fill_template(json, text, bigint)
  IS 'A payload with the time and the number of a tick in its strings';

-- Publishes the event of a schedule now, besides its ticks, also while it is paused. Returns its event_id; NULL if
-- there is no schedule of that name. The header "scheduled_for" is the time of the call, and "run_by_hand" is "true";
-- {{tick}} is the number of the last tick.
CREATE FUNCTION courier.run_schedule(name text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s      courier.schedule;
  moment text := courier.scheduled_for(clock_timestamp());
BEGIN
  SELECT * INTO s FROM courier.schedule AS of WHERE of.name = run_schedule.name FOR UPDATE;
  IF FOUND THEN
    INSERT INTO courier.outbox (topic, key, type, payload, data, headers)
      VALUES (s.topic, s.key, s.type,
              CASE WHEN s.is_template THEN courier.fill_template(s.payload, moment, s.ticks) ELSE s.payload END, s.data,
              coalesce(s.headers, '{}')
                || jsonb_build_object('schedule', s.name, 'scheduled_for', moment, 'run_by_hand', 'true'))
      RETURNING id, event_id INTO s.last_outbox_id, s.last_event_id;
    UPDATE courier.schedule AS of SET last_outbox_id = s.last_outbox_id, last_event_id = s.last_event_id
      WHERE of.name = s.name;
    RETURN s.last_event_id;
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.run_schedule(text)
  IS 'Publishes the event of a schedule now; returns its event_id, NULL if there is no schedule of that name';

-- Whether an event is still to be delivered somewhere: it is parked, or a lane that takes it has not passed it. This is
-- what courier.trace() calls waiting or retrying; the trace says why, and takes a hundred times as long.
CREATE FUNCTION courier.is_open(outbox_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
  event courier.outbox;
BEGIN
  SELECT * INTO event FROM courier.outbox AS o WHERE o.id = is_open.outbox_id;
  IF NOT FOUND THEN
    RETURN false; -- there is none, or the outbox does not have it any more
  ELSIF EXISTS (SELECT FROM courier.parked AS p
                WHERE (p.sink, p.lane) IN (SELECT c.sink, c.lane FROM courier.cursor AS c) AND p.outbox_id = event.id) THEN
    RETURN true;
  END IF;
  RETURN EXISTS (
    WITH behind AS MATERIALIZED ( -- mostly there is none, so this comes first
      SELECT c.sink, c.lane FROM courier.cursor AS c
      WHERE NOT c.is_owner_lane
        AND NOT courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, event.id, event.txid)
      UNION ALL
      SELECT never.sink, never.lane
      FROM (SELECT r.sink, r.id AS lane FROM courier.receiver AS r
            UNION ALL
            SELECT s.name, courier.shard_lane(courier.shard_of(event.key, s.shards, event.id), s.shards)
            FROM courier.sink AS s WHERE NOT s.fans_out) AS never
      WHERE NOT EXISTS (SELECT FROM courier.cursor AS c WHERE c.sink = never.sink AND c.lane = never.lane)
    ), open AS (
      SELECT DISTINCT s.topics, s.types, s.settings -> 'match_headers' AS headers, s.fans_out,
             r.topics AS lane_topics, r.types AS lane_types
      FROM behind
      JOIN courier.sink AS s ON s.name = behind.sink
      LEFT JOIN courier.receiver AS r ON r.id = behind.lane AND r.sink = behind.sink
      WHERE CASE WHEN s.fans_out
              -- Mostly it does not even begin so, which is told sooner than by a regular expression.
              THEN EXISTS (SELECT FROM unnest(r.topics) AS pattern
                           WHERE starts_with(event.topic, split_part(pattern, '*', 1)))
                   AND (r.start = 'now' AND pg_visible_in_snapshot(event.txid, r.start_snapshot)) IS NOT TRUE
              ELSE behind.lane = courier.shard_lane(courier.shard_of(event.key, s.shards, event.id), s.shards)
                   AND NOT courier.had_passed(s.name, event.key, event.id, event.txid)
            END
    )
    SELECT FROM open
    WHERE (headers IS NULL OR courier.headers_match(event.headers, headers))
      AND (courier.patterns_take(topics, types, false, ARRAY[event.topic], ARRAY[event.type]))[1]
      AND (NOT fans_out OR (courier.patterns_take(lane_topics, lane_types, true, ARRAY[event.topic], ARRAY[event.type]))[1]));
END
$$;
COMMENT ON FUNCTION courier.is_open(bigint) IS 'Whether an event is still to be delivered somewhere';

-- As before (0003_schedule.sql), in a form that the planner inlines: a third of the time of a tick was its call.
CREATE OR REPLACE FUNCTION courier.named_uuid(of bytea) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT pg_catalog.encode(pg_catalog.set_byte(pg_catalog.set_byte(pg_catalog.substr(pg_catalog.sha256(of), 1, 16),
    6, pg_catalog.get_byte(pg_catalog.sha256(of), 6) & 15 | 128), 8, pg_catalog.get_byte(pg_catalog.sha256(of), 8) & 63 | 128),
    'hex')::pg_catalog.uuid
$$;

-- Publishes the event of one tick each of the schedules that are due at a moment, and steps to their next
-- ticks: of those that have waited longest, or of one of them. Returns how many. Schedules that another
-- session has locked are left to it.
--
-- One statement for all of them: one for each takes several times as long. The event_id is made from the
-- schedule and the time of the tick, so that a tick that was lost in a server crash comes again with the same
-- event_id. What `overlap` forbids is left out or held; a held tick is looked at after a quarter of the time that it
-- has waited, after a second at least and a minute at most.
CREATE OR REPLACE FUNCTION courier.publish_ticks(moment timestamptz, at_most integer, only_name text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n_ticked integer;
BEGIN
  WITH due AS (
    SELECT s.name, s.id, s.missed, s.overlap, s.times, s.ticks, s.last_outbox_id, s.next_at, s.is_template,
           s.topic, s.key, s.type, s.payload, s.data, s.headers, s AS whole
    FROM courier.schedule AS s
    WHERE greatest(s.next_at, s.held_until, s.retry_at) <= moment AND (only_name IS NULL OR s.name = only_name)
    ORDER BY greatest(s.next_at, s.held_until, s.retry_at) LIMIT at_most FOR UPDATE SKIP LOCKED
  ), ticking AS MATERIALIZED (
    SELECT due.*, its.tick, courier.named_uuid(uuid_send(id) || timestamptz_send(its.tick)) AS event_id, judged.is_open,
           CASE WHEN NOT is_open AND ticks + 1 >= times THEN 'infinity' ELSE coalesce(around.next_tick, 'infinity') END AS then_at
    FROM due,
         courier.ticks_around(due.whole, CASE missed WHEN 'all' THEN next_at ELSE moment END) AS around,
         LATERAL (SELECT greatest(next_at, around.last_tick) AS tick) AS its,
         LATERAL (SELECT CASE WHEN overlap = 'allow' OR last_outbox_id IS NULL THEN false
                              ELSE courier.is_open(last_outbox_id) END AS is_open OFFSET 0) AS judged
  ), published AS (
    INSERT INTO courier.outbox (event_id, topic, key, type, payload, data, headers)
    SELECT event_id, topic, key, type,
           CASE WHEN is_template THEN courier.fill_template(payload, courier.scheduled_for(tick), ticks + 1) ELSE payload END,
           data, coalesce(headers, '{}') || jsonb_build_object('schedule', name, 'scheduled_for', courier.scheduled_for(tick))
    FROM ticking WHERE NOT is_open ORDER BY tick
    RETURNING id, event_id
  )
  UPDATE courier.schedule AS s
    SET next_at = CASE WHEN is_open AND s.overlap = 'queue' THEN s.next_at ELSE then_at END,
        held_until = CASE WHEN is_open AND s.overlap = 'queue'
                            THEN moment + least(greatest((moment - s.next_at) / 4, interval '1 second'), interval '1 minute')
                          WHEN s.jitter IS NOT NULL AND then_at < 'infinity'
                            THEN then_at + courier.tick_delay(s.id, then_at, s.jitter) END,
        last_at = CASE WHEN is_open THEN s.last_at ELSE tick END,
        ticks = s.ticks + CASE WHEN is_open THEN 0 ELSE 1 END,
        skipped = s.skipped + CASE WHEN is_open AND s.overlap = 'skip' THEN 1 ELSE 0 END,
        last_outbox_id = coalesce(done.id, s.last_outbox_id),
        last_event_id = CASE WHEN is_open THEN s.last_event_id ELSE done.event_id END,
        retry_at = NULL, last_error = NULL
    -- A full join cannot be a nested loop, which the planner would choose for what it takes for a few rows.
    FROM (SELECT ticking.name, tick, then_at, is_open, event_id, published.id
          FROM ticking FULL JOIN published USING (event_id) OFFSET 0) AS done
    WHERE s.name = done.name;
  GET DIAGNOSTICS n_ticked = ROW_COUNT;
  IF n_ticked > 0 THEN
    -- An event may be delivered as soon as it is committed: it must not be gone after a crash.
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  RETURN n_ticked;
END
$$;
COMMENT ON FUNCTION courier.publish_ticks(timestamptz, integer, text)
  IS 'Publishes the events of one tick each of the schedules that are due';

-- Publishes what is due, and returns the milliseconds until more will be; NULL: never. For the
-- relay; any number of sessions may call it at the same time.
--
-- A tick's event and the step to the next tick are one transaction, under the lock of the schedule's
-- row: so each tick is published exactly once. A call publishes 100 events at most, so that the relay's
-- other statements need not wait long; the rest is due again at once.
-- A schedule whose tick fails is tried again a minute later, and does not keep the
-- others from their ticks: if the statement for all fails, each gets one of its own.
CREATE OR REPLACE FUNCTION courier.tick() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moment   timestamptz := clock_timestamp();
  n_left   integer := 100;
  n_ticked integer;
  due_name text;
  next     timestamptz;
BEGIN
  LOOP
    SELECT min(greatest(s.next_at, s.held_until, s.retry_at)) INTO next FROM courier.schedule AS s;
    EXIT WHEN next IS NULL OR next > moment OR n_left = 0 OR n_ticked = 0;
    BEGIN
      n_ticked := courier.publish_ticks(moment, n_left);
    EXCEPTION WHEN OTHERS THEN
      n_ticked := 0;
      FOR due_name IN
        SELECT s.name FROM courier.schedule AS s WHERE greatest(s.next_at, s.held_until, s.retry_at) <= moment
        ORDER BY greatest(s.next_at, s.held_until, s.retry_at) LIMIT n_left FOR UPDATE SKIP LOCKED
      LOOP
        n_ticked := n_ticked + 1;
        BEGIN
          PERFORM courier.publish_ticks(moment, 1, due_name);
        EXCEPTION WHEN OTHERS THEN
          RAISE WARNING 'schedule %: its tick cannot be published: %', quote_literal(due_name), SQLERRM;
          UPDATE courier.schedule AS s
            SET retry_at = moment + interval '1 minute', last_error = left(SQLERRM, 1000) WHERE s.name = due_name;
        END;
      END LOOP;
    END;
    n_left := n_left - n_ticked;
  END LOOP;

  RETURN CASE
    WHEN next IS NULL OR next = 'infinity' THEN NULL
    -- Another session publishes or changes it: its turn comes only if that session rolls back.
    WHEN next <= moment AND n_left > 0 THEN 1000
    ELSE greatest(ceil(extract(epoch FROM next - clock_timestamp()) * 1000), 0)
  END;
END
$$;
COMMENT ON FUNCTION courier.tick()
  IS 'For the relay: publishes the events of all ticks that are due; returns milliseconds until the next';

-- The next ticks of a schedule, and when their events come: later by the jitter. None if it is paused or has ended.
CREATE FUNCTION courier.next_ticks(name text, at_most integer DEFAULT 10) RETURNS TABLE (tick timestamptz, due_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s courier.schedule;
BEGIN
  SELECT * INTO s FROM courier.schedule AS of WHERE of.name = next_ticks.name;
  tick := s.next_at;
  FOR i IN 1 .. least(at_most, s.times - s.ticks, 10000) LOOP
    EXIT WHEN s.paused_at IS NOT NULL OR tick IS NULL OR tick = 'infinity';
    due_at := tick + coalesce(courier.tick_delay(s.id, tick, s.jitter), '0');
    RETURN NEXT;
    tick := (courier.ticks_around(s, tick)).next_tick;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.next_ticks(text, integer) IS 'The next ticks of a schedule, and when their events come';

-- What a schedule has published, as long as the outbox keeps it. INSERTs of events without headers only find out that
-- they have none. A name has at most 255 bytes; an event may have any header.
CREATE INDEX outbox_schedule_idx ON courier.outbox (left(headers ->> 'schedule', 255), id) WHERE headers ? 'schedule';

-- The last events of a schedule, the newest first, with a row for each sink and receiver that takes it, as of
-- courier.trace(); one with sink NULL if none does.
CREATE FUNCTION courier.schedule_history(name text, at_most integer DEFAULT 10)
RETURNS TABLE (scheduled_for timestamptz, created_at timestamptz, event_id uuid, outbox_id bigint, run_by_hand boolean,
               sink text, receiver text, state text, reason text, at timestamptz, attempts integer, next_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (event.headers ->> 'scheduled_for')::timestamptz, event.created_at, event.event_id, event.id,
         event.headers ? 'run_by_hand',
         way.sink, way.receiver, way.state, way.reason, way.at, way.attempts, way.next_at
  FROM (SELECT o.id, o.event_id, o.created_at, o.headers FROM courier.outbox AS o
        WHERE o.headers ? 'schedule' AND left(o.headers ->> 'schedule', 255) = schedule_history.name
        ORDER BY left(o.headers ->> 'schedule', 255) DESC, o.id DESC LIMIT at_most) AS event
  LEFT JOIN LATERAL courier.trace(event.id) AS way ON way.state <> 'not_taken'
  ORDER BY event.id DESC, way.sink, way.lane
$$;
COMMENT ON FUNCTION courier.schedule_history(text, integer)
  IS 'The last events of a schedule, and what became of them at each sink and receiver';

-- When a schedule ticks, in words: "every 5 mins", "at 06:30 mon,fri Europe/Berlin", "cron */15 * * * *".
CREATE FUNCTION courier.schedule_timing(every interval, at time, days text[], cron text, time_zone text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET intervalstyle = 'postgres_verbose' AS $$
  SELECT CASE WHEN every IS NOT NULL THEN 'every ' || ltrim(every::text, '@ ')
              WHEN at IS NOT NULL THEN 'at ' || regexp_replace(at::text, ':00$', '') || coalesce(' ' || array_to_string(days, ','), '')
              ELSE 'cron ' || cron END
         || CASE WHEN time_zone = 'UTC' THEN '' ELSE ' ' || time_zone END
$$;
COMMENT ON FUNCTION courier.schedule_timing(interval, time, text[], text, text) IS 'When a schedule ticks, in words';

-- The last events of a schedule, the newest first, each with what became of it in one word: delivered (everywhere),
-- open (still to be delivered somewhere) or dead (given up somewhere). For a look every few seconds, however much
-- waits: whether a sink takes such events is asked once for all of them, and filters not at all. Of receivers,
-- which may be thousands, only those count that have given an event up.
CREATE FUNCTION courier.schedule_runs(name text, at_most integer DEFAULT 10)
RETURNS TABLE (outbox_id bigint, event_id uuid, created_at timestamptz, run_by_hand boolean, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
  WITH event AS MATERIALIZED (
    SELECT o.id, o.event_id, o.created_at, o.headers, o.topic, o.type, o.key, o.txid FROM courier.outbox AS o
    WHERE o.headers ? 'schedule' AND left(o.headers ->> 'schedule', 255) = schedule_runs.name
    ORDER BY left(o.headers ->> 'schedule', 255) DESC, o.id DESC LIMIT at_most
  ), taker AS MATERIALIZED (
    SELECT kind.topic, kind.type, s.name, s.shards
    FROM (SELECT DISTINCT e.topic, e.type, e.headers - '{scheduled_for,run_by_hand}'::text[] AS headers FROM event AS e) AS kind,
         courier.sink AS s
    WHERE NOT s.fans_out AND courier.headers_match(kind.headers, coalesce(s.settings -> 'match_headers', '[]'))
      AND (courier.patterns_take(s.topics, s.types, false, ARRAY[kind.topic::text], ARRAY[kind.type::text]))[1]
  )
  SELECT e.id, e.event_id, e.created_at, e.headers ? 'run_by_hand',
         CASE WHEN EXISTS (SELECT FROM courier.dead_letter AS d WHERE d.outbox_id = e.id) THEN 'dead'
              WHEN EXISTS (
                SELECT FROM taker AS t
                LEFT JOIN courier.cursor AS c
                  ON c.sink = t.name AND c.lane = courier.shard_lane(courier.shard_of(e.key, t.shards, e.id), t.shards)
                WHERE t.topic = e.topic AND t.type IS NOT DISTINCT FROM e.type
                  AND (c.sink IS NULL
                       OR EXISTS (SELECT FROM courier.parked AS p
                                  WHERE p.sink = c.sink AND p.lane = c.lane AND p.outbox_id = e.id)
                       OR NOT courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, e.id, e.txid)
                          AND NOT courier.had_passed(t.name, e.key, e.id, e.txid))) THEN 'open'
              ELSE 'delivered' END
  FROM event AS e
$$;
COMMENT ON FUNCTION courier.schedule_runs(text, integer) IS 'The last events of a schedule, and whether they are delivered';

-- Not for what tick() itself updates.
DROP TRIGGER ring_control ON courier.schedule;
CREATE TRIGGER ring_control
  AFTER INSERT OR DELETE OR UPDATE OF every, at, cron, days, time_zone, starting, paused_at ON courier.schedule
  FOR EACH STATEMENT EXECUTE FUNCTION courier.ring_control();

REVOKE ALL ON FUNCTION courier.refuse_cron(text, text, integer, text, text),
  courier.cron_number(text, text, integer, integer, text), courier.cron_field(text, text, integer, integer, text),
  courier.parse_cron(text, text), courier.cron_step(courier.cron, timestamp, integer),
  courier.clock_change(text, timestamptz), courier.cron_tick(courier.cron, text, timestamptz, integer),
  courier.tick_delay(uuid, timestamptz, interval), courier.least_distance(courier.schedule),
  courier.schedule(text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[],
                   text, interval, timestamptz, integer, text),
  courier.pause_schedule(text), courier.resume_schedule(text), courier.run_schedule(text),
  courier.scheduled_for(timestamptz), courier.fill_template(json, text, bigint), courier.is_open(bigint),
  courier.next_ticks(text, integer), courier.schedule_history(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  courier.schedule(text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[],
                   text, interval, timestamptz, integer, text),
  courier.pause_schedule(text), courier.resume_schedule(text), courier.run_schedule(text),
  courier.next_ticks(text, integer) TO courier_publisher;
GRANT SELECT (cron, jitter, until, times, overlap, paused_at, ticks, skipped, last_outbox_id, last_event_id, created_at)
  ON courier.schedule TO courier_publisher;
GRANT EXECUTE ON FUNCTION courier.next_ticks(text, integer), courier.schedule_history(text, integer) TO courier_relay;
-- The live page of a relay pauses schedules and runs them.
REVOKE ALL ON FUNCTION courier.schedule_timing(interval, time, text[], text, text), courier.schedule_runs(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.schedule_timing(interval, time, text[], text, text) TO courier_publisher, courier_relay;
GRANT EXECUTE ON FUNCTION courier.schedule_runs(text, integer),
  courier.pause_schedule(text), courier.resume_schedule(text), courier.run_schedule(text) TO courier_relay;

INSERT INTO courier.schema_version (version, name, serves_from) VALUES (15, 'schedules', 14);

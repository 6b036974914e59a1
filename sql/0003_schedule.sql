-- pgcourier schema, version 3: recurring events.

-- One row for each recurring event; made by courier.schedule(), ticked by courier.tick().
--
-- The rules for an event are those of courier.outbox: a schedule whose events could not be inserted
-- must fail when it is made. Its headers leave room for the two that each tick adds.
CREATE TABLE courier.schedule (
  name       text        NOT NULL,
  id         uuid        NOT NULL DEFAULT gen_random_uuid(),

  every      interval,
  at         time,
  days       text[],
  time_zone  text        NOT NULL,
  starting   timestamptz NOT NULL,
  missed     text        NOT NULL,

  topic      text        NOT NULL,
  key        text,
  type       text,
  payload    json,
  data       bytea,
  headers    jsonb,

  next_at    timestamptz NOT NULL,
  last_at    timestamptz,
  retry_at   timestamptz,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT schedule_pkey PRIMARY KEY (name),
  CONSTRAINT name_must_not_be_empty CHECK (name <> ''),
  CONSTRAINT name_must_be_at_most_255_bytes CHECK (octet_length(name) <= 255),
  CONSTRAINT name_must_not_contain_control_characters CHECK (name !~ '[[:cntrl:]]'),
  CONSTRAINT exactly_one_of_every_and_at CHECK (num_nonnulls(every, at) = 1),
  CONSTRAINT every_must_be_at_least_a_second CHECK (every >= '1 second'),
  CONSTRAINT days_go_with_at CHECK (days IS NULL OR at IS NOT NULL),
  CONSTRAINT days_must_be_mon_tue_wed_thu_fri_sat_or_sun
    CHECK (days <> '{}' AND days <@ '{mon,tue,wed,thu,fri,sat,sun}'),
  CONSTRAINT starting_must_be_finite CHECK (isfinite(starting)),
  CONSTRAINT missed_must_be_one_or_all CHECK (missed IN ('one', 'all')),

  CONSTRAINT topic_must_not_be_empty CHECK (topic <> ''),
  CONSTRAINT topic_must_be_at_most_255_bytes CHECK (octet_length(topic) <= 255),
  CONSTRAINT topic_must_not_contain_control_characters CHECK (topic !~ '[[:cntrl:]]'),
  CONSTRAINT key_must_be_null_rather_than_empty CHECK (key <> ''),
  CONSTRAINT key_must_be_at_most_1024_bytes CHECK (octet_length(key) <= 1024),
  CONSTRAINT type_must_be_null_rather_than_empty CHECK (type <> ''),
  CONSTRAINT type_must_be_at_most_255_bytes CHECK (octet_length(type) <= 255),
  CONSTRAINT exactly_one_of_payload_and_data CHECK ((payload IS NULL) <> (data IS NULL)),
  CONSTRAINT headers_must_be_an_object CHECK (jsonb_typeof(headers) = 'object'),
  -- The concatenation undoes compression: what counts is what a tick inserts.
  CONSTRAINT headers_must_be_at_most_15_kibibytes CHECK (pg_column_size(headers || '{}') <= 15360)
);

-- When the row is to be looked at; greatest() passes over NULL.
CREATE INDEX schedule_due_idx ON courier.schedule (greatest(next_at, retry_at));

COMMENT ON TABLE courier.schedule IS 'Recurring events; see courier.schedule() and courier.unschedule()';
COMMENT ON COLUMN courier.schedule.id IS 'Makes the event_id of a tick, together with the time of the tick';
COMMENT ON COLUMN courier.schedule.every IS 'Ticks at starting + n * every; NULL if at is set';
COMMENT ON COLUMN courier.schedule.at IS 'Ticks at this time of day in time_zone; NULL if every is set';
COMMENT ON COLUMN courier.schedule.days IS 'With at: only on these days of the week; NULL: on all';
COMMENT ON COLUMN courier.schedule.time_zone
  IS 'The time zone of at, and of the days and months in every';
COMMENT ON COLUMN courier.schedule.starting IS 'There is no tick before; every counts from here';
COMMENT ON COLUMN courier.schedule.missed
  IS 'After a stop: one event for all the ticks that were missed, or all of them';
COMMENT ON COLUMN courier.schedule.next_at IS 'The next tick';
COMMENT ON COLUMN courier.schedule.last_at IS 'The tick of the last event; NULL: none yet';
COMMENT ON COLUMN courier.schedule.retry_at IS 'After last_error: when its due ticks are tried again';
COMMENT ON COLUMN courier.schedule.last_error IS 'Why its event could not be inserted; NULL: all is well';

-- The last tick at or before a moment, and the first one after it.
--
-- Nothing is added up from tick to tick, so nothing drifts: a month counted from the 31st ends on
-- the 28th and the next one on the 31st again. Days and months are counted on the clock of the time
-- zone, what is shorter in elapsed time. `at` is one moment for each date: PostgreSQL maps a time
-- of day that the clock skips to one hour later, and of one that comes twice takes the second.
CREATE FUNCTION courier.ticks_around(
  s courier.schedule, moment timestamptz, OUT last_tick timestamptz, OUT next_tick timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dates  interval := date_trunc('day', s.every); -- its months and days
  rest   interval := s.every - date_trunc('day', s.every);
  around timestamptz := greatest(moment, s.starting);
  n      bigint;
BEGIN
  IF s.at IS NOT NULL THEN
    SELECT max(tick) FILTER (WHERE tick <= moment), min(tick) FILTER (WHERE tick > moment)
      INTO last_tick, next_tick
      FROM generate_series(-8, 8) AS k,
           LATERAL (SELECT (around AT TIME ZONE s.time_zone)::date + k AS date) AS calendar,
           LATERAL (SELECT (date + s.at) AT TIME ZONE s.time_zone AS tick) AS clock
      WHERE tick >= s.starting
        AND (s.days IS NULL OR to_char(date, 'dy') = ANY (s.days));
  ELSE
    IF dates = '0' THEN
      n := floor(extract(epoch FROM around - s.starting) / extract(epoch FROM rest));
      last_tick := CASE WHEN s.starting <= moment THEN s.starting + n * rest END;
      next_tick := CASE WHEN s.starting <= moment THEN s.starting + (n + 1) * rest ELSE s.starting END;
      -- Always so, unless n * rest is so large, centuries, that it is rounded.
      IF next_tick > moment AND (last_tick <= moment) IS NOT FALSE THEN
        RETURN;
      END IF;
    END IF;
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
END
$$;
COMMENT ON FUNCTION courier.ticks_around(courier.schedule, timestamptz)
  IS 'The last tick of a schedule at or before a moment, and the first one after it';

-- The name as pg_timezone_names writes it, found in any case; NULL if there is no such zone. That view
-- reads the file of every time zone, which takes up to a third of a second. SET TimeZone reads a single
-- file and knows the zone's name, but accepts POSIX strings and offsets, too. These have a digit and come
-- back without small letters, and so do seven old names, which mean the same as POSIX strings.
CREATE FUNCTION courier.time_zone_name(given text) RETURNS text
LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' AS $$
DECLARE
  found text;
BEGIN
  IF given ~* '^[a-z]' AND given !~* '^(interval|inf|nan)' THEN -- what would be read as a number
    found := set_config('TimeZone', given, true);
    IF found !~ '[0-9]' OR found ~ '[a-z]'
       OR found IN ('EST5EDT', 'CST6CDT', 'MST7MDT', 'PST8PDT', 'GMT0', 'GMT+0', 'GMT-0') THEN
      RETURN found;
    END IF;
  END IF;
  RETURN NULL;
EXCEPTION
  WHEN invalid_parameter_value THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.time_zone_name(text)
  IS 'The name of a time zone as pg_timezone_names writes it; NULL: there is none';

-- Makes a recurring event, or replaces the one of that name. Returns its next tick. From the commit
-- on, a running relay publishes one event for each tick; while none runs, ticks are kept.
--
--   SELECT courier.schedule('heartbeat', 'ops.heartbeat', '{}', every => '1 minute');
--   SELECT courier.schedule('report', 'reports.daily', '{"for": "sales"}',
--                           at => '06:30', time_zone => 'Europe/Berlin', days => '{mon,fri}');
--
--   every      an interval from a second to 1000 years. The ticks are at starting + n * every and never
--              drift; months and days are counted in time_zone. Or:
--   at         a time of day in time_zone, also across changes of its clock: a time that is skipped
--              comes once, when the clock has moved on; one that comes twice comes the second time
--   time_zone  a name of pg_timezone_names
--   days       with at: only on these days of the week, of mon, tue, wed, thu, fri, sat, sun
--   starting   no tick before; by default now, so that the first `every` has to pass first
--   missed     after a stop of all relays, or if the clock jumps: 'one' event for all the ticks
--              that were missed, the last of them, or 'all' of them
--   the rest   as of courier.publish(); headers get "schedule", the name, and "scheduled_for", the
--              time of the tick
--
-- Replacing keeps the next tick if every, at, days, time_zone and starting (or none is given) are
-- what they were: it may be called at each start of an application.
--
-- Errors: check_violation with the name of the broken rule, invalid_parameter_value with a hint.
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
  days      text[]      DEFAULT NULL
) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made courier.schedule;
  old  courier.schedule;
BEGIN
  IF num_nonnulls(every, at) <> 1 THEN
    RAISE EXCEPTION 'schedule %: give either every or at', quote_nullable(name)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'every => ''5 minutes'', or at => ''06:30'', time_zone => ''Europe/Berlin''';
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
  ELSIF missed IS NULL OR missed NOT IN ('one', 'all') THEN
    RAISE EXCEPTION 'schedule %: missed is %, neither one nor all', quote_nullable(name), quote_nullable(missed)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'After a stop ''one'' publishes the last tick that was missed, ''all'' each of them';
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
  made.days := days;
  made.missed := missed;
  made.topic := topic;
  made.key := key;
  made.type := type;
  made.payload := payload;
  made.data := data;
  made.headers := headers;
  made.created_at := clock_timestamp();

  -- '1 day' = '24 hours' to PostgreSQL, but not when the clocks change: compared as they are written.
  SELECT * INTO old FROM courier.schedule AS s WHERE s.name = schedule.name FOR UPDATE;
  IF FOUND AND (old.every::text, old.at, old.days, old.time_zone)
               IS NOT DISTINCT FROM (every::text, at, days, made.time_zone)
     AND coalesce(starting, old.starting) = old.starting THEN
    made.starting := old.starting;
    made.next_at := old.next_at;
  ELSE
    made.starting := coalesce(starting, date_trunc('second', now()));
    made.next_at := (courier.ticks_around(made, clock_timestamp())).next_tick;
  END IF;

  INSERT INTO courier.schedule SELECT made.*
    ON CONFLICT ON CONSTRAINT schedule_pkey DO UPDATE SET
      every = excluded.every, at = excluded.at, days = excluded.days, time_zone = excluded.time_zone,
      starting = excluded.starting, missed = excluded.missed,
      topic = excluded.topic, key = excluded.key, type = excluded.type,
      payload = excluded.payload, data = excluded.data, headers = excluded.headers,
      next_at = excluded.next_at, retry_at = NULL, last_error = NULL;
  RETURN made.next_at;
END
$$;
COMMENT ON FUNCTION courier.schedule(
  text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[])
  IS 'Makes or replaces a recurring event; returns its next tick';

-- Removes a recurring event; false if there is none of that name. Events of ticks that have been
-- published stay.
CREATE FUNCTION courier.unschedule(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM courier.schedule AS s WHERE s.name = unschedule.name;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION courier.unschedule(text)
  IS 'Removes a recurring event; false if there is none of that name';

-- The same UUID for the same bytes: of version 8 (RFC 9562), made of their SHA-256.
CREATE FUNCTION courier.named_uuid(of bytea) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT encode(set_byte(set_byte(id, 6, get_byte(id, 6) & 15 | 128), 8, get_byte(id, 8) & 63 | 128), 'hex')::uuid
  FROM (SELECT substr(sha256(of), 1, 16) AS id) AS hash
$$;
COMMENT ON FUNCTION courier.named_uuid(bytea) IS 'The same UUID for the same bytes';

-- Publishes the event of one tick each of the schedules that are due at a moment, and steps to their next
-- ticks: of those that have waited longest, or of one of them. Returns how many. Schedules that another
-- session has locked are left to it.
--
-- One statement for all of them: one for each takes several times as long. The event_id is made from the
-- schedule and the time of the tick, so that a tick that was lost in a server crash comes again with the same
-- event_id.
CREATE FUNCTION courier.publish_ticks(moment timestamptz, at_most integer, only_name text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n_published integer;
BEGIN
  WITH due AS (
    SELECT s FROM courier.schedule AS s
    WHERE greatest(s.next_at, s.retry_at) <= moment AND (only_name IS NULL OR s.name = only_name)
    ORDER BY greatest(s.next_at, s.retry_at) LIMIT at_most FOR UPDATE SKIP LOCKED
  ), ticking AS (
    SELECT (due.s).*, greatest((due.s).next_at, around.last_tick) AS tick, around.next_tick
    FROM due, courier.ticks_around(due.s, CASE (due.s).missed WHEN 'all' THEN (due.s).next_at ELSE moment END) AS around
  ), published AS (
    INSERT INTO courier.outbox (event_id, topic, key, type, payload, data, headers)
    SELECT courier.named_uuid(uuid_send(id) || timestamptz_send(tick)), topic, key, type, payload, data,
           coalesce(headers, '{}') || jsonb_build_object(
             'schedule', name,
             'scheduled_for', regexp_replace(
               to_char(tick AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '\.?0+$', '') || 'Z')
    FROM ticking ORDER BY tick
  )
  UPDATE courier.schedule AS s
    SET next_at = ticking.next_tick, last_at = ticking.tick, retry_at = NULL, last_error = NULL
    FROM ticking WHERE s.name = ticking.name;
  GET DIAGNOSTICS n_published = ROW_COUNT;
  IF n_published > 0 THEN
    -- An event may be delivered as soon as it is committed: it must not be gone after a crash.
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  RETURN n_published;
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
-- A schedule whose event cannot be inserted is tried again a minute later, and does not keep the
-- others from their ticks: if the statement for all fails, each gets one of its own.
CREATE FUNCTION courier.tick() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moment   timestamptz := clock_timestamp();
  n_left   integer := 100;
  n_ticked integer;
  due_name text;
  next     timestamptz;
BEGIN
  LOOP
    SELECT min(greatest(s.next_at, s.retry_at)) INTO next FROM courier.schedule AS s;
    EXIT WHEN next IS NULL OR next > moment OR n_left = 0 OR n_ticked = 0;
    BEGIN
      n_ticked := courier.publish_ticks(moment, n_left);
    EXCEPTION WHEN OTHERS THEN
      n_ticked := 0;
      FOR due_name IN
        SELECT s.name FROM courier.schedule AS s WHERE greatest(s.next_at, s.retry_at) <= moment
        ORDER BY greatest(s.next_at, s.retry_at) LIMIT n_left FOR UPDATE SKIP LOCKED
      LOOP
        n_ticked := n_ticked + 1;
        BEGIN
          PERFORM courier.publish_ticks(moment, 1, due_name);
        EXCEPTION WHEN OTHERS THEN
          RAISE WARNING 'schedule %: its event cannot be inserted: %', quote_literal(due_name), SQLERRM;
          UPDATE courier.schedule AS s
            SET retry_at = moment + interval '1 minute', last_error = left(SQLERRM, 1000) WHERE s.name = due_name;
        END;
      END LOOP;
    END;
    n_left := n_left - n_ticked;
  END LOOP;

  RETURN CASE
    WHEN next IS NULL THEN NULL
    -- Another session publishes or changes it: its turn comes only if that session rolls back.
    WHEN next <= moment AND n_left > 0 THEN 1000
    ELSE greatest(ceil(extract(epoch FROM next - clock_timestamp()) * 1000), 0)
  END;
END
$$;
COMMENT ON FUNCTION courier.tick()
  IS 'For the relay: publishes the events of all ticks that are due; returns milliseconds until the next';

-- Not for what tick() itself updates: next_at and below.
CREATE TRIGGER ring_control
  AFTER INSERT OR DELETE OR UPDATE OF every, at, days, time_zone, starting ON courier.schedule
  FOR EACH STATEMENT EXECUTE FUNCTION courier.ring_control();

-- A publisher may schedule what it may publish. Names are shared: it may replace and remove the
-- schedules of other publishers, and read when they tick, but no payload.
REVOKE ALL ON FUNCTION courier.named_uuid(bytea), courier.time_zone_name(text), courier.ticks_around(courier.schedule, timestamptz),
  courier.schedule(text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[]),
  courier.unschedule(text), courier.publish_ticks(timestamptz, integer, text), courier.tick() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  courier.schedule(text, text, json, interval, time, text, text, text, jsonb, bytea, text, timestamptz, text[]),
  courier.unschedule(text) TO courier_publisher;
GRANT SELECT (name, every, at, days, time_zone, starting, missed, topic, next_at, last_at, last_error)
  ON courier.schedule TO courier_publisher;

GRANT EXECUTE ON FUNCTION courier.tick(), courier.unschedule(text) TO courier_relay;
GRANT SELECT ON courier.schedule TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (3, 'schedule');

-- pgcourier schema, version 9: marks, which tell an application's table what has been delivered.
--
-- courier.mark() follows the log as a lane does, with the cursor of the sink 'courier.marks' (no sink of a
-- configuration can have a dot in its name), and marks the row of each event that all lanes have passed.
-- What it cannot mark yet it puts into courier.unmarked. Cursor, marks and those rows are written in one
-- transaction: wherever a relay dies, no mark is lost. Why it is done so: docs/architecture.md.

-- Of the parked events, those whose rows are to be marked.
CREATE INDEX parked_source_idx ON courier.parked (outbox_id) WHERE source IS NOT NULL;

-- Events that the marker has read and whose rows it has not marked.
--
--   behind  a lane that takes it has not passed it; looked at again when the lane has
--   parked  the event is parked, or waits for a sink that is not there; looked at again at due_at
--   retry   the mark failed, or the row was locked; tried again at due_at
CREATE TABLE courier.unmarked (
  outbox_id  bigint      NOT NULL,
  source     integer     NOT NULL,
  source_key text        NOT NULL,
  event_id   uuid        NOT NULL,
  topic      text        NOT NULL,
  type       text,
  created_at timestamptz NOT NULL,
  state      text        NOT NULL,
  sink       text,
  lane       integer,
  due_at     timestamptz NOT NULL,
  attempts   integer     NOT NULL DEFAULT 0,
  last_error text,
  since      timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT unmarked_pkey PRIMARY KEY (outbox_id),
  CONSTRAINT state_must_be_behind_parked_or_retry CHECK (state IN ('behind', 'parked', 'retry'))
);
CREATE INDEX unmarked_behind_idx ON courier.unmarked (sink, lane, outbox_id) WHERE state = 'behind';
CREATE INDEX unmarked_due_idx ON courier.unmarked (source, due_at) WHERE state <> 'behind';
CREATE INDEX unmarked_row_idx ON courier.unmarked (source, hashtext(source_key)); -- a key may be too long for an index

COMMENT ON TABLE courier.unmarked IS 'Events whose rows in the application''s tables are still to be marked';
COMMENT ON COLUMN courier.unmarked.source IS 'courier.attachment.id';
COMMENT ON COLUMN courier.unmarked.state
  IS 'behind: a lane has not passed it; parked: a lane has parked it; retry: the mark failed, or the row was locked';
COMMENT ON COLUMN courier.unmarked.sink IS 'What it waits for: a sink';
COMMENT ON COLUMN courier.unmarked.lane
  IS 'And which of its lanes: courier.receiver.id of a receiver, else as in courier.cursor';
COMMENT ON COLUMN courier.unmarked.due_at IS 'When it is looked at again; ignored while behind';
COMMENT ON COLUMN courier.unmarked.attempts IS 'Marks that failed; those that met a lock or a lost server do not count';
COMMENT ON COLUMN courier.unmarked.since IS 'When the marker put it off for the first time';

-- Attachments that cannot be marked as a whole: a lock on the table, a trigger that takes too long, one
-- error after the other. Their rows wait in courier.unmarked, and are tried by themselves, at hold_until,
-- at_once of them: other attachments are marked meanwhile.
CREATE TABLE courier.mark_trouble (
  source     integer     NOT NULL,
  since      timestamptz NOT NULL DEFAULT clock_timestamp(),
  hold_until timestamptz NOT NULL,
  at_once    integer     NOT NULL,
  last_error text        NOT NULL,

  CONSTRAINT mark_trouble_pkey PRIMARY KEY (source)
);
COMMENT ON TABLE courier.mark_trouble IS 'Attachments whose rows cannot be marked just now';
COMMENT ON COLUMN courier.mark_trouble.source IS 'courier.attachment.id';
COMMENT ON COLUMN courier.mark_trouble.hold_until IS 'They are tried again then';
COMMENT ON COLUMN courier.mark_trouble.at_once IS 'How many rows are tried at a time';

-- An event that the marker has at hand. txid NULL: its row in the outbox is gone, so all lanes have passed it.
CREATE TYPE courier.mark_event AS (
  outbox_id  bigint,
  txid       xid8,
  source     integer,
  source_key text,
  event_id   uuid,
  topic      text,
  type       text,
  created_at timestamptz,
  attempts   integer,
  last_error text,
  since      timestamptz, -- when it was put off for the first time
  is_new     boolean,     -- it has no row in courier.unmarked
  key        text         -- of the event: tells the shard of a sink
);
COMMENT ON TYPE courier.mark_event IS 'An event that courier.mark() has at hand';

-- A row that could not be marked: see courier.mark_rows().
CREATE TYPE courier.mark_failure AS (source integer, key text, outcome text, error text, at_once integer);
COMMENT ON TYPE courier.mark_failure IS 'A row that courier.mark() could not mark, and why';

-- Whether everything that the older snapshot shows is shown by the newer one.
CREATE FUNCTION courier.snapshot_covers(newer pg_snapshot, older pg_snapshot) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_snapshot_xmax(newer) >= pg_snapshot_xmax(older)
         AND NOT EXISTS (SELECT FROM pg_snapshot_xip(newer) AS hidden (txid)
                         WHERE pg_visible_in_snapshot(hidden.txid, older))
$$;
COMMENT ON FUNCTION courier.snapshot_covers(pg_snapshot, pg_snapshot)
  IS 'Whether the newer snapshot shows all that the older one shows';

-- Which of some pairs of topic and type a list of patterns takes; by the rules of src/outbox/routing.c.
-- topics NULL: all. Own topics (courier.**) a receiver takes only by patterns that begin so.
CREATE FUNCTION courier.patterns_take(
  topics text[], types text[], is_receiver boolean, of_topics text[], of_types text[]
) RETURNS boolean[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  topic_regex text;
  own_regex   text;
  not_topic   text;
  type_regex  text;
  not_type    text;
BEGIN
  SELECT '^(?:' || string_agg(regex, '|') FILTER (WHERE NOT excludes) || ')$',
         '^(?:' || string_agg(regex, '|') FILTER (WHERE NOT excludes AND pattern LIKE 'courier.%') || ')$',
         '^(?:' || string_agg(regex, '|') FILTER (WHERE excludes) || ')$'
    INTO topic_regex, own_regex, not_topic
    FROM (SELECT pattern, pattern LIKE '!%' AS excludes, courier.pattern_regex(ltrim(pattern, '!')) AS regex
          FROM unnest(topics) AS pattern) AS each;
  SELECT '^(?:' || string_agg(regex, '|') FILTER (WHERE NOT excludes) || ')$',
         '^(?:' || string_agg(regex, '|') FILTER (WHERE excludes) || ')$'
    INTO type_regex, not_type
    FROM (SELECT pattern LIKE '!%' AS excludes, courier.pattern_regex(ltrim(pattern, '!')) AS regex
          FROM unnest(types) AS pattern) AS each;
  RETURN ARRAY(
    SELECT CASE WHEN topics IS NULL THEN true
                WHEN is_receiver AND one.topic LIKE 'courier.%' THEN coalesce(one.topic ~ own_regex, false)
                ELSE coalesce(one.topic ~ topic_regex, false) END
           AND coalesce(one.topic !~ not_topic, true)
           AND (coalesce(cardinality(types), 0) = 0
                OR one.type IS NOT NULL AND coalesce(one.type ~ type_regex, false)
                   AND coalesce(one.type !~ not_type, true))
    FROM unnest(of_topics, of_types) WITH ORDINALITY AS one (topic, type, n) ORDER BY n);
END
$$;
COMMENT ON FUNCTION courier.patterns_take(text[], text[], boolean, text[], text[])
  IS 'Which pairs of topic and type some patterns take';

-- Where the marker begins: courier.attach() calls this when it makes the first attachment with marks.
-- Events of the table become visible with the attachment itself, so any frame will do that is older than
-- its commit: that of a lane is, and unlike a new one it is complete (docs/architecture.md). As long as no
-- relay has served any sink there is none; then it begins with the first event.
CREATE FUNCTION courier.begin_marks() RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor, from_xid)
  SELECT 'courier.marks', here.system_identifier, frame.from_snapshot, frame.from_floor, frame.from_xid
  FROM pg_control_system() AS here,
       LATERAL (SELECT from_snapshot, from_floor, from_xid FROM courier.cursor
                WHERE NOT is_owner_lane AND cursor.system_identifier = here.system_identifier
                UNION ALL SELECT '1:1:', 0, '3'
                ORDER BY from_xid DESC LIMIT 1) AS frame
  ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION courier.begin_marks() IS 'Makes the cursor of the marks, unless it is there';

-- An attachment is gone, or has no marks any more: so are its events that wait, and with the last one the
-- marker's cursor, which would keep the outbox from being cut.
CREATE FUNCTION courier.end_marks() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM courier.unmarked WHERE source = OLD.id;
  DELETE FROM courier.mark_trouble WHERE source = OLD.id;
  IF NOT EXISTS (SELECT FROM courier.attachment WHERE has_marks) THEN
    DELETE FROM courier.cursor WHERE sink = 'courier.marks';
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.end_marks() IS 'Removes what the marker keeps of an attachment that is gone';

CREATE TRIGGER end_marks_of_deleted AFTER DELETE ON courier.attachment
  FOR EACH ROW WHEN (OLD.has_marks) EXECUTE FUNCTION courier.end_marks();
CREATE TRIGGER end_marks_of_changed AFTER UPDATE ON courier.attachment
  FOR EACH ROW WHEN (OLD.has_marks AND NOT NEW.has_marks) EXECUTE FUNCTION courier.end_marks();

-- What keeps the rows of an attachment from being marked, in words; NULL: nothing. The function that marks
-- them must run with the rights of the table's owner, whose triggers it may start: never with the relay's.
CREATE FUNCTION courier.mark_fault(of_source integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN a.id IS NULL THEN format('there is no attachment %s', of_source)
    WHEN c.oid IS NULL THEN
      format('the table %s is gone; remove the attachment: pgcourier attach remove %s', a.relation_name, a.name)
    WHEN p.oid IS NULL THEN
      format('the function courier_tap.%I(text[], boolean[]) is missing; make it again: SELECT courier.recompile(%L)',
             a.name || '_mark', a.name)
    WHEN NOT p.prosecdef OR p.proowner <> c.relowner THEN
      format('the function courier_tap.%I must be SECURITY DEFINER and belong to the owner of %s (%s); make it'
             ' again: SELECT courier.recompile(%L)',
             a.name || '_mark', a.relation_name, pg_get_userbyid(c.relowner), a.name)
    END
  FROM (VALUES (of_source)) AS given (id)
  LEFT JOIN courier.attachment AS a USING (id)
  LEFT JOIN pg_class AS c ON c.oid = a.relation
  LEFT JOIN pg_proc AS p ON p.proname = a.name || '_mark' AND p.pronamespace = 'courier_tap'::regnamespace
    AND p.proargtypes::text = '1009 1000' AND p.prorettype = 'text[]'::regtype AND p.prokind = 'f'
$$;
COMMENT ON FUNCTION courier.mark_fault(integer)
  IS 'What keeps the rows of an attachment from being marked; NULL: nothing';

-- Marks rows of one attachment and returns those that it could not mark:
--
--   locked  another session has the row locked
--   later   the table is locked, the server in need, or too many rows failed: nothing was charged
--   slow    the same, because the time was up; at_once: how many rows took too long
--   failed  it is the row's fault
--
-- Rows that fail are found by halving what failed. SET CONSTRAINTS, because deferred triggers of the table
-- would run at COMMIT, outside of the function that runs with the owner's rights.
CREATE FUNCTION courier.mark_rows(of_source integer, keys text[], are_dead boolean[])
RETURNS TABLE (key text, outcome text, error text, at_once integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  function_name text := (SELECT name || '_mark' FROM courier.attachment AS a WHERE a.id = of_source);
  fault      text := courier.mark_fault(of_source);
  firsts     integer[] := ARRAY[1];
  lasts      integer[] := ARRAY[cardinality(keys)];
  n_failures integer := 0;
  first      integer;
  last       integer;
  middle     integer;
  top        integer;
  locked     text[];
  state      text;
BEGIN
  IF fault IS NOT NULL THEN
    RETURN QUERY SELECT one, 'failed', fault, NULL::integer FROM unnest(keys) AS one;
    RETURN;
  END IF;
  SET CONSTRAINTS ALL IMMEDIATE;
  LOOP
    top := cardinality(firsts);
    EXIT WHEN top = 0;
    first := firsts[top];
    last := lasts[top];
    firsts := firsts[:top - 1];
    lasts := lasts[:top - 1];
    BEGIN
      EXECUTE format('SELECT courier_tap.%I($1, $2)', function_name)
        INTO locked USING keys[first:last], are_dead[first:last];
      RETURN QUERY SELECT one, 'locked', 'the row is locked by another session', NULL::integer
        FROM unnest(locked) AS one;
      CONTINUE;
    EXCEPTION
      WHEN query_canceled OR others THEN
        state := sqlstate;
        fault := sqlerrm;
    END;
    IF state = '57014' AND first = last THEN
      RETURN QUERY SELECT keys[first], 'failed', fault, 1;
      state := 'slow';
    ELSIF state = '57014' THEN
      RETURN QUERY SELECT one, 'slow', fault, last - first + 1 FROM unnest(keys[first:last]) AS one;
      state := 'slow';
    ELSIF left(state, 2) IN ('08', '40', '53', '57', '58') OR state = '55P03' OR n_failures >= 100 THEN
      RETURN QUERY SELECT one, 'later', fault, NULL::integer FROM unnest(keys[first:last]) AS one;
      state := 'later';
    ELSIF first = last THEN
      n_failures := n_failures + 1;
      RETURN QUERY SELECT keys[first], 'failed', fault, NULL::integer;
      CONTINUE;
    ELSE
      middle := (first + last) / 2;
      firsts := firsts || ARRAY[middle + 1, first];
      lasts := lasts || ARRAY[last, middle];
      CONTINUE;
    END IF;
    -- Of what is left nothing is tried: statement_timeout has had its say, or it would be the same.
    FOR n IN 1 .. top - 1 LOOP
      RETURN QUERY SELECT one, state, fault, NULL::integer FROM unnest(keys[firsts[n]:lasts[n]]) AS one;
    END LOOP;
    RETURN;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.mark_rows(integer, text[], boolean[])
  IS 'Marks rows of one attachment; returns those that it could not mark, and why';

-- Opens the marker's next difference, and says how far some lane has come in it. It ends where a lane has
-- come to, so that next to nothing of it has to be put off: at the newest frame that a lane has worked
-- through, or else at the newest that one is working at. Frames that have more than 64 transactions
-- without a name (src/outbox/cursor.c) are left alone: the lane's next is another.
CREATE FUNCTION courier.mark_difference(INOUT m courier.cursor, OUT upto bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  IF m.until_snapshot IS NULL THEN
    SELECT snapshot, floor, xid INTO m.until_snapshot, m.until_floor, m.until_xid
    FROM (SELECT 1 AS choice, from_snapshot, from_floor, from_xid FROM courier.cursor
          WHERE sink <> 'courier.marks' AND NOT is_owner_lane AND system_identifier = m.system_identifier
          UNION ALL
          SELECT 2, until_snapshot, until_floor, until_xid FROM courier.cursor
          WHERE sink <> 'courier.marks' AND NOT is_owner_lane AND system_identifier = m.system_identifier
            AND until_snapshot IS NOT NULL) AS frame (choice, snapshot, floor, xid)
    WHERE xid >= m.from_xid AND floor >= m.from_floor AND snapshot::text <> m.from_snapshot::text
      AND xid::text::bigint - pg_snapshot_xmax(snapshot)::text::bigint <= 64
      AND courier.snapshot_covers(snapshot, m.from_snapshot)
    ORDER BY choice, pg_snapshot_xmax(snapshot) DESC, xid DESC LIMIT 1;
    m.last_id := 0;
  END IF;
  IF m.until_snapshot IS NOT NULL THEN
    upto := (SELECT max(CASE WHEN courier.snapshot_covers(from_snapshot, m.until_snapshot) THEN m.until_floor
                             WHEN courier.snapshot_covers(until_snapshot, m.until_snapshot)
                               THEN least(last_id, m.until_floor) END)
             FROM courier.cursor
             WHERE sink <> 'courier.marks' AND NOT is_owner_lane AND system_identifier = m.system_identifier);
  END IF;
END
$$;
COMMENT ON FUNCTION courier.mark_difference(courier.cursor)
  IS 'Opens the marker''s next difference, and says how far some lane has come in it';

-- A page of the marker's difference: events of these attachments with ids up to `upto`, in the order of ids.
-- Why it is complete: src/outbox/page.sql.
CREATE FUNCTION courier.mark_page(m courier.cursor, sources integer[], upto bigint, at_most integer)
RETURNS SETOF courier.mark_event
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT id, txid, source, source_key, event_id, topic::text, type::text, created_at, 0, NULL::text, now(), true,
           key::text
    FROM (
      (
        SELECT id, txid, source, source_key, event_id, topic, type, created_at, key
        FROM courier.outbox
        WHERE id > greatest(m.last_id, m.from_floor) AND id <= upto AND txid >= m.from_xid
          AND source = ANY (sources) AND source_key IS NOT NULL
          AND pg_visible_in_snapshot(txid, m.until_snapshot)
        ORDER BY id LIMIT at_most
      )
      UNION ALL
      (
        SELECT one.*
        FROM (SELECT pg_snapshot_xip(m.from_snapshot)
              UNION ALL
              SELECT n::text::xid8
              FROM generate_series(greatest(3, pg_snapshot_xmax(m.from_snapshot)::text::bigint),
                                   m.from_xid::text::bigint - 1) AS n) AS straggler (txid),
             LATERAL (SELECT id, txid, source, source_key, event_id, topic, type, created_at, key
                      FROM courier.outbox
                      WHERE (outbox.txid, outbox.id) > (straggler.txid, m.last_id)
                        AND (outbox.txid, outbox.id) <= (straggler.txid, upto)
                        AND source = ANY (sources) AND source_key IS NOT NULL
                      ORDER BY outbox.txid, outbox.id LIMIT at_most) AS one
        WHERE pg_visible_in_snapshot(straggler.txid, m.until_snapshot)
        ORDER BY id LIMIT at_most
      )
      ORDER BY id LIMIT at_most
    ) AS page;
END
$$;
COMMENT ON FUNCTION courier.mark_page(courier.cursor, integer[], bigint, integer)
  IS 'A page of the events whose rows are to be marked';

-- Rows of courier.unmarked of these attachments that are due; each attachment has its share.
CREATE FUNCTION courier.mark_due(sources integer[], at_most integer) RETURNS SETOF courier.mark_event
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT u.outbox_id, log.txid, u.source, u.source_key, u.event_id, u.topic, u.type, u.created_at, u.attempts,
           u.last_error, u.since, false, log.key::text
    FROM unnest(sources) AS of (source)
    CROSS JOIN LATERAL (SELECT * FROM courier.unmarked AS one
                        WHERE one.source = of.source AND one.state <> 'behind' AND one.due_at <= clock_timestamp()
                        ORDER BY one.due_at LIMIT greatest(1, at_most / cardinality(sources))) AS u
    LEFT JOIN LATERAL (SELECT txid, key FROM courier.outbox AS o WHERE o.id = u.outbox_id) AS log ON true;
END
$$;
COMMENT ON FUNCTION courier.mark_due(integer[], integer) IS 'Rows of courier.unmarked that are due';

-- Rows of courier.unmarked that the lane which they wait for has passed. A lane has passed nothing above its
-- floor or last id. Of each lane only the lowest ids are looked at; lanes that moved last come first.
CREATE FUNCTION courier.mark_passed(at_most integer) RETURNS SETOF courier.mark_event
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH RECURSIVE awaited AS (
      (SELECT sink, lane FROM courier.unmarked WHERE state = 'behind' ORDER BY sink, lane LIMIT 1)
      UNION ALL
      SELECT next.* FROM awaited, LATERAL (
        SELECT u.sink, u.lane FROM courier.unmarked AS u
        WHERE u.state = 'behind' AND (u.sink, u.lane) > (awaited.sink, awaited.lane)
        ORDER BY u.sink, u.lane LIMIT 1) AS next
    ), lane AS (
      SELECT awaited.sink, awaited.lane, r.sink IS NULL AS is_gone, r.from_snapshot, r.until_snapshot, r.last_id,
             greatest(r.from_floor, CASE WHEN r.until_snapshot IS NOT NULL THEN r.last_id END) AS reached,
             greatest(20, at_most / count(*) OVER ()) AS share
      FROM awaited
      LEFT JOIN courier.outbox_reader AS r ON r.sink = awaited.sink AND r.lane = awaited.lane
      LEFT JOIN courier.cursor AS c ON c.sink = awaited.sink AND c.lane = awaited.lane
      ORDER BY c.settled_at DESC NULLS FIRST
    )
    SELECT u.outbox_id, log.txid, u.source, u.source_key, u.event_id, u.topic, u.type, u.created_at, u.attempts,
           u.last_error, u.since, false, log.key::text
    FROM lane
    CROSS JOIN LATERAL (SELECT * FROM courier.unmarked AS one
                        WHERE one.state = 'behind' AND one.sink = lane.sink AND one.lane = lane.lane
                          AND (lane.is_gone OR one.outbox_id <= lane.reached)
                        ORDER BY one.outbox_id LIMIT lane.share) AS u
    LEFT JOIN LATERAL (SELECT txid, key FROM courier.outbox AS o WHERE o.id = u.outbox_id) AS log ON true
    WHERE lane.is_gone OR log.txid IS NULL
       OR courier.has_passed(lane.from_snapshot, lane.until_snapshot, lane.last_id, u.outbox_id, log.txid)
    LIMIT at_most;
END
$$;
COMMENT ON FUNCTION courier.mark_passed(integer)
  IS 'Rows of courier.unmarked that the lane which they wait for has passed';

-- Which of these events cannot be marked yet, and what each waits for. One snapshot for cursors and parked
-- rows, because both change together: an event is parked when its lane passes it.
--
-- Most lanes are through with one look at their snapshot's xmin. Of the others, those at the same place
-- with the same patterns count as one. The furthest behind comes first: when it has passed an event, most
-- others will have.
CREATE FUNCTION courier.mark_obstacles(events courier.mark_event[])
RETURNS TABLE (outbox_id bigint, state text, sink text, lane integer, due_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH given AS MATERIALIZED (
      SELECT event.outbox_id AS id, event.txid, event.key, event.topic, event.type, event.since, a.done_after,
             dense_rank() OVER (ORDER BY event.topic, event.type) AS kind
      FROM unnest(events) AS event
      LEFT JOIN courier.attachment AS a ON a.id = event.source
    ), kinds AS MATERIALIZED (
      SELECT array_agg(topic ORDER BY kind) AS topics, array_agg(type ORDER BY kind) AS types
      FROM (SELECT DISTINCT kind, topic, type FROM given) AS each
    ), reader AS (
      SELECT * FROM courier.outbox_reader AS r
      WHERE r.sink <> 'courier.marks'
        AND pg_snapshot_xmin(r.from_snapshot) <= (SELECT txid FROM given WHERE txid IS NOT NULL
                                                  ORDER BY txid DESC LIMIT 1)
    ), place AS MATERIALIZED (
      SELECT *, row_number() OVER () AS nth
      FROM (SELECT (array_agg(from_snapshot))[1] AS from_snapshot, (array_agg(until_snapshot))[1] AS until_snapshot,
                   last_id, greatest(max(from_floor), last_id) AS reached,
                   array_agg(reader.sink) AS sinks, array_agg(reader.lane) AS lanes
            FROM reader GROUP BY from_snapshot::text, until_snapshot::text, last_id OFFSET 0) AS each
      WHERE EXISTS (SELECT FROM given
                    WHERE txid IS NOT NULL
                      AND NOT courier.has_passed(each.from_snapshot, each.until_snapshot, each.last_id, id, txid))
    ), lagging AS MATERIALIZED (
      SELECT alike.sink, alike.lane, alike.shards, alike.was_divided, p.from_snapshot, p.until_snapshot, p.last_id,
             courier.patterns_take(alike.topics, alike.types, false, kinds.topics, kinds.types) AS sink_takes,
             courier.patterns_take(alike.lane_topics, alike.lane_types, true, kinds.topics, kinds.types) AS lane_takes
      FROM (SELECT p.nth, l.sink, min(l.lane) AS lane, s.topics, s.types, e.topics AS lane_topics, e.types AS lane_types,
                   CASE WHEN min(l.lane) < 0 THEN min(s.shards) END AS shards,
                   min(l.lane) <= 0 AND EXISTS (SELECT FROM courier.shard_end AS d WHERE d.sink = l.sink) AS was_divided
            FROM place AS p
            CROSS JOIN LATERAL unnest(p.sinks, p.lanes) AS l (sink, lane)
            LEFT JOIN courier.sink AS s ON s.name = l.sink
            LEFT JOIN courier.receiver AS e ON e.sink = l.sink AND e.id = l.lane
            GROUP BY p.nth, l.sink, least(l.lane, 0), s.topics, s.types, e.topics, e.types) AS alike
      JOIN place AS p USING (nth)
      CROSS JOIN kinds
      ORDER BY p.reached
    )
    SELECT DISTINCT ON (each.id) each.id, each.state, each.sink, each.lane, each.due_at
    FROM (
      SELECT given.id, 1 AS choice, 'behind' AS state, first.sink, first.lane, now() AS due_at
      FROM given
      CROSS JOIN LATERAL (
        SELECT l.sink, l.lane FROM lagging AS l
        WHERE l.sink_takes[given.kind] AND l.lane_takes[given.kind]
          AND (given.done_after IS NULL OR l.sink = ANY (given.done_after))
          AND NOT courier.has_passed(l.from_snapshot, l.until_snapshot, l.last_id, given.id, given.txid)
          AND (l.shards IS NULL OR courier.shard_of(given.key, l.shards, given.id) = -1 - l.lane)
          AND NOT (l.was_divided AND courier.had_passed(l.sink, given.key, given.id, given.txid))
        LIMIT 1) AS first
      WHERE given.txid IS NOT NULL
      UNION ALL
      -- When its time is over or not known, it is looked at more and more rarely. Its time may be infinity, or so
      -- late that a second more is no time.
      SELECT given.id, 2, 'parked', first.sink, first.lane,
             CASE WHEN first.state <> 'blocked' AND first.due_at > now()
                  THEN least(first.due_at, now() + interval '1 hour') + interval '1 s'
                  ELSE now() + least(greatest(now() - given.since, '1 s'),
                                     CASE first.state WHEN 'blocked' THEN interval '30 s' ELSE '5 s' END) END
      FROM given
      CROSS JOIN LATERAL (
        SELECT p.sink, p.lane, p.state, p.due_at FROM courier.parked AS p
        WHERE p.outbox_id = given.id AND p.source IS NOT NULL
          AND (given.done_after IS NULL OR p.sink = ANY (given.done_after))
        ORDER BY p.due_at DESC LIMIT 1) AS first
      UNION ALL
      SELECT given.id, 3, 'parked', first.sink, NULL, now() + interval '5 s'
      FROM given
      CROSS JOIN LATERAL (
        SELECT named.sink FROM unnest(given.done_after) AS named (sink)
        WHERE NOT EXISTS (SELECT FROM courier.cursor AS c WHERE c.sink = named.sink) LIMIT 1) AS first
    ) AS each
    ORDER BY each.id, each.choice;
END
$$;
COMMENT ON FUNCTION courier.mark_obstacles(courier.mark_event[])
  IS 'Which events cannot be marked yet, and what each waits for';

-- Keeps these attachments from being removed until the transaction ends. Returns them without those that another
-- session removes just now. A relay may not lock the rows itself.
CREATE FUNCTION courier.hold_attachments(ids integer[]) RETURNS integer[]
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(id), '{}')
  FROM (SELECT id FROM courier.attachment WHERE id = ANY (ids) AND has_marks
        ORDER BY id FOR KEY SHARE SKIP LOCKED) AS held
$$;
COMMENT ON FUNCTION courier.hold_attachments(integer[]) IS 'Keeps attachments from being removed, for courier.mark()';

-- Marks what can be marked: rows of courier.unmarked and a page of the log, at most `batch` of each. For the
-- relay, which calls it again at once while there is more, and else when lanes have settled or next_due_ms
-- are over.
--
--   is_wanted    some attachment has marks; if not, there is nothing to do until one has
--   marked       events whose row is marked now, or was already, or is gone
--   put_off      events that came into courier.unmarked
--   failed       marks that failed by a fault of the row; those of them that were given up are dead
--   more         there is more to do at once
--   next_due_ms  when something in courier.unmarked is due; NULL: nothing is
--   troubled     attachments that cannot be marked just now
--   error        the first failure of this call, in words; NULL: none
--
-- If another session is at it, the call does nothing. An error of an application's table costs that
-- attachment alone.
CREATE FUNCTION courier.mark(
  batch integer DEFAULT 1000,
  OUT is_wanted boolean, OUT marked bigint, OUT put_off bigint, OUT failed bigint, OUT dead bigint,
  OUT more boolean, OUT next_due_ms bigint, OUT troubled bigint, OUT error text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
DECLARE
  most_attempts CONSTANT integer := 20; -- as a sink's retry.attempts; below: first 1 s, factor 3, max 1 h
  scan_ids      CONSTANT integer := 50000; -- as SCAN_IDS of src/outbox/page.c
  at       timestamptz := clock_timestamp();
  sources  integer[] := ARRAY(SELECT id FROM courier.attachment WHERE has_marks);
  held     integer[]; -- those of them that are marked in this call
  aside    integer[]; -- those in trouble, which are not
  was      courier.cursor;
  m        courier.cursor;
  upto     bigint;
  page_end bigint;
  tried    courier.mark_trouble;
  events   courier.mark_event[];
  page     courier.mark_event[] := '{}';
  ready    courier.mark_event[];
  rows     record;
  bads     courier.mark_failure[] := '{}';
  is_late  boolean := false;
BEGIN
  IF (batch BETWEEN 1 AND 100000) IS NOT TRUE THEN
    RAISE EXCEPTION 'invalid batch %', batch
      USING ERRCODE = 'invalid_parameter_value', HINT = 'It must be from 1 to 100000';
  END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'courier.mark() needs isolation level read committed'
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Begin the transaction with: BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
  is_wanted := sources <> '{}';
  marked := 0; put_off := 0; failed := 0; dead := 0; troubled := 0; more := false;
  IF NOT is_wanted THEN
    RETURN;
  END IF;
  SELECT * INTO was FROM courier.cursor WHERE sink = 'courier.marks';
  IF NOT FOUND THEN
    PERFORM courier.begin_marks();
    more := true;
    RETURN;
  END IF;
  IF was.system_identifier <> (SELECT system_identifier FROM pg_control_system()) THEN
    RAISE EXCEPTION 'the cursor of the marks was written in another PostgreSQL cluster'
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Stop all relays and run: pgcourier rebase';
  END IF;
  m := was;

  -- An attachment in trouble is tried by itself: what it takes keeps no row of another one locked.
  SELECT * INTO tried FROM courier.mark_trouble
    WHERE source = ANY (sources) AND hold_until <= at ORDER BY hold_until LIMIT 1;
  IF FOUND THEN
    events := ARRAY(SELECT e FROM courier.mark_due(ARRAY[tried.source], least(batch, tried.at_once)) AS e);
  ELSE
    events := ARRAY(SELECT e FROM courier.mark_due(
      ARRAY(SELECT id FROM unnest(sources) AS id WHERE id NOT IN (SELECT source FROM courier.mark_trouble)),
      greatest(1, batch / 2)) AS e);
    events := events || ARRAY(SELECT e FROM courier.mark_passed(greatest(1, batch / 2)) AS e);
    more := cardinality(events) >= greatest(1, batch / 2);
    rows := courier.mark_difference(m);
    m := rows.m;
    upto := rows.upto;
    IF upto > m.last_id THEN
      page_end := least(upto, greatest(m.last_id, m.from_floor) + scan_ids);
      page := ARRAY(SELECT e FROM courier.mark_page(m, sources, page_end, batch) AS e);
      IF cardinality(page) = batch THEN
        page_end := page[batch].outbox_id;
      ELSIF page = '{}' AND page_end < upto THEN -- perhaps a long gap: rows were removed
        page_end := greatest(page_end, least(upto, coalesce((SELECT min(id) - 1 FROM courier.outbox
                                                              WHERE id > page_end), upto)));
      END IF;
      more := more OR page_end < upto;
      m.last_id := page_end;
      IF page_end >= m.until_floor THEN
        m.from_snapshot := m.until_snapshot; m.from_floor := m.until_floor; m.from_xid := m.until_xid;
        m.until_snapshot := NULL; m.until_floor := NULL; m.until_xid := NULL; m.last_id := 0;
      END IF;
    END IF;
  END IF;

  IF events <> '{}' OR page_end IS NOT NULL OR tried.source IS NOT NULL THEN
    -- From here on it is written. Each session that writes changes settled_at: if it is as it was,
    -- so is what was read above.
    PERFORM FROM courier.cursor
      WHERE sink = 'courier.marks' AND epoch = was.epoch AND settled_at = was.settled_at FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      more := false;
      next_due_ms := 100;
      RETURN;
    END IF;
    UPDATE courier.cursor
      SET from_snapshot = m.from_snapshot, from_floor = m.from_floor, from_xid = m.from_xid,
          until_snapshot = m.until_snapshot, until_floor = m.until_floor, until_xid = m.until_xid,
          last_id = m.last_id, settled_at = clock_timestamp()
      WHERE sink = 'courier.marks';
  END IF;

  IF events <> '{}' OR page <> '{}' THEN
    events := events || ARRAY(SELECT e FROM unnest(page) AS e
                              WHERE NOT EXISTS (SELECT FROM courier.unmarked AS u WHERE u.outbox_id = e.outbox_id));
    held := courier.hold_attachments(ARRAY(SELECT DISTINCT source FROM unnest(events)));
    aside := ARRAY(SELECT source FROM courier.mark_trouble WHERE source IS DISTINCT FROM tried.source);
    -- Rows that were left behind when their attachment went.
    DELETE FROM courier.unmarked WHERE outbox_id = ANY (ARRAY(
      SELECT outbox_id FROM unnest(events) WHERE NOT is_new AND source <> ALL (sources)));

    WITH obstacle AS MATERIALIZED (
      SELECT * FROM courier.mark_obstacles(ARRAY(SELECT e FROM unnest(events) AS e
                                                 WHERE source = ANY (held) AND source <> ALL (aside)))
      UNION ALL
      SELECT outbox_id, 'retry', NULL, NULL, at + interval '1 s' FROM unnest(events)
      WHERE source = ANY (aside) AND source = ANY (held)
        OR is_new AND source <> ALL (held) -- another session removes the attachment just now
    ), put AS (
      INSERT INTO courier.unmarked AS u (outbox_id, source, source_key, event_id, topic, type, created_at, state, sink,
                                         lane, due_at)
      SELECT e.outbox_id, e.source, e.source_key, e.event_id, e.topic, e.type, e.created_at, o.state, o.sink, o.lane,
             o.due_at
      FROM unnest(events) AS e JOIN obstacle AS o USING (outbox_id)
      ON CONFLICT (outbox_id) DO UPDATE
        SET state = excluded.state, sink = excluded.sink, lane = excluded.lane, due_at = excluded.due_at
    )
    SELECT coalesce(array_agg(e) FILTER (WHERE o.outbox_id IS NULL AND e.source = ANY (held)), '{}'),
           count(*) FILTER (WHERE o.outbox_id IS NOT NULL AND e.is_new)
      INTO ready, put_off
      FROM unnest(events) AS e LEFT JOIN obstacle AS o ON o.outbox_id = e.outbox_id;

    -- A row of which several events were made is marked with the last of them: the others are through with it.
    IF EXISTS (SELECT FROM courier.attachment WHERE id = ANY (held) AND expressions ? 'each') THEN
      marked := cardinality(ready);
      WITH sibling AS (
        SELECT e.outbox_id
        FROM unnest(ready) AS e
        JOIN courier.attachment AS a ON a.id = e.source AND a.expressions ? 'each'
        WHERE EXISTS (SELECT FROM courier.unmarked AS u
                      WHERE u.source = e.source AND hashtext(u.source_key) = hashtext(e.source_key)
                        AND u.source_key = e.source_key
                        AND u.outbox_id NOT IN (SELECT outbox_id FROM unnest(ready)))
           OR EXISTS (SELECT FROM courier.outbox AS o
                      WHERE o.txid = e.txid AND o.id > e.outbox_id AND o.id <= e.outbox_id + 1000
                        AND o.source = e.source AND o.source_key = e.source_key
                        AND NOT courier.has_passed(m.from_snapshot, m.until_snapshot, m.last_id, o.id, o.txid))
      ), removed AS (
        DELETE FROM courier.unmarked AS u USING sibling WHERE u.outbox_id = sibling.outbox_id
      )
      SELECT coalesce(array_agg(e), '{}') INTO ready
        FROM unnest(ready) AS e WHERE e.outbox_id NOT IN (SELECT outbox_id FROM sibling);
      marked := marked - cardinality(ready);
    END IF;

    FOR rows IN
      SELECT source, array_agg(key ORDER BY first) AS keys, array_agg(is_dead ORDER BY first) AS are_dead
      FROM (SELECT e.source, e.source_key AS key, min(e.outbox_id) AS first,
                   bool_or(EXISTS (SELECT FROM courier.dead_letter AS d
                                   WHERE d.outbox_id = e.outbox_id AND d.source IS NOT NULL
                                     AND d.sink <> 'courier.marks'
                                     AND (a.done_after IS NULL OR d.sink = ANY (a.done_after)))) AS is_dead
            FROM unnest(ready) AS e JOIN courier.attachment AS a ON a.id = e.source
            GROUP BY e.source, e.source_key) AS row
      GROUP BY source ORDER BY source
    LOOP
      -- When the time was up for one, the others have theirs with the next call.
      SELECT bads || coalesce(array_agg(ROW(rows.source, b.key, b.outcome, b.error, b.at_once)::courier.mark_failure), '{}')
        INTO bads
        FROM (SELECT * FROM courier.mark_rows(rows.source, rows.keys, rows.are_dead) WHERE NOT is_late
              UNION ALL
              SELECT unnest(rows.keys), 'next', NULL, NULL WHERE is_late) AS b;
      is_late := is_late OR EXISTS (SELECT FROM unnest(bads) WHERE at_once IS NOT NULL);
    END LOOP;

    WITH judged AS MATERIALIZED (
      SELECT e.*, b.outcome, coalesce(b.error, e.last_error) AS words,
             e.attempts + CASE b.outcome WHEN 'failed' THEN 1 ELSE 0 END AS n_attempts,
             b.outcome = 'failed' AND e.attempts + 1 >= most_attempts AS is_dead
      FROM unnest(ready) AS e LEFT JOIN unnest(bads) AS b ON b.source = e.source AND b.key = e.source_key
    ), put AS (
      INSERT INTO courier.unmarked AS u (outbox_id, source, source_key, event_id, topic, type, created_at, state, due_at,
                                         attempts, last_error)
      SELECT outbox_id, source, source_key, event_id, topic, type, created_at, 'retry',
             CASE outcome
               WHEN 'next' THEN at
               WHEN 'failed' THEN clock_timestamp() + least(3600, 3 ^ (n_attempts - 1)) * interval '1 s'
               ELSE clock_timestamp() + least(greatest(at - since, '1 s'), '10 s') END,
             n_attempts, words
      FROM judged WHERE outcome IS NOT NULL AND NOT is_dead
      ON CONFLICT (outbox_id) DO UPDATE
        SET state = excluded.state, sink = NULL, lane = NULL, due_at = excluded.due_at, attempts = excluded.attempts,
            last_error = excluded.last_error
    ), died AS (
      INSERT INTO courier.dead_letter (sink, lane, outbox_id, target, reason, attempts, first_failed_at, error,
                                       event_id, topic, key, type, payload, data, headers, created_at, source, source_key)
      SELECT 'courier.marks', 0, j.outbox_id, format('%s, row %s', a.relation_name, j.source_key), 'attempts',
             j.n_attempts, j.since, j.words, j.event_id, j.topic, o.key, j.type, o.payload, o.data, o.headers,
             j.created_at, j.source, j.source_key
      FROM judged AS j
      JOIN courier.attachment AS a ON a.id = j.source
      LEFT JOIN LATERAL (SELECT key, payload, data, headers FROM courier.outbox AS o WHERE o.id = j.outbox_id) AS o ON true
      WHERE j.is_dead
      ORDER BY j.outbox_id
    ), gone AS (
      DELETE FROM courier.unmarked WHERE outbox_id = ANY (ARRAY(
        SELECT outbox_id FROM judged WHERE NOT is_new AND (outcome IS NULL OR is_dead)))
    )
    SELECT marked + count(*) FILTER (WHERE outcome IS NULL), put_off + count(*) FILTER (WHERE is_new AND outcome IS NOT NULL
             AND NOT is_dead), count(*) FILTER (WHERE outcome = 'failed'), count(*) FILTER (WHERE is_dead)
      INTO marked, put_off, failed, dead
      FROM judged;

    INSERT INTO courier.mark_trouble AS t (source, hold_until, at_once, last_error)
    SELECT b.source, clock_timestamp() + interval '1 s', greatest(1, coalesce(min(b.at_once) / 2, batch)),
           (array_agg(b.error))[1]
      FROM unnest(bads) AS b WHERE b.outcome IN ('later', 'slow') OR b.at_once IS NOT NULL GROUP BY b.source
    ON CONFLICT (source) DO UPDATE
      SET hold_until = clock_timestamp() + least(greatest(clock_timestamp() - t.since, '1 s'), '10 s'),
          at_once = excluded.at_once, last_error = excluded.last_error;
    SELECT format('attachment %s: %s', a.name, b.error) INTO error
      FROM unnest(bads) AS b JOIN courier.attachment AS a ON a.id = b.source
      WHERE b.outcome IN ('failed', 'later', 'slow') LIMIT 1;
    more := more OR EXISTS (SELECT FROM unnest(bads) WHERE outcome = 'next');
  END IF;

  IF tried.source IS NOT NULL AND NOT EXISTS (
    SELECT FROM unnest(bads) AS b WHERE b.outcome IN ('later', 'slow') OR b.at_once IS NOT NULL) THEN
    IF cardinality(events) < least(batch, tried.at_once) THEN
      DELETE FROM courier.mark_trouble WHERE source = tried.source;
    ELSE -- more at a time, and half of the time for the others
      UPDATE courier.mark_trouble
        SET at_once = least(batch, tried.at_once * 2), hold_until = clock_timestamp() + (clock_timestamp() - at)
        WHERE source = tried.source;
    END IF;
    more := true;
  END IF;
  troubled := (SELECT count(*) FROM courier.mark_trouble);
  next_due_ms := (
    SELECT CASE WHEN min(due.at) IS NOT NULL -- else greatest() would say 0: at once, and for ever
                THEN greatest(0, ceil(extract(epoch FROM min(due.at) - clock_timestamp()) * 1000))::bigint END
    FROM (SELECT hold_until AS at FROM courier.mark_trouble
          UNION ALL
          SELECT first.due_at
          FROM unnest(sources) AS of (source),
               LATERAL (SELECT due_at FROM courier.unmarked AS u WHERE u.source = of.source AND u.state <> 'behind'
                        ORDER BY u.due_at LIMIT 1) AS first
          WHERE of.source NOT IN (SELECT source FROM courier.mark_trouble)) AS due);
END
$$;
COMMENT ON FUNCTION courier.mark(integer)
  IS 'Marks the rows of events that all sinks have passed; for the relay';

REVOKE ALL ON FUNCTION courier.snapshot_covers(pg_snapshot, pg_snapshot),
  courier.patterns_take(text[], text[], boolean, text[], text[]), courier.begin_marks(), courier.end_marks(),
  courier.mark_fault(integer), courier.mark_rows(integer, text[], boolean[]), courier.mark_difference(courier.cursor),
  courier.mark_page(courier.cursor, integer[], bigint, integer), courier.mark_due(integer[], integer),
  courier.mark_passed(integer), courier.mark_obstacles(courier.mark_event[]), courier.hold_attachments(integer[]),
  courier.mark(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.snapshot_covers(pg_snapshot, pg_snapshot),
  courier.patterns_take(text[], text[], boolean, text[], text[]), courier.begin_marks(),
  courier.mark_fault(integer), courier.mark_rows(integer, text[], boolean[]), courier.mark_difference(courier.cursor),
  courier.mark_page(courier.cursor, integer[], bigint, integer), courier.mark_due(integer[], integer),
  courier.mark_passed(integer), courier.mark_obstacles(courier.mark_event[]), courier.hold_attachments(integer[]),
  courier.mark(integer) TO courier_relay;
GRANT EXECUTE ON FUNCTION courier.begin_marks() TO courier_attacher;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.unmarked, courier.mark_trouble TO courier_relay;
GRANT SELECT ON courier.outbox_reader TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (9, 'marks');

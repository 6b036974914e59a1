-- pgcourier schema, version 7: taps, which turn the rows of an application's table into events.
--
-- A tap is a trigger with a generated function in schema courier_tap. It writes courier.outbox in the
-- transaction that writes the table, with the rights of the table's owner. courier.attach() makes one for
-- an outbox table that an application has already, courier.capture() (0008_capture.sql) for any table.

ALTER TABLE courier.outbox ADD source integer, ADD source_key text;
ALTER TABLE courier.parked ADD source integer, ADD source_key text;
ALTER TABLE courier.dead_letter ADD source integer, ADD source_key text;
COMMENT ON COLUMN courier.outbox.source
  IS 'courier.attachment.id of the tap that made the event of a row; NULL: it was published';
COMMENT ON COLUMN courier.outbox.source_key
  IS 'The primary key of that row as text; of several columns, a JSON array of texts';

-- Of the events that became dead letters, those whose rows are to be marked.
CREATE INDEX dead_letter_event_idx ON courier.dead_letter (outbox_id);

CREATE SCHEMA courier_tap;
COMMENT ON SCHEMA courier_tap IS 'pgcourier: the generated functions of the taps, each owned by the owner of its table';

-- The taps: one row for each table that is attached, and for each capture.
CREATE TABLE courier.attachment (
  id            integer     GENERATED ALWAYS AS IDENTITY,
  name          text        NOT NULL,
  kind          text        NOT NULL,
  relation      regclass    NOT NULL,
  relation_name text        NOT NULL,
  layout        text,
  expressions   jsonb       NOT NULL DEFAULT '{}',
  ops           text[]      NOT NULL DEFAULT '{insert}',
  level         text        NOT NULL,
  done          text        NOT NULL DEFAULT 'keep',
  done_when     text        NOT NULL DEFAULT 'delivered',
  done_after    text[],
  key_columns   text[]      NOT NULL DEFAULT '{}',
  column_names  jsonb       NOT NULL DEFAULT '{}',
  body_hash     text        NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_by    name        NOT NULL DEFAULT current_user,
  has_marks     boolean     NOT NULL GENERATED ALWAYS AS (done <> 'keep' AND done_when = 'delivered') STORED,

  CONSTRAINT attachment_pkey PRIMARY KEY (id),
  CONSTRAINT attachment_name_key UNIQUE (name),
  CONSTRAINT name_must_be_of_small_letters_digits_underscores CHECK (name ~ '^[a-z_][a-z0-9_]{0,47}$'),
  CONSTRAINT kind_must_be_attach_or_capture CHECK (kind IN ('attach', 'capture')),
  CONSTRAINT level_must_be_statement_or_row CHECK (level IN ('statement', 'row')),
  CONSTRAINT done_must_be_keep_mark_or_delete CHECK (done IN ('keep', 'mark', 'delete')),
  CONSTRAINT done_when_must_be_delivered_or_taken CHECK (done_when IN ('delivered', 'taken'))
);
-- One table feeds the outbox once; it may be captured more than once.
CREATE UNIQUE INDEX attachment_relation_idx ON courier.attachment (relation) WHERE kind = 'attach';

COMMENT ON TABLE courier.attachment
  IS 'The taps: tables whose rows become events; made by courier.attach() and courier.capture()';
COMMENT ON COLUMN courier.attachment.id IS 'courier.outbox.source of its events; never given out twice';
COMMENT ON COLUMN courier.attachment.name
  IS 'Names its functions: courier_tap.NAME_insert, NAME_mark and so on';
COMMENT ON COLUMN courier.attachment.relation_name IS 'The table as it was named when it was attached';
COMMENT ON COLUMN courier.attachment.expressions
  IS 'The mapping, as it was given or as the layout says: names and SQL expressions';
COMMENT ON COLUMN courier.attachment.ops IS 'Which of insert, update and delete have a trigger';
COMMENT ON COLUMN courier.attachment.level IS 'Whether these triggers are called for each statement or for each row';
COMMENT ON COLUMN courier.attachment.done
  IS 'What becomes of the row of an event that is delivered: keep it, mark it, delete it';
COMMENT ON COLUMN courier.attachment.done_when
  IS 'delivered: when all sinks have passed the event; taken: within the INSERT';
COMMENT ON COLUMN courier.attachment.done_after
  IS 'The sinks that must have passed an event before its row is marked; NULL: all that take it';
COMMENT ON COLUMN courier.attachment.key_columns IS 'The columns of courier.outbox.source_key';
COMMENT ON COLUMN courier.attachment.column_names
  IS 'The names of the table''s columns, by their numbers, when the tap was made: a renamed one is found by them';
COMMENT ON COLUMN courier.attachment.body_hash
  IS 'Of the definitions of its functions and triggers; another one: they were edited';
COMMENT ON COLUMN courier.attachment.created_by IS 'The owner of the table then; may remove the tap if the table is gone';
COMMENT ON COLUMN courier.attachment.has_marks IS 'The relay marks or deletes its rows';

-- A role that attaches sees all taps, and makes, changes and removes those of tables whose owner it is. If both the
-- table and the role that made the tap are gone, the owner of the schema does.
CREATE FUNCTION courier.owns_tap(relation oid, created_by name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pg_has_role(current_user, coalesce((SELECT relowner FROM pg_class WHERE oid = relation),
                                                     to_regrole(quote_ident(created_by)),
                                                     (SELECT nspowner FROM pg_namespace WHERE nspname = 'courier')),
                              'MEMBER'), false)
$$;
COMMENT ON FUNCTION courier.owns_tap(oid, name) IS 'Whether the current role may act as the owner of a tap''s table';

ALTER TABLE courier.attachment ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_read ON courier.attachment FOR SELECT USING (true);
CREATE POLICY owners_insert ON courier.attachment FOR INSERT WITH CHECK (courier.owns_tap(relation, created_by));
CREATE POLICY owners_update ON courier.attachment FOR UPDATE USING (courier.owns_tap(relation, created_by));
CREATE POLICY owners_delete ON courier.attachment FOR DELETE USING (courier.owns_tap(relation, created_by));

-- A running relay begins or ends to mark rows.
CREATE TRIGGER ring_control AFTER INSERT OR UPDATE OR DELETE ON courier.attachment
  FOR EACH STATEMENT EXECUTE FUNCTION courier.ring_control();

-- What outbox tables look like. Each expression is SQL over the columns of a row; {{table}} stands for the
-- name of the table, as a text. Expressions for type, headers and deliver_at are left out where a table lacks
-- their columns. For tables of your own, many of a kind: INSERT INTO courier.layout.
CREATE TABLE courier.layout (
  name       text   NOT NULL,
  needs      text[] NOT NULL,
  topic      text   NOT NULL,
  key        text,
  type       text,
  payload    text,
  data       text,
  headers    text,
  event_id   text,
  deliver_at text,
  only_if    text,
  done       text   NOT NULL DEFAULT 'keep',
  done_set   text,
  dead_set   text,
  remark     text,

  CONSTRAINT layout_pkey PRIMARY KEY (name),
  CONSTRAINT name_must_be_of_small_letters_digits_dashes CHECK (name ~ '^[a-z][a-z0-9-]{0,47}$'),
  CONSTRAINT one_of_payload_and_data_must_be_given CHECK (num_nonnulls(payload, data) = 1),
  CONSTRAINT done_must_be_keep_mark_or_delete CHECK (done IN ('keep', 'mark', 'delete')),
  CONSTRAINT mark_needs_done_set CHECK (done <> 'mark' OR done_set IS NOT NULL)
);
COMMENT ON TABLE courier.layout IS 'Presets for courier.attach(): which columns of an outbox table mean what';
COMMENT ON COLUMN courier.layout.needs
  IS 'The columns that tell such a table; of several layouts that fit, the one with the most';
COMMENT ON COLUMN courier.layout.only_if IS 'Which rows are still to be published; NULL: all';
COMMENT ON COLUMN courier.layout.done IS 'What becomes of delivered rows, unless courier.attach() is told otherwise';
COMMENT ON COLUMN courier.layout.done_set IS 'What an UPDATE sets in the row of a delivered event';
COMMENT ON COLUMN courier.layout.dead_set IS 'The same if a sink gave the event up; NULL: done_set';

INSERT INTO courier.layout (name, needs, topic, key, type, payload, data, headers, event_id, deliver_at, only_if,
                            done, done_set, dead_set, remark)
VALUES
  ('debezium', '{id,aggregatetype,aggregateid,type,payload}',
   '''outbox.event.'' || aggregatetype', 'aggregateid', 'type', 'payload', NULL, NULL, 'id', NULL, NULL,
   'keep', NULL, NULL, 'Debezium''s outbox event router, with topics as its default route names them'),
  ('eventuate-tram', '{id,destination,headers,payload,published}',
   'destination', 'courier.fit_headers(headers) ->> ''PARTITION_ID''', NULL, 'payload', NULL, 'headers', 'id', NULL,
   'published = 0', 'mark', 'published = 1', NULL, 'Eventuate Tram, in place of its CDC service'),
  ('pg-transactional-outbox',
   '{id,aggregate_type,aggregate_id,message_type,segment,concurrency,payload,metadata,locked_until,processed_at,abandoned_at}',
   'aggregate_type', 'CASE WHEN concurrency <> ''parallel'' THEN coalesce(segment, aggregate_id) END', 'message_type',
   'payload', NULL, 'metadata', 'id', 'locked_until', 'processed_at IS NULL AND abandoned_at IS NULL',
   'mark', 'processed_at = now()', 'abandoned_at = now()', 'In place of its polling or replication listener'),
  ('watermill', '{offset,uuid,created_at,payload,metadata,transaction_id}',
   'regexp_replace({{table}}, ''^watermill_'', '''')', NULL, NULL, 'payload', NULL, 'metadata', 'uuid', NULL, NULL,
   'keep', NULL, NULL, 'It has a table for each topic: attach each'),
  ('watermill-forwarder', '{offset,uuid,created_at,payload,metadata,transaction_id}',
   'payload ->> ''destination_topic''', NULL, NULL, NULL, 'courier.try_base64(payload ->> ''payload'')',
   'payload -> ''metadata''', 'payload ->> ''uuid''', NULL, NULL,
   'keep', NULL, NULL, 'The topic of its forwarder: envelopes that name their topics. Give it by name'),
  ('django-outbox-pattern', '{id,destination,body,version,status,retry,expires_at,headers}',
   'destination', NULL, NULL, 'body', NULL, 'headers', 'id', NULL, 'status = 1',
   'mark', 'status = 2', 'status = -1', 'In place of its command publish'),
  ('sbmt-outbox', '{uuid,event_name,event_key,bucket,status,options,payload,errors_count}',
   'event_name', 'event_key', NULL, NULL, 'payload', 'options -> ''headers''', 'uuid', NULL, 'status = 0',
   'mark', 'status = 2, processed_at = now()', 'status = 1', 'In place of its worker'),
  ('outboxer', '{id,status,messageable_type,messageable_id,queued_at}',
   'messageable_type', 'messageable_id', NULL,
   'json_build_object(''messageable_type'', messageable_type, ''messageable_id'', messageable_id)', NULL, NULL, NULL,
   NULL, 'status = ''queued''', 'delete', NULL, NULL,
   'In place of its publisher. The body is elsewhere: give payload => ''(SELECT body FROM public.events WHERE ...)'''),
  ('active-outbox', '{identifier,event,payload,aggregate,aggregate_identifier}',
   'event', 'aggregate_identifier', 'event', 'payload', NULL, NULL, 'identifier', NULL, NULL,
   'keep', NULL, NULL, 'It has no relay of its own'),
  ('open-outbox', '{event_id,event_type,partition_key,payload,headers,status,attempts,available_at,delivered_at}',
   'event_type', 'partition_key', 'event_type', NULL, 'payload', 'headers', 'event_id', 'available_at',
   'status = ''PENDING''', 'mark', 'status = ''DELIVERED'', delivered_at = now()', 'status = ''DEAD''',
   'In place of Open Outbox Relay'),
  ('aggregate-sequence', '{id,aggregate_id,aggregate_type,payload,sequence_number,processed_at}',
   'aggregate_type', 'aggregate_id', NULL, 'payload', NULL,
   'jsonb_build_object(''source-id'', id, ''sequence-number'', sequence_number)', 'id', NULL, 'processed_at IS NULL',
   'mark', 'processed_at = now()', NULL, NULL),
  ('aggregate-published', '{id,aggregate_type,aggregate_id,event_type,payload,published_at}',
   'event_type', 'aggregate_id', 'event_type', 'payload', NULL, 'headers', 'id', NULL, 'published_at IS NULL',
   'mark', 'published_at = now()', NULL, NULL),
  ('aggregate-published-once', '{id,aggregate_type,aggregate_id,event_type,payload,headers,dedup_key,published_at}',
   'event_type', 'aggregate_id', 'event_type', 'payload', NULL,
   'CASE WHEN dedup_key IS NULL THEN headers'
   ' ELSE coalesce(headers, ''{}'') || jsonb_build_object(''dedup-key'', dedup_key) END', 'id', NULL, 'published_at IS NULL',
   'mark', 'published_at = now()', NULL, 'dedup_key goes along as the header dedup-key'),
  ('aggregate-processed', '{id,aggregate_type,aggregate_id,event_type,payload,processed_at}',
   'event_type', 'aggregate_id', 'event_type', 'payload', NULL, 'headers', 'id', NULL, 'processed_at IS NULL',
   'mark', 'processed_at = now()', NULL, NULL),
  ('message', '{id,topic,key,type,payload,headers}',
   'topic', 'key', 'type', 'payload', NULL, 'headers', 'id', NULL, NULL,
   'keep', NULL, NULL, 'Columns named like those of courier.outbox'),
  ('message-delayed', '{id,topic,key,type,payload,headers,available_after}',
   'topic', 'key', 'type', 'payload', NULL, 'headers', 'id', 'available_after', NULL,
   'keep', NULL, NULL, 'The same, and not before available_after');

-- Values made to fit: what courier.outbox would refuse must not make an INSERT fail that worked before. The
-- planner inlines the functions for what fits already, since a call costs a statement some 20 us; the others do
-- what is not immutable by PostgreSQL's rules.
CREATE FUNCTION courier.cut_topic(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  value := regexp_replace(value, '[[:cntrl:]]', '_', 'g');
  RETURN CASE WHEN octet_length(value) <= 255 THEN value ELSE left(value, 63) END;
END
$$;
COMMENT ON FUNCTION courier.cut_topic(text) IS 'A topic with _ for control characters, cut if it is too long';

CREATE FUNCTION courier.fit_topic(value text, otherwise text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value <> '' AND pg_catalog.octet_length(value) <= 255 AND value !~ '[[:cntrl:]]' THEN value
              WHEN value <> '' THEN courier.cut_topic(value) ELSE otherwise END
$$;
COMMENT ON FUNCTION courier.fit_topic(text, text) IS 'A topic that courier.outbox takes: cut if need be; an empty one is replaced';

CREATE FUNCTION courier.cut_key(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN left(value, 200) || '#' || encode(sha256(convert_to(value, 'UTF8')), 'hex');
END
$$;
COMMENT ON FUNCTION courier.cut_key(text) IS 'The beginning of a key and a hash of all of it';

CREATE FUNCTION courier.fit_key(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value = '' THEN NULL WHEN pg_catalog.octet_length(value) <= 1024 THEN value
              ELSE courier.cut_key(value) END
$$;
COMMENT ON FUNCTION courier.fit_key(text) IS 'A key that courier.outbox takes: cut if need be; an empty one is NULL';

CREATE FUNCTION courier.fit_type(value text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value = '' THEN NULL WHEN pg_catalog.octet_length(value) <= 255 THEN value
              ELSE pg_catalog.left(value, 63) END
$$;
COMMENT ON FUNCTION courier.fit_type(text) IS 'A type that courier.outbox takes: cut if need be; an empty one is NULL';

CREATE FUNCTION courier.wrap_headers(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF jsonb_typeof(value) <> 'object' THEN
    value := CASE WHEN jsonb_typeof(value) <> 'null' THEN jsonb_build_object('headers', value) END;
  END IF;
  RETURN CASE WHEN pg_column_size(value) > 16384 THEN '{"headers-dropped": "size"}' ELSE value END;
END
$$;
COMMENT ON FUNCTION courier.wrap_headers(jsonb)
  IS 'What is no object as a header of the name headers; a header that says so in place of those that are too large';

CREATE FUNCTION courier.fit_headers(value jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value IS NULL OR pg_catalog.jsonb_typeof(value) = 'object' AND pg_catalog.pg_column_size(value) <= 16384
              THEN value ELSE courier.wrap_headers(value) END
$$;
COMMENT ON FUNCTION courier.fit_headers(jsonb) IS 'Headers that courier.outbox takes: an object that is not too large';

CREATE FUNCTION courier.fit_headers(value text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN courier.fit_headers(nullif(value, '')::jsonb);
EXCEPTION
  WHEN data_exception OR program_limit_exceeded THEN
    RETURN '{"headers-dropped": "no JSON"}';
END
$$;
COMMENT ON FUNCTION courier.fit_headers(text) IS 'The same of a text, which need not be JSON';

-- Dates and times without a zone reach beyond those with one, at both ends and by as much as a zone differs from
-- UTC. What is far away is infinity then.
CREATE FUNCTION courier.fit_time(value timestamp) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value < '0001-01-01' THEN '-infinity' WHEN value > '294276-01-01' THEN 'infinity'
              ELSE value::timestamptz END
$$;
COMMENT ON FUNCTION courier.fit_time(timestamp) IS 'The time with a zone';

CREATE FUNCTION courier.fit_time(value date) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN value < '0001-01-01' THEN '-infinity' WHEN value > '294276-01-01' THEN 'infinity'
              ELSE value::timestamptz END
$$;
COMMENT ON FUNCTION courier.fit_time(date) IS 'The beginning of the day';

-- An identity for an event of a row without a uuid: always the same for the same row of the same tap. A UUID
-- of version 8 (RFC 9562).
CREATE FUNCTION courier.fit_event_id(value text, tap text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN value ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN value::uuid
              WHEN value <> '' THEN courier.named_uuid(convert_to(tap || ':' || value, 'UTF8')) END;
END
$$;
COMMENT ON FUNCTION courier.fit_event_id(text, text)
  IS 'The uuid that a text is, or one made of the text and the tap''s name; NULL: it is empty';

-- For expressions: what is malformed must not make the INSERT fail. A block with EXCEPTION cannot run in parallel.
CREATE FUNCTION courier.try_json(value text) RETURNS json
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN value::json;
EXCEPTION
  WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.try_json(text) IS 'The text as JSON; NULL: it is none';

CREATE FUNCTION courier.try_base64(value text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN decode(value, 'base64');
EXCEPTION
  WHEN data_exception THEN
    RETURN convert_to(value, 'UTF8');
END
$$;
COMMENT ON FUNCTION courier.try_base64(text) IS 'The bytes of a text in base64; of another text its own';

-- From here on: how a tap is made. courier.attach() and courier.capture() run as the role that calls them and
-- make everything as the owner of the table; so PostgreSQL itself sees to the rights of that role, and
-- expressions never run with those of another one.

-- Refuses what cannot be attached or captured. The owner of the relation.
CREATE FUNCTION courier.tap_owner(relation regclass, what text) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  class  pg_class;
  space  name;
  owner  name;
  reason text;
BEGIN
  IF relation IS NULL THEN
    RAISE EXCEPTION '%: there is no table', what USING ERRCODE = 'null_value_not_allowed';
  END IF;
  SELECT * INTO class FROM pg_class WHERE oid = relation;
  space := class.relnamespace::regnamespace::text;
  owner := pg_get_userbyid(class.relowner);
  reason := CASE
    WHEN class.oid IS NULL THEN 'it does not exist'
    WHEN class.relkind = 'v' THEN 'it is a view, whose rows no trigger sees; name the table behind it'
    WHEN class.relkind = 'm' THEN 'it is a materialized view'
    WHEN class.relkind = 'f' THEN 'it is a foreign table: its rows are written in another database'
    WHEN class.relkind NOT IN ('r', 'p') THEN 'it is not a table'
    WHEN class.relpersistence = 't' THEN 'it is a temporary table'
    WHEN space IN ('courier', 'courier_tap', 'courier_inbox') THEN 'it belongs to pgcourier itself'
    WHEN space IN ('pg_catalog', 'information_schema') OR space LIKE 'pg\_toast%' THEN 'it belongs to PostgreSQL itself'
  END;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION '%: % cannot be used: %', what, relation, reason USING ERRCODE = 'wrong_object_type';
  END IF;
  IF NOT pg_has_role(current_user, class.relowner, 'MEMBER') THEN
    RAISE EXCEPTION '%: % belongs to %, and % is not a member of that role', what, relation, owner, current_user
      USING ERRCODE = 'insufficient_privilege', HINT = format('Connect as %s or as a superuser', owner);
  END IF;
  IF NOT (has_schema_privilege(owner, 'courier_tap', 'CREATE')
          AND has_column_privilege(owner, 'courier.outbox', 'source', 'INSERT')) THEN
    RAISE EXCEPTION '%: %, the owner of %, may not publish by taps', what, owner, relation
      USING ERRCODE = 'insufficient_privilege',
            HINT = format('As a superuser or the owner of schema courier: GRANT courier_attacher TO %I', owner);
  END IF;
  RETURN owner;
END
$$;
COMMENT ON FUNCTION courier.tap_owner(regclass, text) IS 'The owner of a table; an error if it cannot be attached or captured';

-- Calls a function with the rights of another role, the owner of a table, and no way back: SET ROLE would let
-- expressions of that role's RESET it, and have the rights of a superuser who calls. Only a function with
-- SECURITY DEFINER keeps them from it. It is there for this one call.
CREATE FUNCTION courier.tap_as(owner name, call text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made   text := 'call_' || replace(gen_random_uuid()::text, '-', '');
  answer text;
BEGIN
  EXECUTE format('CREATE FUNCTION courier_tap.%I() RETURNS text LANGUAGE plpgsql SECURITY DEFINER'
                 ' SET search_path = pg_catalog, pg_temp AS %L', made,
                 format(E'DECLARE\n  answer text;\nBEGIN\n  answer := (%s)::text;\n'
                        '  DROP FUNCTION courier_tap.%I();\n  RETURN answer;\nEND', call, made));
  EXECUTE format('ALTER FUNCTION courier_tap.%I() OWNER TO %I', made, owner);
  EXECUTE format('SELECT courier_tap.%I()', made) INTO answer;
  IF current_setting('search_path') <> 'pg_catalog, pg_temp' THEN
    RAISE EXCEPTION 'an expression or a function of % sets search_path for the session', owner
      USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN answer;
END
$$;
COMMENT ON FUNCTION courier.tap_as(name, text) IS 'Calls a function with the rights of the owner of a table';

-- A call of a function, as text.
CREATE FUNCTION courier.tap_call(function text, VARIADIC arguments text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('courier.%I(%s)', function, string_agg(quote_nullable(v), ', ' ORDER BY n))
  FROM unnest(arguments) WITH ORDINALITY AS list (v, n)
$$;
COMMENT ON FUNCTION courier.tap_call(text, text[]) IS 'A call of a function of schema courier, as an expression';

-- A free name for a tap: that of the table in small letters, or with its schema if that is taken.
CREATE FUNCTION courier.tap_name(relation regclass, given text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  class  pg_class;
  short  text;
  chosen text := given;
BEGIN
  SELECT * INTO class FROM pg_class WHERE oid = relation;
  IF given IS NULL THEN
    short := left(regexp_replace(lower(class.relname), '[^a-z0-9_]+', '_', 'g'), 44);
    chosen := CASE WHEN short ~ '^[a-z_]' THEN short ELSE '_' || short END;
    IF EXISTS (SELECT FROM courier.attachment AS a WHERE a.name = chosen) THEN
      chosen := left(regexp_replace(lower(class.relnamespace::regnamespace::text), '[^a-z0-9_]+', '_', 'g')
                     || '_' || short, 44);
    END IF;
    FOR n IN 2 .. 99 LOOP
      EXIT WHEN NOT EXISTS (SELECT FROM courier.attachment AS a WHERE a.name = chosen);
      chosen := left(short, 44) || '_' || n;
    END LOOP;
  ELSIF given !~ '^[a-z_][a-z0-9_]{0,47}$' THEN
    RAISE EXCEPTION 'the name % is not 1 to 48 small letters, digits and underscores', quote_literal(given)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'It names the functions of the tap in schema courier_tap';
  ELSIF EXISTS (SELECT FROM courier.attachment AS a WHERE a.name = given) THEN
    RAISE EXCEPTION 'there is a tap of the name % already', given
      USING ERRCODE = 'duplicate_object', HINT = format('SELECT courier.detach(%L) removes it', given);
  END IF;
  RETURN chosen;
END
$$;
COMMENT ON FUNCTION courier.tap_name(regclass, text) IS 'The given name of a tap, or one that is free';

-- The type of an expression over the rows that `from_item` names; an error in PostgreSQL's words if it does
-- not compile. The query has no row, so nothing is evaluated but constants.
CREATE FUNCTION courier.tap_type(what text, field text, expression text, from_item text) RETURNS regtype
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  type regtype; -- a domain is judged by what it is made of
BEGIN
  EXECUTE format(E'SELECT pg_typeof((SELECT (%s\n) FROM %s LIMIT 0))', expression, from_item) INTO type;
  WHILE EXISTS (SELECT FROM pg_type WHERE oid = type AND typtype = 'd') LOOP
    type := (SELECT typbasetype FROM pg_type WHERE oid = type);
  END LOOP;
  RETURN type;
EXCEPTION
  WHEN others THEN
    RAISE EXCEPTION '%: % does not compile: %', what, field, sqlerrm
      USING ERRCODE = sqlstate, DETAIL = format('%s: %s', field, expression),
            HINT = 'Write an SQL expression over the columns of one row. The search path is pg_catalog: '
                   'name what is yours with its schema, as in public.f(x)';
END
$$;
COMMENT ON FUNCTION courier.tap_type(text, text, text, text) IS 'The type of an expression of a tap; an error if it does not compile';

-- The columns and values of a SET list, such as `status = 2, processed_at = now()`.
CREATE FUNCTION courier.set_list(what text, given text)
RETURNS TABLE (column_name text, value text, is_time boolean)
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  depth integer := 0;
  quote text;
  part  text := '';
  parts text[] := '{}';
  c     text;
BEGIN
  FOREACH c IN ARRAY regexp_split_to_array(given, '') || ','::text LOOP
    IF quote IS NOT NULL THEN
      quote := nullif(quote, c);
    ELSIF c IN ('''', '"') THEN
      quote := c;
    ELSIF c IN ('(', '[') THEN
      depth := depth + 1;
    ELSIF c IN (')', ']') THEN
      depth := depth - 1;
    ELSIF c = ',' AND depth = 0 THEN
      parts := parts || part;
      part := '';
      CONTINUE;
    END IF;
    part := part || c;
  END LOOP;
  IF part <> '' THEN
    parts := parts || part;
  END IF;
  FOREACH part IN ARRAY parts LOOP
    IF part !~ '^\s*("[^"]+"|[A-Za-z_][A-Za-z0-9_$]*)\s*=[^=]' THEN
      RAISE EXCEPTION '%: % is not a list of column = value', what, quote_literal(given)
        USING ERRCODE = 'syntax_error', DETAIL = format('At: %s', btrim(part)),
              HINT = 'Write it like the SET of an UPDATE: processed_at = now(), status = 2';
    END IF;
    column_name := (parse_ident(substring(part FROM '^\s*("[^"]+"|[A-Za-z_][A-Za-z0-9_$]*)')))[1];
    value := btrim(substring(part FROM '^\s*(?:"[^"]+"|[A-Za-z_][A-Za-z0-9_$]*)\s*=(.*)$'), E' \t\n\r');
    is_time := value ~* '^(now|clock_timestamp|statement_timestamp|transaction_timestamp)\s*\(\s*\)$'
               OR value ~* '^(current_timestamp|localtimestamp)$';
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.set_list(text, text) IS 'The columns and values of the SET list of an UPDATE';

-- Which rows are not marked yet, as a condition: a time is not set, another column is not what is to be set.
-- NULL if that cannot be told.
CREATE FUNCTION courier.unmarked_condition(done_set text, row_name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(CASE WHEN is_time THEN format('%s.%I IS NULL', row_name, column_name)
                         ELSE format('%s.%I IS DISTINCT FROM (%s)', row_name, column_name, value) END, ' OR ')
  FROM courier.set_list('done_set', done_set)
  WHERE is_time OR value !~* ('\m' || column_name || '\M')
$$;
COMMENT ON FUNCTION courier.unmarked_condition(text, text) IS 'The condition that a row is not marked yet';

-- The rows that a tap's query reads, by the name `new`. rows: the transition table of a statement trigger, NEW
-- of a row trigger, or a table.
CREATE FUNCTION courier.attach_from(a courier.attachment, rows text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT rows || ' AS new' || coalesce(E'\n         CROSS JOIN LATERAL ' || (a.expressions ->> 'each'), '')
$$;
COMMENT ON FUNCTION courier.attach_from(courier.attachment, text) IS 'The FROM of the query of an attachment';

-- What a query makes of a mapping e: `list`, columns of courier.outbox; `mapped`, what its subquery selects, so
-- that each expression is evaluated once for each row; `fit`, for each column the value around the subquery,
-- made to fit; `parsed`, what the query joins. scanned: the FROM item that expressions are compiled against;
-- row_name: the row whose primary key is source_key; fixed: the fields that are constants and fit.
CREATE FUNCTION courier.tap_values(a courier.attachment, e jsonb, scanned text, row_name text, fixed text[],
                                   OUT list text[], OUT mapped text[], OUT fit jsonb, OUT parsed text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  what     text := a.kind || ' ' || a.relation::text;
  body     text := CASE WHEN e ? 'data' THEN 'data' ELSE 'payload' END;
  type     regtype;
  field    text;
  -- That of courier.outbox: another one may have no regular expressions, or other control characters.
  plain    CONSTANT text := ' COLLATE "default"';
BEGIN
  list := '{}';
  mapped := '{}';
  fit := '{}';
  parsed := '';
  FOREACH field IN ARRAY ARRAY['topic', 'key', 'type'] LOOP
    CONTINUE WHEN NOT e ? field;
    PERFORM courier.tap_type(what, field, e ->> field, scanned);
    list := list || field;
    IF field = ANY (fixed) THEN
      fit := fit || jsonb_build_object(field, e ->> field);
      CONTINUE;
    END IF;
    mapped := mapped || format('(%s)::text' || plain || ' AS %I', e ->> field, field);
    fit := fit || jsonb_build_object(field, CASE field WHEN 'topic' THEN format('courier.fit_topic(event.topic, %L)', a.name)
                                                       ELSE format('courier.fit_%s(event.%I)', field, field) END);
  END LOOP;

  IF e ? 'event_id' THEN
    type := courier.tap_type(what, 'event_id', e ->> 'event_id', scanned);
    mapped := mapped || format(CASE type WHEN 'uuid'::regtype THEN '(%s) AS event_id' ELSE '(%s)::text' || plain || ' AS event_id' END,
                               e ->> 'event_id');
    fit := fit || jsonb_build_object('event_id', CASE type
      WHEN 'uuid'::regtype THEN 'coalesce(event.event_id, gen_random_uuid())'
      ELSE format('coalesce(courier.fit_event_id(event.event_id, %L), gen_random_uuid())', a.name) END);
    list := list || 'event_id'::text;
  END IF;

  type := courier.tap_type(what, body, e ->> body, scanned);
  IF type = 'bytea'::regtype THEN
    mapped := mapped || format('(%s) AS body', e ->> body);
    fit := fit || '{"payload": "CASE WHEN event.body IS NULL THEN ''null''::json END", "data": "event.body"}';
  ELSIF body = 'data' THEN
    IF type NOT IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) THEN
      RAISE EXCEPTION '%: data is of type %, neither bytea nor text', what, type
        USING ERRCODE = 'datatype_mismatch', HINT = 'Give JSON as payload';
    END IF;
    mapped := mapped || format('convert_to((%s)::text, ''UTF8'') AS body', e ->> body);
    fit := fit || '{"payload": "CASE WHEN event.body IS NULL THEN ''null''::json END", "data": "event.body"}';
  ELSIF type IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'unknown'::regtype) THEN
    -- A text need not be JSON; then its bytes are the body.
    mapped := mapped || format('(%s)::text' || plain || ' AS body', e ->> body);
    parsed := E'\n  CROSS JOIN LATERAL (SELECT courier.try_json(event.body) AS payload OFFSET 0) AS parsed';
    fit := fit || jsonb_build_object(
      'payload', 'CASE WHEN event.body IS NULL THEN ''null''::json ELSE parsed.payload END',
      'data', 'CASE WHEN parsed.payload IS NULL THEN convert_to(event.body, ''UTF8'') END');
  ELSIF type = 'json'::regtype THEN
    mapped := mapped || format('(%s) AS body', e ->> body);
    fit := fit || '{"payload": "coalesce(event.body, ''null'')"}';
  ELSE
    mapped := mapped || format(CASE type WHEN 'jsonb'::regtype THEN '(%s)::json AS body' ELSE 'to_json(%s) AS body' END,
                               e ->> body);
    fit := fit || '{"payload": "coalesce(event.body, ''null'')"}';
  END IF;
  list := list || CASE WHEN fit ? 'data' THEN '{payload,data}' ELSE '{payload}' END::text[];

  IF e ? 'headers' THEN
    type := courier.tap_type(what, 'headers', e ->> 'headers', scanned);
    IF type = 'jsonb'::regtype THEN
      mapped := mapped || format('(%s) AS headers', e ->> 'headers');
    ELSIF type IN ('json'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'unknown'::regtype) THEN
      mapped := mapped || format('(%s)::text' || plain || ' AS headers', e ->> 'headers');
    ELSE
      RAISE EXCEPTION '%: headers are of type %, which is no JSON', what, type
        USING ERRCODE = 'datatype_mismatch', HINT = 'Make an object of them: jsonb_build_object(''name'', value)';
    END IF;
    fit := fit || '{"headers": "courier.fit_headers(event.headers)"}';
    list := list || 'headers'::text;
  END IF;
  IF e ? 'deliver_at' THEN
    type := courier.tap_type(what, 'deliver_at', e ->> 'deliver_at', scanned);
    IF type NOT IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype) THEN
      RAISE EXCEPTION '%: deliver_at is of type %, which is no time', what, type USING ERRCODE = 'datatype_mismatch';
    END IF;
    mapped := mapped || format(CASE type WHEN 'timestamptz'::regtype THEN '(%s) AS deliver_at'
                                         ELSE 'courier.fit_time((%s)::' || type || ') AS deliver_at' END, e ->> 'deliver_at');
    fit := fit || '{"deliver_at": "CASE WHEN event.deliver_at > statement_timestamp() THEN event.deliver_at END"}';
    list := list || 'deliver_at'::text;
  END IF;
  IF cardinality(a.key_columns) > 0 THEN
    mapped := mapped || (courier.tap_key(a.key_columns, row_name) || ' AS source_key');
    fit := fit || '{"source_key": "event.source_key"}';
    list := list || 'source_key'::text;
  END IF;
  list := list || 'source'::text;
  fit := fit || jsonb_build_object('source', a.id);
END
$$;
COMMENT ON FUNCTION courier.tap_values(courier.attachment, jsonb, text, text, text[])
  IS 'What the query of a tap selects for each column of courier.outbox';

-- What a tap's query selects, as text: the value of each column.
CREATE FUNCTION courier.tap_select(list text[], fit jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'SELECT ' || string_agg(fit ->> c, E',\n         ' ORDER BY n) FROM unnest(list) WITH ORDINALITY AS l (c, n)
$$;
COMMENT ON FUNCTION courier.tap_select(text[], jsonb) IS 'The list of values that the query of a tap selects';

-- The row of a row trigger, as a FROM item. PL/pgSQL keeps the plan of a query with the types that the columns of
-- NEW had at its first run. The constant makes the plan depend on the table, so that it is made anew after an
-- ALTER TABLE. It is a number, because a function that names the table would fail once the table is renamed.
CREATE FUNCTION courier.tap_new_row(a courier.attachment) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('(SELECT NEW.* WHERE %L::regclass IS NOT NULL)', a.relation::oid)
$$;
COMMENT ON FUNCTION courier.tap_new_row(courier.attachment) IS 'The row of a row trigger, as a FROM item that follows ALTER TABLE';

-- The query that makes events of rows. Its subquery evaluates the mapping once for each row; around it values
-- are made to fit. `OFFSET 0` keeps the planner from evaluating an expression twice.
CREATE FUNCTION courier.attach_query(a courier.attachment, rows text, condition text, OUT columns text, OUT query text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made record := courier.tap_values(a, a.expressions,
                   courier.attach_from(a, format('(SELECT * FROM %s LIMIT 0)', a.relation)), 'new', '{}');
BEGIN
  columns := array_to_string(made.list, ', ');
  query := format(E'%s\n  FROM (\n    SELECT %s\n    FROM %s%s\n    OFFSET 0\n  ) AS event%s',
    courier.tap_select(made.list, made.fit), array_to_string(made.mapped, E',\n           '), courier.attach_from(a, rows),
    coalesce(E'\n    WHERE ' || condition, ''), made.parsed);
END
$$;
COMMENT ON FUNCTION courier.attach_query(courier.attachment, text, text)
  IS 'The query that makes events of the rows of an attached table, and their columns in courier.outbox';

-- The primary key of a row as text.
CREATE FUNCTION courier.tap_key(columns text[], row_name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN cardinality(columns) = 1 THEN format('%s.%I::text', row_name, columns[1])
              ELSE 'json_build_array(' || string_agg(format('%s.%I::text', row_name, c), ', ' ORDER BY n) || ')::text' END
  FROM unnest(columns) WITH ORDINALITY AS list (c, n)
$$;
COMMENT ON FUNCTION courier.tap_key(text[], text) IS 'courier.outbox.source_key of a row, as an expression';

-- The columns of the primary key, or of a unique index on columns that are never NULL; empty if there is none.
CREATE FUNCTION courier.tap_key_columns(relation regclass) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((
    SELECT key.columns
    FROM pg_index AS i,
         LATERAL (SELECT array_agg(attname::text ORDER BY n) AS columns, bool_and(attnotnull) AS are_not_null
                  FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS list (attnum, n)
                  JOIN pg_attribute USING (attnum)
                  WHERE attrelid = i.indrelid AND n <= i.indnkeyatts) AS key
    WHERE i.indrelid = relation AND i.indisunique AND i.indimmediate AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL AND key.are_not_null
    ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid LIMIT 1), '{}')
$$;
COMMENT ON FUNCTION courier.tap_key_columns(regclass) IS 'The columns that tell a row of a table from all others';

-- What a mapping needs to look the same whatever the session's settings are. A mapping over columns whose types
-- have one text form needs nothing: each setting costs a microsecond a statement. A time without a zone that says
-- when to deliver, or that is the mark of 'taken', is one of the session's zone: TimeZone stays as it is then.
CREATE FUNCTION courier.attach_settings(a courier.attachment) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'SET search_path = pg_catalog, pg_temp' ||
         CASE WHEN EXISTS (SELECT FROM jsonb_each_text(a.expressions) AS e WHERE strpos(e.value, '\') > 0)
              THEN ' SET standard_conforming_strings = on' ELSE '' END ||
         CASE WHEN a.kind = 'attach' AND bool_and(coalesce(is_plain, false)) THEN '' ELSE
         CASE WHEN a.expressions ? 'deliver_at'
                   AND courier.tap_type(a.kind || ' ' || a.relation::text, 'deliver_at', a.expressions ->> 'deliver_at',
                         courier.attach_from(a, format('(SELECT * FROM %s LIMIT 0)', a.relation))) <> 'timestamptz'::regtype
                   OR a.done_when = 'taken'
                   AND EXISTS (SELECT FROM courier.set_list('done_set', a.expressions ->> 'done_set') AS mark
                               JOIN pg_attribute ON attrelid = a.relation AND attname = mark.column_name
                               WHERE is_time AND atttypid <> 'timestamptz'::regtype)
              THEN '' ELSE ' SET timezone = ''UTC''' END ||
         ' SET datestyle = ''ISO, YMD'' SET intervalstyle = ''iso_8601'''
         ' SET bytea_output = ''hex'' SET extra_float_digits = 1' END
  FROM (SELECT value FROM jsonb_each_text(a.expressions)
        WHERE key IN ('topic', 'key', 'type', 'payload', 'headers', 'event_id')
        UNION ALL SELECT quote_ident(c) FROM unnest(a.key_columns) AS c) AS used
  CROSS JOIN LATERAL (
    SELECT bool_or(is_column AND is_plain)
           -- An expression over such columns only, without what a setting could change.
           OR NOT bool_or(NOT is_plain AND strpos(used.value, attname) > 0)
              AND used.value !~* '(::|cast|new|row|now|clock|current|setting|date|time|interval|to_char|float|double|real|bytea|code)'
           AS is_plain
    FROM (SELECT attname::text, attname = used.value OR quote_ident(attname) = used.value AS is_column,
                 format_type(atttypid, NULL) IN ('uuid', 'text', 'character varying', 'character', 'json', 'jsonb',
                   'smallint', 'integer', 'bigint', 'numeric', 'boolean', 'bytea') AS is_plain
          FROM pg_attribute WHERE attrelid = a.relation AND attnum > 0 AND NOT attisdropped) AS known) AS expression
$$;
COMMENT ON FUNCTION courier.attach_settings(courier.attachment) IS 'The SET clauses of the functions of an attachment';

-- Which rows are published. With done_when 'taken' a trigger has set the mark before: a condition that names it
-- would always fail, and only a time that is older than the statement can be the application's own. It is compared
-- as precisely as the column is. While the clock of the session's zone is set back, times without a zone cannot be
-- compared; then the row is new. Without a time, the rows that have the mark are published.
CREATE FUNCTION courier.attach_condition(a courier.attachment) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH marks AS (
    SELECT column_name, is_time FROM courier.set_list('done_set', a.expressions ->> 'done_set')
    WHERE a.done_when = 'taken'
  )
  SELECT nullif(concat_ws(E'\n      AND ',
    (SELECT '(' || (a.expressions ->> 'only_if') || ')'
     WHERE NOT EXISTS (SELECT FROM marks WHERE strpos(lower(a.expressions ->> 'only_if'), lower(column_name)) > 0)),
    (SELECT string_agg(format('(new.%1$I >= statement_timestamp()::%2$s OR'
                              ' extract(timezone FROM statement_timestamp()) <> extract(timezone FROM clock_timestamp()))',
                              column_name, format_type(atttypid, atttypmod)), E'\n      AND ')
     FROM marks JOIN pg_attribute ON attrelid = a.relation AND attname = column_name WHERE is_time),
    (SELECT 'NOT (' || courier.unmarked_condition(a.expressions ->> 'done_set', 'new') || ')'
     WHERE EXISTS (SELECT FROM marks) AND NOT EXISTS (SELECT FROM marks WHERE is_time))), '')
$$;
COMMENT ON FUNCTION courier.attach_condition(courier.attachment) IS 'Which rows of an attached table are published';

-- One generated function, as statements: it belongs to the current role, and PUBLIC may not call it.
CREATE FUNCTION courier.tap_function(name text, suffix text, arguments text, returns text, settings text, body text)
RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY[
    format(E'CREATE OR REPLACE FUNCTION courier_tap.%I%s RETURNS %s\nLANGUAGE plpgsql SECURITY DEFINER %s AS %L',
           name || '_' || suffix, arguments, returns, settings,
           format(E'\n-- Made for the tap %s. To be read, not edited: courier.recompile(%L) makes it anew.\n%s', name, name, body)),
    format('REVOKE ALL ON FUNCTION courier_tap.%I%s FROM PUBLIC', name || '_' || suffix,
           regexp_replace(arguments, '\w+ (\w+\[?\]?)', '\1', 'g'))]
$$;
COMMENT ON FUNCTION courier.tap_function(text, text, text, text, text, text)
  IS 'The statements that make one function of a tap';

-- The trigger that feeds the outbox when rows are inserted (or updated), and what it calls.
CREATE FUNCTION courier.attach_feed(a courier.attachment) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_row boolean := a.level = 'row';
  made   text[] := '{}';
  op     text;
  feed   record;
BEGIN
  feed := courier.attach_query(a, CASE WHEN is_row THEN courier.tap_new_row(a) ELSE 'new_rows' END, courier.attach_condition(a));
  FOREACH op IN ARRAY a.ops LOOP
    made := made || courier.tap_function(a.name, op, '()', 'trigger', courier.attach_settings(a),
      format(E'#variable_conflict use_column\nBEGIN\n  INSERT INTO courier.outbox (%s)\n  %s;\n  RETURN NULL;\nEND\n',
             feed.columns, feed.query));
    made := made || format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s %s EXECUTE FUNCTION courier_tap.%I()',
      'courier_' || a.name || '_' || op, upper(op), a.relation,
      CASE WHEN is_row THEN 'FOR EACH ROW' ELSE 'REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT' END,
      a.name || '_' || op);
  END LOOP;
  RETURN made;
END
$$;
COMMENT ON FUNCTION courier.attach_feed(courier.attachment) IS 'The statements that make the triggers of an attachment';

-- With done_when 'taken': the trigger that marks a row before it is inserted, so that a relay inside the
-- application finds nothing to send.
CREATE FUNCTION courier.attach_take(a courier.attachment) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT courier.tap_function(a.name, 'take', '()', 'trigger', courier.attach_settings(a),
    format(E'#variable_conflict use_column\nBEGIN\n  IF (SELECT %s FROM %s AS new) THEN\n%s  END IF;\n  RETURN NEW;\nEND\n',
      coalesce(a.expressions ->> 'only_if', 'true'), courier.tap_new_row(a),
      string_agg(CASE WHEN is_time THEN format(E'    NEW.%I := clock_timestamp();\n', column_name)
                      ELSE format(E'    NEW.%I := (SELECT %s FROM %s AS new);\n', column_name, value,
                                  courier.tap_new_row(a)) END, '')))
    || format('CREATE OR REPLACE TRIGGER %I BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION courier_tap.%I()',
              'courier_' || a.name || '_take', a.relation, a.name || '_take')
  FROM courier.set_list('done_set', a.expressions ->> 'done_set')
$$;
COMMENT ON FUNCTION courier.attach_take(courier.attachment) IS 'The statements that make the trigger of done_when ''taken''';

-- For the relay: what marks or deletes the rows of delivered events. It leaves alone what another session has
-- locked, and returns the keys of those rows.
CREATE FUNCTION courier.attach_mark(a courier.attachment) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_delete boolean := a.done = 'delete';
  matches   text := (SELECT string_agg(format('row.%I = %s::%s', attname,
                       CASE WHEN cardinality(a.key_columns) = 1 THEN 'asked.source_key'
                            ELSE format('(asked.source_key::json ->> %s)', n - 1) END,
                       format_type(atttypid, atttypmod)), ' AND ' ORDER BY n) -- character without a length is one letter
                     FROM unnest(a.key_columns) WITH ORDINALITY AS key (name, n)
                     JOIN pg_attribute ON attrelid = a.relation AND attname = key.name);
  -- Rows of a table that inherits from it are not its own, and may have the same keys.
  target    text := (SELECT CASE relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || a.relation::text FROM pg_class WHERE oid = a.relation);
  change    text;
  parts     text := '';
  is_dead   text;
  unmarked  text;
  set_list  text;
BEGIN
  FOREACH is_dead IN ARRAY CASE WHEN a.expressions ? 'dead_set' THEN '{false,true}' ELSE '{any}' END::text[] LOOP
    set_list := a.expressions ->> CASE WHEN is_dead = 'true' THEN 'dead_set' ELSE 'done_set' END;
    unmarked := CASE WHEN NOT is_delete THEN courier.unmarked_condition(a.expressions ->> 'done_set', 'row') END;
    IF is_dead <> 'any' AND NOT is_delete THEN -- neither mark may follow the other
      unmarked := concat_ws(') AND (', unmarked, courier.unmarked_condition(a.expressions ->> 'dead_set', 'row'));
    END IF;
    change := CASE WHEN is_delete THEN format('DELETE FROM %s AS row USING', target)
                   ELSE format('UPDATE %s AS row SET %s FROM', target, set_list) END;
    parts := parts || format(CASE is_dead WHEN 'true' THEN E'\n  IF true = ANY (%7$I.are_dead) THEN' ELSE '' END || $body$
  tap.free := ARRAY(
    SELECT asked.source_key
    FROM unnest(%7$I.keys, %7$I.are_dead) AS asked (source_key, is_dead)
    JOIN %1$s AS row ON %2$s
    WHERE %3$s%4$s
    FOR %5$s OF row SKIP LOCKED);
  %6$s unnest(tap.free) AS asked (source_key)
  WHERE %2$s;
  IF cardinality(tap.free) < cardinality(%7$I.keys) THEN
    tap.locked := tap.locked || ARRAY(
      SELECT asked.source_key
      FROM unnest(%7$I.keys, %7$I.are_dead) AS asked (source_key, is_dead)
      JOIN %1$s AS row ON %2$s
      WHERE %3$s%4$s AND asked.source_key <> ALL (tap.free));
  END IF;
$body$ || CASE is_dead WHEN 'true' THEN E'  END IF;\n' ELSE '' END, target, matches,
      CASE is_dead WHEN 'any' THEN 'true' WHEN 'true' THEN 'asked.is_dead' ELSE 'NOT asked.is_dead' END,
      coalesce(' AND (' || unmarked || ')', ''), CASE WHEN is_delete THEN 'UPDATE' ELSE 'NO KEY UPDATE' END, change, a.name || '_mark');
  END LOOP;
  RETURN courier.tap_function(a.name, 'mark', '(keys text[], are_dead boolean[])', 'text[]', courier.attach_settings(a),
      format(E'#variable_conflict use_column\n<<tap>>\nDECLARE\n  free   text[];\n  locked text[] := ''{}'';\nBEGIN%s  RETURN tap.locked;\nEND\n', parts))
    || format('GRANT EXECUTE ON FUNCTION courier_tap.%I(text[], boolean[]) TO courier_relay', a.name || '_mark');
END
$$;
COMMENT ON FUNCTION courier.attach_mark(courier.attachment) IS 'The statements that make the function that marks rows';

-- What tells, in the role of the table's owner and without a row, whether the queries of a tap still compile.
CREATE FUNCTION courier.attach_check(a courier.attachment) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  none  text := format('(SELECT * FROM %s LIMIT 0)', a.relation);
  feed  record;
  marks text;
BEGIN
  feed := courier.attach_query(a, none, courier.attach_condition(a));
  SELECT string_agg(format(E'  PERFORM row.%I, %s FROM %s AS row;\n', column_name, value, none), '') INTO marks
  FROM (SELECT * FROM courier.set_list('done_set', a.expressions ->> 'done_set')
        UNION ALL SELECT * FROM courier.set_list('dead_set', a.expressions ->> 'dead_set')) AS list;
  marks := concat(marks, (
    SELECT string_agg(format(E'  PERFORM FROM %s AS row WHERE %s;\n', none, unmarked), '')
    FROM (SELECT courier.unmarked_condition(a.expressions ->> 'done_set', 'row')
          UNION ALL SELECT courier.unmarked_condition(a.expressions ->> 'dead_set', 'row')) AS list (unmarked)
    WHERE unmarked IS NOT NULL));
  RETURN courier.tap_function(a.name, 'check', '()', 'void', courier.attach_settings(a),
      format(E'#variable_conflict use_column\nBEGIN\n  PERFORM * FROM (%s) AS events;\n%sEND\n', feed.query, coalesce(marks, '')))
    || format('GRANT EXECUTE ON FUNCTION courier_tap.%I() TO courier_relay, courier_attacher', a.name || '_check');
END
$$;
COMMENT ON FUNCTION courier.attach_check(courier.attachment) IS 'The statements that make the function that compiles a tap';

CREATE FUNCTION courier.attach_statements(a courier.attachment) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT courier.attach_feed(a)
         || CASE WHEN a.done_when = 'taken' THEN courier.attach_take(a) ELSE '{}' END
         || CASE WHEN a.has_marks THEN courier.attach_mark(a) ELSE '{}' END
         || courier.attach_check(a)
$$;
COMMENT ON FUNCTION courier.attach_statements(courier.attachment) IS 'All statements that make an attachment';

-- The names of the triggers that a tap should have.
CREATE FUNCTION courier.tap_triggers(a courier.attachment) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT array_agg('courier_' || a.name || '_' || suffix ORDER BY suffix)
  FROM unnest(a.ops || CASE WHEN a.done_when = 'taken' THEN '{take}' ELSE '{}' END::text[]) AS suffix
$$;
COMMENT ON FUNCTION courier.tap_triggers(courier.attachment) IS 'The names of the triggers of a tap';

-- The functions of a tap, as far as they are there.
CREATE FUNCTION courier.tap_functions(a courier.attachment) RETURNS SETOF regprocedure
LANGUAGE sql STABLE ROWS 4 SET search_path = pg_catalog, pg_temp AS $$
  SELECT oid::regprocedure FROM pg_proc
  WHERE pronamespace = 'courier_tap'::regnamespace
    AND proname = ANY (ARRAY(SELECT a.name || '_' || suffix
                             FROM unnest('{insert,update,delete,truncate,take,mark,check}'::text[]) AS suffix))
  ORDER BY proname
$$;
COMMENT ON FUNCTION courier.tap_functions(courier.attachment) IS 'The generated functions of a tap';

-- What can be told of taps from the catalogs alone, of all of them at once: relays ask every few seconds.
-- hash: of what the tap consists of now; another one than attachment.body_hash if it was edited.
CREATE FUNCTION courier.tap_states(only_id integer DEFAULT NULL)
RETURNS TABLE (id integer, state text, detail text, remedy text, hash text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT a.id, verdict.state,
         CASE verdict.state
           WHEN 'table_gone' THEN format('the table %s was dropped', a.relation_name)
           WHEN 'trigger_missing' THEN format('%s has no trigger %s', a.relation, triggers.missing)
           WHEN 'disabled' THEN format('on %s this trigger does not fire: %s', a.relation, triggers.stopped)
           WHEN 'now_a_partition' THEN
             format('%s has become a partition, and its trigger is silent when its parent is written', a.relation)
           WHEN 'edited' THEN CASE WHEN a.relation_name <> a.relation::text
             THEN format('the functions of %s are of the time when the table was called %s', a.name, a.relation_name)
             ELSE format('the functions or triggers of %s are not as they were made', a.name) END END,
         CASE verdict.state
           WHEN 'ok' THEN NULL
           WHEN 'table_gone' THEN format('SELECT courier.detach(%L)', a.name)
           WHEN 'disabled' THEN format('ALTER TABLE %s %s', a.relation, triggers.enabling)
           ELSE format('SELECT courier.recompile(%L)', a.name) END,
         found.hash
  FROM courier.attachment AS a
  LEFT JOIN pg_class AS class ON class.oid = a.relation
  CROSS JOIN LATERAL (
    SELECT string_agg(wanted, ', ' ORDER BY n) FILTER (WHERE tgname IS NULL) AS missing,
           string_agg(wanted, ', ' ORDER BY n) FILTER (WHERE tgenabled IN ('D', 'R')) AS stopped,
           string_agg(format('ENABLE TRIGGER %I', wanted), ', ' ORDER BY n) FILTER (WHERE tgenabled IN ('D', 'R')) AS enabling,
           string_agg(concat_ws(E'\n', tgname, tgfoid::regproc, tgtype, tgqual IS NULL, tgnewtable, tgoldtable,
                                tgenabled = 'A'), E'\n' ORDER BY tgname) FILTER (WHERE tgname IS NOT NULL) AS text
    FROM unnest(courier.tap_triggers(a)) WITH ORDINALITY AS list (wanted, n)
    LEFT JOIN pg_trigger ON tgrelid = a.relation AND tgname = wanted) AS triggers
  CROSS JOIN LATERAL (
    SELECT string_agg(concat_ws(E'\n', proname, prosrc, prosecdef, proconfig), E'\n' ORDER BY proname) AS text
    FROM courier.tap_functions(a) AS made
    JOIN pg_proc ON pg_proc.oid = made) AS functions
  CROSS JOIN LATERAL (
    SELECT encode(sha256(convert_to(concat(functions.text, triggers.text), 'UTF8')), 'hex') AS hash) AS found
  CROSS JOIN LATERAL (
    SELECT CASE WHEN class.oid IS NULL THEN 'table_gone'
                WHEN triggers.missing IS NOT NULL THEN 'trigger_missing'
                WHEN a.relation_name <> a.relation::text THEN 'edited'
                WHEN triggers.stopped IS NOT NULL THEN 'disabled'
                WHEN a.level = 'statement' AND (class.relispartition OR class.relkind = 'p') THEN 'now_a_partition'
                WHEN found.hash <> a.body_hash THEN 'edited'
                ELSE 'ok' END AS state) AS verdict
  WHERE only_id IS NULL OR a.id = only_id;
END
$$;
COMMENT ON FUNCTION courier.tap_states(integer)
  IS 'Of all taps, or of one: ok, table_gone, trigger_missing, disabled, now_a_partition or edited; what that means, and what helps';

-- For people. Of a tap that was detached no more is known than its number.
CREATE FUNCTION courier.tap_table(id integer) RETURNS text
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT CASE WHEN EXISTS (SELECT FROM pg_class WHERE oid = a.relation) THEN a.relation::text
                               ELSE a.relation_name END
                   FROM courier.attachment AS a WHERE a.id = tap_table.id),
                  'tap ' || id)
$$;
COMMENT ON FUNCTION courier.tap_table(integer) IS 'The table that feeds a tap, by courier.outbox.source';

CREATE FUNCTION courier.tap_column_names(relation regclass) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(attnum, attname), '{}') FROM pg_attribute
  WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
$$;
COMMENT ON FUNCTION courier.tap_column_names(regclass) IS 'The names of a table''s columns, by their numbers';

-- Makes the functions and triggers of a tap, in the current role, and notes what they are. What would fail in the
-- next write of the table fails here.
CREATE FUNCTION courier.tap_make(a courier.attachment) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  statements text[];
  statement  text;
  foreign_   text;
BEGIN
  SELECT string_agg(format('%s (of %s)', made, pg_get_userbyid(proowner)), ', ') INTO foreign_
  FROM courier.tap_functions(a) AS made JOIN pg_proc ON oid = made WHERE pg_get_userbyid(proowner) <> current_user;
  IF foreign_ IS NOT NULL THEN -- CREATE OR REPLACE would leave them to that role, which could replace them again
    RAISE EXCEPTION 'tap %: another role has made functions of its names: %', a.name, foreign_
      USING ERRCODE = 'duplicate_function', HINT = 'Give the tap another name, or drop them';
  END IF;
  EXECUTE format('SELECT courier.%I($1)', a.kind || '_statements') INTO statements USING a;
  FOREACH statement IN ARRAY statements LOOP
    EXECUTE statement;
  END LOOP;
  EXECUTE format('SELECT courier_tap.%I()', a.name || '_check');
  UPDATE courier.attachment AS made
  SET body_hash = (SELECT s.hash FROM courier.tap_states(a.id) AS s),
      column_names = courier.tap_column_names(made.relation)
  WHERE made.id = a.id;
END
$$;
COMMENT ON FUNCTION courier.tap_make(courier.attachment) IS 'Makes the functions and triggers of a tap';

CREATE FUNCTION courier.tap_drop(a courier.attachment) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  trigger  name;
  function regprocedure;
BEGIN
  FOR trigger IN SELECT tgname FROM pg_trigger
                 WHERE tgrelid = a.relation AND tgfoid IN (SELECT * FROM courier.tap_functions(a)) LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', trigger, a.relation);
  END LOOP;
  FOR function IN SELECT * FROM courier.tap_functions(a) LOOP
    EXECUTE format('DROP FUNCTION %s', function);
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.tap_drop(courier.attachment) IS 'Drops the functions and triggers of a tap';

-- Takes the lock that CREATE TRIGGER needs, or gives up: writers queue behind a lock that is waited for.
CREATE FUNCTION courier.tap_lock(relation regclass, mode text, at_most interval, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former text := current_setting('lock_timeout');
BEGIN
  IF at_most IS NULL OR at_most NOT BETWEEN '1 ms' AND '1 day' THEN
    RAISE EXCEPTION '%: lock_timeout is %, which is not between 1 ms and 1 day', what, quote_nullable(at_most::text)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM set_config('lock_timeout', ceil(extract(epoch FROM at_most) * 1000)::text, true);
  EXECUTE format('LOCK TABLE %s IN %s MODE', relation, mode);
  PERFORM set_config('lock_timeout', former, true);
EXCEPTION
  WHEN lock_not_available THEN
    RAISE EXCEPTION '%: other sessions use %, so that no trigger can be made or dropped; gave up after %', what, relation, at_most
      USING ERRCODE = 'lock_not_available',
            HINT = 'Nothing was changed. Try again, at a quieter time, or with a longer lock_timeout: writers wait meanwhile';
END
$$;
COMMENT ON FUNCTION courier.tap_lock(regclass, text, interval, text) IS 'Locks a table for a change of its triggers, or gives up';

-- The layout of a table, by its columns; NULL: none fits.
CREATE FUNCTION courier.detect_layout(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT name FROM courier.layout
  WHERE needs <@ ARRAY(SELECT attname::text FROM pg_attribute
                       WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped)
  ORDER BY cardinality(needs) DESC, name LIMIT 1
$$;
COMMENT ON FUNCTION courier.detect_layout(regclass) IS 'The layout that fits the columns of a table; NULL: none';

-- By what existing rows are ordered: a number that rows draw, or the time at which they were made.
CREATE FUNCTION courier.tap_order(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((
    SELECT quote_ident(attname) || ', ctid'
    FROM pg_attribute AS a
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped
      AND (attidentity <> '' OR pg_get_expr(adbin, adrelid) LIKE 'nextval(%'
           OR atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype)
              AND attname ~* '(creat|insert|enqueue|queued|occur|added)')
    ORDER BY atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype), attnum LIMIT 1), 'ctid')
$$;
COMMENT ON FUNCTION courier.tap_order(regclass) IS 'The ORDER BY of the rows that a table has already';

-- The mapping of an attachment: what was given, and else what the layout says. Of a layout, what the table
-- lacks the columns for is left out.
CREATE FUNCTION courier.attach_mapping(relation regclass, what text, layout text, given jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  class  pg_class;
  known  courier.layout;
  e      jsonb := '{}';
  field  text;
  lacks  text;
BEGIN
  SELECT * INTO class FROM pg_class WHERE oid = relation;
  IF layout IS NOT NULL THEN
    SELECT * INTO known FROM courier.layout AS l WHERE l.name = layout;
    IF NOT FOUND THEN
      RAISE EXCEPTION '%: there is no layout %', what, quote_literal(layout)
        USING ERRCODE = 'invalid_parameter_value',
              DETAIL = 'There are: ' || (SELECT string_agg(l.name, ', ' ORDER BY l.name) FROM courier.layout AS l),
              HINT = 'SELECT * FROM courier.layout, or give topic, and payload or data';
    END IF;
    SELECT string_agg(c, ', ' ORDER BY n) INTO lacks FROM unnest(known.needs) WITH ORDINALITY AS needed (c, n)
    WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attname = c);
    IF lacks IS NOT NULL THEN
      RAISE EXCEPTION '%: layout % needs columns that the table lacks: %', what, layout, lacks
        USING ERRCODE = 'undefined_column', HINT = format('SELECT courier.detect_layout(%L)', relation);
    END IF;
    e := jsonb_strip_nulls(to_jsonb(known)) - '{name,needs,done,remark}'::text[];
    FOREACH field IN ARRAY '{type,headers,event_id,deliver_at}'::text[] LOOP
      BEGIN
        IF e ? field AND NOT given ? field THEN
          PERFORM courier.tap_type(what, field, e ->> field, format('(SELECT * FROM %s LIMIT 0) AS new', relation));
        END IF;
      EXCEPTION
        WHEN undefined_column THEN
          e := e - field;
      END;
    END LOOP;
  END IF;
  IF given ?| '{payload,data}' THEN
    e := e - '{payload,data}'::text[];
  END IF;
  e := e || given;
  IF NOT e ? 'topic' OR (e ? 'payload') = (e ? 'data') THEN
    RAISE EXCEPTION '%: %', what, CASE
        WHEN NOT e ? 'topic' AND layout IS NULL AND NOT e ?| '{payload,data}'
          THEN 'its columns fit no layout, and no mapping is given'
        WHEN NOT e ? 'topic' THEN 'no topic is given'
        WHEN e ? 'data' THEN 'payload and data are given, and an event has one body'
        ELSE 'neither payload nor data is given' END
      USING ERRCODE = 'invalid_parameter_value',
            DETAIL = 'Its columns: ' || (SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
                                         WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped),
            HINT = 'Name a layout (SELECT * FROM courier.layout), or give expressions over these columns: '
                   'topic => ''aggregate_type'', payload => ''body''';
  END IF;
  -- {{table}} is the table's name, as a text.
  SELECT jsonb_object_agg(key, replace(value, '{{table}}', quote_literal(class.relname))) INTO e FROM jsonb_each_text(e);
  RETURN e;
END
$$;
COMMENT ON FUNCTION courier.attach_mapping(regclass, text, text, jsonb) IS 'The expressions of an attachment';

-- Publishes the rows that are there already and are still to be published; how many. They must not be sent by
-- the application's own relay as well: with done_when 'taken' they are marked at once.
CREATE FUNCTION courier.attach_existing(a courier.attachment) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  pending text := coalesce(a.expressions ->> 'only_if', courier.unmarked_condition(a.expressions ->> 'done_set', 'new'));
  feed    record;
  n       bigint;
BEGIN
  feed := courier.attach_query(a, format('(SELECT * FROM %s ORDER BY %s)', a.relation, courier.tap_order(a.relation)), pending);
  EXECUTE format('INSERT INTO courier.outbox (%s) %s', feed.columns, feed.query);
  GET DIAGNOSTICS n = ROW_COUNT;
  IF a.done_when = 'taken' THEN
    EXECUTE format('UPDATE %s AS new SET %s%s', a.relation, a.expressions ->> 'done_set', coalesce(' WHERE ' || pending, ''));
  END IF;
  RETURN n;
END
$$;
COMMENT ON FUNCTION courier.attach_existing(courier.attachment) IS 'Publishes the rows that an attached table has already';

-- Attaches an outbox table that an application has already: from the commit on, each row that is inserted is
-- an event, in the same transaction. The application goes on as before. Returns the name of the tap.
--
--   SELECT courier.attach('public.outbox');
--   SELECT courier.attach('public.outbox_messages', topic => '''shop.'' || topic', payload => 'payload', key => 'key');
--
--   relation     an ordinary or a partitioned table; the caller may act as its owner, and that owner is a member
--                of courier_attacher. Expressions run with that owner's rights
--   layout       a name of courier.layout; by default the one that fits the columns
--   name         of the tap: small letters, digits, underscores; by default from that of the table
--   topic, key, type, payload, data, headers, event_id, deliver_at
--                what an event is made of, as SQL expressions over the columns of a row; they replace those of
--                the layout. payload is JSON, or a text (sent as bytes if it is no JSON), or bytes; data is
--                bytes; event_id is a uuid, or something a uuid is made of. What would not fit courier.outbox
--                is made to fit: no INSERT fails that did not fail before
--   only_if      a condition: other rows are no events
--   each         a FROM item that makes several rows of one, such as jsonb_array_elements(operations) AS op
--   ops          {insert}, or {insert,update} if an UPDATE publishes, too
--   done         keep the rows; mark them, by done_set; or delete them. By default as the layout says
--   done_set     the SET list of the mark, such as 'processed_at = now()'
--   dead_set     the same for an event that a sink gave up; by default done_set
--   done_when    'delivered': when all sinks that take the event have passed it; 'taken': within the INSERT, so
--                that a relay inside the application finds nothing to send
--   done_after   the sinks that count for 'delivered'; by default all that take the event
--   existing     'skip': rows that are there already are no events; 'publish': those that meet only_if are,
--                with none missing and none twice, however many sessions write meanwhile
--   lock_timeout how long to wait for writers, who wait meanwhile; then it fails, and nothing is changed
--
-- Errors: wrong_object_type, insufficient_privilege, lock_not_available, invalid_parameter_value, and those of
-- an expression that does not compile.
CREATE FUNCTION courier.attach(
  relation     regclass,
  layout       text     DEFAULT NULL,
  name         text     DEFAULT NULL,
  topic        text     DEFAULT NULL,
  key          text     DEFAULT NULL,
  type         text     DEFAULT NULL,
  payload      text     DEFAULT NULL,
  data         text     DEFAULT NULL,
  headers      text     DEFAULT NULL,
  event_id     text     DEFAULT NULL,
  deliver_at   text     DEFAULT NULL,
  only_if      text     DEFAULT NULL,
  each         text     DEFAULT NULL,
  ops          text[]   DEFAULT '{insert}',
  done         text     DEFAULT NULL,
  done_set     text     DEFAULT NULL,
  dead_set     text     DEFAULT NULL,
  done_when    text     DEFAULT 'delivered',
  done_after   text[]   DEFAULT NULL,
  existing     text     DEFAULT 'skip',
  lock_timeout interval DEFAULT '2 s'
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  what   text := 'attach ' || coalesce(relation::text, 'NULL');
  owner  name := courier.tap_owner(relation, what);
  a      courier.attachment;
  n      bigint;
BEGIN
  IF owner <> current_user THEN
    RETURN courier.tap_as(owner, courier.tap_call('attach', relation::oid::text, layout, name, topic, key, type, payload, data,
      headers, event_id, deliver_at, only_if, each, ops::text, done, done_set, dead_set, done_when, done_after::text,
      existing, lock_timeout::text));
  ELSIF existing IS NULL OR existing NOT IN ('skip', 'publish') THEN
    RAISE EXCEPTION '%: existing is %, neither skip nor publish', what, quote_nullable(existing) USING ERRCODE = 'invalid_parameter_value';
  ELSIF existing = 'publish' AND current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION '%: existing rows can only be published in isolation level read committed', what
      USING ERRCODE = 'invalid_transaction_state', HINT = 'Begin the transaction with: BEGIN ISOLATION LEVEL READ COMMITTED';
  ELSIF existing = 'publish' AND row_security_active(relation) THEN
    RAISE EXCEPTION '%: row-level security applies to its owner, %, so existing rows could be missed', what, owner
      USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('In one transaction: ALTER TABLE %s NO FORCE ROW LEVEL SECURITY, attach it, and FORCE it again', relation);
  END IF;
  a := courier.attach_plan(relation, layout, name, topic, key, type, payload, data, headers, event_id, deliver_at,
                           only_if, each, ops, done, done_set, dead_set, done_when, done_after);
  PERFORM courier.tap_lock(relation, 'SHARE ROW EXCLUSIVE', lock_timeout, what);
  INSERT INTO courier.attachment AS made (name, kind, relation, relation_name, layout, expressions, ops, level, done,
                                          done_when, done_after, key_columns, body_hash)
  VALUES (a.name, a.kind, a.relation, a.relation_name, a.layout, a.expressions, a.ops, a.level,
          a.done, a.done_when, a.done_after, a.key_columns, '')
  RETURNING * INTO a;
  PERFORM courier.tap_make(a);
  IF a.has_marks THEN
    PERFORM courier.begin_marks();
  END IF;
  IF existing = 'publish' THEN
    n := courier.attach_existing(a);
    RAISE NOTICE '%: rows that were there already and are published: %', what, n;
  END IF;
  RETURN a.name;
END
$$;
COMMENT ON FUNCTION courier.attach(regclass, text, text, text, text, text, text, text, text, text, text, text, text,
                                   text[], text, text, text, text, text[], text, interval)
  IS 'Makes events of the rows that are inserted into an application''s outbox table; returns the name of the tap';

-- What courier.attach() makes of these arguments: with the layout that fits, and all expressions. It refuses
-- what cannot be attached, and takes no lock.
CREATE FUNCTION courier.attach_plan(
  relation regclass, layout text DEFAULT NULL, name text DEFAULT NULL, topic text DEFAULT NULL, key text DEFAULT NULL,
  type text DEFAULT NULL, payload text DEFAULT NULL, data text DEFAULT NULL, headers text DEFAULT NULL,
  event_id text DEFAULT NULL, deliver_at text DEFAULT NULL, only_if text DEFAULT NULL, each text DEFAULT NULL,
  ops text[] DEFAULT '{insert}', done text DEFAULT NULL, done_set text DEFAULT NULL, dead_set text DEFAULT NULL,
  done_when text DEFAULT 'delivered', done_after text[] DEFAULT NULL
) RETURNS courier.attachment
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  what    text := 'attach ' || coalesce(relation::text, 'NULL');
  owner   name := courier.tap_owner(relation, what);
  a       courier.attachment;
  class   pg_class;
  marked  text;
  unknown text;
BEGIN
  IF owner <> current_user THEN
    RETURN courier.tap_as(owner, courier.tap_call('attach_plan', relation::oid::text, layout, name, topic, key, type, payload,
      data, headers, event_id, deliver_at, only_if, each, ops::text, done, done_set, dead_set, done_when,
      done_after::text))::courier.attachment;
  END IF;
  SELECT * INTO class FROM pg_class AS c WHERE c.oid = relation;
  IF EXISTS (SELECT FROM courier.attachment AS other WHERE other.relation = attach_plan.relation AND other.kind = 'attach') THEN
    RAISE EXCEPTION '%: it is attached already, as %', what,
        (SELECT other.name FROM courier.attachment AS other WHERE other.relation = attach_plan.relation AND other.kind = 'attach')
      USING ERRCODE = 'duplicate_object', HINT = 'To change it, detach it first, in the same transaction: SELECT courier.detach(NAME)';
  ELSIF ops IS NULL OR NOT 'insert' = ANY (ops) OR NOT ops <@ '{insert,update}' THEN
    RAISE EXCEPTION '%: ops are %, neither {insert} nor {insert,update}', what, quote_nullable(ops::text)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF done NOT IN ('keep', 'mark', 'delete') THEN
    RAISE EXCEPTION '%: done is %, none of keep, mark and delete', what, quote_literal(done) USING ERRCODE = 'invalid_parameter_value';
  ELSIF done_when IS NULL OR done_when NOT IN ('delivered', 'taken') THEN
    RAISE EXCEPTION '%: done_when is %, neither delivered nor taken', what, quote_nullable(done_when)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF done <> 'mark' AND num_nonnulls(done_set, dead_set) > 0 THEN
    RAISE EXCEPTION '%: % says how rows are marked, and done is %', what,
        CASE WHEN done_set IS NULL THEN 'dead_set' ELSE 'done_set' END, quote_literal(done)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give done => ''mark'', or leave it out';
  ELSIF cardinality(done_after) = 0 OR array_position(done_after, NULL) IS NOT NULL THEN
    RAISE EXCEPTION '%: done_after is %, which is no list of sinks', what, quote_literal(done_after::text)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave it out if all sinks count that take the event';
  END IF;

  IF layout IS NULL AND (topic IS NULL OR num_nonnulls(payload, data) = 0) THEN
    layout := courier.detect_layout(relation);
  END IF;
  a.expressions := courier.attach_mapping(relation, what, layout, jsonb_strip_nulls(jsonb_build_object(
    'topic', topic, 'key', key, 'type', type, 'payload', payload, 'data', data, 'headers', headers,
    'event_id', event_id, 'deliver_at', deliver_at, 'only_if', only_if, 'each', each,
    'done_set', done_set, 'dead_set', dead_set)));
  a.done := coalesce(done, CASE WHEN done_when = 'taken' OR done_set IS NOT NULL THEN 'mark' END,
                     (SELECT l.done FROM courier.layout AS l WHERE l.name = layout), 'keep');
  IF a.done <> 'mark' THEN
    a.expressions := a.expressions - '{done_set,dead_set}'::text[];
  END IF;
  a.kind := 'attach';
  a.name := courier.tap_name(relation, name);
  a.relation := relation;
  a.relation_name := relation::text;
  a.layout := layout;
  a.ops := ARRAY(SELECT op FROM unnest('{insert,update}'::text[]) AS op WHERE op = ANY (ops));
  a.level := CASE WHEN class.relkind = 'p' OR class.relispartition THEN 'row' ELSE 'statement' END;
  a.done_when := done_when;
  a.done_after := done_after;
  a.key_columns := courier.tap_key_columns(relation);
  a.has_marks := a.done <> 'keep' AND done_when = 'delivered';
  IF NOT a.expressions ?| '{event_id,each}' AND cardinality(a.key_columns) = 1 THEN
    a.expressions := a.expressions || jsonb_build_object('event_id', quote_ident(a.key_columns[1]));
  END IF;

  BEGIN
    EXECUTE format('SELECT FROM %s LIMIT 0', courier.attach_from(a, format('(SELECT * FROM %s LIMIT 0)', relation)));
  EXCEPTION
    WHEN others THEN
      RAISE EXCEPTION '%: each does not compile: %', what, sqlerrm
        USING ERRCODE = sqlstate, DETAIL = format('each: %s', each),
              HINT = 'Write a FROM item with a name: jsonb_array_elements(operations) AS op';
  END;
  IF a.expressions ? 'only_if' AND courier.tap_type(what, 'only_if', a.expressions ->> 'only_if',
       courier.attach_from(a, format('(SELECT * FROM %s LIMIT 0)', relation))) <> 'boolean'::regtype THEN
    RAISE EXCEPTION '%: only_if is no condition', what
      USING ERRCODE = 'datatype_mismatch', DETAIL = a.expressions ->> 'only_if', HINT = 'Write it like: processed_at IS NULL';
  ELSIF a.done = 'mark' AND NOT a.expressions ? 'done_set' THEN
    RAISE EXCEPTION '%: no done_set is given, so rows cannot be marked', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write it like the SET of an UPDATE: done_set => ''processed_at = now()''';
  ELSIF done_when = 'taken' AND a.done <> 'mark' THEN
    RAISE EXCEPTION '%: done_when ''taken'' needs done ''mark'', and done is %', what, quote_literal(a.done)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF done_when = 'taken' AND 'update' = ANY (ops) THEN
    RAISE EXCEPTION '%: done_when ''taken'' marks rows that are inserted, and ops are {insert,update}', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give ops => ''{insert}'', or done_when => ''delivered''';
  ELSIF a.has_marks AND cardinality(a.key_columns) = 0 THEN
    RAISE EXCEPTION '%: it has no primary key, so its rows cannot be marked or deleted', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Add a primary key, or attach it with done => ''keep''';
  ELSIF done_after IS NOT NULL AND NOT a.has_marks THEN
    RAISE EXCEPTION '%: done_after names sinks, but the relay does not mark its rows', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give done => ''mark'', or leave it out';
  ELSIF 'update' = ANY (ops) AND a.done = 'mark' AND NOT a.expressions ? 'only_if' THEN
    RAISE EXCEPTION '%: with ops {insert,update} each mark would be an event', what
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give only_if, which the mark makes false: only_if => ''processed_at IS NULL''';
  END IF;
  FOREACH marked IN ARRAY ARRAY['done_set', 'dead_set'] LOOP
    CONTINUE WHEN NOT a.expressions ? marked;
    PERFORM courier.set_list(what, a.expressions ->> marked);
    BEGIN
      EXECUTE format('EXPLAIN UPDATE %s AS row SET %s WHERE false', relation, a.expressions ->> marked);
    EXCEPTION
      WHEN others THEN
        RAISE EXCEPTION '%: % does not compile: %', what, marked, sqlerrm
          USING ERRCODE = sqlstate, DETAIL = format('%s: %s', marked, a.expressions ->> marked);
    END;
  END LOOP;
  SELECT string_agg(named, ', ' ORDER BY n) INTO unknown FROM unnest(done_after) WITH ORDINALITY AS list (named, n)
  WHERE NOT EXISTS (SELECT FROM courier.cursor WHERE sink = named);
  IF unknown IS NOT NULL THEN
    RAISE NOTICE '%: done_after names sinks that no relay has served here yet: %', what, unknown;
  END IF;
  IF a.has_marks AND row_security_active(relation) THEN
    RAISE NOTICE '%: row-level security applies to its owner, %: rows that a policy hides from it are not marked', what, owner;
  END IF;
  IF done_when = 'taken' AND NOT EXISTS (SELECT FROM courier.set_list(what, a.expressions ->> 'done_set') WHERE is_time) THEN
    RAISE NOTICE '%: done_set sets no time, so rows that are inserted as done already cannot be told: they are events, too', what;
  END IF;

  PERFORM courier.attach_query(a, format('(SELECT * FROM %s LIMIT 0)', relation), NULL);
  RETURN a;
END
$$;
COMMENT ON FUNCTION courier.attach_plan(regclass, text, text, text, text, text, text, text, text, text, text, text, text,
                                        text[], text, text, text, text, text[])
  IS 'The attachment that courier.attach() makes of these arguments';

-- The tap of that name, and the role that may change it: the owner of its table, or who made it, if the table is gone.
CREATE FUNCTION courier.tap_find(name text, OUT a courier.attachment, OUT owner name)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT * INTO a FROM courier.attachment AS t WHERE t.name = tap_find.name;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no tap %', quote_nullable(name)
      USING ERRCODE = 'no_data_found',
            DETAIL = coalesce('There are: ' || (SELECT string_agg(t.name, ', ' ORDER BY t.name) FROM courier.attachment AS t),
                              'There is none.');
  END IF;
  owner := coalesce((SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = a.relation),
                    (SELECT rolname FROM pg_roles WHERE rolname = a.created_by), current_user);
  IF NOT courier.owns_tap(a.relation, a.created_by) THEN
    RAISE EXCEPTION 'tap %: % belongs to %, and % is not a member of that role', name, a.relation_name, owner, current_user
      USING ERRCODE = 'insufficient_privilege', HINT = format('Connect as %s or as a superuser', owner);
  END IF;
END
$$;
COMMENT ON FUNCTION courier.tap_find(text) IS 'A tap by its name, for a role that may change it';

-- Removes a tap: from the commit on, the table's rows are no events any more. The table is as it was before;
-- events that were published stay, and rows that are not marked yet stay unmarked.
CREATE FUNCTION courier.detach(name text, lock_timeout interval DEFAULT '2 s') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found record := courier.tap_find(name);
  a     courier.attachment := found.a;
BEGIN
  -- No expression is compiled, so a role that has the owner's rights needs none of tap_as().
  IF NOT pg_has_role(current_user, found.owner, 'USAGE') THEN
    PERFORM courier.tap_as(found.owner, courier.tap_call('detach', name, lock_timeout::text));
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM pg_class WHERE oid = a.relation) THEN
    PERFORM courier.tap_lock(a.relation, 'ACCESS EXCLUSIVE', lock_timeout, 'detach ' || name);
  END IF;
  PERFORM courier.tap_drop(a);
  DELETE FROM courier.attachment AS t WHERE t.id = a.id;
END
$$;
COMMENT ON FUNCTION courier.detach(text, interval) IS 'Removes a tap and leaves its table as it was before';

-- Makes the functions and triggers of a tap anew, from what was given when it was made.
CREATE FUNCTION courier.recompile(name text, lock_timeout interval DEFAULT '2 s') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found record := courier.tap_find(name);
  a     courier.attachment := found.a;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_class WHERE oid = a.relation) THEN
    RAISE EXCEPTION 'tap %: its table % is gone', name, a.relation_name
      USING ERRCODE = 'undefined_table', HINT = format('SELECT courier.detach(%L)', name);
  END IF;
  -- The table has got another owner: CREATE OR REPLACE would leave a function to the former one.
  IF EXISTS (SELECT FROM courier.tap_functions(a) AS made JOIN pg_proc ON oid = made
             WHERE pg_get_userbyid(proowner) <> found.owner) THEN
    PERFORM courier.tap_lock(a.relation, 'ACCESS EXCLUSIVE', lock_timeout, 'recompile ' || name);
    PERFORM courier.tap_drop(a);
  END IF;
  IF found.owner <> current_user THEN
    PERFORM courier.tap_as(found.owner, courier.tap_call('recompile', name, lock_timeout::text));
    RETURN;
  END IF;
  PERFORM courier.tap_lock(a.relation, 'SHARE ROW EXCLUSIVE', lock_timeout, 'recompile ' || name);
  a.level := (SELECT CASE WHEN relkind = 'p' OR relispartition THEN 'row' ELSE a.level END
              FROM pg_class WHERE oid = a.relation);
  a.key_columns := courier.tap_key_columns(a.relation);
  UPDATE courier.attachment AS t SET level = a.level, key_columns = a.key_columns, relation_name = a.relation::text
    WHERE t.id = a.id;
  PERFORM courier.tap_make(a);
END
$$;
COMMENT ON FUNCTION courier.recompile(text, interval) IS 'Makes the functions and triggers of a tap anew';

-- All taps, each with what is wrong and what to do. It also compiles each tap against no row, with the rights
-- of the table's owner. For a pipeline after migrations: none may be other than ok.
CREATE FUNCTION courier.check_attachments()
RETURNS TABLE (name text, state text, detail text, remedy text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  a         courier.attachment;
  is_owners boolean;
BEGIN
  FOR a IN SELECT * FROM courier.attachment AS t ORDER BY t.name LOOP
    name := a.name;
    SELECT s.state, s.detail, s.remedy INTO state, detail, remedy FROM courier.tap_states(a.id) AS s;
    IF state IN ('ok', 'disabled') THEN
      -- Called only if it runs with the rights of the table's owner, and not with those of the caller.
      SELECT prosecdef AND proowner = (SELECT relowner FROM pg_class WHERE oid = a.relation) INTO is_owners
        FROM pg_proc WHERE oid = to_regprocedure(format('courier_tap.%I()', a.name || '_check'));
      IF is_owners IS NOT TRUE THEN
        state := 'edited';
        remedy := format('SELECT courier.recompile(%L)', a.name);
        detail := format('courier_tap.%I does not belong to the owner of %s', a.name || '_check', a.relation);
      ELSE
        -- Rolled back, so that no setting stays which the function made for the session.
        BEGIN
          EXECUTE format('SELECT courier_tap.%I()', a.name || '_check');
          RAISE EXCEPTION USING ERRCODE = 'CR000';
        EXCEPTION
          WHEN SQLSTATE 'CR000' THEN
            NULL;
          WHEN others THEN
            state := 'does_not_compile';
            detail := format('writes to %s fail: %s', a.relation, sqlerrm);
            remedy := format(CASE a.kind
              WHEN 'capture' THEN 'Capture the table with its columns as they are now, and replaces => %L'
              ELSE 'In one transaction: SELECT courier.detach(%L), and attach the table again with its columns as they'
                   ' are now' END, a.name);
        END;
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.check_attachments()
  IS 'All taps, with what is wrong (table_gone, trigger_missing, disabled, now_a_partition, edited, does_not_compile) and what to do';

-- The SQL that a tap consists of, to read or to review.
CREATE FUNCTION courier.tap_source(name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(E'\n',
    (SELECT string_agg(rtrim(pg_get_functiondef(f)) || ';', E'\n\n') FROM courier.tap_functions(a) AS f),
    (SELECT string_agg(pg_get_triggerdef(oid) || ';', E'\n' ORDER BY tgname) FROM pg_trigger
     WHERE tgrelid = a.relation AND tgname = ANY (courier.tap_triggers(a))))
  FROM courier.attachment AS a WHERE a.name = tap_source.name
$$;
COMMENT ON FUNCTION courier.tap_source(text) IS 'The functions and triggers of a tap';

-- A role that attaches publishes, and may say which row an event is of.
GRANT USAGE ON SCHEMA courier, courier_tap TO courier_attacher;
GRANT CREATE ON SCHEMA courier_tap TO courier_attacher;
GRANT USAGE ON SCHEMA courier_tap TO courier_relay;
GRANT INSERT (event_id, topic, key, type, payload, data, headers, deliver_at, source, source_key)
  ON courier.outbox TO courier_attacher;
GRANT SELECT, INSERT, UPDATE, DELETE ON courier.attachment TO courier_attacher;
GRANT SELECT ON courier.layout TO courier_attacher;
GRANT SELECT ON courier.attachment TO courier_relay;
GRANT SELECT (sink) ON courier.cursor TO courier_attacher;
DO $$
DECLARE
  made regprocedure;
BEGIN
  FOR made IN
    SELECT oid FROM pg_catalog.pg_proc
    WHERE pronamespace = 'courier'::regnamespace
      AND proname ~ '^(tap_|attach|fit_|cut_|wrap_|try_|detach$|recompile$|detect_layout$|check_attachments$|set_list$|unmarked_condition$|owns_tap$|named_uuid$)'
  LOOP
    EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made);
    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO courier_attacher', made);
  END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION courier.check_attachments(), courier.tap_states(integer), courier.tap_table(integer),
  courier.tap_triggers(courier.attachment), courier.tap_functions(courier.attachment),
  courier.tap_source(text), courier.owns_tap(oid, name) TO courier_relay;

-- The guard, which is optional: with it, ALTER TABLE of a tapped table either leaves a tap that compiles, or
-- fails. It is an event trigger, so a superuser installs it: SELECT courier.guard_ddl(true).

-- Renames a column in an SQL expression. Texts, comments, functions, types, {{placeholders}} and names behind
-- another one's dot stay. NULL: it cannot be told, because a subquery names the column, or one of its own of that name.
CREATE FUNCTION courier.tap_rename(expression text, former text, renamed text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest   text := expression;
  done   text := '';
  token  text;
  before text[] := '{"",""}'; -- the last two tokens, without white space
  is_it  boolean;
  found  boolean := false;
BEGIN
  WHILE rest <> '' LOOP
    token := coalesce(
      substring(rest FROM '^(?:\s+|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)'),
      substring(rest FROM $re$^[eE]'(?:[^'\\]|\\.)*'$re$),
      substring(rest FROM $re$^'[^']*'$re$),
      substring(rest FROM '^"(?:[^"]|"")*"'),
      substring(rest FROM '^\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$'),
      substring(rest FROM '^[0-9][0-9A-Za-z_.]*'),
      substring(rest FROM '^(?:[A-Za-z_]|[^\x01-\x7f])(?:[A-Za-z0-9_$]|[^\x01-\x7f])*'),
      substring(rest FROM '^::'),
      left(rest, 1));
    IF token ~ '^[$].*[$]$' AND strpos(substr(rest, length(token) + 1), token) > 0 THEN
      token := token || split_part(substr(rest, length(token) + 1), token, 1) || token;
    END IF;
    rest := substr(rest, length(token) + 1);
    is_it := CASE WHEN token ~ '^"' THEN replace(substr(token, 2, length(token) - 2), '""', '"') = former
                  ELSE token ~ '^([A-Za-z_]|[^\x01-\x7f])' AND lower(token) = former END
             AND rest !~ '^\s*[.(]' AND before[2] NOT IN ('::', '{') AND lower(before[2]) <> 'as'
             AND (before[2] <> '.' OR lower(before[1]) IN ('new', 'old', 'row'));
    found := found OR is_it AND before[2] <> '.';
    done := done || CASE WHEN is_it THEN quote_ident(renamed) ELSE token END;
    IF token !~ '^(\s|--|/\*)' THEN
      before := ARRAY[before[2], token];
    END IF;
  END LOOP;
  RETURN CASE WHEN NOT found OR expression !~* '\mselect\M' THEN done END;
END
$$;
COMMENT ON FUNCTION courier.tap_rename(text, text, text)
  IS 'An expression after the rename of a column; NULL: it cannot be told';

-- Makes a tap anew after its table was altered, and gives columns their new names in what was given for it.
-- Says what was renamed.
CREATE FUNCTION courier.tap_follow(a courier.attachment) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  names   jsonb := courier.tap_column_names(a.relation);
  column_ record;
  said    text;
BEGIN
  FOR column_ IN
    SELECT was.value AS former, names ->> was.key AS renamed FROM jsonb_each_text(a.column_names) AS was
    WHERE names ->> was.key <> was.value
      AND NOT EXISTS (SELECT FROM jsonb_each_text(names) AS now WHERE now.value = was.value)
      AND NOT EXISTS (SELECT FROM jsonb_each_text(a.column_names) AS other WHERE other.value = names ->> was.key)
  LOOP
    -- Lists of columns, and expressions; a topic and a payload of a capture may be plain words.
    a.expressions := (SELECT jsonb_object_agg(key, CASE
        WHEN jsonb_typeof(value) = 'array'
          THEN (SELECT jsonb_agg(CASE WHEN item = to_jsonb(column_.former) THEN to_jsonb(column_.renamed) ELSE item END
                                 ORDER BY n)
                FROM jsonb_array_elements(value) WITH ORDINALITY AS list (item, n))
        WHEN key = ANY ('{key,type,data,headers,event_id,deliver_at,only_if,each,done_set,dead_set}')
             OR key = 'topic' AND (a.kind = 'attach' OR value #>> '{}' ~ '[[:space:]''"()|]')
             OR key = 'payload' AND (a.kind = 'attach' OR value #>> '{}' NOT IN ('new', 'both', 'diff'))
          THEN to_jsonb(courier.tap_rename(value #>> '{}', column_.former, column_.renamed))
        ELSE value END)
      FROM jsonb_each(a.expressions));
    a.key_columns := array_replace(a.key_columns, column_.former, column_.renamed);
    said := concat_ws(', ', said, format('%I is now %I', column_.former, column_.renamed));
  END LOOP;
  IF EXISTS (SELECT FROM jsonb_each(a.expressions) WHERE value = 'null') THEN
    RAISE EXCEPTION 'the new name cannot be put into a subquery';
  END IF;
  UPDATE courier.attachment AS t SET expressions = a.expressions, key_columns = a.key_columns WHERE t.id = a.id;
  PERFORM courier.recompile(a.name);
  RETURN coalesce(said, 'made anew');
END
$$;
COMMENT ON FUNCTION courier.tap_follow(courier.attachment) IS 'Makes a tap anew after its table was altered; what was renamed';

-- Looks at taps after their table was altered: by their triggers, in the role of the table's owner. Only what
-- runs with that role's rights is called.
CREATE FUNCTION courier.tap_guard(triggers text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  a     courier.attachment;
  fault text;
  said  text;
BEGIN
  FOR a IN SELECT * FROM courier.attachment AS t WHERE courier.tap_triggers(t) && triggers LOOP
    fault := NULL;
    BEGIN
      IF EXISTS (SELECT FROM pg_proc WHERE oid = to_regprocedure(format('courier_tap.%I()', a.name || '_check'))
                   AND prosecdef AND pg_get_userbyid(proowner) = current_user) THEN
        EXECUTE format('SELECT courier_tap.%I()', a.name || '_check');
      END IF;
    EXCEPTION
      WHEN others THEN
        fault := sqlerrm;
    END;
    IF fault IS NULL THEN
      UPDATE courier.attachment AS t SET column_names = courier.tap_column_names(a.relation)
      WHERE t.id = a.id AND t.column_names <> courier.tap_column_names(a.relation);
      CONTINUE;
    END IF;
    BEGIN
      said := courier.tap_follow(a);
    EXCEPTION
      WHEN others THEN
        RAISE EXCEPTION 'after this change, writes to % fail in tap %: %', a.relation, a.name, fault
          USING ERRCODE = 'dependent_objects_still_exist',
                HINT = format('In one transaction: SELECT courier.detach(%L), this change, and attach or capture the table '
                              'again with its columns as they are then', a.name);
    END;
    RAISE NOTICE 'tap % follows: %', a.name, said;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.tap_guard(text[]) IS 'After ALTER TABLE: the taps with these triggers follow, or the change is refused';

-- The role that alters a table need not have any right in schema courier. So this names nothing of it before a
-- tapped table is found, by its triggers. A tap whose trigger is disabled breaks no write.
CREATE FUNCTION courier.ddl_guard() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tapped record;
BEGIN
  FOR tapped IN
    WITH RECURSIVE altered (relation) AS (
      SELECT objid FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass
      UNION SELECT inhrelid FROM altered JOIN pg_inherits ON inhparent = relation)
    SELECT pg_get_userbyid(relowner) AS owner, array_agg(tgname::text) AS triggers
    FROM altered JOIN pg_class ON pg_class.oid = relation JOIN pg_trigger ON tgrelid = relation
    JOIN pg_proc AS called ON called.oid = tgfoid JOIN pg_namespace ON pg_namespace.oid = pronamespace
    WHERE nspname = 'courier_tap' AND tgparentid = 0 AND tgenabled <> 'D'
    GROUP BY relation, relowner
  LOOP
    IF tapped.owner = current_user THEN
      PERFORM courier.tap_guard(tapped.triggers);
    ELSE
      PERFORM courier.tap_as(tapped.owner, courier.tap_call('tap_guard', tapped.triggers::text));
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION courier.ddl_guard()
  IS 'Called after ALTER TABLE; courier.guard_ddl() installs it';

CREATE FUNCTION courier.guard_ddl(enabled boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT enabled THEN
    DROP EVENT TRIGGER IF EXISTS courier_ddl_guard;
  ELSIF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'courier_ddl_guard') THEN
    CREATE EVENT TRIGGER courier_ddl_guard ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
      EXECUTE FUNCTION courier.ddl_guard();
  END IF;
END
$$;
COMMENT ON FUNCTION courier.guard_ddl(boolean)
  IS 'Installs or removes the guard: ALTER TABLE of a tapped table renames columns in the tap, too, or is refused';

REVOKE ALL ON FUNCTION courier.tap_rename(text, text, text), courier.tap_follow(courier.attachment),
  courier.tap_guard(text[]), courier.ddl_guard(), courier.guard_ddl(boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.tap_rename(text, text, text), courier.tap_follow(courier.attachment),
  courier.tap_guard(text[]) TO courier_attacher;

INSERT INTO courier.schema_version (version, name) VALUES (7, 'attach');

-- pgcourier schema, version 8: capture, which makes events of the changes of any table.
--
-- courier.capture() makes a tap (0007_attach.sql) with a function for each kind of change. On an ordinary table
-- these are statement triggers with transition tables: one INSERT into courier.outbox for each statement of the
-- application. On a partitioned table they are row triggers, because a statement trigger is silent when a
-- partition is written by its own name. In both, expressions read the row before as old and the row after as new.

-- What the transaction says about itself: SET LOCAL courier.headers = '{"actor": "ann"}'. Once a session has set
-- it, it is '' and not NULL in later transactions. It may be malformed without failing the write.
CREATE FUNCTION courier.sent_headers() RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN pg_catalog.current_setting('courier.headers', true) <> ''
              THEN courier.fit_headers(pg_catalog.current_setting('courier.headers', true)) END
$$;
COMMENT ON FUNCTION courier.sent_headers() IS 'The headers that the transaction has set for what is captured of it';

CREATE FUNCTION courier.join_headers(sent jsonb, own jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN sent IS NULL THEN own WHEN own IS NULL THEN sent ELSE courier.fit_headers(sent || own) END
$$;
COMMENT ON FUNCTION courier.join_headers(jsonb, jsonb) IS 'The headers of the transaction and those of a tap, which prevail';

-- Of a row before and after: the columns that differ, and those that are always wanted. The values are the
-- texts that row_to_json() made of them.
CREATE FUNCTION courier.json_changes(old json, new json, always text[]) RETURNS json
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF old IS NULL OR new IS NULL THEN
    RETURN json_build_object('old', old, 'new', new);
  END IF;
  RETURN (
    SELECT json_build_object('old', ('{' || coalesce(string_agg(name || before, ',' ORDER BY n), '') || '}')::json,
                             'new', ('{' || coalesce(string_agg(name || after, ',' ORDER BY n), '') || '}')::json)
    FROM (SELECT n, to_json(field)::text || ':' AS name, before::text, after::text
          FROM ROWS FROM (json_each(old), json_each(new)) WITH ORDINALITY AS each (field, before, same_field, after, n)
          WHERE before::text <> after::text OR field = ANY (always)) AS row);
END
$$;
COMMENT ON FUNCTION courier.json_changes(json, json, text[]) IS 'The columns of a row that an UPDATE changed, before and after';

-- JavaScript reads numbers above 2^53 wrongly.
CREATE FUNCTION courier.json_texts(whole json, columns text[]) RETURNS json
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF whole IS NULL OR columns = '{}' THEN
    RETURN whole;
  END IF;
  RETURN ('{' || string_agg(to_json(field)::text || ':' ||
                            CASE WHEN field = ANY (columns) AND json_typeof(value) = 'number'
                                 THEN to_json(value::text)::text ELSE value::text END, ',' ORDER BY n) || '}')::json
    FROM json_each(whole) WITH ORDINALITY AS each (field, value, n);
END
$$;
COMMENT ON FUNCTION courier.json_texts(json, text[]) IS 'A row as JSON, with the numbers of these columns as texts';

-- A domain has the output function of what it is made of.
CREATE FUNCTION courier.bigint_columns(relation oid) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(attname::text), '{}')
  FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
  WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND typoutput = 'int8out'::regproc
$$;
COMMENT ON FUNCTION courier.bigint_columns(oid) IS 'The columns of a table that are of type bigint';

-- The columns that a list names: as given, or for {*,-a,-b} all that the table has now but these. A column that
-- is added later is not among the latter: it might be the next secret.
CREATE FUNCTION courier.capture_columns(relation regclass, what text, field text, given text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  existing text[] := ARRAY(SELECT attname::text FROM pg_attribute
                           WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped ORDER BY attnum);
  without  text[] := ARRAY(SELECT substr(c, 2) FROM unnest(given) AS c WHERE c LIKE '-%' AND '*' = ANY (given));
  named    text[] := ARRAY(SELECT c FROM unnest(given) WITH ORDINALITY AS list (c, n)
                           WHERE c <> '*' AND NOT (c LIKE '-%' AND '*' = ANY (given)) ORDER BY n);
  wrong    text;
BEGIN
  SELECT string_agg(quote_nullable(c), ', ') INTO wrong FROM unnest(named || without) AS c WHERE c <> ALL (existing);
  IF coalesce(cardinality(given), 0) = 0 OR array_position(given, NULL) IS NOT NULL OR wrong IS NOT NULL THEN
    RAISE EXCEPTION '%: %', what,
        CASE WHEN wrong IS NOT NULL THEN format('%s names what is no column of the table: %s', field, wrong)
             ELSE field || ' names no column' END
      USING ERRCODE = CASE WHEN wrong IS NOT NULL THEN 'undefined_column' ELSE 'invalid_parameter_value' END,
            DETAIL = 'Its columns: ' || array_to_string(existing, ', '),
            HINT = format('Name what may leave the database: %s => ''{%s}'', or all columns, now and later: ''{*}''',
                          field, array_to_string(existing[1:3], ','));
  ELSIF '*' = ANY (given) AND cardinality(named) > 0 THEN
    RAISE EXCEPTION '%: % has * and names columns besides', what, field
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write {*}, or {*,-without_this}, or the names alone';
  END IF;
  IF '*' = ANY (given) THEN
    named := ARRAY(SELECT c FROM unnest(existing) WITH ORDINALITY AS list (c, n) WHERE c <> ALL (without) ORDER BY n);
  END IF;
  -- A stored generated column has its value in a trigger, a virtual one (PostgreSQL 18) has none.
  SELECT string_agg(attname, ', ') INTO wrong FROM pg_attribute
  WHERE attrelid = relation AND attgenerated = 'v' AND attname = ANY (named);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION '%: no trigger sees the values of virtual generated columns: %', what, wrong
      USING ERRCODE = 'feature_not_supported', HINT = 'Leave them out, as in {*,-name}, or make them STORED';
  END IF;
  RETURN CASE WHEN '*' = ANY (given) AND cardinality(without) = 0 THEN '{*}' ELSE named END;
END
$$;
COMMENT ON FUNCTION courier.capture_columns(regclass, text, text, text[]) IS 'The columns that a capture names; {*}: all';

-- A topic without quotes, parentheses, blanks and | is a text; any other is an expression.
CREATE FUNCTION courier.is_topic_text(topic text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT topic ~ '^[^[:space:]''"()|]+$'
$$;
COMMENT ON FUNCTION courier.is_topic_text(text) IS 'Whether the topic of a capture is a text; otherwise it is an expression';

-- Whether the row that an expression is about, old or new, is the one of a statement trigger for UPDATE. There
-- the whole row is the column courier_row (capture_query); elsewhere it is old.* or new.*.
CREATE FUNCTION courier.capture_whole(a courier.attachment, op text, row_name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT row_name || CASE WHEN op = 'update' AND a.level = 'statement' THEN '.courier_row' ELSE '.*' END
$$;
COMMENT ON FUNCTION courier.capture_whole(courier.attachment, text, text) IS 'A whole row of a captured table, as an expression';

-- The columns of one row that are sent, as a FROM item and as JSON. row_name: old or new. A function that names no
-- column goes on as it is when the table is altered; so if all columns are sent, the row is taken as it comes.
CREATE FUNCTION courier.capture_row(a courier.attachment, op text, row_name text, OUT from_item text, OUT as_json text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF a.expressions -> 'columns' = '["*"]' THEN
    as_json := format('row_to_json(%s)', courier.capture_whole(a, op, row_name));
  ELSE
    from_item := format('LATERAL (SELECT %s) AS %s_columns',
      (SELECT string_agg(format('%s.%I', row_name, c), ', ' ORDER BY n)
       FROM jsonb_array_elements_text(a.expressions -> 'columns') WITH ORDINALITY AS list (c, n)), row_name);
    as_json := format('row_to_json(%s_columns.*)', row_name);
  END IF;
  IF a.expressions ->> 'bigint_as' = 'text' THEN
    as_json := format('courier.json_texts(%s, tap.bigints)', as_json);
  END IF;
END
$$;
COMMENT ON FUNCTION courier.capture_row(courier.attachment, text, text) IS 'The columns of a row that a capture sends';

-- The mapping of one kind of change, as expressions: what was given, with its placeholders filled in.
CREATE FUNCTION courier.capture_mapping(a courier.attachment, op text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  e        jsonb := a.expressions;
  row_name text := CASE op WHEN 'delete' THEN 'old' ELSE 'new' END;
  before   text := CASE op WHEN 'insert' THEN 'NULL::json' ELSE (courier.capture_row(a, op, 'old')).as_json END;
  after    text := CASE op WHEN 'delete' THEN 'NULL::json' ELSE (courier.capture_row(a, op, 'new')).as_json END;
  made     jsonb := '{}';
  field    text;
  value    text;
BEGIN
  FOREACH field IN ARRAY '{topic,key,type,payload,headers,only_if}'::text[] LOOP
    value := e ->> field;
    value := CASE
      WHEN field = 'topic' AND courier.is_topic_text(value)
        THEN quote_literal(courier.fit_topic(replace(value, '{{op}}', op), a.name))
      WHEN field = 'key' AND value IS NULL THEN courier.tap_key(a.key_columns, row_name)
      WHEN field = 'key' AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = a.relation AND attnum > 0
                                     AND NOT attisdropped AND value IN (attname, quote_ident(attname)))
        THEN format('%s.%s', row_name, CASE WHEN value LIKE '"%' THEN value ELSE quote_ident(value) END)
      WHEN field = 'type' AND value IS NULL THEN quote_literal(op)
      WHEN field = 'payload' AND value = 'new' THEN CASE op WHEN 'delete' THEN before ELSE after END
      WHEN field = 'payload' AND value = 'both' THEN format('json_build_object(''old'', %s, ''new'', %s)', before, after)
      WHEN field = 'payload' AND value = 'diff'
        THEN format('courier.json_changes(%s, %s, %L)', before, after, a.key_columns)
      ELSE replace(replace(replace(value, '{{op}}', quote_literal(op)), '{{old}}', before), '{{new}}', after) END;
    made := made || jsonb_strip_nulls(jsonb_build_object(field, value));
  END LOOP;
  RETURN made;
END
$$;
COMMENT ON FUNCTION courier.capture_mapping(courier.attachment, text)
  IS 'The expressions of a capture for one of insert, update, delete';

-- The query that makes events of the rows of one kind of change. from_rows: 'statement' or 'row', as in the
-- trigger of that level; 'none': no row of the table, in place of those of a row trigger.
--
-- The subquery evaluates the mapping once for each row. Its `OFFSET 0` keeps conditions from moving to the join of
-- old_rows and new_rows. These two have no key in common, but their rows in the same order (tested with changed
-- keys, MERGE, upserts, concurrent updates, inheritance). A full join cannot become a nested loop, however few
-- rows there were when the plan was made. A whole row goes through the join as one value, courier_row, and is
-- never taken apart again: PostgreSQL takes its columns for others if one was dropped.
CREATE FUNCTION courier.capture_query(a courier.attachment, op text, from_rows text, OUT columns text, OUT query text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  e        jsonb := courier.capture_mapping(a, op);
  what     text := a.kind || ' ' || a.relation::text;
  none     text := format('(SELECT * FROM %s LIMIT 0)', a.relation);
  whole    text := format('(SELECT *, courier_rows AS courier_row FROM %s AS courier_rows LIMIT 0)', a.relation);
  row_name text := CASE op WHEN 'delete' THEN 'old' ELSE 'new' END;
  other    text := CASE op WHEN 'delete' THEN 'new' ELSE 'old' END;
  this     text := format('(SELECT %L::text AS op%s) AS this', op, CASE from_rows
                     WHEN 'row' THEN format(' WHERE %L::regclass IS NOT NULL', a.relation::oid) -- see tap_new_row()
                     ELSE '' END);
  chosen   text[] := CASE op WHEN 'insert' THEN ARRAY[(courier.capture_row(a, op, 'new')).from_item]
                             WHEN 'delete' THEN ARRAY[(courier.capture_row(a, op, 'old')).from_item]
                             ELSE ARRAY[(courier.capture_row(a, op, 'old')).from_item,
                                        (courier.capture_row(a, op, 'new')).from_item] END;
  numbered text := CASE WHEN '["*"]' IN (a.expressions -> 'columns', a.expressions -> 'when_changed')
    THEN '(SELECT *, %1$s_rows AS courier_row, row_number() OVER () AS courier_n FROM %1$s_rows) AS %1$s'
    ELSE '(SELECT *, row_number() OVER () AS courier_n FROM %1$s_rows) AS %1$s' END;
  source   text;
  scanned  text;
  changed  text;
  made     record;
BEGIN
  source := CASE
    WHEN from_rows = 'none' THEN format('%s AS old CROSS JOIN %s AS new', none, none)
    WHEN from_rows = 'row' THEN NULL
    WHEN op = 'update' THEN format(numbered || E'\n  FULL JOIN ', 'old') || format(numbered || ' USING (courier_n)', 'new')
    ELSE format('%1$s_rows AS %1$s', row_name)
      -- An expression may name the row that an INSERT or a DELETE has not: its columns are NULL.
      || CASE WHEN EXISTS (SELECT FROM jsonb_each_text(e) AS given WHERE given.value ~* format('\m%s\.', other))
              THEN format(E'\n  LEFT JOIN (SELECT * FROM %s_rows LIMIT 0) AS %s ON true', row_name, other) ELSE '' END
    END;
  scanned := array_to_string(format('%s AS old CROSS JOIN %s AS new', whole, whole) || chosen || this
                             || '(SELECT ''{}''::text[] AS bigints) AS tap'::text, ' CROSS JOIN ');
  IF e ? 'only_if' AND courier.tap_type(what, 'only_if', e ->> 'only_if', scanned) <> 'boolean'::regtype THEN
    RAISE EXCEPTION '%: only_if is no condition', what
      USING ERRCODE = 'datatype_mismatch', DETAIL = a.expressions ->> 'only_if', HINT = 'Write it like: new.total > 100';
  END IF;
  -- The stored bytes are compared: types such as json, xml and point have no =.
  IF op = 'update' AND a.expressions ->> 'unchanged' = 'false' THEN
    changed := CASE
      WHEN coalesce(a.expressions -> 'when_changed', a.expressions -> 'columns') = '["*"]' THEN
        format('record_image_ne(%s, %s)', courier.capture_whole(a, op, 'old'), courier.capture_whole(a, op, 'new'))
      WHEN a.expressions ? 'when_changed' THEN
        (SELECT format('record_image_ne(ROW(%s), ROW(%s))', string_agg(format('old.%I', c), ', ' ORDER BY n),
                       string_agg(format('new.%I', c), ', ' ORDER BY n))
         FROM jsonb_array_elements_text(a.expressions -> 'when_changed') WITH ORDINALITY AS list (c, n))
      ELSE 'record_image_ne(old_columns.*, new_columns.*)' END;
  END IF;

  made := courier.tap_values(a, e - 'only_if', scanned, row_name, array_remove(ARRAY[
    CASE WHEN courier.is_topic_text(a.expressions ->> 'topic') THEN 'topic' END,
    CASE WHEN NOT a.expressions ? 'type' THEN 'type' END], NULL));
  made.fit := made.fit || jsonb_build_object('headers', CASE WHEN e ? 'headers'
    THEN format('courier.join_headers(tap.sent, %s)', made.fit ->> 'headers') ELSE 'tap.sent' END);
  IF NOT e ? 'headers' THEN
    made.list := made.list || 'headers'::text;
  END IF;
  columns := array_to_string(made.list, ', ');
  query := format(E'%s\n  FROM %s(\n    SELECT %s\n    FROM %s%s\n    OFFSET 0\n  ) AS event%s%s',
    courier.tap_select(made.list, made.fit),
    coalesce(nullif(array_to_string(source || chosen, E'\n  CROSS JOIN '), '') || E'\n  CROSS JOIN LATERAL ', ''),
    array_to_string(made.mapped, E',\n           '), this,
    coalesce(E'\n    WHERE ' || nullif(concat_ws(E'\n      AND ', changed, '(' || (e ->> 'only_if') || ')'), ''), ''), made.parsed,
    CASE WHEN from_rows = 'statement' AND op = 'update' THEN E'\n  ORDER BY courier_n' ELSE '' END);
END
$$;
COMMENT ON FUNCTION courier.capture_query(courier.attachment, text, text)
  IS 'The query that makes events of changes of a captured table, and their columns in courier.outbox';

-- What a function of a capture knows before it reads a row.
CREATE FUNCTION courier.capture_declare(a courier.attachment, relation text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT E'#variable_conflict use_column\n<<tap>>\nDECLARE\n  sent CONSTANT jsonb := courier.sent_headers();\n'
         || CASE WHEN a.expressions ->> 'bigint_as' = 'text'
                 THEN format(E'  bigints CONSTANT text[] := courier.bigint_columns(%s);\n', relation) ELSE '' END
$$;
COMMENT ON FUNCTION courier.capture_declare(courier.attachment, text) IS 'How the functions of a capture begin';

CREATE FUNCTION courier.capture_statements(a courier.attachment) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made    text[] := '{}';
  checked text := '';
  none    text := format('SELECT * FROM %s LIMIT 0', a.relation);
  op      text;
  name    text;
  feed    record;
BEGIN
  FOREACH op IN ARRAY a.ops LOOP
    feed := courier.capture_query(a, op, a.level);
    name := 'courier_' || a.name || '_' || op;
    made := made || courier.tap_function(a.name, op, '()', 'trigger', courier.attach_settings(a),
      format(E'%sBEGIN\n%s  INSERT INTO courier.outbox (%s)\n  %s;\n  RETURN NULL;\nEND\n',
             courier.capture_declare(a, 'TG_RELID'),
             -- An upsert fires two statement triggers, one of them without rows.
             CASE WHEN a.level = 'row' THEN ''
                  ELSE format(E'  IF NOT EXISTS (SELECT FROM %s_rows) THEN\n    RETURN NULL;\n  END IF;\n',
                              CASE op WHEN 'delete' THEN 'old' ELSE 'new' END) END,
             feed.columns, feed.query));
    made := made || format('CREATE OR REPLACE TRIGGER %I AFTER %s ON %s %s EXECUTE FUNCTION courier_tap.%I()',
      name, upper(op), a.relation,
      CASE WHEN a.level = 'row' THEN 'FOR EACH ROW'
           ELSE concat_ws(' ', 'REFERENCING', CASE WHEN op <> 'insert' THEN 'OLD TABLE AS old_rows' END,
                          CASE WHEN op <> 'delete' THEN 'NEW TABLE AS new_rows' END, 'FOR EACH STATEMENT') END,
      a.name || '_' || op);
    IF a.expressions ->> 'replicated' = 'true' THEN
      made := made || format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', a.relation, name);
    END IF;
    checked := checked || CASE
      WHEN a.level = 'row' THEN format(E'  PERFORM * FROM (%s) AS events;\n', (courier.capture_query(a, op, 'none')).query)
      ELSE format(E'  PERFORM * FROM (WITH old_rows AS (%s), new_rows AS (%s)\n  %s) AS events;\n', none, none, feed.query) END;
  END LOOP;
  RETURN made
    || courier.tap_function(a.name, 'check', '()', 'void', courier.attach_settings(a),
         format(E'%sBEGIN\n%sEND\n', courier.capture_declare(a, '0'), checked))
    || format('GRANT EXECUTE ON FUNCTION courier_tap.%I() TO courier_relay, courier_attacher', a.name || '_check');
END
$$;
COMMENT ON FUNCTION courier.capture_statements(courier.attachment) IS 'All statements that make a capture';

-- Captures a table: from the commit on, each INSERT, UPDATE, DELETE, MERGE and COPY makes an event for each row
-- that it changes, in the same transaction. A table may be captured more than once. Returns the name of the tap.
--
--   SELECT courier.capture('public.orders', '{id,status,total}');
--   SELECT courier.capture('public.orders', '{id,status}', topic => 'orders.status', ops => '{update}',
--                          payload => 'both', when_changed => '{status}', key => 'customer_id');
--
-- Expressions are SQL over the rows old and new, and op ('insert', 'update' or 'delete'): new.total > 100. old is
-- NULL in an INSERT, new in a DELETE. They run with the rights of the table's owner. In them, {{table}},
-- {{schema}} and {{op}} are texts (write {{op}} if the table has a column op), {{old}} and {{new}} the named columns
-- of the rows as JSON.
--
--   relation     an ordinary or a partitioned table; the caller may act as its owner, and that owner is a member
--                of courier_attacher
--   columns      what may leave the database: {id,status}; all, now and later: {*}; all that there are now but
--                some: {*,-password_hash}
--   topic        a text, such as shop.{{table}}.{{op}}; or, if it has a quote, a parenthesis, a blank or |, an
--                expression. By default {{table}}.{{op}}
--   key          the name of a column, or an expression; by default the primary key as text, of several columns
--                a JSON array of texts. 'NULL': no key, so no order
--   ops          which of insert, update, delete
--   payload      'new': the row after, of a DELETE the row before; 'both': {"old": ..., "new": ...}; 'diff': the
--                same, of an UPDATE only the columns that changed and the primary key; or an expression
--   only_if      a condition: other changes are no events
--   when_changed an UPDATE is an event if one of these columns changed; by default one of columns
--   unchanged    true: an UPDATE is an event even if it changed nothing
--   type         an expression; by default op
--   headers      an expression that is a JSON object; it is joined with what the transaction sets by
--                SET LOCAL courier.headers = '{"actor": "ann"}', and prevails
--   level        'statement' or 'row'; by default row for partitioned tables, partitions and with replicated
--   replicated   true: also what logical replication applies, and sessions in which
--                session_replication_role is replica
--   bigint_as    'number', or 'text' for receivers in JavaScript, which reads large numbers wrongly
--   name         of the tap: small letters, digits, underscores; by default that of the tap that it replaces, else
--                from that of the table
--   replaces     a capture of the table, which ends with this transaction, when this one begins
--   lock_timeout how long to wait for writers, who wait meanwhile; then it fails, and nothing is changed
--
-- Errors: wrong_object_type, insufficient_privilege, lock_not_available, invalid_parameter_value,
-- undefined_column, and those of an expression that does not compile.
CREATE FUNCTION courier.capture(
  relation     regclass,
  columns      text[]   DEFAULT NULL,
  topic        text     DEFAULT '{{table}}.{{op}}',
  key          text     DEFAULT NULL,
  ops          text[]   DEFAULT '{insert,update,delete}',
  payload      text     DEFAULT 'new',
  only_if      text     DEFAULT NULL,
  when_changed text[]   DEFAULT NULL,
  unchanged    boolean  DEFAULT false,
  type         text     DEFAULT NULL,
  headers      text     DEFAULT NULL,
  level        text     DEFAULT NULL,
  replicated   boolean  DEFAULT false,
  bigint_as    text     DEFAULT 'number',
  name         text     DEFAULT NULL,
  replaces     text     DEFAULT NULL,
  lock_timeout interval DEFAULT '2 s'
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  what     text := 'capture ' || coalesce(relation::text, 'NULL');
  owner    name := courier.tap_owner(relation, what);
  a        courier.attachment;
  class    pg_class;
  is_split boolean;
  kin      text;
BEGIN
  SELECT * INTO class FROM pg_class AS c WHERE c.oid = relation;
  is_split := class.relkind = 'p' OR class.relispartition;
  IF owner <> current_user THEN
    RETURN courier.tap_as(owner, courier.tap_call('capture', relation::oid::text, columns::text, topic, key, ops::text, payload,
      only_if, when_changed::text, unchanged::text, type, headers, level, replicated::text, bigint_as, name, replaces,
      lock_timeout::text));
  END IF;
  IF 'truncate' = ANY (ops) THEN
    RAISE EXCEPTION '%: a TRUNCATE tells no rows, so there are no events to make of it', what
      USING ERRCODE = 'feature_not_supported', HINT = 'Use DELETE where the rows matter, and REVOKE TRUNCATE';
  ELSIF ops IS NULL OR ops = '{}' OR NOT ops <@ '{insert,update,delete}' THEN
    RAISE EXCEPTION '%: ops are %, not some of {insert,update,delete}', what, quote_nullable(ops::text)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF level NOT IN ('statement', 'row') THEN
    RAISE EXCEPTION '%: level is %, neither statement nor row', what, quote_literal(level) USING ERRCODE = 'invalid_parameter_value';
  ELSIF level = 'statement' AND is_split THEN
    RAISE EXCEPTION '%: it is partitioned or a partition, and statement triggers are silent when a partition is written by its own name or by its parent''s',
        what USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave level out, or give level => ''row''';
  ELSIF bigint_as IS NULL OR bigint_as NOT IN ('number', 'text') THEN
    RAISE EXCEPTION '%: bigint_as is %, neither number nor text', what, quote_nullable(bigint_as)
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF unchanged IS NULL OR replicated IS NULL THEN
    RAISE EXCEPTION '%: % is NULL, neither true nor false', what, CASE WHEN unchanged IS NULL THEN 'unchanged' ELSE 'replicated' END
      USING ERRCODE = 'null_value_not_allowed';
  ELSIF when_changed IS NOT NULL AND (unchanged OR NOT 'update' = ANY (ops)) THEN
    RAISE EXCEPTION '%: when_changed says which UPDATEs are events, but %', what,
        CASE WHEN unchanged THEN 'unchanged says that all are' ELSE 'ops says that none is' END
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF topic IS NULL OR topic = '' THEN
    RAISE EXCEPTION '%: the topic is %', what, quote_nullable(topic) USING ERRCODE = 'invalid_parameter_value';
  ELSIF courier.is_topic_text(topic) AND topic ~* '^((old|new)\.|op$)' THEN
    RAISE EXCEPTION '%: the topic % would be that text itself', what, quote_literal(topic)
      USING ERRCODE = 'invalid_parameter_value', HINT = format('An expression has a parenthesis, a quote or a blank: topic => ''(%s)''', topic);
  ELSIF regexp_replace(concat_ws(' ', topic, key, type, headers, only_if, nullif(payload, 'new')), '''([^'']|'''')*''', '', 'g')
        ~* '(^|[^\w."{])(old|new)\M(?!\s*\.\s*[[:alpha:]_"])' THEN
    RAISE EXCEPTION '%: an expression takes old or new as a whole', what
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Name a column, as in new.id; {{old}} and {{new}} are the named columns of the rows as JSON';
  ELSIF payload IS NULL OR payload NOT IN ('new', 'both', 'diff') AND payload ~ '^\s*\w*\s*$' THEN
    RAISE EXCEPTION '%: payload is %, none of new, both and diff, and no expression', what, quote_nullable(payload)
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Write an expression like: json_build_object(''id'', new.id)';
  END IF;
  IF replaces IS NOT NULL AND NOT EXISTS (
    SELECT FROM courier.attachment AS t WHERE t.name = replaces AND t.kind = 'capture' AND t.relation = relation) THEN
    RAISE EXCEPTION '%: replaces is %, which is no capture of this table', what, quote_literal(replaces)
      USING ERRCODE = 'invalid_parameter_value',
            HINT = coalesce('Its captures: ' || (SELECT string_agg(t.name, ', ' ORDER BY t.name) FROM courier.attachment AS t
                                                 WHERE t.kind = 'capture' AND t.relation = relation),
                            'It has none: leave replaces out');
  END IF;
  columns := courier.capture_columns(relation, what, 'columns', columns);
  when_changed := CASE WHEN when_changed IS NOT NULL THEN courier.capture_columns(relation, what, 'when_changed', when_changed) END;

  a.kind := 'capture';
  a.relation := relation;
  a.relation_name := relation::text;
  a.ops := ARRAY(SELECT op FROM unnest('{insert,update,delete}'::text[]) AS op WHERE op = ANY (ops));
  a.level := coalesce(level, CASE WHEN is_split OR replicated THEN 'row' ELSE 'statement' END);
  a.key_columns := courier.tap_key_columns(relation);
  IF key IS NULL AND cardinality(a.key_columns) = 0 THEN
    RAISE EXCEPTION '%: it has no primary key, so the key of its events is not known', what
      USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the column by which events are ordered, key => ''customer_id'', or none: key => ''NULL''';
  ELSIF level = 'statement' AND replicated THEN
    RAISE NOTICE '%: logical replication fires no statement triggers, so what it applies to the table is no event', what;
  END IF;
  SELECT string_agg(relation_oid::regclass::text, ', ') INTO kin
  FROM (SELECT inhrelid AS relation_oid FROM pg_inherits WHERE inhparent = relation
        UNION ALL SELECT inhparent FROM pg_inherits WHERE inhrelid = relation) AS family;
  IF kin IS NOT NULL AND NOT is_split THEN
    RAISE NOTICE '%: rows that are written by the name of another table of its inheritance are no events: %', what, kin
      USING HINT = 'Capture these tables, too: each row is captured by the table that the statement names';
  END IF;

  -- The names of today stay, in topics above all, if the table gets another name.
  a.expressions := jsonb_strip_nulls(jsonb_build_object(
    'topic', CASE WHEN courier.is_topic_text(topic)
                  THEN replace(replace(topic, '{{table}}', class.relname), '{{schema}}', class.relnamespace::regnamespace::text)
                  ELSE topic END,
    'key', key, 'payload', payload, 'only_if', only_if, 'type', type, 'headers', headers));
  IF courier.is_topic_text(topic) AND NOT courier.is_topic_text(a.expressions ->> 'topic') THEN
    a.expressions := a.expressions || jsonb_build_object(
      'topic', replace(quote_literal(a.expressions ->> 'topic'), '{{op}}', ''' || {{op}} || '''));
  END IF;
  SELECT jsonb_object_agg(e.key, replace(replace(e.value, '{{table}}', quote_literal(class.relname)),
                                         '{{schema}}', quote_literal(class.relnamespace::regnamespace::text)))
    INTO a.expressions FROM jsonb_each_text(a.expressions) AS e;
  a.expressions := a.expressions || jsonb_strip_nulls(jsonb_build_object(
    'columns', columns, 'when_changed', when_changed, 'unchanged', unchanged, 'replicated', replicated, 'bigint_as', bigint_as));

  PERFORM courier.tap_lock(relation, CASE WHEN replaces IS NULL THEN 'SHARE ROW EXCLUSIVE' ELSE 'ACCESS EXCLUSIVE' END,
                           lock_timeout, what);
  IF replaces IS NOT NULL THEN
    PERFORM courier.detach(replaces, lock_timeout);
  END IF;
  INSERT INTO courier.attachment AS made (name, kind, relation, relation_name, expressions, ops, level, key_columns, body_hash)
  VALUES (courier.tap_name(relation, coalesce(name, replaces)), a.kind, a.relation, a.relation_name, a.expressions, a.ops, a.level, a.key_columns, '')
  RETURNING * INTO a;
  PERFORM courier.tap_make(a);
  RETURN a.name;
END
$$;
COMMENT ON FUNCTION courier.capture(regclass, text[], text, text, text[], text, text, text[], boolean, text, text, text,
                                    boolean, text, text, text, interval)
  IS 'Makes events of the changes of a table; returns the name of the tap';

REVOKE ALL ON FUNCTION courier.capture, courier.capture_columns, courier.capture_whole, courier.capture_row,
  courier.capture_mapping, courier.capture_query, courier.capture_declare, courier.capture_statements,
  courier.sent_headers, courier.join_headers, courier.json_changes, courier.json_texts, courier.bigint_columns,
  courier.is_topic_text FROM PUBLIC;
GRANT EXECUTE ON FUNCTION courier.capture, courier.capture_columns, courier.capture_whole, courier.capture_row,
  courier.capture_mapping, courier.capture_query, courier.capture_declare, courier.capture_statements,
  courier.sent_headers, courier.join_headers, courier.json_changes, courier.json_texts, courier.bigint_columns,
  courier.is_topic_text TO courier_attacher;

INSERT INTO courier.schema_version (version, name) VALUES (8, 'capture');

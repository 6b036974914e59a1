-- What a table looks like to somebody who might attach it (used by src/operator/tap_rows.c).
--
-- $1 the table, as people write it
--
-- The columns are those of enum tap_detect_column.
WITH t AS (
  SELECT class.*, format('%I.%I', nspname, relname) AS full_name, pg_get_userbyid(relowner) AS owner,
         courier.detect_layout(class.oid::regclass) AS layout,
         courier.tap_key_columns(class.oid::regclass) <> '{}' AS has_key,
         ARRAY(SELECT attname::text FROM pg_attribute
               WHERE attrelid = class.oid AND attnum > 0 AND NOT attisdropped) AS names
  FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = relnamespace
  WHERE class.oid = $1::text::regclass
),
columns AS (
  SELECT attname AS name, format_type(atttypid, atttypmod) AS type,
         format_type(atttypid, NULL) IN ('text', 'character varying', 'character') AS is_text, attnum AS n
  FROM t JOIN pg_attribute ON attrelid = t.oid WHERE attnum > 0 AND NOT attisdropped
),
-- Its rows are events, too, or come from elsewhere; or somebody else is told of them.
notes (n, note) AS (
  SELECT 1, format('%s belongs to %s, and %s is not a member of that role: connect as %s or as a superuser',
                   full_name, owner, current_user, owner)
  FROM t WHERE NOT pg_has_role(current_user, relowner, 'MEMBER')
  UNION ALL SELECT 2, format('%s may not publish by taps yet. As an administrator: GRANT courier_attacher TO %I', owner, owner)
  FROM t WHERE NOT has_schema_privilege(relowner, 'courier_tap', 'CREATE')
    OR NOT has_column_privilege(relowner, 'courier.outbox', 'source', 'INSERT')
  UNION ALL SELECT 4, 'it is partitioned: the tap is a row trigger, which its partitions inherit, new ones too; that makes '
    || 'bulk inserts dearer'
  FROM t WHERE relkind = 'p'
  UNION ALL SELECT 5, format('it is a partition of %s: attach that, or only rows of this partition are events', inhparent::regclass)
  FROM t JOIN pg_inherits ON inhrelid = t.oid WHERE relispartition
  UNION ALL SELECT 6, format('tables inherit from it (%s): their rows are no events', string_agg(inhrelid::regclass::text, ', '))
  FROM t JOIN pg_inherits ON inhparent = t.oid WHERE relkind = 'r' HAVING count(*) > 0
  UNION ALL SELECT 7, format('triggers of its own (%s) go on as before', string_agg(tgname, ', ' ORDER BY tgname))
  FROM t JOIN pg_trigger ON tgrelid = t.oid
  WHERE NOT tgisinternal AND tgfoid NOT IN (SELECT oid FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace)
  HAVING count(*) > 0
  UNION ALL SELECT 8, 'row security is on: the tap sees all rows of a statement, whatever the policies say'
  FROM t WHERE relrowsecurity
  UNION ALL SELECT 9, format('it is published by logical replication (%s): if Debezium or another relay reads it there, '
                             'it sends these events as well', string_agg(DISTINCT pubname, ', '))
  FROM t JOIN pg_publication_tables ON (schemaname, tablename) = (SELECT nspname, t.relname FROM pg_namespace WHERE oid = t.relnamespace)
  HAVING count(*) > 0
  UNION ALL SELECT 10, 'a subscription writes it: rows that arrive by replication fire no statement trigger'
  FROM t JOIN pg_subscription_rel ON srrelid = t.oid
  UNION ALL SELECT 11, 'it is captured already, by ' || string_agg(a.name, ', ' ORDER BY a.name)
  FROM t JOIN courier.attachment AS a ON a.relation = t.oid::regclass WHERE kind = 'capture' HAVING count(*) > 0
)
SELECT full_name,
  CASE WHEN relkind = 'p' THEN 'a partitioned table' WHEN relispartition THEN 'a partition' ELSE 'a table' END || ' of ' || owner,
  (SELECT a.name FROM courier.attachment AS a WHERE a.relation = t.oid::regclass AND kind = 'attach'),
  t.layout, l.remark,
  CASE WHEN l.done = 'keep' OR has_key THEN l.done ELSE 'keep' END,
  CASE WHEN l.done = 'keep' THEN 'its rows are kept'
       WHEN NOT has_key THEN 'its rows are kept: without a primary key they cannot be marked or deleted'
       WHEN l.done = 'mark' THEN 'its rows are marked: ' || l.done_set ELSE 'its rows are deleted' END,
  (SELECT format('%s, without: %s', near.name, array_to_string(lacks, ', '))
   FROM courier.layout AS near, LATERAL (SELECT ARRAY(SELECT unnest(near.needs) EXCEPT SELECT unnest(t.names) ORDER BY 1)) AS e (lacks)
   WHERE cardinality(lacks) * 2 < cardinality(near.needs) ORDER BY cardinality(lacks)::real / cardinality(near.needs), near.name LIMIT 1),
  (SELECT string_agg(format('%I %s', name, type), ', ' ORDER BY n) FROM columns),
  (SELECT quote_ident(name) FROM columns WHERE is_text AND name ~* '^(topic|destination|event_?type|event_?name|event|type|subject|channel|routing_key)$'
   ORDER BY array_position('{topic,destination}', name::text), n LIMIT 1),
  (SELECT quote_ident(name) FROM columns WHERE name ~* '^(key|event_?key|message_?key|partition_?key|aggregate_?id|entity_?id)$' ORDER BY n LIMIT 1),
  (SELECT quote_ident(name) FROM columns WHERE type IN ('json', 'jsonb') OR (is_text OR type = 'bytea') AND name ~* '(payload|body|content|data|message)'
   ORDER BY name !~* '(payload|body|content)', n LIMIT 1),
  (SELECT string_agg(note, E'\n' ORDER BY notes.n) FROM notes)
FROM t LEFT JOIN courier.layout AS l ON l.name = t.layout

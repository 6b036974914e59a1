-- The table that a sink inserts into (used by src/sinks/postgres/postgres_session.c): why that
-- cannot be, or NULL; and the statement. It fills the columns that the table has of those of an
-- event: event_id (or id, if that holds a uuid), topic, key, type, payload, data, headers and
-- created_at.
--
-- $1 its schema  $2 its name
WITH relation AS (
  SELECT c.oid, n.oid AS schema
  FROM pg_catalog.pg_namespace AS n
  JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid
  WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'f')
), of_table AS (
  SELECT a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
         a.attgenerated <> '' OR a.attidentity = 'a' AS is_made,
         a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS is_required
  FROM pg_catalog.pg_attribute AS a
  WHERE a.attrelid = (SELECT oid FROM relation) AND a.attnum > 0 AND NOT a.attisdropped
), filled AS (
  SELECT c.attnum, c.attname, pg_catalog.format('e.%I::%s', coalesce(e.value, c.attname), c.type) AS value
  FROM of_table AS c
  JOIN (VALUES ('event_id', NULL), ('id', 'event_id'), ('topic', NULL), ('key', NULL), ('type', NULL),
               ('payload', NULL), ('data', NULL), ('headers', NULL), ('created_at', NULL)) AS e (name, value)
    ON e.name = c.attname
  WHERE NOT c.is_made
    AND (c.attname <> 'id' OR c.type IN ('uuid', 'text')
                              AND NOT EXISTS (SELECT FROM of_table WHERE attname = 'event_id'))
), inbox AS (
  SELECT p.oid, n.oid AS schema
  FROM pg_catalog.pg_namespace AS n
  LEFT JOIN pg_catalog.pg_proc AS p ON p.pronamespace = n.oid AND p.proname = 'accept_many'
  WHERE n.nspname = 'courier_inbox'
), words AS (
  SELECT pg_catalog.format('%I.%I', $1::text, $2::text) AS target,
         pg_catalog.quote_ident(pg_catalog.current_database()) AS database,
         pg_catalog.quote_ident(current_user) AS role
)
SELECT CASE
         WHEN NOT EXISTS (SELECT FROM relation) THEN pg_catalog.format(
           'there is no table %s in database %s: create it, or correct postgres.insert', target, database)
         WHEN NOT EXISTS (SELECT FROM inbox WHERE oid IS NOT NULL) THEN pg_catalog.format(
           'database %s has no schema courier_inbox: run pgcourier migrate --inbox there', database)
         WHEN NOT EXISTS (SELECT FROM filled) THEN pg_catalog.format(
           'table %s has no column of an event: event_id, topic, key, type, payload, data, headers, created_at', target)
         WHEN EXISTS (SELECT FROM of_table WHERE is_required AND attnum NOT IN (SELECT attnum FROM filled))
           THEN pg_catalog.format(
           'column %s of table %s has no default, and an event has none of that name: give it a default',
           (SELECT attname FROM of_table WHERE is_required AND attnum NOT IN (SELECT attnum FROM filled)
            ORDER BY attnum LIMIT 1), target)
         WHEN NOT pg_catalog.has_schema_privilege((SELECT schema FROM inbox), 'USAGE')
           OR NOT pg_catalog.has_function_privilege((SELECT oid FROM inbox), 'EXECUTE') THEN pg_catalog.format(
           'role %s may not use the inbox: GRANT courier_consumer TO %1$s', role)
         WHEN NOT pg_catalog.has_schema_privilege((SELECT schema FROM relation), 'USAGE') THEN pg_catalog.format(
           'role %s may not use schema %I: GRANT USAGE ON SCHEMA %2$I TO %1$s', role, $1::text)
         WHEN NOT pg_catalog.has_any_column_privilege((SELECT oid FROM relation), 'INSERT') THEN pg_catalog.format(
           'role %s may not insert into %s: GRANT INSERT ON %2$s TO %1$s', role, target)
       END,
       pg_catalog.format(
         'INSERT INTO %s (%s) SELECT %s FROM courier_inbox.accept_many($1, $2::pg_catalog.uuid[]) AS fresh (event_id)'
         ' JOIN (SELECT DISTINCT ON (given.event_id) given.*'
         ' FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3::pg_catalog.text[]),'
         ' pg_catalog.unnest($4::pg_catalog.text[]), pg_catalog.unnest($5::pg_catalog.text[]),'
         ' pg_catalog.unnest($6::pg_catalog.text[]), pg_catalog.unnest($7::pg_catalog.text[]),'
         ' pg_catalog.unnest($8::pg_catalog.text[]), pg_catalog.unnest($9::pg_catalog.text[]))'
         ' WITH ORDINALITY AS given (event_id, topic, key, type, payload, headers, created_at, data, place)'
         ' ORDER BY given.event_id, given.place) AS e USING (event_id) ORDER BY e.place',
         target,
         (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' ORDER BY attnum) FROM filled),
         (SELECT pg_catalog.string_agg(value, ', ' ORDER BY attnum) FROM filled))
FROM words

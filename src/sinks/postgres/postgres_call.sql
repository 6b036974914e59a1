-- The function that a sink calls (used by src/sinks/postgres/postgres_session.c): why it cannot be
-- called, or NULL; and the statement that calls it.
--
-- $1 its schema  $2 its name
WITH schema AS (
  SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1
), named AS (
  SELECT p.oid, p.prokind = 'f' AND NOT p.proretset AND p.provariadic = 0 AND p.pronargs >= 1
                AND p.pronargs - p.pronargdefaults <= 1 AS takes_one,
         p.proargtypes[0] AS takes, pg_catalog.pg_get_function_identity_arguments(p.oid) AS arguments
  FROM pg_catalog.pg_proc AS p
  WHERE p.pronamespace = (SELECT oid FROM schema) AND p.proname = $2
), usable AS (
  SELECT named.oid, n.oid AS type_schema, pg_catalog.format('%I.%I', n.nspname, t.typname) AS type
  FROM named
  JOIN pg_catalog.pg_type AS t ON t.oid = named.takes
  JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
  WHERE named.takes_one AND n.nspname IN ('courier', 'courier_inbox') AND t.typname = 'event'
  ORDER BY n.nspname LIMIT 1
), inbox AS (
  SELECT p.oid, n.oid AS schema
  FROM pg_catalog.pg_namespace AS n
  LEFT JOIN pg_catalog.pg_proc AS p ON p.pronamespace = n.oid AND p.proname = 'accept'
  WHERE n.nspname = 'courier_inbox'
), words AS (
  SELECT pg_catalog.format('%I.%I', $1::text, $2::text) AS function,
         pg_catalog.quote_ident(pg_catalog.current_database()) AS database,
         pg_catalog.quote_ident(current_user) AS role
)
SELECT CASE
         WHEN NOT EXISTS (SELECT FROM schema) THEN pg_catalog.format(
           'there is no schema %I in database %s: correct postgres.call, or postgres.dsn', $1::text, database)
         WHEN NOT EXISTS (SELECT FROM named) THEN pg_catalog.format(
           'there is no function %s in database %s: create it, or correct postgres.call', function, database)
         WHEN NOT EXISTS (SELECT FROM inbox WHERE oid IS NOT NULL) THEN pg_catalog.format(
           'database %s has no schema courier_inbox: run pgcourier migrate --inbox there', database)
         WHEN NOT EXISTS (SELECT FROM usable) THEN pg_catalog.format(
           '%s takes (%s): it must be a function that takes one courier.event, or courier_inbox.event, and returns one value',
           function, (SELECT pg_catalog.string_agg(arguments, '), (' ORDER BY arguments) FROM named))
         WHEN NOT pg_catalog.has_schema_privilege((SELECT schema FROM inbox), 'USAGE')
           OR NOT pg_catalog.has_function_privilege((SELECT oid FROM inbox), 'EXECUTE') THEN pg_catalog.format(
           'role %s may not use the inbox: GRANT courier_consumer TO %1$s', role)
         WHEN NOT pg_catalog.has_schema_privilege((SELECT type_schema FROM usable), 'USAGE') THEN pg_catalog.format(
           'role %s may not use type %s: GRANT USAGE ON SCHEMA %s TO %1$s', role,
           (SELECT type FROM usable), pg_catalog.split_part((SELECT type FROM usable), '.', 1))
         WHEN NOT pg_catalog.has_schema_privilege((SELECT oid FROM schema), 'USAGE') THEN pg_catalog.format(
           'role %s may not use schema %I: GRANT USAGE ON SCHEMA %2$I TO %1$s', role, $1::text)
         WHEN NOT pg_catalog.has_function_privilege((SELECT oid FROM usable), 'EXECUTE') THEN pg_catalog.format(
           'role %s may not call %s: GRANT EXECUTE ON FUNCTION %2$s TO %1$s', role, function)
       END,
       pg_catalog.format(
         'SELECT %s(ROW($2::pg_catalog.uuid, $3::pg_catalog.text, $4::pg_catalog.text, $5::pg_catalog.text,'
         ' $6::pg_catalog.json, $7::pg_catalog.jsonb, $8::pg_catalog.timestamptz, $9::pg_catalog.bytea)::%s)'
         ' FROM courier_inbox.accept($1, $2) AS is_new WHERE is_new', function, (SELECT type FROM usable))
FROM words

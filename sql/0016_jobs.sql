-- pgcourier schema, version 16: jobs, which are functions that a sink calls.

-- What the functions of `postgres: call` take: an event, as the application published it. The same
-- as courier_inbox.event, for functions in the outbox's own database.
CREATE TYPE courier.event AS (
  id         uuid,        -- courier.outbox.event_id
  topic      text,
  key        text,
  type       text,
  payload    json,        -- NULL if the event was published with data
  headers    jsonb,       -- NULL: none
  created_at timestamptz,
  data       bytea        -- NULL if the event was published with a payload
);
COMMENT ON TYPE courier.event IS 'An event, as the functions take it that pgcourier calls';

INSERT INTO courier.schema_version (version, name, serves_from) VALUES (16, 'jobs', 14);

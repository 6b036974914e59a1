-- pgcourier's inbox, version 2: what functions take that pgcourier calls in this database.

-- An event, as it was published in the database of the outbox.
CREATE TYPE courier_inbox.event AS (
  id         uuid,        -- courier.outbox.event_id
  topic      text,
  key        text,
  type       text,
  payload    json,        -- NULL if the event was published with data
  headers    jsonb,       -- NULL: none
  created_at timestamptz,
  data       bytea        -- NULL if the event was published with a payload
);
COMMENT ON TYPE courier_inbox.event IS 'An event, as the functions take it that pgcourier calls';

INSERT INTO courier_inbox.schema_version (version, name) VALUES (2, 'event');

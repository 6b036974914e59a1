-- The floor of the latency: an outbox without a relay's cares.
CREATE SCHEMA IF NOT EXISTS baseline;

CREATE TABLE baseline.floor (
  id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  event_id   uuid        NOT NULL DEFAULT gen_random_uuid(),
  topic      text        NOT NULL,
  key        text,
  type       text,
  payload    json        NOT NULL,
  headers    jsonb,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION baseline.ring() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_notify('floor', '');
  RETURN NULL;
END
$$;

CREATE TRIGGER ring AFTER INSERT ON baseline.floor
  FOR EACH STATEMENT EXECUTE FUNCTION baseline.ring();

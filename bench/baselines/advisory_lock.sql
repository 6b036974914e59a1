-- The outbox of advisory_lock.c.
CREATE TABLE baseline.advisory_lock (
  id         bigint      NOT NULL,
  event_id   uuid        NOT NULL,
  topic      text        NOT NULL,
  key        text,
  type       text,
  payload    json,
  headers    jsonb,
  created_at timestamptz NOT NULL
);
ALTER TABLE baseline.advisory_lock ADD PRIMARY KEY (id);

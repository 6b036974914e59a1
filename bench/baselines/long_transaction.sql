-- The outbox of long_transaction.c.
CREATE TABLE baseline.long_transaction (
  id         bigint      NOT NULL,
  event_id   uuid        NOT NULL,
  topic      text        NOT NULL,
  key        text,
  type       text,
  payload    json,
  headers    jsonb,
  created_at timestamptz NOT NULL
);
ALTER TABLE baseline.long_transaction ADD PRIMARY KEY (id);

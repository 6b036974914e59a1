-- The outbox of xid_cursor.c: append-only, with an index in the order of its cursors, and a cursor
-- for each partition, which is a topic.
CREATE TABLE baseline.xid_cursor (
  txid       xid8        NOT NULL DEFAULT pg_current_xact_id(),
  id         bigint      NOT NULL,
  event_id   uuid        NOT NULL,
  topic      text        NOT NULL,
  key        text,
  type       text,
  payload    json,
  headers    jsonb,
  created_at timestamptz NOT NULL
);
CREATE INDEX ON baseline.xid_cursor (topic, txid, id);

CREATE TABLE baseline.xid_cursor_offset (
  partition text   PRIMARY KEY,
  txid      xid8   NOT NULL DEFAULT '0',
  id        bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The outbox of lease.c. Pages are filled by half, so that a leased row fits beside its old version
-- and the primary key needs no second entry for it (a HOT update).
CREATE TABLE baseline.lease (
  id           bigint      NOT NULL,
  event_id     uuid        NOT NULL,
  topic        text        NOT NULL,
  key          text,
  type         text,
  payload      json,
  headers      jsonb,
  created_at   timestamptz NOT NULL,
  leased_until timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
ALTER TABLE baseline.lease ADD PRIMARY KEY (id);

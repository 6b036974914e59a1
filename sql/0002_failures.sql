-- pgcourier schema, version 2: what is delivered later, what is given up, what is paused.

-- Deliveries taken out of the stream, each with a full copy of its event, so that the outbox can be
-- trimmed. Written in the same transaction as the cursor that passes them; removed when they are
-- delivered, or move to courier.dead_letter. Only the lane's owner adds and removes rows; others ask
-- by changing due_at or skip (`pgcourier parked skip`) and add redriven events as delayed.
--
--   retry    failed, and the first of its key; tried again at due_at
--   blocked  behind an earlier one of its key
--   delayed  takes its place behind its key at due_at
CREATE TABLE courier.parked (
  sink            text        NOT NULL,
  lane            integer     NOT NULL,
  outbox_id       bigint      NOT NULL,
  position        bigint      GENERATED ALWAYS AS IDENTITY,
  state           text        NOT NULL,
  due_at          timestamptz NOT NULL,
  attempts        integer     NOT NULL DEFAULT 0,
  retried_for     interval    NOT NULL DEFAULT '0',
  first_error     text,
  first_failed_at timestamptz,
  last_error      text,
  last_failed_at  timestamptz,
  is_redriven     boolean     NOT NULL DEFAULT false,
  skip            boolean     NOT NULL DEFAULT false,
  parked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),

  event_id        uuid        NOT NULL,
  topic           text        NOT NULL,
  key             text,
  type            text,
  payload         json,
  data            bytea,
  headers         jsonb,
  created_at      timestamptz NOT NULL,

  CONSTRAINT parked_pkey PRIMARY KEY (sink, lane, outbox_id),
  CONSTRAINT state_must_be_retry_blocked_or_delayed CHECK (state IN ('retry', 'blocked', 'delayed'))
);

-- What is due, and when the next will be; the same for the followers of a key, in order.
CREATE INDEX parked_due_idx ON courier.parked (sink, lane, due_at, position) WHERE state <> 'blocked' OR skip;
CREATE INDEX parked_key_idx ON courier.parked (sink, lane, key, position) WHERE state <> 'delayed';

COMMENT ON TABLE courier.parked IS 'Deliveries taken out of the stream to be tried later';
COMMENT ON COLUMN courier.parked.outbox_id IS 'courier.outbox.id of the event, whose row may be gone by now';
COMMENT ON COLUMN courier.parked.position IS 'Order of delivery among the rows of a key';
COMMENT ON COLUMN courier.parked.state
  IS 'retry: failed, tried again at due_at; blocked: behind an earlier one of its key; delayed: comes at due_at';
COMMENT ON COLUMN courier.parked.due_at IS 'When it is tried; ignored while blocked';
COMMENT ON COLUMN courier.parked.attempts IS 'Attempts that count; attempts during an outage of the destination do not';
COMMENT ON COLUMN courier.parked.retried_for
  IS 'The sum of the delays so far; compared with the sink''s retry.max_age';
COMMENT ON COLUMN courier.parked.is_redriven IS 'It was a dead letter before, or is a replay';
COMMENT ON COLUMN courier.parked.skip
  IS 'Set by hand: the relay makes it a dead letter without another attempt';

-- Deliveries given up, kept until someone redrives or drops them.
CREATE TABLE courier.dead_letter (
  id              bigint      GENERATED ALWAYS AS IDENTITY,
  sink            text        NOT NULL,
  lane            integer     NOT NULL,
  outbox_id       bigint      NOT NULL,
  target          text,
  reason          text        NOT NULL,
  attempts        integer     NOT NULL,
  first_error     text,
  first_failed_at timestamptz,
  error           text        NOT NULL,
  died_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  is_redriven     boolean     NOT NULL DEFAULT false,

  event_id        uuid        NOT NULL,
  topic           text        NOT NULL,
  key             text,
  type            text,
  payload         json,
  data            bytea,
  headers         jsonb,
  created_at      timestamptz NOT NULL,

  CONSTRAINT dead_letter_pkey PRIMARY KEY (id),
  CONSTRAINT reason_must_be_known CHECK (reason IN ('rejected', 'attempts', 'age', 'too_large', 'unjudged', 'skipped'))
);

CREATE INDEX dead_letter_sink_idx ON courier.dead_letter (sink, id);

COMMENT ON TABLE courier.dead_letter IS 'Deliveries given up, with the whole event; see pgcourier dead';
COMMENT ON COLUMN courier.dead_letter.target
  IS 'Where in the sink it was going: a stream, a URL without its secrets, a recipient';
COMMENT ON COLUMN courier.dead_letter.reason
  IS 'rejected: refused for good by the destination or its sink; attempts, age: the sink''s retry policy gave up; too_large: above max_event_bytes; unjudged: its filter took too long; skipped: by hand';
COMMENT ON COLUMN courier.dead_letter.error IS 'The last failure in the destination''s words or ours';

-- Paused sinks: by an operator, or by the relay, whose destination refuses it until settings change here
-- or there (the relay tries now and then).
CREATE TABLE courier.pause (
  sink      text        NOT NULL,
  by        text        NOT NULL,
  reason    text,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),

  CONSTRAINT pause_pkey PRIMARY KEY (sink, by),
  CONSTRAINT by_must_be_operator_or_relay CHECK (by IN ('operator', 'relay'))
);
COMMENT ON TABLE courier.pause IS 'Sinks that stand still; see pgcourier pause and resume';
COMMENT ON COLUMN courier.pause.by
  IS 'operator: until pgcourier resume; relay: the destination refuses us, and is tried now and then';

-- Tells a running relay that courier.pause, courier.parked or another table was changed by hand.
CREATE FUNCTION courier.ring_control() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_notify('courier_control', '');
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION courier.ring_control() IS 'Makes a running pgcourier look at what was changed by hand';

CREATE TRIGGER ring_control AFTER INSERT OR UPDATE OR DELETE ON courier.pause
  FOR EACH STATEMENT EXECUTE FUNCTION courier.ring_control();

GRANT SELECT, INSERT, UPDATE, DELETE ON courier.parked, courier.dead_letter, courier.pause TO courier_relay;

INSERT INTO courier.schema_version (version, name) VALUES (2, 'failures');

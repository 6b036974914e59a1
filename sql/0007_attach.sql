-- pgcourier schema, version 7: taps, which turn the rows of an application's table into events.
--
-- A tap is a trigger with a generated function in schema courier_tap. It writes courier.outbox in the
-- transaction that writes the table, with the rights of the table's owner. courier.attach() makes one for
-- an outbox table that an application has already, courier.capture() (0008_capture.sql) for any table.

ALTER TABLE courier.outbox ADD source integer, ADD source_key text;
ALTER TABLE courier.parked ADD source integer, ADD source_key text;
ALTER TABLE courier.dead_letter ADD source integer, ADD source_key text;
COMMENT ON COLUMN courier.outbox.source
  IS 'courier.attachment.id of the tap that made the event of a row; NULL: it was published';
COMMENT ON COLUMN courier.outbox.source_key
  IS 'The primary key of that row as text; of several columns, a JSON array of texts';

-- Of the events that became dead letters, those whose rows are to be marked.
CREATE INDEX dead_letter_source_idx ON courier.dead_letter (outbox_id) WHERE source IS NOT NULL;

CREATE SCHEMA courier_tap;
COMMENT ON SCHEMA courier_tap IS 'pgcourier: the generated functions of the taps, each owned by the owner of its table';

-- The taps: one row for each table that is attached, and for each capture.
CREATE TABLE courier.attachment (
  id            integer     GENERATED ALWAYS AS IDENTITY,
  name          text        NOT NULL,
  kind          text        NOT NULL,
  relation      regclass    NOT NULL,
  relation_name text        NOT NULL,
  layout        text,
  expressions   jsonb       NOT NULL DEFAULT '{}',
  ops           text[]      NOT NULL DEFAULT '{insert}',
  level         text        NOT NULL,
  done          text        NOT NULL DEFAULT 'keep',
  done_when     text        NOT NULL DEFAULT 'delivered',
  done_after    text[],
  key_columns   text[]      NOT NULL DEFAULT '{}',
  body_hash     text        NOT NULL,
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_by    name        NOT NULL DEFAULT current_user,
  has_marks     boolean     NOT NULL GENERATED ALWAYS AS (done <> 'keep' AND done_when = 'delivered') STORED,

  CONSTRAINT attachment_pkey PRIMARY KEY (id),
  CONSTRAINT attachment_name_key UNIQUE (name),
  CONSTRAINT name_must_be_of_small_letters_digits_underscores CHECK (name ~ '^[a-z_][a-z0-9_]{0,47}$'),
  CONSTRAINT kind_must_be_attach_or_capture CHECK (kind IN ('attach', 'capture')),
  CONSTRAINT level_must_be_statement_or_row CHECK (level IN ('statement', 'row')),
  CONSTRAINT done_must_be_keep_mark_or_delete CHECK (done IN ('keep', 'mark', 'delete')),
  CONSTRAINT done_when_must_be_delivered_or_taken CHECK (done_when IN ('delivered', 'taken'))
);
-- One table feeds the outbox once; it may be captured more than once.
CREATE UNIQUE INDEX attachment_relation_idx ON courier.attachment (relation) WHERE kind = 'attach';

COMMENT ON TABLE courier.attachment
  IS 'The taps: tables whose rows become events; made by courier.attach() and courier.capture()';
COMMENT ON COLUMN courier.attachment.id IS 'courier.outbox.source of its events; never given out twice';
COMMENT ON COLUMN courier.attachment.name
  IS 'Names its functions: courier_tap.NAME_insert, NAME_mark and so on';
COMMENT ON COLUMN courier.attachment.relation_name IS 'The table as it was named when it was attached';
COMMENT ON COLUMN courier.attachment.expressions
  IS 'The mapping, as it was given or as the layout says: names and SQL expressions';
COMMENT ON COLUMN courier.attachment.done
  IS 'What becomes of the row of an event that is delivered: keep it, mark it, delete it';
COMMENT ON COLUMN courier.attachment.done_when
  IS 'delivered: when all sinks have passed the event; taken: within the INSERT';
COMMENT ON COLUMN courier.attachment.done_after
  IS 'The sinks that must have passed an event before its row is marked; NULL: all that take it';
COMMENT ON COLUMN courier.attachment.key_columns IS 'The columns of courier.outbox.source_key';
COMMENT ON COLUMN courier.attachment.body_hash
  IS 'Of the definitions of its functions and triggers; another one: they were edited';
COMMENT ON COLUMN courier.attachment.has_marks IS 'The relay marks or deletes its rows';

INSERT INTO courier.schema_version (version, name) VALUES (7, 'attach');

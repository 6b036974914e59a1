-- A schema that is still to come, for test_two_versions: what a version may do that serves the programs of the
-- version before as well. Columns are added to the tables that these programs use at each moment, and none is taken
-- away.
ALTER TABLE courier.outbox ADD COLUMN next_note text;
ALTER TABLE courier.cursor ADD COLUMN next_note text NOT NULL DEFAULT 'none';
ALTER TABLE courier.sink   ADD COLUMN next_note text;
ALTER TABLE courier.member ADD COLUMN next_note text;

CREATE TABLE courier.next_thing (id bigint PRIMARY KEY);
GRANT SELECT ON courier.next_thing TO courier_relay;

INSERT INTO courier.schema_version (version, name, serves_from) VALUES (18, 'next', 14);

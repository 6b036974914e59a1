-- pgcourier schema, version 9: marks.

CREATE FUNCTION courier.begin_marks() RETURNS void LANGUAGE sql AS 'SELECT';

INSERT INTO courier.schema_version (version, name) VALUES (9, 'marks');

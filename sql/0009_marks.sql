-- pgcourier schema, version 9: marks.

INSERT INTO courier.schema_version (version, name) VALUES (9, 'marks');

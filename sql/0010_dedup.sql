-- pgcourier schema, version 10: dedup.

INSERT INTO courier.schema_version (version, name) VALUES (10, 'dedup');

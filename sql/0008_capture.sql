-- pgcourier schema, version 8: capture.

INSERT INTO courier.schema_version (version, name) VALUES (8, 'capture');

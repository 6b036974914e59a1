-- The relay and the application, each with a role of its own. May be run again.
SELECT 'CREATE ROLE relay' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'relay') \gexec
SELECT 'CREATE ROLE shop' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') \gexec
ALTER ROLE relay LOGIN PASSWORD 'relay';
ALTER ROLE shop LOGIN PASSWORD 'shop';
GRANT courier_relay TO relay;
GRANT courier_publisher TO shop;

-- The relay and the application, each with a role of its own. May be run again.
SELECT 'CREATE ROLE pgcourier' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'pgcourier') \gexec
SELECT 'CREATE ROLE shop' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shop') \gexec
ALTER ROLE pgcourier LOGIN PASSWORD 'pgcourier';
ALTER ROLE shop LOGIN PASSWORD 'shop';
GRANT courier_relay TO pgcourier;
GRANT courier_publisher TO shop;

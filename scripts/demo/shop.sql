-- A small shop whose orders cause events. `app` is the role its program logs in with, `pgcourier` the
-- one that pgcourier logs in with.
CREATE ROLE app LOGIN;
CREATE ROLE pgcourier LOGIN;
GRANT courier_publisher TO app;
GRANT courier_relay TO pgcourier;

CREATE SCHEMA shop;
CREATE TABLE shop.orders (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer text    NOT NULL,
  cents    integer NOT NULL
);
GRANT USAGE ON SCHEMA shop TO app;
GRANT SELECT, INSERT ON shop.orders TO app;

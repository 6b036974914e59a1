-- The background service of a small shop: what it does by the clock, and later. Run it as the owner of
-- the database, behind `pgcourier migrate` and `pgcourier migrate --inbox`; it may be run again.

-- Roles: the shop publishes, the jobs do their work, the relay (which logs in) may act as the jobs.
DO $$
BEGIN
  IF to_regrole('shop_app') IS NULL THEN CREATE ROLE shop_app NOLOGIN; END IF;
  IF to_regrole('shop_jobs') IS NULL THEN CREATE ROLE shop_jobs NOLOGIN; END IF;
END
$$;
GRANT courier_publisher TO shop_app, shop_jobs;
GRANT courier_consumer TO shop_jobs;

-- The shop's own tables.
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.customer (
  id    bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  name  text NOT NULL,
  email text NOT NULL
);
CREATE TABLE IF NOT EXISTS shop.cart (
  id       bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  customer bigint NOT NULL REFERENCES shop.customer,
  cents    integer NOT NULL,
  paid_at  timestamptz,
  reminder uuid                 -- the event that waits to remind of the cart
);
CREATE TABLE IF NOT EXISTS shop.daily_sales (
  day   date PRIMARY KEY,
  carts integer NOT NULL,
  cents bigint NOT NULL
);
GRANT USAGE ON SCHEMA shop TO shop_app, shop_jobs;
GRANT SELECT, INSERT, UPDATE ON shop.customer, shop.cart TO shop_app;
GRANT SELECT ON shop.customer, shop.cart TO shop_jobs;
GRANT SELECT, INSERT, UPDATE ON shop.daily_sales TO shop_jobs;

-- 1. A nightly roll-up. The payload says for which tick it is, so that a late run sums the right day.
CREATE OR REPLACE FUNCTION shop.roll_up(job courier.event) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  yesterday date := ((job.payload ->> 'at')::timestamptz AT TIME ZONE 'Europe/Berlin')::date - 1;
  sum       shop.daily_sales;
BEGIN
  INSERT INTO shop.daily_sales AS s (day, carts, cents)
    SELECT yesterday, count(*), coalesce(sum(c.cents), 0) FROM shop.cart AS c
    WHERE (c.paid_at AT TIME ZONE 'Europe/Berlin')::date = yesterday
    ON CONFLICT (day) DO UPDATE SET carts = excluded.carts, cents = excluded.cents
    RETURNING s.* INTO sum;
  RETURN format('%s: %s carts, %s cents', sum.day, sum.carts, sum.cents);
END
$$;
SELECT courier.schedule('rollup', 'jobs.rollup', '{"at": "{{scheduled_for}}"}',
                        cron => '10 0 * * *', time_zone => 'Europe/Berlin', missed => 'all', overlap => 'queue');

-- 2. Letters on monday morning: the function publishes a mail for each customer. They go out with its
-- commit, all or none; a mail server that is down only delays them.
CREATE OR REPLACE FUNCTION shop.write_letters(job courier.event) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  SELECT count(courier.publish('mail.letter', json_build_object(
           'to', c.email, 'template', 'letter', 'data', json_build_object('name', c.name, 'number', job.payload -> 'number')),
           key => c.id::text))
    INTO n FROM shop.customer AS c;
  IF n = 0 THEN
    RAISE 'there are no customers' USING ERRCODE = 'PC001'; -- trying again would not help
  END IF;
  RETURN n || ' letters';
END
$$;
SELECT courier.schedule('letters', 'jobs.letters', '{"number": "{{tick}}"}',
                        cron => '0 8 * * mon', time_zone => 'Europe/Berlin', overlap => 'skip');

-- 3. A reminder two hours after a cart was left, taken back when it is paid. Both are part of the
-- shop's own transactions.
CREATE OR REPLACE FUNCTION shop.leave_cart(customer bigint, cents integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  cart bigint;
BEGIN
  INSERT INTO shop.cart (customer, cents) VALUES (customer, cents) RETURNING id INTO cart;
  UPDATE shop.cart AS c SET reminder = courier.publish('mail.reminder', json_build_object(
      'to', p.email, 'template', 'reminder', 'data', json_build_object('name', p.name, 'cents', c.cents)),
      key => 'cart-' || c.id, deliver_at => now() + interval '2 hours')
    FROM shop.customer AS p WHERE c.id = cart AND p.id = c.customer;
  RETURN cart;
END
$$;

-- True: no reminder will come. False: it is on its way, or there was none.
CREATE OR REPLACE FUNCTION shop.pay_cart(cart bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  waits uuid;
BEGIN
  UPDATE shop.cart AS c SET paid_at = now() WHERE c.id = pay_cart.cart RETURNING c.reminder INTO waits;
  RETURN coalesce(courier.cancel(waits), false);
END
$$;

-- 4. A webhook each minute, at a second of its own.
SELECT courier.schedule('heartbeat', 'hooks.heartbeat', '{"beat": "{{tick}}", "at": "{{scheduled_for}}"}',
                        every => '1 minute', jitter => '20 seconds');

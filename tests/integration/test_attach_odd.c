/* Taps and odd roles: whoever attaches gets no rights of others, and whoever else acts on a tap lends
 * it none. */
#include "attach_rig.h"

#include <criterion/criterion.h>

static struct attach_rig rig;

static void begin(void)
{
        attach_rig_begin(&rig,
            "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text,"
            " key text, payload jsonb, processed_at timestamptz)");
        database_exec(rig.database.admin, "ALTER ROLE shop_owner NOSUPERUSER");
}

static void end(void)
{
        attach_rig_end(&rig);
}

TestSuite(attach_odd, .init = begin, .fini = end, .timeout = 120);

#define ATTACH "SELECT courier.attach('shop.outbox', topic => 'topic', payload => 'payload')"
/* Evaluated when it is compiled. It tries to become who calls, and says nothing if it cannot. */
#define CLIMBER                                                                                    \
        "CREATE FUNCTION shop.climb() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"                   \
        "  PERFORM set_config('role', 'none', false); ALTER ROLE shop_owner SUPERUSER; END $$;"    \
        "CREATE FUNCTION shop.topic() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"         \
        "  IF session_user <> 'shop_owner' THEN PERFORM shop.climb(); END IF; RETURN 't';"         \
        "  EXCEPTION WHEN others THEN RETURN 't'; END $$;"                                         \
        "SELECT courier.attach('shop.outbox', topic => 'shop.topic()', payload => 'payload')"
#define IS_SUPERUSER "SELECT rolsuper FROM pg_roles WHERE rolname = 'shop_owner'"

Test(attach_odd, expressions_do_not_get_the_rights_of_a_superuser_who_recompiles)
{
        database_exec(rig.owner, CLIMBER);
        database_exec(rig.database.admin, "SELECT courier.recompile('outbox')");
        expect_value(rig.database.admin, IS_SUPERUSER, "f");
        database_exec(rig.owner,
            "UPDATE courier.attachment SET ops = '{\"insert on shop.outbox execute function"
            " courier_tap.outbox_insert(); reset role; alter role shop_owner superuser; --\"}'");
        expect_error(rig.database.admin, "SELECT courier.recompile('outbox')", "42501", "role");
        expect_value(rig.database.admin, IS_SUPERUSER, "f");
}

Test(attach_odd, nor_those_of_a_superuser_who_alters_the_table_under_the_guard)
{
        database_exec(rig.database.admin, "SELECT courier.guard_ddl(true)");
        database_exec(rig.owner, CLIMBER);
        database_exec(rig.owner,
            "CREATE OR REPLACE FUNCTION courier_tap.outbox_check() RETURNS void LANGUAGE plpgsql"
            " SECURITY DEFINER AS $$ BEGIN RAISE 'x'; END $$");
        database_exec(rig.database.admin, "ALTER TABLE shop.outbox ADD more int");
        expect_value(rig.database.admin, IS_SUPERUSER, "f");
        expect_value(rig.database.admin, "SELECT current_user", "postgres");
}

Test(attach_odd, a_function_of_another_role_does_not_become_part_of_a_tap)
{
        database_exec(rig.owner,
            "CREATE FUNCTION courier_tap.invoices_insert() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RETURN NULL; END'");
        database_exec(rig.database.admin,
            "CREATE TABLE public.invoices (id int PRIMARY KEY, topic text, payload jsonb)");
        expect_error(rig.database.admin,
            "SELECT courier.attach('public.invoices', topic => 'topic', payload => 'payload')",
            "42723", "courier_tap.invoices_insert() (of shop_owner)");
}

Test(attach_odd, who_checks_keeps_the_settings_of_the_session)
{
        database_exec(rig.owner, ATTACH);
        database_exec(rig.owner,
            "CREATE OR REPLACE FUNCTION courier_tap.outbox_check() RETURNS void LANGUAGE plpgsql"
            " SECURITY DEFINER AS $$ BEGIN PERFORM set_config('search_path', 'shop', false);"
            " PERFORM set_config('search_path', 'pg_catalog, pg_temp', true); END $$;"
            "UPDATE courier.attachment AS a SET body_hash = (SELECT hash FROM "
            "courier.tap_states(a.id))");
        database_exec(rig.database.admin, "SET search_path = public");
        expect_value(rig.database.admin, "SELECT state FROM courier.check_attachments()", "ok");
        expect_value(rig.database.admin, "SHOW search_path", "public");
}

/* The role of the session is not that of the function: what it attaches must be the owner's still. */
Test(attach_odd, a_function_that_attaches_for_others_does_not_lend_its_rights)
{
        database_exec(rig.database.admin,
            "CREATE FUNCTION public.attach_it() RETURNS text LANGUAGE sql SECURITY DEFINER AS"
            " $$ " ATTACH " $$");
        database_exec(rig.owner, "SET ROLE shop_owner; SELECT public.attach_it()");
        expect_value(rig.database.admin,
            "SELECT string_agg(DISTINCT proowner::regrole::text, ' ') FROM pg_proc"
            " WHERE pronamespace = 'courier_tap'::regnamespace",
            "shop_owner");
}

Test(attach_odd, the_guard_lets_a_function_with_other_rights_alter_a_table)
{
        database_exec(rig.database.admin, "SELECT courier.guard_ddl(true)");
        database_exec(rig.owner,
            ATTACH "; CREATE FUNCTION shop.migrate() RETURNS void LANGUAGE plpgsql SECURITY DEFINER"
                   " AS 'BEGIN ALTER TABLE shop.outbox RENAME topic TO subject; END'");
        database_exec(rig.database.admin,
            "SELECT shop.migrate();"
            "CREATE FUNCTION public.migrate() RETURNS void LANGUAGE plpgsql SECURITY DEFINER"
            " AS 'BEGIN ALTER TABLE shop.outbox RENAME payload TO body; END'");
        database_exec(rig.owner, "SELECT public.migrate()");
        database_exec(rig.app, "INSERT INTO outbox (subject, body) VALUES ('t', '1')");
        expect_value(
            rig.database.admin, "SELECT concat_ws(' ', topic, payload) FROM courier.outbox", "t 1");
}

Test(attach_odd, a_table_changes_its_owner)
{
        database_exec(rig.database.admin,
            "DO $$ BEGIN CREATE ROLE shop_heir; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            "GRANT courier_attacher TO shop_heir; GRANT USAGE ON SCHEMA shop TO shop_heir");
        database_exec(rig.owner, ATTACH);
        database_exec(rig.database.admin, "ALTER TABLE shop.outbox OWNER TO shop_heir");
        expect_value(rig.database.admin, "SELECT state FROM courier.check_attachments()", "edited");
        database_exec(rig.database.admin, "SELECT courier.recompile('outbox')");
        expect_value(rig.database.admin, "SELECT state FROM courier.check_attachments()", "ok");
        expect_value(rig.database.admin,
            "SELECT string_agg(DISTINCT proowner::regrole::text, ' ') FROM pg_proc"
            " WHERE pronamespace = 'courier_tap'::regnamespace",
            "shop_heir");
        database_exec(rig.app, "INSERT INTO outbox (topic) VALUES ('t')");
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.outbox", "1");
        database_exec(rig.database.admin,
            "ALTER TABLE shop.outbox OWNER TO shop_owner; SELECT courier.detach('outbox')");
}

Test(attach_odd, a_tap_whose_table_and_owner_are_gone_is_detached)
{
        database_exec(rig.database.admin,
            "DROP ROLE IF EXISTS shop_leaver; CREATE ROLE shop_leaver;"
            "GRANT courier_attacher TO shop_leaver; CREATE SCHEMA left_behind AUTHORIZATION "
            "shop_leaver;"
            "CREATE TABLE left_behind.t (id int PRIMARY KEY, topic text, payload jsonb);"
            "ALTER TABLE left_behind.t OWNER TO shop_leaver;"
            "SELECT courier.attach('left_behind.t', topic => 'topic', payload => 'payload');"
            "DROP OWNED BY shop_leaver CASCADE; DROP ROLE shop_leaver");
        expect_value(
            rig.database.admin, "SELECT state FROM courier.check_attachments()", "table_gone");
        expect_error(rig.owner, "SELECT courier.detach('t')", "42501", "");
        database_exec(rig.database.admin, "SELECT courier.detach('t')");
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.attachment", "0");
}

/* Taps and odd roles, columns and settings: no role gets rights of another, no INSERT fails and no
 * event is lost. */
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

/* ---- columns -------------------------------------------------------------------------------- */

Test(attach_odd, columns_have_collations_without_regular_expressions)
{
        database_exec(rig.owner,
            "CREATE COLLATION shop.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = "
            "false);"
            "CREATE TABLE shop.odd (id text COLLATE shop.ci PRIMARY KEY, topic text COLLATE "
            "shop.ci,"
            " key text COLLATE \"C\", payload text COLLATE shop.ci, headers text COLLATE shop.ci);"
            "GRANT ALL ON shop.odd TO shop_app;"
            "SELECT courier.attach('shop.odd', topic => 'topic', key => 'topic || key',"
            " payload => 'payload', headers => 'headers');"
            "SELECT courier.capture('shop.odd', '{*}', topic => '(new.topic)', type => 'new.topic',"
            " name => 'odd_too', ops => '{insert}')");
        database_exec(rig.app, "INSERT INTO shop.odd VALUES ('a', E't\\n', 'k', 'text', '{}')");
        expect_value(
            rig.database.admin, "SELECT string_agg(topic, ' ') FROM courier.outbox", "t_ t_");
}

Test(attach_odd, times_reach_beyond_those_with_a_zone)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id int PRIMARY KEY, topic text, payload jsonb, d date, t "
            "timestamp); GRANT ALL ON shop.odd TO shop_app;"
            "SELECT courier.attach('shop.odd', topic => 'topic', payload => 'payload',"
            " deliver_at => 'd')");
        database_exec(rig.app, "SET timezone = 'Asia/Tokyo';"
                               "INSERT INTO shop.odd (id, d) VALUES (1, '5874897-12-31'),"
                               " (2, '4714-11-24 BC')");
        database_exec(rig.owner,
            "SELECT courier.detach('odd'); SELECT courier.attach('shop.odd', topic => 'topic',"
            " payload => 'payload', deliver_at => 't')");
        database_exec(rig.app, "INSERT INTO shop.odd (id, t) VALUES (3, '4714-11-24 BC');"
                               "SET timezone = 'America/New_York';"
                               "INSERT INTO shop.odd (id, t) VALUES (4, '294276-12-31 23:59:59')");
        expect_value(rig.database.admin,
            "SELECT string_agg(coalesce(deliver_at::text, 'now'), ' ' ORDER BY id)"
            " FROM courier.outbox",
            "infinity now now infinity");
}

Test(attach_odd, a_time_without_a_zone_is_one_of_the_session)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id int PRIMARY KEY, topic text, payload jsonb, t timestamp);"
            "GRANT ALL ON shop.odd TO shop_app;"
            "SELECT courier.attach('shop.odd', topic => '''shop.'' || topic', payload => 'payload',"
            " deliver_at => 't')");
        database_exec(rig.app,
            "SET timezone = 'Asia/Tokyo';"
            "INSERT INTO shop.odd VALUES (1, 't', '1', localtimestamp + interval '1 hour');"
            "SET timezone = 'America/New_York';"
            "INSERT INTO shop.odd VALUES (2, 't', '1', localtimestamp + interval '1 hour')");
        expect_value(rig.database.admin,
            "SELECT count(*) FROM courier.outbox"
            " WHERE deliver_at - created_at BETWEEN interval '50 min' AND interval '70 min'",
            "2");
}

Test(attach_odd, texts_have_what_json_cannot_unescape)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.message (id text PRIMARY KEY, destination text, headers text,"
            " payload text, published smallint DEFAULT 0); GRANT ALL ON shop.message TO shop_app;"
            "SELECT courier.attach('shop.message', done => 'keep')");
        database_exec(rig.app,
            "INSERT INTO shop.message VALUES ('1', 'd', '{\"PARTITION_ID\": \"\\u0000\"}', '{}'),"
            " ('2', 'd', '{\"PARTITION_ID\": \"k\"}', '{}')");
        expect_value(rig.database.admin,
            "SELECT string_agg(coalesce(key, 'none'), ' ' ORDER BY id) FROM courier.outbox",
            "none k");
}

/* ---- marks ---------------------------------------------------------------------------------- */

Test(attach_odd, what_is_taken_is_published_however_the_column_rounds)
{
        database_exec(rig.owner,
            "ALTER TABLE shop.outbox ALTER processed_at TYPE timestamptz(0);"
            "SELECT courier.attach('shop.outbox', topic => 'topic', payload => 'payload',"
            " only_if => 'PROCESSED_AT IS NULL', done_set => 'processed_at = now()',"
            " done_when => 'taken')");
        for (int i = 0; i < 10; i++)
                database_exec(rig.app, "INSERT INTO outbox (topic) VALUES ('t')");
        expect_value(rig.database.admin, "SELECT count(*) FROM courier.outbox", "10");
}

Test(attach_odd, what_is_not_taken_is_not_published)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id int PRIMARY KEY, tenant int, sent boolean DEFAULT false);"
            "GRANT ALL ON shop.odd TO shop_app;"
            "SELECT courier.attach('shop.odd', topic => 'tenant', payload => 'id',"
            " only_if => 'NOT sent AND tenant = 5', done_set => 'sent = true',"
            " done_when => 'taken')");
        database_exec(rig.app, "INSERT INTO shop.odd VALUES (1, 5), (2, 6)");
        expect_value(rig.database.admin, "SELECT string_agg(topic, ' ') FROM courier.outbox", "5");
        expect_error(rig.owner,
            "SELECT courier.attach('shop.outbox', topic => 'topic', payload => 'payload', ops => "
            "'{insert,update}', only_if => 'processed_at IS NULL', done_set => 'processed_at = "
            "now()', done_when => 'taken')",
            "22023", "marks rows that are inserted");
}

Test(attach_odd, a_key_has_a_length)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id char(10), part bit(4), payload jsonb, sent boolean DEFAULT "
            "false, PRIMARY KEY (id, part));"
            "INSERT INTO shop.odd VALUES ('abc', B'1010', '1');"
            "SELECT courier.attach('shop.odd', topic => '''t''', payload => 'payload',"
            " done_set => 'sent = true', existing => 'publish')");
        database_exec(rig.database.admin,
            "SELECT courier_tap.odd_mark(ARRAY[source_key], '{f}') FROM courier.outbox");
        expect_value(rig.database.admin, "SELECT sent FROM shop.odd", "t");
}

Test(attach_odd, a_mark_that_cannot_be_compared_is_refused)
{
        database_exec(rig.owner, "ALTER TABLE shop.outbox ADD note json");
        expect_error(rig.owner,
            "SELECT courier.attach('shop.outbox', topic => 'topic', payload => 'payload',"
            " done_set => 'note = ''{}''')",
            "42883", "json");
}

Test(attach_odd, rows_of_a_table_that_inherits_are_not_marked)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id int PRIMARY KEY, payload jsonb, sent boolean DEFAULT false);"
            "CREATE TABLE shop.kin () INHERITS (shop.odd); INSERT INTO shop.kin VALUES (1, '1');"
            "INSERT INTO shop.odd VALUES (1, '1');"
            "SELECT courier.attach('shop.odd', topic => '''t''', payload => 'payload',"
            " done_set => 'sent = true')");
        database_exec(rig.database.admin, "SELECT courier_tap.odd_mark('{1}', '{f}')");
        expect_value(rig.database.admin,
            "SELECT string_agg(tableoid::regclass::text || sent, ' ' ORDER BY sent) FROM shop.odd",
            "shop.kinfalse shop.oddtrue");
}

Test(attach_odd, a_backslash_means_the_same_in_every_session)
{
        database_exec(rig.owner,
            "SELECT courier.attach('shop.outbox', topic => 'regexp_replace(topic, ''\\d'', ''#'')',"
            " payload => 'payload')");
        database_exec(rig.app,
            "SET standard_conforming_strings = off; SET escape_string_warning = off;"
            "INSERT INTO outbox (topic) VALUES ('t1')");
        expect_value(rig.database.admin, "SELECT topic FROM courier.outbox", "t#");
}

/* Notices of the last statement; psql shows the same. */
static char notices[400];

static void note(void *context, const char *message)
{
        (void)context;
        snprintf(notices, sizeof notices, "%s", message);
}

Test(attach_odd, policies_apply_to_the_owner)
{
        database_exec(rig.owner,
            "CREATE TABLE shop.odd (id int PRIMARY KEY, topic text, payload jsonb, tenant text,"
            " done boolean); GRANT ALL ON shop.odd TO shop_app;"
            "INSERT INTO shop.odd VALUES (1, 't', '1', 'a', false);"
            "ALTER TABLE shop.odd ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
            "CREATE POLICY tenants ON shop.odd USING (tenant = current_setting('app.tenant', "
            "true))");
        expect_error(rig.owner,
            "SELECT courier.attach('shop.odd', topic => 'topic', payload => 'payload',"
            " existing => 'publish')",
            "55000", "ALTER TABLE shop.odd NO FORCE ROW LEVEL SECURITY");
        PQsetNoticeProcessor(rig.owner, note, NULL);
        database_exec(rig.owner,
            "SELECT courier.attach('shop.odd', topic => 'topic', payload => 'payload',"
            " done_set => 'done = true')");
        cr_expect_not_null(strstr(notices, "hides from it are not marked"), "%s", notices);
        database_exec(rig.app, "SET app.tenant = 'a';"
                               "INSERT INTO shop.odd VALUES (2, 't', '1', 'a', false)");
        expect_value(
            rig.database.admin, "SELECT string_agg(source_key, ' ') FROM courier.outbox", "2");
        expect_value(rig.owner, "SELECT courier_tap.odd_mark('{2}', '{false}')", "{}");

        database_exec(rig.owner,
            "BEGIN; SELECT courier.detach('odd'); ALTER TABLE shop.odd NO FORCE ROW LEVEL SECURITY;"
            "SELECT courier.attach('shop.odd', topic => 'topic', payload => 'payload',"
            " only_if => 'id = 1', existing => 'publish');"
            "ALTER TABLE shop.odd FORCE ROW LEVEL SECURITY; COMMIT");
        expect_value(
            rig.database.admin, "SELECT string_agg(source_key, ' ') FROM courier.outbox", "2 1");
}

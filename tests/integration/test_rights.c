/*
 * Who may do what in schema courier: the whole matrix, read from the catalogs, so that a grant or a
 * table more has to be thought of here, too.
 */
#include "support/postgres_expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static char *dsn;
static PGconn *session;

static void start(void)
{
        dsn = postgres_new_database(postgres_shared());
        session = database_connect(dsn);
}

static void stop(void)
{
        PQfinish(session);
        free(dsn);
}

TestSuite(rights, .init = start, .fini = stop);

/* "table: RIGHT RIGHT" for each that the role has; the partitions of a table have none of their
 * own. */
#define RIGHTS_OF(role)                                                                            \
        "SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("                                     \
        " SELECT relname || ': ' || string_agg(what, ' ' ORDER BY what) AS line"                   \
        " FROM pg_class, unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'"       \
        "::text[]) AS what"                                                                        \
        " WHERE relnamespace = 'courier'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')"        \
        " AND has_table_privilege('" role "', pg_class.oid, what) GROUP BY relname) AS lines"

Test(rights, a_publisher_may_insert_events_and_see_when_recurring_ones_come)
{
        expect_value(session, RIGHTS_OF("courier_publisher"), "");
        expect_value(session,
            "SELECT string_agg(relname || '.' || attname || ' ' || what, ', '"
            " ORDER BY relname, attnum, what)"
            " FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid,"
            " unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) AS what"
            " WHERE relnamespace = 'courier'::regnamespace AND relkind <> 'i'"
            " AND attnum > 0 AND has_column_privilege('courier_publisher', attrelid,"
            " attnum, what)",
            "outbox.event_id INSERT, outbox.topic INSERT, outbox.key INSERT, outbox.type INSERT, "
            "outbox.payload INSERT, outbox.data INSERT, outbox.headers INSERT, "
            "outbox.deliver_at INSERT, "
            "schedule.name SELECT, schedule.every SELECT, schedule.at SELECT, schedule.days "
            "SELECT, "
            "schedule.time_zone SELECT, schedule.starting SELECT, schedule.missed SELECT, "
            "schedule.topic SELECT, schedule.next_at SELECT, schedule.last_at SELECT, "
            "schedule.last_error SELECT, schedule.created_at SELECT, schedule.cron SELECT, "
            "schedule.jitter SELECT, schedule.until SELECT, schedule.times SELECT, "
            "schedule.overlap SELECT, schedule.paused_at SELECT, schedule.ticks SELECT, "
            "schedule.skipped SELECT, schedule.last_outbox_id SELECT, "
            "schedule.last_event_id SELECT");
        expect_value(session,
            "SELECT bool_or(has_sequence_privilege('courier_publisher', oid, 'USAGE'))"
            " FROM pg_class WHERE relnamespace = 'courier'::regnamespace"
            " AND relkind = 'S'",
            "f");
}

Test(rights, the_relay_reads_events_and_keeps_its_own_books)
{
        expect_value(session, RIGHTS_OF("courier_relay"),
            "attachment: SELECT\n"
            "attempt: SELECT\n"
            "attempt_pack: SELECT\n"
            "cursor: DELETE INSERT SELECT UPDATE\n"
            "dead_letter: DELETE INSERT SELECT UPDATE\n"
            "delay: INSERT SELECT UPDATE\n"
            "delay_gate: INSERT\n"
            "event_type: DELETE INSERT SELECT UPDATE\n"
            "lane_owner: SELECT\n"
            "live_member: SELECT\n"
            "mark_trouble: DELETE INSERT SELECT UPDATE\n"
            "member: DELETE INSERT SELECT UPDATE\n"
            "outbox: SELECT\n"
            "outbox_loss: SELECT\n"
            "outbox_partition: SELECT\n"
            "outbox_reader: SELECT\n"
            "parked: DELETE INSERT SELECT UPDATE\n"
            "pause: DELETE INSERT SELECT UPDATE\n"
            "receiver: DELETE INSERT SELECT UPDATE\n"
            "receiver_link: DELETE INSERT SELECT\n"
            "receiver_status: SELECT\n"
            "relay_lock: SELECT\n"
            "retention: SELECT\n"
            "schedule: SELECT\n"
            "schema_version: SELECT\n"
            "shard_end: DELETE INSERT SELECT\n"
            "sink: DELETE INSERT SELECT UPDATE\n"
            "unmarked: DELETE INSERT SELECT UPDATE");
        expect_value(
            session, "SELECT has_schema_privilege('courier_relay', 'courier', 'CREATE')", "f");
        expect_value(session,
            "SELECT bool_or(rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication"
            " OR rolbypassrls OR rolcanlogin) FROM pg_roles"
            " WHERE rolname IN ('courier_relay', 'courier_publisher')",
            "f");
}

/* All other roles: not a name of it may be used. */
Test(rights, the_public_has_none)
{
        expect_value(session,
            "SELECT count(*) FROM pg_namespace, aclexplode(nspacl)"
            " WHERE nspname = 'courier' AND grantee = 0",
            "0");
        expect_value(session,
            "SELECT count(*) FROM pg_class, aclexplode(relacl)"
            " WHERE relnamespace = 'courier'::regnamespace AND grantee = 0",
            "0");
}

/* What its defaults, rules and triggers call may be called by any role that may change a row. */
Test(rights, an_application_that_manages_receivers_needs_only_their_table)
{
        char *theirs;
        PGconn *portal;

        database_exec(session,
            "DROP ROLE IF EXISTS portal; CREATE ROLE portal LOGIN;"
            "GRANT USAGE ON SCHEMA courier TO portal;"
            "GRANT SELECT, INSERT, UPDATE, DELETE ON courier.receiver TO portal;"
            "INSERT INTO courier.sink (name, fans_out) VALUES ('webhooks', true)");
        theirs = dsn_as_user(dsn, "portal");
        portal = database_connect(theirs);
        database_exec(portal,
            "INSERT INTO courier.receiver (sink, name, url, topics, filter) VALUES"
            " ('webhooks', 'acme', 'https://acme.example/', '{orders.*}', '$.total > 100');"
            "UPDATE courier.receiver SET topics = '{**}', filter = '$.total > 1', state = 'paused';"
            "SELECT courier.rotate_secret(name) FROM courier.receiver;"
            "DELETE FROM courier.receiver");
        PQfinish(portal);
        free(theirs);
        database_exec(session, "DROP OWNED BY portal; DROP ROLE portal");
}

/* Such a function is called with its caller's search_path, which decides what its words mean. */
Test(rights, functions_with_their_owners_rights_pin_their_names_and_are_not_for_the_public)
{
        expect_value(session,
            "SELECT coalesce(string_agg(proname, ', '), 'none') FROM pg_proc"
            " WHERE pronamespace = 'courier'::regnamespace AND prosecdef"
            " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)",
            "none");
        /* The one is asked by the defaults of courier.receiver, and tells a number. */
        expect_value(session,
            "SELECT coalesce(string_agg(proname, ', '), 'none') FROM pg_proc"
            " WHERE pronamespace = 'courier'::regnamespace AND prosecdef"
            " AND proname <> 'outbox_floor' AND (proacl IS NULL OR EXISTS"
            " (SELECT FROM aclexplode(proacl) WHERE grantee = 0))",
            "none");
}

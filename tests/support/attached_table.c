#include "support/attached_table.h"

#include "base/alloc.h"
#include "support/postgres.h"

#include <stdio.h>
#include <stdlib.h>

static const char common_sql[] =
    "DO $$BEGIN CREATE ROLE shop LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN"
    " NULL; END$$;"
    "CREATE SCHEMA IF NOT EXISTS shop AUTHORIZATION shop;"
    "GRANT USAGE ON SCHEMA shop TO PUBLIC;"
    "GRANT USAGE ON SCHEMA courier TO shop;"
    "GRANT INSERT ON courier.outbox TO shop;"
    "GRANT USAGE, CREATE ON SCHEMA courier_tap TO shop;"
    "CREATE TABLE IF NOT EXISTS courier_tap.marked (relation text, key text);"
    "GRANT INSERT ON courier_tap.marked TO shop;";

/* %1$s: the table's name; %2$s: what marks a row; %3$s: mark or delete; %4$s: done_after. */
static const char table_sql[] =
    "SET ROLE shop;"
    "CREATE TABLE shop.%1$s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    "  topic text NOT NULL DEFAULT '%1$s.created', payload json DEFAULT '{}',"
    "  processed_at timestamptz, dead boolean, note text DEFAULT 'a');"
    "GRANT ALL ON shop.%1$s TO PUBLIC;"
    "RESET ROLE;"
    "INSERT INTO courier.attachment (name, kind, relation, relation_name, level, done, done_after,"
    "  key_columns, body_hash)"
    " VALUES ('%1$s', 'attach', 'shop.%1$s', 'shop.%1$s', 'statement', '%3$s', %4$s, '{id}', 'x');"
    "SELECT courier.begin_marks();"
    "DO $do$BEGIN"
    "  EXECUTE format($x$CREATE FUNCTION courier_tap.%1$s_insert() RETURNS trigger LANGUAGE plpgsql"
    "    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$BEGIN"
    "      INSERT INTO courier.outbox (topic, key, payload, source, source_key)"
    "        SELECT topic, id::text, payload, %%s, id::text FROM new_rows ORDER BY id;"
    "      RETURN NULL; END$f$ $x$, (SELECT id FROM courier.attachment WHERE name = '%1$s'));"
    "  EXECUTE format('ALTER FUNCTION courier_tap.%1$s_insert() OWNER TO shop');"
    "END$do$;"
    "CREATE TRIGGER tap AFTER INSERT ON shop.%1$s REFERENCING NEW TABLE AS new_rows"
    "  FOR EACH STATEMENT EXECUTE FUNCTION courier_tap.%1$s_insert();"
    "SET ROLE shop;"
    "CREATE FUNCTION courier_tap.%1$s_mark(keys text[], are_dead boolean[]) RETURNS text[]"
    " LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $f$"
    " DECLARE skipped text[]; BEGIN"
    "  WITH given AS MATERIALIZED (SELECT key, key::bigint AS id, is_dead"
    "    FROM unnest(keys, are_dead) AS one (key, is_dead)),"
    "  free AS MATERIALIZED (SELECT given.id, given.key, given.is_dead FROM given"
    "    JOIN shop.%1$s AS t ON t.id = given.id"
    "    WHERE t.processed_at IS NULL AND t.dead IS NOT TRUE FOR UPDATE OF t SKIP LOCKED),"
    "  noted AS (INSERT INTO courier_tap.marked SELECT '%1$s', key FROM given),"
    "  done AS (%2$s)"
    "  SELECT array_agg(given.key) INTO skipped FROM given WHERE id NOT IN (SELECT id FROM free)"
    "    AND EXISTS (SELECT FROM shop.%1$s AS t WHERE t.id = given.id AND t.processed_at IS NULL"
    "      AND t.dead IS NOT TRUE);"
    "  RETURN skipped; END$f$;"
    "REVOKE ALL ON FUNCTION courier_tap.%1$s_mark(text[], boolean[]) FROM PUBLIC;"
    "GRANT EXECUTE ON FUNCTION courier_tap.%1$s_mark(text[], boolean[]) TO courier_relay;"
    "RESET ROLE";

#define MARKS                                                                                      \
        "UPDATE shop.%s AS t SET processed_at = CASE WHEN NOT is_dead THEN now() END,"             \
        " dead = CASE WHEN is_dead THEN true END FROM free WHERE t.id = free.id"
#define DELETES "DELETE FROM shop.%s AS t USING free WHERE t.id = free.id"

void attached_table_make(PGconn *admin, const char *name, const char *done, const char *done_after)
{
        char *marks = done[0] == 'm' ? xasprintf(MARKS, name) : xasprintf(DELETES, name);
        char *sql = xasprintf(table_sql, name, marks, done, done_after);

        database_exec(admin, common_sql);
        database_exec(admin, sql);
        free(sql);
        free(marks);
}

void attached_table_insert(PGconn *connection, const char *name, int n_rows)
{
        char *sql = xasprintf(
            "INSERT INTO shop.%s (note) SELECT 'a' FROM generate_series(1, %d)", name, n_rows);

        database_exec(connection, sql);
        free(sql);
}

int attached_table_count(PGconn *connection, const char *name, const char *condition)
{
        char *sql = xasprintf("SELECT count(*) FROM shop.%s WHERE %s", name, condition);
        int n_rows = (int)database_integer(connection, sql);

        free(sql);
        return n_rows;
}

struct awaited {
        PGconn *connection;
        const char *name;
        const char *condition;
        int n_rows;
};

static bool are_so_many(void *context)
{
        const struct awaited *awaited = context;

        return attached_table_count(awaited->connection, awaited->name, awaited->condition) ==
               awaited->n_rows;
}

void attached_table_await(PGconn *connection, const char *name, const char *condition, int n_rows)
{
        struct awaited awaited = {connection, name, condition, n_rows};
        char what[200];

        snprintf(what, sizeof what, "%d rows of shop.%s: %s", n_rows, name, condition);
        wait_until(are_so_many, &awaited, 30000, what);
}

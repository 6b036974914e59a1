#include "operator/type_rows.h"

#include "operator/selection.h"

/* A line break stands in no string of a JSON text, only between its parts. */
#define ONE_LINE(column) "translate(" column "::text, E'\\n\\r', '  ')::json AS "

#define COLUMNS                                                                                    \
        "(SELECT row_to_json(line) FROM (SELECT t.name, t.description, t.deprecated,"              \
        " " ONE_LINE("t.schema") "schema, " ONE_LINE(                                              \
            "t.example") "example,"                                                                \
                         " courier.utc(t.created_at) AS created_at,"                               \
                         " courier.utc(t.changed_at) AS changed_at) AS line), t.name, "            \
                         "CASE WHEN t.deprecated THEN 'yes' END,"                                  \
                         " CASE WHEN t.schema IS NOT NULL THEN 'yes' END,"                         \
                         " CASE WHEN t.example IS NOT NULL THEN 'yes' END,"                        \
                         " courier.utc(t.changed_at, 0), t.description, t.schema, t.example,"      \
                         " courier.utc(t.created_at, 0), split_part(t.description, E'\\n', 1)"     \
                         " FROM courier.event_type AS t"

#define TAKES(patterns, type)                                                                      \
        "(courier.patterns_take(NULL, " patterns ", true, '{t}', ARRAY[" type "::text]))[1]"

static const char list_sql[] = "SELECT " COLUMNS " WHERE $1::text[] IS NULL OR " TAKES(
    "$1::text[]", "t.name") " ORDER BY t.name";

static const char one_sql[] = "SELECT " COLUMNS " WHERE t.name = $1::text";

static const char set_sql[] =
    "INSERT INTO courier.event_type AS old (name, description, schema, example, deprecated)"
    " VALUES ($1::text, nullif($2::text, ''), nullif($3::text, '')::json,"
    "  nullif($4::text, '')::json, coalesce($5::boolean, false))"
    " ON CONFLICT (name) DO UPDATE SET"
    "  description = CASE WHEN $2 IS NULL THEN old.description ELSE excluded.description END,"
    "  schema = CASE WHEN $3 IS NULL THEN old.schema ELSE excluded.schema END,"
    "  example = CASE WHEN $4 IS NULL THEN old.example ELSE excluded.example END,"
    "  deprecated = coalesce($5, old.deprecated)"
    " WHERE num_nonnulls($2, $3, $4, $5) > 0 RETURNING xmax = 0";

static const char remove_sql[] =
    "DELETE FROM courier.event_type WHERE name = $1::text"
    " RETURNING courier.are_types_strict() AND NOT starts_with(name, 'courier.')";

static const char unknown_sql[] = "SELECT pattern FROM unnest($1::text[]) AS pattern"
                                  " WHERE pattern NOT LIKE '!%' AND pattern NOT LIKE 'courier.%'"
                                  "  AND EXISTS (SELECT FROM courier.event_type)"
                                  "  AND NOT EXISTS (SELECT FROM courier.event_type AS t"
                                  "   WHERE courier.pattern_matches(pattern, t.name))";

static const char for_receiver_sql[] =
    "SELECT t.name, t.example FROM courier.receiver AS r, courier.event_type AS t"
    " WHERE r.name = $1::text AND r.types <> '{}' AND t.example IS NOT NULL"
    "  AND " TAKES("r.types", "t.name") " ORDER BY t.deprecated, t.name LIMIT 1";

const char types_document_sql[] =
    "SELECT json_build_object('types', (SELECT coalesce(json_agg(json_build_object("
    " 'name', t.name, 'description', t.description, 'deprecated', t.deprecated,"
    " 'has_schema', t.schema IS NOT NULL, 'has_example', t.example IS NOT NULL,"
    " 'changed_at', courier.utc(t.changed_at, 0)) ORDER BY t.name), '[]')"
    " FROM courier.event_type AS t), 'strict', courier.are_types_strict())";

static struct rows *ask(
    struct blocking_conn *conn, const char *sql, const char *value, struct error *error)
{
        const struct parameter parameter = {.value = value};

        return blocking_conn_query(conn, sql, &parameter, 1, error);
}

struct rows *types_read(struct blocking_conn *conn, const char *patterns, struct error *error)
{
        return ask(conn, list_sql, patterns, error);
}

struct rows *type_read(struct blocking_conn *conn, const char *name, struct error *error)
{
        return ask(conn, one_sql, name, error);
}

struct rows *type_set(
    struct blocking_conn *conn, const struct type_change *change, struct error *error)
{
        const struct parameter parameters[] = {{.value = change->name},
            {.value = change->description}, {.value = change->schema}, {.value = change->example},
            {.value = change->deprecated}};

        return blocking_conn_query(conn, set_sql, parameters, 5, error);
}

bool type_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    bool *out_is_strict, struct error *error)
{
        struct rows *rows = ask(conn, remove_sql, name, error);

        if (rows == NULL)
                return false;
        *out_existed = rows_count(rows) > 0;
        *out_is_strict = *out_existed && rows_bool(rows, 0, 0);
        rows_free(rows);
        return true;
}

struct rows *type_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(
            conn, "SELECT name FROM courier.event_type ORDER BY name", NULL, 0, error);
}

struct rows *types_unknown(struct blocking_conn *conn, const char *patterns, struct error *error)
{
        return ask(conn, unknown_sql, patterns, error);
}

struct rows *type_example(struct blocking_conn *conn, const char *name, struct error *error)
{
        return ask(conn, "SELECT name, example FROM courier.event_type WHERE name = $1::text", name,
            error);
}

struct rows *type_for_receiver(
    struct blocking_conn *conn, const char *receiver, struct error *error)
{
        return ask(conn, for_receiver_sql, receiver, error);
}

#include "operator/tap_rows.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "operator/selection.h"

#include <stdlib.h>
#include <string.h>

/* Of the .sql file beside this one, embedded at build time. */
extern const char tap_detect_sql[];

/* A table of so many bytes is counted. */
#define SMALL_TABLE "8388608"

static struct rows *run_call(struct blocking_conn *conn, const char *before,
    const struct tap_call *call, const char *behind, struct error *error)
{
        struct parameter parameters[1 + TAP_MAX_ARGUMENTS] = {{.value = call->table}};
        struct bytes sql = {0};
        struct rows *rows;
        int n = 1;

        bytes_printf(&sql, "SELECT %s%s($1::text::regclass", before, call->function);
        for (size_t i = 0; i < call->n_arguments; i++) {
                const struct tap_argument *argument = &call->arguments[i];
                if (argument->value == NULL)
                        continue;
                parameters[n++].value = argument->value;
                bytes_printf(&sql, ", %s => $%d::%s", argument->name, n, argument->type);
        }
        bytes_printf(&sql, ")%s", behind);
        rows = blocking_conn_query(conn, sql.data, parameters, n, error);
        bytes_deinit(&sql);
        return rows;
}

struct rows *tap_make(struct blocking_conn *conn, const struct tap_call *call, struct error *error)
{
        return run_call(conn, "", call, "", error);
}

/* Between dollars if it has quotes of its own, so that people can read it. */
static void append_literal(struct bytes *sql, const char *text)
{
        bool is_plain = strpbrk(text, "'\\") == NULL;

        if (!is_plain && strchr(text, '$') == NULL) {
                bytes_printf(sql, "$$%s$$", text);
                return;
        }
        bytes_append_text(sql, strchr(text, '\\') != NULL ? "E'" : "'");
        for (; *text != '\0'; text++) {
                if (*text == '\'' || *text == '\\')
                        bytes_append(sql, text, 1);
                bytes_append(sql, text, 1);
        }
        bytes_append_text(sql, "'");
}

void tap_append_call(struct bytes *sql, const struct tap_call *call)
{
        size_t width = 0;

        for (size_t i = 0; i < call->n_arguments; i++)
                if (call->arguments[i].value != NULL && strlen(call->arguments[i].name) > width)
                        width = strlen(call->arguments[i].name);
        bytes_printf(sql, "SELECT %s(", call->function);
        append_literal(sql, call->table);
        for (size_t i = 0; i < call->n_arguments; i++) {
                const struct tap_argument *argument = &call->arguments[i];
                if (argument->value == NULL)
                        continue;
                bytes_printf(sql, ",\n  %-*s => ", (int)width, argument->name);
                if (strcmp(argument->type, "boolean") == 0)
                        bytes_append_text(sql, argument->value);
                else
                        append_literal(sql, argument->value);
        }
        bytes_append_text(sql, ");\n");
}

/* The mapping of a courier.attachment, a: a name and a value in each row. */
#define MAPPED                                                                                     \
        "'{topic,key,type,payload,data,headers,event_id,deliver_at,only_if,each,done_set,dead_"    \
        "set}'"
#define MAPPING "SELECT name, a.expressions ->> name FROM unnest(" MAPPED "::text[]) AS name"

struct rows *tap_plan(struct blocking_conn *conn, const struct tap_call *call, struct error *error)
{
        return run_call(conn, "field.* FROM ", call,
            " AS a, LATERAL (VALUES ('table', a.relation_name), ('name', a.name),"
            " ('layout', a.layout), ('done', a.done), ('done_when', CASE WHEN a.done <> 'keep' "
            "THEN a.done_when END) UNION ALL " MAPPING ") AS field (name, value)"
            " WHERE value IS NOT NULL",
            error);
}

struct rows *tap_resolve(
    struct blocking_conn *conn, const char *table, const char *name, struct error *error)
{
        const struct parameter parameters[] = {{.value = table}, {.value = name}};

        return blocking_conn_query(conn,
            "SELECT format('%I.%I', nspname, relname), courier.tap_name(class.oid::regclass, $2)"
            " FROM pg_class AS class JOIN pg_namespace AS space ON space.oid = relnamespace"
            " WHERE class.oid = $1::text::regclass",
            parameters, 2, error);
}

/* A table that was renamed is shown by its present name. */
#define TABLE_NAME                                                                                 \
        "coalesce((SELECT format('%I.%I', nspname, relname) FROM pg_class"                         \
        " JOIN pg_namespace ON pg_namespace.oid = relnamespace"                                    \
        " WHERE pg_class.oid = a.relation), a.relation_name)"

#define TAPS                                                                                       \
        " FROM courier.attachment AS a"                                                            \
        " JOIN courier.check_attachments() AS checked ON checked.name = a.name"

#define OBJECT                                                                                     \
        " a.name, a.kind, " TABLE_NAME " AS \"table\", a.layout, a.expressions, a.ops, a.level,"   \
        " a.done, a.done_when, a.done_after, a.key_columns,"                                       \
        " courier.utc(a.created_at) AS created_at, a.created_by,"                                  \
        " checked.state, checked.detail, checked.remedy"

struct rows *taps_read(struct blocking_conn *conn, const char *kind, struct error *error)
{
        const struct parameter parameter = {.value = kind};

        return blocking_conn_query(conn,
            "SELECT a.name, a.kind, " TABLE_NAME ", a.layout,"
            " CASE WHEN a.done <> 'keep' THEN a.done || ' when ' || a.done_when END,"
            " checked.state, checked.detail, checked.remedy,"
            " (SELECT row_to_json(line) FROM (SELECT" OBJECT ") AS line)" TAPS
            " WHERE $1::text IS NULL OR a.kind = $1 ORDER BY a.name",
            &parameter, 1, error);
}

struct rows *tap_show(struct blocking_conn *conn, const char *name, struct error *error)
{
        const struct parameter parameter = {.value = name};

        /* A capture has fields of its own beyond the mapping. */
        return blocking_conn_query(conn,
            "SELECT field.*" TAPS ", LATERAL (SELECT * FROM (VALUES ('name', a.name),"
            " ('kind', a.kind), ('table', " TABLE_NAME "), ('layout', a.layout)"
            ") AS known (name, value) UNION ALL " MAPPING
            " UNION ALL SELECT key, CASE jsonb_typeof(value) WHEN 'array' THEN"
            "  (SELECT string_agg(item, ',' ORDER BY n) FROM jsonb_array_elements_text(value)"
            "   WITH ORDINALITY AS list (item, n)) ELSE value #>> '{}' END"
            "  FROM jsonb_each(a.expressions) WHERE key <> ALL (" MAPPED ")"
            " UNION ALL SELECT * FROM (VALUES ('on', array_to_string(a.ops, ',')),"
            " ('level', a.level), ('done', CASE WHEN a.kind = 'attach' THEN a.done END),"
            " ('done_when', CASE WHEN a.done <> 'keep' THEN a.done_when END),"
            " ('done_after', array_to_string(a.done_after, ',')),"
            " ('row_key', nullif(array_to_string(a.key_columns, ','), '')),"
            " ('since', courier.utc(a.created_at, 0)), ('by', a.created_by),"
            " ('state', checked.state), ('detail', checked.detail), ('remedy', checked.remedy)"
            ") AS rest (name, value)) AS field WHERE a.name = $1::text",
            &parameter, 1, error);
}

struct rows *tap_show_json(struct blocking_conn *conn, const char *name, struct error *error)
{
        const struct parameter parameter = {.value = name};

        return blocking_conn_query(conn,
            "SELECT (SELECT row_to_json(line) FROM (SELECT" OBJECT
            ", courier.tap_source(a.name) AS source) AS line)" TAPS " WHERE a.name = $1::text",
            &parameter, 1, error);
}

struct rows *tap_source(struct blocking_conn *conn, const char *name, struct error *error)
{
        const struct parameter parameter = {.value = name};

        return blocking_conn_query(
            conn, "SELECT courier.tap_source($1::text)", &parameter, 1, error);
}

struct rows *tap_kind(struct blocking_conn *conn, const char *name, struct error *error)
{
        const struct parameter parameter = {.value = name};

        return blocking_conn_query(conn,
            "SELECT kind FROM courier.attachment WHERE name = $1::text", &parameter, 1, error);
}

struct rows *tap_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(
            conn, "SELECT name FROM courier.attachment ORDER BY name", NULL, 0, error);
}

struct rows *tap_table_names(struct blocking_conn *conn, struct error *error)
{
        return blocking_conn_query(conn,
            "SELECT name FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace,"
            " LATERAL (VALUES (relname::text), (format('%I.%I', nspname, relname))) AS as_ (name)"
            " WHERE relkind IN ('r', 'p') AND nspname NOT IN ('courier', 'pg_catalog',"
            " 'information_schema') AND nspname NOT LIKE 'pg\\_toast%' ORDER BY name LIMIT 2000",
            NULL, 0, error);
}

bool tap_remove(
    struct blocking_conn *conn, const char *name, const char *lock_timeout, struct error *error)
{
        const struct parameter parameters[] = {{.value = name}, {.value = lock_timeout}};
        struct rows *rows = blocking_conn_query(conn,
            lock_timeout != NULL ? "SELECT courier.detach($1::text, lock_timeout => $2::interval)"
                                 : "SELECT courier.detach($1::text)",
            parameters, lock_timeout != NULL ? 2 : 1, error);

        rows_free(rows);
        return rows != NULL;
}

bool tap_guard(struct blocking_conn *conn, bool is_wanted, struct error *error)
{
        return blocking_conn_run(conn,
            is_wanted ? "SELECT courier.guard_ddl(true)" : "SELECT courier.guard_ddl(false)",
            error);
}

struct rows *tap_detect(struct blocking_conn *conn, const char *table, struct error *error)
{
        const struct parameter parameter = {.value = table};

        return blocking_conn_query(conn, tap_detect_sql, &parameter, 1, error);
}

bool tap_is_possible(struct blocking_conn *conn, const char *table, struct error *error)
{
        const struct parameter parameter = {.value = table};
        struct error why;
        struct rows *rows = blocking_conn_query(
            conn, "SELECT courier.tap_owner($1::text::regclass, 'detect')", &parameter, 1, &why);
        bool is_possible = rows != NULL || strcmp(blocking_conn_sqlstate(conn), "42501") == 0;

        rows_free(rows);
        if (!is_possible)
                *error = why;
        return is_possible;
}

#define GIVEN_BY_LAYOUT                                                                            \
        "(SELECT courier.attach_mapping($1::text::regclass, 'detect ' || $1, $2::text, '{}'))"     \
        " AS a (expressions)"

struct rows *tap_detect_mapping(
    struct blocking_conn *conn, const char *table, const char *layout, struct error *error)
{
        const struct parameter parameters[] = {{.value = table}, {.value = layout}};

        return blocking_conn_query(conn,
            "SELECT field.* FROM " GIVEN_BY_LAYOUT ", LATERAL (" MAPPING
            ") AS field (name, value) WHERE value IS NOT NULL AND name <> 'done_set'",
            parameters, 2, error);
}

/* The planner's estimate is in the first line: "Seq Scan on t  (cost=0.00..1.05 rows=5 width=0)". */
static bool read_estimate(
    struct blocking_conn *conn, const char *statement, double *out_n, struct error *error)
{
        char *sql = xasprintf("EXPLAIN %s", statement);
        struct rows *rows = blocking_conn_query(conn, sql, NULL, 0, error);
        const char *at;

        free(sql);
        if (rows == NULL)
                return false;
        at = strstr(rows_text(rows, 0, 0), " rows=");
        *out_n = at != NULL ? strtod(at + strlen(" rows="), NULL) : 0;
        rows_free(rows);
        return true;
}

static bool read_exact(
    struct blocking_conn *conn, const char *statement, double *out_n, struct error *error)
{
        char *sql = xasprintf("SELECT count(*) FROM (%s) AS counted", statement);
        struct rows *rows = blocking_conn_query(conn, sql, NULL, 0, error);

        free(sql);
        if (rows != NULL)
                *out_n = strtod(rows_text(rows, 0, 0), NULL);
        rows_free(rows);
        return rows != NULL;
}

bool tap_count(struct blocking_conn *conn, const char *table, const char *layout,
    struct tap_row_counts *out_counts, struct error *error)
{
        const struct parameter parameters[] = {{.value = table}, {.value = layout}};
        bool (*read)(struct blocking_conn *, const char *, double *, struct error *);
        struct rows *rows = blocking_conn_query(conn,
            "SELECT format('SELECT FROM %s AS new', $1), format('SELECT FROM %s AS new%s', $1,"
            "  ' WHERE ' || coalesce(expressions ->> 'only_if',"
            "   courier.unmarked_condition(expressions ->> 'done_set', 'new'))),"
            " coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree($1::regclass)),"
            "  pg_relation_size($1::regclass)) < " SMALL_TABLE " FROM " GIVEN_BY_LAYOUT,
            parameters, 2, error);
        bool ok;

        if (rows == NULL)
                return false;
        out_counts->is_exact = rows_bool(rows, 0, 2);
        read = out_counts->is_exact ? read_exact : read_estimate;
        ok = read(conn, rows_text(rows, 0, 0), &out_counts->n, error) &&
             read(conn, rows_text(rows, 0, 1), &out_counts->n_pending, error);
        rows_free(rows);
        return ok;
}

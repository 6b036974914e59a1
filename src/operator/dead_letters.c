#include "operator/dead_letters.h"

#include "operator/operator_sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MATCHES  SELECTION_SQL("id", "reason", "died_at")
#define ENDPOINT SELECTION_ENDPOINT("dead_letter")

/* The members of the JSON objects: what is in the lists, and what `show` has besides. */
#define FIELDS                                                                                     \
        "id, sink, lane, " ENDPOINT                                                                \
        " AS endpoint, target, reason, attempts, error, to_char(died_at " AS_UTC ") AS died_at,"   \
        " first_error, to_char(first_failed_at " AS_UTC ") AS first_failed_at, is_redriven,"       \
        " outbox_id, event_id, topic, key, type, to_char(created_at " AS_UTC ") AS created_at"
#define BASE64        "translate(encode(data, 'base64'), E'\\n', '')"
#define PAYLOAD_BYTES "octet_length(coalesce(convert_to(payload::text, 'UTF8'), data))"

#define AFTER (SELECTION_PARAMETERS + 0)
#define LIMIT (SELECTION_PARAMETERS + 1)
#define UPTO  (SELECTION_PARAMETERS + 2)

static const char list_sql[] =
    "SELECT id, sink, " ENDPOINT ", topic, key, reason, attempts, to_char(died_at " AS_UTC_SECONDS
    "), error"
    " FROM courier.dead_letter"
    " WHERE " MATCHES " AND id > $9::bigint ORDER BY id LIMIT $10::bigint";

static const char list_json_sql[] =
    "SELECT id, (SELECT row_to_json(line) FROM (SELECT " FIELDS ") AS line)"
    " FROM courier.dead_letter"
    " WHERE " MATCHES " AND id > $9::bigint ORDER BY id LIMIT $10::bigint";

const char dead_newest_sql[] =
    "SELECT id, (SELECT row_to_json(line) FROM (SELECT " FIELDS ") AS line)"
    " FROM courier.dead_letter"
    " WHERE " MATCHES " AND id < $9::bigint ORDER BY id DESC LIMIT $10::bigint";

const char control_notify_sql[] = "NOTIFY courier_control";

/* Line breaks are in a JSON text only where a blank may be: without them it is one line. */
static const char show_json_sql[] =
    "SELECT translate((SELECT row_to_json(line) FROM (SELECT " FIELDS ", headers, " PAYLOAD_BYTES
    " AS payload_bytes, payload, " BASE64 " AS data_base64) AS line)::text, E'\\n\\r', '  ')"
    " FROM courier.dead_letter WHERE id = $1::bigint";

static const char show_sql[] =
    "SELECT name, value FROM courier.dead_letter, LATERAL (VALUES"
    " ('id', id::text), ('sink', sink), ('lane', lane::text),"
    " ('endpoint', " ENDPOINT "), ('target', target),"
    " ('reason', reason), ('attempts', attempts::text), ('error', error),"
    " ('died_at', to_char(died_at " AS_UTC ")), ('first_error', first_error),"
    " ('first_failed_at', to_char(first_failed_at " AS_UTC ")),"
    " ('is_redriven', is_redriven::text), ('outbox_id', outbox_id::text),"
    " ('event_id', event_id::text), ('topic', topic), ('key', key), ('type', type),"
    " ('created_at', to_char(created_at " AS_UTC ")), ('headers', headers::text),"
    " ('payload_bytes', " PAYLOAD_BYTES "::text), ('payload', payload::text),"
    " ('data_base64', " BASE64 ")) AS field (name, value)"
    " WHERE id = $1::bigint";

const char dead_count_sql[] =
    "WITH matching AS (SELECT id FROM courier.dead_letter WHERE " MATCHES
    "  ORDER BY id LIMIT $9::bigint)"
    " SELECT count(*), coalesce(max(id), 0),"
    "  (SELECT coalesce(string_agg(wanted::text, ', ' ORDER BY wanted), '')"
    "   FROM unnest($7::bigint[]) AS wanted WHERE wanted NOT IN (SELECT id FROM matching))"
    " FROM matching";

/*
 * Locks a batch, copies it and removes what was copied, all in one statement. Of two dead letters of
 * the same delivery only the first is copied, and nothing that is parked already, or whose endpoint
 * was removed: the relay removes what is parked for none. Columns of type json keep their bytes.
 */
const char dead_redrive_sql[] =
    "WITH picked AS MATERIALIZED ("
    "  SELECT *, lane = 0 OR EXISTS (SELECT FROM courier.endpoint AS e"
    "    WHERE e.sink = dead_letter.sink AND e.id = dead_letter.lane) AS has_receiver"
    "  FROM courier.dead_letter"
    "  WHERE " MATCHES " AND id > $9::bigint AND id <= $11::bigint"
    "  ORDER BY id LIMIT $10::bigint FOR UPDATE"
    "), first AS MATERIALIZED ("
    "  SELECT DISTINCT ON (sink, lane, outbox_id) * FROM picked WHERE has_receiver"
    "  ORDER BY sink, lane, outbox_id, id"
    "), moved AS ("
    "  INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, first_error,"
    "    first_failed_at, last_error, last_failed_at, is_redriven,"
    "    event_id, topic, key, type, payload, data, headers, created_at)"
    "  SELECT sink, lane, outbox_id, 'delayed', statement_timestamp(), coalesce(first_error, "
    "error),"
    "    coalesce(first_failed_at, died_at), error, died_at, true,"
    "    event_id, topic, key, type, payload, data, headers, created_at"
    "  FROM first ORDER BY id"
    "  ON CONFLICT ON CONSTRAINT parked_pkey DO NOTHING"
    "  RETURNING sink, lane, outbox_id"
    "), removed AS ("
    "  DELETE FROM courier.dead_letter"
    "  USING first JOIN moved USING (sink, lane, outbox_id)"
    "  WHERE dead_letter.id = first.id"
    "  RETURNING dead_letter.id"
    ")"
    " SELECT picked.id, removed.id IS NOT NULL, has_receiver FROM picked LEFT JOIN removed ON "
    "removed.id = "
    "picked.id"
    " ORDER BY picked.id";

const char dead_drop_sql[] = "WITH removed AS ("
                             "  DELETE FROM courier.dead_letter WHERE id IN ("
                             "    SELECT id FROM courier.dead_letter"
                             "    WHERE " MATCHES " AND id > $9::bigint AND id <= $11::bigint"
                             "    ORDER BY id LIMIT $10::bigint FOR UPDATE)"
                             "  RETURNING id"
                             ")"
                             " SELECT id, true FROM removed ORDER BY id";

struct rows *dead_letters_read(struct blocking_conn *conn, const struct selection *selection,
    int64_t after_id, int max_rows, bool as_json, struct error *error)
{
        struct selection_texts texts;
        struct parameter parameters[SELECTION_PARAMETERS + 2];
        char after[24];
        char limit[24];

        selection_fill(selection, &texts, parameters);
        snprintf(after, sizeof after, "%" PRId64, after_id);
        snprintf(limit, sizeof limit, "%d", max_rows);
        parameters[AFTER] = (struct parameter){.value = after};
        parameters[LIMIT] = (struct parameter){.value = limit};
        return blocking_conn_query(
            conn, as_json ? list_json_sql : list_sql, parameters, SELECTION_PARAMETERS + 2, error);
}

struct rows *dead_letter_show(
    struct blocking_conn *conn, const char *id, bool as_json, struct error *error)
{
        const struct parameter parameter = {.value = id};

        return blocking_conn_query(conn, as_json ? show_json_sql : show_sql, &parameter, 1, error);
}

bool dead_letters_count(struct blocking_conn *conn, const struct selection *selection,
    struct dead_letters_count *out_count, struct error *error)
{
        struct selection_texts texts;
        struct parameter parameters[SELECTION_PARAMETERS + 1];
        char limit[24];
        struct rows *rows;

        selection_fill(selection, &texts, parameters);
        snprintf(limit, sizeof limit, "%" PRId64, selection->limit);
        parameters[SELECTION_PARAMETERS] =
            (struct parameter){.value = selection->limit > 0 ? limit : NULL};
        rows =
            blocking_conn_query(conn, dead_count_sql, parameters, SELECTION_PARAMETERS + 1, error);
        if (rows == NULL)
                return false;
        out_count->n = strtoll(rows_text(rows, 0, 0), NULL, 10);
        out_count->last_id = strtoll(rows_text(rows, 0, 1), NULL, 10);
        snprintf(out_count->missing, sizeof out_count->missing, "%s", rows_text(rows, 0, 2));
        rows_free(rows);
        return true;
}

/* One batch behind *after_id, which moves on; not more than max_rows in all. */
static struct rows *run_batch(struct blocking_conn *conn, const char *sql,
    const struct selection *selection, const struct dead_letters_count *count, int64_t *after_id,
    int64_t max_rows, struct error *error)
{
        struct selection_texts texts;
        struct parameter parameters[SELECTION_PARAMETERS + 3];
        char after[24];
        char limit[24];
        char upto[24];
        struct rows *rows;

        selection_fill(selection, &texts, parameters);
        snprintf(after, sizeof after, "%" PRId64, *after_id);
        snprintf(limit, sizeof limit, "%" PRId64,
            max_rows < DEAD_BATCH_ROWS ? max_rows : DEAD_BATCH_ROWS);
        snprintf(upto, sizeof upto, "%" PRId64, count->last_id);
        parameters[AFTER] = (struct parameter){.value = after};
        parameters[LIMIT] = (struct parameter){.value = limit};
        parameters[UPTO] = (struct parameter){.value = upto};
        rows = blocking_conn_query(conn, sql, parameters, SELECTION_PARAMETERS + 3, error);
        if (rows != NULL && rows_count(rows) > 0)
                *after_id = strtoll(rows_text(rows, rows_count(rows) - 1, 0), NULL, 10);
        return rows;
}

static void add_id(struct bytes *ids, const char *id)
{
        bytes_printf(ids, "%s%s", ids->length > 0 ? ", " : "", id);
}

void dead_letters_kept_deinit(struct dead_letters_kept *kept)
{
        bytes_deinit(&kept->parked);
        bytes_deinit(&kept->orphaned);
}

bool dead_letters_redrive(struct blocking_conn *conn, const struct selection *selection,
    const struct dead_letters_count *count, int64_t *out_n_redriven, struct dead_letters_kept *kept,
    struct error *error)
{
        int64_t after_id = 0;
        int64_t n_left = count->n;
        struct rows *rows;
        int n_rows = 1;

        *out_n_redriven = 0;
        while (n_left > 0 && n_rows > 0) {
                rows =
                    run_batch(conn, dead_redrive_sql, selection, count, &after_id, n_left, error);
                if (rows == NULL)
                        return false;
                n_rows = rows_count(rows);
                n_left -= n_rows;
                for (int i = 0; i < n_rows; i++)
                        if (rows_bool(rows, i, 1))
                                ++*out_n_redriven;
                        else
                                add_id(rows_bool(rows, i, 2) ? &kept->parked : &kept->orphaned,
                                    rows_text(rows, i, 0));
                rows_free(rows);
                if (n_rows > 0 && !blocking_conn_run(conn, control_notify_sql, error))
                        return false;
        }
        return true;
}

bool dead_letters_drop(struct blocking_conn *conn, const struct selection *selection,
    const struct dead_letters_count *count, int64_t *out_n_dropped, struct error *error)
{
        int64_t after_id = 0;
        struct rows *rows;
        int n_rows = 1;

        *out_n_dropped = 0;
        while (*out_n_dropped < count->n && n_rows > 0) {
                rows = run_batch(conn, dead_drop_sql, selection, count, &after_id,
                    count->n - *out_n_dropped, error);
                if (rows == NULL)
                        return false;
                n_rows = rows_count(rows);
                *out_n_dropped += n_rows;
                rows_free(rows);
        }
        return true;
}

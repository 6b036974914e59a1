#include "operator/dead_letters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MATCHES  SELECTION_SQL("id", "reason", "died_at")
#define RECEIVER SELECTION_RECEIVER("dead_letter")
#define SOURCE   "courier.tap_table(source)"

/* The members of the JSON objects: what is in the lists, and what `show` has besides. */
#define FIELDS                                                                                     \
        "id, sink, lane, " RECEIVER                                                                \
        " AS receiver, target, reason, attempts, error, courier.utc(died_at) AS died_at,"          \
        " first_error, courier.utc(first_failed_at) AS first_failed_at, is_redriven,"              \
        " outbox_id, event_id, " SOURCE                                                            \
        " AS source, source_key, topic, key, type, courier.utc(created_at) AS created_at"
#define BASE64        "translate(encode(data, 'base64'), E'\\n', '')"
#define PAYLOAD_BYTES "octet_length(coalesce(convert_to(payload::text, 'UTF8'), data))"

static const char list_sql[] =
    "SELECT id, sink, " RECEIVER ", topic, key, reason, attempts, courier.utc(died_at, 0), error"
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
    " ('receiver', " RECEIVER "), ('target', target),"
    " ('reason', reason), ('attempts', attempts::text), ('error', error),"
    " ('died_at', courier.utc(died_at)), ('first_error', first_error),"
    " ('first_failed_at', courier.utc(first_failed_at)),"
    " ('is_redriven', is_redriven::text), ('outbox_id', outbox_id::text),"
    " ('event_id', event_id::text), ('source', " SOURCE "), ('source_key', source_key),"
    " ('topic', topic), ('key', key), ('type', type),"
    " ('created_at', courier.utc(created_at)), ('headers', headers::text),"
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
 * Locks a batch, copies it and removes what was copied, all in one statement. Of two dead letters
 * of the same delivery only the first is copied, and nothing that is parked already, or whose
 * receiver was removed: the relay removes what is parked for none. A mark that was given up goes
 * back to courier.unmarked. Columns of type json keep their bytes.
 */
const char dead_redrive_sql[] =
    "WITH picked AS MATERIALIZED ("
    "  SELECT *, CASE WHEN sink = 'courier.marks'"
    "      THEN EXISTS (SELECT FROM courier.attachment AS a WHERE a.id = source AND a.has_marks)"
    "    ELSE lane = 0 OR EXISTS (SELECT FROM courier.receiver AS e"
    "      WHERE e.sink = dead_letter.sink AND e.id = dead_letter.lane) END AS has_receiver"
    "  FROM courier.dead_letter"
    "  WHERE " MATCHES " AND id > $9::bigint AND id <= $11::bigint"
    "  ORDER BY id LIMIT $10::bigint FOR UPDATE"
    "), first AS MATERIALIZED ("
    "  SELECT DISTINCT ON (sink, lane, outbox_id) *,"
    "    CASE WHEN sink <> 'courier.marks'"
    "      THEN courier.lane_to_park(sink, lane, key, outbox_id) ELSE 0 END AS parked_lane"
    "  FROM picked WHERE has_receiver ORDER BY sink, lane, outbox_id, id"
    "), moved AS ("
    "  INSERT INTO courier.parked (sink, lane, outbox_id, state, due_at, first_error,"
    "    first_failed_at, last_error, last_failed_at, is_redriven,"
    "    event_id, topic, key, type, payload, data, headers, created_at, source, source_key)"
    "  SELECT sink, parked_lane, outbox_id, 'delayed', statement_timestamp(),"
    "    coalesce(first_error, error), coalesce(first_failed_at, died_at), error, died_at, true,"
    "    event_id, topic, key, type, payload, data, headers, created_at, source, source_key"
    "  FROM first WHERE sink <> 'courier.marks' ORDER BY id"
    "  ON CONFLICT ON CONSTRAINT parked_pkey DO NOTHING"
    "  RETURNING sink, lane AS parked_lane, outbox_id"
    "), unmarked AS ("
    "  INSERT INTO courier.unmarked (outbox_id, source, source_key, event_id, topic, type,"
    "    created_at, state, due_at, last_error)"
    "  SELECT outbox_id, source, source_key, event_id, topic, type, created_at, 'retry',"
    "    statement_timestamp(), error"
    "  FROM first WHERE sink = 'courier.marks' ORDER BY id"
    "  ON CONFLICT ON CONSTRAINT unmarked_pkey DO NOTHING"
    "  RETURNING 'courier.marks' AS sink, 0 AS parked_lane, outbox_id"
    "), removed AS ("
    "  DELETE FROM courier.dead_letter"
    "  USING first JOIN (SELECT * FROM moved UNION ALL SELECT * FROM unmarked) AS kept"
    "    USING (sink, parked_lane, outbox_id)"
    "  WHERE dead_letter.id = first.id"
    "  RETURNING dead_letter.id"
    ")"
    " SELECT picked.id, removed.id IS NOT NULL, has_receiver"
    " FROM picked LEFT JOIN removed ON removed.id = picked.id"
    " ORDER BY picked.id";

/* The columns of dead_redrive_sql. */
const char dead_drop_sql[] =
    "WITH removed AS ("
    "  DELETE FROM courier.dead_letter"
    "  WHERE id IN (SELECT id FROM courier.dead_letter"
    "               WHERE " MATCHES " AND id > $9::bigint AND id <= $11::bigint"
    "               ORDER BY id LIMIT $10::bigint FOR UPDATE)"
    "  RETURNING id"
    ")"
    " SELECT id, true AS is_gone, true AS has_receiver FROM removed ORDER BY id";

static const struct {
        const char *sql;
        bool wakes_relay;
} changes[] = {
    [DEAD_REDRIVE] = {dead_redrive_sql, true},
    [DEAD_DROP] = {dead_drop_sql, false},
};

void dead_parameters_fill(struct dead_parameters *parameters, const struct selection *selection,
    int64_t ninth, int64_t tenth, int64_t eleventh)
{
        const int64_t numbers[] = {ninth, tenth, eleventh};

        selection_fill(selection, &parameters->texts, parameters->values);
        for (int i = 0; i < 3; i++) {
                char *text = parameters->numbers[i];

                snprintf(text, sizeof parameters->numbers[i], "%" PRId64, numbers[i]);
                parameters->values[SELECTION_PARAMETERS + i] =
                    (struct parameter){.value = numbers[i] != DEAD_NO_NUMBER ? text : NULL};
        }
}

struct rows *dead_letters_read(struct blocking_conn *conn, const struct selection *selection,
    int64_t after_id, int max_rows, bool as_json, struct error *error)
{
        struct dead_parameters parameters;

        dead_parameters_fill(&parameters, selection, after_id, max_rows, DEAD_NO_NUMBER);
        return blocking_conn_query(
            conn, as_json ? list_json_sql : list_sql, parameters.values, DEAD_LIST_N, error);
}

struct rows *dead_letter_show(
    struct blocking_conn *conn, const char *id, bool as_json, struct error *error)
{
        const struct parameter parameter = {.value = id};

        return blocking_conn_query(conn, as_json ? show_json_sql : show_sql, &parameter, 1, error);
}

void dead_count_fill(struct dead_parameters *parameters, const struct selection *selection)
{
        dead_parameters_fill(parameters, selection,
            selection->limit > 0 ? selection->limit : DEAD_NO_NUMBER, DEAD_NO_NUMBER,
            DEAD_NO_NUMBER);
}

void dead_count_take(struct dead_letters_count *count, const struct rows *rows)
{
        count->n = strtoll(rows_text(rows, 0, 0), NULL, 10);
        count->last_id = strtoll(rows_text(rows, 0, 1), NULL, 10);
        snprintf(count->missing, sizeof count->missing, "%s", rows_text(rows, 0, 2));
}

bool dead_letters_count(struct blocking_conn *conn, const struct selection *selection,
    struct dead_letters_count *out_count, struct error *error)
{
        struct dead_parameters parameters;
        struct rows *rows;

        dead_count_fill(&parameters, selection);
        rows = blocking_conn_query(conn, dead_count_sql, parameters.values, DEAD_COUNT_N, error);
        if (rows == NULL)
                return false;
        dead_count_take(out_count, rows);
        rows_free(rows);
        return true;
}

bool dead_batch_fill(const struct dead_progress *progress, const struct dead_letters_count *count,
    const struct selection *selection, struct dead_parameters *parameters)
{
        int64_t n_left = count->n - progress->n_seen;

        dead_parameters_fill(parameters, selection, progress->after_id,
            n_left < DEAD_BATCH_ROWS ? n_left : DEAD_BATCH_ROWS, count->last_id);
        return n_left > 0 && !progress->is_through;
}

static void add_id(struct bytes *ids, const char *id)
{
        bytes_printf(ids, "%s%s", ids->length > 0 ? ", " : "", id);
}

void dead_batch_take(
    struct dead_progress *progress, const struct rows *rows, struct dead_letters_kept *kept)
{
        int n_rows = rows_count(rows);

        for (int i = 0; i < n_rows; i++)
                if (rows_bool(rows, i, 1))
                        progress->n_changed++;
                else if (kept != NULL)
                        add_id(rows_bool(rows, i, 2) ? &kept->parked : &kept->orphaned,
                            rows_text(rows, i, 0));
        progress->n_seen += n_rows;
        progress->is_through = n_rows == 0;
        if (n_rows > 0)
                progress->after_id = strtoll(rows_text(rows, n_rows - 1, 0), NULL, 10);
}

void dead_letters_kept_deinit(struct dead_letters_kept *kept)
{
        bytes_deinit(&kept->parked);
        bytes_deinit(&kept->orphaned);
}

bool dead_letters_change(struct blocking_conn *conn, enum dead_change change,
    const struct selection *selection, const struct dead_letters_count *count,
    int64_t *out_n_changed, struct dead_letters_kept *kept, struct error *error)
{
        struct dead_progress progress = {0};
        struct dead_parameters parameters;
        bool ok = true;

        while (ok && dead_batch_fill(&progress, count, selection, &parameters)) {
                struct rows *rows = blocking_conn_query(
                    conn, changes[change].sql, parameters.values, DEAD_BATCH_N, error);

                ok = rows != NULL;
                if (!ok)
                        break;
                dead_batch_take(&progress, rows, kept);
                rows_free(rows);
                if (changes[change].wakes_relay && !progress.is_through)
                        ok = blocking_conn_run(conn, control_notify_sql, error);
        }
        *out_n_changed = progress.n_changed;
        return ok;
}

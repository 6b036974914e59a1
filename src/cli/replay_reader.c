#include "cli/replay_reader.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/destinations.h"
#include "operator/history.h"
#include "outbox/event_row.h"

#include <inttypes.h>
#include <stdlib.h>

struct ids {
        int64_t *ids; /* in order */
        int n;
};

void replay_reader_init(struct replay_reader *reader, struct blocking_conn *conn,
    const struct history_range *range, const struct destination *destination, int n_rows)
{
        *reader = (struct replay_reader){.conn = conn,
            .range = range,
            .destination = destination,
            .after_id = range->from.id > 0 ? range->from.id - 1 : 0,
            .n_rows = n_rows};
        destination_append_filters(destination, &reader->filters);
}

void replay_reader_deinit(struct replay_reader *reader)
{
        bytes_deinit(&reader->filters);
}

static bool takes(const struct destination *destination, const struct rows *rows, int row)
{
        struct event event = {.topic = rows_text(rows, row, HISTORY_TOPIC),
            .type = rows_text(rows, row, HISTORY_TYPE)};
        const char *headers = rows_text(rows, row, HISTORY_HEADERS);
        struct event_headers parsed = {0};
        struct bytes jsonb = {0};
        bool is_taken;

        bytes_append(&jsonb, "\1", 1); /* as in the binary format */
        if (headers != NULL)
                bytes_append_text(&jsonb, headers);
        event_headers_read(&parsed, jsonb.data, jsonb.length, &event);
        is_taken = destination_judge(destination, &event) == DESTINATION_TAKES;
        event_headers_deinit(&parsed);
        bytes_deinit(&jsonb);
        return is_taken;
}

static int64_t id_of(const struct rows *rows, int row)
{
        return strtoll(rows_text(rows, row, HISTORY_ID), NULL, 10);
}

/* Filters may still refuse some. */
static struct ids choose(const struct destination *destination, const struct rows *rows)
{
        struct ids chosen = {.ids = xcalloc((size_t)rows_count(rows) + 1, sizeof *chosen.ids)};

        for (int i = 0; i < rows_count(rows); i++)
                if (takes(destination, rows, i))
                        chosen.ids[chosen.n++] = id_of(rows, i);
        return chosen;
}

/* Leaves those that the filters are true of. */
static bool ask(struct replay_reader *reader, struct ids *chosen, bool *out_is_too_slow,
    int64_t *out_took_us, struct error *error)
{
        int64_t asked_us = clock_monotonic_us();
        struct array_literal asked = {0};
        struct rows *rows;
        bool ok;

        for (int i = 0; i < chosen->n; i++)
                array_add_int(&asked, chosen->ids[i]);
        ok = filters_ask(reader->conn, array_end(&asked), reader->filters.data, &rows, error);
        array_deinit(&asked);
        if (!ok)
                return false;
        *out_took_us = clock_monotonic_us() - asked_us;
        *out_is_too_slow = rows == NULL;
        if (rows == NULL)
                return true;
        chosen->n = rows_count(rows);
        for (int i = 0; i < chosen->n; i++)
                chosen->ids[i] = id_of(rows, i);
        rows_free(rows);
        return true;
}

/* Skips an event that the filter took too long for. As in the relay, the third in a row is an
 * error. */
static bool leave_out(struct replay_reader *reader, int64_t id, struct error *error)
{
        char *name;

        reader->n_left_out++;
        if (++reader->n_too_slow < FILTER_QUEUE_STRIKES)
                return true;
        name = destination_name(reader->destination);
        error_set(error, ERROR_SINK,
            "%s: its filter takes too long: more than %d ms for each of %d events in a row, the "
            "last with the id %" PRId64 "; simplify it",
            name, FILTERS_LIMIT_MS, FILTER_QUEUE_STRIKES, id);
        free(name);
        return false;
}

/* Doubles the page while the filters answer quickly and a page does not yield enough. */
static void note_time(struct replay_reader *reader, int64_t took_us, bool is_enough)
{
        if (is_enough || took_us >= FILTER_QUEUE_LIMIT_MS * 1000)
                return;
        reader->n_rows *= 2;
        if (reader->n_rows > REPLAY_PAGE_ROWS)
                reader->n_rows = REPLAY_PAGE_ROWS;
}

static bool read_rows(struct replay_reader *reader, const struct rows *rows, struct ids *chosen,
    int n_max, bool *out_is_end, struct error *error)
{
        bool asks = chosen->n > 0 && destination_has_filter(reader->destination);
        int64_t first = asks ? chosen->ids[0] : 0;
        bool is_too_slow = false;
        int64_t took_us = 0;

        if (asks && !ask(reader, chosen, &is_too_slow, &took_us, error))
                return false;
        if (is_too_slow && chosen->n > 1) { /* again, one by one */
                reader->n_rows = 1;
                chosen->n = 0;
                return true;
        }
        if (is_too_slow) {
                chosen->n = 0;
                if (!leave_out(reader, first, error))
                        return false;
        } else if (asks) {
                reader->n_too_slow = 0;
        }
        *out_is_end = rows_count(rows) < reader->n_rows && chosen->n <= n_max;
        if (chosen->n > n_max)
                chosen->n = n_max;
        if (chosen->n == n_max)
                reader->after_id = chosen->ids[n_max - 1];
        else if (rows_count(rows) > 0)
                reader->after_id = id_of(rows, rows_count(rows) - 1);
        if (!is_too_slow)
                note_time(reader, took_us, chosen->n == n_max);
        return true;
}

bool replay_reader_read(struct replay_reader *reader, int n_max, struct array_literal *ids,
    int64_t *out_n_taken, bool *out_is_end, struct error *error)
{
        struct rows *rows =
            history_read(reader->conn, reader->range, reader->after_id, reader->n_rows, error);
        struct ids chosen;
        bool ok;

        if (rows == NULL)
                return false;
        *out_is_end = false;
        chosen = choose(reader->destination, rows);
        ok = read_rows(reader, rows, &chosen, n_max, out_is_end, error);
        if (ok) {
                for (int i = 0; i < chosen.n; i++)
                        array_add_int(ids, chosen.ids[i]);
                *out_n_taken = chosen.n;
        }
        free(chosen.ids);
        rows_free(rows);
        return ok;
}

#include "chaos/receivers.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "support/postgres.h"
#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY_EVERY_US (100 * 1000)

static const struct row {
        enum chaos_sink sink;
        const char *topics;
        unsigned concurrency; /* chaos_sink_window() follows from it */
        unsigned rate;
} rows[] = {
    {SINK_ALL, "{chaos.event,chaos.mail}", 20, 0},
    {SINK_EVENTS, "{chaos.*,!chaos.mail,!*.plain}", 8, 0},
    {SINK_MAILS, "{*.mail}", 8, 0},
    {SINK_FRAIL, "{**,!tick.**,!fresh.**,!*.plain}", 40, 0},
    {SINK_PAUSED, "{chaos.event,chaos.mail}", 8, 0},
    {SINK_MOVING, "{chaos.event,chaos.mail}", 8, 0},
    {SINK_PASSING, "{chaos.event,chaos.mail}", 8, 0},
    {SINK_LIMITED, "{chaos.event,chaos.mail}", 4, 400},
    {SINK_STRICT, "{chaos.event,chaos.mail}", 16, 0},
    {SINK_CHOOSY, "{chaos.event,chaos.mail}", 8, 0},
};

static unsigned generation_of(const struct receivers *receivers)
{
        return atomic_load(&receivers->generation);
}

void receivers_begin(struct receivers *receivers, const char *dsn, uint16_t many, uint16_t frail,
    struct arrivals *passing)
{
        PGconn *admin = database_connect(dsn);

        *receivers = (struct receivers){.dsn = dsn, .ports = {many, frail}, .passing = passing};
        dear_filter_init(&receivers->filter);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                const char *name = chaos_sink_name(rows[i].sink);
                char *sql = xasprintf(
                    "INSERT INTO courier.receiver (sink, name, url, topics, start, concurrency, "
                    "rate, filter)"
                    " VALUES ('many', '%s', 'http://127.0.0.1:%u/%s%s', '%s', 'beginning', %u, %u,"
                    " nullif('%s', '')::jsonpath)",
                    name, rows[i].sink == SINK_FRAIL ? frail : many, name,
                    rows[i].sink == SINK_PASSING ? "-0" : "", rows[i].topics, rows[i].concurrency,
                    rows[i].rate, rows[i].sink == SINK_CHOOSY ? ordinary_filter : "");
                database_exec(admin, sql);
                free(sql);
        }
        PQfinish(admin);
}

static bool execute(PGconn *admin, const char *sql)
{
        PGresult *result = PQexec(admin, sql);
        ExecStatusType status = PQresultStatus(result);

        PQclear(result);
        return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static void see_to_pause(struct receivers *receivers, PGconn *admin)
{
        if (receivers->is_paused == receivers->wants_pause)
                return;
        if (!execute(
                admin, receivers->wants_pause
                           ? "UPDATE courier.receiver SET state = 'paused' WHERE name = 'paused'"
                           : "UPDATE courier.receiver SET state = 'active' WHERE name = 'paused'"))
                return;
        receivers->is_paused = receivers->wants_pause;
        receivers->n_pauses += receivers->is_paused;
}

static void see_to_move(struct receivers *receivers, PGconn *admin)
{
        char *sql;

        if (!receivers->wants_move)
                return;
        sql = xasprintf(
            "UPDATE courier.receiver SET url = 'http://127.0.0.1:%u/moving' WHERE name = 'moving'",
            receivers->ports[(receivers->n_moves + 1) % 2]);
        if (execute(admin, sql)) {
                receivers->n_moves++;
                receivers->wants_move = false;
        }
        free(sql);
}

static bool read_snapshot(PGconn *admin, char *snapshot, size_t n_bytes)
{
        PGresult *result = PQexec(admin, "SELECT pg_current_snapshot()");
        bool is_read = PQresultStatus(result) == PGRES_TUPLES_OK;

        if (is_read &&
            (size_t)snprintf(snapshot, n_bytes, "%s", PQgetvalue(result, 0, 0)) >= n_bytes)
                test_abort("a snapshot of more than %zu bytes", n_bytes);
        PQclear(result);
        return is_read;
}

static bool insert_passing(const struct receivers *receivers, PGconn *admin, unsigned generation)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, topics)"
                              " VALUES ('many', 'passing', 'http://127.0.0.1:%u/passing-%u', "
                              "'{chaos.event,chaos.mail}')",
            receivers->ports[0], generation);
        bool is_done = execute(admin, sql);

        free(sql);
        return is_done;
}

/* From before the change is committed on, what arrives for the old one does not count: a relay may
 * still have it in hand. */
static void see_to_renewal(struct receivers *receivers, PGconn *admin)
{
        unsigned next = generation_of(receivers) + 1;
        char before[sizeof receivers->before], after[sizeof receivers->after];

        if (!receivers->wants_new ||
            !execute(admin, "BEGIN; DELETE FROM courier.receiver WHERE name = 'passing'") ||
            !read_snapshot(admin, before, sizeof before) ||
            !insert_passing(receivers, admin, next) || !read_snapshot(admin, after, sizeof after))
                return;
        atomic_store(&receivers->generation, next);
        arrivals_renew(receivers->passing, next);
        memcpy(receivers->before, before, sizeof before);
        memcpy(receivers->after, after, sizeof after);
        database_exec(admin, "COMMIT");
        receivers->wants_new = false;
}

void receivers_see_to(struct receivers *receivers)
{
        int64_t now_us = clock_monotonic_us();
        PGconn *admin;

        if ((!receivers->wants_move && !receivers->wants_new &&
                receivers->is_paused == receivers->wants_pause &&
                dear_filter_is_as_wanted(&receivers->filter)) ||
            now_us < receivers->next_try_us)
                return;
        receivers->next_try_us = now_us + TRY_EVERY_US;
        admin = PQconnectdb(receivers->dsn);
        if (PQstatus(admin) == CONNECTION_OK && execute(admin, "SET statement_timeout = '2s'")) {
                see_to_pause(receivers, admin);
                see_to_move(receivers, admin);
                dear_filter_see_to(&receivers->filter, admin);
                see_to_renewal(receivers, admin);
        }
        PQfinish(admin);
}

bool receivers_find(const struct receivers *receivers, const char *path, enum chaos_sink *out_sink,
    unsigned *out_generation)
{
        unsigned newcomer;

        if (sscanf(path, "/passing-%u", out_generation) == 1) {
                *out_sink = SINK_PASSING;
                return *out_generation == generation_of(receivers);
        }
        *out_generation = 0;
        if (sscanf(path, "/fresh-%u", &newcomer) == 1) {
                *out_sink = SINK_FRESH;
                return true;
        }
        for (int s = N_PLAIN_SINKS; s < N_SINKS; s++)
                if (strcmp(path + 1, chaos_sink_name((enum chaos_sink)s)) == 0) {
                        *out_sink = (enum chaos_sink)s;
                        return true;
                }
        test_abort("a request for no known receiver: %s", path);
}

void receivers_deinit(struct receivers *receivers)
{
        dear_filter_deinit(&receivers->filter);
}

/* What was committed while it was inserted may come or not. */
void receivers_judge_start(const struct receivers *receivers, const struct numbering *numbering,
    struct chaos_event *events)
{
        const char *snapshots[] = {receivers->before, receivers->after};
        PGconn *admin;
        PGresult *result;

        if (receivers->before[0] == '\0')
                return;
        admin = database_connect(receivers->dsn);
        result = PQexecParams(admin,
            "SELECT payload, pg_visible_in_snapshot(txid, $1::pg_snapshot) FROM public.written"
            " WHERE topic LIKE 'chaos.%' AND pg_visible_in_snapshot(txid, $2::pg_snapshot)",
            2, NULL, snapshots, NULL, NULL, 0);
        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("cannot read what is old: %s", PQerrorMessage(admin));
        for (int i = 0; i < PQntuples(result); i++) {
                const char *payload = PQgetvalue(result, i, 0);
                bool is_old = PQgetvalue(result, i, 1)[0] == 't';
                unsigned writer, number;
                int64_t due_us;
                uint32_t event = UINT32_MAX;
                if (!chaos_is_beacon(payload) &&
                    chaos_event_parse(payload, &writer, &number, &due_us))
                        event = numbering_find(numbering, writer, number);
                if (event == UINT32_MAX)
                        continue;
                if (is_old)
                        events[event].sinks &= ~(1u << SINK_PASSING);
                else
                        events[event].optional |= 1u << SINK_PASSING;
        }
        PQclear(result);
        PQfinish(admin);
}

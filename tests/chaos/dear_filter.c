#include "chaos/dear_filter.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "support/postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was read while it was asked is written down later, and relays learn of a change after it. */
#define AFTER_US (5 * INT64_C(1000000))

/* It differs from the known ones, for it may have been changed. */
#define UNKNOWN (-2)

const char ordinary_filter[] = "exists($.to)";

/* Filters within filters: each level asks of every node what the level below asks of all nodes. */
static char *nested(unsigned n_levels, const char *each, const char *innermost)
{
        char *path = xasprintf("%s ? (%s)", each, innermost);

        for (unsigned i = 0; i < n_levels; i++) {
                char *outer = xasprintf("%s ? (exists(%s))", each, path);
                free(path);
                path = outer;
        }
        return path;
}

static char *dear(int which)
{
        static const struct {
                unsigned n_levels;
                const char *each, *innermost;
        } paths[N_DEAR_FILTERS] = {
            {4, "$.**", "@ == \"nope\""},
            {7, "$.**", "@ == \"nope\""},
            {10, "$.**", "@ == \"nope\""},
            {4, "$.**.**.**", "@ == \"nope\""},
            {1, "$.**",
                "@ like_regex "
                "\"^(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.+)\\\\9\\\\9\\\\9\\\\9$\""},
            {3, "$.**", "(7e1300 + 1) * (7e1300 + 1) % (3e1200 + 7) < 0"},
        };
        char *path = nested(paths[which].n_levels, paths[which].each, paths[which].innermost);
        char *filter = xasprintf("!(exists(%s))", path);

        free(path);
        return filter;
}

void dear_filter_init(struct dear_filter *filter)
{
        *filter = (struct dear_filter){.wanted = DEAR_FILTER_NONE, .known = DEAR_FILTER_NONE};
}

void dear_filter_deinit(struct dear_filter *filter)
{
        free(filter->spans);
}

bool dear_filter_is_as_wanted(const struct dear_filter *filter)
{
        return filter->known == filter->wanted;
}

static void begin_span(struct dear_filter *filter)
{
        filter->spans = xrealloc(filter->spans, (filter->n_spans + 1) * sizeof *filter->spans);
        filter->spans[filter->n_spans++] =
            (struct chaos_span){.from_us = clock_wall_us(), .until_us = INT64_MAX};
}

/* Otherwise the server is away, or another session has the row: later. */
static void abort_if_refused(const PGresult *result)
{
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        if (state != NULL && (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 ||
                                 strncmp(state, "42", 2) == 0))
                test_abort("a filter is refused: %s", PQresultErrorMessage(result));
}

static void set_dear(struct dear_filter *filter, PGconn *admin)
{
        char *path = dear(filter->wanted);
        const char *value = path;
        PGresult *result;

        if (filter->known == DEAR_FILTER_NONE)
                begin_span(filter);
        filter->known = UNKNOWN;
        result = PQexecParams(admin,
            "UPDATE courier.receiver SET filter = $1::jsonpath WHERE name = 'choosy'", 1, NULL,
            &value, NULL, NULL, 0);
        if (PQresultStatus(result) == PGRES_COMMAND_OK)
                filter->known = filter->wanted;
        abort_if_refused(result);
        PQclear(result);
        free(path);
}

static void note_state(struct dear_filter *filter, const char *state, const char *reason)
{
        if (strcmp(state, "disabled") != 0)
                return;
        filter->n_disabled++;
        if (strstr(reason, "filter") == NULL && filter->bad_reason[0] == '\0')
                snprintf(filter->bad_reason, sizeof filter->bad_reason, "%.150s", reason);
}

static void set_ordinary(struct dear_filter *filter, PGconn *admin)
{
        const char *value = ordinary_filter;
        PGresult *result = PQexecParams(admin,
            "WITH old AS (SELECT state, state_reason FROM courier.receiver"
            "  WHERE name = 'choosy' FOR UPDATE)"
            " UPDATE courier.receiver AS e SET filter = $1::jsonpath, state = 'active' FROM old"
            " WHERE e.name = 'choosy' RETURNING old.state, old.state_reason",
            1, NULL, &value, NULL, NULL, 0);

        if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) {
                note_state(filter, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
                filter->known = DEAR_FILTER_NONE;
                filter->spans[filter->n_spans - 1].until_us = clock_wall_us() + AFTER_US;
        }
        abort_if_refused(result);
        PQclear(result);
}

void dear_filter_see_to(struct dear_filter *filter, PGconn *admin)
{
        if (dear_filter_is_as_wanted(filter))
                return;
        if (filter->wanted == DEAR_FILTER_NONE)
                set_ordinary(filter, admin);
        else
                set_dear(filter, admin);
}

/* A look whose answer was lost did not count, so there may be more events than looks. */
bool dear_filter_is_told_of(
    const struct dear_filter *filter, PGconn *admin, char *words, size_t n_bytes)
{
        int64_t n_told = database_integer(
            admin, "SELECT count(*) FROM public.written WHERE topic = 'courier.receiver.disabled'");
        int64_t n_untrue = database_integer(admin,
            "SELECT count(*) FROM public.written WHERE topic = 'courier.receiver.disabled'"
            " AND NOT (payload ~ '\"choosy\"' AND payload ~ 'filter')");

        if (filter->bad_reason[0] != '\0')
                snprintf(words, n_bytes,
                    "was disabled, and the reason does not name its filter: %s",
                    filter->bad_reason);
        else if (n_untrue > 0)
                snprintf(words, n_bytes,
                    "%" PRId64 " events courier.receiver.disabled are of another receiver, or do "
                    "not name the filter",
                    n_untrue);
        else if (n_told < filter->n_disabled)
                snprintf(words, n_bytes,
                    "was disabled %u times, and told of in %" PRId64
                    " events courier.receiver.disabled",
                    filter->n_disabled, n_told);
        else
                return true;
        return false;
}

#include "chaos/owners.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool owners_is_of(int configured, enum chaos_sink sink)
{
        return configured == SINK_MANY ? chaos_sink_is_receiver(sink) : configured == (int)sink;
}

/* -1: none of ours, such as that of the marks. */
static int find_configured(const char *name)
{
        for (int s = 0; s < N_PLAIN_SINKS; s++)
                if (strcmp(name, chaos_sink_name((enum chaos_sink)s)) == 0)
                        return s;
        return strcmp(name, "many") == 0 ? SINK_MANY : -1;
}

/* ---- what the logs tell ---------------------------------------------------------------------- */

/* ts=2026-01-31T12:00:00.123456Z */
static int64_t timestamp_us(const char *line)
{
        struct tm utc = {0};
        const char *rest = strptime(line, "ts=%Y-%m-%dT%H:%M:%S", &utc);

        return rest != NULL ? (int64_t)timegm(&utc) * 1000000 + (int64_t)(strtod(rest, NULL) * 1e6)
                            : 0;
}

/* "stream#2", "mail", "many/frail"; a lane of a receiver that comes and goes is none of ours. */
static bool read_lane(const char *label, struct owning *owning)
{
        char name[64];
        bool is_receiver = strncmp(label, "many/", 5) == 0;

        owning->shard = 0;
        if (sscanf(is_receiver ? label + 5 : label, "%63[^# ]#%d", name, &owning->shard) < 1)
                return false;
        for (int s = 0; s < N_SINKS; s++)
                if (chaos_sink_is_receiver((enum chaos_sink)s) == is_receiver &&
                    strcmp(name, chaos_sink_name((enum chaos_sink)s)) == 0) {
                        owning->sink = (enum chaos_sink)s;
                        return true;
                }
        return false;
}

static void read_owned(struct owners *owners, int relay, const char *line, const char *label)
{
        struct owning owning = {.at_us = timestamp_us(line), .relay = relay};

        if (!read_lane(label, &owning))
                return;
        owners->each = xrealloc(owners->each, (owners->n + 1) * sizeof *owners->each);
        owners->each[owners->n++] = owning;
}

static void read_abandoned(struct owners *owners, int relay, const char *line, const char *label)
{
        struct abandoned abandoned = {.at_us = timestamp_us(line), .relay = relay};
        char name[64];

        if (sscanf(label, "%63s shard=%d in_flight=%u", name, &abandoned.shard,
                &abandoned.n_in_flight) != 3)
                return;
        abandoned.configured = find_configured(name);
        if (abandoned.configured < 0)
                return;
        owners->abandoned =
            xrealloc(owners->abandoned, (owners->n_abandoned + 1) * sizeof *owners->abandoned);
        owners->abandoned[owners->n_abandoned++] = abandoned;
}

static void read_line(struct owners *owners, int relay, const char *line)
{
        static const char owned[] = "event=lane_owned sink=";
        static const char abandoned[] = "event=shard_abandoned sink=";
        const char *found;

        if ((found = strstr(line, owned)) != NULL)
                read_owned(owners, relay, line, found + sizeof owned - 1);
        else if ((found = strstr(line, abandoned)) != NULL)
                read_abandoned(owners, relay, line, found + sizeof abandoned - 1);
        owners->n_given += strstr(line, "event=shard_given ") != NULL;
        owners->n_waiting += strstr(line, "event=shards_differ ") != NULL;
}

/* ---- what the database tells ----------------------------------------------------------------- */

static void read_divisions(struct owners *owners, const char *dsn)
{
        PGconn *admin = database_connect(dsn);
        PGresult *result = PQexec(admin,
            "SELECT sink, (extract(epoch FROM at) * 1000000)::bigint FROM public.divided"
            " ORDER BY at");

        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("cannot read the divisions: %s", PQerrorMessage(admin));
        owners->n_divisions = (size_t)PQntuples(result);
        owners->divisions = xcalloc(owners->n_divisions + 1, sizeof *owners->divisions);
        for (int row = 0; row < PQntuples(result); row++) {
                struct division *division = &owners->divisions[row];
                division->at_us = strtoll(PQgetvalue(result, row, 1), NULL, 10);
                division->configured = find_configured(PQgetvalue(result, row, 0));
        }
        PQclear(result);
        PQfinish(admin);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int by_moment(const void *a_, const void *b_)
{
        const struct owning *a = a_, *b = b_;

        return (a->at_us > b->at_us) - (a->at_us < b->at_us);
}

struct owners owners_read(const struct world *world)
{
        struct owners owners = {0};
        char *line = NULL;
        size_t capacity = 0;

        for (int i = 0; i < N_RELAYS; i++) {
                FILE *log = fopen(world->relays[i].log_path, "r");
                while (log != NULL && getline(&line, &capacity, log) > 0)
                        read_line(&owners, i, line);
                if (log != NULL)
                        fclose(log);
        }
        free(line);
        if (owners.n > 0)
                qsort(owners.each, owners.n, sizeof *owners.each, by_moment);
        read_divisions(&owners, world->dsn);
        return owners;
}

void owners_deinit(struct owners *owners)
{
        free(owners->each);
        free(owners->abandoned);
        free(owners->divisions);
}

static bool is_lane(const struct owning *owning, enum chaos_sink sink, int shard)
{
        return owning->sink == sink && (shard == ALL_SHARDS || owning->shard == shard);
}

int owners_find(const struct owners *owners, enum chaos_sink sink, int shard, int64_t at_us)
{
        int owner = -1;

        for (size_t i = 0; i < owners->n && owners->each[i].at_us < at_us; i++)
                if (is_lane(&owners->each[i], sink, shard))
                        owner = owners->each[i].relay;
        return owner;
}

int64_t owners_next(const struct owners *owners, enum chaos_sink sink, int shard, int64_t at_us)
{
        for (size_t i = 0; i < owners->n; i++)
                if (is_lane(&owners->each[i], sink, shard) && owners->each[i].at_us >= at_us)
                        return owners->each[i].at_us;
        return -1;
}

int64_t owners_next_division(const struct owners *owners, enum chaos_sink sink, int64_t at_us)
{
        for (size_t i = 0; i < owners->n_divisions; i++)
                if (owners_is_of(owners->divisions[i].configured, sink) &&
                    owners->divisions[i].at_us >= at_us)
                        return owners->divisions[i].at_us;
        return -1;
}

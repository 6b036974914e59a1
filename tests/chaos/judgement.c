#include "chaos/judgement.h"

#include "base/alloc.h"
#include "chaos/owners.h"

#include <stdlib.h>
#include <string.h>

struct events {
        struct chaos_event *each; /* owned */
        struct numbering numbering;
};

static struct events collect_events(const struct world *world)
{
        unsigned n_writers = writers_count(world->writers);
        struct events events = {.numbering = {xcalloc(n_writers + 1, sizeof(uint32_t)), n_writers}};
        uint32_t *first = events.numbering.first;

        for (unsigned w = 0; w < n_writers; w++)
                first[w + 1] = first[w] + writers_n_events(world->writers, w);
        events.each = xcalloc(first[n_writers] + 1, sizeof *events.each);
        for (unsigned w = 0; w < n_writers; w++)
                for (unsigned n = 0; n < writers_n_events(world->writers, w); n++) {
                        struct chaos_event *event = &events.each[first[w] + n];
                        *event = chaos_event(w, n, writers_outcome(world->writers, w, n),
                            (world->options.without & WITHOUT_REFUSALS) == 0);
                        event->committed_us = writers_committed_us(world->writers, w, n);
                }
        receivers_judge_start(&world->receivers, &events.numbering, events.each);
        return events;
}

/* Each newcomer is as a writer. */
static struct events collect_events_of_newcomers(const struct newcomers *newcomers)
{
        unsigned n = newcomers != NULL ? newcomers_count(newcomers) : 0;
        struct events events = {.numbering = {xcalloc(n + 1, sizeof(uint32_t)), n}};

        for (unsigned i = 0; i < n; i++)
                events.numbering.first[i + 1] = (i + 1) * EVENTS_OF_NEWCOMER;
        events.each = xcalloc((size_t)n * EVENTS_OF_NEWCOMER + 1, sizeof *events.each);
        if (newcomers != NULL)
                newcomers_events(newcomers, events.each);
        return events;
}

static void free_events(struct events *events)
{
        free(events->each);
        free(events->numbering.first);
}

static const char *dead_letters_sql(enum chaos_sink sink)
{
        if (sink == SINK_FRESH)
                return "SELECT payload::text, (extract(epoch FROM died_at) * 1000000)::bigint,"
                       " error FROM courier.dead_letter"
                       " WHERE sink = 'many' AND topic LIKE 'fresh.%' AND $1 <> '' ORDER BY id";
        if (chaos_sink_is_receiver(sink))
                return "SELECT d.payload::text, (extract(epoch FROM d.died_at) * 1000000)::bigint,"
                       " d.error FROM courier.dead_letter d, courier.receiver e"
                       " WHERE d.sink = 'many' AND d.lane = e.id AND e.name = $1 ORDER BY d.id";
        return "SELECT payload::text, (extract(epoch FROM died_at) * 1000000)::bigint, error"
               " FROM courier.dead_letter WHERE sink = $1 ORDER BY id";
}

/* Free it. */
static struct chaos_dead *read_dead_letters(const struct world *world, enum chaos_sink sink,
    const struct numbering *numbering, size_t *out_n)
{
        PGconn *admin = database_connect(world->dsn);
        const char *name = chaos_sink_name(sink);
        PGresult *result =
            PQexecParams(admin, dead_letters_sql(sink), 1, NULL, &name, NULL, NULL, 0);
        struct chaos_dead *dead;

        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("cannot read dead letters: %s", PQerrorMessage(admin));
        *out_n = (size_t)PQntuples(result);
        dead = xcalloc(*out_n + 1, sizeof *dead);
        for (int i = 0; i < PQntuples(result); i++) {
                unsigned writer, number;
                int64_t due_us;
                dead[i] = (struct chaos_dead){.event = UINT32_MAX,
                    .died_us = strtoll(PQgetvalue(result, i, 1), NULL, 10),
                    .is_for_its_filter = strstr(PQgetvalue(result, i, 2), "filter") != NULL};
                if (chaos_event_parse(PQgetvalue(result, i, 0), &writer, &number, &due_us))
                        dead[i].event = numbering_find(numbering, writer, number);
        }
        PQclear(result);
        PQfinish(admin);
        return dead;
}

static int by_beginning(const void *a_, const void *b_)
{
        const struct chaos_incident *a = a_, *b = b_;

        return (a->begin_us > b->begin_us) - (a->begin_us < b->begin_us);
}

/* So many windows of the sink there are: of its shards, each relay that has some has one. */
static uint32_t windows_of(const struct chaos_incident *incident, enum chaos_sink sink)
{
        bool is_of_all = incident->cause == CAUSE_SESSION || incident->cause == CAUSE_PG_PASSWORD;
        uint32_t n = incident->max_repeats / WORLD_MAX_IN_FLIGHT;

        return is_of_all && (sink == SINK_STREAM || sink == SINK_HOOK) ? n * N_RELAYS : n;
}

/* Until somebody owns the shard again, or a shard of the sink after it was divided anew. */
static int64_t owned_again_us(
    const struct owners *owners, const struct abandoned *abandoned, enum chaos_sink sink)
{
        int shard = chaos_sink_is_receiver(sink) ? ALL_SHARDS : abandoned->shard;
        int64_t owned_us = owners_next(owners, sink, shard, abandoned->at_us);
        int64_t divided_us = owners_next_division(owners, sink, abandoned->at_us);
        int64_t after_us = divided_us > 0 ? owners_next(owners, sink, ALL_SHARDS, divided_us) : -1;

        if (owned_us > 0 && after_us > 0)
                return owned_us < after_us ? owned_us : after_us;
        return owned_us > 0 ? owned_us : after_us > 0 ? after_us : INT64_MAX;
}

/* What was under way when a relay gave a shard up, and no more than that. Of receivers it is known
 * whose lanes that relay had. */
static size_t copy_abandoned(
    const struct owners *owners, enum chaos_sink sink, struct chaos_incident *out)
{
        size_t n = 0;

        for (size_t i = 0; i < owners->n_abandoned; i++) {
                const struct abandoned *abandoned = &owners->abandoned[i];
                if (!owners_is_of(abandoned->configured, sink) ||
                    (chaos_sink_is_receiver(sink) && sink != SINK_FRESH &&
                        owners_find(owners, sink, ALL_SHARDS, abandoned->at_us) !=
                            abandoned->relay))
                        continue;
                out[n++] = (struct chaos_incident){.sinks = 1u << sink,
                    .cause = CAUSE_ABANDONED,
                    .max_repeats = abandoned->n_in_flight,
                    .begin_us = abandoned->at_us,
                    .end_us = owned_again_us(owners, abandoned, sink)};
        }
        return n;
}

/* The bounds of most are for a window of WORLD_MAX_IN_FLIGHT. */
static struct chaos_incident *copy_incidents(
    const struct faults *faults, const struct owners *owners, enum chaos_sink sink, size_t *out_n)
{
        struct chaos_incident *copy =
            xcalloc(faults->n_incidents + owners->n_abandoned + 1, sizeof *copy);

        for (size_t i = 0; i < faults->n_incidents; i++) {
                copy[i] = faults->incidents[i].judged;
                if (copy[i].max_repeats != UINT32_MAX)
                        copy[i].max_repeats = windows_of(&copy[i], sink) * chaos_sink_window(sink);
        }
        *out_n = faults->n_incidents + copy_abandoned(owners, sink, copy + faults->n_incidents);
        qsort(copy, *out_n, sizeof *copy, by_beginning);
        return copy;
}

/* In the calm the others refuse some, which holds up others; or wait for the disk. */
static bool is_timed(enum chaos_sink sink)
{
        return sink == SINK_STREAM || sink == SINK_JOBS || sink == SINK_NATS || sink == SINK_ALL;
}

static bool is_once(enum chaos_sink sink)
{
        return sink == SINK_ONCE || sink == SINK_JOBS || sink == SINK_NATS;
}

static struct chaos_verdict judge_sink(struct world *world, const struct faults *faults,
    const struct owners *owners, enum chaos_sink sink, const struct events *events)
{
        size_t n_incidents;
        struct chaos_incident *incidents = copy_incidents(faults, owners, sink, &n_incidents);
        const struct dear_filter *filter = &world->receivers.filter;
        struct chaos_history history = {.sink = (uint32_t)sink,
            .is_in_order = chaos_sink_keeps_order(sink),
            .events = events->each,
            .n_events = events->numbering.first[events->numbering.n_writers],
            .incidents = incidents,
            .dear = filter->spans,
            .n_dear = sink == SINK_CHOOSY ? filter->n_spans : 0,
            .calm_from_us = world->calm_from_us,
            .calm_until_us = is_timed(sink) ? world->calm_until_us : 0,
            /* Nothing at all is a reason to come twice where that is promised. */
            .n_incidents = is_once(sink) ? 0 : n_incidents};
        struct chaos_arrival *arrivals =
            arrivals_number(&world->arrivals[sink], &events->numbering, &history.n_arrivals);
        struct chaos_dead *dead =
            read_dead_letters(world, sink, &events->numbering, &history.n_dead);
        struct chaos_verdict verdict;

        history.arrivals = arrivals;
        history.dead = dead;
        verdict = chaos_judge(&history);
        free(arrivals);
        free(dead);
        free(incidents);
        return verdict;
}

void judge_world(
    struct world *world, const struct faults *faults, struct chaos_verdict out_verdicts[N_SINKS])
{
        struct events events = collect_events(world);
        struct events fresh = collect_events_of_newcomers(world->newcomers);
        struct owners owners = owners_read(world);

        world_read_arrivals(world);
        for (int s = 0; s < N_SINKS; s++)
                out_verdicts[s] = world_has_sink(world, (enum chaos_sink)s)
                                      ? judge_sink(world, faults, &owners, (enum chaos_sink)s,
                                            s == SINK_FRESH ? &fresh : &events)
                                      : (struct chaos_verdict){0};
        free_events(&events);
        free_events(&fresh);
        owners_deinit(&owners);
}

#include "chaos/judgement.h"

#include "base/alloc.h"

#include <stdlib.h>

struct events {
        struct chaos_event *each; /* owned */
        size_t n;
        uint32_t *first; /* by writer: the number of its event 0; owned */
};

static struct events collect_events(const struct world *world)
{
        unsigned n_writers = writers_count(world->writers);
        struct events events = {.first = xcalloc(n_writers, sizeof(uint32_t))};

        for (unsigned w = 0; w < n_writers; w++) {
                events.first[w] = (uint32_t)events.n;
                events.n += writers_n_events(world->writers, w);
        }
        events.each = xcalloc(events.n + 1, sizeof *events.each);
        for (unsigned w = 0; w < n_writers; w++)
                for (unsigned n = 0; n < writers_n_events(world->writers, w); n++) {
                        struct chaos_event *event = &events.each[events.first[w] + n];
                        *event = chaos_event(w, n, writers_outcome(world->writers, w, n),
                            world->options.with_refusals);
                        event->committed_us = writers_committed_us(world->writers, w, n);
                }
        return events;
}

/* Numbers of events; free it. */
static uint32_t *read_dead_letters(
    const struct world *world, enum chaos_sink sink, const struct events *events, size_t *out_n)
{
        PGconn *admin = database_connect(world->dsn);
        const char *name = chaos_sink_name(sink);
        PGresult *result = PQexecParams(admin,
            chaos_sink_is_receiver(sink)
                ? "SELECT d.payload::text FROM courier.dead_letter d, courier.endpoint e"
                  " WHERE d.sink = 'many' AND d.lane = e.id AND e.name = $1 ORDER BY d.id"
                : "SELECT payload::text FROM courier.dead_letter WHERE sink = $1 ORDER BY id",
            1, NULL, &name, NULL, NULL, 0);
        uint32_t *dead;

        if (PQresultStatus(result) != PGRES_TUPLES_OK)
                test_abort("cannot read dead letters: %s", PQerrorMessage(admin));
        *out_n = (size_t)PQntuples(result);
        dead = xcalloc(*out_n + 1, sizeof *dead);
        for (int i = 0; i < PQntuples(result); i++) {
                unsigned writer, number;
                int64_t due_us;
                bool is_ours =
                    chaos_event_parse(PQgetvalue(result, i, 0), &writer, &number, &due_us) &&
                    writer < writers_count(world->writers);
                dead[i] = is_ours ? events->first[writer] + number : UINT32_MAX;
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

/* Their bounds are for a window of WORLD_MAX_IN_FLIGHT. */
static struct chaos_incident *copy_incidents(const struct faults *faults, enum chaos_sink sink)
{
        struct chaos_incident *copy = xcalloc(faults->n_incidents + 1, sizeof *copy);

        for (size_t i = 0; i < faults->n_incidents; i++) {
                copy[i] = faults->incidents[i].judged;
                if (copy[i].max_repeats != UINT32_MAX)
                        copy[i].max_repeats =
                            copy[i].max_repeats / WORLD_MAX_IN_FLIGHT * chaos_sink_window(sink);
        }
        qsort(copy, faults->n_incidents, sizeof *copy, by_beginning);
        return copy;
}

void judge_world(
    struct world *world, const struct faults *faults, struct chaos_verdict out_verdicts[N_SINKS])
{
        struct events events = collect_events(world);

        receivers_judge_start(&world->receivers, world->writers, events.each, events.first);
        world_read_arrivals(world);
        for (int s = 0; s < N_SINKS; s++) {
                struct arrivals *arrivals = &world->arrivals[s];
                struct chaos_incident *incidents = copy_incidents(faults, (enum chaos_sink)s);
                struct chaos_history history = {.sink = (uint32_t)s,
                    .is_in_order = chaos_sink_keeps_order((enum chaos_sink)s),
                    .events = events.each,
                    .n_events = events.n,
                    .incidents = incidents,
                    /* The others refuse some, which holds up others; or wait for the disk. */
                    .calm_from_us = world->calm_from_us,
                    .calm_until_us = s == SINK_STREAM ? world->calm_until_us : 0,
                    /* Nothing at all is a reason to come twice where that is promised. */
                    .n_incidents = s == SINK_ONCE ? 0 : faults->n_incidents};
                struct chaos_arrival *numbered =
                    arrivals_number(arrivals, world->writers, events.first, &history.n_arrivals);
                uint32_t *dead =
                    read_dead_letters(world, (enum chaos_sink)s, &events, &history.n_dead);
                history.arrivals = numbered;
                history.dead = dead;
                out_verdicts[s] = chaos_judge(&history);
                free(numbered);
                free(dead);
                free(incidents);
        }
        free(events.each);
        free(events.first);
}

/*
 * For a sink that remembers in its destination what it has delivered: which of
 * that never comes again, because PostgreSQL has it on disk.
 *
 * What came with the stream is done when the cursor has passed it; what was
 * parked, when its verdict is written.
 */
#include "base/alloc.h"
#include "relay/route_parts.h"

#include <stdlib.h>

struct delivered {
        uint64_t sequence; /* its place in the lane's stream */
        int64_t event_id;
};

static bool is_asked_for(const struct route *route)
{
        return route->carrier->sink->remembers;
}

void route_note_delivered(struct route *route, const struct delivery *delivery)
{
        bool has_verdict = delivery->is_parked || delivery->is_verdict_sent;

        if (!is_asked_for(route) || has_verdict)
                return;
        if (route->n_delivered == route->n_delivered_max) {
                route->n_delivered_max = route->n_delivered_max * 2 + 64;
                route->delivered =
                    xrealloc(route->delivered, route->n_delivered_max * sizeof *route->delivered);
        }
        route->delivered[route->n_delivered++] =
            (struct delivered){.sequence = delivery->sequence, .event_id = delivery->event->id};
}

void route_note_settling(struct route *route, const struct list *verdicts)
{
        size_t n = 0;

        if (!is_asked_for(route))
                return;
        list_for_each (link, verdicts)
                n++;
        free(route->settling);
        route->settling = xcalloc(n + 1, sizeof *route->settling);
        route->n_settling = 0;
        list_for_each (verdict_link, verdicts) {
                const struct verdict *verdict = list_owner(verdict_link, struct verdict, link);
                if (verdict->kind != VERDICT_PARK)
                        route->settling[route->n_settling++] = verdict->event->id;
        }
}

void route_tell_settled(struct route *route)
{
        struct sink *sink = route->carrier->sink;
        size_t n_kept = 0, n_settled = route->n_settling;
        int64_t *settled;

        if (!is_asked_for(route))
                return;
        settled = xcalloc(n_settled + route->n_delivered + 1, sizeof *settled);
        for (size_t i = 0; i < n_settled; i++)
                settled[i] = route->settling[i];
        for (size_t i = 0; i < route->n_delivered; i++) {
                if (route->delivered[i].sequence < route->lane.n_settled)
                        settled[n_settled++] = route->delivered[i].event_id;
                else
                        route->delivered[n_kept++] = route->delivered[i];
        }
        route->n_delivered = n_kept;
        route->n_settling = 0;
        if (n_settled > 0)
                sink->ops->settled(sink, settled, n_settled);
        free(settled);
}

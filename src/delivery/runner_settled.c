/*
 * What was delivered and is settled at last: how long that took, for people;
 * and, for a sink that remembers in its destination what it has delivered, which
 * of that never comes again, because PostgreSQL has it on disk.
 *
 * What came with the stream is done when the cursor has passed it; what was
 * parked, when its verdict is written.
 */
#include "base/alloc.h"
#include "delivery/runner_internal.h"

#include <stdlib.h>

struct delivered {
        uint64_t sequence; /* its place in the lane's stream */
        int64_t event_id;
        int64_t finished_us;
};

static bool is_asked_for(const struct route *route)
{
        return route->carrier->sink->remembers;
}

void route_note_delivered(struct route *route, const struct delivery *delivery, int64_t now_us)
{
        bool has_verdict = delivery->is_parked || delivery->is_verdict_sent;

        if (has_verdict)
                return;
        if (route->n_delivered == route->n_delivered_max) {
                route->n_delivered_max = route->n_delivered_max * 2 + 64;
                route->delivered =
                    xrealloc(route->delivered, route->n_delivered_max * sizeof *route->delivered);
        }
        route->delivered[route->n_delivered++] = (struct delivered){
            .sequence = delivery->sequence, .event_id = delivery->event->id, .finished_us = now_us};
}

/* A settle that was under way may have been done all the same: so many at most. */
void route_forget_delivered(struct route *route)
{
        telemetry_see_redelivery(route->carrier->seen, REDELIVERY_CRASH, route->n_delivered);
        route->n_delivered = 0;
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

/* Those that stand behind the cursor now are taken out. `out_ids` may be NULL; returns how many. */
static size_t take_settled(struct route *route, int64_t *out_ids, int64_t now_us)
{
        size_t n_kept = 0, n_settled = 0;

        for (size_t i = 0; i < route->n_delivered; i++) {
                const struct delivered *delivered = &route->delivered[i];
                if (delivered->sequence >= route->lane.n_settled) {
                        route->delivered[n_kept++] = *delivered;
                        continue;
                }
                telemetry_see_settled(route->carrier->seen, delivered->finished_us, now_us);
                if (out_ids != NULL)
                        out_ids[n_settled] = delivered->event_id;
                n_settled++;
        }
        route->n_delivered = n_kept;
        return n_settled;
}

void route_tell_settled(struct route *route, int64_t now_us)
{
        struct sink *sink = route->carrier->sink;
        size_t n_settled = route->n_settling;
        int64_t *settled;

        if (!is_asked_for(route)) {
                take_settled(route, NULL, now_us);
                return;
        }
        settled = xcalloc(n_settled + route->n_delivered + 1, sizeof *settled);
        for (size_t i = 0; i < n_settled; i++)
                settled[i] = route->settling[i];
        n_settled += take_settled(route, settled + n_settled, now_us);
        route->n_settling = 0;
        if (n_settled > 0)
                sink->ops->settled(sink, settled, n_settled);
        free(settled);
}

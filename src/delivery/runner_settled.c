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

static bool is_asked_for(const struct runner *runner)
{
        return runner->dispatcher->sink->remembers;
}

void runner_note_delivered(struct runner *runner, const struct delivery *delivery, int64_t now_us)
{
        if (delivery_has_row(delivery))
                return; /* it gets a verdict */
        if (runner->n_delivered == runner->n_delivered_max) {
                runner->n_delivered_max = runner->n_delivered_max * 2 + 64;
                runner->delivered = xrealloc(
                    runner->delivered, runner->n_delivered_max * sizeof *runner->delivered);
        }
        runner->delivered[runner->n_delivered++] = (struct delivered){
            .sequence = delivery->sequence, .event_id = delivery->event->id, .finished_us = now_us};
}

/* A settle that was under way may have been done all the same: so many at most. */
void runner_forget_delivered(struct runner *runner)
{
        telemetry_see_redelivery(runner->dispatcher->seen, REDELIVERY_CRASH, runner->n_delivered);
        runner->n_delivered = 0;
}

void runner_note_settling(struct runner *runner, const struct list *verdicts)
{
        size_t n = 0;

        if (!is_asked_for(runner))
                return;
        list_for_each (link, verdicts)
                n++;
        free(runner->settling);
        runner->settling = xcalloc(n + 1, sizeof *runner->settling);
        runner->n_settling = 0;
        list_for_each (verdict_link, verdicts) {
                const struct verdict *verdict = list_owner(verdict_link, struct verdict, link);
                if (verdict->kind != VERDICT_PARK)
                        runner->settling[runner->n_settling++] = verdict->event->id;
        }
}

/* Those that stand behind the cursor now are taken out. `out_ids` may be NULL; returns how many. */
static size_t take_settled(struct runner *runner, int64_t *out_ids, int64_t now_us)
{
        size_t n_kept = 0, n_settled = 0;

        for (size_t i = 0; i < runner->n_delivered; i++) {
                const struct delivered *delivered = &runner->delivered[i];
                if (delivered->sequence >= runner->lane.settler.n_settled) {
                        runner->delivered[n_kept++] = *delivered;
                        continue;
                }
                telemetry_see_settled(runner->dispatcher->seen, delivered->finished_us, now_us);
                if (out_ids != NULL)
                        out_ids[n_settled] = delivered->event_id;
                n_settled++;
        }
        runner->n_delivered = n_kept;
        return n_settled;
}

void runner_tell_settled(struct runner *runner, int64_t now_us)
{
        struct sink *sink = runner->dispatcher->sink;
        size_t n_settled = runner->n_settling;
        int64_t *settled;

        if (!is_asked_for(runner)) {
                take_settled(runner, NULL, now_us);
                return;
        }
        settled = xcalloc(n_settled + runner->n_delivered + 1, sizeof *settled);
        for (size_t i = 0; i < n_settled; i++)
                settled[i] = runner->settling[i];
        n_settled += take_settled(runner, settled + n_settled, now_us);
        runner->n_settling = 0;
        if (n_settled > 0)
                sink->ops->settled(sink, settled, n_settled);
        free(settled);
}

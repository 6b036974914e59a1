/*
 * What stands between a page and its lane: the filters of the sink and of the
 * receiver, one after the other, are asked about its events (filter_queue.h). A page that
 * cannot be sifted to its end is cut: what is known goes to the lane, and the rest
 * is read again when the lane wants to.
 */
#include "base/alloc.h"
#include "base/crash_point.h"
#include "delivery/fanout.h"
#include "delivery/runner_internal.h"
#include "log/log.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

static void give(struct runner *runner)
{
        struct page *page = runner->sift.page;

        runner->sift.page = NULL;
        free(runner->sift.sifts);
        runner->sift.sifts = NULL;
        telemetry_see_page(runner->dispatcher->seen, page->events, page->n_events, page->is_delayed,
            page->arrived_us);
        lane_take_page(&runner->lane, page, dispatcher_now_ms());
        if (runner->sift.is_old)
                lane_ring(&runner->lane);
        runner_mark_dirty(runner);
}

/* The events from the first that is not known on are as if they had not been read: the lane is to look
 * again. */
static void cut(struct sift_state *sift, size_t n_known)
{
        struct page *page = sift->page;

        if (n_known == page->n_events)
                return;
        page->upto = page->events[n_known].id - 1;
        page->n_events = n_known;
        sift->is_old = true;
}

static void move_flag(bool *flags, size_t to, size_t from)
{
        if (flags != NULL)
                flags[to] = flags[from];
}

static void note_unjudged(struct page *page, size_t n_events, size_t i)
{
        if (page->is_unjudged == NULL)
                page->is_unjudged = xcalloc(n_events, sizeof *page->is_unjudged);
        page->is_unjudged[i] = true;
}

/* Leaves out what the filter has stopped. */
static void take_sifts(struct sift_state *sift)
{
        const struct filter_request *ask = &sift->ask;
        struct page *page = sift->page;
        size_t n_events, n_kept = 0;

        cut(sift, ask->n_sifted);
        n_events = page->n_events;
        page->bytes = 0;
        for (size_t i = 0; i < n_events; i++) {
                if (ask->sifts[i] == SIFT_STOPPED)
                        continue;
                page->events[n_kept] = page->events[i];
                move_flag(page->is_delayed, n_kept, i);
                move_flag(page->is_unjudged, n_kept, i);
                if (ask->sifts[i] == SIFT_UNJUDGED)
                        note_unjudged(page, n_events, n_kept);
                page->bytes += page->events[n_kept].payload_bytes;
                n_kept++;
        }
        page->n_events = n_kept;
}

static struct filter *filter_at(const struct runner *runner, unsigned stage)
{
        return stage == 0 ? runner->dispatcher->filter : runner->filter;
}

/* A lane that ends has no use for the page, and nobody waits for the answer. */
static bool is_ending(const struct runner *runner)
{
        return runner->is_leaving || runner->lane.is_draining;
}

static void go_on(struct runner *runner)
{
        struct sift_state *sift = &runner->sift;

        if (is_ending(runner) && runner_has_filter(runner))
                cut(sift, 0);
        while (sift->stage < 2 && sift->page->n_events > 0) {
                struct filter *filter = filter_at(runner, sift->stage);

                if (filter != NULL && filter_is_given_up(filter)) {
                        cut(sift, 0);
                } else if (filter != NULL) {
                        sift->ask.events = sift->page->events;
                        sift->ask.n_events = sift->page->n_events;
                        sift->ask.sifts = sift->sifts;
                        filter_queue_ask(filter, &sift->ask);
                        return;
                }
                sift->stage++;
        }
        give(runner);
}

static void on_sifted(struct filter_request *ask)
{
        struct runner *runner = list_owner(ask, struct runner, sift.ask);

        take_sifts(&runner->sift);
        runner->sift.stage++;
        go_on(runner);
}

void runner_sift(struct runner *runner, struct page *page, bool is_old)
{
        crash_point("after_claim");
        runner->sift.page = page;
        runner->sift.is_old = is_old;
        runner->sift.stage = 0;
        if (page->n_events > 0 && runner_has_filter(runner))
                runner->sift.sifts = xcalloc(page->n_events, sizeof *runner->sift.sifts);
        go_on(runner);
}

/* What the receiver's filter has not been asked is not known, whatever the sink's says. */
void runner_stop_sifting(struct runner *runner)
{
        struct sift_state *sift = &runner->sift;

        if (sift->page == NULL)
                return;
        filter_queue_withdraw(&sift->ask);
        take_sifts(sift);
        if (sift->stage == 0 && runner->filter != NULL)
                cut(sift, 0);
        give(runner);
}

void runner_forget_sifting(struct runner *runner)
{
        struct sift_state *sift = &runner->sift;

        if (sift->page == NULL)
                return;
        filter_queue_withdraw(&sift->ask);
        sift->page->release(sift->page);
        sift->page = NULL;
        free(sift->sifts);
        sift->sifts = NULL;
}

static void on_given_up(void *owner, const char *words)
{
        struct runner *runner = owner;

        fanout_give_up(runner->dispatcher->fanout, runner, words);
}

void runner_open_filter(struct runner *runner)
{
        const struct endpoint *endpoint = runner->endpoint;

        if (endpoint == NULL || endpoint->routing.filter == NULL)
                return;
        runner->filter = filter_open(outbox_filter_queue(runner->dispatcher->outbox),
            endpoint->routing.filter, on_given_up, runner);
}

void runner_close_filter(struct runner *runner)
{
        runner_stop_sifting(runner);
        filter_close(runner->filter);
        runner->filter = NULL;
}

void runner_init_sift(struct runner *runner)
{
        filter_request_init(&runner->sift.ask, on_sifted);
}

bool runner_has_filter(const struct runner *runner)
{
        return runner->dispatcher->filter != NULL || runner->filter != NULL;
}

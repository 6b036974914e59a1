#include "delivery/page_filter.h"

#include "base/alloc.h"
#include "base/crash_point.h"
#include "delivery/runner.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>

static void give(struct runner *runner)
{
        struct page *page = runner->filtering.page;

        runner->filtering.page = NULL;
        free(runner->filtering.answers);
        runner->filtering.answers = NULL;
        telemetry_see_page(runner->dispatcher->seen, page->events, page->n_events, page->is_delayed,
            page->arrived_us);
        lane_take_page(&runner->lane, page, dispatcher_now_ms());
        if (runner->filtering.is_old)
                lane_ring(&runner->lane);
        runner_wake(runner);
}

/* Ends the page before the first event that is not known, so that the lane reads on from there. */
static void cut(struct filtering *filtering, size_t n_known)
{
        struct page *page = filtering->page;

        if (n_known == page->n_events)
                return;
        page->upto = page->events[n_known].id - 1;
        page->n_events = n_known;
        filtering->is_old = true;
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

/* Leaves out the events that the filter has stopped. */
static void take_answers(struct filtering *filtering)
{
        const struct filter_request *request = &filtering->request;
        struct page *page = filtering->page;
        size_t n_events, n_kept = 0;

        cut(filtering, request->n_answered);
        n_events = page->n_events;
        page->bytes = 0;
        for (size_t i = 0; i < n_events; i++) {
                if (request->answers[i] == FILTER_STOPPED)
                        continue;
                page->events[n_kept] = page->events[i];
                move_flag(page->is_delayed, n_kept, i);
                move_flag(page->is_unjudged, n_kept, i);
                if (request->answers[i] == FILTER_UNJUDGED)
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

/* A lane that ends has no use for the page: no filter is asked for it. */
static bool is_ending(const struct runner *runner)
{
        return runner->is_leaving || runner->lane.is_draining;
}

static void go_on(struct runner *runner)
{
        struct filtering *filtering = &runner->filtering;

        if (is_ending(runner) && page_filter_is_needed(runner))
                cut(filtering, 0);
        while (filtering->stage < 2 && filtering->page->n_events > 0) {
                struct filter *filter = filter_at(runner, filtering->stage);

                if (filter != NULL && filter_is_given_up(filter)) {
                        cut(filtering, 0);
                } else if (filter != NULL) {
                        filtering->request.events = filtering->page->events;
                        filtering->request.n_events = filtering->page->n_events;
                        filtering->request.answers = filtering->answers;
                        filter_queue_ask(filter, &filtering->request);
                        return;
                }
                filtering->stage++;
        }
        give(runner);
}

static void on_answered(struct filter_request *request)
{
        struct runner *runner = list_owner(request, struct runner, filtering.request);

        take_answers(&runner->filtering);
        runner->filtering.stage++;
        go_on(runner);
}

void page_filter_start(struct runner *runner, struct page *page, bool is_old)
{
        crash_point("after_claim");
        runner->filtering.page = page;
        runner->filtering.is_old = is_old;
        runner->filtering.stage = 0;
        if (page->n_events > 0 && page_filter_is_needed(runner))
                runner->filtering.answers =
                    xcalloc(page->n_events, sizeof *runner->filtering.answers);
        go_on(runner);
}

void page_filter_stop(struct runner *runner)
{
        struct filtering *filtering = &runner->filtering;

        if (filtering->page == NULL)
                return;
        filter_queue_withdraw(&filtering->request);
        take_answers(filtering);
        /* The receiver's filter was not asked yet: whatever the sink's says, nothing is known. */
        if (filtering->stage == 0 && runner->filter != NULL)
                cut(filtering, 0);
        give(runner);
}

void page_filter_forget(struct runner *runner)
{
        struct filtering *filtering = &runner->filtering;

        if (filtering->page == NULL)
                return;
        filter_queue_withdraw(&filtering->request);
        filtering->page->release(filtering->page);
        filtering->page = NULL;
        free(filtering->answers);
        filtering->answers = NULL;
}

void page_filter_init(struct runner *runner)
{
        filter_request_init(&runner->filtering.request, on_answered);
}

bool page_filter_is_needed(const struct runner *runner)
{
        return runner->dispatcher->filter != NULL || runner->filter != NULL;
}

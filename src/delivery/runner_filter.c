/*
 * What stands between a page and its lane: the filters of the sink and of the
 * receiver, one after the other, are asked about its events (sieve.h). A page that
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

static void give(struct route *route)
{
        struct page *page = route->sift.page;

        route->sift.page = NULL;
        free(route->sift.sifts);
        route->sift.sifts = NULL;
        telemetry_see_page(
            route->carrier->seen, page->events, page->n_events, page->is_delayed, page->arrived_us);
        lane_take_page(&route->lane, page, carrier_now_ms());
        if (route->sift.is_old)
                lane_ring(&route->lane);
        route_mark_dirty(route);
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
        const struct sieve_ask *ask = &sift->ask;
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

static struct sieve_filter *filter_at(const struct route *route, unsigned stage)
{
        return stage == 0 ? route->carrier->filter : route->filter;
}

/* A lane that ends has no use for the page, and nobody waits for the answer. */
static bool is_ending(const struct route *route)
{
        return route->is_leaving || route->lane.is_draining;
}

static void go_on(struct route *route)
{
        struct sift_state *sift = &route->sift;

        if (is_ending(route) && route_has_filter(route))
                cut(sift, 0);
        while (sift->stage < 2 && sift->page->n_events > 0) {
                struct sieve_filter *filter = filter_at(route, sift->stage);

                if (filter != NULL && sieve_filter_is_given_up(filter)) {
                        cut(sift, 0);
                } else if (filter != NULL) {
                        sift->ask.events = sift->page->events;
                        sift->ask.n_events = sift->page->n_events;
                        sift->ask.sifts = sift->sifts;
                        sieve_ask(filter, &sift->ask);
                        return;
                }
                sift->stage++;
        }
        give(route);
}

static void on_sifted(struct sieve_ask *ask)
{
        struct route *route = list_owner(ask, struct route, sift.ask);

        take_sifts(&route->sift);
        route->sift.stage++;
        go_on(route);
}

void route_sift(struct route *route, struct page *page, bool is_old)
{
        crash_point("after_claim");
        route->sift.page = page;
        route->sift.is_old = is_old;
        route->sift.stage = 0;
        if (page->n_events > 0 && route_has_filter(route))
                route->sift.sifts = xcalloc(page->n_events, sizeof *route->sift.sifts);
        go_on(route);
}

/* What the receiver's filter has not been asked is not known, whatever the sink's says. */
void route_stop_sifting(struct route *route)
{
        struct sift_state *sift = &route->sift;

        if (sift->page == NULL)
                return;
        sieve_withdraw(&sift->ask);
        take_sifts(sift);
        if (sift->stage == 0 && route->filter != NULL)
                cut(sift, 0);
        give(route);
}

void route_forget_sifting(struct route *route)
{
        struct sift_state *sift = &route->sift;

        if (sift->page == NULL)
                return;
        sieve_withdraw(&sift->ask);
        sift->page->release(sift->page);
        sift->page = NULL;
        free(sift->sifts);
        sift->sifts = NULL;
}

static void on_given_up(void *owner, const char *words)
{
        struct route *route = owner;

        fanout_give_up(route->carrier->fanout, route, words);
}

void route_open_filter(struct route *route)
{
        const struct endpoint *endpoint = route->endpoint;

        if (endpoint == NULL || endpoint->routing.filter == NULL)
                return;
        route->filter = sieve_filter_open(
            outbox_sieve(route->carrier->outbox), endpoint->routing.filter, on_given_up, route);
}

void route_close_filter(struct route *route)
{
        route_stop_sifting(route);
        sieve_filter_close(route->filter);
        route->filter = NULL;
}

void route_init_sift(struct route *route)
{
        sieve_ask_init(&route->sift.ask, on_sifted);
}

bool route_has_filter(const struct route *route)
{
        return route->carrier->filter != NULL || route->filter != NULL;
}

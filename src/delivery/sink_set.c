/*
 * A carrier has a berth:
 *
 *   WAITING -its place is free-> SERVING -retire-> LEAVING -idle-> RELEASING -not its own any more-> CLOSING
 *   LEAVING -idle, owns nothing-> CLOSING        WAITING -discarded-> CLOSING
 *   CLOSING -sink closed-> gone
 *
 * RELEASING: the answer to its unlock is the last that the database owes it. Only then may its store
 * go, and only then does the next of its name try for the same lock: a session may hold an advisory
 * lock twice, and would not notice that the first holder still writes.
 */
#include "delivery/sink_set.h"

#include "base/alloc.h"
#include "base/list.h"
#include "config/compare.h"

#include <stdlib.h>
#include <string.h>

enum berth_state { BERTH_WAITING, BERTH_SERVING, BERTH_LEAVING, BERTH_RELEASING, BERTH_CLOSING };

struct berth {
        struct list link; /* fleet::berths */
        struct fleet *fleet;
        char *name;              /* owned; the sink's */
        struct carrier *carrier; /* owned until CLOSING */
        enum berth_state state;
        bool knows_pauses; /* so that nothing paused ever starts */
};

struct fleet {
        uv_loop_t *loop;             /* borrowed */
        struct outbox *outbox;       /* borrowed */
        struct telemetry *telemetry; /* borrowed */
        struct list berths;          /* berth::link, in the order in which they were added */
        struct fleet_events events;
        void *owner; /* borrowed */
        bool is_session_up;
        bool is_held;
        bool is_ending;
};

static struct berth *berth_of(struct list *link)
{
        return list_owner(link, struct berth, link);
}

static void mark_dirty(struct fleet *fleet)
{
        fleet->events.on_dirty(fleet->owner);
}

/* The only place that assigns berth->state after its creation. */
static void enter(struct berth *berth, enum berth_state state)
{
        struct carrier *carrier = berth->carrier;

        berth->state = state;
        mark_dirty(berth->fleet);
        switch (state) {
        case BERTH_WAITING:
                return;
        case BERTH_SERVING:
                if (berth->fleet->is_session_up)
                        carrier_session_up(carrier);
                carrier_ring(carrier);
                return;
        case BERTH_LEAVING:
                carrier_drain(carrier);
                return;
        case BERTH_RELEASING:
                carrier_release(carrier);
                return;
        case BERTH_CLOSING:
                berth->carrier = NULL;
                carrier_close(carrier); /* the berth may be gone when this returns */
                return;
        }
}

static void on_dirty(void *owner)
{
        const struct berth *berth = owner;

        mark_dirty(berth->fleet);
}

static void on_standby(void *owner)
{
        const struct berth *berth = owner;

        berth->fleet->events.on_standby(berth->fleet->owner);
}

static bool on_login_refused(void *owner, const char *sink)
{
        const struct berth *berth = owner;

        return berth->fleet->events.on_login_refused(berth->fleet->owner, sink);
}

static void on_refused(void *owner, const char *sink, const char *reason)
{
        const struct berth *berth = owner;

        berth->fleet->events.on_refused(berth->fleet->owner, sink, reason);
}

static void on_recovered(void *owner, const char *sink)
{
        const struct berth *berth = owner;

        berth->fleet->events.on_recovered(berth->fleet->owner, sink);
}

static void on_closed(void *owner)
{
        struct berth *berth = owner;
        struct fleet *fleet = berth->fleet;

        list_remove(&berth->link);
        free(berth->name);
        free(berth);
        mark_dirty(fleet);
        if (list_is_empty(&fleet->berths))
                fleet->events.on_empty(fleet->owner);
}

struct fleet *fleet_create(uv_loop_t *loop, struct outbox *outbox, struct telemetry *telemetry,
    const struct fleet_events *events, void *owner)
{
        struct fleet *fleet = xcalloc(1, sizeof *fleet);

        fleet->loop = loop;
        fleet->outbox = outbox;
        fleet->telemetry = telemetry;
        fleet->events = *events;
        fleet->owner = owner;
        list_init(&fleet->berths);
        return fleet;
}

void fleet_destroy(struct fleet *fleet)
{
        free(fleet);
}

bool fleet_add(struct fleet *fleet, const struct sink_config *config,
    const struct relay_config *relay, struct error *error)
{
        static const struct carrier_events events = {.on_dirty = on_dirty,
            .on_standby = on_standby,
            .on_login_refused = on_login_refused,
            .on_refused = on_refused,
            .on_recovered = on_recovered,
            .on_closed = on_closed};
        struct berth *berth = xcalloc(1, sizeof *berth);

        berth->fleet = fleet;
        list_init(&berth->link);
        berth->carrier = carrier_create(
            fleet->loop, config, relay, fleet->outbox, fleet->telemetry, &events, berth, error);
        if (berth->carrier == NULL) {
                free(berth);
                return false;
        }
        berth->name = xstrdup(config->name);
        list_push_back(&fleet->berths, &berth->link);
        outbox_read_pauses(fleet->outbox);
        mark_dirty(fleet);
        return true;
}

/* NULL: nobody of that name serves. */
static struct berth *find_serving(const struct fleet *fleet, const char *name)
{
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (berth_of(link)->state == BERTH_SERVING &&
                    strcmp(berth_of(link)->name, name) == 0)
                        return berth_of(link);
        return NULL;
}

void fleet_discard_waiting(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state == BERTH_WAITING)
                        enter(berth_of(link), BERTH_CLOSING);
}

void fleet_retire(struct fleet *fleet, const char *name)
{
        list_for_each (link, &fleet->berths) {
                struct berth *berth = berth_of(link);
                if (berth->state == BERTH_SERVING &&
                    (name == NULL || strcmp(berth->name, name) == 0))
                        enter(berth, BERTH_LEAVING);
        }
}

void fleet_configure(struct fleet *fleet, const char *name, const struct sink_config *config,
    const struct relay_config *relay)
{
        struct berth *berth = find_serving(fleet, name);

        if (berth != NULL)
                carrier_configure(berth->carrier, config, relay);
}

void fleet_hold(struct fleet *fleet, bool is_held)
{
        fleet->is_held = is_held;
        mark_dirty(fleet);
}

bool fleet_is_held(const struct fleet *fleet)
{
        return fleet->is_held;
}

static unsigned count(const struct fleet *fleet, enum berth_state first, enum berth_state last)
{
        unsigned n = 0;

        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                n += berth_of(link)->state >= first && berth_of(link)->state <= last;
        return n;
}

bool fleet_has_made_way(const struct fleet *fleet)
{
        return count(fleet, BERTH_LEAVING, BERTH_CLOSING) == 0;
}

bool fleet_is_settled(const struct fleet *fleet)
{
        return fleet_has_made_way(fleet) && count(fleet, BERTH_WAITING, BERTH_WAITING) == 0;
}

/* Those whose carrier lives in the session, or might soon. */
static bool is_at_work(const struct berth *berth)
{
        return berth->state == BERTH_SERVING || berth->state == BERTH_LEAVING ||
               berth->state == BERTH_RELEASING;
}

void fleet_session_up(struct fleet *fleet)
{
        fleet->is_session_up = true;
        list_for_each (link, &fleet->berths)
                if (is_at_work(berth_of(link)))
                        carrier_session_up(berth_of(link)->carrier);
        mark_dirty(fleet);
}

void fleet_session_down(struct fleet *fleet)
{
        fleet->is_session_up = false;
        list_for_each (link, &fleet->berths)
                if (is_at_work(berth_of(link)))
                        carrier_session_down(berth_of(link)->carrier);
        mark_dirty(fleet);
}

void fleet_take_pauses(struct fleet *fleet, const struct pause_list *pauses)
{
        list_for_each (link, &fleet->berths) {
                struct berth *berth = berth_of(link);
                if (berth->state == BERTH_CLOSING)
                        continue;
                berth->knows_pauses = true;
                carrier_take_pauses(berth->carrier, pauses);
        }
        mark_dirty(fleet);
}

void fleet_ring(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state == BERTH_SERVING)
                        carrier_ring(berth_of(link)->carrier);
}

void fleet_retry_logins(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state == BERTH_SERVING)
                        carrier_retry_login(berth_of(link)->carrier);
}

void fleet_tell_refused(struct fleet *fleet, const char *name)
{
        struct berth *berth = find_serving(fleet, name);

        if (berth != NULL)
                carrier_tell_refused(berth->carrier);
}

void fleet_control(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state == BERTH_SERVING)
                        carrier_control(berth_of(link)->carrier);
}

bool fleet_is_any_owned(const struct fleet *fleet)
{
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (berth_of(link)->state == BERTH_SERVING &&
                    carrier_is_owned(berth_of(link)->carrier))
                        return true;
        return false;
}

/* One that waits has the name of one that serves, who is the one to be shown. */
void fleet_show(const struct fleet *fleet, int64_t now_us)
{
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (is_at_work(berth_of(link)))
                        carrier_show(berth_of(link)->carrier, now_us);
}

bool fleet_is_caught_up(const struct fleet *fleet)
{
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (berth_of(link)->state != BERTH_SERVING ||
                    !carrier_is_caught_up(berth_of(link)->carrier))
                        return false;
        return true;
}

/* Nobody of its name is still there, and it cannot start what is paused: while there is no session, the
 * pauses come before the next one is up. */
static bool may_serve(const struct berth *berth)
{
        const struct fleet *fleet = berth->fleet;

        if (fleet->is_held || fleet->is_ending || (fleet->is_session_up && !berth->knows_pauses))
                return false;
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (berth_of(link) != berth && strcmp(berth_of(link)->name, berth->name) == 0 &&
                    is_at_work(berth_of(link)))
                        return false;
        return true;
}

static void leave(struct berth *berth)
{
        carrier_pump(berth->carrier);
        if (berth->fleet->is_ending || !carrier_is_idle(berth->carrier))
                return;
        enter(berth, carrier_is_owned(berth->carrier) ? BERTH_RELEASING : BERTH_CLOSING);
}

static void serve(struct berth *berth)
{
        switch (berth->state) {
        case BERTH_WAITING:
                if (may_serve(berth))
                        enter(berth, BERTH_SERVING);
                return;
        case BERTH_SERVING:
                carrier_pump(berth->carrier);
                return;
        case BERTH_LEAVING:
                leave(berth);
                return;
        case BERTH_RELEASING:
                if (!carrier_is_owned(berth->carrier) && !berth->fleet->is_ending)
                        enter(berth, BERTH_CLOSING);
                return;
        case BERTH_CLOSING:
                return;
        }
}

void fleet_serve(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                serve(berth_of(link));
}

void fleet_drain(struct fleet *fleet)
{
        fleet->is_ending = true;
        fleet_discard_waiting(fleet);
        fleet_retire(fleet, NULL);
}

void fleet_hurry(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state == BERTH_LEAVING)
                        carrier_cancel(berth_of(link)->carrier);
}

bool fleet_is_at_rest(const struct fleet *fleet)
{
        for (struct list *link = fleet->berths.next; link != &fleet->berths; link = link->next)
                if (berth_of(link)->state == BERTH_LEAVING &&
                    !carrier_is_at_rest(berth_of(link)->carrier))
                        return false;
        return true;
}

void fleet_close(struct fleet *fleet)
{
        list_for_each (link, &fleet->berths)
                if (berth_of(link)->state != BERTH_CLOSING)
                        enter(berth_of(link), BERTH_CLOSING);
}

bool fleet_is_empty(const struct fleet *fleet)
{
        return list_is_empty(&fleet->berths);
}

/*
 * A dispatcher has a slot:
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

enum sink_slot_state { SLOT_WAITING, SLOT_SERVING, SLOT_LEAVING, SLOT_RELEASING, SLOT_CLOSING };

struct sink_slot {
        struct list link; /* sink_set::slots */
        struct sink_set *sink_set;
        char *name;                    /* owned; the sink's */
        struct dispatcher *dispatcher; /* owned until CLOSING */
        enum sink_slot_state state;
        bool knows_pauses; /* so that nothing paused ever starts */
};

struct sink_set {
        uv_loop_t *loop;             /* borrowed */
        struct outbox *outbox;       /* borrowed */
        struct telemetry *telemetry; /* borrowed */
        struct list slots;           /* slot::link, in the order in which they were added */
        struct sink_set_events events;
        void *owner; /* borrowed */
        bool is_session_up;
        bool is_held;
        bool is_ending;
};

static struct sink_slot *slot_of(struct list *link)
{
        return list_owner(link, struct sink_slot, link);
}

static void mark_dirty(struct sink_set *sink_set)
{
        sink_set->events.on_dirty(sink_set->owner);
}

/* The only place that assigns slot->state after its creation. */
static void enter(struct sink_slot *slot, enum sink_slot_state state)
{
        struct dispatcher *dispatcher = slot->dispatcher;

        slot->state = state;
        mark_dirty(slot->sink_set);
        switch (state) {
        case SLOT_WAITING:
                return;
        case SLOT_SERVING:
                if (slot->sink_set->is_session_up)
                        dispatcher_session_up(dispatcher);
                dispatcher_ring(dispatcher);
                return;
        case SLOT_LEAVING:
                dispatcher_drain(dispatcher);
                return;
        case SLOT_RELEASING:
                dispatcher_release(dispatcher);
                return;
        case SLOT_CLOSING:
                slot->dispatcher = NULL;
                dispatcher_close(dispatcher); /* the slot may be gone when this returns */
                return;
        }
}

static void on_dirty(void *owner)
{
        const struct sink_slot *slot = owner;

        mark_dirty(slot->sink_set);
}

static void on_standby(void *owner)
{
        const struct sink_slot *slot = owner;

        slot->sink_set->events.on_standby(slot->sink_set->owner);
}

static bool on_login_refused(void *owner, const char *sink)
{
        const struct sink_slot *slot = owner;

        return slot->sink_set->events.on_login_refused(slot->sink_set->owner, sink);
}

static void on_refused(void *owner, const char *sink, const char *reason)
{
        const struct sink_slot *slot = owner;

        slot->sink_set->events.on_refused(slot->sink_set->owner, sink, reason);
}

static void on_recovered(void *owner, const char *sink)
{
        const struct sink_slot *slot = owner;

        slot->sink_set->events.on_recovered(slot->sink_set->owner, sink);
}

static void on_closed(void *owner)
{
        struct sink_slot *slot = owner;
        struct sink_set *sink_set = slot->sink_set;

        list_remove(&slot->link);
        free(slot->name);
        free(slot);
        mark_dirty(sink_set);
        if (list_is_empty(&sink_set->slots))
                sink_set->events.on_empty(sink_set->owner);
}

struct sink_set *sink_set_create(uv_loop_t *loop, struct outbox *outbox,
    struct telemetry *telemetry, const struct sink_set_events *events, void *owner)
{
        struct sink_set *sink_set = xcalloc(1, sizeof *sink_set);

        sink_set->loop = loop;
        sink_set->outbox = outbox;
        sink_set->telemetry = telemetry;
        sink_set->events = *events;
        sink_set->owner = owner;
        list_init(&sink_set->slots);
        return sink_set;
}

void sink_set_destroy(struct sink_set *sink_set)
{
        free(sink_set);
}

bool sink_set_add(struct sink_set *sink_set, const struct sink_config *config,
    const struct relay_config *relay, struct error *error)
{
        static const struct dispatcher_events events = {.on_dirty = on_dirty,
            .on_standby = on_standby,
            .on_login_refused = on_login_refused,
            .on_refused = on_refused,
            .on_recovered = on_recovered,
            .on_closed = on_closed};
        struct sink_slot *slot = xcalloc(1, sizeof *slot);

        slot->sink_set = sink_set;
        list_init(&slot->link);
        slot->dispatcher = dispatcher_create(sink_set->loop, config, relay, sink_set->outbox,
            sink_set->telemetry, &events, slot, error);
        if (slot->dispatcher == NULL) {
                free(slot);
                return false;
        }
        slot->name = xstrdup(config->name);
        list_push_back(&sink_set->slots, &slot->link);
        outbox_read_pauses(sink_set->outbox);
        mark_dirty(sink_set);
        return true;
}

/* NULL: nobody of that name serves. */
static struct sink_slot *find_serving(const struct sink_set *sink_set, const char *name)
{
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (slot_of(link)->state == SLOT_SERVING && strcmp(slot_of(link)->name, name) == 0)
                        return slot_of(link);
        return NULL;
}

void sink_set_discard_waiting(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state == SLOT_WAITING)
                        enter(slot_of(link), SLOT_CLOSING);
}

void sink_set_retire(struct sink_set *sink_set, const char *name)
{
        list_for_each (link, &sink_set->slots) {
                struct sink_slot *slot = slot_of(link);
                if (slot->state == SLOT_SERVING && (name == NULL || strcmp(slot->name, name) == 0))
                        enter(slot, SLOT_LEAVING);
        }
}

void sink_set_configure(struct sink_set *sink_set, const char *name,
    const struct sink_config *config, const struct relay_config *relay)
{
        struct sink_slot *slot = find_serving(sink_set, name);

        if (slot != NULL)
                dispatcher_configure(slot->dispatcher, config, relay);
}

void sink_set_hold(struct sink_set *sink_set, bool is_held)
{
        sink_set->is_held = is_held;
        mark_dirty(sink_set);
}

bool sink_set_is_held(const struct sink_set *sink_set)
{
        return sink_set->is_held;
}

static unsigned count(
    const struct sink_set *sink_set, enum sink_slot_state first, enum sink_slot_state last)
{
        unsigned n = 0;

        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                n += slot_of(link)->state >= first && slot_of(link)->state <= last;
        return n;
}

bool sink_set_has_made_way(const struct sink_set *sink_set)
{
        return count(sink_set, SLOT_LEAVING, SLOT_CLOSING) == 0;
}

bool sink_set_is_settled(const struct sink_set *sink_set)
{
        return sink_set_has_made_way(sink_set) && count(sink_set, SLOT_WAITING, SLOT_WAITING) == 0;
}

/* Those whose dispatcher lives in the session, or might soon. */
static bool is_at_work(const struct sink_slot *slot)
{
        return slot->state == SLOT_SERVING || slot->state == SLOT_LEAVING ||
               slot->state == SLOT_RELEASING;
}

void sink_set_session_up(struct sink_set *sink_set)
{
        sink_set->is_session_up = true;
        list_for_each (link, &sink_set->slots)
                if (is_at_work(slot_of(link)))
                        dispatcher_session_up(slot_of(link)->dispatcher);
        mark_dirty(sink_set);
}

void sink_set_session_down(struct sink_set *sink_set)
{
        sink_set->is_session_up = false;
        list_for_each (link, &sink_set->slots)
                if (is_at_work(slot_of(link)))
                        dispatcher_session_down(slot_of(link)->dispatcher);
        mark_dirty(sink_set);
}

void sink_set_take_pauses(struct sink_set *sink_set, const struct pause_list *pauses)
{
        list_for_each (link, &sink_set->slots) {
                struct sink_slot *slot = slot_of(link);
                if (slot->state == SLOT_CLOSING)
                        continue;
                slot->knows_pauses = true;
                dispatcher_take_pauses(slot->dispatcher, pauses);
        }
        mark_dirty(sink_set);
}

void sink_set_ring(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state == SLOT_SERVING)
                        dispatcher_ring(slot_of(link)->dispatcher);
}

void sink_set_retry_logins(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state == SLOT_SERVING)
                        dispatcher_retry_login(slot_of(link)->dispatcher);
}

void sink_set_tell_refused(struct sink_set *sink_set, const char *name)
{
        struct sink_slot *slot = find_serving(sink_set, name);

        if (slot != NULL)
                dispatcher_tell_refused(slot->dispatcher);
}

void sink_set_control(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state == SLOT_SERVING)
                        dispatcher_control(slot_of(link)->dispatcher);
}

bool sink_set_is_any_owned(const struct sink_set *sink_set)
{
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (slot_of(link)->state == SLOT_SERVING &&
                    dispatcher_is_owned(slot_of(link)->dispatcher))
                        return true;
        return false;
}

/* One that waits has the name of one that serves, who is the one to be shown. */
void sink_set_show(const struct sink_set *sink_set, int64_t now_us)
{
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (is_at_work(slot_of(link)))
                        dispatcher_show(slot_of(link)->dispatcher, now_us);
}

bool sink_set_is_caught_up(const struct sink_set *sink_set)
{
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (slot_of(link)->state != SLOT_SERVING ||
                    !dispatcher_is_caught_up(slot_of(link)->dispatcher))
                        return false;
        return true;
}

/* Nobody of its name is still there, and it cannot start what is paused: while there is no session, the
 * pauses come before the next one is up. */
static bool may_serve(const struct sink_slot *slot)
{
        const struct sink_set *sink_set = slot->sink_set;

        if (sink_set->is_held || sink_set->is_ending ||
            (sink_set->is_session_up && !slot->knows_pauses))
                return false;
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (slot_of(link) != slot && strcmp(slot_of(link)->name, slot->name) == 0 &&
                    is_at_work(slot_of(link)))
                        return false;
        return true;
}

static void leave(struct sink_slot *slot)
{
        dispatcher_pump(slot->dispatcher);
        if (slot->sink_set->is_ending || !dispatcher_is_idle(slot->dispatcher))
                return;
        enter(slot, dispatcher_is_owned(slot->dispatcher) ? SLOT_RELEASING : SLOT_CLOSING);
}

static void serve(struct sink_slot *slot)
{
        switch (slot->state) {
        case SLOT_WAITING:
                if (may_serve(slot))
                        enter(slot, SLOT_SERVING);
                return;
        case SLOT_SERVING:
                dispatcher_pump(slot->dispatcher);
                return;
        case SLOT_LEAVING:
                leave(slot);
                return;
        case SLOT_RELEASING:
                if (!dispatcher_is_owned(slot->dispatcher) && !slot->sink_set->is_ending)
                        enter(slot, SLOT_CLOSING);
                return;
        case SLOT_CLOSING:
                return;
        }
}

void sink_set_serve(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                serve(slot_of(link));
}

void sink_set_drain(struct sink_set *sink_set)
{
        sink_set->is_ending = true;
        sink_set_discard_waiting(sink_set);
        sink_set_retire(sink_set, NULL);
}

void sink_set_hurry(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state == SLOT_LEAVING)
                        dispatcher_cancel(slot_of(link)->dispatcher);
}

bool sink_set_is_at_rest(const struct sink_set *sink_set)
{
        for (struct list *link = sink_set->slots.next; link != &sink_set->slots; link = link->next)
                if (slot_of(link)->state == SLOT_LEAVING &&
                    !dispatcher_is_at_rest(slot_of(link)->dispatcher))
                        return false;
        return true;
}

void sink_set_close(struct sink_set *sink_set)
{
        list_for_each (link, &sink_set->slots)
                if (slot_of(link)->state != SLOT_CLOSING)
                        enter(slot_of(link), SLOT_CLOSING);
}

bool sink_set_is_empty(const struct sink_set *sink_set)
{
        return list_is_empty(&sink_set->slots);
}

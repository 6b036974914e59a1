/* Why a sink stands still: an operator paused it, its destination refuses us, or its filter is too slow. */
#include "delivery/dispatcher_internal.h"
#include "delivery/runner.h"
#include "log/log.h"

#include <stdio.h>
#include <string.h>

/* `by`: whose pause it was. */
static void log_resumed(const struct dispatcher *dispatcher, const char *by)
{
        log_info("sink_resumed", kv_text("sink", dispatcher->name), kv_text("by", by));
}

static void pause_by_relay(struct dispatcher *dispatcher, const char *reason, const char *hint)
{
        const struct sink_set *set = dispatcher->set;

        dispatcher->is_paused_by_relay = true;
        log_error("sink_paused", kv_text("sink", dispatcher->name), kv_text("by", "relay"),
            kv_text("reason", reason), kv_text("hint", hint));
        set->events.on_refused(set->owner, dispatcher->name, reason);
}

void dispatcher_note_outcome(struct runner *runner, const struct outcome *outcome)
{
        struct dispatcher *dispatcher = runner->dispatcher;
        const struct sink_set *set = dispatcher->set;
        const struct breaker *breaker = &runner->lane.breaker;

        if (breaker->state == BREAKER_CLOSED && dispatcher->is_paused_by_relay &&
            dispatcher->filter_reason[0] == '\0') {
                dispatcher->is_paused_by_relay = false;
                log_resumed(dispatcher, "relay");
                set->events.on_recovered(set->owner, dispatcher->name);
        } else if (breaker->state != BREAKER_CLOSED && breaker->needs_operator &&
                   !dispatcher->is_paused_by_relay) {
                pause_by_relay(dispatcher, outcome->reason,
                    "mend it; it is tried now and then, and at once after `pgcourier resume`");
        }
}

static void update_pauses(struct dispatcher *dispatcher)
{
        list_for_each (link, &dispatcher->runners)
                runner_update_pause(list_owner(link, struct runner, link));
}

static void on_filter_given_up(void *owner, const char *words)
{
        struct dispatcher *dispatcher = owner;

        snprintf(dispatcher->filter_reason, sizeof dispatcher->filter_reason, "%s", words);
        pause_by_relay(dispatcher, words,
            "nothing is read for it; change its filter and reload, or `pgcourier resume` tries "
            "again");
        update_pauses(dispatcher);
}

void dispatcher_open_filter(struct dispatcher *dispatcher)
{
        dispatcher->filter_reason[0] = '\0';
        if (dispatcher->config->filter != NULL)
                dispatcher->filter = filter_open(outbox_filter_queue(dispatcher->set->outbox),
                    dispatcher->config->filter, on_filter_given_up, dispatcher);
}

static void pause_by_operator(struct dispatcher *dispatcher, const struct pause *pause)
{
        if (dispatcher->is_paused_by_operator == (pause != NULL))
                return;
        dispatcher->is_paused_by_operator = pause != NULL;
        snprintf(dispatcher->pause_reason, sizeof dispatcher->pause_reason, "%s",
            pause != NULL && pause->reason != NULL ? pause->reason : "");
        if (pause != NULL)
                log_warn("sink_paused", kv_text("sink", dispatcher->name),
                    kv_text("by", "operator"), kv_text("reason", pause->reason));
        else
                log_resumed(dispatcher, "operator");
        update_pauses(dispatcher);
}

/* An operator has resumed what the relay had paused: it is tried again at once. */
static void resume_by_operator(struct dispatcher *dispatcher)
{
        log_resumed(dispatcher, "relay");
        if (dispatcher->filter_reason[0] != '\0') {
                filter_close(dispatcher->filter);
                dispatcher_open_filter(dispatcher);
                update_pauses(dispatcher);
        }
        list_for_each (link, &dispatcher->runners)
                lane_probe_now(&list_owner(link, struct runner, link)->lane, dispatcher_now_ms());
}

void dispatcher_take_pauses(struct dispatcher *dispatcher, const struct pause_list *pauses)
{
        const struct pause *by_operator = NULL;
        bool by_relay = false;

        if (dispatcher->state == DISPATCHER_CLOSING)
                return;
        for (size_t i = 0; i < pauses->n_pauses; i++) {
                const struct pause *pause = &pauses->pauses[i];
                if (strcmp(pause->sink, dispatcher->name) != 0)
                        continue;
                if (pause->by == PAUSED_BY_OPERATOR)
                        by_operator = pause;
                else
                        by_relay = true;
        }
        dispatcher->knows_pauses = true;
        pause_by_operator(dispatcher, by_operator);
        if (dispatcher->is_paused_by_relay && !by_relay)
                resume_by_operator(dispatcher);
        dispatcher->is_paused_by_relay = by_relay;
        list_for_each (link, &dispatcher->runners)
                runner_wake(list_owner(link, struct runner, link));
        dispatcher_wake(dispatcher);
}

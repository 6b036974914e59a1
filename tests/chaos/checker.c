#include "chaos/checker.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NEVER INT64_MIN

struct judge {
        const struct chaos_history *history;
        struct chaos_verdict *verdict;
        int64_t last_us;     /* the arrival before, but of a delayed one */
        int64_t *arrived_us; /* by event: the last time, or NEVER; owned */
        bool *is_dead;       /* by event; owned */
        uint32_t *n_caused;  /* by incident; owned */
        uint32_t *next;      /* by key: one beyond the highest number that arrived; owned */
};

static void fault(struct judge *judge, size_t *count, uint32_t event, const char *what)
{
        char *words = judge->verdict->first_fault;

        if (words[0] == '\0')
                snprintf(words, sizeof judge->verdict->first_fault,
                    "event %" PRIu32 " of key %" PRIu32 " %s", event,
                    event < judge->history->n_events ? judge->history->events[event].key : 0, what);
        ++*count;
}

static bool is_for_sink(const struct chaos_history *history, uint32_t event)
{
        return event < history->n_events && history->events[event].fate != PUBLISHED_NOT &&
               (history->events[event].sinks >> history->sink & 1u) != 0;
}

/* ---- what comes twice ------------------------------------------------------------------------ */

static bool can_be_the_reason(
    const struct chaos_history *history, size_t i, int64_t earlier_us, int64_t later_us)
{
        const struct chaos_incident *incident = &history->incidents[i];

        return (incident->sinks >> history->sink & 1u) != 0 && incident->begin_us <= later_us &&
               incident->end_us >= earlier_us;
}

static void judge_repeated(struct judge *judge, const struct chaos_arrival *arrival)
{
        const struct chaos_history *history = judge->history;
        struct chaos_verdict *verdict = judge->verdict;
        char words[64];

        verdict->n_repeated++;
        for (size_t i = 0; i < history->n_incidents; i++) {
                unsigned cause = history->incidents[i].cause;
                if (judge->n_caused[i] == history->incidents[i].max_repeats ||
                    !can_be_the_reason(
                        history, i, judge->arrived_us[arrival->event], arrival->at_us))
                        continue;
                verdict->n_repeated_by[cause]++;
                if (++judge->n_caused[i] > verdict->most_repeated_by[cause])
                        verdict->most_repeated_by[cause] = judge->n_caused[i];
                return;
        }
        snprintf(words, sizeof words, "came again after %.3f s without a reason",
            (double)(arrival->at_us - judge->arrived_us[arrival->event]) / 1e6);
        fault(judge, &verdict->n_unexplained, arrival->event, words);
}

/* ---- what comes ------------------------------------------------------------------------------ */

/* Whether it may have been dead when the later one arrived, and that been forgotten. A dead
 * letter that is still there is out of its key's order anyway. */
static bool may_have_been_dead(const struct judge *judge, const struct chaos_arrival *arrival)
{
        const struct chaos_history *history = judge->history;
        const struct chaos_event *event = &history->events[arrival->event];

        if ((event->relents >> history->sink & 1u) == 0 && history->n_dear == 0)
                return false;
        for (size_t i = 0; i < history->n_incidents; i++)
                if (history->incidents[i].forgets &&
                    can_be_the_reason(history, i, event->committed_us, arrival->at_us))
                        return true;
        return false;
}

static void judge_order(struct judge *judge, const struct chaos_arrival *arrival)
{
        const struct chaos_history *history = judge->history;
        uint32_t number = arrival->event;
        const struct chaos_event *event = &history->events[number];
        uint32_t *next = &judge->next[event->key];

        if (event->is_delayed)
                return;
        if (number >= *next)
                *next = number + 1;
        else if (history->is_in_order && !judge->is_dead[number] &&
                 !may_have_been_dead(judge, arrival))
                fault(judge, &judge->verdict->n_misordered, number, "came after a later one");
}

/* Delayed ones and those behind others of their key wait for more than to be found; so may all, where
 * they came one soon after the other until the calm was over. */
static void judge_time(struct judge *judge, const struct chaos_arrival *arrival)
{
        const struct chaos_history *history = judge->history;
        const struct chaos_event *event = &history->events[arrival->event];
        char words[64];

        if (event->is_delayed || event->committed_us < history->calm_from_us ||
            event->committed_us + CHAOS_SOON_US > history->calm_until_us)
                return;
        judge->verdict->n_timed++;
        if (arrival->at_us <= event->committed_us + CHAOS_SOON_US ||
            arrival->at_us <= judge->last_us + CHAOS_SOON_US ||
            judge->last_us + CHAOS_SOON_US > history->calm_until_us)
                return;
        snprintf(words, sizeof words, "came %.3f s after its commit, and nothing before it",
            (double)(arrival->at_us - event->committed_us) / 1e6);
        fault(judge, &judge->verdict->n_late, arrival->event, words);
}

static void judge_arrival(struct judge *judge, const struct chaos_arrival *arrival)
{
        const struct chaos_history *history = judge->history;
        struct chaos_verdict *verdict = judge->verdict;

        if (!is_for_sink(history, arrival->event)) {
                fault(judge, &verdict->n_uncommitted, arrival->event,
                    "arrived, but was not committed for this sink");
                return;
        }
        if (arrival->at_us < arrival->due_us)
                fault(judge, &verdict->n_early, arrival->event, "came before it was due");
        if (judge->arrived_us[arrival->event] != NEVER) {
                judge_repeated(judge, arrival);
        } else {
                judge_order(judge, arrival);
                judge_time(judge, arrival);
        }
        judge->arrived_us[arrival->event] = arrival->at_us;
        if (!history->events[arrival->event].is_delayed)
                judge->last_us = arrival->at_us;
}

static bool was_dear(const struct chaos_history *history, int64_t at_us)
{
        for (size_t i = 0; i < history->n_dear; i++)
                if (history->dear[i].from_us <= at_us && at_us <= history->dear[i].until_us)
                        return true;
        return false;
}

static void judge_dead(struct judge *judge, const struct chaos_dead *dead)
{
        const struct chaos_history *history = judge->history;
        struct chaos_verdict *verdict = judge->verdict;
        uint32_t event = dead->event;

        if (!is_for_sink(history, event)) {
                fault(judge, &verdict->n_uncommitted, event,
                    "is a dead letter, but was not committed for this sink");
                return;
        }
        judge->is_dead[event] = true;
        if (dead->is_for_its_filter) {
                verdict->n_dead_for_filter++;
                if (!was_dear(history, dead->died_us))
                        fault(judge, &verdict->n_needlessly_dead, event,
                            "died for its filter, which took no time then");
        } else if ((history->events[event].refused >> history->sink & 1u) == 0)
                fault(judge, &verdict->n_needlessly_dead, event,
                    "is a dead letter, but would have been taken");
}

static void judge_missing(struct judge *judge, uint32_t event)
{
        const struct chaos_history *history = judge->history;

        if (!is_for_sink(history, event) || history->events[event].fate != PUBLISHED)
                return;
        if ((history->events[event].optional >> history->sink & 1u) != 0)
                return;
        judge->verdict->n_wanted++;
        if (judge->arrived_us[event] == NEVER && !judge->is_dead[event])
                fault(judge, &judge->verdict->n_lost, event, "was committed and is lost");
}

static size_t count_keys(const struct chaos_history *history)
{
        size_t n_keys = 0;

        for (size_t i = 0; i < history->n_events; i++)
                if (history->events[i].key >= n_keys)
                        n_keys = history->events[i].key + (size_t)1;
        return n_keys;
}

struct chaos_verdict chaos_judge(const struct chaos_history *history)
{
        struct chaos_verdict verdict = {
            .n_arrivals = history->n_arrivals, .n_dead = history->n_dead};
        struct judge judge = {
            .history = history,
            .verdict = &verdict,
            .arrived_us = xcalloc(history->n_events + 1, sizeof(int64_t)),
            .is_dead = xcalloc(history->n_events + 1, sizeof(bool)),
            .n_caused = xcalloc(history->n_incidents + 1, sizeof(uint32_t)),
            .next = xcalloc(count_keys(history) + 1, sizeof(uint32_t)),
        };

        for (size_t i = 0; i < history->n_events; i++)
                judge.arrived_us[i] = NEVER;
        for (size_t i = 0; i < history->n_dead; i++)
                judge_dead(&judge, &history->dead[i]);
        for (size_t i = 0; i < history->n_arrivals; i++)
                judge_arrival(&judge, &history->arrivals[i]);
        for (size_t i = 0; i < history->n_events; i++)
                judge_missing(&judge, (uint32_t)i);
        free(judge.arrived_us);
        free(judge.is_dead);
        free(judge.n_caused);
        free(judge.next);
        return verdict;
}

bool chaos_is_clean(const struct chaos_verdict *verdict)
{
        return verdict->n_lost + verdict->n_misordered + verdict->n_uncommitted + verdict->n_early +
                   verdict->n_late + verdict->n_unexplained + verdict->n_needlessly_dead ==
               0;
}

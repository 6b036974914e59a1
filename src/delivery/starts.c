#include "delivery/starts.h"

#include "delivery/dispatcher_internal.h"
#include "delivery/runner.h"
#include "loop/timer.h"
#include "sinks/sink_contract.h"

#include <limits.h>

/*
 * Attempts that a sink starts in one turn of the loop take so long at most; the rest follows in
 * the next turn. To open a thousand connections takes 60 ms, in which the other sinks would wait.
 */
#define TURN_US 5000

/* So many are called at once: ten thousand may be in line. */
#define MAX_CALLED 32

static bool is_newest_turn(const struct dispatcher *dispatcher)
{
        return dispatcher->starts.n_turn == dispatcher->set->work->n_turn;
}

static bool has_time(const struct dispatcher *dispatcher)
{
        return !dispatcher->starts.are_over || !is_newest_turn(dispatcher);
}

/* How many more the sink may start now. The only lane of a sink has limits of its own. */
static unsigned free_attempts(const struct dispatcher *dispatcher)
{
        const struct sink *sink = dispatcher->sink;

        if (!has_time(dispatcher))
                return 0;
        if (dispatcher->fanout == NULL || sink->max_concurrent == 0)
                return UINT_MAX;
        return sink->n_in_flight < sink->max_concurrent ? sink->max_concurrent - sink->n_in_flight
                                                        : 0;
}

/*
 * Each receiver may have as many in flight as half of those that are free, and
 * always one while any is. So however many receivers hang, some attempts stay
 * free for those that answer, and a single busy receiver still gets a third of
 * all. (Dynamic thresholds, as switches share their buffers: Choudhury and
 * Hahne, 1998.)
 */
static bool has_share(const struct runner *runner)
{
        unsigned n_free = free_attempts(runner->dispatcher);

        return n_free > 0 &&
               (runner->lane.n_in_flight == 0 || runner->lane.n_in_flight < n_free / 2);
}

/* Lanes that are called need no more than are free, and none is in line. */
static bool is_line_empty(const struct dispatcher *dispatcher)
{
        return list_is_empty(&dispatcher->starts.line) &&
               free_attempts(dispatcher) > dispatcher->starts.n_called;
}

static void call_next(struct dispatcher *dispatcher)
{
        struct starts *starts = &dispatcher->starts;

        list_for_each (link, &starts->line) {
                struct runner *runner = list_owner(link, struct runner, line_link);
                if (starts->n_called == MAX_CALLED || free_attempts(dispatcher) <= starts->n_called)
                        return;
                if (!has_share(runner))
                        continue;
                list_remove(link);
                runner->is_called = true;
                starts->n_called++;
                runner_wake(runner);
        }
}

static void on_next_turn(void *owner)
{
        call_next(owner);
}

void starts_init(struct dispatcher *dispatcher)
{
        list_init(&dispatcher->starts.line);
        dispatcher->starts.due = timer_create_on(dispatcher->set->loop, on_next_turn, dispatcher);
}

void starts_deinit(struct dispatcher *dispatcher)
{
        timer_destroy(dispatcher->starts.due);
}

bool starts_answer_call(struct runner *runner)
{
        bool is_called = runner->is_called;

        if (is_called)
                runner->dispatcher->starts.n_called--;
        runner->is_called = false;
        return is_called;
}

bool starts_may(const struct runner *runner, bool is_called)
{
        return (is_called || is_line_empty(runner->dispatcher)) && has_share(runner);
}

void starts_spend(struct dispatcher *dispatcher, int64_t now_us)
{
        struct starts *starts = &dispatcher->starts;

        if (!is_newest_turn(dispatcher)) {
                starts->n_turn = dispatcher->set->work->n_turn;
                starts->began_us = now_us;
                starts->are_over = false;
        } else if (now_us - starts->began_us >= TURN_US) {
                starts->are_over = true;
                timer_arm(starts->due, 0);
        }
}

void starts_end(struct runner *runner)
{
        struct starts *starts = &runner->dispatcher->starts;

        if (!lane_may_start(&runner->lane))
                list_remove(&runner->line_link);
        else if (list_is_empty(&runner->line_link) && !starts_may(runner, false))
                list_push_back(&starts->line, &runner->line_link);
        call_next(runner->dispatcher);
}

void starts_leave(struct runner *runner)
{
        starts_answer_call(runner);
        list_remove(&runner->line_link);
        call_next(runner->dispatcher);
}

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

/* So many are called at once: ten thousand may wait. */
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
        if (dispatcher->reading == NULL || sink->max_concurrent == 0)
                return UINT_MAX;
        return sink->n_in_flight < sink->max_concurrent ? sink->max_concurrent - sink->n_in_flight
                                                        : 0;
}

/*
 * Each receiver may have as many in flight as half of those that are free, and
 * always one while any is. So however many receivers hang, some attempts stay
 * free for those that answer, and a single busy receiver still gets a third of
 * all. (Dynamic thresholds, as switches share their buffers: Choudhury and
 * Hahne, 1998.) The shards of a sink have one destination, so none keeps any free.
 */
static bool has_share(const struct runner *runner)
{
        unsigned n_free = free_attempts(runner->dispatcher);

        return n_free > 0 && (runner->dispatcher->fanout == NULL || runner->lane.n_in_flight == 0 ||
                                 runner->lane.n_in_flight < n_free / 2);
}

/* The last line has all that have as many or more. */
static unsigned line_for(const struct runner *runner)
{
        unsigned n_in_flight = runner->lane.n_in_flight;

        return n_in_flight < N_LINES ? n_in_flight : N_LINES - 1;
}

static unsigned first_filled(uint64_t lines)
{
        return lines != 0 ? (unsigned)__builtin_ctzll(lines) : N_LINES;
}

static void leave_line(struct runner *runner)
{
        struct starts *starts = &runner->dispatcher->starts;

        list_remove(&runner->line_link);
        if (list_is_empty(&starts->lines[runner->line]))
                starts->filled &= ~(UINT64_C(1) << runner->line);
}

/* A lane that stands in it already keeps its place. */
static void stand_in_line(struct runner *runner)
{
        struct starts *starts = &runner->dispatcher->starts;
        unsigned line = line_for(runner);

        if (!list_is_empty(&runner->line_link) && runner->line == line)
                return;
        leave_line(runner);
        runner->line = line;
        list_push_back(&starts->lines[line], &runner->line_link);
        starts->filled |= UINT64_C(1) << line;
}

/* More are free than were called for, and all that wait have more in flight. */
static bool is_next(const struct runner *runner)
{
        const struct starts *starts = &runner->dispatcher->starts;

        return free_attempts(runner->dispatcher) > starts->n_called &&
               line_for(runner) < first_filled(starts->filled);
}

/* False: enough are called. */
static bool call(struct runner *runner)
{
        struct starts *starts = &runner->dispatcher->starts;

        if (starts->n_called == MAX_CALLED || free_attempts(runner->dispatcher) <= starts->n_called)
                return false;
        leave_line(runner);
        runner->is_called = true;
        starts->n_called++;
        runner_wake(runner);
        return true;
}

static void call_next(struct dispatcher *dispatcher)
{
        struct starts *starts = &dispatcher->starts;

        for (uint64_t left = starts->filled; left != 0; left &= left - 1) {
                unsigned line = first_filled(left);
                list_for_each (link, &starts->lines[line]) {
                        struct runner *runner = list_owner(link, struct runner, line_link);
                        bool may = has_share(runner);
                        if (may ? !call(runner) : line < N_LINES - 1)
                                return; /* those behind it have as many or more */
                }
        }
}

static void on_next_turn(void *owner)
{
        call_next(owner);
}

void starts_init(struct dispatcher *dispatcher)
{
        for (unsigned line = 0; line < N_LINES; line++)
                list_init(&dispatcher->starts.lines[line]);
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
        return (is_called || is_next(runner)) && has_share(runner);
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

void starts_end(struct runner *runner, int64_t now_ms)
{
        if (!lane_wants_start(&runner->lane, now_ms))
                leave_line(runner);
        else if (!starts_may(runner, false))
                stand_in_line(runner);
        call_next(runner->dispatcher);
}

void starts_leave(struct runner *runner)
{
        starts_answer_call(runner);
        leave_line(runner);
        call_next(runner->dispatcher);
}

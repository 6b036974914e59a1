/* The judge of chaos runs: each kind of fault, planted, is found; and nothing else is. */
#include "chaos/checker.h"

#include <criterion/criterion.h>

/* Key 0: events 0, 2, 3, 5; key 1: events 1, 4. Event 3 was rolled back, 4 is in doubt, 5 is one
 * that sink 1 never takes, and only sink 1 is given event 1. */
static const struct chaos_event events[] = {
    {.fate = PUBLISHED, .key = 0, .sinks = 3},
    {.fate = PUBLISHED, .key = 1, .sinks = 2},
    {.fate = PUBLISHED, .key = 0, .sinks = 3},
    {.fate = PUBLISHED_NOT, .key = 0, .sinks = 3},
    {.fate = PUBLISHED_IN_DOUBT, .key = 1, .sinks = 3},
    {.fate = PUBLISHED, .key = 0, .sinks = 3, .refused = 2},
};

#define AT(number, time)                                                                           \
        {                                                                                          \
                .event = (number), .at_us = (time)                                                 \
        }

enum { N_EVENTS = sizeof events / sizeof events[0] };

static struct chaos_verdict judge(uint32_t sink, const struct chaos_arrival *arrivals,
    size_t n_arrivals, const struct chaos_dead *dead, size_t n_dead,
    const struct chaos_incident *incidents, size_t n_incidents)
{
        const struct chaos_history history = {.sink = sink,
            .is_in_order = true,
            .events = events,
            .n_events = N_EVENTS,
            .arrivals = arrivals,
            .n_arrivals = n_arrivals,
            .dead = dead,
            .n_dead = n_dead,
            .incidents = incidents,
            .n_incidents = n_incidents};

        return chaos_judge(&history);
}

#define JUDGE_0(...)                                                                               \
        judge(0, (const struct chaos_arrival[]){__VA_ARGS__},                                      \
            sizeof((const struct chaos_arrival[]){__VA_ARGS__}) / sizeof(struct chaos_arrival),    \
            NULL, 0, NULL, 0)

Test(chaos_checker, finds_events_that_came_early_and_lets_delayed_events_go_last)
{
        static const struct chaos_event delayed[] = {
            {.fate = PUBLISHED, .sinks = 1, .is_delayed = true},
            {.fate = PUBLISHED, .sinks = 1},
            {.fate = PUBLISHED, .sinks = 1, .is_delayed = true},
            {.fate = PUBLISHED, .sinks = 1},
        };
        struct chaos_arrival arrivals[] = {AT(2, 100), AT(1, 200), AT(3, 300), AT(0, 400)};
        struct chaos_history history = {.is_in_order = true,
            .events = delayed,
            .n_events = 4,
            .arrivals = arrivals,
            .n_arrivals = 4};
        struct chaos_verdict verdict;

        arrivals[0].due_us = 100;
        arrivals[3].due_us = 300;
        verdict = chaos_judge(&history);
        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        arrivals[0].due_us = 101;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_early, 1);
        cr_expect_not(chaos_is_clean(&verdict));
}

Test(chaos_checker, finds_nothing_wrong_with_a_clean_run)
{
        struct chaos_verdict verdict = JUDGE_0(AT(0, 10), AT(2, 11), AT(5, 12));
        const struct chaos_arrival at_1[] = {AT(1, 1), AT(0, 2), AT(4, 3), AT(2, 4)};
        const struct chaos_dead dead_at_1[] = {{.event = 5}};

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_wanted, 3);
        cr_expect_eq(verdict.n_arrivals, 3);

        verdict = judge(1, at_1, 4, dead_at_1, 1, NULL, 0);
        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_wanted, 4);
        cr_expect_eq(verdict.n_dead, 1);
}

Test(chaos_checker, finds_lost_events)
{
        struct chaos_verdict verdict = JUDGE_0(AT(0, 10), AT(5, 12));

        cr_expect_not(chaos_is_clean(&verdict));
        cr_expect_eq(verdict.n_lost, 1);
        cr_expect_str_eq(verdict.first_fault, "event 2 of key 0 was committed and is lost");
}

Test(chaos_checker, counts_no_rolled_back_or_doubtful_event_as_lost)
{
        struct chaos_verdict verdict = JUDGE_0(AT(0, 10), AT(2, 11), AT(5, 12));

        cr_expect_eq(verdict.n_lost, 0);
        verdict = JUDGE_0(AT(0, 10), AT(2, 11), AT(4, 12), AT(5, 12));
        cr_expect(chaos_is_clean(&verdict), "in doubt: may arrive");
}

Test(chaos_checker, finds_an_event_that_came_after_a_later_event_of_its_key)
{
        struct chaos_verdict verdict = JUDGE_0(AT(2, 10), AT(0, 11), AT(5, 12));

        cr_expect_not(chaos_is_clean(&verdict));
        cr_expect_eq(verdict.n_misordered, 1);
        cr_expect_str_eq(verdict.first_fault, "event 0 of key 0 came after a later one");
}

Test(chaos_checker, asks_for_order_of_first_arrivals_only_and_only_where_it_is_promised)
{
        const struct chaos_arrival again[] = {
            AT(0, 10), AT(2, 11), AT(0, 12), AT(2, 13), AT(5, 14)};
        const struct chaos_arrival mixed[] = {AT(5, 10), AT(2, 11), AT(0, 12)};
        const struct chaos_incident kill = {
            .sinks = 1, .begin_us = 11, .end_us = 12, .max_repeats = 9};
        struct chaos_history history = {.events = events, .n_events = N_EVENTS};
        struct chaos_verdict verdict = judge(0, again, 5, NULL, 0, &kill, 1);

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        history.arrivals = mixed;
        history.n_arrivals = 3;
        verdict = chaos_judge(&history);
        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
}

Test(chaos_checker, lets_a_dead_letter_be_redriven_out_of_order)
{
        const struct chaos_arrival arrivals[] = {AT(1, 1), AT(0, 2), AT(2, 3), AT(5, 4)};
        const struct chaos_dead dead[] = {{.event = 5}};
        struct chaos_verdict verdict = judge(1, arrivals, 4, dead, 1, NULL, 0);

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
}

Test(chaos_checker, finds_events_that_were_never_committed)
{
        struct chaos_verdict verdict = JUDGE_0(AT(0, 10), AT(2, 11), AT(3, 12), AT(5, 12));

        cr_expect_not(chaos_is_clean(&verdict));
        cr_expect_eq(verdict.n_uncommitted, 1);
        verdict = JUDGE_0(AT(0, 10), AT(2, 11), AT(5, 12), AT(600, 13));
        cr_expect_eq(verdict.n_uncommitted, 1, "an event that was never written");
        verdict = JUDGE_0(AT(0, 10), AT(1, 10), AT(2, 11), AT(5, 12));
        cr_expect_eq(verdict.n_uncommitted, 1, "an event of another sink");
}

Test(chaos_checker, finds_dead_letters_that_need_not_have_died)
{
        const struct chaos_arrival arrivals[] = {AT(1, 1), AT(0, 2)};
        const struct chaos_dead dead[] = {{.event = 2}, {.event = 5}};
        struct chaos_verdict verdict = judge(1, arrivals, 2, dead, 2, NULL, 0);

        cr_expect_not(chaos_is_clean(&verdict));
        cr_expect_eq(verdict.n_needlessly_dead, 1);
        cr_expect_eq(verdict.n_lost, 0, "dead is not lost");
}

/* ---- what may or may not come ---------------------------------------------------------------- */

Test(chaos_checker, finds_a_refused_event_that_came_after_a_later_event)
{
        static const struct chaos_event relenting[] = {
            {.fate = PUBLISHED, .sinks = 3, .refused = 1, .relents = 1, .committed_us = 5},
            {.fate = PUBLISHED, .sinks = 3},
        };
        const struct chaos_arrival in_order[] = {AT(0, 10), AT(1, 11)};
        const struct chaos_arrival reversed[] = {AT(1, 10), AT(0, 20)};
        const struct chaos_dead dead[] = {{.event = 0}};
        struct chaos_incident crash = {.sinks = 3, .begin_us = 15, .end_us = 16, .forgets = true};
        struct chaos_history history = {.is_in_order = true,
            .events = relenting,
            .n_events = 2,
            .arrivals = in_order,
            .n_arrivals = 2};
        struct chaos_verdict verdict = chaos_judge(&history);

        cr_expect(chaos_is_clean(&verdict), "taken at once: %s", verdict.first_fault);
        history.arrivals = reversed;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "no dead letter says why it was left behind");
        history.n_arrivals = 1;
        history.dead = dead;
        history.n_dead = 1;
        verdict = chaos_judge(&history);
        cr_expect(chaos_is_clean(&verdict), "refused: %s", verdict.first_fault);

        history.n_arrivals = 2;
        history.n_dead = 0;
        history.incidents = &crash;
        history.n_incidents = 1;
        verdict = chaos_judge(&history);
        cr_expect(
            chaos_is_clean(&verdict), "its dead letter is forgotten: %s", verdict.first_fault);
        crash.forgets = false;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "nothing is forgotten");
        crash.forgets = true;
        crash.begin_us = crash.end_us = 4;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "it was forgotten before the event was there");
        crash.begin_us = crash.end_us = 21;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "it was forgotten after that");
        crash.begin_us = crash.end_us = 15;
        history.sink = 1;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "this sink never refuses it");
}

Test(chaos_checker, finds_a_dead_letter_of_a_filter_that_was_quick)
{
        const struct chaos_arrival arrivals[] = {AT(0, 10), AT(2, 11)};
        const struct chaos_span dear[] = {{100, 200}, {300, 400}};
        struct chaos_dead dead = {.event = 5, .died_us = 350, .is_for_its_filter = true};
        struct chaos_history history = {.is_in_order = true,
            .events = events,
            .n_events = N_EVENTS,
            .arrivals = arrivals,
            .n_arrivals = 2,
            .dead = &dead,
            .n_dead = 1,
            .dear = dear,
            .n_dear = 2};
        struct chaos_verdict verdict = chaos_judge(&history);

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_dead_for_filter, 1);
        dead.died_us = 250;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_needlessly_dead, 1, "between the two");
        dead.died_us = 401;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_needlessly_dead, 1, "after them");
        dead.died_us = 350;
        dead.is_for_its_filter = false;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_needlessly_dead, 1, "for another reason");
        dead.is_for_its_filter = true;
        history.n_dear = 0;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_needlessly_dead, 1, "of a sink whose filter is never dear");
        cr_expect_not(chaos_is_clean(&verdict));
}

Test(chaos_checker, counts_no_optional_event_as_lost)
{
        static const struct chaos_event some[] = {
            {.fate = PUBLISHED, .sinks = 3, .optional = 1},
            {.fate = PUBLISHED, .sinks = 3},
        };
        const struct chaos_arrival reversed[] = {AT(1, 10), AT(0, 20)};
        struct chaos_history history = {.is_in_order = true,
            .events = some,
            .n_events = 2,
            .arrivals = reversed,
            .n_arrivals = 1};
        struct chaos_verdict verdict = chaos_judge(&history);

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_wanted, 1);
        history.sink = 1;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_lost, 1, "another sink must get it");
        history.sink = 0;
        history.n_arrivals = 2;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_misordered, 1, "if it comes then in order");
}

/* ---- what comes twice ------------------------------------------------------------------------ */

static const struct chaos_arrival repeated[] = {
    AT(0, 100), AT(2, 101), AT(5, 102), AT(0, 200), AT(2, 201)};

static struct chaos_verdict judge_repeated(
    const struct chaos_incident *incidents, size_t n_incidents)
{
        return judge(0, repeated, 5, NULL, 0, incidents, n_incidents);
}

Test(chaos_checker, finds_events_that_came_again_without_a_reason)
{
        struct chaos_verdict verdict = judge_repeated(NULL, 0);

        cr_expect_not(chaos_is_clean(&verdict));
        cr_expect_eq(verdict.n_repeated, 2);
        cr_expect_eq(verdict.n_unexplained, 2);
}

Test(chaos_checker, takes_a_fault_between_two_arrivals_as_their_reason)
{
        struct chaos_incident incident = {
            .sinks = 1, .cause = 3, .begin_us = 150, .end_us = 160, .max_repeats = UINT32_MAX};
        struct chaos_verdict verdict = judge_repeated(&incident, 1);

        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_repeated_by[3], 2);
        cr_expect_eq(verdict.most_repeated_by[3], 2);

        incident.sinks = 2;
        verdict = judge_repeated(&incident, 1);
        cr_expect_eq(verdict.n_unexplained, 2, "another sink's");

        incident = (struct chaos_incident){
            .sinks = 1, .begin_us = 90, .end_us = 99, .max_repeats = UINT32_MAX};
        verdict = judge_repeated(&incident, 1);
        cr_expect_eq(verdict.n_unexplained, 2, "before the first arrival");

        incident.begin_us = incident.end_us = 202;
        verdict = judge_repeated(&incident, 1);
        cr_expect_eq(verdict.n_unexplained, 2, "after the second");
}

Test(chaos_checker, holds_an_incident_to_its_bound)
{
        const struct chaos_incident kills[] = {
            {.sinks = 1, .cause = 0, .begin_us = 150, .end_us = 151, .max_repeats = 1},
            {.sinks = 1, .cause = 1, .begin_us = 160, .end_us = 161, .max_repeats = 1}};
        struct chaos_verdict verdict = judge_repeated(kills, 1);

        cr_expect_eq(verdict.n_unexplained, 1);
        cr_expect_eq(verdict.n_repeated_by[0], 1);

        verdict = judge_repeated(kills, 2);
        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_repeated_by[0], 1);
        cr_expect_eq(verdict.n_repeated_by[1], 1);
}

/* A broker that refuses says so: what it took before need not be sent again. */
Test(chaos_checker, takes_no_refusal_as_a_reason)
{
        const struct chaos_incident incidents[] = {
            {.sinks = 1, .cause = 0, .begin_us = 120, .end_us = 180, .max_repeats = 0},
            {.sinks = 1, .cause = 1, .begin_us = 160, .end_us = 161, .max_repeats = 2}};
        struct chaos_verdict verdict = judge_repeated(incidents, 1);

        cr_expect_eq(verdict.n_unexplained, 2);
        verdict = judge_repeated(incidents, 2);
        cr_expect(chaos_is_clean(&verdict), "%s", verdict.first_fault);
        cr_expect_eq(verdict.n_repeated_by[0], 0);
        cr_expect_eq(verdict.n_repeated_by[1], 2, "the kill behind it is the reason");
}

Test(chaos_checker, wants_a_reason_for_each_further_arrival)
{
        const struct chaos_arrival thrice[] = {
            AT(0, 100), AT(2, 101), AT(5, 102), AT(0, 200), AT(0, 300)};
        const struct chaos_incident kill = {
            .sinks = 1, .begin_us = 150, .end_us = 151, .max_repeats = 9};
        struct chaos_verdict verdict = judge(0, thrice, 5, NULL, 0, &kill, 1);

        cr_expect_eq(verdict.n_repeated, 2);
        cr_expect_eq(verdict.n_unexplained, 1, "nothing happened between the last two");
}

Test(chaos_checker, finds_events_that_came_late_in_the_calm)
{
        static const struct chaos_event in_the_calm[] = {
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 1000000},
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 1000000},
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 1000000, .is_delayed = true},
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 9000000},
        };
        struct chaos_arrival arrivals[] = {AT(0, 1000001 + CHAOS_SOON_US),
            AT(2, 1000001 + 2 * CHAOS_SOON_US), AT(1, 1000001 + 2 * CHAOS_SOON_US),
            AT(3, 90000000)};
        struct chaos_history history = {.events = in_the_calm,
            .n_events = 4,
            .arrivals = arrivals,
            .n_arrivals = 4,
            .calm_from_us = 1000000,
            .calm_until_us = 10000000};
        struct chaos_verdict verdict = chaos_judge(&history);

        cr_expect_eq(verdict.n_timed, 2, "one is delayed, and after one the calm was soon over");
        cr_expect_eq(verdict.n_late, 1, "one came soon after the other");
        cr_expect_not(chaos_is_clean(&verdict));

        arrivals[0].at_us--;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_late, 1, "now the other came too long after it");
        arrivals[2].at_us--;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_late, 0);
        arrivals[2].at_us++;
        history.calm_from_us++;
        verdict = chaos_judge(&history);
        cr_expect(chaos_is_clean(&verdict), "it was not calm yet");
}

Test(chaos_checker, lets_events_wait_that_were_in_line_until_the_calm_was_over)
{
        static const struct chaos_event in_the_calm[] = {
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 8000000},
            {.fate = PUBLISHED, .sinks = 1, .committed_us = 8000000},
        };
        struct chaos_arrival arrivals[] = {AT(0, 10000001 - CHAOS_SOON_US), AT(1, 20000000)};
        struct chaos_history history = {.events = in_the_calm,
            .n_events = 2,
            .arrivals = arrivals,
            .n_arrivals = 2,
            .calm_from_us = 1000000,
            .calm_until_us = 10000000};
        struct chaos_verdict verdict = chaos_judge(&history);

        cr_expect_eq(verdict.n_late, 0, "then something else may have held it up");
        arrivals[0].at_us--;
        verdict = chaos_judge(&history);
        cr_expect_eq(verdict.n_late, 1, "none had come for long");
}

/*
 * What the rigs of sinks have in common: each is a `struct rig` with a `driver` and `events`, and
 * includes this behind it. The attempt of events[i] is driver.attempts[i].
 */
#pragma once

#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

/* Hands over the next n, and flushes. */
static inline void rig_deliver(struct rig *rig, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                sink_driver_start(&rig->driver, &rig->events[rig->driver.n_started]);
        sink_driver_flush(&rig->driver);
}

/* The same, and waits until all are finished. */
static inline void rig_deliver_all(struct rig *rig, unsigned n)
{
        rig_deliver(rig, n);
        sink_driver_finish(&rig->driver);
}

/* How many ended so. */
static inline unsigned rig_count(const struct rig *rig, enum outcome_kind kind)
{
        unsigned n = 0;

        for (size_t i = 0; i < rig->driver.n_started; i++)
                n += rig->driver.attempts[i].is_finished &&
                     rig->driver.attempts[i].outcome.kind == kind;
        return n;
}

#define expect_outcome_is(given, kind_, words)                                                     \
        do {                                                                                       \
                const struct outcome *outcome_ = (given);                                          \
                cr_expect(outcome_->kind == (kind_), "%s: %s", outcome_name(outcome_->kind),       \
                    outcome_->reason);                                                             \
                cr_expect(strstr(outcome_->reason, (words)) != NULL, "no '%s' in '%s'", (words),   \
                    outcome_->reason);                                                             \
        } while (0)

#define expect_outcome(rig, number, kind_, words)                                                  \
        do {                                                                                       \
                cr_expect((rig)->driver.attempts[number].is_finished);                             \
                expect_outcome_is(&(rig)->driver.attempts[number].outcome, kind_, words);          \
        } while (0)

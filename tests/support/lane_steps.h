/* Short words for the steps of a test of one lane: the lane is opened and closed with its suite. */
#pragma once

#include "support/lane_rig.h"

#include <criterion/criterion.h>

static struct lane_rig rig;

static inline void open_rig(void)
{
        lane_rig_open(&rig, &lane_rig_policy);
}

static inline void open_keeping_order(void)
{
        struct lane_policy policy = lane_rig_policy;

        policy.sink_keeps_order = true;
        lane_rig_open(&rig, &policy);
}

static inline void close_rig(void)
{
        lane_rig_close(&rig);
}

/* The attempt of this event starts now; 0: none may start. */
static inline void start(int64_t id)
{
        int64_t started = lane_rig_start(&rig);

        cr_assert_eq(started, id, "%lld starts instead of %lld", (long long)started, (long long)id);
}

static inline void deliver(int64_t id)
{
        start(id);
        lane_rig_finish(&rig, id, OUTCOME_DELIVERED);
}

/* The first of "a a a" has failed, and its key is parked. */
static inline void park_a_key(void)
{
        lane_rig_read(&rig, "a a a");
        start(1);
        lane_rig_finish(&rig, 1, OUTCOME_RETRY);
        lane_rig_settle(&rig);
        cr_assert_str_eq(lane_rig_rows(&rig), "1:retry 2:blocked 3:blocked");
}

/* 1 of "a b a" is late and to be parked, which is not written yet. */
static inline void decide_to_park_a_slow_one(void)
{
        lane_rig_read(&rig, "a b a");
        start(1);
        deliver(2);
        rig.now_ms += 1000;
        cr_assert_eq(lane_rig_wants_settle(&rig), -1, "in a moment");
}

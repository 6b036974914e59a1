/*
 * One random life of one lane, held against what a lane promises: transactions
 * commit in any order, attempts end in any way and order, answers come late,
 * the lane is lost, the relay is restarted. Whoever rolls the dice decides what
 * happens next; history_pump() asks the lane what it wants, as the carrier
 * does, and each step fails the test if the lane breaks a promise.
 */
#pragma once

#include "relay/lane.h"
#include "support/fake_outbox.h"

#include <criterion/criterion.h>
#include <inttypes.h>

/* What the world saw of one event. */
struct fate {
        unsigned n_delivered;
        /* Since the lane was owned last. */
        bool is_claimed;
        bool is_in_flight;
        bool is_delivered;
        uint32_t n_failed;     /* attempts that count */
        int64_t not_before_ms; /* when it may be tried again */
};

struct history {
        uint64_t seed, random;
        struct fake_outbox outbox;
        struct lane lane;
        int64_t now_ms;
        bool is_calm; /* everything succeeds from here on */

        struct fate fates[FAKE_OUTBOX_MAX_EVENTS];
        struct delivery *in_flight[FAKE_OUTBOX_MAX_EVENTS]; /* in the order of their starts */
        size_t n_in_flight;

        /* What the lane has asked for and not been told yet. */
        bool is_reading, is_drawing, is_settling;
        struct page_request request;
        struct cursor settling; /* own references */
        struct cursor settled;  /* what the lane was told last; own references */
        uint64_t xid;
};

/* cr_assert() costs a message even when it passes. */
#define must(history, condition)                                                                   \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        cr_assert_fail(                                                            \
                            "HISTORY_SEED=%" PRIu64 ": %s", (history)->seed, #condition);          \
        } while (0)

/* A history is its seed. */
uint32_t history_roll(struct history *history);
uint32_t history_roll_below(struct history *history, uint32_t limit);
bool history_one_in(struct history *history, uint32_t n);

void history_init(struct history *history, uint64_t seed);
void history_start(struct history *history, const struct lane_policy *policy, int64_t scan_ids);
void history_deinit(struct history *history);

/* The lane does what it can do now; it is owned first if nobody owns it. */
void history_pump(struct history *history);

/* The outbox answers one of the questions that it has been asked, if any. */
void history_answer(struct history *history);

/* One of the attempts in flight ends. There is one. */
void history_finish_any(struct history *history);

void history_lose(struct history *history);

/* The relay drains and ends; another begins. */
void history_restart(struct history *history);

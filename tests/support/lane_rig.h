/*
 * One lane with a pinned clock and pinned randomness, and an outbox that
 * answers at once: what a test says is what happens. What is settled ends up
 * in `rows` and `dead`, as it would in courier.parked and courier.dead_letter.
 */
#pragma once

#include "lane/lane.h"
#include "support/pages.h"

struct rig_row {
        int64_t id;
        char key[16]; /* "" for none */
        enum parked_state state;
        int64_t due_ms, retried_ms;
        uint32_t n_attempts;
        bool is_skipped;
};

struct lane_rig {
        struct lane lane;
        struct pages pages;
        int64_t now_ms;
        int64_t last_id;   /* of the outbox */
        uint64_t xid;      /* drawn last */
        uint64_t delayed;  /* bit n: the n-th event of the next page is delayed */
        uint64_t unjudged; /* likewise: its filter was not asked */

        struct rig_row rows[64]; /* parked, in order of position */
        size_t n_rows;
        struct {
                int64_t id;
                enum dead_reason reason;
                uint32_t n_attempts;
                char words[96];
        } dead[16];
        size_t n_dead;
        enum cursor_room room; /* what the next answer to a settle says */
        int64_t settled;       /* the id up to which the cursor stands */
};

/* By key, to a sink that does not keep order; 20 events; retries after 100, 200, 400 … ms. */
extern const struct lane_policy lane_rig_policy;

/* The lane is owned, and stands at the beginning of an empty outbox. */
void lane_rig_open(struct lane_rig *rig, const struct lane_policy *policy);
void lane_rig_close(struct lane_rig *rig); /* nothing is in flight */
void lane_rig_own(struct lane_rig *rig, int64_t floor);

/* Answers the page that the lane wants with one event for each word, the word being its key ("-"
 * for none). The difference ends with them. */
void lane_rig_read(struct lane_rig *rig, const char *keys);

/* The page alone, without a ring. `payload_bytes` for each event. */
void lane_rig_take_page(struct lane_rig *rig, const char *keys, size_t payload_bytes);

/* The id of the event whose attempt starts now; 0 if none may start. */
int64_t lane_rig_start(struct lane_rig *rig);

/* How the attempt of this event ends; its backoff is as long as it can be. A SINK_DOWN concerns all
 * events. */
int64_t lane_rig_finish(struct lane_rig *rig, int64_t id, enum outcome_kind kind);
int64_t lane_rig_finish_delayed(
    struct lane_rig *rig, int64_t id, enum outcome_kind kind, int64_t delay_ms);

struct lane_result lane_rig_end(
    struct lane_rig *rig, int64_t id, const struct outcome *outcome); /* any outcome */

/* The delivery of an event that is in memory. */
struct delivery *lane_rig_delivery(struct lane_rig *rig, int64_t id);

/* The id up to which the lane wants to settle now; -1 if it does not. lane_rig_answer_settle()
 * follows: the verdicts have been applied already. */
int64_t lane_rig_wants_settle(struct lane_rig *rig);
void lane_rig_answer_settle(struct lane_rig *rig);

/* Both at once, when it is due: time passes if need be. */
void lane_rig_settle(struct lane_rig *rig);

/* Answers the lane's wish for parked ones, if it has one, from the rows; their number, or -1. */
int lane_rig_read_parked(struct lane_rig *rig);

/* "1:retry 2:blocked": the rows in order. */
const char *lane_rig_rows(const struct lane_rig *rig);
bool lane_rig_wants_page(struct lane_rig *rig);

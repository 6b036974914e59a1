/*
 * One lane with a pinned clock and pinned randomness, and an outbox that
 * answers at once: what a test says is what happens.
 */
#pragma once

#include "relay/lane.h"
#include "support/pages.h"

struct lane_rig {
        struct lane lane;
        struct pages pages;
        int64_t now_ms;
        int64_t last_id; /* of the outbox */
        uint64_t xid;    /* drawn last */
};

/* By key, to a sink that does not keep order; 20 events; retries after 100, 200, 400 … ms. */
extern const struct lane_policy lane_rig_policy;

/* The lane is owned, and stands at the beginning of an empty outbox. */
void lane_rig_open(struct lane_rig *rig, const struct lane_policy *policy);
void lane_rig_close(struct lane_rig *rig); /* nothing is in flight */
void lane_rig_own(struct lane_rig *rig, int64_t floor);

/* Answers the page that the lane wants with one event for each word, the word being its key ("-"
 * for none). The difference ends with them, and its frame gets its xid. */
void lane_rig_read(struct lane_rig *rig, const char *keys);

/* The page alone: its frame has no xid yet. `payload_bytes` for each event. */
void lane_rig_take_page(struct lane_rig *rig, const char *keys, size_t payload_bytes);
void lane_rig_draw_xid(struct lane_rig *rig);

/* The id of the event whose attempt starts now; 0 if none may start. */
int64_t lane_rig_start(struct lane_rig *rig);

/* How the attempt of this event ends; its backoff is as long as it can be. */
int64_t lane_rig_finish(struct lane_rig *rig, int64_t id, enum outcome_kind kind);
int64_t lane_rig_finish_delayed(
    struct lane_rig *rig, int64_t id, enum outcome_kind kind, int64_t delay_ms);

/* The delivery of an event that is in the window. */
struct delivery *lane_rig_delivery(struct lane_rig *rig, int64_t id);

/* The id up to which the lane wants to settle now; -1 if it does not. */
int64_t lane_rig_wants_settle(struct lane_rig *rig);
bool lane_rig_wants_page(struct lane_rig *rig);

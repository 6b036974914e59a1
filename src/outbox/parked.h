/*
 * Deliveries taken out of the stream: rows of courier.parked as a lane claims
 * them back.
 *
 * Known to the pure core, so no libpq here: what the events point into is
 * freed through `release`.
 */
#pragma once

#include "pgcourier/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum parked_state {
        PARKED_RETRY,   /* failed, and the first of its key */
        PARKED_BLOCKED, /* behind an earlier one of its key */
        PARKED_DELAYED, /* takes its place behind its key when it is due */
};

/* As in courier.parked.state. */
const char *parked_state_name(enum parked_state state);

struct parked_row {
        struct event event; /* event.id is the row's identity within its lane */
        enum parked_state state;
        uint32_t n_attempts; /* that count */
        int64_t retried_ms;  /* the sum of the delays so far */
        bool is_skipped;     /* an operator wants it given up */
};

/* What to claim. Borrowed until the answer. */
struct parked_request {
        /* The first rows of each of these keys, in order, whatever is due. */
        const char *const *keys;
        size_t n_keys;
        /* Rows that the lane has claimed already and not settled: never in the answer. */
        const int64_t *claimed;
        size_t n_claimed;
        uint32_t max_rows;  /* of the due ones, and again of those of the keys; at least 1 */
        uint64_t max_bytes; /* of the payloads of each of the two, or one row if it is larger */
};

struct parked_batch {
        size_t n_rows;
        struct parked_row *rows; /* those of the keys in order of delivery, then those due */
        size_t bytes;            /* of the payloads */
        int64_t arrived_us;      /* monotonic clock */
        int64_t next_due_ms;     /* from the answer on until more is due; 0: at once; -1: never */
        void (*release)(struct parked_batch *batch);
};

/* A lane of a sink that has several. */
struct due_lane {
        int32_t lane;
        int64_t due_ms; /* from the answer on until its first row is due; 0: it is */
};

/* What is parked when a lane is taken: for each key that has any (but delayed ones). */
struct parked_key {
        const char *key;
        uint64_t n_rows;
        uint64_t n_blocked; /* of these, those in state blocked */
        bool is_waiting;    /* the first is to be tried at its due time; else at once */
};

struct parked_keys {
        size_t n_keys;
        struct parked_key *keys;
        uint64_t n_rows; /* with those without a key, without delayed ones */
};

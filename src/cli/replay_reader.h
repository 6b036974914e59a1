/*
 * Finds the events of a range that the sink would take today, page by page. Its
 * filters are asked in statements of their own, about as many events at once as
 * they can judge in time. An event that a filter takes too long for is left out;
 * three of them in a row end the replay.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "operator/history.h"
#include "pg/array_literal.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLAY_PAGE_ROWS 1000

struct destination;

struct replay_reader {
        struct blocking_conn *conn;        /* the first three are borrowed */
        const struct history_range *range; /* fixed */
        const struct destination *destination;
        struct bytes filters;
        int64_t after_id;    /* up to here the events are looked at */
        int64_t n_left_out;  /* the filters took too long for them */
        int n_rows;          /* looked at at once */
        unsigned n_too_slow; /* the last ones, in a row */
};

/* From the beginning of the range; at most REPLAY_PAGE_ROWS are looked at at first. */
void replay_reader_init(struct replay_reader *reader, struct blocking_conn *conn,
    const struct history_range *range, const struct destination *destination, int n_rows);
void replay_reader_deinit(struct replay_reader *reader);

/* Adds the ids of the next events that are taken, n_max at most and perhaps none. No call takes
 * long because of a filter. */
bool replay_reader_read(struct replay_reader *reader, int n_max, struct array_literal *ids,
    int64_t *out_n_taken, bool *out_is_end, struct error *error)
    __attribute__((warn_unused_result));

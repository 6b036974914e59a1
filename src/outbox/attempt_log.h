/*
 * Attempts that were made, on their way to courier.attempt: gathered, and written along with the
 * settle that comes next. They are for people to read. Whatever goes wrong with them costs the
 * record, and no event.
 *
 * Attempts of a lane that ended alike (the same outcome, answer and number) become one pack, a row
 * with arrays. So a thousand deliveries cost the database little more than one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed for the call. */
struct attempt_record {
        const char *sink;
        int32_t lane;
        int64_t outbox_id;
        uint32_t number;
        int64_t began_us; /* wall clock */
        int64_t took_us;
        int64_t keep_ms;     /* at least; it expires with a day */
        const char *outcome; /* static */
        unsigned status;     /* 0: none */
        const char *answer;  /* empty: none */
};

/* Parameters of courier.note_attempts(), in this order; an element for each pack. */
enum attempt_column {
        PACK_SINK,
        PACK_LANE,
        PACK_OUTCOME,
        PACK_NUMBER,
        PACK_STATUS,
        PACK_ANSWER,
        PACK_DAY,
        PACK_BEGAN_US,
        PACK_FIRST_ID,
        PACK_LAST_ID,
        PACK_IDS, /* each of these three an array literal itself */
        PACK_AFTER_US,
        PACK_TOOK_US,
        N_PACK_COLUMNS,
};

struct attempt_log;
struct attempt_pack;

struct attempt_log *attempt_log_create(void);
void attempt_log_destroy(struct attempt_log *log);

/* `open` is where the lane keeps its open pack, NULL at first; it is NULL again whenever the pack
 * is written. False: the log is full, so the record is lost. */
bool attempt_log_add(
    struct attempt_log *log, struct attempt_pack **open, const struct attempt_record *record);

/* The lane goes; what is in its pack stays. */
void attempt_log_leave(struct attempt_pack **open);

/* It should be written now, with a settle or without. */
bool attempt_log_is_full(const struct attempt_log *log);

/* Returns how many attempts there are, and sets the parameters: NULL if there are none. They are
 * borrowed until attempt_log_clear(), which must follow, and forgets the attempts. */
size_t attempt_log_take(struct attempt_log *log, const char **out_values);
void attempt_log_clear(struct attempt_log *log);

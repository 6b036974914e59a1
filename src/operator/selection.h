/*
 * Which rows of courier.dead_letter or courier.parked an operator chooses: all conditions that are
 * given must hold. One fixed SQL text serves every combination, so values are always parameters; as
 * these statements are planned with their values, a condition that is NULL costs nothing.
 */
#pragma once

#include "pg/blocking_conn.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

struct selection {
        /* NULL: any. Borrowed. */
        const char *sink;
        const char *receiver; /* its name; or of one that was removed its lane: "#17" */
        const char *topic;    /* a pattern: text/topic_pattern.h */
        const char *key;
        const char *word;      /* the reason of a dead letter, the state of a parked delivery */
        int64_t older_than_ms; /* since it died, or was parked; -1: any */
        int64_t newer_than_ms; /* -1: any */
        const char *ids;       /* an array literal: {17,18} */
        int64_t limit;         /* the first so many; 0: all */
};

/* What $1 to $8 of a statement with SELECTION_SQL point at. */
#define SELECTION_PARAMETERS 8
struct selection_texts {
        char older_than_ms[24];
        char newer_than_ms[24];
};

static inline const char *selection_age(char *text, size_t size, int64_t age_ms)
{
        if (age_ms < 0)
                return NULL;
        snprintf(text, size, "%" PRId64, age_ms);
        return text;
}

/* Fills the first SELECTION_PARAMETERS of `parameters`, which borrow both. */
static inline void selection_fill(
    const struct selection *selection, struct selection_texts *texts, struct parameter *parameters)
{
        const char *values[SELECTION_PARAMETERS] = {
            selection->sink,
            selection->topic,
            selection->key,
            selection->word,
            selection_age(
                texts->older_than_ms, sizeof texts->older_than_ms, selection->older_than_ms),
            selection_age(
                texts->newer_than_ms, sizeof texts->newer_than_ms, selection->newer_than_ms),
            selection->ids,
            selection->receiver,
        };

        for (int i = 0; i < SELECTION_PARAMETERS; i++)
                parameters[i] = (struct parameter){.value = values[i]};
}

/* The condition, on a table with columns sink, lane, topic and key and the three that are named. */
#define SELECTION_SQL(id, word, time)                                                              \
        "($1::text IS NULL OR sink = $1)"                                                          \
        " AND ($2::text IS NULL OR courier.pattern_matches($2, topic))"                            \
        " AND ($3::text IS NULL OR key = $3)"                                                      \
        " AND ($4::text IS NULL OR " word " = $4)"                                                 \
        " AND ($5::bigint IS NULL OR " time " <= now() - $5 * interval '1 millisecond')"           \
        " AND ($6::bigint IS NULL OR " time " > now() - $6 * interval '1 millisecond')"            \
        " AND ($7::bigint[] IS NULL OR " id " = ANY ($7))"                                         \
        " AND ($8::text IS NULL OR (lane > 0 AND '#' || lane = $8)"                                \
        "      OR (sink, lane) IN (SELECT e.sink, e.id FROM courier.receiver AS e"                 \
        "                          WHERE e.name = $8))"

/* The receiver of a row of that table, as in struct selection; NULL: it is of the sink itself. */
#define SELECTION_RECEIVER(table)                                                                  \
        "CASE WHEN " table ".lane > 0 THEN coalesce("                                              \
        "(SELECT e.name FROM courier.receiver AS e"                                                \
        " WHERE e.sink = " table ".sink AND e.id = " table ".lane), '#' || " table ".lane) END"

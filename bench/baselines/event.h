/*
 * An event as the baselines read it, from a row with these columns in this order:
 *
 *   id, event_id, topic, key, type, payload, headers, created_at
 */
#pragma once

#include <libpq-fe.h>
#include <stdint.h>

struct text {
        const char *data; /* borrowed from the PGresult; NULL where the column is */
        size_t length;
};

struct event {
        int64_t id;
        char event_id[36];
        struct text topic, key, type, payload;
        int64_t created_us; /* since 1970 */
};

void event_read(struct event *event, const PGresult *rows, int row);

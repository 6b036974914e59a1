/* Events as the parameters of the statement that calls a function, or inserts into a table. */
#pragma once

#include "pg/array_literal.h"
#include "sinks/attempt_queue.h"
#include "sinks/format/event_time.h"

/* In the order of $1, $2 …: postgres_call.sql and postgres_insert.sql. */
enum postgres_parameter {
        PARAMETER_CONSUMER,
        PARAMETER_ID,
        PARAMETER_TOPIC,
        PARAMETER_KEY,
        PARAMETER_TYPE,
        PARAMETER_PAYLOAD,
        PARAMETER_HEADERS,
        PARAMETER_CREATED_AT,
        PARAMETER_DATA,
        POSTGRES_PARAMETERS
};

/* Begins zeroed. */
struct postgres_values {
        const char *values[POSTGRES_PARAMETERS]; /* until the next call, or the end of the events */
        struct array_literal arrays[POSTGRES_PARAMETERS];
        struct bytes headers;
        struct bytes data;
        struct event_time time;
};

void postgres_values_deinit(struct postgres_values *values);

/* Of one event: to call a function. */
void postgres_values_of_event(
    struct postgres_values *values, const char *consumer, const struct event *event);

/* Of each of them an array: to insert into a table. */
void postgres_values_of_queue(
    struct postgres_values *values, const char *consumer, const struct attempt_queue *queue);

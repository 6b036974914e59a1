/*
 * What arrived, in the order of arrival, and the judgement on it: held against what the writers
 * committed, was anything lost, repeated, out of order, or never committed?
 */
#pragma once

#include "support/writers.h"

#include <stddef.h>

struct history {
        struct arrival {
                unsigned writer;
                unsigned number;
        } * arrivals; /* owned */
        size_t n_arrivals;
        size_t capacity;
        char last_read[48]; /* history_stream.c: the last entry read */
};

struct filter_result {
        size_t n_lost;        /* committed, and did not arrive */
        size_t n_repeated;    /* arrivals beyond the first of their event */
        size_t n_misordered;  /* first arrivals after a later event of their writer */
        size_t n_uncommitted; /* arrived, and were rolled back or never written */
        char first_fault[96]; /* the first of those but the repeated ones, in words */
};

/* The payload of a writer's event, "[writer, number]". */
void history_note(struct history *history, const char *payload);

/* The writers have stopped. */
struct filter_result history_judge(const struct history *history, const struct writers *writers);

void history_deinit(struct history *history);

/* Notes what has been added to a Redis Stream since the last time. */
struct redis_server;
void history_read_stream(struct history *history, struct redis_server *server, const char *stream);

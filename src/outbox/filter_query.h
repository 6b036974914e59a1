/*
 * Asks PostgreSQL which filters hold for which events: one question at a time,
 * bounded in time, on a connection that does nothing else. So a filter that takes
 * for ever costs nobody but those who share this connection anything, and them no
 * more than the bound.
 *
 * It answers from the loop, never inside a call. Lost, it comes back by itself, and
 * says so by on_ready.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct judge;

struct judge_question {
        const int64_t *ids; /* of events; ascending */
        size_t n_ids;
        const char *const *filters; /* jsonpath predicates */
        size_t n_filters;
        int64_t limit_ms;
};

/* Of the events that were found, in no order. */
struct judgement {
        const PGresult *rows;
        size_t n_filters;
};
size_t judgement_n_events(const struct judgement *judgement);
int64_t judgement_event(const struct judgement *judgement, size_t i);
bool judgement_holds(const struct judgement *judgement, size_t i, size_t filter);

/* No answer: the time was up, or the server could not do it (memory, a disk). */
struct judge_failure {
        struct error error;
        bool is_time_up;
        /* What was being asked then. Not always known: then 0 and -1. */
        int64_t id;
        ptrdiff_t filter; /* -1 with an id: no filter was asked yet */
};

struct judge_events {
        void (*on_ready)(void *owner); /* may be asked; also after each answer */
        void (*on_judged)(void *owner, const struct judgement *judgement);   /* borrowed */
        void (*on_failed)(void *owner, const struct judge_failure *failure); /* borrowed */
        void (*on_lost)(void *owner, const struct error *error, int64_t retry_ms);
};

/* `name` is for logs. The strings are borrowed. */
struct judge *judge_create(uv_loop_t *loop, const char *name, const struct postgres_config *config,
    const struct judge_events *events, void *owner);
void judge_destroy(struct judge *judge); /* NULL is allowed */

void judge_configure(struct judge *judge, const struct postgres_config *config);

/* `server` says since when the one runs that the events were read from: another one would have others.
 * Copied. Nothing happens if it is open. */
void judge_open(struct judge *judge, const char *server);
void judge_close(struct judge *judge);

/* Neither connecting nor at work. */
bool judge_is_ready(const struct judge *judge);
void judge_ask(struct judge *judge, const struct judge_question *question);

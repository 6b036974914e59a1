/* The whole program and a real RabbitMQ: writers, and what arrived in the queue "q". */
#pragma once

#include "support/history.h"
#include "support/postgres.h"
#include "support/rabbitmq_server.h"
#include "support/relay_process.h"
#include "support/writers.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct stage {
        const struct rabbitmq_server *server; /* where the queue is read */
        const char *vhost;
        struct test_database database;
        struct writers *writers;
        struct history history;
        size_t n_awaited;
};

/* Four writers until stage_end(), slow enough for a queue that stores one event of each at a time:
 * what they publish during an outage has to be delivered, too. */
static inline void stage_begin(
    struct stage *stage, const struct rabbitmq_server *server, const char *vhost, unsigned pause_us)
{
        *stage = (struct stage){.server = server, .vhost = vhost, .database = test_database_make()};
        stage->writers = writers_start(stage->database.app,
            &(struct writer_options){.n_writers = 4, .pause_us = pause_us, .seed = 41});
}

static inline void stage_read(struct stage *stage)
{
        char *text = rabbitmq_drain(stage->server, stage->vhost, "q", RABBITMQ_ALL);

        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
                json_t *message = json_loads(line, 0, NULL);
                history_note(&stage->history, json_string_value(json_object_get(message, "body")));
                json_decref(message);
        }
        free(text);
}

static inline bool has_awaited(void *context)
{
        struct stage *stage = context;

        stage_read(stage);
        return stage->history.n_arrivals >= stage->n_awaited;
}

static inline void stage_await_more(struct stage *stage, size_t n)
{
        stage_read(stage);
        stage->n_awaited = stage->history.n_arrivals + n;
        wait_until(has_awaited, stage, 90000, "events arrive in RabbitMQ");
}

static inline bool misses_nothing(const struct stage *stage)
{
        return history_judge(&stage->history, stage->writers).n_lost == 0;
}

static inline bool has_more_or_all(void *context)
{
        struct stage *stage = context;

        stage_read(stage);
        return stage->history.n_arrivals > stage->n_awaited || misses_nothing(stage);
}

/* A busy machine stores some hundred events a second, and writers may be thousands ahead: as long as
 * more arrive, it is only slow. */
static inline void stage_await_all(struct stage *stage)
{
        do {
                stage->n_awaited = stage->history.n_arrivals;
                wait_until(has_more_or_all, stage, 90000, "more of what was committed arrives");
        } while (!misses_nothing(stage));
}

/* Waits until all that was committed has arrived, and stops the relay. Nothing may be lost, out of
 * order, uncommitted or dead; how many came twice? */
static inline size_t stage_end(struct stage *stage, struct relay_process *relay)
{
        struct filter_result verdict;
        char *n_dead;

        writers_stop(stage->writers);
        stage_await_all(stage);
        relay_stop(relay);
        stage_read(stage);
        verdict = history_judge(&stage->history, stage->writers);
        if (verdict.n_lost + verdict.n_misordered + verdict.n_uncommitted > 0)
                test_abort("%zu lost, %zu out of order, %zu never committed; the first: %s",
                    verdict.n_lost, verdict.n_misordered, verdict.n_uncommitted,
                    verdict.first_fault);
        n_dead = database_value(stage->database.admin, "SELECT count(*) FROM courier.dead_letter");
        if (strcmp(n_dead, "0") != 0)
                test_abort("%s dead letters", n_dead);
        free(n_dead);
        relay_destroy(relay);
        writers_destroy(stage->writers);
        history_deinit(&stage->history);
        test_database_drop(&stage->database);
        return verdict.n_repeated;
}

/*
 * The whole program with two sinks: "bus", which writes to a broker, and "other", which writes to
 * Redis. Writers of many keys publish without a pause for whatever befalls the broker.
 *
 * What a run by hand may want more of is read from the environment: PGCOURIER_TEST_KILLS and
 * PGCOURIER_TEST_BACKLOG.
 */
#pragma once

#include "support/relay_fixture.h"

/* A broker, and how to reach it; `server` is handed to each of the functions. */
struct broker {
        const char *relay_keys;   /* more of the block relay, as in ", modules: x" */
        char *sink;               /* the block of the sink but for its end: "nats: {servers: [x]" */
        const char *patient_keys; /* more keys: no wait for an answer ends within a minute */
        void *server;
        void (*kill)(void *server);    /* SIGKILL */
        void (*restart)(void *server); /* returns when it answers */
        void (*pause)(void *server);   /* SIGSTOP */
        void (*resume)(void *server);
        void (*read)(void *server, struct history *history); /* notes what is new, or all again */
        bool knows_repeats; /* what comes again does not get to those who read */
};

/* A relay with events in flight at a broker that stands still goes on with its other sink, and ends
 * at SIGTERM by its drain limit. The next relay delivers what is missing, when the broker goes on. */
void broker_expect_stop_while_it_stands_still(const struct broker *broker);

/* The broker is killed again and again while events are under way, and is away until so many more
 * were published: all arrive, in the order of their keys, none is charged with an attempt, and no
 * more come twice than were in flight. */
void broker_expect_outages_lose_nothing(
    const struct broker *broker, unsigned n_kills, unsigned backlog);

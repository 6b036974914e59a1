/*
 * What became of the events of the torture rig at its three sinks. Each event carries its number
 * twice, in the payload ("e17") and in a header (h17): one of them alone means that half an event
 * was delivered. What its number makes of an event is said here too.
 */
#pragma once

#include "support/postgres.h"

#include <stdbool.h>

struct http_receiver;
struct redis_server;

struct torture_arrivals;

/* The webhook receiver answers from now on as the fates below say. */
struct torture_arrivals *torture_arrivals_create(
    struct redis_server *redis, struct http_receiver *http, const char *output_path, PGconn *admin);
void torture_arrivals_destroy(struct torture_arrivals *arrivals);

/* The fate of an event is its number modulo TORTURE_N_FATES. */
enum {
        TORTURE_N_FATES = 12,
        FATE_RETRIED = 1,   /* the webhook fails once */
        FATE_BROKEN = 3,    /* Redis refuses it for good */
        FATE_TOO_LARGE = 5, /* for the webhook */
        FATE_UNWANTED = 6,  /* the webhook refuses it until it is given up, and takes it redriven */
        FATE_DELAYED = 10,  /* comes a moment later; without a key */
        FATE_LATER = 11,    /* comes in an hour, unless it is skipped; without a key */
        TORTURE_N_KEYS = 3, /* of all others the key is the number modulo this */
        TORTURE_N_TRIES = 3, /* of the webhook */
};

/* Takes note of what is new. Returns how many of the events 0 to n_events - 1 are still missing at
 * any of the sinks, and are no dead letters either; `out_example` is one of them. */
unsigned torture_arrivals_read(
    struct torture_arrivals *arrivals, unsigned n_events, unsigned *out_example);

/* Drops the dead letters, as if they had arrived. */
void torture_arrivals_bury(struct torture_arrivals *arrivals);

/* Writes what must not be and was seen since the last time, as a sentence. False if all is well. */
bool torture_arrivals_take_fault(struct torture_arrivals *arrivals, char *sentence, size_t size);

/* What never came about: a reason of dead letters, or "redriven"; NULL if all did. */
const char *torture_arrivals_untried(const struct torture_arrivals *arrivals);

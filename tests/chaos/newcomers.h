/*
 * Receivers that come and go while others publish: each is inserted in a transaction that publishes
 * for it before and after the INSERT, mostly with a transaction id that it got before, and with
 * neighbours that commit meanwhile; or while no relay runs, with very many transactions until one
 * does. Each has a topic of its own, "fresh.gN", and is removed when it has got what it must.
 *
 * What a receiver must get is what its own transaction publishes, before and after its INSERT, and
 * what is published later. What was committed before must not come.
 */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/checker.h"

struct newcomers;

/* `dsn` is the superuser's; both are borrowed. `port` is where receivers listen. */
struct newcomers *newcomers_start(
    const char *dsn, uint16_t port, struct arrivals *arrivals, uint64_t seed);

/* No relay runs, and none will for a while; or no longer so. */
void newcomers_note_nobody(struct newcomers *newcomers, bool is_nobody);

/* From here on: */
void newcomers_stop(struct newcomers *newcomers);
unsigned newcomers_count(const struct newcomers *newcomers);
unsigned newcomers_n_late(const struct newcomers *newcomers); /* inserted while no relay ran */

enum { EVENTS_OF_NEWCOMER = 6 };

/* EVENTS_OF_NEWCOMER for each, their number in the payload from 0 on. */
void newcomers_events(const struct newcomers *newcomers, struct chaos_event *out);

void newcomers_destroy(struct newcomers *newcomers);

/* A database with dead letters and parked deliveries, and the commands that work on them. */
#pragma once

#include "support/postgres.h"
#include "support/program.h"
#include "support/program_expect.h"

#include <jansson.h>

/* A database; the dsn is that of role relay, as which everything here runs. */
struct failures_rig {
        char *dsn;
        PGconn *owner; /* a superuser's */
};

void failures_rig_start(struct failures_rig *rig);
void failures_rig_stop(struct failures_rig *rig);

/* A row with sensible values: sink mail, topic t, key NULL, payload {} … `set`, if not NULL, are
 * the assignments of an UPDATE: "sink = 'web', key = '17'". IDs count from 1. */
void insert_dead_letter(struct failures_rig *rig, const char *set);
void insert_parked(struct failures_rig *rig, const char *set);

/* A receiver of that sink, whose lane is `id`. */
void insert_receiver(struct failures_rig *rig, int id, const char *sink, const char *name);

/* Waits until so many sessions of role relay wait for a lock. */
void wait_until_locked_out(struct failures_rig *rig, int n);

/* What a session that listens on courier_control was told since it was last asked. */
PGconn *listen_to_control(struct failures_rig *rig);
int count_notifications(PGconn *listener);

/* Standard output as JSON objects, one a line. Fails unless the program ended with 0. Frees the
 * run. */
json_t *read_json_lines(struct program_run run);

/* The integers of one member of all objects: "1 3". Drops the reference to `lines`. */
char *join_integers(json_t *lines, const char *member);

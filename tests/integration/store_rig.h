/*
 * One lane's store in the test's process, as the role "relay": the real session and statements,
 * with the test asking one thing at a time and waiting for the answer.
 */
#pragma once

#include "outbox/outbox.h"
#include "outbox/routing.h"
#include "support/postgres.h"

#include <stdbool.h>
#include <stdint.h>

struct store_rig {
        uv_loop_t loop;
        char *dsn;
        struct postgres_config config;
        struct outbox *outbox;
        struct agreement agreement;
        struct lane_store *store;

        struct cursor cursor; /* as it was claimed */
        char keys[1024];      /* what was parked then: "n_rows: key=n key=n(waiting)", sorted */
        struct page *page;
        struct parked_batch *batch;
        bool is_up, is_owned, is_answered, is_down;
        struct error lost; /* why the session is down */
        uint64_t n_missing;
};

/* Owns lane 0 of sink "test", which begins at the beginning. */
struct store_rig *store_rig_open(const char *superuser_dsn);
void store_rig_close(struct store_rig *rig); /* waits until the server has ended the session */

/* The answers are the rig's until the next question. */
const struct parked_batch *store_rig_read_parked(
    struct store_rig *rig, const struct parked_request *request);
const struct page *store_rig_read_page(struct store_rig *rig); /* all topics */
const struct page *store_rig_read_page_for(
    struct store_rig *rig, const struct routing *const *routings, size_t n_routings);

/* Everything that is due, without keys or claims. */
const struct parked_batch *store_rig_read_due(struct store_rig *rig);

/* The ids of a batch, separated by blanks. */
const char *store_rig_ids(const struct parked_batch *batch);

struct verdicts {
        struct verdict items[16];
        struct event events[16];
        size_t n;
};

/* Adds a verdict on that id; the rest of it is the test's to set. */
struct verdict *verdicts_add(
    struct verdicts *verdicts, enum verdict_kind kind, int64_t id, bool is_parked);

/* Settles the cursor as it was claimed with the verdicts, in their order, at `now_ms` 1000. */
void store_rig_start_settle(struct store_rig *rig, struct verdicts *verdicts);

/* The same, and waits for the answer: false if the session was broken instead. */
bool store_rig_settle(struct store_rig *rig, struct verdicts *verdicts);

#include "store_rig.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 30000

static void on_up(void *owner)
{
        struct store_rig *rig = owner;

        rig->is_up = true;
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct store_rig *rig = owner;

        (void)retry_ms;
        rig->is_down = true;
        rig->lost = *error;
}

static void on_refused(void *owner, const struct error *error)
{
        (void)owner;
        test_abort("the store is refused: %s", error->text);
}

static int compare_keys(const void *left, const void *right)
{
        return strcmp(
            ((const struct parked_key *)left)->key, ((const struct parked_key *)right)->key);
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct store_rig *rig = owner;
        int length = snprintf(rig->keys, sizeof rig->keys, "%" PRIu64 ":", parked->n_rows);

        qsort(parked->keys, parked->n_keys, sizeof *parked->keys, compare_keys);
        for (size_t i = 0; i < parked->n_keys; i++)
                length += snprintf(rig->keys + length, sizeof rig->keys - (size_t)length,
                    " %s=%" PRIu64 "%s", parked->keys[i].key, parked->keys[i].n_rows,
                    parked->keys[i].is_waiting ? "(waiting)" : "");
        cursor_assign(&rig->cursor, cursor);
        rig->is_owned = true;
}

static void on_owned_elsewhere(void *owner)
{
        (void)owner;
        test_abort("the lane is owned elsewhere");
}

static void on_page(void *owner, struct page *page)
{
        struct store_rig *rig = owner;

        rig->page = page;
        rig->is_answered = true;
}

static void on_parked(void *owner, struct parked_batch *batch)
{
        struct store_rig *rig = owner;

        rig->batch = batch;
        rig->is_answered = true;
}

static void on_missing(void *owner, uint64_t n_verdicts)
{
        struct store_rig *rig = owner;

        rig->n_missing += n_verdicts;
}

static void on_settled(void *owner, enum cursor_room room)
{
        struct store_rig *rig = owner;

        (void)room;
        rig->is_answered = true;
}

/* Every question has an answer, or the end of the session, within the query timeout. */
static void await(struct store_rig *rig, const bool *done)
{
        while (!*done && !rig->is_down)
                uv_run(&rig->loop, UV_RUN_ONCE);
}

static void on_agreed(void *owner)
{
        const struct store_rig *rig = owner;

        lane_store_claim(rig->store);
}

struct store_rig *store_rig_open(const char *superuser_dsn)
{
        static const struct outbox_events outbox_events = {
            .on_up = on_up, .on_down = on_down, .on_refused = on_refused};
        static const struct lane_store_events store_events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_page = on_page,
            .on_parked = on_parked,
            .on_missing = on_missing,
            .on_settled = on_settled};
        const struct lane_store_settings settings = {.sink = "test", .n_shards = 1};
        struct store_rig *rig = xcalloc(1, sizeof *rig);

        rig->dsn = dsn_as_user(superuser_dsn, "relay");
        rig->config = (struct postgres_config){
            .dsn = rig->dsn, .connect_timeout_ms = 30000, .query_timeout_ms = 30000};
        uv_loop_init(&rig->loop);
        rig->outbox = outbox_create(&rig->loop, &rig->config, &outbox_events, rig);
        rig->store = lane_store_create(rig->outbox, &settings, &store_events, rig);
        outbox_open(rig->outbox);
        await(rig, &rig->is_up);
        rig->agreement = (struct agreement){.outbox = rig->outbox,
            .sink = "test",
            .n_shards = 1,
            .start = START_BEGINNING,
            .on_agreed = on_agreed,
            .owner = rig};
        agreement_ask(&rig->agreement);
        await(rig, &rig->is_owned);
        return rig;
}

static void release_answers(struct store_rig *rig)
{
        if (rig->page != NULL)
                rig->page->release(rig->page);
        if (rig->batch != NULL)
                rig->batch->release(rig->batch);
        rig->page = NULL;
        rig->batch = NULL;
        rig->is_answered = false;
}

void store_rig_close(struct store_rig *rig)
{
        char *superuser_dsn = dsn_as_user(rig->dsn, "postgres");
        PGconn *admin = database_connect(superuser_dsn);

        release_answers(rig);
        cursor_deinit(&rig->cursor);
        outbox_close(rig->outbox);
        lane_store_destroy(rig->store);
        outbox_destroy(rig->outbox);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        uv_loop_close(&rig->loop);
        database_await_no_relay(admin);
        PQfinish(admin);
        free(superuser_dsn);
        free(rig->dsn);
        free(rig);
}

const struct parked_batch *store_rig_read_parked(
    struct store_rig *rig, const struct parked_request *request)
{
        release_answers(rig);
        lane_store_read_parked(rig->store, request);
        await(rig, &rig->is_answered);
        return rig->batch;
}

const struct parked_batch *store_rig_read_due(struct store_rig *rig)
{
        return store_rig_read_parked(
            rig, &(struct parked_request){.max_rows = 100, .max_bytes = 1 << 20});
}

const struct page *store_rig_read_page(struct store_rig *rig)
{
        static char all_topics[] = "**";
        const struct routing all = {.topics = (char *const[]){all_topics}, .n_topics = 1};

        return store_rig_read_page_for(rig, (const struct routing *const[]){&all}, 1);
}

const struct page *store_rig_read_page_for(
    struct store_rig *rig, const struct routing *const *routings, size_t n_routings)
{
        release_answers(rig);
        lane_store_route(rig->store, routings, n_routings);
        lane_store_read(
            rig->store, &(struct page_request){
                            .start = rig->cursor, .max_events = 100, .max_event_bytes = 1 << 20});
        await(rig, &rig->is_answered);
        return rig->page;
}

const char *store_rig_ids(const struct parked_batch *batch)
{
        static char text[4096];
        size_t length = 0;

        text[0] = '\0';
        for (size_t i = 0; i < batch->n_rows; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%" PRId64,
                    i > 0 ? " " : "", batch->rows[i].event.id);
        return text;
}

struct verdict *verdicts_add(
    struct verdicts *verdicts, enum verdict_kind kind, int64_t id, bool is_parked)
{
        size_t n = verdicts->n++;

        if (n == sizeof verdicts->items / sizeof *verdicts->items)
                test_abort("too many verdicts for one test");
        verdicts->events[n].id = id;
        verdicts->items[n] = (struct verdict){
            .event = &verdicts->events[n], .kind = kind, .is_parked = is_parked, .due_ms = 1000};
        return &verdicts->items[n];
}

void store_rig_start_settle(struct store_rig *rig, struct verdicts *verdicts)
{
        struct list all;
        const struct settlement settlement = {
            .cursor = rig->cursor, .verdicts = &all, .now_ms = 1000};

        release_answers(rig);
        list_init(&all);
        for (size_t i = 0; i < verdicts->n; i++)
                list_push_back(&all, &verdicts->items[i].link);
        lane_store_settle(rig->store, &settlement);
        outbox_flush(rig->outbox);
}

bool store_rig_settle(struct store_rig *rig, struct verdicts *verdicts)
{
        store_rig_start_settle(rig, verdicts);
        await(rig, &rig->is_answered);
        return !rig->is_down;
}

#include "support/reader.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "support/process.h"

#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 120000

static char all_topics_pattern[] = "**";
static char *const all_topics[] = {all_topics_pattern};

static void record(struct reader *reader, const struct event *event)
{
        size_t n = reader->n_deliveries++;

        if ((n & (n - 1)) == 0) {
                size_t capacity = n > 0 ? 2 * n : 1;
                reader->payloads = xrealloc(reader->payloads, capacity * sizeof(char *));
                reader->ids = xrealloc(reader->ids, capacity * sizeof(int64_t));
        }
        reader->payloads[n] = xstrndup(event->payload, event->payload_bytes);
        reader->ids[n] = event->id;
}

static void pump(uv_prepare_t *handle)
{
        struct reader *reader = handle->data;
        struct lane *lane = &reader->lane;
        int64_t now_ms = clock_monotonic_us() / 1000;
        struct page_request request;
        struct delivery *delivery;
        struct settlement settlement;

        while ((delivery = lane_start_next(lane, now_ms)) != NULL) {
                record(reader, delivery->event);
                lane_finish(lane, delivery, &outcome_delivered, now_ms, 0);
        }
        if (lane_wants_page(lane, &request))
                lane_store_read(reader->store, &request);
        if (lane_wants_settle(lane, now_ms, &settlement))
                lane_store_settle(reader->store, &settlement);
        outbox_flush(reader->outbox);
}

static void on_up(void *owner)
{
        struct reader *reader = owner;

        agreement_ask(&reader->agreement);
}

static void on_agreed(void *owner)
{
        const struct reader *reader = owner;

        lane_store_claim(reader->store);
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        struct reader *reader = owner;

        (void)error;
        (void)retry_ms;
        reader->is_down = true;
        lane_lose(&reader->lane);
}

static void on_refused(void *owner, const struct error *error)
{
        struct reader *reader = owner;

        reader->refused = *error;
}

static void on_owned(void *owner, const struct cursor *cursor, const struct parked_keys *parked)
{
        struct reader *reader = owner;

        reader->is_owned = true;
        lane_own(&reader->lane, cursor, parked);
}

static void on_owned_elsewhere(void *owner)
{
        struct reader *reader = owner;

        reader->is_elsewhere = true;
}

static void on_page(void *owner, struct page *page)
{
        struct reader *reader = owner;

        reader->n_pages++;
        if (page->n_events > reader->largest_page)
                reader->largest_page = page->n_events;
        lane_take_page(&reader->lane, page, clock_monotonic_us() / 1000);
}

static void on_settled(void *owner, enum cursor_room room)
{
        struct reader *reader = owner;

        lane_settled(&reader->lane, room, clock_monotonic_us() / 1000);
}

static void on_poll(uv_timer_t *timer)
{
        struct reader *reader = timer->data;

        lane_ring(&reader->lane);
}

static void run_until(struct reader *reader, bool (*is_done)(void *context), void *context)
{
        int64_t deadline = clock_monotonic_us() + DEADLINE_MS * 1000;

        uv_timer_start(&reader->poll, on_poll, 1, 1);
        while (!is_done(context)) {
                uv_run(&reader->loop, UV_RUN_ONCE);
                if (clock_monotonic_us() > deadline)
                        test_abort("the reader made no end within %d ms", DEADLINE_MS);
        }
        uv_timer_stop(&reader->poll);
}

static bool is_settled_in(void *context)
{
        struct reader *reader = context;

        return reader->is_owned || reader->is_elsewhere || reader->refused.kind != ERROR_NONE;
}

struct reader *reader_open(const char *dsn, const struct reader_options *options)
{
        static const struct outbox_events outbox_events = {
            .on_up = on_up, .on_down = on_down, .on_refused = on_refused};
        static const struct lane_store_events store_events = {.on_owned = on_owned,
            .on_owned_elsewhere = on_owned_elsewhere,
            .on_page = on_page,
            .on_settled = on_settled};
        struct reader *reader = xcalloc(1, sizeof *reader);
        const struct routing *routing = &reader->routing;
        const struct lane_store_settings settings = {
            .sink = options->sink != NULL ? options->sink : "test", .n_shards = 1};
        const struct lane_policy policy = {
            .max_in_flight = options->max_in_flight > 0 ? options->max_in_flight : 1000,
            .max_in_flight_bytes =
                options->max_in_flight_bytes > 0 ? options->max_in_flight_bytes : 16 << 20,
            .max_parked = 1,
            .park_after_ms = 1000,
            .retry = {.backoff = {.first_ms = 1, .factor = 1, .max_ms = 1}}};

        reader->config = (struct postgres_config){
            .dsn = xstrdup(dsn), .connect_timeout_ms = 30000, .query_timeout_ms = 60000};
        reader->routing = options->routing;
        if (reader->routing.n_topics == 0) {
                reader->routing.topics = all_topics;
                reader->routing.n_topics = 1;
        }
        uv_loop_init(&reader->loop);
        uv_prepare_init(&reader->loop, &reader->before_waiting);
        reader->before_waiting.data = reader;
        uv_prepare_start(&reader->before_waiting, pump);
        uv_timer_init(&reader->loop, &reader->poll);
        reader->poll.data = reader;
        lane_init(&reader->lane, &policy);
        reader->outbox = outbox_create(&reader->loop, &reader->config, &outbox_events, reader);
        reader->store = lane_store_create(reader->outbox, &settings, &store_events, reader);
        lane_store_route(reader->store, &routing, 1);
        reader->agreement = (struct agreement){.outbox = reader->outbox,
            .sink = settings.sink,
            .filter = options->routing.filter,
            .n_shards = 1,
            .start = options->start,
            .on_agreed = on_agreed,
            .owner = reader};
        outbox_open(reader->outbox);
        run_until(reader, is_settled_in, reader);
        return reader;
}

static bool is_caught_up(void *context)
{
        const struct reader *reader = context;
        const struct lane *lane = &reader->lane;

        /* Not lane_is_caught_up(): the poll keeps ringing. */
        return lane->state == LANE_OWNED && lane_is_at_rest(lane) && !lane_is_asking(lane) &&
               !stream_reader_may_ask(&lane->stream) && list_is_empty(&lane->window.batches);
}

void reader_catch_up(struct reader *reader)
{
        lane_ring(&reader->lane);
        run_until(reader, is_caught_up, reader);
}

void reader_follow(struct reader *reader, bool (*is_done)(void *context), void *context)
{
        run_until(reader, is_done, context);
}

static void ignore_close(uv_handle_t *handle)
{
        (void)handle;
}

void reader_close(struct reader *reader)
{
        lane_deinit(&reader->lane);
        outbox_close(reader->outbox);
        lane_store_destroy(reader->store);
        outbox_destroy(reader->outbox);
        uv_close((uv_handle_t *)&reader->before_waiting, ignore_close);
        uv_close((uv_handle_t *)&reader->poll, ignore_close);
        uv_run(&reader->loop, UV_RUN_DEFAULT);
        uv_loop_close(&reader->loop);
        for (size_t i = 0; i < reader->n_deliveries; i++)
                free(reader->payloads[i]);
        free(reader->payloads);
        free(reader->ids);
        free(reader->config.dsn);
        free(reader);
}

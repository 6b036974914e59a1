#include "support/lane_rig.h"

#include <criterion/criterion.h>
#include <string.h>

const struct lane_policy lane_rig_policy = {.by_key = true,
    .max_in_flight = 20,
    .max_in_flight_bytes = 1 << 20,
    .retry = {.first_ms = 100, .factor = 2, .max_ms = 10000}};

void lane_rig_open(struct lane_rig *rig, const struct lane_policy *policy)
{
        *rig = (struct lane_rig){.now_ms = 1000000, .xid = 700};
        pages_init(&rig->pages);
        lane_init(&rig->lane, policy);
        lane_rig_own(rig, 0);
}

void lane_rig_close(struct lane_rig *rig)
{
        lane_deinit(&rig->lane);
        pages_deinit(&rig->pages);
}

void lane_rig_own(struct lane_rig *rig, int64_t floor)
{
        struct cursor cursor = {.from = frame_create("1:1:", floor, 1)};

        lane_own(&rig->lane, &cursor);
        cursor_deinit(&cursor);
        rig->last_id = floor;
}

void lane_rig_take_page(struct lane_rig *rig, const char *keys, size_t payload_bytes)
{
        struct page_request request;
        struct cursor start;
        struct page *page;
        int64_t id = rig->last_id;
        char key[16];
        int length;

        cr_assert(lane_wants_page(&rig->lane, &request));
        cr_assert_null(request.start.until, "the difference before has ended");
        for (const char *at = keys; sscanf(at, "%15s%n", key, &length) == 1; at += length)
                rig->last_id++;
        cr_assert_leq(rig->last_id - id, request.max_events);

        start = (struct cursor){.from = request.start.from,
            .until = frame_create("2:2:", rig->last_id, 0),
            .last_id = request.start.last_id};
        page = pages_make(&rig->pages, &start);
        frame_unref(start.until);
        for (const char *at = keys; sscanf(at, "%15s%n", key, &length) == 1; at += length)
                page_add_event(page, ++id, strcmp(key, "-") == 0 ? NULL : key, payload_bytes);
        lane_take_page(&rig->lane, page, rig->now_ms);
}

void lane_rig_draw_xid(struct lane_rig *rig)
{
        cr_assert(lane_wants_xid(&rig->lane));
        lane_take_xid(&rig->lane, ++rig->xid);
}

void lane_rig_read(struct lane_rig *rig, const char *keys)
{
        lane_ring(&rig->lane);
        lane_rig_take_page(rig, keys, 10);
        lane_rig_draw_xid(rig);
}

int64_t lane_rig_start(struct lane_rig *rig)
{
        const struct delivery *delivery = lane_start_next(&rig->lane, rig->now_ms);

        return delivery != NULL ? delivery->attempt.event->id : 0;
}

struct delivery *lane_rig_delivery(struct lane_rig *rig, int64_t id)
{
        list_for_each (link, &rig->lane.window.pages) {
                struct window_page *slot = list_owner(link, struct window_page, link);
                for (size_t i = 0; i < slot->page->n_events; i++)
                        if (slot->deliveries[i].event->id == id)
                                return &slot->deliveries[i];
        }
        cr_assert_fail("event %lld is not in the window", (long long)id);
        return NULL;
}

int64_t lane_rig_finish_delayed(
    struct lane_rig *rig, int64_t id, enum outcome_kind kind, int64_t delay_ms)
{
        const struct outcome outcome = {.kind = kind, .delay_ms = delay_ms};

        return lane_finish(
            &rig->lane, lane_rig_delivery(rig, id), &outcome, rig->now_ms, UINT32_MAX);
}

int64_t lane_rig_finish(struct lane_rig *rig, int64_t id, enum outcome_kind kind)
{
        return lane_rig_finish_delayed(rig, id, kind, OUTCOME_NO_DELAY);
}

int64_t lane_rig_wants_settle(struct lane_rig *rig)
{
        struct cursor cursor;

        if (!lane_wants_settle(&rig->lane, rig->now_ms, &cursor))
                return -1;
        return cursor.until != NULL ? cursor.last_id : cursor.from->floor;
}

bool lane_rig_wants_page(struct lane_rig *rig)
{
        struct page_request request;

        return lane_wants_page(&rig->lane, &request);
}

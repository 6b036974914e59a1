/* How much of its window a lane may fill, with pages of the stream and with parked rows. */
#include "lane/lane_internal.h"

#define SMALL_PAGE 64

/* Events claimed and not known to be durably behind us: what a crash now would repeat at most. */
static uint64_t n_unsettled(const struct lane *lane)
{
        return lane->window.n_taken - lane->settler.n_settled +
               (lane->stream.seen != NULL ? lane->stream.seen->n_events : 0);
}

/* Of the payloads that came with the stream. */
static uint64_t n_bytes(const struct lane *lane)
{
        return lane->window.bytes + (lane->stream.seen != NULL ? lane->stream.seen->bytes : 0);
}

/* The part of the window that is kept for rows that were parked. */
static uint32_t parked_share(const struct lane *lane)
{
        return lane->policy.max_in_flight >= 8 ? lane->policy.max_in_flight / 4 : 1;
}

static bool is_any_parked(const struct lane *lane)
{
        const struct parked_reader *parked = &lane->parked;

        return parked->n_rows > 0 || parked->n_claimed > 0 || parked->due_ms >= 0;
}

static uint32_t stream_share(const struct lane *lane)
{
        return lane->policy.max_in_flight - (is_any_parked(lane) ? parked_share(lane) : 0);
}

/* Four pages fit the window: one is read, one is delivered, and what was delivered before them is
 * being settled, so that none of these waits for another. A small window is rather divided into two
 * pages than into pages of a few events. */
uint32_t lane_page_events(const struct lane *lane)
{
        uint64_t page_bytes = lane->policy.max_in_flight_bytes / 2;
        uint64_t by_bytes = page_bytes / (4 * (lane->stream.mean_event_bytes + 1));
        uint32_t half = (stream_share(lane) + 1) / 2;
        uint32_t by_count = half / 2;

        if (by_count < SMALL_PAGE)
                by_count = half < SMALL_PAGE ? half : SMALL_PAGE;
        if (by_bytes < 1)
                return 1;
        return by_bytes < by_count ? (uint32_t)by_bytes : by_count;
}

bool lane_has_room(const struct lane *lane, uint32_t n_events)
{
        uint64_t n_all = n_unsettled(lane) + lane->parked.n_claimed;

        return n_unsettled(lane) + n_events <= stream_share(lane) &&
               n_all + n_events <= lane->policy.max_in_flight &&
               n_bytes(lane) <= lane->policy.max_in_flight_bytes / 2;
}

uint32_t lane_parked_room(const struct lane *lane)
{
        uint32_t share = parked_share(lane);
        uint64_t n_all = n_unsettled(lane) + lane->stream.n_reading + lane->parked.n_claimed;
        uint64_t free_window =
            n_all < lane->policy.max_in_flight ? lane->policy.max_in_flight - n_all : 0;

        /* One answer may bring as much again. */
        if (lane->parked.n_claimed >= share ||
            lane->parked.bytes > lane->policy.max_in_flight_bytes / 4)
                return 0;
        share -= lane->parked.n_claimed;
        return share < free_window ? share : (uint32_t)free_window;
}

static bool is_half_delivered(const struct lane *lane)
{
        return lane->window.n_passed - lane->settler.n_settled >= (stream_share(lane) + 1) / 2;
}

bool lane_is_pressing(const struct lane *lane)
{
        return lane->is_draining || lane->settler.is_awaited || is_half_delivered(lane) ||
               !lane_has_room(lane, lane_page_events(lane));
}

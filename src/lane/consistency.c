#include "lane/consistency.h"

#ifdef PGCOURIER_CHECKS

#include <assert.h>
#include <string.h>

enum { MAX_WALKED = 256 }; /* deliveries, and likewise keys */

static bool is_parking(const struct verdict *verdict)
{
        return verdict != NULL && verdict->kind == VERDICT_PARK;
}

static bool is_claimed(const struct delivery *delivery)
{
        return !list_is_empty(&delivery->claimed_link);
}

static void check_verdicts(const struct delivery *delivery)
{
        const struct verdict *verdict = delivery->verdict;
        const struct verdict *next = delivery->next_verdict;

        assert(!delivery_is_waiting(delivery) || verdict == NULL);
        assert(delivery->state != DELIVERY_IN_FLIGHT || verdict == NULL ||
               (is_parking(verdict) && delivery->row == ROW_NONE));
        assert(next == NULL || (is_parking(verdict) && verdict->is_sent && !next->is_sent));
        if (verdict == NULL)
                return;
        assert(verdict->delivery == delivery && verdict->event == delivery->event);
        assert(list_is_empty(&verdict->link) == !delivery_is_behind_cursor(delivery));
        assert(!verdict->is_sent || delivery_is_behind_cursor(delivery));
}

void delivery_assert_consistent(const struct delivery *delivery)
{
        bool is_gone = delivery->state == DELIVERY_DECIDED && delivery->verdict == NULL;

        assert(delivery->state == DELIVERY_READY || list_is_empty(&delivery->link));
        assert(delivery->state != DELIVERY_IN_FLIGHT || delivery->n_attempts > 0);
        check_verdicts(delivery);

        assert(delivery->row == ROW_NONE || delivery_is_behind_cursor(delivery));
        assert(delivery->row == ROW_NONE || is_claimed(delivery) == !is_gone);
        assert(!is_claimed(delivery) || delivery->row != ROW_NONE || delivery->verdict != NULL);

        assert((delivery->chain == NULL) == list_is_empty(&delivery->chain_link));
        assert(delivery->chain != NULL || delivery->state != DELIVERY_BLOCKED);
        assert(delivery->chain != NULL || (!delivery->has_failed && !delivery->is_overtaken));
        assert(delivery->chain == NULL || strcmp(delivery->chain->key, delivery->event->key) == 0);
}

/* What there is, to be compared with what the lane has counted. */
struct counts {
        uint32_t n_in_flight;
        uint32_t n_claimed;
        uint64_t n_ahead;   /* of the cursor */
        uint64_t n_decided; /* of these */
        size_t bytes;
};

static void check_batch(const struct lane *lane, const struct batch *batch, struct counts *counts)
{
        size_t n_held = 0;

        for (size_t i = 0; i < batch->n_deliveries; i++) {
                const struct delivery *delivery = &batch->deliveries[i];
                bool is_behind = i < batch->n_done;
                if (delivery->batch == NULL)
                        continue; /* its row stayed where it is */
                assert(delivery->batch == batch);
                delivery_assert_consistent(delivery);
                assert(delivery->state != DELIVERY_READY || lane->is_draining ||
                       !list_is_empty(&delivery->link));
                counts->n_in_flight += delivery->state == DELIVERY_IN_FLIGHT;
                counts->n_claimed += is_claimed(delivery);
                counts->n_ahead += !is_behind;
                counts->n_decided += !is_behind && delivery_is_decided(delivery);
                n_held += is_behind && (is_claimed(delivery) || delivery->verdict != NULL);
        }
        assert(batch->n_held == n_held);
        counts->bytes += batch->bytes;
}

static void check_deliveries(const struct lane *lane)
{
        const struct window *window = &lane->window;
        const struct delivery *head = window_head(window);
        struct counts counts = {0};

        assert((head == NULL) == list_is_empty(&window->batches));
        assert(head == NULL || !delivery_is_decided(head));
        list_for_each (link, &window->batches)
                check_batch(lane, list_owner(link, struct batch, link), &counts);
        list_for_each (link, &window->held) {
                const struct batch *batch = list_owner(link, struct batch, link);
                assert(batch->n_done == batch->n_deliveries && batch->n_held > 0);
                check_batch(lane, batch, &counts);
        }
        assert(counts.bytes == window->bytes);
        assert(counts.n_ahead == window->n_taken - window->n_passed);
        assert(counts.n_decided == window->n_decided - window->n_passed);

        counts.bytes = 0;
        list_for_each (link, &lane->parked.batches)
                check_batch(lane, list_owner(link, struct batch, link), &counts);
        assert(counts.bytes == lane->parked.bytes);
        assert(counts.n_claimed == lane->parked.n_claimed);
        assert(counts.n_in_flight == lane->n_in_flight);
}

static void check_chain(const struct key_order *order, const struct key_chain *chain)
{
        size_t n_failed = 0, n_blocked = 0, n_parking = 0, n_in_flight = 0;

        list_for_each (link, &chain->deliveries) {
                const struct delivery *delivery = list_owner(link, struct delivery, chain_link);
                assert(delivery->chain == chain);
                assert(delivery->state != DELIVERY_BLOCKED || !key_order_is_first(delivery));
                n_failed += delivery->has_failed;
                n_blocked += delivery->state == DELIVERY_BLOCKED;
                n_parking += is_parking(delivery->verdict);
                n_in_flight += delivery->state == DELIVERY_IN_FLIGHT;
        }
        assert(chain->n_failed == n_failed && chain->n_blocked == n_blocked);
        assert(chain->n_parking == n_parking);
        assert(n_in_flight < 2 || order->sink_keeps_order);
        assert(chain->is_fetching || chain->n_stored > 0 || !list_is_empty(&chain->deliveries));
}

static void check_keys(const struct key_order *order)
{
        size_t n_chains = 0;

        for (size_t i = 0; i < order->n_buckets; i++) {
                for (const struct key_chain *chain = order->buckets[i]; chain != NULL;
                     chain = chain->next_in_bucket, n_chains++)
                        check_chain(order, chain);
        }
        assert(n_chains == order->n_chains);
}

static void check_settler(const struct lane *lane)
{
        const struct settler *settler = &lane->settler;

        assert(list_is_empty(&settler->verdicts) || settler->due_ms >= 0);
        assert(!settler->is_awaited || settler->due_ms >= 0);
        assert(list_is_empty(&settler->sent) || settler->is_writing);
        assert(
            settler->n_settled <= settler->n_passed && settler->n_passed <= lane->window.n_passed);
        list_for_each (link, &settler->verdicts)
                assert(!list_owner(link, struct verdict, link)->is_sent);
        list_for_each (link, &settler->sent)
                assert(list_owner(link, struct verdict, link)->is_sent);
}

static void check_readers(const struct lane *lane)
{
        const struct stream_reader *stream = &lane->stream;

        assert(stream->is_reading == (stream->n_reading > 0));
        assert(lane->parked.n_fetching == 0 || lane->parked.is_reading);
}

static size_t n_deliveries(const struct list *batches)
{
        size_t n = 0;

        list_for_each (link, batches)
                n += list_owner(link, struct batch, link)->n_deliveries;
        return n;
}

static bool are_few(const struct lane *lane)
{
        return n_deliveries(&lane->window.batches) + n_deliveries(&lane->window.held) +
                       n_deliveries(&lane->parked.batches) <=
                   MAX_WALKED &&
               lane->order.n_buckets <= MAX_WALKED;
}

void lane_assert_consistent(const struct lane *lane)
{
        switch (lane->state) {
        case LANE_UNOWNED:
                assert(lane->n_in_flight == 0 && lane->window.n_taken == 0);
                assert(list_is_empty(&lane->parked.batches) && lane->order.n_chains == 0);
                assert(!ready_queue_is_any_ready(&lane->ready));
                assert(!lane->stream.is_reading && lane->stream.seen == NULL);
                assert(!lane->parked.is_reading && !lane->settler.is_writing);
                return;
        case LANE_LEAVING:
                assert(lane->n_in_flight > 0);
                return;
        case LANE_OWNED:
                break;
        }
        check_readers(lane);
        check_settler(lane);
        if (!are_few(lane))
                return;
        check_deliveries(lane);
        check_keys(&lane->order);
}

#endif

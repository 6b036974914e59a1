#include "lane/delivery.h"

#include "base/alloc.h"

#include <stdlib.h>

static struct batch *make_batch(size_t n_deliveries)
{
        struct batch *batch =
            xcalloc(1, sizeof *batch + n_deliveries * sizeof batch->deliveries[0]);

        list_init(&batch->link);
        batch->n_deliveries = n_deliveries;
        for (size_t i = 0; i < n_deliveries; i++) {
                struct delivery *delivery = &batch->deliveries[i];
                delivery->batch = batch;
                list_init(&delivery->link);
                list_init(&delivery->chain_link);
                list_init(&delivery->claimed_link);
        }
        return batch;
}

struct batch *batch_of_page(struct page *page)
{
        struct batch *batch = make_batch(page->n_events);

        batch->page = page;
        batch->bytes = page->bytes;
        batch->arrived_us = page->arrived_us;
        for (size_t i = 0; i < page->n_events; i++)
                batch->deliveries[i].event = &page->events[i];
        return batch;
}

struct batch *batch_of_parked(struct parked_batch *parked)
{
        struct batch *batch = make_batch(parked->n_rows);

        batch->parked = parked;
        batch->bytes = parked->bytes;
        batch->arrived_us = parked->arrived_us;
        batch->n_done = batch->n_deliveries;
        for (size_t i = 0; i < parked->n_rows; i++) {
                struct delivery *delivery = &batch->deliveries[i];
                delivery->event = &parked->rows[i].event;
                delivery->n_attempts = parked->rows[i].n_attempts;
                delivery->retried_ms = parked->rows[i].retried_ms;
                delivery->row = parked->rows[i].state == PARKED_DELAYED ? ROW_DELAYED : ROW_IN_LINE;
        }
        return batch;
}

void batch_free(struct batch *batch)
{
        for (size_t i = 0; i < batch->n_deliveries; i++) {
                free(batch->deliveries[i].verdict);
                free(batch->deliveries[i].next_verdict);
        }
        if (batch->page != NULL)
                batch->page->release(batch->page);
        if (batch->parked != NULL)
                batch->parked->release(batch->parked);
        free(batch);
}

bool delivery_is_waiting(const struct delivery *delivery)
{
        return delivery->state == DELIVERY_READY || delivery->state == DELIVERY_BLOCKED;
}

bool delivery_is_behind_cursor(const struct delivery *delivery)
{
        return delivery < delivery->batch->deliveries + delivery->batch->n_done;
}

bool delivery_is_decided(const struct delivery *delivery)
{
        return delivery->state == DELIVERY_DECIDED || delivery->verdict != NULL;
}

bool delivery_has_row(const struct delivery *delivery)
{
        return delivery->row != ROW_NONE ||
               (delivery->verdict != NULL && delivery->verdict->is_sent);
}

static struct delivery *delivery_of(struct list *link)
{
        return list_owner(link, struct delivery, link);
}

void ready_queue_init(struct ready_queue *ready)
{
        list_init(&ready->resumed);
        list_init(&ready->parked);
        list_init(&ready->fresh);
        list_init(&ready->suspects);
        ready->takes_newest = ready->is_turn_of_parked = false;
}

static void make_ready(struct list *list, struct delivery *delivery)
{
        delivery->state = DELIVERY_READY;
        list_push_back(list, &delivery->link);
}

void ready_queue_add_fresh(struct ready_queue *ready, struct delivery *delivery)
{
        make_ready(&ready->fresh, delivery);
}

void ready_queue_add_parked(struct ready_queue *ready, struct delivery *delivery)
{
        make_ready(&ready->parked, delivery);
}

void ready_queue_add_suspect(struct ready_queue *ready, struct delivery *delivery)
{
        make_ready(&ready->suspects, delivery);
}

/* Deliveries that were read back have no place in the stream: they stand before it. */
static bool is_before(const struct delivery *a, const struct delivery *b)
{
        if (a->batch->parked != NULL || b->batch->parked != NULL)
                return a->batch->parked != NULL && b->batch->parked == NULL;
        return a->sequence < b->sequence;
}

/* Most come back in delivery order, so their place is at the end or near it. */
void ready_queue_resume(struct ready_queue *ready, struct delivery *delivery)
{
        struct list *place = &ready->resumed;

        while (place->prev != &ready->resumed && is_before(delivery, delivery_of(place->prev)))
                place = place->prev;
        delivery->state = DELIVERY_READY;
        list_insert_before(place, &delivery->link);
}

void ready_queue_clear_suspicion(struct ready_queue *ready)
{
        list_for_each (link, &ready->suspects) {
                list_remove(link);
                ready_queue_resume(ready, delivery_of(link));
        }
}

bool ready_queue_is_any_unsuspected(const struct ready_queue *ready)
{
        return !list_is_empty(&ready->resumed) || !list_is_empty(&ready->parked) ||
               !list_is_empty(&ready->fresh);
}

bool ready_queue_is_any_ready(const struct ready_queue *ready)
{
        return ready_queue_is_any_unsuspected(ready) || !list_is_empty(&ready->suspects);
}

static struct list *next_list(struct ready_queue *ready)
{
        if (ready->takes_newest && !list_is_empty(&ready->fresh))
                return &ready->fresh;
        if (!list_is_empty(&ready->resumed))
                return &ready->resumed;
        if (!list_is_empty(&ready->parked) &&
            (ready->is_turn_of_parked || list_is_empty(&ready->fresh)))
                return &ready->parked;
        return list_is_empty(&ready->fresh) ? &ready->suspects : &ready->fresh;
}

struct delivery *ready_queue_next(struct ready_queue *ready)
{
        struct list *list = next_list(ready);

        if (list_is_empty(list))
                return NULL;
        return delivery_of(ready->takes_newest && list == &ready->fresh ? list->prev : list->next);
}

struct delivery *ready_queue_take_next(struct ready_queue *ready)
{
        struct delivery *delivery = ready_queue_next(ready);

        if (delivery == NULL)
                return NULL;
        ready->is_turn_of_parked = next_list(ready) != &ready->parked;
        list_remove(&delivery->link);
        return delivery;
}

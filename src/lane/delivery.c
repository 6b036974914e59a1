#include "lane/delivery.h"

#include "base/alloc.h"

#include <stdlib.h>

static struct batch *make(size_t n_deliveries)
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
        struct batch *batch = make(page->n_events);

        batch->page = page;
        batch->bytes = page->bytes;
        batch->arrived_us = page->arrived_us;
        for (size_t i = 0; i < page->n_events; i++)
                batch->deliveries[i].event = &page->events[i];
        return batch;
}

struct batch *batch_of_parked(struct parked_batch *parked)
{
        struct batch *batch = make(parked->n_rows);

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

#include "lane/ready_queue.h"

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
        ready->is_turn_of_parked = false;
}

static void add(struct list *list, struct delivery *delivery)
{
        delivery->state = DELIVERY_READY;
        list_push_back(list, &delivery->link);
}

void ready_queue_add_fresh(struct ready_queue *ready, struct delivery *delivery)
{
        add(&ready->fresh, delivery);
}

void ready_queue_add_parked(struct ready_queue *ready, struct delivery *delivery)
{
        add(&ready->parked, delivery);
}

void ready_queue_add_suspect(struct ready_queue *ready, struct delivery *delivery)
{
        add(&ready->suspects, delivery);
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

bool ready_queue_is_any_ready(const struct ready_queue *ready)
{
        return !list_is_empty(&ready->resumed) || !list_is_empty(&ready->parked) ||
               !list_is_empty(&ready->fresh) || !list_is_empty(&ready->suspects);
}

static struct list *next_list(struct ready_queue *ready)
{
        if (!list_is_empty(&ready->resumed))
                return &ready->resumed;
        if (!list_is_empty(&ready->parked) &&
            (ready->is_turn_of_parked || list_is_empty(&ready->fresh)))
                return &ready->parked;
        return list_is_empty(&ready->fresh) ? &ready->suspects : &ready->fresh;
}

struct delivery *ready_queue_take_next(struct ready_queue *ready)
{
        struct list *list = next_list(ready);
        struct delivery *delivery;

        if (list_is_empty(list))
                return NULL;
        ready->is_turn_of_parked = list != &ready->parked;
        delivery = delivery_of(list->next);
        list_remove(&delivery->link);
        return delivery;
}

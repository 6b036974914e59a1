#include "lane/ready_queue.h"

#include "lane/batch.h"

static struct delivery *delivery_of(struct list *link)
{
        return list_owner(link, struct delivery, link);
}

void turns_init(struct turns *turns)
{
        list_init(&turns->resumed);
        list_init(&turns->parked);
        list_init(&turns->fresh);
        list_init(&turns->suspects);
        turns->is_turn_of_parked = false;
}

static void add(struct list *list, struct delivery *delivery)
{
        delivery->state = DELIVERY_READY;
        list_push_back(list, &delivery->link);
}

void turns_add_fresh(struct turns *turns, struct delivery *delivery)
{
        add(&turns->fresh, delivery);
}

void turns_add_parked(struct turns *turns, struct delivery *delivery)
{
        add(&turns->parked, delivery);
}

void turns_add_suspect(struct turns *turns, struct delivery *delivery)
{
        add(&turns->suspects, delivery);
}

/* Those that were parked have no place in the stream: they stand before it. */
static bool is_before(const struct delivery *a, const struct delivery *b)
{
        if (a->batch->parked != NULL || b->batch->parked != NULL)
                return a->batch->parked != NULL && b->batch->parked == NULL;
        return a->sequence < b->sequence;
}

/* Most come back in delivery order, so their place is at the end or near it. */
void turns_resume(struct turns *turns, struct delivery *delivery)
{
        struct list *place = &turns->resumed;

        while (place->prev != &turns->resumed && is_before(delivery, delivery_of(place->prev)))
                place = place->prev;
        delivery->state = DELIVERY_READY;
        list_insert_before(place, &delivery->link);
}

void turns_clear_suspicion(struct turns *turns)
{
        list_for_each (link, &turns->suspects) {
                list_remove(link);
                turns_resume(turns, delivery_of(link));
        }
}

bool turns_is_any_ready(const struct turns *turns)
{
        return !list_is_empty(&turns->resumed) || !list_is_empty(&turns->parked) ||
               !list_is_empty(&turns->fresh) || !list_is_empty(&turns->suspects);
}

static struct list *next_list(struct turns *turns)
{
        if (!list_is_empty(&turns->resumed))
                return &turns->resumed;
        if (!list_is_empty(&turns->parked) &&
            (turns->is_turn_of_parked || list_is_empty(&turns->fresh)))
                return &turns->parked;
        return list_is_empty(&turns->fresh) ? &turns->suspects : &turns->fresh;
}

struct delivery *turns_take_next(struct turns *turns)
{
        struct list *list = next_list(turns);
        struct delivery *delivery;

        if (list_is_empty(list))
                return NULL;
        turns->is_turn_of_parked = list != &turns->parked;
        delivery = delivery_of(list->next);
        list_remove(&delivery->link);
        return delivery;
}

#include "relay/turns.h"

static struct delivery *first_of(const struct list *list)
{
        return list_owner(list->next, struct delivery, link);
}

void turns_init(struct turns *turns)
{
        list_init(&turns->fresh);
        list_init(&turns->resumed);
        list_init(&turns->waiting);
}

void turns_add(struct turns *turns, struct delivery *delivery)
{
        delivery->state = DELIVERY_READY;
        list_push_back(&turns->fresh, &delivery->link);
}

/* Most come back in delivery order, so their place is at the end or near it. */
void turns_resume(struct turns *turns, struct delivery *delivery)
{
        struct list *place = &turns->resumed;

        while (place->prev != &turns->resumed &&
               list_owner(place->prev, struct delivery, link)->sequence > delivery->sequence)
                place = place->prev;
        delivery->state = DELIVERY_READY;
        list_insert_before(place, &delivery->link);
}

void turns_wait(struct turns *turns, struct delivery *delivery, int64_t due_ms)
{
        struct list *place = &turns->waiting;

        while (place->prev != &turns->waiting &&
               list_owner(place->prev, struct delivery, link)->due_ms > due_ms)
                place = place->prev;
        delivery->state = DELIVERY_WAITING;
        delivery->due_ms = due_ms;
        list_insert_before(place, &delivery->link);
}

void turns_take_due(struct turns *turns, int64_t now_ms)
{
        while (!list_is_empty(&turns->waiting) && first_of(&turns->waiting)->due_ms <= now_ms) {
                struct delivery *delivery = first_of(&turns->waiting);
                list_remove(&delivery->link);
                turns_resume(turns, delivery);
        }
}

int64_t turns_next_due(const struct turns *turns)
{
        return list_is_empty(&turns->waiting) ? -1 : first_of(&turns->waiting)->due_ms;
}

bool turns_is_any_ready(const struct turns *turns)
{
        return !list_is_empty(&turns->resumed) || !list_is_empty(&turns->fresh);
}

struct delivery *turns_take_next(struct turns *turns)
{
        struct list *from = list_is_empty(&turns->resumed) ? &turns->fresh : &turns->resumed;
        struct delivery *delivery;

        if (list_is_empty(from))
                return NULL;
        delivery = first_of(from);
        list_remove(&delivery->link);
        return delivery;
}

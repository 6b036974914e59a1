#include "lane/settler.h"

#include "lane/key_order.h"

#include <assert.h>
#include <stdlib.h>

/* The first rest. Each page that fills up doubles it, and a page takes some 40 versions: so their
 * number grows with the logarithm of the time for which none could be removed. */
#define REST_MS 50

void settler_init(struct settler *settler)
{
        *settler = (struct settler){.due_ms = -1};
        list_init(&settler->verdicts);
        list_init(&settler->sent);
}

void settler_note_moved(struct settler *settler, int64_t due_ms)
{
        if (settler->due_ms < 0 || due_ms < settler->due_ms)
                settler->due_ms = due_ms;
}

static void note_awaited(struct settler *settler, const struct delivery *delivery)
{
        settler->is_awaited |= key_order_is_dead_awaited(delivery);
}

void settler_add(struct settler *settler, struct delivery *delivery)
{
        list_push_back(&settler->verdicts, &delivery->verdict->link);
        note_awaited(settler, delivery);
}

void settler_replace(struct settler *settler, struct delivery *delivery, struct verdict *verdict)
{
        list_insert_before(&delivery->verdict->link, &verdict->link);
        settler_withdraw(delivery);
        delivery->verdict = verdict;
        note_awaited(settler, delivery);
}

void settler_withdraw(struct delivery *delivery)
{
        assert(!delivery->verdict->is_sent);
        list_remove(&delivery->verdict->link);
        free(delivery->verdict);
        delivery->verdict = NULL;
}

void settler_note_blocked(struct settler *settler, const struct delivery *delivery)
{
        settler->is_awaited |= key_order_awaits_dead(delivery);
}

/* Only now is it known which row of its key is to be tried first: a delivery before it may have
 * been delivered since, or parked too. */
static void name_state(struct verdict *verdict)
{
        const struct delivery *delivery = verdict->delivery;

        if (verdict->kind != VERDICT_PARK || verdict->state == PARKED_DELAYED || verdict->goes_last)
                return;
        verdict->state = key_order_is_parked_first(delivery) ? PARKED_RETRY : PARKED_BLOCKED;
        /* A row that was delayed has no place in line yet. */
        verdict->goes_last = delivery->row == ROW_DELAYED && verdict->state == PARKED_BLOCKED;
}

int64_t settler_next_due(const struct settler *settler)
{
        if (settler->due_ms < 0 || settler->rest_ms == 0 || !list_is_empty(&settler->verdicts))
                return settler->due_ms;
        return settler->due_ms < settler->rested_ms ? settler->rested_ms : settler->due_ms;
}

void settler_begin(struct settler *settler, uint64_t n_passed, int64_t rested_ms)
{
        assert(!settler->is_writing && list_is_empty(&settler->sent));
        settler->due_ms = -1;
        settler->is_awaited = false;
        settler->is_writing = true;
        settler->rested_ms = rested_ms;
        settler->n_passed = n_passed;

        list_for_each (link, &settler->verdicts) {
                struct verdict *verdict = list_owner(link, struct verdict, link);
                name_state(verdict);
                verdict->is_sent = true;
                list_remove(link);
                list_push_back(&settler->sent, link);
        }
}

static void note_room(struct settler *settler, enum cursor_room room, int64_t rest_max_ms)
{
        switch (room) {
        case ROOM_UNKNOWN:
                break;
        case ROOM_REGAINED:
                settler->rest_ms = 0;
                break;
        case ROOM_FULL:
                settler->rest_ms = settler->rest_ms == 0 ? REST_MS : 2 * settler->rest_ms;
                if (settler->rest_ms > rest_max_ms)
                        settler->rest_ms = rest_max_ms;
                break;
        }
}

void settler_end(struct settler *settler, enum cursor_room room, int64_t rest_max_ms)
{
        assert(settler->is_writing);
        note_room(settler, room, rest_max_ms);
        settler->is_writing = false;
        settler->n_settled = settler->n_passed;
}

struct verdict *settler_take_sent(struct settler *settler)
{
        struct verdict *verdict;

        if (list_is_empty(&settler->sent))
                return NULL;
        verdict = list_owner(settler->sent.next, struct verdict, link);
        list_remove(&verdict->link);
        return verdict;
}

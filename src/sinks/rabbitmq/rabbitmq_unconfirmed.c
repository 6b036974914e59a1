#include "sinks/rabbitmq/rabbitmq_unconfirmed.h"

#include "base/alloc.h"
#include "pgcourier/sink.h"
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include <assert.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

void rabbitmq_unconfirmed_init(struct rabbitmq_unconfirmed *unconfirmed)
{
        *unconfirmed =
            (struct rabbitmq_unconfirmed){.first_tag = 1, .next_tag = 1, .first_attempt = 1};
}

void rabbitmq_unconfirmed_deinit(struct rabbitmq_unconfirmed *unconfirmed)
{
        assert(unconfirmed->n_attempts == 0);
        free(unconfirmed->places);
}

void rabbitmq_unconfirmed_restart(struct rabbitmq_unconfirmed *unconfirmed)
{
        assert(unconfirmed->n_attempts == 0);
        unconfirmed->first_tag = unconfirmed->next_tag = unconfirmed->first_attempt = 1;
}

size_t rabbitmq_unconfirmed_count(const struct rabbitmq_unconfirmed *unconfirmed)
{
        return (size_t)(unconfirmed->next_tag - unconfirmed->first_tag);
}

static struct unconfirmed_place *place_of(
    const struct rabbitmq_unconfirmed *unconfirmed, uint64_t tag)
{
        return &unconfirmed->places[tag & (unconfirmed->capacity - 1)];
}

static void grow(struct rabbitmq_unconfirmed *unconfirmed)
{
        struct rabbitmq_unconfirmed bigger = *unconfirmed;

        bigger.capacity = unconfirmed->capacity > 0 ? unconfirmed->capacity * 2 : FIRST_CAPACITY;
        bigger.places = xcalloc(bigger.capacity, sizeof *bigger.places);
        for (uint64_t tag = unconfirmed->first_tag; tag < unconfirmed->next_tag; tag++)
                *place_of(&bigger, tag) = *place_of(unconfirmed, tag);
        free(unconfirmed->places);
        *unconfirmed = bigger;
}

void rabbitmq_unconfirmed_add(
    struct rabbitmq_unconfirmed *unconfirmed, struct attempt *attempt, uint64_t now_ms)
{
        if (rabbitmq_unconfirmed_count(unconfirmed) == unconfirmed->capacity)
                grow(unconfirmed);
        *place_of(unconfirmed, unconfirmed->next_tag++) =
            (struct unconfirmed_place){.attempt = attempt, .sent_ms = now_ms};
        unconfirmed->n_attempts++;
}

static struct attempt *take_out(
    struct rabbitmq_unconfirmed *unconfirmed, struct unconfirmed_place *place)
{
        struct attempt *attempt = place->attempt;

        place->attempt = NULL;
        if (attempt != NULL)
                unconfirmed->n_attempts--;
        return attempt;
}

static void answer(struct rabbitmq_unconfirmed *unconfirmed, uint64_t tag,
    unconfirmed_answered_fn *on_answered, void *owner)
{
        struct unconfirmed_place *place = place_of(unconfirmed, tag);
        struct attempt *attempt = take_out(unconfirmed, place);

        place->is_answered = true;
        if (attempt != NULL)
                on_answered(owner, attempt, place->is_returned);
}

bool rabbitmq_unconfirmed_answer(struct rabbitmq_unconfirmed *unconfirmed, uint64_t tag,
    bool is_multiple, unconfirmed_answered_fn *on_answered, void *owner)
{
        if (tag == 0 && is_multiple)
                tag = unconfirmed->next_tag - 1; /* the specification: all there are */
        if (tag < unconfirmed->first_tag || tag >= unconfirmed->next_tag)
                return false;
        if (!is_multiple && place_of(unconfirmed, tag)->is_answered)
                return false;
        for (uint64_t at = is_multiple ? unconfirmed->first_tag : tag; at <= tag; at++)
                answer(unconfirmed, at, on_answered, owner);
        while (unconfirmed->first_tag < unconfirmed->next_tag &&
               place_of(unconfirmed, unconfirmed->first_tag)->is_answered)
                unconfirmed->first_tag++;
        return true;
}

void rabbitmq_unconfirmed_return(
    struct rabbitmq_unconfirmed *unconfirmed, struct amqp_span message_id)
{
        for (uint64_t tag = unconfirmed->first_tag; tag < unconfirmed->next_tag; tag++) {
                struct unconfirmed_place *place = place_of(unconfirmed, tag);
                if (place->attempt != NULL &&
                    amqp_span_is(message_id, place->attempt->event->event_id))
                        place->is_returned = true;
        }
}

/* The oldest place that has an attempt, or NULL. */
static struct unconfirmed_place *oldest(struct rabbitmq_unconfirmed *unconfirmed)
{
        if (unconfirmed->n_attempts == 0)
                return NULL;
        if (unconfirmed->first_attempt < unconfirmed->first_tag)
                unconfirmed->first_attempt = unconfirmed->first_tag;
        while (place_of(unconfirmed, unconfirmed->first_attempt)->attempt == NULL)
                unconfirmed->first_attempt++;
        return place_of(unconfirmed, unconfirmed->first_attempt);
}

struct attempt *rabbitmq_unconfirmed_take(
    struct rabbitmq_unconfirmed *unconfirmed, uint64_t sent_before_ms)
{
        struct unconfirmed_place *place = oldest(unconfirmed);

        if (place == NULL || place->sent_ms > sent_before_ms)
                return NULL;
        return take_out(unconfirmed, place);
}

uint64_t rabbitmq_unconfirmed_oldest_ms(struct rabbitmq_unconfirmed *unconfirmed)
{
        const struct unconfirmed_place *place = oldest(unconfirmed);

        assert(place != NULL);
        return place->sent_ms;
}

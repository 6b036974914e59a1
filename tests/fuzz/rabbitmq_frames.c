/*
 * A byte of switches, a number of messages in flight, then bytes as they come from RabbitMQ: they
 * are cut into frames, and what these say is judged. What comes in pieces must read the same.
 */
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include "base/bytes.h"
#include "config/config.h"
#include "fuzz.h"
#include "pgcourier/sink.h"
#include "sinks/rabbitmq/rabbitmq_answers.h"
#include "sinks/rabbitmq/rabbitmq_greeting.h"
#include "sinks/rabbitmq/rabbitmq_unconfirmed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MESSAGES = 64 };

#define PASSWORD "swordfish-27"

struct world {
        struct rabbitmq_unconfirmed ring;
        struct event events[MAX_MESSAGES];
        struct attempt attempts[MAX_MESSAGES];
        bool is_waiting[MAX_MESSAGES]; /* as the confirms say, told naively */
        bool is_returned[MAX_MESSAGES];
        unsigned n_messages;
        uint64_t first, last; /* what the confirm at hand is for */
};

static bool is_inside(struct amqp_span span, const char *data, size_t size)
{
        return span.length == 0 || (span.text >= data && span.text + span.length <= data + size);
}

static void on_answered(void *owner, struct attempt *attempt, bool is_returned)
{
        struct world *world = owner;
        size_t i = (size_t)(attempt - world->attempts);

        fuzz_require(world->is_waiting[i], "a message is answered once", "");
        fuzz_require(i + 1 >= world->first && i + 1 <= world->last,
            "a confirm answers only what it is for", "");
        fuzz_require(is_returned == world->is_returned[i], "what came back is known", "");
        world->is_waiting[i] = false;
}

static void take_confirm(struct world *world, const struct amqp_news *news)
{
        const uint64_t n = world->n_messages;
        uint64_t last = news->tag == 0 && news->is_multiple ? n : news->tag;
        uint64_t first = news->is_multiple ? 1 : last;
        bool is_due = false;

        for (uint64_t tag = first; tag <= last && tag >= 1 && tag <= n; tag++)
                is_due |= world->is_waiting[tag - 1];
        if (last < 1 || last > n)
                is_due = false;
        world->first = first;
        world->last = last;
        if (!rabbitmq_unconfirmed_answer(
                &world->ring, news->tag, news->is_multiple, on_answered, world)) {
                fuzz_require(!is_due, "a tag that is waited for is taken", "");
                return;
        }
        fuzz_require(last >= 1 && last <= n, "a tag that was not sent is refused", "");
        for (uint64_t tag = first; tag <= last; tag++)
                fuzz_require(!world->is_waiting[tag - 1], "all that is confirmed is answered", "");
}

static void take_return(struct world *world, struct amqp_span message_id)
{
        rabbitmq_unconfirmed_return(&world->ring, message_id);
        for (unsigned i = 0; i < world->n_messages; i++)
                if (world->is_waiting[i] && amqp_span_is(message_id, world->events[i].event_id))
                        world->is_returned[i] = true;
}

static void take_close(const struct amqp_news *news)
{
        struct outcome outcome = rabbitmq_judge_close(news, "mq:5672");

        fuzz_require_outcome(&outcome);
        fuzz_require(outcome.kind == OUTCOME_SINK_DOWN, "a close delivers nothing", "");
        if (news->method != AMQP_CHANNEL_CLOSE || rabbitmq_close_is_for_all(news))
                return;
        outcome = rabbitmq_judge_guilty(news);
        fuzz_require_outcome(&outcome);
        fuzz_require(outcome.kind == OUTCOME_REJECTED ||
                         (outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator),
            "what closes a channel does not go on for ever", outcome.reason);
}

static void take_greeting(const struct amqp_news *news, unsigned switches)
{
        static char user[] = "writer", password[] = PASSWORD;
        struct rabbitmq_config config = {.user = user,
            .password = password,
            .auth = (switches & 1) != 0 ? RABBITMQ_EXTERNAL : RABBITMQ_PLAIN,
            .heartbeat_ms = 20000};
        struct rabbitmq_tuning tuning;
        struct bytes out = {0};

        if (news->method == AMQP_START && rabbitmq_put_login(&out, &config, "fuzz", news) &&
            config.auth == RABBITMQ_EXTERNAL)
                fuzz_require(memmem(out.data, out.length, PASSWORD, strlen(PASSWORD)) == NULL,
                    "a certificate needs no password", "");
        if (news->method == AMQP_TUNE && rabbitmq_tune(&config, news, &tuning))
                fuzz_require(tuning.frame_max >= AMQP_FRAME_MIN &&
                                 tuning.frame_max <= AMQP_FRAME_MAX && tuning.heartbeat_s <= 20,
                    "a frame has a sane size", "");
        bytes_deinit(&out);
}

static void take(struct world *world, const struct amqp_news *news, unsigned switches)
{
        if (news->kind == AMQP_RETURNED)
                take_return(world, news->message_id);
        if (news->kind != AMQP_METHOD)
                return;
        switch (news->method) {
        case AMQP_ACK:
        case AMQP_NACK:
                take_confirm(world, news);
                return;
        case AMQP_CLOSE:
        case AMQP_CHANNEL_CLOSE:
                take_close(news);
                return;
        default:
                take_greeting(news, switches);
                return;
        }
}

static void check_same(const struct amqp_news *one, const struct amqp_news *other)
{
        fuzz_require(one->kind == other->kind && one->method == other->method &&
                         one->code == other->code && one->tag == other->tag &&
                         one->text.length == other->text.length &&
                         one->message_id.length == other->message_id.length,
            "a frame reads the same in pieces", "");
}

/* A block that ends with the frame, so that reading beyond it is seen. */
static void check_alone(
    struct amqp_input input, const char *data, size_t size, const struct amqp_news *expected)
{
        char *copy = malloc(size);
        struct amqp_news news;

        memcpy(copy, data, size);
        fuzz_require(amqp_take(&input, copy, size, &news) == size, "a frame is complete", "");
        check_same(&news, expected);
        fuzz_require(is_inside(news.message_id, copy, size), "a text is of its frame", "");
        fuzz_require(news.kind == AMQP_RETURNED || is_inside(news.text, copy, size),
            "a text is of its frame", "");
        fuzz_require(amqp_take(&(struct amqp_input){.frame_max = input.frame_max}, copy, size - 1,
                         &news) == 0,
            "less than a frame is none", "");
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input fuzz = {data, size};
        unsigned switches = fuzz_take_byte(&fuzz);
        struct world *world = calloc(1, sizeof *world);
        struct amqp_input input = {
            .frame_max = (switches & 2) != 0 ? AMQP_FRAME_MIN : AMQP_FRAME_MAX};
        struct amqp_news news;
        size_t n;

        world->n_messages = fuzz_take_byte(&fuzz) % (MAX_MESSAGES + 1);
        rabbitmq_unconfirmed_init(&world->ring);
        for (unsigned i = 0; i < world->n_messages; i++) {
                snprintf(world->events[i].event_id, sizeof world->events[i].event_id, "%u", i % 40);
                world->attempts[i].event = &world->events[i];
                world->is_waiting[i] = true;
                rabbitmq_unconfirmed_add(&world->ring, &world->attempts[i], i);
        }
        do {
                const struct amqp_input before = input;
                n = amqp_take(&input, (const char *)fuzz.data, fuzz.size, &news);
                fuzz_require(
                    n <= fuzz.size && n <= input.frame_max, "no more is used than came", "");
                fuzz_require((n == 0) == (news.kind == AMQP_MORE || news.kind == AMQP_BROKEN),
                    "each frame goes on", "");
                if (n > 0)
                        check_alone(before, (const char *)fuzz.data, n, &news);
                take(world, &news, switches);
                fuzz.data += n;
                fuzz.size -= n;
        } while (n > 0);
        while (rabbitmq_unconfirmed_take(&world->ring, UINT64_MAX) != NULL)
                ;
        rabbitmq_unconfirmed_deinit(&world->ring);
        free(world);
        return 0;
}

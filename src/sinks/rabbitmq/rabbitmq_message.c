#include "sinks/rabbitmq/rabbitmq_message.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "sinks/format/message.h"
#include "sinks/rabbitmq/rabbitmq_frames.h"
#include "text/template.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct rabbitmq_encoder {
        const struct rabbitmq_config *config; /* borrowed */
        struct template *routing_key;         /* owned */
        struct message_maker *maker;          /* owned */
        struct bytes rendered;                /* the routing key of the event at hand */
        char expiration[24];                  /* "": none */
};

/* CC and BCC route a copy wherever they say; x- is RabbitMQ's own (x-death, x-delay). They are
 * written in just this way, but what another version might read does not pass either. */
static bool is_reserved(const char *name)
{
        return strcasecmp(name, "CC") == 0 || strcasecmp(name, "BCC") == 0 ||
               strncasecmp(name, "x-", 2) == 0;
}

static const struct message_style style = {
    .own_prefix = "",
    .cloudevent_prefix = "cloudEvents:",
    .has_key = true,
    .is_reserved = is_reserved,
};

struct rabbitmq_encoder *rabbitmq_encoder_create(
    const struct rabbitmq_config *config, struct error *error)
{
        static const char *const variables[] = {"topic", "type", "key", NULL};
        struct template *routing_key = template_compile(config->routing_key, variables, error);
        struct rabbitmq_encoder *encoder;

        if (routing_key == NULL)
                return NULL;
        encoder = xcalloc(1, sizeof *encoder);
        encoder->config = config;
        encoder->routing_key = routing_key;
        encoder->maker = message_maker_create(&config->message, &style);
        if (config->expiration_ms > 0)
                snprintf(encoder->expiration, sizeof encoder->expiration, "%" PRId64,
                    config->expiration_ms);
        return encoder;
}

void rabbitmq_encoder_destroy(struct rabbitmq_encoder *encoder)
{
        if (encoder == NULL)
                return;
        template_destroy(encoder->routing_key);
        message_maker_destroy(encoder->maker);
        bytes_deinit(&encoder->rendered);
        free(encoder);
}

bool rabbitmq_encoder_is_key_fixed(const struct rabbitmq_encoder *encoder)
{
        return !template_has_variables(encoder->routing_key);
}

static void render_key(struct rabbitmq_encoder *encoder, const struct event *event)
{
        const char *const values[] = {event->topic, event->type != NULL ? event->type : "",
            event->key != NULL ? event->key : ""};

        bytes_clear(&encoder->rendered);
        template_render(encoder->routing_key, values, &encoder->rendered);
}

static bool refuse(struct outcome *out_refusal, enum outcome_fault fault, const char *what,
    size_t bytes, uint64_t limit)
{
        *out_refusal = outcome_make(OUTCOME_REJECTED,
            "%s has %zu bytes, and AMQP carries at most %" PRIu64, what, bytes, limit);
        out_refusal->fault = fault;
        return false;
}

static bool check_limits(const struct rabbitmq_encoder *encoder, const struct event *event,
    const struct message *message, struct outcome *out_refusal)
{
        uint64_t max_bytes = encoder->config->max_message_bytes;

        if (message->body_bytes > max_bytes) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the message has %zu bytes; max_message_bytes allows %" PRIu64,
                    message->body_bytes, max_bytes);
                out_refusal->fault = OUTCOME_FAULT_TOO_LARGE;
                return false;
        }
        if (encoder->rendered.length > AMQP_SHORT_MAX)
                return refuse(out_refusal, OUTCOME_FAULT_EVENT, "its routing key",
                    encoder->rendered.length, AMQP_SHORT_MAX);
        if (event->type != NULL && strlen(event->type) > AMQP_SHORT_MAX)
                return refuse(out_refusal, OUTCOME_FAULT_EVENT, "its type", strlen(event->type),
                    AMQP_SHORT_MAX);
        for (size_t i = 0; i < message->n_headers; i++) {
                size_t length = strlen(message->headers[i].name);
                if (length > AMQP_HEADER_NAME_MAX)
                        return refuse(out_refusal, OUTCOME_FAULT_EVENT, "the name of a header",
                            length, AMQP_HEADER_NAME_MAX);
        }
        return true;
}

static struct amqp_publish publish_of(const struct rabbitmq_encoder *encoder,
    const struct event *event, const struct message *message)
{
        const struct rabbitmq_config *config = encoder->config;

        return (struct amqp_publish){.exchange = config->exchange,
            .routing_key = &encoder->rendered,
            .is_mandatory = config->mandatory,
            .content_type = message->content_type,
            .delivery_mode = config->persistent ? 2 : 1,
            .priority = (uint8_t)config->priority,
            .expiration = encoder->expiration[0] != '\0' ? encoder->expiration : NULL,
            .message_id = event->event_id,
            .timestamp_s = event->created_us >= 0 ? event->created_us / 1000000 : -1,
            .type = event->type,
            .app_id = config->app_id,
            .body = message->body,
            .body_bytes = message->body_bytes};
}

static void put_headers(struct bytes *out, const struct message *message)
{
        for (size_t i = 0; i < message->n_headers; i++) {
                const struct message_header *header = &message->headers[i];
                if (header->is_boolean)
                        amqp_put_entry_true(out, header->name);
                else
                        amqp_put_entry_text(out, header->name, header->value, header->value_bytes);
        }
}

bool rabbitmq_encode(struct rabbitmq_encoder *encoder, const struct event *event,
    uint32_t frame_max, struct bytes *out, struct outcome *out_refusal)
{
        struct message message;
        struct amqp_publish publish;
        struct amqp_message_places places;

        render_key(encoder, event);
        if (!message_make(encoder->maker, event, &message, out_refusal) ||
            !check_limits(encoder, event, &message, out_refusal))
                return false;
        publish = publish_of(encoder, event, &message);
        places = amqp_publish_begin(out, &publish);
        put_headers(out, &message);
        if (amqp_publish_end(out, &publish, &places, frame_max))
                return true;
        *out_refusal = outcome_make(OUTCOME_REJECTED,
            "its headers do not fit into a frame of %" PRIu32 " bytes, as AMQP wants it",
            frame_max);
        out_refusal->fault = OUTCOME_FAULT_TOO_LARGE;
        return false;
}

void rabbitmq_describe(
    struct rabbitmq_encoder *encoder, const struct event *event, char *text, size_t size)
{
        const char *exchange = encoder->config->exchange;

        render_key(encoder, event);
        snprintf(text, size, "%s%s%s", exchange, *exchange != '\0' ? "/" : "",
            encoder->rendered.data != NULL ? encoder->rendered.data : "");
}

/*
 * The headers that begin with Nats- are orders to the server: Nats-Rollup alone deletes what came
 * before. Ours are Nats-Msg-Id and Nats-Expected-Stream; of an event none is passed on, however it
 * is spelt.
 */
#include "sinks/nats/nats_message.h"

#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/format/message.h"

#include <string.h>
#include <strings.h>

static bool is_reserved(const char *name)
{
        return strncasecmp(name, "Nats-", 5) == 0;
}

static const struct message_style style = {.own_prefix = "x-event-",
    .cloudevent_prefix = "ce-",
    .content_type_header = "Content-Type",
    .has_id = true,
    .has_key = true,
    .has_type = true,
    .has_datacontenttype = true,
    .is_encoded = true,
    .is_reserved = is_reserved};

void nats_message_init(struct nats_message *message, const struct nats_config *config)
{
        *message = (struct nats_message){.config = config};
        message->maker = message_maker_create(&config->message, &style);
}

void nats_message_deinit(struct nats_message *message)
{
        message_maker_destroy(message->maker);
        bytes_deinit(&message->headers);
}

static bool is_name(const char *name)
{
        if (*name == '\0')
                return false;
        for (; *name != '\0'; name++)
                if ((unsigned char)*name <= ' ' || *name == ':' || *name == 0x7f)
                        return false;
        return true;
}

/* The length is known, as a NUL may have been made of what was published. */
static bool is_value(const char *value, size_t length)
{
        for (size_t i = 0; i < length; i++)
                if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
                        return false;
        return true;
}

static bool may_be_sent(const struct message_header *header, struct outcome *out_rejected)
{
        if (!is_name(header->name))
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "the name of a header cannot be sent: it is empty, or holds a blank, a colon "
                    "or a control character");
        else if (!is_value(header->value, header->value_bytes))
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "the value of header %.100s cannot be sent: it holds a line break or another "
                    "control character",
                    header->name);
        else
                return true;
        return false;
}

static void append(struct bytes *out, const char *name, const char *value, size_t value_bytes)
{
        const size_t name_bytes = strlen(name);
        char *begin = bytes_reserve(out, name_bytes + value_bytes + 4);
        char *at = begin;

        memcpy(at, name, name_bytes);
        at += name_bytes;
        *at++ = ':';
        *at++ = ' ';
        memcpy(at, value, value_bytes);
        at += value_bytes;
        *at++ = '\r';
        *at++ = '\n';
        *at = '\0';
        out->length += (size_t)(at - begin);
}

/* An event that is sent again by an operator is wanted again: with its id the stream would take it
 * for a repetition, and drop it. */
static void append_orders(
    struct bytes *headers, const struct nats_config *config, const struct event *event)
{
        bytes_append(headers, "NATS/1.0\r\n", 10);
        if (config->duplicates == NATS_DUPLICATES_ID && !event->is_redriven)
                append(headers, "Nats-Msg-Id", event->event_id, strlen(event->event_id));
        if (config->stream != NULL)
                append(headers, "Nats-Expected-Stream", config->stream, strlen(config->stream));
}

static bool is_short_enough(
    const struct nats_message *message, size_t max_bytes, struct outcome *out_rejected)
{
        const size_t n = message->headers.length + message->body_bytes;

        if (max_bytes == 0 || n <= max_bytes)
                return true;
        *out_rejected = outcome_make(OUTCOME_REJECTED,
            "the message has %zu bytes with its headers; the server takes at most %zu "
            "(max_payload)",
            n, max_bytes);
        out_rejected->fault = OUTCOME_FAULT_TOO_LARGE;
        return false;
}

bool nats_message_make(struct nats_message *message, const struct event *event, size_t max_bytes,
    struct outcome *out_rejected)
{
        struct message made;

        if (!message_make(message->maker, event, &made, out_rejected))
                return false;
        bytes_clear(&message->headers);
        append_orders(&message->headers, message->config, event);
        for (size_t i = 0; i < made.n_headers; i++) {
                const struct message_header *header = &made.headers[i];
                if (header->origin == MESSAGE_OF_EVENT && !may_be_sent(header, out_rejected))
                        return false;
                append(&message->headers, header->name, header->value, header->value_bytes);
        }
        bytes_append(&message->headers, "\r\n", 2);
        message->body = made.body;
        message->body_bytes = made.body_bytes;
        return is_short_enough(message, max_bytes, out_rejected);
}

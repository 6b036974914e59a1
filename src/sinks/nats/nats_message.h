/* An event as a message with headers, ready to be published: sinks/format/message.h says what is in
 * it, this how NATS writes it. Pure. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

struct event;
struct message_maker;
struct nats_config;
struct outcome;

struct nats_message {
        const struct nats_config *config; /* borrowed */
        struct message_maker *maker;      /* owned */
        struct bytes headers;             /* of the event at hand, in NATS' form */
        const char *body;                 /* borrowed from the event or the maker */
        size_t body_bytes;
};

void nats_message_init(struct nats_message *message, const struct nats_config *config);
void nats_message_deinit(struct nats_message *message);

/* Fills headers and body. False, with *out_rejected set, if the event cannot be carried, or the two
 * have more bytes than `max_bytes` (0: any number). */
bool nats_message_make(struct nats_message *message, const struct event *event, size_t max_bytes,
    struct outcome *out_rejected);

/*
 * An event's payload as a checked mail: envelope and complete text, ready for
 * the wire. Pure: no I/O, no clock, may run on any thread.
 *
 * The payload is a JSON object with these members and no others:
 *   to        required: an address or an array of addresses
 *   subject   text without control characters, at most 1000 bytes
 *   text      the plain text; at least one of text and html is required
 *   html      the HTML text
 *   template  instead of these three: the name of one of the sink's templates
 *   data      the object that it is filled in with
 *   cc, bcc   like to; bcc appears in the envelope only
 *   reply_to  like to
 *   attachments               as in email_attachments.h
 *   headers, unsubscribe_url  as in email_headers.h
 * A member may also be null, which is as if it were not there; for addresses
 * and attachments also []. An address is "name@domain" or "Name <name@domain>"
 * as described in email_address.h. One event is one envelope; to, cc and bcc
 * name at most 100 addresses together.
 *
 * The Message-ID is the event's id at the configured domain: the same for
 * every attempt, so that receivers and people can tell a repetition.
 */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/email/email_address.h"
#include "sinks/email/email_templates.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct email_config;

/* What all mails of one sink have in common. */
struct email_sender {
        struct mailbox from;
        const char *message_id_domain;     /* borrowed from the configuration, or from `from` */
        struct email_templates *templates; /* NULL: none are configured */
        uint64_t max_attachment_bytes;     /* of one mail, decoded */
};

struct email_message {
        char **recipients; /* owned; each address once */
        size_t n_recipients;
        struct bytes text; /* header and body; every line ends in CRLF */
};

/* Checks the sender and reads the templates; *error names the key. `config` is borrowed for the
 * sender's life. */
bool email_sender_init(
    struct email_sender *sender, const struct email_config *config, struct error *error);
void email_sender_deinit(struct email_sender *sender);

/* `wall_us` is the time of this attempt. On failure *out_rejected says which member is wrong and
 * why, and there is nothing to deinit. */
bool email_message_init(struct email_message *message, const struct email_sender *sender,
    const struct event *event, int64_t wall_us, struct outcome *out_rejected);
void email_message_deinit(struct email_message *message);

/* Writes the addresses of to, cc and bcc as the payload names them, cut to `size`; nothing if it
 * cannot be read. */
void email_message_describe(const struct event *event, char *recipients, size_t size);

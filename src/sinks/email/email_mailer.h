/*
 * One SMTP connection at a time, through one libcurl easy handle. Blocks:
 * libcurl waits for the answer to the final dot without returning, so all but
 * create and dialogue belong on a worker thread, one at a time for each mailer.
 *
 * A connection is kept for the next mail, within the configured limits, as
 * long as that goes by the same server.
 */
#pragma once

#include "pgcourier/outcome.h"
#include "sinks/email/email_message.h"
#include "sinks/email/email_replies.h"
#include "sinks/email/email_server.h"

#include <stdatomic.h>

struct email_mailer;

/* `is_hurried` is borrowed. Setting it from any thread makes a running operation give up within
 * about a second, but for the resolver: libcurl waits until a look-up of the server's name has
 * ended. NULL if libcurl has no memory or is not initialised. */
struct email_mailer *email_mailer_create(const atomic_bool *is_hurried);

/* `server` is borrowed until the next operation, or the end. */
struct outcome email_mailer_send(struct email_mailer *mailer, const struct email_server *server,
    const struct email_sender *sender, const struct email_message *message);

/* Connects, secures and authenticates a connection of its own, and says NOOP. */
struct outcome email_mailer_probe(struct email_mailer *mailer, const struct email_server *server);

/* How far the last operation came, for email_replies.h to judge; valid until the next. */
const struct smtp_dialogue *email_mailer_dialogue(const struct email_mailer *mailer);

/* Says goodbye to the server without waiting for its answer. NULL is allowed. */
void email_mailer_destroy(struct email_mailer *mailer);

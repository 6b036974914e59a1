/*
 * One SMTP connection at a time, through one libcurl easy handle. Blocks:
 * libcurl waits for the answer to the final dot without returning, so all but
 * create and route belong on a worker thread, one at a time for each mailer.
 *
 * A connection is kept for the next mail: at most 30 s idle and 100 mails.
 */
#pragma once

#include "base/error.h"
#include "pgcourier/outcome.h"
#include "sinks/email_message.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdbool.h>

struct email_config;

/* How to reach the server; shared by all mailers of a sink and never changed. */
struct email_route {
        const struct email_config *config; /* borrowed */
        curl_usessl starttls;              /* with smtp:// */
};

/* Checks url, tls and user; *error names the key. */
bool email_route_init(
    struct email_route *route, const struct email_config *config, struct error *error);

struct email_mailer;

/* `route` and `is_hurried` are borrowed. Setting *is_hurried from any thread makes a running
 * operation give up within about a second, but for the resolver: libcurl waits until a look-up of
 * the server's name has ended. NULL if libcurl has no memory or is not initialised. */
struct email_mailer *email_mailer_create(
    const struct email_route *route, const atomic_bool *is_hurried);

struct outcome email_mailer_send(struct email_mailer *mailer, const struct email_sender *sender,
    const struct email_message *message);

/* Connects, secures and authenticates a connection of its own, and says NOOP. */
struct outcome email_mailer_probe(struct email_mailer *mailer);

/* Says goodbye to the server without waiting for its answer. NULL is allowed. */
void email_mailer_destroy(struct email_mailer *mailer);

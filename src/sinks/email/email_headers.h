/*
 * The header lines that a payload may add: `headers`, an object of names and
 * texts, and `unsubscribe_url`, which mail programs show as a button
 * (RFC 8058). A list of what may be set, not of what may not: nothing that
 * routes, signs or describes a mail can come from an event.
 *
 * The names: X-..., List-..., References and In-Reply-To, in any case, but for those
 * that are ours. The texts: no control characters; only in X-... may they be
 * other than ASCII. No line is folded: readers of List-Unsubscribe stumble
 * over it, and signatures are simpler to check.
 */
#pragma once

#include "base/bytes.h"
#include "pgcourier/outcome.h"

#include <jansson.h>
#include <stdbool.h>

struct email_headers {   /* all borrowed from the payload */
        json_t *members; /* NULL: none */
        const char *unsubscribe_url;
};

bool email_headers_read(
    struct email_headers *headers, const json_t *payload, struct outcome *out_rejected);

void email_headers_append(struct bytes *out, const struct email_headers *headers);

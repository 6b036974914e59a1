/*
 * The files that go along with a mail, as the payload names them:
 *   name       a file's name: no control characters, no slashes, no blanks at its
 *              ends; at most 255 bytes
 *   type       its type, as in application/pdf; without parameters
 *   data       its bytes as base64, strictly; line breaks in it are skipped, for PostgreSQL's
 *              encode(..., 'base64') makes them
 *   inline_id  optional: the HTML text shows it by <img src="cid:INLINE_ID">
 *
 * The bytes are never decoded: a mail carries them as base64, too. So checking them strictly is all
 * that remains to be done, and it is done here.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMAIL_MAX_ATTACHMENTS 20

struct email_attachment { /* all borrowed from the payload */
        const char *name;
        const char *type;
        const char *data; /* checked base64, with line breaks */
        const char *inline_id;
};

struct email_attachments {
        struct email_attachment items[EMAIL_MAX_ATTACHMENTS];
        size_t n;
        size_t n_inline;
};

/* `max_bytes` bounds all of them together, decoded. */
bool email_attachments_read(struct email_attachments *attachments, const json_t *payload,
    uint64_t max_bytes, struct outcome *out_rejected);

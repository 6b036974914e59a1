/*
 * How the requests to one receiver are signed: a scheme and its secrets, the
 * newest first. Several are for rotation: each one signs, so receivers may
 * change over one after another.
 */
#pragma once

#include "config/config.h"

#include <stddef.h>
#include <stdint.h>

struct bytes;
struct error;
struct http_signing;

/* NULL with error->kind untouched: nothing is to be signed (no secret, or signing: none). NULL with
 * *error set (ERROR_CONFIG, without the secret): one of them is none. */
struct http_signing *http_signing_create(enum http_signing_scheme scheme,
    const char *const *secrets, size_t n_secrets, struct error *error);

/* NULL is allowed. */
void http_signing_destroy(struct http_signing *signing);

/* The header that carries the signature. */
const char *http_signing_header(const struct http_signing *signing);

/* Appends that header's value, for exactly these bytes. `timestamp_s` as in webhook-timestamp. */
void http_signing_append(const struct http_signing *signing, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, struct bytes *out_value);

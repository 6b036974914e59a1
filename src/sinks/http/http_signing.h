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
struct webhook_signer;

/*
 * One secret at work: HMAC-SHA256, and on it the signatures of Standard Webhooks, version v1: over
 * "id.timestamp.body", as base64. The receiver's library checks them.
 */
#define WEBHOOK_HASH_BYTES     32
#define WEBHOOK_SIGNATURE_SIZE 48 /* "v1,", 44 digits, NUL */

/* `secret` is "whsec_" and 24 to 64 bytes in base64. On failure sets *error (ERROR_CONFIG, without
 * the secret) and returns NULL. */
struct webhook_signer *webhook_signer_create(const char *secret, struct error *error);

/* NULL is allowed. */
void webhook_signer_destroy(struct webhook_signer *signer);

/* `timestamp_s`: unix seconds, the same as in the webhook-timestamp header. */
void webhook_signer_sign(const struct webhook_signer *signer, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, char out_signature[static WEBHOOK_SIGNATURE_SIZE]);

/* NULL with error->kind untouched: nothing is to be signed (no secret, or signing: none). NULL with
 * *error set (ERROR_CONFIG, without the secret): one of the secrets is not valid. */
struct http_signing *http_signing_create(enum http_signing_scheme scheme,
    const char *const *secrets, size_t n_secrets, struct error *error);

/* NULL is allowed. */
void http_signing_destroy(struct http_signing *signing);

/* The header that carries the signature. */
const char *http_signing_header(const struct http_signing *signing);

/* Appends that header's value, for exactly these bytes. `timestamp_s` as in webhook-timestamp. */
void http_signing_append(const struct http_signing *signing, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, struct bytes *out_value);

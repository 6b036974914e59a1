/*
 * One secret at work: HMAC-SHA256, and on it the signatures of Standard
 * Webhooks, version v1: over "id.timestamp.body", as base64. The receiver's
 * library checks them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;
struct webhook_signer;

#define WEBHOOK_HASH_BYTES     32
#define WEBHOOK_SIGNATURE_SIZE 48 /* "v1,", 44 digits, NUL */

/* `secret` is "whsec_" and 24 to 64 bytes in base64. On failure sets *error (ERROR_CONFIG, without
 * the secret) and returns NULL. */
struct webhook_signer *webhook_signer_create(const char *secret, struct error *error);

/* The text itself is the key, as GitHub and Stripe have it. */
struct webhook_signer *webhook_signer_create_raw(const char *secret);

/* NULL is allowed. */
void webhook_signer_destroy(struct webhook_signer *signer);

/* `timestamp_s`: unix seconds, the same as in the webhook-timestamp header. */
void webhook_signer_sign(const struct webhook_signer *signer, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, char out_signature[static WEBHOOK_SIGNATURE_SIZE]);

/* The bare HMAC-SHA256 over `prefix` and then the body. */
void webhook_signer_hash(const struct webhook_signer *signer, const char *prefix, const void *body,
    size_t body_bytes, unsigned char out_hash[static WEBHOOK_HASH_BYTES]);

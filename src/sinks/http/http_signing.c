/*
 * Three schemes, one hash:
 *   standard  webhook-signature: v1,BASE64 v1,BASE64        over id.timestamp.body
 *   stripe    Stripe-Signature: t=TIMESTAMP,v1=HEX,v1=HEX   over timestamp.body
 *   github    X-Hub-Signature-256: sha256=HEX               over body; has room for one only
 * GitHub's covers neither time nor id, so what was overheard can be played again.
 */
#include "sinks/http/http_signing.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "sinks/http/webhook_signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct http_signing {
        enum http_signing_scheme scheme;
        size_t n_signers;
        struct webhook_signer *signers[];
};

struct http_signing *http_signing_create(enum http_signing_scheme scheme,
    const char *const *secrets, size_t n_secrets, struct error *error)
{
        struct http_signing *signing;

        if (scheme == HTTP_SIGNING_NONE || n_secrets == 0)
                return NULL;
        signing = xcalloc(1, sizeof *signing + n_secrets * sizeof(struct webhook_signer *));
        signing->scheme = scheme;
        for (size_t i = 0; i < n_secrets; i++) {
                struct webhook_signer *signer = NULL;

                if (scheme == HTTP_SIGNING_STANDARD)
                        signer = webhook_signer_create(secrets[i], error);
                else if (secrets[i][0] != '\0')
                        signer = webhook_signer_create_raw(secrets[i]);
                else
                        error_set(error, ERROR_CONFIG, "a secret to sign with is empty");
                if (signer == NULL) {
                        http_signing_destroy(signing);
                        return NULL;
                }
                signing->signers[signing->n_signers++] = signer;
        }
        return signing;
}

void http_signing_destroy(struct http_signing *signing)
{
        if (signing == NULL)
                return;
        for (size_t i = 0; i < signing->n_signers; i++)
                webhook_signer_destroy(signing->signers[i]);
        free(signing);
}

const char *http_signing_header(const struct http_signing *signing)
{
        switch (signing->scheme) {
        case HTTP_SIGNING_STANDARD:
                return "webhook-signature";
        case HTTP_SIGNING_GITHUB:
                return "X-Hub-Signature-256";
        case HTTP_SIGNING_STRIPE:
                return "Stripe-Signature";
        case HTTP_SIGNING_NONE:
                break;
        }
        abort();
}

static void append_hex(struct bytes *out, const unsigned char hash[static WEBHOOK_HASH_BYTES])
{
        for (size_t i = 0; i < WEBHOOK_HASH_BYTES; i++)
                bytes_printf(out, "%02x", hash[i]);
}

static void append_standard(const struct http_signing *signing, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, struct bytes *out)
{
        char signature[WEBHOOK_SIGNATURE_SIZE];

        for (size_t i = 0; i < signing->n_signers; i++) {
                webhook_signer_sign(
                    signing->signers[i], id, timestamp_s, body, body_bytes, signature);
                bytes_printf(out, "%s%s", i > 0 ? " " : "", signature);
        }
}

static void append_stripe(const struct http_signing *signing, int64_t timestamp_s, const void *body,
    size_t body_bytes, struct bytes *out)
{
        unsigned char hash[WEBHOOK_HASH_BYTES];
        char prefix[32];

        snprintf(prefix, sizeof prefix, "%" PRId64 ".", timestamp_s);
        bytes_printf(out, "t=%" PRId64, timestamp_s);
        for (size_t i = 0; i < signing->n_signers; i++) {
                webhook_signer_hash(signing->signers[i], prefix, body, body_bytes, hash);
                bytes_append_text(out, ",v1=");
                append_hex(out, hash);
        }
}

void http_signing_append(const struct http_signing *signing, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, struct bytes *out_value)
{
        unsigned char hash[WEBHOOK_HASH_BYTES];

        switch (signing->scheme) {
        case HTTP_SIGNING_STANDARD:
                append_standard(signing, id, timestamp_s, body, body_bytes, out_value);
                return;
        case HTTP_SIGNING_STRIPE:
                append_stripe(signing, timestamp_s, body, body_bytes, out_value);
                return;
        case HTTP_SIGNING_GITHUB:
                webhook_signer_hash(signing->signers[0], "", body, body_bytes, hash);
                bytes_append_text(out_value, "sha256=");
                append_hex(out_value, hash);
                return;
        case HTTP_SIGNING_NONE:
                break;
        }
        abort();
}

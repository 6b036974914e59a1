/*
 * Three schemes, one hash:
 *   standard  webhook-signature: v1,BASE64 v1,BASE64        over id.timestamp.body
 *   stripe    Stripe-Signature: t=TIMESTAMP,v1=HEX,v1=HEX   over timestamp.body
 *   github    X-Hub-Signature-256: sha256=HEX               over body; has room for one only
 * GitHub's covers neither time nor id, so what was overheard can be played again.
 *
 * A key lives in one place only: an HMAC context that has taken it in. Each signature continues
 * from a copy of that context, so the body is hashed where it lies, and the decoded secret is wiped
 * as soon as it has been taken in.
 */
#include "sinks/http/http_signing.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_PREFIX    "whsec_"
#define SECRET_MIN_BYTES 24
#define SECRET_MAX_BYTES 64
#define SECRET_MAX_TEXT  88 /* 64 bytes in base64 */

struct webhook_signer {
        EVP_MAC_CTX *keyed;
};

/* OpenSSL fails here only for want of memory. */
static void require(int is_done)
{
        if (!is_done)
                out_of_memory();
}

/* Strictly: EVP_DecodeBlock() alone would accept white space, and counts the padding as bytes.
 * Returns the number of bytes, 0 if `text` is not base64. */
static size_t decode_base64(const char *text, size_t length, unsigned char *out_bytes)
{
        size_t n_digits =
            strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
        size_t n_padding = strspn(text + n_digits, "=");
        int n_decoded;

        if (length == 0 || length % 4 != 0 || n_padding > 2 || n_digits + n_padding != length)
                return 0;
        n_decoded = EVP_DecodeBlock(out_bytes, (const unsigned char *)text, (int)length);
        return n_decoded < 0 ? 0 : (size_t)n_decoded - n_padding;
}

static EVP_MAC_CTX *keyed_context(const unsigned char *key, size_t key_bytes)
{
        char digest[] = "SHA256";
        const OSSL_PARAM params[] = {
            OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
            OSSL_PARAM_construct_end()};
        EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
        EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);

        require(context != NULL && EVP_MAC_init(context, key, key_bytes, params));
        EVP_MAC_free(hmac); /* the context keeps its own reference */
        return context;
}

struct webhook_signer *webhook_signer_create(const char *secret, struct error *error)
{
        unsigned char key[SECRET_MAX_TEXT];
        const char *text = secret + strlen(SECRET_PREFIX);
        struct webhook_signer *signer;
        size_t key_bytes;

        if (strncmp(secret, SECRET_PREFIX, strlen(SECRET_PREFIX)) != 0) {
                error_set(error, ERROR_CONFIG,
                    "the webhook secret does not begin with " SECRET_PREFIX
                    ": write \"" SECRET_PREFIX "\" followed by the key in base64");
                return NULL;
        }
        key_bytes = strlen(text) > SECRET_MAX_TEXT ? SECRET_MAX_BYTES + 1
                                                   : decode_base64(text, strlen(text), key);
        if (key_bytes < SECRET_MIN_BYTES || key_bytes > SECRET_MAX_BYTES) {
                OPENSSL_cleanse(key, sizeof key);
                if (key_bytes == 0)
                        error_set(error, ERROR_CONFIG,
                            "the webhook secret is not base64 after " SECRET_PREFIX
                            ": allowed are A-Z a-z 0-9 + / and padding with =");
                else
                        error_set(error, ERROR_CONFIG,
                            "the webhook secret's key has the wrong length: %d to %d bytes before "
                            "base64 are allowed",
                            SECRET_MIN_BYTES, SECRET_MAX_BYTES);
                return NULL;
        }
        signer = xcalloc(1, sizeof *signer);
        signer->keyed = keyed_context(key, key_bytes);
        OPENSSL_cleanse(key, sizeof key);
        return signer;
}

/* The text itself is the key, as GitHub and Stripe have it. */
static struct webhook_signer *create_raw(const char *secret)
{
        struct webhook_signer *signer = xcalloc(1, sizeof *signer);

        signer->keyed = keyed_context((const unsigned char *)secret, strlen(secret));
        return signer;
}

void webhook_signer_destroy(struct webhook_signer *signer)
{
        if (signer == NULL)
                return;
        EVP_MAC_CTX_free(signer->keyed); /* wipes the key */
        free(signer);
}

/* The bare HMAC-SHA256 over `prefix` and then the body. */
static void make_hash(const struct webhook_signer *signer, const char *prefix, const void *body,
    size_t body_bytes, unsigned char out_hash[static WEBHOOK_HASH_BYTES])
{
        EVP_MAC_CTX *context = EVP_MAC_CTX_dup(signer->keyed);
        size_t hash_bytes;

        require(context != NULL &&
                EVP_MAC_update(context, (const unsigned char *)prefix, strlen(prefix)) &&
                EVP_MAC_update(context, body, body_bytes) &&
                EVP_MAC_final(context, out_hash, &hash_bytes, WEBHOOK_HASH_BYTES) &&
                hash_bytes == WEBHOOK_HASH_BYTES);
        EVP_MAC_CTX_free(context);
}

void webhook_signer_sign(const struct webhook_signer *signer, const char *id, int64_t timestamp_s,
    const void *body, size_t body_bytes, char out_signature[static WEBHOOK_SIGNATURE_SIZE])
{
        unsigned char hash[WEBHOOK_HASH_BYTES];
        char *prefix = xasprintf("%s.%" PRId64 ".", id, timestamp_s);

        make_hash(signer, prefix, body, body_bytes, hash);
        free(prefix);
        memcpy(out_signature, "v1,", 3);
        EVP_EncodeBlock((unsigned char *)out_signature + 3, hash, sizeof hash);
}

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
                        signer = create_raw(secrets[i]);
                else
                        error_set(error, ERROR_CONFIG, "a signing secret is empty");
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
                make_hash(signing->signers[i], prefix, body, body_bytes, hash);
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
                make_hash(signing->signers[0], "", body, body_bytes, hash);
                bytes_append_text(out_value, "sha256=");
                append_hex(out_value, hash);
                return;
        case HTTP_SIGNING_NONE:
                break;
        }
        abort();
}

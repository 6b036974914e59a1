/* SECRET NUL ID NUL BODY: a secret is taken just if a decoder of its own can read it; then the
 * signature is that of OpenSSL's one-shot function. */
#include "sinks/http/http_signing.h"

#include "base/alloc.h"
#include "base/error.h"
#include "fuzz.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/* Strict base64 with padding, bit by bit. -1: it is none, or too long. */
static int decode(const char *text, unsigned char *out, size_t size)
{
        size_t length = strlen(text);
        size_t n = 0;
        unsigned bits = 0;
        unsigned n_bits = 0;

        if (length == 0 || length % 4 != 0)
                return -1;
        for (unsigned pads = 0; pads < 2 && text[length - 1] == '='; pads++)
                length--;
        for (size_t i = 0; i < length; i++) {
                const char *digit = strchr(DIGITS, text[i]);

                if (digit == NULL)
                        return -1;
                bits = (bits << 6 | (unsigned)(digit - DIGITS)) & 0xffff;
                n_bits += 6;
                if (n_bits < 8)
                        continue;
                if (n == size)
                        return -1;
                n_bits -= 8;
                out[n++] = (unsigned char)(bits >> n_bits);
        }
        return (int)n;
}

static void check_signature(const struct webhook_signer *signer, const unsigned char *key,
    int key_bytes, const char *id, const char *body, size_t body_bytes)
{
        char signature[WEBHOOK_SIGNATURE_SIZE];
        char expected[WEBHOOK_SIGNATURE_SIZE] = "v1,";
        unsigned char hash[EVP_MAX_MD_SIZE];
        char *head = xasprintf("%s.1793620800.", id);
        size_t head_bytes = strlen(head);
        char *all = xmalloc(head_bytes + body_bytes + 1);

        memcpy(all, head, head_bytes);
        memcpy(all + head_bytes, body, body_bytes);
        HMAC(EVP_sha256(), key, key_bytes, (unsigned char *)all, head_bytes + body_bytes, hash,
            NULL);
        EVP_EncodeBlock((unsigned char *)expected + 3, hash, WEBHOOK_HASH_BYTES);
        webhook_signer_sign(signer, id, 1793620800, body, body_bytes, signature);
        fuzz_require(strcmp(signature, expected) == 0, "it signs what is sent", signature);
        free(all);
        free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *secret = fuzz_take_text(&input);
        char *id = fuzz_take_text(&input);
        size_t body_bytes;
        char *body = fuzz_take_rest(&input, &body_bytes);
        struct error error = {.kind = ERROR_NONE};
        unsigned char key[64];
        int key_bytes =
            strncmp(secret, "whsec_", 6) == 0 ? decode(secret + 6, key, sizeof key) : -1;
        struct webhook_signer *signer = webhook_signer_create(secret, &error);

        fuzz_require(
            (signer != NULL) == (key_bytes >= 24), "just the secrets of 24 to 64 bytes", secret);
        if (signer != NULL)
                check_signature(signer, key, key_bytes, id, body, body_bytes);
        else
                fuzz_require(error.kind == ERROR_CONFIG && fuzz_is_one_line(error.text, false) &&
                                 (strlen(secret) < 12 || strstr(error.text, secret) == NULL),
                    "an error is one line without the secret", error.text);
        webhook_signer_destroy(signer);
        free(body);
        free(id);
        free(secret);
        return 0;
}

/*
 * An NKey is base32 without padding: a byte or two that say what kind of key it is, the key, and a
 * CRC-16 of all before it, low byte first. Of a seed the first two bytes hold two kinds: five bits
 * say that it is a seed, the next five whose.
 */
#include "sinks/nats/nats_credentials.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "config/secret.h"

#include <openssl/evp.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 64 * 1024 };
enum { SEED_TEXT = 58, SEED_DECODED = 2 + NATS_SEED_BYTES + 2 };
enum { KIND_SEED = 18 << 3, KIND_USER = 20 << 3 };

static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static uint16_t crc16(const unsigned char *data, size_t length)
{
        uint16_t crc = 0;

        for (size_t i = 0; i < length; i++) {
                crc ^= (uint16_t)(data[i] << 8);
                for (unsigned bit = 0; bit < 8; bit++)
                        crc = (uint16_t)((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
        }
        return crc;
}

/* False unless all of it is base32. */
static bool decode_base32(const char *text, size_t length, unsigned char *out)
{
        uint32_t bits = 0;
        unsigned n_bits = 0;

        for (size_t i = 0; i < length; i++) {
                const char *digit = text[i] != '\0' ? strchr(base32, text[i]) : NULL;
                if (digit == NULL)
                        return false;
                bits = bits << 5 | (uint32_t)(digit - base32);
                n_bits += 5;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        *out++ = (unsigned char)(bits >> n_bits);
                }
        }
        return true;
}

static void encode_base32(const unsigned char *data, size_t length, char *out)
{
        uint32_t bits = 0;
        unsigned n_bits = 0;

        for (size_t i = 0; i < length; i++) {
                bits = bits << 8 | data[i];
                for (n_bits += 8; n_bits >= 5; n_bits -= 5)
                        *out++ = base32[bits >> (n_bits - 5) & 31];
        }
        if (n_bits > 0)
                *out++ = base32[bits << (5 - n_bits) & 31];
        *out = '\0';
}

static EVP_PKEY *private_key(const unsigned char *seed)
{
        EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, NATS_SEED_BYTES);

        if (key == NULL)
                out_of_memory(); /* each 32 bytes are a seed */
        return key;
}

static void name_public_key(struct nats_credentials *credentials)
{
        unsigned char raw[1 + 32 + 2] = {KIND_USER};
        size_t length = 32;
        EVP_PKEY *key = private_key(credentials->seed);
        uint16_t crc;

        if (EVP_PKEY_get_raw_public_key(key, raw + 1, &length) != 1)
                out_of_memory();
        EVP_PKEY_free(key);
        crc = crc16(raw, 33);
        raw[33] = (unsigned char)(crc & 0xff);
        raw[34] = (unsigned char)(crc >> 8);
        encode_base32(raw, sizeof raw, credentials->public_key);
}

/* NULL, or what is wrong with it. */
static const char *decode_seed(const char *text, size_t length, unsigned char *out_seed)
{
        unsigned char raw[SEED_DECODED + 1];
        const char *problem = NULL;
        unsigned kind;

        if (length != SEED_TEXT)
                problem = "its seed does not have 58 characters";
        else if (!decode_base32(text, length, raw))
                problem = "its seed has characters that are not of base32 (A-Z, 2-7)";
        else if ((raw[SEED_DECODED - 2] | raw[SEED_DECODED - 1] << 8) !=
                 crc16(raw, SEED_DECODED - 2))
                problem = "its seed has a wrong checksum: a character is missing or changed";
        if (problem == NULL) {
                kind = (unsigned)((raw[0] & 7) << 5 | raw[1] >> 3);
                if ((raw[0] & 0xf8) != KIND_SEED)
                        problem = "its key is no seed (SU…)";
                else if (kind != KIND_USER)
                        problem = "its seed is not a user's (SU…)";
        }
        if (problem == NULL)
                memcpy(out_seed, raw + 2, NATS_SEED_BYTES);
        explicit_bzero(raw, sizeof raw);
        return problem;
}

static bool take_seed(const char *file, const char *text, size_t length,
    struct nats_credentials *out, struct error *error)
{
        const char *problem = decode_seed(text, length, out->seed);

        if (problem != NULL)
                return error_set(error, ERROR_CONFIG, "%s: %s", file, problem);
        out->has_seed = true;
        name_public_key(out);
        return true;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool nats_credentials_parse_seed(
    const char *file, const char *text, struct nats_credentials *out, struct error *error)
{
        size_t length;

        *out = (struct nats_credentials){0};
        while (is_blank(*text))
                text++;
        length = strcspn(text, " \t\r\n");
        if (length == 0)
                return error_set(
                    error, ERROR_CONFIG, "%s is empty; it must hold a seed (SU…)", file);
        for (const char *rest = text + length; *rest != '\0'; rest++)
                if (!is_blank(*rest))
                        return error_set(
                            error, ERROR_CONFIG, "%s holds more than a seed (SU…)", file);
        return take_seed(file, text, length, out, error);
}

/* What stands between the lines -----BEGIN <name>----- and the next one that begins with dashes,
 * without blanks around it. False: there is none. */
static bool find_section(
    const char *text, const char *name, const char **out_begin, size_t *out_length)
{
        const char *begin = strstr(text, name);
        const char *end;

        if (begin == NULL)
                return false;
        begin = strchr(begin, '\n');
        if (begin == NULL)
                return false;
        while (is_blank(*begin))
                begin++;
        end = strstr(begin, "---");
        if (end == NULL || end == begin)
                return false;
        while (end > begin && is_blank(end[-1]))
                end--;
        *out_begin = begin;
        *out_length = (size_t)(end - begin);
        return true;
}

static bool is_jwt(const char *text, size_t length)
{
        unsigned n_dots = 0;

        for (size_t i = 0; i < length; i++) {
                const char c = text[i];
                if (c == '.')
                        n_dots++;
                else if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                             (c >= '0' && c <= '9') || c == '-' || c == '_'))
                        return false;
        }
        return n_dots == 2;
}

bool nats_credentials_parse_creds(
    const char *file, const char *text, struct nats_credentials *out, struct error *error)
{
        const char *jwt;
        const char *seed;
        size_t jwt_bytes;
        size_t seed_bytes;

        *out = (struct nats_credentials){0};
        if (!find_section(text, "BEGIN NATS USER JWT", &jwt, &jwt_bytes))
                return error_set(
                    error, ERROR_CONFIG, "%s has no section BEGIN NATS USER JWT", file);
        if (!is_jwt(jwt, jwt_bytes))
                return error_set(error, ERROR_CONFIG,
                    "%s: what follows BEGIN NATS USER JWT is not a JWT: three parts of base64 with "
                    "dots between them",
                    file);
        if (!find_section(text, "BEGIN USER NKEY SEED", &seed, &seed_bytes))
                return error_set(
                    error, ERROR_CONFIG, "%s has no section BEGIN USER NKEY SEED", file);
        if (!take_seed(file, seed, seed_bytes, out, error))
                return false;
        out->jwt = xstrndup(jwt, jwt_bytes);
        return true;
}

bool nats_credentials_read(
    const struct nats_config *config, struct nats_credentials *out, struct error *error)
{
        const char *file = config->creds_file != NULL ? config->creds_file : config->nkey_file;
        struct error cause;
        size_t length;
        char *text;
        bool is_read;

        *out = (struct nats_credentials){0};
        if (file == NULL)
                return true;
        text = secret_read_bytes(file, MAX_FILE_BYTES, &length, &cause);
        if (text == NULL)
                return error_set(error, cause.kind, "%s %s", file, cause.text);
        is_read = config->creds_file != NULL ? nats_credentials_parse_creds(file, text, out, error)
                                             : nats_credentials_parse_seed(file, text, out, error);
        secret_free_bytes(text, length);
        return is_read;
}

void nats_credentials_deinit(struct nats_credentials *credentials)
{
        secret_free(credentials->jwt);
        explicit_bzero(credentials, sizeof *credentials);
}

/* As in URLs, and without padding. */
static void make_url_safe(char *base64)
{
        base64[strcspn(base64, "=")] = '\0';
        for (; *base64 != '\0'; base64++) {
                if (*base64 == '+')
                        *base64 = '-';
                else if (*base64 == '/')
                        *base64 = '_';
        }
}

char *nats_credentials_sign(const struct nats_credentials *credentials, const char *nonce)
{
        unsigned char signature[64];
        size_t length = sizeof signature;
        EVP_PKEY *key = private_key(credentials->seed);
        EVP_MD_CTX *context = EVP_MD_CTX_new();
        char *text = xmalloc(4 * ((sizeof signature + 2) / 3) + 1);

        if (context == NULL || EVP_DigestSignInit(context, NULL, NULL, NULL, key) != 1 ||
            EVP_DigestSign(
                context, signature, &length, (const unsigned char *)nonce, strlen(nonce)) != 1)
                out_of_memory();
        EVP_MD_CTX_free(context);
        EVP_PKEY_free(key);
        EVP_EncodeBlock((unsigned char *)text, signature, (int)length);
        make_url_safe(text);
        return text;
}

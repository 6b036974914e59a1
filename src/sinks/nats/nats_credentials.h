/*
 * Who we are to a NATS server: an NKey (an Ed25519 key as a text), alone or with a JWT in a creds
 * file. Files are read at each connect, so that they can be renewed while the relay runs. No error
 * repeats what is in a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct nats_config;

enum { NATS_SEED_BYTES = 32, NATS_PUBLIC_KEY_TEXT = 57 /* with its NUL */ };

struct nats_credentials {
        char *jwt; /* owned; NULL: none */
        bool has_seed;
        unsigned char seed[NATS_SEED_BYTES];
        char public_key[NATS_PUBLIC_KEY_TEXT]; /* "U…"; with a seed */
};

/* Reads what the configuration names; all empty if it names no file. On failure sets *error to
 * what is wrong with which file. */
bool nats_credentials_read(
    const struct nats_config *config, struct nats_credentials *out, struct error *error);

/* Clears the secrets. */
void nats_credentials_deinit(struct nats_credentials *credentials);

/* The same from the text of a creds file, or of one with a seed alone; `file` is its name for the
 * error. */
bool nats_credentials_parse_creds(
    const char *file, const char *text, struct nats_credentials *out, struct error *error);
bool nats_credentials_parse_seed(
    const char *file, const char *text, struct nats_credentials *out, struct error *error);

/* The signature of the server's nonce, in base64 as URLs have it. Free it. */
char *nats_credentials_sign(const struct nats_credentials *credentials, const char *nonce);

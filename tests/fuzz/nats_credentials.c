/*
 * The text of a creds file, or of one with a seed: an error never repeats what is in it, and a seed
 * with a changed character is none.
 */
#include "sinks/nats/nats_credentials.h"

#include "base/error.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { SEED_TEXT = 58, WINDOW = 12 };

/* An error is made of our words: no run of the file's characters is in it that is not in them. */
static void check_error(const struct error *error, const char *text)
{
        static const char ours[] =
            "/etc/creds is empty; it must hold a seed (SU…) holds more than a "
            "seed (SU…) has no section BEGIN NATS USER JWT has no section "
            "BEGIN USER NKEY SEED: what follows BEGIN NATS USER JWT is not a "
            "JWT: three parts of base64 with dots between them: its seed does "
            "not have 58 characters: its seed has characters that are not of "
            "base32 (A-Z, 2-7): its seed has a wrong checksum: a character is "
            "missing or changed: its key is no seed (SU…): its seed is not a "
            "user's (SU…)";
        char window[WINDOW + 1] = "";

        fuzz_require(
            strncmp(error->text, "/etc/creds", 10) == 0, "an error names the file", error->text);
        for (size_t i = 0; strlen(text) >= WINDOW && i <= strlen(text) - WINDOW; i++) {
                memcpy(window, text + i, WINDOW);
                fuzz_require(strstr(error->text, window) == NULL || strstr(ours, window) != NULL,
                    "no secret is repeated", error->text);
        }
}

static void check_accepted(struct nats_credentials *credentials)
{
        char *signature = nats_credentials_sign(credentials, "nonce");

        fuzz_require(credentials->has_seed && credentials->public_key[0] == 'U' &&
                         strlen(credentials->public_key) == 56,
            "a user has a key", credentials->public_key);
        fuzz_require(strlen(signature) == 86 && strpbrk(signature, "+/=\r\n\"") == NULL,
            "a signature goes into JSON", signature);
        fuzz_require(credentials->jwt == NULL || strpbrk(credentials->jwt, " \r\n\"\\{}") == NULL,
            "a JWT goes into JSON", "");
        free(signature);
        nats_credentials_deinit(credentials);
}

static void check_changes(const char *text)
{
        char *copy = strdup(text);
        char *seed = copy + strspn(copy, " \t\r\n");
        struct nats_credentials credentials;
        struct error error;

        for (size_t i = 0; i < SEED_TEXT; i++) {
                const char was = seed[i];

                seed[i] = was == 'A' ? 'B' : 'A';
                fuzz_require(!nats_credentials_parse_seed("f", copy, &credentials, &error),
                    "a changed seed is none", "");
                seed[i] = was;
        }
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        size_t length;
        char *text = fuzz_take_rest(&input, &length);
        char *copy = malloc(length + 1);
        struct nats_credentials credentials;
        struct error error;

        memcpy(copy, text, length);
        copy[length] = '\0';
        if (nats_credentials_parse_creds("/etc/creds", copy, &credentials, &error))
                check_accepted(&credentials);
        else
                check_error(&error, copy);
        if (nats_credentials_parse_seed("/etc/creds", copy, &credentials, &error)) {
                check_accepted(&credentials);
                check_changes(copy);
        } else {
                check_error(&error, copy);
        }
        free(copy);
        free(text);
        return 0;
}

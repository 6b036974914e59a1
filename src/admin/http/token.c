#include "admin/http/token.h"

#include "base/alloc.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

static void hash(const char *text, unsigned char out_hash[32])
{
        if (EVP_Digest(text, strlen(text), out_hash, NULL, EVP_sha256(), NULL) != 1)
                out_of_memory();
}

void token_init(struct token *token, const char *text)
{
        token->is_set = text != NULL;
        if (text != NULL)
                hash(text, token->hash);
}

bool token_matches(const struct token *token, const char *authorization)
{
        static const char scheme[] = "Bearer ";
        unsigned char given[32];

        if (!token->is_set || authorization == NULL ||
            strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
                return false;
        /* Texts of any length become 32 bytes, and those are compared to their end. */
        hash(authorization + sizeof scheme - 1, given);
        return CRYPTO_memcmp(given, token->hash, sizeof given) == 0;
}

#include "admin/http/access.h"

#include "base/alloc.h"

#include <arpa/inet.h>
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

/* "name", "name:port", "[ip6]", "[ip6]:port" without the port and the brackets. */
static bool take_name(const char *host, char *out_name, size_t size, bool *out_is_ip6)
{
        bool has_bracket = host[0] == '[';
        const char *start = has_bracket ? host + 1 : host;
        size_t length = strcspn(start, has_bracket ? "]" : ":");
        const char *rest = start + length;

        if (length == 0 || length >= size || (has_bracket && *rest++ != ']'))
                return false;
        if (*rest == ':')
                rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest != '\0')
                return false;
        memcpy(out_name, start, length);
        out_name[length] = '\0';
        *out_is_ip6 = has_bracket;
        return true;
}

bool host_is_ours(const struct admin_config *config, const char *host)
{
        char name[256];
        unsigned char address[16];
        bool is_ip6;

        if (host == NULL || !take_name(host, name, sizeof name, &is_ip6))
                return false;
        if (is_ip6)
                return inet_pton(AF_INET6, name, address) == 1;
        if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
                return true;
        for (unsigned i = 0; i < config->n_allowed_hosts; i++)
                if (strcasecmp(name, config->allowed_hosts[i]) == 0)
                        return true;
        return false;
}

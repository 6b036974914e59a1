/* Whether a request carries the configured token. Only its hash is kept in memory here. */
#pragma once

#include <stdbool.h>

struct token {
        bool is_set;
        unsigned char hash[32]; /* SHA-256 */
};

void token_init(struct token *token, const char *text); /* NULL: none is configured */

/* `authorization` is the header's value, or NULL. How long it takes tells nothing of the token. */
bool token_matches(const struct token *token, const char *authorization);

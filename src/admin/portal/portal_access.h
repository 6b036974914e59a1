/*
 * Who gets into the portal, and how often: the tokens of links, and token
 * buckets. Pure but for the random bytes of a new token; times are the caller's.
 *
 * A token is 32 random bytes as base64url. The database has the SHA-256 of its
 * text, and finds the link by that: how long this takes tells nothing of a token,
 * since nobody can choose a hash.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define PORTAL_TOKEN_LENGTH 43
#define PORTAL_HASH_LENGTH  64 /* as hexadecimal digits */

struct portal_hash {
        char text[PORTAL_HASH_LENGTH + 1];
};

/* A new token, and its hash. */
void portal_token_make(char out_token[PORTAL_TOKEN_LENGTH + 1], struct portal_hash *out_hash);

/* False if no token looks like that; nothing needs to be asked then. */
bool portal_token_hash(const char *token, struct portal_hash *out_hash);

/* The token of an Authorization header, or NULL; `authorization` may be NULL. */
const char *portal_token_of(const char *authorization);

struct portal_bucket {
        double tokens;
        int64_t filled_us;
};

struct portal_rate {
        double per_second;
        double burst;
};

/*
 * A link that was found valid has a bucket of its own. Until then a request
 * counts as a guess: against its address, and against all guesses together,
 * because behind a proxy all come from one address. A guess that was right is
 * given back, so only wrong ones are counted; a client with a link that is known
 * does not notice that others guess.
 *
 * Two links, or two addresses, whose hashes fall on the same place share it: so
 * the memory has a bound without anything that must be forgotten in time.
 */
enum { PORTAL_KNOWN = 1024, PORTAL_PEERS = 256 };

struct portal_access {
        struct portal_known {
                struct portal_hash hash; /* "" where there is none */
                struct portal_bucket bucket;
                unsigned n_under_way; /* questions to the database */
        } known[PORTAL_KNOWN];
        struct portal_bucket peers[PORTAL_PEERS];
        struct portal_bucket guesses;
        uint64_t seed; /* of the places of addresses: nobody can choose to share another's */
};

void portal_access_init(struct portal_access *access, int64_t now_us);

/* 0: the request may be made. Else how many seconds to wait before the next one. `cost` is 1 for
 * most. `peer` NULL: a unix socket. */
unsigned portal_access_take(struct portal_access *access, const struct portal_hash *hash,
    const struct sockaddr *peer, double cost, int64_t now_us);

/* The same for a request whose token cannot be one. */
unsigned portal_access_take_guess(
    struct portal_access *access, const struct sockaddr *peer, int64_t now_us);

/* A question is put to the database, and answered. False: this link has too many under way; it is
 * one link's, so that all others have the connection, too. */
bool portal_access_begin(struct portal_access *access, const struct portal_hash *hash);
void portal_access_end(struct portal_access *access, const struct portal_hash *hash);

/* What the database said of a token: it is known from now on, and the guess is given back. Or there
 * is no such link, perhaps not any more. */
void portal_access_learn(struct portal_access *access, const struct portal_hash *hash,
    const struct sockaddr *peer, bool is_valid, int64_t now_us);

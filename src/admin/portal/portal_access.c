#include "admin/portal/portal_access.h"

#include "base/alloc.h"

#include <assert.h>
#include <math.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

static const struct portal_rate link_rate = {.per_second = 10, .burst = 40};
static const struct portal_rate peer_rate = {.per_second = 1, .burst = 20};
static const struct portal_rate guess_rate = {.per_second = 10, .burst = 100};

enum { MAX_UNDER_WAY = 4 };

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void fill_randomly(void *out, size_t size)
{
        if (getrandom(out, size, 0) != (ssize_t)size) /* so few bytes come whole */
                abort();
}

static void hash_text(const char *text, struct portal_hash *out_hash)
{
        unsigned char bytes[PORTAL_HASH_LENGTH / 2];

        if (EVP_Digest(text, strlen(text), bytes, NULL, EVP_sha256(), NULL) != 1)
                out_of_memory();
        for (size_t i = 0; i < sizeof bytes; i++)
                snprintf(out_hash->text + 2 * i, 3, "%02x", bytes[i]);
}

void portal_token_make(char out_token[PORTAL_TOKEN_LENGTH + 1], struct portal_hash *out_hash)
{
        unsigned char bytes[33] = {0}; /* and one that fills up the last group */

        fill_randomly(bytes, 32);
        for (size_t i = 0; i < PORTAL_TOKEN_LENGTH; i++) {
                const unsigned char *group = bytes + i / 4 * 3;
                uint32_t bits = (uint32_t)(group[0] << 16 | group[1] << 8 | group[2]);

                out_token[i] = digits[bits >> (18 - 6 * (i % 4)) & 63];
        }
        out_token[PORTAL_TOKEN_LENGTH] = '\0';
        hash_text(out_token, out_hash);
}

bool portal_token_hash(const char *token, struct portal_hash *out_hash)
{
        if (strlen(token) != PORTAL_TOKEN_LENGTH || strspn(token, digits) != PORTAL_TOKEN_LENGTH)
                return false;
        hash_text(token, out_hash);
        return true;
}

const char *portal_token_of(const char *authorization)
{
        static const char scheme[] = "Bearer ";

        if (authorization == NULL || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
                return NULL;
        return authorization + sizeof scheme - 1;
}

static void fill(struct portal_bucket *bucket, const struct portal_rate *rate, int64_t now_us)
{
        bucket->tokens += (double)(now_us - bucket->filled_us) / 1e6 * rate->per_second;
        if (bucket->tokens > rate->burst)
                bucket->tokens = rate->burst;
        bucket->filled_us = now_us;
}

/* Seconds until there is enough; 0: there is. */
static unsigned lacking(
    struct portal_bucket *bucket, const struct portal_rate *rate, double cost, int64_t now_us)
{
        fill(bucket, rate, now_us);
        if (bucket->tokens >= cost)
                return 0;
        return (unsigned)ceil((cost - bucket->tokens) / rate->per_second);
}

void portal_access_init(struct portal_access *access, int64_t now_us)
{
        *access =
            (struct portal_access){.guesses = {.tokens = guess_rate.burst, .filled_us = now_us}};
        for (size_t i = 0; i < PORTAL_PEERS; i++)
                access->peers[i] =
                    (struct portal_bucket){.tokens = peer_rate.burst, .filled_us = now_us};
        fill_randomly(&access->seed, sizeof access->seed);
}

/* Of IPv6 the network: a host has all of its addresses. FNV-1a, begun with the seed. */
static struct portal_bucket *peer_of(struct portal_access *access, const struct sockaddr *peer)
{
        unsigned char bytes[8] = {0};
        uint64_t place = access->seed;

        if (peer != NULL && peer->sa_family == AF_INET)
                memcpy(bytes, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
        else if (peer != NULL && peer->sa_family == AF_INET6)
                memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, 8);
        for (size_t i = 0; i < sizeof bytes; i++)
                place = (place ^ bytes[i]) * UINT64_C(0x100000001b3);
        return &access->peers[(place ^ place >> 32) % PORTAL_PEERS];
}

static struct portal_known *known_of(struct portal_access *access, const struct portal_hash *hash)
{
        char first[9] = "";

        memcpy(first, hash->text, sizeof first - 1);
        return &access->known[strtoul(first, NULL, 16) % PORTAL_KNOWN];
}

unsigned portal_access_take_guess(
    struct portal_access *access, const struct sockaddr *peer, int64_t now_us)
{
        struct portal_bucket *its = peer_of(access, peer);
        unsigned wait_s = lacking(its, &peer_rate, 1, now_us);
        unsigned wait_all_s = lacking(&access->guesses, &guess_rate, 1, now_us);

        if (wait_s > 0 || wait_all_s > 0)
                return wait_s > wait_all_s ? wait_s : wait_all_s;
        its->tokens--;
        access->guesses.tokens--;
        return 0;
}

unsigned portal_access_take(struct portal_access *access, const struct portal_hash *hash,
    const struct sockaddr *peer, double cost, int64_t now_us)
{
        struct portal_known *known = known_of(access, hash);
        unsigned wait_s;

        if (strcmp(known->hash.text, hash->text) != 0)
                return portal_access_take_guess(access, peer, now_us);
        wait_s = lacking(&known->bucket, &link_rate, cost, now_us);
        if (wait_s == 0)
                known->bucket.tokens -= cost;
        return wait_s;
}

bool portal_access_begin(struct portal_access *access, const struct portal_hash *hash)
{
        struct portal_known *known = known_of(access, hash);

        if (strcmp(known->hash.text, hash->text) != 0)
                return true; /* it counts as a guess */
        if (known->n_under_way >= MAX_UNDER_WAY)
                return false;
        known->n_under_way++;
        return true;
}

/* It may have been another link's place when the question began. */
void portal_access_end(struct portal_access *access, const struct portal_hash *hash)
{
        struct portal_known *known = known_of(access, hash);

        if (strcmp(known->hash.text, hash->text) == 0 && known->n_under_way > 0)
                known->n_under_way--;
}

void portal_access_learn(struct portal_access *access, const struct portal_hash *hash,
    const struct sockaddr *peer, bool is_valid, int64_t now_us)
{
        struct portal_known *known = known_of(access, hash);
        bool is_known = strcmp(known->hash.text, hash->text) == 0;

        if (!is_valid && is_known)
                known->hash.text[0] = '\0';
        if (!is_valid || is_known)
                return;
        known->hash = *hash;
        known->n_under_way = 0;
        known->bucket = (struct portal_bucket){.tokens = link_rate.burst - 1, .filled_us = now_us};
        peer_of(access, peer)->tokens++;
        access->guesses.tokens++;
}

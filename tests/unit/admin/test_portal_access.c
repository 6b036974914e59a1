/* Tokens of links, and how often one may ask. */
#include "admin/portal/portal_access.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)

static struct portal_access *access_of(int64_t now_us)
{
        struct portal_access *access = xcalloc(1, sizeof *access);

        portal_access_init(access, now_us);
        return access;
}

static struct sockaddr_in6 ip6(const char *text)
{
        struct sockaddr_in6 address = {.sin6_family = AF_INET6};

        cr_assert_eq(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
        return address;
}

static struct portal_hash new_hash(void)
{
        char token[PORTAL_TOKEN_LENGTH + 1];
        struct portal_hash hash;

        portal_token_make(token, &hash);
        return hash;
}

Test(portal_access, makes_tokens_that_differ_and_have_their_hash)
{
        char a[PORTAL_TOKEN_LENGTH + 1], b[PORTAL_TOKEN_LENGTH + 1];
        struct portal_hash hash_a, hash_b, again;

        portal_token_make(a, &hash_a);
        portal_token_make(b, &hash_b);
        cr_expect_str_neq(a, b);
        cr_expect_str_neq(hash_a.text, hash_b.text);
        cr_expect(portal_token_hash(a, &again));
        cr_expect_str_eq(again.text, hash_a.text);
        cr_expect(portal_token_hash("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &again));
        cr_expect_str_eq(
            again.text, "0f007385b6f9d4b7eeb2748605afe1a984a0a3bfa3f014d09e2a784ce9e5cd1a");
}

Test(portal_access, takes_nothing_for_a_token_that_is_none)
{
        static const char *const wrong[] = {"", "short",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* 42 */
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA A",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "'OR 1=1--AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
        struct portal_hash hash;

        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
                cr_expect_not(portal_token_hash(wrong[i], &hash), "%s", wrong[i]);
        cr_expect_null(portal_token_of(NULL));
        cr_expect_null(portal_token_of("Basic abc"));
        cr_expect_null(portal_token_of("Bearer"));
        cr_expect_str_eq(portal_token_of("bearer abc"), "abc");
}

static unsigned count_guesses(
    struct portal_access *access, const struct sockaddr *peer, int64_t now_us)
{
        unsigned n = 0;

        while (n < 1000 && portal_access_take_guess(access, peer, now_us) == 0)
                n++;
        return n;
}

Test(portal_access, counts_guesses_by_address_and_all_together)
{
        struct portal_access *access = access_of(0);
        struct sockaddr_in6 a = ip6("2001:db8::1"), same = ip6("2001:db8::ffff:1");
        unsigned n = count_guesses(access, (struct sockaddr *)&a, 0);
        unsigned n_all = n;

        cr_expect_eq(n, 20);
        cr_expect_eq(
            count_guesses(access, (struct sockaddr *)&same, 0), 0, "a host has its network");
        cr_expect_eq(count_guesses(access, (struct sockaddr *)&a, 3 * SECOND), 3);
        for (uint32_t i = 1; i < 1000; i++) {
                struct sockaddr_in other = {
                    .sin_family = AF_INET, .sin_addr.s_addr = htonl(i << 8)};

                n_all += count_guesses(access, (struct sockaddr *)&other, 3 * SECOND);
        }
        cr_expect_leq(n_all, 130, "%u", n_all);
        cr_expect_geq(n_all, 100, "%u", n_all);
        free(access);
}

Test(portal_access, gives_a_right_guess_back_and_lets_a_known_link_in_meanwhile)
{
        struct portal_access *access = access_of(0);
        struct portal_hash known = new_hash(), unknown = new_hash();

        for (int i = 0; i < 1000; i++) {
                struct portal_hash hash = new_hash();

                cr_assert_eq(portal_access_take(access, &hash, NULL, 1, 0), 0, "%d", i);
                portal_access_learn(access, &hash, NULL, true, 0);
        }
        cr_expect_eq(portal_access_take(access, &known, NULL, 1, 0), 0);
        portal_access_learn(access, &known, NULL, true, 0);
        count_guesses(access, NULL, 0);
        cr_expect_neq(portal_access_take(access, &unknown, NULL, 1, 0), 0);
        cr_expect_eq(portal_access_take(access, &known, NULL, 1, 0), 0);
        portal_access_learn(access, &known, NULL, false, 0);
        cr_expect_neq(portal_access_take(access, &known, NULL, 1, 0), 0, "it was withdrawn");
        free(access);
}

/* Hashes are even in each of their digits, so links share a place as seldom as can be. */
Test(portal_access, uses_all_its_places)
{
        struct portal_access *access = access_of(0);
        struct portal_hash hash;

        for (unsigned i = 0; i < PORTAL_KNOWN; i++) {
                snprintf(hash.text, sizeof hash.text, "%08x%056x", i, 0);
                portal_access_learn(access, &hash, NULL, true, 0);
        }
        count_guesses(access, NULL, 0);
        for (unsigned i = 0; i < PORTAL_KNOWN; i++) {
                snprintf(hash.text, sizeof hash.text, "%08x%056x", i, 0);
                cr_expect_eq(portal_access_take(access, &hash, NULL, 1, 0), 0, "%u", i);
        }
        free(access);
}

Test(portal_access, bounds_how_often_and_how_much_at_once_a_link_asks)
{
        struct portal_access *access = access_of(0);
        struct portal_hash hash = new_hash();
        unsigned n = 0;

        portal_access_take(access, &hash, NULL, 1, 0);
        portal_access_learn(access, &hash, NULL, true, 0);
        while (n < 1000 && portal_access_take(access, &hash, NULL, 1, 0) == 0)
                n++;
        cr_expect_eq(n, 39);
        cr_expect_eq(portal_access_take(access, &hash, NULL, 10, 0), 1);
        cr_expect_eq(portal_access_take(access, &hash, NULL, 10, SECOND), 0);
        cr_expect_neq(portal_access_take(access, &hash, NULL, 1, SECOND), 0);

        for (int i = 0; i < 4; i++)
                cr_expect(portal_access_begin(access, &hash));
        cr_expect_not(portal_access_begin(access, &hash));
        portal_access_end(access, &hash);
        cr_expect(portal_access_begin(access, &hash));
        free(access);
}

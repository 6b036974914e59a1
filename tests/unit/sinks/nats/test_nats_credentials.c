#include "sinks/nats/nats_credentials.h"

#include "base/error.h"
#include "integration/nats_keys.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The pair that NATS' own documentation shows. */
#define SEED "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
#define KEY  "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

Test(nats_credentials, reads_a_seed)
{
        struct nats_credentials credentials;
        struct error error;

        cr_assert(nats_credentials_parse_seed("f", "\n " SEED "\r\n", &credentials, &error));
        cr_expect(credentials.has_seed && credentials.jwt == NULL);
        cr_expect_str_eq(credentials.public_key, KEY);
        nats_credentials_deinit(&credentials);
        cr_assert(nats_credentials_parse_seed("f", USER_SEED, &credentials, &error));
        cr_expect_str_eq(credentials.public_key, USER_KEY);
        nats_credentials_deinit(&credentials);
}

Test(nats_credentials, signs_as_urls_have_it)
{
        struct nats_credentials credentials;
        struct error error;
        char *signature;

        cr_assert(nats_credentials_parse_seed("f", USER_SEED, &credentials, &error));
        signature = nats_credentials_sign(&credentials, "nonce");
        cr_expect(strlen(signature) == 86);
        cr_expect(strspn(signature, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                    "-_") == 86);
        free(signature);
        nats_credentials_deinit(&credentials);
}

static void expect_no_seed(const char *text, const char *words)
{
        struct nats_credentials credentials;
        struct error error;

        cr_expect(
            !nats_credentials_parse_seed("/etc/seed", text, &credentials, &error), "%s", text);
        cr_expect(strstr(error.text, "/etc/seed") != NULL, "%s", error.text);
        cr_expect(strstr(error.text, words) != NULL, "%s", error.text);
        cr_expect(*text == '\0' || strstr(error.text, text) == NULL, "%s", error.text);
}

Test(nats_credentials, says_what_is_wrong_with_a_seed_and_never_repeats_it)
{
        expect_no_seed("", "is empty");
        expect_no_seed("SUACSSL3", "58 characters");
        expect_no_seed("sUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY", "base32");
        expect_no_seed("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VA", "checksum");
        expect_no_seed("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYBU3VY", "checksum");
        expect_no_seed(ACCOUNT_SEED, "not a user's");
        expect_no_seed(SEED " and more", "more than a seed");
}

#define CREDS(jwt, seed)                                                                           \
        "-----BEGIN NATS USER JWT-----\n" jwt "\n------END NATS USER JWT------\n\n"                \
        "-----BEGIN USER NKEY SEED-----\n" seed "\n------END USER NKEY SEED------\n"

Test(nats_credentials, reads_a_jwt_and_its_seed)
{
        struct nats_credentials credentials;
        struct error error;

        cr_assert(
            nats_credentials_parse_creds("f", CREDS(USER_JWT, USER_SEED), &credentials, &error));
        cr_expect_str_eq(credentials.jwt, USER_JWT);
        cr_expect_str_eq(credentials.public_key, USER_KEY);
        nats_credentials_deinit(&credentials);
        cr_assert(nats_credentials_parse_creds("f",
            "-----BEGIN NATS USER JWT-----\r\na.b.c\r\n------END NATS USER JWT------\r\n"
            "-----BEGIN USER NKEY SEED-----\r\n" SEED "\r\n------END USER NKEY SEED------",
            &credentials, &error));
        cr_expect_str_eq(credentials.jwt, "a.b.c");
        nats_credentials_deinit(&credentials);
}

static void expect_no_creds(const char *text, const char *words)
{
        struct nats_credentials credentials;
        struct error error;

        cr_expect(
            !nats_credentials_parse_creds("/etc/creds", text, &credentials, &error), "%s", text);
        cr_expect(strstr(error.text, "/etc/creds") != NULL, "%s", error.text);
        cr_expect(strstr(error.text, words) != NULL, "%s", error.text);
        cr_expect(credentials.jwt == NULL);
}

Test(nats_credentials, says_what_is_wrong_with_a_file)
{
        expect_no_creds("", "no section BEGIN NATS USER JWT");
        expect_no_creds("-----BEGIN NATS USER JWT-----", "no section BEGIN NATS USER JWT");
        expect_no_creds("-----BEGIN NATS USER JWT-----\na.b.c", "no section BEGIN NATS USER JWT");
        expect_no_creds(CREDS("a.b", SEED), "is not a JWT");
        expect_no_creds(CREDS("a.b.\"c", SEED), "is not a JWT");
        expect_no_creds("-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n",
            "no section BEGIN USER NKEY SEED");
        expect_no_creds(CREDS("a.b.c", "SUSECRET"), "58 characters");
}

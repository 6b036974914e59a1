/* Vectors made by others: the specification of Standard Webhooks, GitHub's documentation,
 * openssl. */
#include "base/bytes.h"
#include "base/error.h"
#include "sinks/http/http_signing.h"

#include <criterion/criterion.h>
#include <string.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define BODY   "{\"test\": 2432232314}"
#define FIRST  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

#define ID        "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define TIMESTAMP 1614265330

static void expect_signature(enum http_signing_scheme scheme, const char *const *secrets,
    size_t n_secrets, const char *body, const char *header, const char *value)
{
        struct error error = {.kind = ERROR_NONE};
        struct http_signing *signing = http_signing_create(scheme, secrets, n_secrets, &error);
        struct bytes actual = {0};

        cr_assert_not_null(signing, "%s", error.text);
        http_signing_append(signing, ID, TIMESTAMP, body, strlen(body), &actual);
        cr_expect_str_eq(http_signing_header(signing), header);
        cr_expect_str_eq(actual.data, value);
        bytes_deinit(&actual);
        http_signing_destroy(signing);
}

Test(http_signing, signs_as_the_specification_of_standard_webhooks_shows)
{
        const char *const secrets[] = {SECRET};

        expect_signature(HTTP_SIGNING_STANDARD, secrets, 1, BODY, "webhook-signature", FIRST);
}

Test(http_signing, signs_with_each_secret_while_they_change)
{
        const char *const secrets[] = {OTHER, SECRET};

        expect_signature(HTTP_SIGNING_STANDARD, secrets, 2, BODY, "webhook-signature",
            "v1,y8THLnvw7WHb6Ntmo8Z5lcuHwtheVPNi67nbLqfmmDI= " FIRST);
}

Test(http_signing, signs_as_github_does)
{
        const char *const secrets[] = {"It's a Secret to Everybody", "the old one"};

        expect_signature(HTTP_SIGNING_GITHUB, secrets, 2, "Hello, World!", "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
}

Test(http_signing, signs_as_stripe_does)
{
        const char *const secrets[] = {"whsec_any text", "old"};

        expect_signature(HTTP_SIGNING_STRIPE, secrets, 2, BODY, "Stripe-Signature",
            "t=1614265330,v1=2bf848592d551f9684189acd265e1b2c29e7b7dc49ccd417841a52c3a30fbf81,v1="
            "3f3b655bf3f243d281b5523c13e9190e90ada7e4e3b82f0294cf1f8f98e79544");
}

Test(http_signing, refuses_a_secret_that_is_none_without_repeating_it)
{
        const char *const secrets[] = {SECRET, "hunter2"};
        struct error error = {.kind = ERROR_NONE};

        cr_expect_null(http_signing_create(HTTP_SIGNING_STANDARD, secrets, 2, &error));
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect(strstr(error.text, "whsec_") != NULL, "%s", error.text);
        cr_expect(strstr(error.text, "hunter2") == NULL, "%s", error.text);
}

Test(http_signing, signs_nothing_without_a_secret)
{
        struct error error = {.kind = ERROR_NONE};
        const char *const secrets[] = {SECRET};

        cr_expect_null(http_signing_create(HTTP_SIGNING_STANDARD, NULL, 0, &error));
        cr_expect_null(http_signing_create(HTTP_SIGNING_NONE, secrets, 1, &error));
        cr_expect_eq(error.kind, ERROR_NONE);
}

static struct webhook_signer *signer_of(const char *secret)
{
        struct error error = {.kind = ERROR_NONE};
        struct webhook_signer *signer = webhook_signer_create(secret, &error);

        cr_assert_not_null(signer, "%s", error.text);
        return signer;
}

static void expect_refused(const char *secret, const char *words)
{
        struct error error = {.kind = ERROR_NONE};

        cr_expect_null(webhook_signer_create(secret, &error), "accepted: %s", secret);
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect(strstr(error.text, words) != NULL, "%s: %s", secret, error.text);
        if (strlen(secret) > 12)
                cr_expect(
                    strstr(error.text, secret + 8) == NULL, "shows the secret: %s", error.text);
}

Test(webhook_signature, agrees_with_the_libraries_of_the_specification)
{
        struct webhook_signer *signer = signer_of(SECRET);
        char signature[WEBHOOK_SIGNATURE_SIZE];

        webhook_signer_sign(signer, ID, TIMESTAMP, BODY, strlen(BODY), signature);

        cr_expect_str_eq(signature, FIRST);
        webhook_signer_destroy(signer);
}

Test(webhook_signature, signs_the_second_message_as_the_first)
{
        struct webhook_signer *signer = signer_of(SECRET);
        char other[WEBHOOK_SIGNATURE_SIZE];
        char signature[WEBHOOK_SIGNATURE_SIZE];

        webhook_signer_sign(signer, "msg_other", TIMESTAMP, "x", 1, other);
        webhook_signer_sign(signer, ID, TIMESTAMP, BODY, strlen(BODY), signature);

        cr_expect_str_neq(other, FIRST);
        cr_expect_str_eq(signature, FIRST);
        webhook_signer_destroy(signer);
}

Test(webhook_signature, covers_bytes_beyond_a_nul)
{
        struct webhook_signer *signer = signer_of(SECRET);
        char first[WEBHOOK_SIGNATURE_SIZE];
        char second[WEBHOOK_SIGNATURE_SIZE];

        webhook_signer_sign(signer, ID, TIMESTAMP, "a\0b", 3, first);
        webhook_signer_sign(signer, ID, TIMESTAMP, "a\0c", 3, second);

        cr_expect_str_neq(first, second);
        webhook_signer_destroy(signer);
}

Test(webhook_signature, signs_an_empty_body)
{
        struct webhook_signer *signer = signer_of(SECRET);
        char signature[WEBHOOK_SIGNATURE_SIZE];

        webhook_signer_sign(signer, ID, TIMESTAMP, "", 0, signature);

        cr_expect_str_eq(signature, "v1,v48jdbgvh29KJz2Qc+ghw8G6vG3nAKnujWBg8oM/62A=");
        webhook_signer_destroy(signer);
}

Test(webhook_signature, accepts_keys_of_24_to_64_bytes)
{
        /* 64 bytes, and 25 with two digits of padding */
        webhook_signer_destroy(
            signer_of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                      "AAAAAAAAAAAAAAAAAAAAAAAAAAAA=="));
        webhook_signer_destroy(signer_of("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="));

        expect_refused("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "wrong length"); /* 23 bytes */
        expect_refused("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "wrong length"); /* 65 bytes */
        expect_refused("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                       "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "wrong length");
}

Test(webhook_signature, refuses_what_is_not_a_secret_without_repeating_it)
{
        expect_refused("", "does not begin with whsec_");
        expect_refused("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "does not begin with whsec_");
        expect_refused("whsec_", "not base64");
        expect_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "not base64");
        expect_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-", "not base64");
        expect_refused("whsec_MfKQ9r8GKYqrTwjU PD8ILPZIo2LaLaSw", "not base64");
        expect_refused("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaL===", "not base64");
        expect_refused("whsec_MfKQ9r8GKYqr====TwjUPD8ILPZIo2La", "not base64");
}

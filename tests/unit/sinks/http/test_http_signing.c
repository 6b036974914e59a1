/* Vectors made by others: the specification of Standard Webhooks, GitHub's documentation, openssl. */
#include "base/bytes.h"
#include "base/error.h"
#include "sinks/http/http_signing.h"

#include <criterion/criterion.h>
#include <string.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define BODY   "{\"test\": 2432232314}"
#define FIRST  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static void expect_signature(enum http_signing_scheme scheme, const char *const *secrets,
    size_t n_secrets, const char *body, const char *header, const char *value)
{
        struct error error = {.kind = ERROR_NONE};
        struct http_signing *signing = http_signing_create(scheme, secrets, n_secrets, &error);
        struct bytes actual = {0};

        cr_assert_not_null(signing, "%s", error.text);
        http_signing_append(
            signing, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body), &actual);
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

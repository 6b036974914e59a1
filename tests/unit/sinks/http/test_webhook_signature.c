#include "base/error.h"
#include "sinks/http/http_signing.h"

#include <criterion/criterion.h>
#include <string.h>

/* The example that the libraries of Standard Webhooks test themselves with. */
#define SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID        "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define TIMESTAMP 1614265330
#define BODY      "{\"test\": 2432232314}"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

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

        cr_expect_str_eq(signature, SIGNATURE);
        webhook_signer_destroy(signer);
}

Test(webhook_signature, signs_the_second_message_as_the_first)
{
        struct webhook_signer *signer = signer_of(SECRET);
        char other[WEBHOOK_SIGNATURE_SIZE];
        char signature[WEBHOOK_SIGNATURE_SIZE];

        webhook_signer_sign(signer, "msg_other", TIMESTAMP, "x", 1, other);
        webhook_signer_sign(signer, ID, TIMESTAMP, BODY, strlen(BODY), signature);

        cr_expect_str_neq(other, SIGNATURE);
        cr_expect_str_eq(signature, SIGNATURE);
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

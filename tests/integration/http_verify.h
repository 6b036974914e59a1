/* Receivers' checks: of a header, and of a signature by a program that shares nothing with ours. */
#pragma once

#include "base/clock.h"
#include "support/http_receiver.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void expect_header(
    const struct http_request *request, const char *name, const char *value)
{
        char *actual = http_request_header(request, name);

        if (value == NULL)
                cr_expect_null(actual, "%s: %s", name, actual);
        else
                cr_expect(actual != NULL && strcmp(actual, value) == 0, "%s: %s", name, actual);
        free(actual);
}

static const char verify_program[] =
    "import base64, hashlib, hmac, sys\n"
    "scheme, secret, path, message_id, timestamp, signature = sys.argv[1:]\n"
    "body = open(path, 'rb').read()\n"
    "def mac(key, signed): return hmac.new(key, signed, hashlib.sha256)\n"
    "if scheme == 'standard':\n"
    "    key = base64.b64decode(secret[len('whsec_'):])\n"
    "    signed = f'{message_id}.{timestamp}.'.encode() + body\n"
    "    wanted = 'v1,' + base64.b64encode(mac(key, signed).digest()).decode()\n"
    "    given = signature.split(' ')\n"
    "elif scheme == 'stripe':\n"
    "    items = [item.split('=', 1) for item in signature.split(',')]\n"
    "    given = [value for name, value in items if name == 'v1']\n"
    "    at = dict(items)['t']\n"
    "    wanted = mac(secret.encode(), at.encode() + b'.' + body).hexdigest()\n"
    "    if at != timestamp: sys.exit(2)\n"
    "else:\n"
    "    given = [signature]\n"
    "    wanted = 'sha256=' + mac(secret.encode(), body).hexdigest()\n"
    "sys.exit(wanted not in given)\n";

/* `scheme`: standard, stripe or github. */
static inline bool is_signature_verified(
    const struct http_request *request, const char *scheme, const char *secret)
{
        const char *header = strcmp(scheme, "standard") == 0 ? "webhook-signature"
                             : strcmp(scheme, "stripe") == 0 ? "Stripe-Signature"
                                                             : "X-Hub-Signature-256";
        char *folder = temp_folder();
        char *path = NULL;
        char *id = http_request_header(request, "webhook-id");
        char *timestamp = http_request_header(request, "webhook-timestamp");
        char *signature = http_request_header(request, header);
        FILE *body;
        bool is_verified;

        cr_assert(id != NULL && timestamp != NULL && signature != NULL);
        cr_assert(asprintf(&path, "%s/body", folder) > 0);
        body = fopen(path, "wb");
        fwrite(request->body, 1, request->body_bytes, body);
        fclose(body);
        const char *const argv[] = {"/usr/bin/python3", "-c", verify_program, scheme, secret, path,
            id, timestamp, signature, NULL};

        is_verified = process_run(argv, NULL, false) == 0;
        free(path);
        free(folder);
        free(id);
        free(timestamp);
        free(signature);
        return is_verified;
}

static inline void expect_signature_verified(
    const struct http_request *request, const char *scheme, const char *secret)
{
        cr_expect(is_signature_verified(request, scheme, secret), "wrong signature (%s)", scheme);
}

static inline bool http_is_another_second(void *since)
{
        return clock_wall_us() / 1000000 != *(const int64_t *)since;
}

/* So that a request that is sent again has another time. By the clock of the signatures: time() may lag
 * behind it by a tick of the kernel. */
static inline void http_await_next_second(void)
{
        int64_t since = clock_wall_us() / 1000000;

        wait_until(http_is_another_second, &since, 5000, "the next second");
}

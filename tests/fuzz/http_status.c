/*
 * RETRY-AFTER NUL LOCATION NUL FAILURE NUL, then what an exchange came to (a
 * status of two bytes, libcurl's code, switches), then the body.
 */
#include "sinks/http/http_status.h"

#include "config/config.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define NOW_S  1793620800
#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

static int64_t check_retry_after(const char *value)
{
        int64_t delay_ms = http_retry_after_ms(value, NOW_S);
        size_t n_digits = strspn(value, "0123456789");

        fuzz_require(delay_ms >= OUTCOME_NO_DELAY && delay_ms <= DAY_MS, "at most a day", value);
        if (n_digits > 0 && value[n_digits] == '\0') {
                unsigned long long seconds = n_digits > 9 ? 86400 : strtoull(value, NULL, 10);
                if (n_digits <= 9 || strspn(value, "0") == 0)
                        fuzz_require(
                            delay_ms == (seconds > 86400 ? DAY_MS : (int64_t)seconds * 1000),
                            "seconds are seconds", value);
        } else if (n_digits > 0 || value[0] == '-' || value[0] == '\0') {
                fuzz_require(delay_ms == OUTCOME_NO_DELAY, "no number, no delay", value);
        }
        return delay_ms;
}

static void check_outcome(const struct http_result *result, const struct http_config *config)
{
        const struct outcome outcome = http_result_classify(result, config);
        bool is_2xx = result->status >= 200 && result->status <= 299;
        bool is_known = result->status == 409 && config->accept_409;

        fuzz_require_outcome(&outcome);
        fuzz_require((outcome.kind == OUTCOME_DELIVERED) == (is_2xx || is_known),
            "only a 2xx delivers", outcome.reason);
        fuzz_require(!outcome.is_gone ||
                         (outcome.needs_operator && (result->status == 410 || result->is_disabled)),
            "gone is what says so", outcome.reason);
        fuzz_require(result->status != 0 || outcome.kind == OUTCOME_RETRY ||
                         outcome.kind == OUTCOME_SINK_DOWN,
            "silence rejects nothing", outcome.reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *retry_after = fuzz_take_text(&input);
        char *location = fuzz_take_text(&input);
        char *failure = fuzz_take_text(&input);
        /* libcurl reads three digits. */
        long status = (long)((fuzz_take_byte(&input) << 8 | fuzz_take_byte(&input)) % 1000);
        CURLcode code = (CURLcode)(fuzz_take_byte(&input) % CURL_LAST);
        unsigned switches = fuzz_take_byte(&input);
        char *body = fuzz_take_text(&input);
        const struct http_config config = {.accept_409 = (switches & 1) != 0,
            .on_410 = (enum http_on_410)((switches >> 1 & 3) % 3)};
        const struct http_result result = {.code = code,
            .status = status,
            .is_sent = (switches & 8) != 0,
            .failure = failure,
            .refusal = (switches & 16) != 0 ? "refused" : NULL,
            .retry_after_ms = check_retry_after(retry_after),
            .location = *location != '\0' ? location : NULL,
            .is_disabled = (switches & 32) != 0,
            .is_aborted = (switches & 64) != 0,
            .body = body};

        check_outcome(&result, &config);
        free(body);
        free(failure);
        free(location);
        free(retry_after);
        return 0;
}

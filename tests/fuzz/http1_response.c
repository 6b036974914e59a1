/*
 * What a receiver answers, byte for byte. Read in one piece and in pieces of any size it must come
 * to the same; nothing is read beyond what has come, and nothing without a bound. The first byte
 * says how large the pieces are.
 */
#include "sinks/http/client/http1_response.h"

#include "base/alloc.h"
#include "fuzz.h"
#include "pgcourier/outcome.h"

#include <stdlib.h>
#include <string.h>

/* As a byte_stream does it: what was not used comes again, with `piece` more bytes behind it. */
static size_t feed(struct http1_response *response, const uint8_t *data, size_t size, size_t piece)
{
        size_t n_used = 0;
        size_t n_come = 0;

        http1_response_init(response);
        while (
            n_come < size && response->step != HTTP1_COMPLETE && response->step != HTTP1_FAILED) {
                size_t length;
                size_t n;
                char *exact;

                n_come = piece < size - n_come ? n_come + piece : size;
                length = n_come - n_used;
                exact = xcalloc(length, 1);
                memcpy(exact, data + n_used, length);
                n = http1_response_feed(response, exact, length);
                free(exact);
                fuzz_require(n <= length, "no more is used than has come", "");
                n_used += n;
                fuzz_require(
                    response->step >= HTTP1_COMPLETE || n_come - n_used <= HTTP1_HEADERS_MAX,
                    "what waits is bounded", "");
        }
        return n_used;
}

static void check(const struct http1_response *response)
{
        bool is_over = response->step == HTTP1_COMPLETE || response->step == HTTP1_FAILED;

        fuzz_require(response->body_bytes <= HTTP1_BODY_MAX || response->step == HTTP1_FAILED,
            "no long body is read", response->body);
        fuzz_require(response->header_bytes <= HTTP1_HEADERS_MAX, "no long head is read", "");
        fuzz_require(strlen(response->body) <= HTTP1_BODY_KEPT &&
                         strlen(response->location) <= HTTP1_LOCATION_MAX,
            "texts are bounded", "");
        if (response->has_status)
                fuzz_require(response->status >= 200 && response->status <= 999,
                    "an answer is a final one", "");
        if (response->step == HTTP1_COMPLETE)
                fuzz_require(response->has_status, "what is complete has a status", "");
        fuzz_require(is_over || !response->may_go_on, "an open answer holds its connection", "");
        if (response->step == HTTP1_FAILED)
                fuzz_require(
                    response->nonsense != NULL || response->is_endless || response->is_overlong,
                    "a failure has a reason", "");
        fuzz_require(response->retry_after_ms >= OUTCOME_NO_DELAY, "a delay is none or some", "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        size_t piece = fuzz_take_byte(&input) % 17 + 1u;
        struct http1_response whole;
        struct http1_response pieces;
        size_t n_whole = feed(&whole, input.data, input.size, input.size > 0 ? input.size : 1);
        size_t n_pieces = feed(&pieces, input.data, input.size, piece);

        check(&whole);
        check(&pieces);
        fuzz_require(whole.step == pieces.step && whole.has_status == pieces.has_status &&
                         whole.may_go_on == pieces.may_go_on,
            "pieces come to the same", "");
        if (whole.has_status)
                fuzz_require(whole.status == pieces.status &&
                                 strcmp(whole.location, pieces.location) == 0 &&
                                 whole.is_disabled == pieces.is_disabled &&
                                 whole.is_aborted == pieces.is_aborted,
                    "pieces mean the same", "");
        if (whole.step == HTTP1_COMPLETE)
                fuzz_require(n_whole == n_pieces && strcmp(whole.body, pieces.body) == 0,
                    "pieces end where the whole ends", "");
        return 0;
}

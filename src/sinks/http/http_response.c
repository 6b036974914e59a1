#include "sinks/http/http_response.h"

#include "base/clock.h"

#include <string.h>
#include <strings.h>

#define BODY_MAX    4096
#define HEADERS_MAX 65536

void http_response_forget(struct http_response *response)
{
        memset(response, 0, sizeof *response);
}

/* libcurl hands over whole lines, those of each 1xx response before those of the final one. */
bool http_response_take_header(
    struct http_response *response, CURL *easy, const char *line, size_t bytes)
{
        long status = 0;

        response->header_bytes += bytes;
        if (response->header_bytes > HEADERS_MAX)
                return false;
        if (bytes > 0 && (line[0] == '\r' || line[0] == '\n')) {
                curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
                if (status >= 200)
                        response->has_status = true;
        }
        return true;
}

bool http_response_take_body(struct http_response *response, const char *data, size_t bytes)
{
        for (size_t i = 0; i < bytes && response->body_bytes + i < HTTP_BODY_KEPT; i++)
                response->body[response->body_bytes + i] = data[i] != '\0' ? data[i] : '?';
        response->body_bytes += bytes;
        return response->body_bytes <= BODY_MAX;
}

/* The value of the header's `index`th occurrence, or NULL. */
static const char *response_header(CURL *easy, const char *name, size_t index)
{
        struct curl_header *header;

        return curl_easy_header(easy, name, index, CURLH_HEADER, -1, &header) == CURLHE_OK
                   ? header->value
                   : NULL;
}

/* If there are several, the longest counts: the receiver's and its gateway's, perhaps. */
static int64_t longest_retry_after_ms(CURL *easy)
{
        int64_t now_s = clock_wall_us() / 1000000;
        int64_t longest_ms = OUTCOME_NO_DELAY;
        const char *value;

        for (size_t i = 0; (value = response_header(easy, "Retry-After", i)) != NULL; i++) {
                int64_t delay_ms = http_retry_after_ms(value, now_s);
                if (delay_ms > longest_ms)
                        longest_ms = delay_ms;
        }
        return longest_ms;
}

/* What went to a proxy, to be let through to the receiver, is no request of ours. */
static bool is_sent(CURL *easy)
{
        curl_off_t ready_us = 0;
        long sent_bytes = 0;

        curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &sent_bytes);
        curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
        return sent_bytes > 0 && ready_us > 0;
}

/* libcurl has a limit of its own for a single line, 100 KiB, and then speaks of memory, which our
 * allocator never lacks. */
static bool is_endless(const struct http_response *response, CURLcode code)
{
        return response->header_bytes > HEADERS_MAX || code == CURLE_OUT_OF_MEMORY;
}

struct http_result http_response_result(
    const struct http_response *response, CURL *easy, CURLcode code)
{
        struct http_result result = {.code = code,
            .failure = response->failure,
            .body = response->body,
            .retry_after_ms = OUTCOME_NO_DELAY,
            .is_sent = is_sent(easy),
            .is_endless = is_endless(response, code)};
        const char *delivery;

        if (!response->has_status)
                return result;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &result.status);
        result.retry_after_ms = longest_retry_after_ms(easy);
        result.location = response_header(easy, "Location", 0);
        delivery = response_header(easy, "webhook-delivery", 0);
        result.is_disabled = delivery != NULL && strcasecmp(delivery, "disable") == 0;
        result.is_aborted = delivery != NULL && strcasecmp(delivery, "abort-message") == 0;
        return result;
}

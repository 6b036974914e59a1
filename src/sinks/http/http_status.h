/* What an HTTP exchange's end means for the event: pure, without clock or I/O. */
#pragma once

#include "pgcourier/outcome.h"

#include <curl/curl.h>
#include <stdbool.h>

struct http_config;

/* How one exchange ended. All text is borrowed. */
struct http_result {
        CURLcode code;          /* libcurl's verdict on the transfer */
        long status;            /* of the final response; 0 if its headers never fully arrived */
        bool is_sent;           /* some of the request went out */
        bool is_endless;        /* more headers came than are read */
        const char *failure;    /* words for `code`; may be empty */
        const char *refusal;    /* why the address guard let no connection be made; NULL: it did */
        int64_t retry_after_ms; /* from Retry-After; OUTCOME_NO_DELAY: none that can be read */
        const char *location;   /* the header's value, or NULL */
        bool is_disabled;       /* webhook-delivery: disable */
        bool is_aborted;        /* webhook-delivery: abort-message */
        const char *body;       /* the response's first bytes, without NUL */
};

/* The config decides what 410 and 409 mean. */
struct outcome http_result_classify(
    const struct http_result *result, const struct http_config *config);

/* A Retry-After value, as seconds or as a date, in milliseconds within [0, 24 h];
 * OUTCOME_NO_DELAY if it is neither. */
int64_t http_retry_after_ms(const char *value, int64_t now_s);

/* What has come back of one exchange so far, bounded in all directions. */
#pragma once

#include "sinks/http/http_status.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#define HTTP_BODY_KEPT 150

struct http_response {
        char failure[CURL_ERROR_SIZE]; /* for CURLOPT_ERRORBUFFER */
        size_t header_bytes;
        bool has_status; /* the final one, with all its headers */
        size_t body_bytes;
        char body[HTTP_BODY_KEPT + 1];
};

void http_response_forget(struct http_response *response);

/* One header line, or a part of the body, as libcurl hands it over. False: it is too much, give
 * up. */
bool http_response_take_header(
    struct http_response *response, CURL *easy, const char *line, size_t bytes);
bool http_response_take_body(struct http_response *response, const char *data, size_t bytes);

/* Borrows its texts from the response and from `easy`. */
struct http_result http_response_result(
    const struct http_response *response, CURL *easy, CURLcode code);

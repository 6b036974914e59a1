/*
 * Header lines as libcurl takes them, in memory that is used again and again: a list of libcurl's
 * own would cost three allocations a line.
 */
#pragma once

#include "base/bytes.h"

#include <curl/curl.h>
#include <stddef.h>

/* All zero: empty. */
struct curl_lines {
        struct bytes text;        /* the lines, each with its NUL */
        struct curl_slist *nodes; /* owned; an array */
        size_t n_allocated;
};

void curl_lines_deinit(struct curl_lines *lines);

/* For CURLOPT_HTTPHEADER: the lines of both texts, in which each ends with CR LF. The list lives
 * until the next call. */
struct curl_slist *curl_lines_make(struct curl_lines *lines, const char *first, const char *second);

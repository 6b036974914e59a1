/*
 * The header lines of one request, as libcurl takes them, built again and again
 * in the same memory: a list of libcurl's own would cost three allocations a line.
 */
#pragma once

#include "base/bytes.h"

#include <curl/curl.h>
#include <stddef.h>

struct http_line {
        size_t at;              /* in `text`, which may still move */
        struct curl_slist node; /* made by http_lines_list() */
};

/* All zero: empty. */
struct http_lines {
        struct bytes text;       /* the lines, each with its NUL */
        struct http_line *lines; /* owned */
        size_t n_lines;
        size_t n_allocated;
        size_t value_at; /* of the line that was begun last */
};

void http_lines_deinit(struct http_lines *lines);

/* Keeps the storage, unless it has become large. */
void http_lines_clear(struct http_lines *lines);

void http_lines_add(struct http_lines *lines, const char *name, const char *value);

/* The same in parts: between the two, the value is appended to lines->text. */
void http_lines_begin(struct http_lines *lines, const char *name);
void http_lines_end(struct http_lines *lines);

/* The list, for CURLOPT_HTTPHEADER, with `tail` at its end (borrowed; may be NULL). It is gone with
 * the next change. */
struct curl_slist *http_lines_list(struct http_lines *lines, struct curl_slist *tail);

/* Answers in the few forms that routes give, and the values in them. */
#pragma once

#include "base/error.h"
#include "loop/http/http_listener.h"

#include <jansson.h>
#include <stdint.h>

/* Of every answer, whatever it is. */
extern const struct http_header answer_headers[];

/* Consumes the document. */
void answer_json(struct http_call *request, unsigned status, json_t *document);

/* {"error": words} */
void answer_refusal(struct http_call *request, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with one more header. */
void answer_refusal_with(struct http_call *request, unsigned status,
    const struct http_header *header, const char *words);

/* What an operation failed with. */
void answer_error(struct http_call *request, const struct error *error);

/* Values of documents. What is not known is null. */
json_t *json_time(int64_t wall_us);   /* RFC 3339, UTC, milliseconds; 0: null */
json_t *json_seconds(double seconds); /* negative: null */
json_t *json_words(const char *text); /* NULL or empty: null; what is not UTF-8 too */

/* Of an object; a missing or NULL one is null. A new reference. */
json_t *json_member(const json_t *object, const char *name);

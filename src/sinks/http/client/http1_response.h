/*
 * The response to one request, as its bytes come in (RFC 9112): pure, without I/O. It is strict
 * where a guess could make another's answer of this one: what cannot be framed ends with the
 * connection.
 *
 * STATUS -> FIELDS -> (1xx: STATUS) -> BODY, CHUNK..., TRAILERS -> COMPLETE
 *                                      any of them -nonsense, or too much-> FAILED
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP1_HEADERS_MAX  65536 /* of all lines up to the final answer's last */
#define HTTP1_BODY_MAX     4096  /* more is not read */
#define HTTP1_BODY_KEPT    150
#define HTTP1_LOCATION_MAX 120

enum http1_step {
        HTTP1_STATUS,
        HTTP1_FIELDS,
        HTTP1_BODY_COUNTED,
        HTTP1_BODY_TO_THE_END, /* of the connection */
        HTTP1_CHUNK_SIZE,
        HTTP1_CHUNK,
        HTTP1_CHUNK_END,
        HTTP1_TRAILERS,
        HTTP1_COMPLETE,
        HTTP1_FAILED,
};

struct http1_response {
        enum http1_step step;
        bool has_status;       /* the final one, with all its fields: `status` and what follows */
        bool has_begun;        /* some byte has come */
        bool is_endless;       /* FAILED: more fields came than are read */
        bool is_overlong;      /* FAILED: more of a body came than is read */
        const char *nonsense;  /* FAILED otherwise: what is wrong with it */
        bool may_go_on;        /* COMPLETE: the connection can carry another request */
        int64_t keep_alive_ms; /* for so long, as the peer says; -1: it does not say */

        int status;
        int64_t retry_after_ms; /* the longest; OUTCOME_NO_DELAY: none that can be read */
        char location[HTTP1_LOCATION_MAX + 1]; /* empty: none */
        bool is_disabled;                      /* webhook-delivery: disable */
        bool is_aborted;                       /* webhook-delivery: abort-message */
        char body[HTTP1_BODY_KEPT + 1];        /* its first bytes, with '?' for NUL */

        /* How the body ends. */
        bool is_http_1_0;
        bool is_chunked;
        bool has_encoding; /* Transfer-Encoding, of any kind */
        bool has_length;
        bool is_unclear; /* the fields contradict each other: the connection ends with it */
        bool wants_close;
        bool wants_keep_alive;
        bool has_delivery; /* webhook-delivery has been seen */
        uint64_t length;   /* of the body, or of the chunk, what is still to come */
        size_t body_bytes;
        size_t header_bytes;
        size_t n_searched; /* bytes of an unfinished line that hold no line feed */
};

void http1_response_init(struct http1_response *response);

/* Returns how many of these bytes were used: all, unless it is COMPLETE or FAILED or ends in the
 * middle of a line; then the rest comes again, with more behind it. */
size_t http1_response_feed(struct http1_response *response, const char *data, size_t size);

/* The connection has ended: true if that is how this response was to end. */
bool http1_response_end(struct http1_response *response);

/*
 * A real HTTP server on 127.0.0.1 inside the test process (libmicrohttpd, a
 * thread for each connection): records every request and answers as told.
 * All functions may be called while it serves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_receiver;

struct http_answer {
        unsigned status;        /* 0 means 204 */
        const char *headers[4]; /* "Name: value" */
        const char *body;       /* NULL: none */
        bool is_held;           /* only after http_receiver_release() */
        enum {
                ANSWER_WHOLE,
                ANSWER_NONE,      /* reads the request, then closes the connection */
                ANSWER_HALF_BODY, /* announces twice the body, closes after it */
                ANSWER_DRIPPING,  /* headers, then now and then a byte, without end */
                ANSWER_FLOODING,  /* headers, then as many bytes as it can, without end */
        } manner;
};

/* One request as it came. */
struct http_request {
        char *method;
        char *target;       /* path and query */
        char *header_lines; /* "Name: value\n" each */
        char *body;         /* NUL-terminated beyond its end */
        size_t body_bytes;
};

/* On a free port. With TLS if the paths of a certificate and its key (PEM) are given. */
struct http_receiver *http_receiver_start(const char *certificate_path, const char *key_path);

/* Closes the port and all connections; what it recorded and was told stays. */
void http_receiver_stop(struct http_receiver *receiver);

/* After a stop: again, on the same port. */
void http_receiver_restart(struct http_receiver *receiver);

void http_receiver_destroy(struct http_receiver *receiver);

uint16_t http_receiver_port(const struct http_receiver *receiver);

/* The answer from now on; its texts are borrowed. Before the first call: 204. */
void http_receiver_answer(struct http_receiver *receiver, const struct http_answer *answer);

/* The answer to the next request only; may be called again for the one after it, and so on. */
void http_receiver_answer_next(struct http_receiver *receiver, const struct http_answer *answer);

/* From now on `decide` is asked for each answer, in the thread of the request's connection, and the
 * request is not recorded. May be called before the first request only. */
typedef struct http_answer http_decide_fn(void *context, const struct http_request *request);
void http_receiver_decide(struct http_receiver *receiver, http_decide_fn *decide, void *context);

/* Lets all held answers go, and those that would be held, until http_receiver_hold() or another
 * answer is set. */
void http_receiver_release(struct http_receiver *receiver);
void http_receiver_hold(struct http_receiver *receiver);

/* From now on connections end with a reset. */
void http_receiver_close_by_reset(struct http_receiver *receiver);

/* Whole requests received; connections ever made; bytes written as ANSWER_DRIPPING, _FLOODING. */
unsigned http_receiver_n_requests(struct http_receiver *receiver);
unsigned http_receiver_n_connections(struct http_receiver *receiver);
unsigned http_receiver_n_dripped(struct http_receiver *receiver);
unsigned http_receiver_n_flooded(struct http_receiver *receiver);

/* Waits until n requests have been received; aborts the test after deadline_ms. */
void http_receiver_wait(struct http_receiver *receiver, unsigned n, int64_t deadline_ms);

/* How many requests with that target have been received; the same until there are n. */
unsigned http_receiver_count(struct http_receiver *receiver, const char *target);
void http_receiver_wait_for(
    struct http_receiver *receiver, const char *target, unsigned n, int64_t deadline_ms);

/* The request of that index, in order of arrival; aborts if there is none. Valid until destroy. */
const struct http_request *http_receiver_request(struct http_receiver *receiver, unsigned index);

/* A header's value, whatever the case of its name; NULL if there is none. Free it. Aborts the test
 * if the header came twice. */
char *http_request_header(const struct http_request *request, const char *name);

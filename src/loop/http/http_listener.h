/*
 * A small HTTP/1.1 server inside the loop: libmicrohttpd's daemon without
 * threads, driven by its epoll file and one timer. Knows requests and answers,
 * not what they are about.
 *
 * Everything that a client can make us keep is bounded: connections, memory for
 * a request's head, its body, the time until a request is complete, the time
 * until its answer is read, and what waits in a stream for a client that does
 * not read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

struct http_listener;
struct http_call; /* one request, until it is answered */
struct http_stream;

struct http_header {
        const char *name;
        const char *value;
};

struct http_listener_options {
        unsigned max_connections; /* those that come later wait until one ends */
        size_t max_head_bytes;    /* of a request line with its headers */
        size_t max_body_bytes;
        /* A connection's first or next request must be complete after so long. */
        uint64_t request_timeout_ms;
        /* An answer, or what waits in a stream, must be read after so long. */
        uint64_t answer_timeout_ms;
        const struct http_header *headers; /* of every answer; ends with a NULL name */
};

/*
 * A request is complete, or its body is larger than allowed (then there is
 * none). It must be answered exactly once, inside this call or later, by
 * http_call_answer() or http_call_stream(), also if the client or the
 * listener has gone by then.
 */
typedef void http_call_fn(void *owner, struct http_call *request);

/* Takes over the listening, non-blocking socket. NULL if libmicrohttpd refuses. */
struct http_listener *http_listener_create(uv_loop_t *loop, int socket,
    const struct http_listener_options *options, http_call_fn *on_request, void *owner);

/* Ends streams, closes all connections and the socket. Not inside http_call_fn. NULL is allowed.
 * Streams are gone without on_ended. */
void http_listener_destroy(struct http_listener *listener);

/* Until the answer. NULL if there is no such header or argument. */
const char *http_call_method(const struct http_call *request);
const char *http_call_path(const struct http_call *request); /* unescaped */
const char *http_call_header(const struct http_call *request, const char *name);
const char *http_call_argument(const struct http_call *request, const char *name);
/* NULL for a unix socket, and if the client has gone. */
const struct sockaddr *http_call_peer(const struct http_call *request);
const char *http_call_body(const struct http_call *request, size_t *out_length);
bool http_call_is_too_large(const struct http_call *request);

struct http_answer {
        unsigned status;
        const char *content_type;
        const void *body;
        size_t body_length;
        const struct http_header *headers; /* more of them; ends with a NULL name; NULL: none */
};

/* Consumes the request; copies the answer. To HEAD the body is left out. */
void http_call_answer(struct http_call *request, const struct http_answer *answer);

/* The client has gone, or was too slow and was dropped. The stream is freed after this call. */
typedef void http_stream_ended_fn(void *owner);

/*
 * Answers with a body that goes on: consumes the request. `answer` has no body.
 * NULL if the client has gone already. on_ended never comes inside this call.
 */
struct http_stream *http_call_stream(struct http_call *request, const struct http_answer *answer,
    size_t max_waiting_bytes, http_stream_ended_fn *on_ended, void *owner);

/* Copies. If something waits already, and more than max_waiting_bytes would, the client is dropped:
 * on_ended comes, not inside this call. */
void http_stream_write(struct http_stream *stream, const void *data, size_t length);

/* Nothing waits: the client has read everything, or the kernel has it. */
bool http_stream_is_read(const struct http_stream *stream);

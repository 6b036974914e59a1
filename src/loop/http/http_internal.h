/* What the two files of the HTTP server share: http_listener.c calls http_call.c, never the
 * reverse. */
#pragma once

#include "base/bytes.h"
#include "base/list.h"
#include "loop/http/http_listener.h"
#include "loop/timer.h"

#include <microhttpd.h>

struct http_listener {
        uv_loop_t *loop; /* borrowed */
        struct http_listener_options options;
        struct MHD_Daemon *daemon;
        struct socket_watch *watch; /* of the daemon's epoll file */
        struct timer *timer;        /* when the daemon wants to run without an event */
        struct list requests;       /* http_call::link */
        bool is_closing;
        bool has_room_again; /* a connection ended: the daemon listens on at its next turn only */
        http_call_fn *on_request;
        void *owner; /* borrowed */
};

/* One client's connection: requests come one after another. */
struct http_connection {
        struct http_listener *listener;
        int socket;             /* the daemon's */
        struct timer *deadline; /* of whatever is waited for from the client */
};

/*
 * READING -complete-> ASKED -answered later, or at once-> ANSWERED -sent or lost-> freed
 * An asked request whose connection ends with the listener is detached until it is answered.
 */
struct http_call {
        struct list link;
        struct MHD_Connection *connection; /* NULL: detached */
        struct http_connection *client;
        enum { REQUEST_READING, REQUEST_ASKED, REQUEST_ANSWERED } state;
        bool is_suspended; /* the daemon leaves it alone until we have something */
        bool is_too_large;
        char *method; /* owned */
        char *path;   /* owned */
        struct bytes body;
        unsigned status;
        struct MHD_Response *response; /* owned until it is queued */
        struct http_stream *stream;    /* NULL: an answer of known length */
};

struct http_stream {
        struct http_call *request;
        struct bytes waiting;
        size_t n_read; /* of `waiting`, already given to the daemon */
        size_t max_waiting_bytes;
        bool is_dropped; /* the socket is shut down, the daemon has not noticed yet */
        http_stream_ended_fn *on_ended;
        void *owner; /* borrowed */
};

/* Its socket ends; the daemon cleans up after that. */
void http_connection_drop(struct http_connection *client);

struct http_call *http_call_create(struct http_connection *client,
    struct MHD_Connection *connection, const char *method, const char *path);

/* Hands the answer to the daemon; from inside its handler. */
enum MHD_Result http_call_queue(struct http_call *request);

/* Lets the daemon come back to it, if it is suspended. */
void http_call_resume(struct http_call *request);

/* The daemon is done with it, however that came. */
void http_call_end(struct http_call *request);

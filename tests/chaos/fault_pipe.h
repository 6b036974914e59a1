/* One connection through the fault proxy: two sockets and what is on its way between them. */
#pragma once

#include "base/list.h"
#include "chaos/fault_proxy.h"

#include <stddef.h>
#include <uv.h>

enum { CLIENT, SERVER, N_SIDES };

struct fault_pipe;

/* A socket, and the bytes that are to be written to it. */
struct fault_side {
        uv_tcp_t tcp;
        struct fault_pipe *pipe;
        struct list queue; /* chunk::link; waiting for their time */
        size_t queued_bytes;
        int64_t last_due_ms; /* nothing overtakes */
        unsigned n_writing;  /* chunks handed to the socket */
        bool is_reading;
};

struct fault_pipe {
        struct list link;          /* the owner's */
        const struct fault *fault; /* the link's of the moment; borrowed */
        struct fault_side sides[N_SIDES];
        uv_timer_t timer;
        bool is_connected; /* to the server */
        bool is_connecting;
        bool is_dead;      /* never answers any more: half-open */
        bool is_finishing; /* one side has ended: what is queued still goes out */
        bool is_closing;
        unsigned n_handles;  /* not closed yet */
        uint32_t n_answered; /* bytes, since the fault was set */
        uv_connect_t connecting;
        void (*on_gone)(struct fault_pipe *pipe, void *context); /* frees nothing itself */
        void *context;
};

/* Accepts from the listener. Frees itself at its end, after on_gone(). */
struct fault_pipe *fault_pipe_accept(uv_stream_t *listener, const struct sockaddr_in *server,
    const struct fault *fault, void (*on_gone)(struct fault_pipe *pipe, void *context),
    void *context);

/* *fault has changed. */
void fault_pipe_obey(struct fault_pipe *pipe, const struct sockaddr_in *server);

void fault_pipe_close(struct fault_pipe *pipe, bool by_reset);

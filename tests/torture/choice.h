/*
 * Which call of the program is to fail: what the environment variables of interpose.c say. Nothing
 * else includes this.
 */
#pragma once

#include <stdbool.h>

enum kind {
        NONE,
        ALLOCATION, /* NULL */
        RECEIVE,    /* the socket was reset */
        RECEIVE_LESS,
        SEND,
        SEND_LESS, /* one byte goes */
        SEND_NOTHING,
        CONNECT,
        WATCH, /* libuv asks whether a descriptor can be watched: it cannot */
        DESCRIPTOR,
        THREAD, /* none more can be started */
        WRITE,  /* to something that is no socket: the disk is full */
        LIBPQ,
};

/* True if this call of that kind is one that has to fail; errno is set then. */
bool fails(enum kind kind);

/* Until main() begins, and after it has returned, none does. */
void choose_from_environment(void);
void arm(bool is_armed);

extern enum kind chosen;
extern int log_file;
extern _Thread_local bool is_inside; /* the interposer's own calls, which do not count */

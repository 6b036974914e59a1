/*
 * A socket that listens: on an IP address, or on a unix socket in the file
 * system, which exists exactly as long as a process answers on it.
 */
#pragma once

#include "base/error.h"
#include "text/network.h"

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct listen_socket {
        int file;
        struct listen_address address;
        /* Of the unix socket's file: whether it is still ours when we end. Inodes are used
         * again. */
        dev_t device;
        ino_t inode;
        struct timespec changed;
};

/*
 * Unix sockets get the mode 0660. One that is there already is replaced if
 * no process answers on it (its relay was killed); nothing else ever is.
 * ERROR_PERMISSION, or ERROR_TEMPORARY for what another process may give back, or ERROR_CONFIG.
 */
bool listen_socket_open(struct listen_socket *out_socket, const struct listen_address *address,
    struct error *error) __attribute__((warn_unused_result));

/* Removes the unix socket's file, unless it is another process's by now. Leaves `file` open: its
 * owner closes it, before this. */
void listen_socket_remove(const struct listen_socket *socket);

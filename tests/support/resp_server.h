/*
 * Speaks just enough of Redis' protocol to answer every XADD with one error, for errors that no
 * Redis at hand can be brought to give. On a free port of 127.0.0.1, in a thread of the test.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct resp_server {
        uint16_t port;
        int listener;
        const char *error; /* borrowed; without the leading '-' */
        pthread_t thread;
};

void resp_server_start(struct resp_server *server, const char *error);
void resp_server_stop(struct resp_server *server);

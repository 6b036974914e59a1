/*
 * A private Redis server for a test: on a free port of 127.0.0.1 and on a unix socket, without
 * persistence unless the options ask for it. It dies with the test process.
 */
#pragma once

#include "support/process.h"

#include <hiredis/hiredis.h>
#include <stdint.h>

struct redis_server {
        struct process process;
        char *folder; /* its working folder; log.txt in it */
        uint16_t port;
        char socket_path[96];
        const char *const *options; /* borrowed */
        const char *password;       /* for redis_server_run(); borrowed; NULL: none */
};

/*
 * `options` is more of redis-server's command line, ending with NULL, as in
 * {"--requirepass", "secret", "--user", "app", "on", ">pw", "~*", "+@all", NULL}; or NULL. Borrowed
 * until the server is destroyed. Returns when it answers.
 */
void redis_server_start(struct redis_server *server, const char *const *options);

/* SIGTERM. */
void redis_server_stop(struct redis_server *server);
void redis_server_kill(struct redis_server *server); /* SIGKILL */

/* On the same port and socket, with the same options; after stop or kill. */
void redis_server_restart(struct redis_server *server);

void redis_server_pause(struct redis_server *server); /* SIGSTOP: takes connections, says nothing */
void redis_server_resume(struct redis_server *server);

/* Stops it if it runs. */
void redis_server_destroy(struct redis_server *server);

/* One command on a connection of its own, formatted as redisCommand() does; aborts the test without
 * an answer. Free it with freeReplyObject(). */
redisReply *redis_server_run(struct redis_server *server, const char *format, ...);

/* The same while the server may change its role, and so may close all connections: NULL then. */
redisReply *redis_server_ask(struct redis_server *server, const char *format, ...);

/* The same for commands whose answer must not be an error and is of no interest. */
void redis_server_do(struct redis_server *server, const char *format, ...);

/* The same for an answer that is a number. */
long long redis_server_count(struct redis_server *server, const char *format, ...);

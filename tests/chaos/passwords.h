/*
 * The passwords that relays log in with, to PostgreSQL and to Redis: each in a file, and changed
 * there and at the server, one after the other.
 */
#pragma once

#include "support/postgres.h"
#include "support/redis_server.h"

struct login {
        char *path;    /* of the file; owned */
        char next[32]; /* what it is changed to */
        unsigned n_changes;
};

struct passwords {
        struct login postgres, redis;
        const char *dsn; /* of the superuser */
        struct redis_server *redis_server;
        char *acl_path; /* Redis' users; owned */
        const char *redis_options[8];
};

/* Before Redis is started, with redis_options; `folder` is the servers' own as well. */
void passwords_init(struct passwords *passwords, const char *folder);

/* When both servers run: the relays have to log in by 127.0.0.1 from now on. */
void passwords_begin(struct passwords *passwords, const struct postgres *postgres, const char *dsn,
    struct redis_server *redis);
void passwords_deinit(struct passwords *passwords);

/* From now on its next one is another. */
void login_choose(struct login *login);

/* Makes it so, in one of the two places. At the server false means that it cannot be reached. */
void login_change_file(const struct login *login);
bool passwords_change_postgres(const struct passwords *passwords);
void passwords_change_redis(const struct passwords *passwords);

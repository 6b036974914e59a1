#include "chaos/passwords.h"

#include "base/alloc.h"
#include "chaos/relays.h"

#include <stdio.h>
#include <stdlib.h>

/* In place: it stays the server's own. */
static void overwrite(const char *path, const char *text)
{
        FILE *file = fopen(path, "w");

        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
                test_abort("cannot write %s", path);
}

/* For a restart, too. */
static void write_acl(const struct passwords *passwords)
{
        char *users =
            xasprintf("user default on nopass ~* &* +@all\nuser relay on >%s ~* &* +@all\n",
                passwords->redis.next);

        overwrite(passwords->acl_path, users);
        free(users);
}

void login_choose(struct login *login)
{
        snprintf(login->next, sizeof login->next, "password-%u", ++login->n_changes);
}

void login_change_file(const struct login *login)
{
        char *line = xasprintf("%s\n", login->next);

        replace_file(login->path, line);
        free(line);
}

static void login_init(struct login *login, const char *folder, const char *name)
{
        login->path = xasprintf("%s/%s.password", folder, name);
        login_choose(login);
        login_change_file(login);
}

void passwords_init(struct passwords *passwords, const char *folder)
{
        *passwords = (struct passwords){.acl_path = xasprintf("%s/redis.acl", folder)};
        login_init(&passwords->postgres, folder, "postgres");
        login_init(&passwords->redis, folder, "redis");
        write_acl(passwords);
        /* What was acknowledged stays acknowledged when it is killed. */
        passwords->redis_options[0] = "--appendonly";
        passwords->redis_options[1] = "yes";
        passwords->redis_options[2] = "--appendfsync";
        passwords->redis_options[3] = "always";
        passwords->redis_options[4] = "--aclfile";
        passwords->redis_options[5] = passwords->acl_path;
}

void passwords_begin(struct passwords *passwords, const struct postgres *postgres, const char *dsn,
    struct redis_server *redis)
{
        char *path = xasprintf("%s/data/pg_hba.conf", postgres->folder);
        char *others = read_file(path);
        char *all = xasprintf("host all +courier_relay 127.0.0.1/32 scram-sha-256\n%s", others);
        PGconn *admin = database_connect(dsn);

        passwords->dsn = dsn;
        passwords->redis_server = redis;
        if (!passwords_change_postgres(passwords))
                test_abort("cannot give the relays a password");
        overwrite(path, all);
        database_exec(admin, "SELECT pg_reload_conf()");
        PQfinish(admin);
        free(all);
        free(others);
        free(path);
}

void passwords_deinit(struct passwords *passwords)
{
        free(passwords->postgres.path);
        free(passwords->redis.path);
        free(passwords->acl_path);
}

bool passwords_change_postgres(const struct passwords *passwords)
{
        PGconn *admin = PQconnectdb(passwords->dsn);
        bool is_done = PQstatus(admin) == CONNECTION_OK;

        for (int i = 0; i < N_RELAYS && is_done; i++) {
                char *sql = xasprintf(
                    "ALTER ROLE %s PASSWORD '%s'", relay_roles[i], passwords->postgres.next);
                PGresult *result = PQexec(admin, sql);
                is_done = PQresultStatus(result) == PGRES_COMMAND_OK;
                PQclear(result);
                free(sql);
        }
        PQfinish(admin);
        return is_done;
}

void passwords_change_redis(const struct passwords *passwords)
{
        write_acl(passwords);
        redis_server_do(passwords->redis_server, "ACL LOAD");
}

#include "config/checks.h"

#include "base/alloc.h"
#include "config/redis_url.h"
#include "config/secret.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

static bool check_names_differ(const struct source *source, const struct config *config)
{
        char path[KEY_PATH_SIZE];
        char item[KEY_PATH_SIZE];

        for (unsigned i = 1; i < config->n_sinks; i++) {
                for (unsigned j = 0; j < i; j++) {
                        if (strcmp(config->sinks[i].name, config->sinks[j].name) != 0)
                                continue;
                        key_path_item(item, "sinks", i);
                        key_path_join(path, item, "name");
                        return source_fail(source, path,
                            "is the name of sinks[%u] too; each sink needs its own", j);
                }
        }
        return true;
}

static bool check_has_one_kind(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        int n_kinds = (sink->redis != NULL) + (sink->http != NULL) + (sink->email != NULL) +
                      (sink->stdout_ != NULL);

        if (n_kinds == 1)
                return true;
        return source_fail(source, path,
            "%s; exactly one of these is needed: redis, http, email, stdout",
            n_kinds == 0 ? "has no destination" : "has more than one destination");
}

static bool check_retry(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        char max_path[KEY_PATH_SIZE];

        if (sink->retry.max_ms >= sink->retry.first_ms)
                return true;
        key_path_join(max_path, path, "retry.max");
        return source_fail(
            source, max_path, "is below retry.first; allowed: retry.first or longer");
}

/* Moves what the URL holds to its member, unless a key of its own gave it too. */
static bool adopt(const struct source *source, const char *path, char **from_url, char **member)
{
        if (*from_url != NULL && *member != NULL)
                return source_fail(source, path, "is given here and in url; keep one of the two");
        if (*from_url != NULL) {
                *member = *from_url;
                *from_url = NULL;
        }
        return true;
}

static bool take_redis_url(const struct source *source, struct redis_config *redis,
    struct redis_url *url, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        redis->port = url->port;
        redis->db = url->db;
        redis->host = url->host;
        redis->socket_path = url->socket_path;
        url->host = url->socket_path = NULL;
        key_path_join(key_path, path, "user");
        if (!adopt(source, key_path, &url->user, &redis->user))
                return false;
        key_path_join(key_path, path, "password");
        if (!adopt(source, key_path, &url->password, &redis->password))
                return false;
        if (redis->user != NULL && redis->password == NULL) {
                key_path_join(key_path, path, "user");
                return source_fail(
                    source, key_path, "is given without a password; add password or password_file");
        }
        return true;
}

static bool check_redis(const struct source *source, struct redis_config *redis, const char *path)
{
        struct redis_url url;
        bool is_valid;

        if (redis_url_split(redis->url, &url) != NULL)
                abort(); /* its row's check has accepted it */
        is_valid = take_redis_url(source, redis, &url, path);
        redis_url_deinit(&url);
        return is_valid;
}

static bool check_email(const struct source *source, struct email_config *email, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        if ((email->user == NULL) != (email->password == NULL)) {
                bool has_user = email->user != NULL;
                key_path_join(key_path, path, has_user ? "user" : "password");
                return source_fail(source, key_path, "is given without %s; logging in needs both",
                    has_user ? "password or password_file" : "user");
        }
        if (email->message_id_domain == NULL)
                email->message_id_domain = email_address_domain(email->from);
        return true;
}

static bool check_sink(const struct source *source, struct sink_config *sink, const char *path)
{
        char block_path[KEY_PATH_SIZE];

        if (!check_has_one_kind(source, sink, path) || !check_retry(source, sink, path))
                return false;
        key_path_join(block_path, path, sink_config_kind(sink));
        if (sink->redis != NULL)
                return check_redis(source, sink->redis, block_path);
        if (sink->email != NULL)
                return check_email(source, sink->email, block_path);
        return true;
}

bool config_check(const struct source *source, struct config *config)
{
        char path[KEY_PATH_SIZE];

        for (unsigned i = 0; i < config->n_sinks; i++) {
                key_path_item(path, "sinks", i);
                if (!check_sink(source, &config->sinks[i], path))
                        return false;
        }
        return check_names_differ(source, config);
}

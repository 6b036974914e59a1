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

static bool is_written(const struct source *source, const char *path, const char *name)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, name);
        return places_find(source->places, key_path) != NULL;
}

/* Greylisting wants a minute, a full mailbox hours: two and a half days in all, as drawn out as mail
 * servers do it among themselves. */
static void set_email_delays(struct retry_config *retry)
{
        static const int64_t minutes[] = {
            1, 5, 15, 30, 60, 2 * 60, 4 * 60, 8 * 60, 16 * 60, 24 * 60};
        enum { N = sizeof minutes / sizeof minutes[0] };

        retry->delays_ms = xcalloc(N, sizeof *retry->delays_ms);
        retry->n_delays = N;
        for (unsigned i = 0; i < N; i++)
                retry->delays_ms[i] = minutes[i] * 60 * 1000;
}

/* A list says by its length how often, and by its sum for how long: only what else is written
 * shortens that. */
static void let_delays_decide(
    const struct source *source, struct retry_config *retry, const char *path)
{
        if (!is_written(source, path, "attempts"))
                retry->attempts = 0;
        if (!is_written(source, path, "max_age"))
                retry->max_age_ms = 0;
}

static bool check_delays(const struct source *source, struct retry_config *retry, const char *path)
{
        static const char *const others[] = {"first", "factor", "max"};
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, "delays");
        if (retry->n_delays == 0)
                return source_fail(source, key_path,
                    "is empty; give at least one delay, or leave the key out (attempts: 1 tries "
                    "only once)");
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
                if (!is_written(source, path, others[i]))
                        continue;
                key_path_join(key_path, path, others[i]);
                return source_fail(
                    source, key_path, "is given together with delays; keep one of the two");
        }
        let_delays_decide(source, retry, path);
        return true;
}

static bool check_retry(const struct source *source, struct sink_config *sink, const char *path)
{
        struct retry_config *retry = &sink->retry;
        char retry_path[KEY_PATH_SIZE];
        char max_path[KEY_PATH_SIZE];

        key_path_join(retry_path, path, "retry");
        if (is_written(source, retry_path, "delays"))
                return check_delays(source, retry, retry_path);
        if (sink->email != NULL && !is_written(source, retry_path, "first") &&
            !is_written(source, retry_path, "factor") && !is_written(source, retry_path, "max")) {
                set_email_delays(retry);
                let_delays_decide(source, retry, retry_path);
                return true;
        }
        if (retry->max_ms >= retry->first_ms)
                return true;
        key_path_join(max_path, retry_path, "max");
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

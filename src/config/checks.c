#include "config/checks.h"

#include "base/alloc.h"
#include "config/http_checks.h"
#include "config/redis_checks.h"
#include "config/redis_url.h"
#include "config/secret.h"
#include "config/values.h"
#include "text/network.h"
#include "text/topic_pattern.h"

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
                      (sink->stdout_ != NULL) + (sink->module != NULL);

        if (n_kinds == 1)
                return true;
        return source_fail(source, path,
            "%s; exactly one of these is needed: redis, http, email, stdout, module",
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

        if (url->db != 0 && is_written(source, path, "db")) {
                key_path_join(key_path, path, "db");
                return source_fail(
                    source, key_path, "is given here and in url; keep one of the two");
        }
        redis->port = url->port;
        if (url->db != 0)
                redis->db = url->db;
        if (redis->tls && !url->is_tls) {
                key_path_join(key_path, path, "tls");
                return source_fail(source, key_path,
                    "is true, but url is not rediss://…; write the url so, or leave tls out");
        }
        redis->tls = url->is_tls;
        redis->host = url->host;
        redis->socket_path = url->socket_path;
        url->host = url->socket_path = NULL;
        key_path_join(key_path, path, "user");
        if (!adopt(source, key_path, &url->user, &redis->user))
                return false;
        key_path_join(key_path, path, "password");
        if (!adopt(source, key_path, &url->password, &redis->password))
                return false;
        return true;
}

static bool check_redis_login(const struct source *source, const char *path, const char *user_key,
    const char *user, const char *password)
{
        char key_path[KEY_PATH_SIZE];

        if (user == NULL || password != NULL)
                return true;
        key_path_join(key_path, path, user_key);
        return source_fail(source, key_path,
            "is given without a password; add %.*spassword or %.*spassword_file",
            (int)strlen(user_key) - 4, user_key, (int)strlen(user_key) - 4, user_key);
}

static bool refuse_key(
    const struct source *source, const char *path, const char *name, const char *why)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, name);
        return source_fail(source, key_path, "%s", why);
}

/* Keys that mean something only with others. */
static bool check_redis_keys(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        if (redis->n_sentinels > 0 && redis->master == NULL)
                return source_fail(source, path,
                    "has sentinels but no master; name the master as the sentinels know it");
        if (redis->n_sentinels == 0 && redis->master != NULL)
                return refuse_key(source, path, "master", "is given without sentinels");
        if (redis->n_sentinels == 0 && redis->sentinel_user != NULL)
                return refuse_key(source, path, "sentinel_user", "is given without sentinels");
        if (redis->n_sentinels == 0 && redis->sentinel_password != NULL)
                return refuse_key(source, path,
                    is_written(source, path, "sentinel_password") ? "sentinel_password"
                                                                  : "sentinel_password_file",
                    "is given without sentinels");
        if (redis->n_cluster > 0 && redis->db != 0)
                return refuse_key(
                    source, path, "db", "is not 0; a Redis Cluster has no other database");
        if ((redis->cert_file == NULL) != (redis->key_file == NULL))
                return refuse_key(source, path, redis->cert_file != NULL ? "cert_file" : "key_file",
                    redis->cert_file != NULL ? "is given without key_file"
                                             : "is given without cert_file");
        if (!redis->tls && redis->ca_file != NULL)
                return refuse_key(source, path, "ca_file",
                    "is given without TLS; write the url as rediss://…, or tls: true");
        if (!redis->tls && redis->cert_file != NULL)
                return refuse_key(source, path, "cert_file",
                    "is given without TLS; write the url as rediss://…, or tls: true");
        return true;
}

static bool check_redis(const struct source *source, struct redis_config *redis, const char *path)
{
        struct redis_url url;
        bool is_valid = true;

        if ((redis->url != NULL) + (redis->n_sentinels > 0) + (redis->n_cluster > 0) != 1)
                return source_fail(source, path,
                    "needs exactly one of url, sentinels and cluster, to know where Redis is");
        if (redis->url != NULL) {
                if (redis_url_split(redis->url, &url) != NULL)
                        abort(); /* its row's check has accepted it */
                is_valid = take_redis_url(source, redis, &url, path);
                redis_url_deinit(&url);
        }
        return is_valid && check_redis_login(source, path, "user", redis->user, redis->password) &&
               check_redis_login(
                   source, path, "sentinel_user", redis->sentinel_user, redis->sentinel_password) &&
               check_redis_keys(source, redis, path) && check_redis_options(source, redis, path);
}

#define MAX_RELAYS 8

static bool check_login(
    const struct source *source, const char *user, const char *password, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        if ((user == NULL) == (password == NULL))
                return true;
        key_path_join(key_path, path, user != NULL ? "user" : "password");
        return source_fail(source, key_path, "is given without %s; logging in needs both",
            user != NULL ? "password or password_file" : "user");
}

static bool check_relays(const struct source *source, struct email_config *email, const char *path)
{
        char key_path[KEY_PATH_SIZE];
        char item_path[KEY_PATH_SIZE];

        key_path_join(key_path, path, "relays");
        if (email->n_relays > MAX_RELAYS)
                return source_fail(source, key_path, "has %u entries; allowed: up to %d",
                    email->n_relays, MAX_RELAYS);
        if (email->url != NULL)
                return source_fail(
                    source, key_path, "is given together with url; keep one of the two");
        /* Which of them a password is meant for must never be a guess. */
        if (email->user != NULL || email->password != NULL) {
                key_path_join(key_path, path, email->user != NULL ? "user" : "password");
                return source_fail(source, key_path,
                    "belongs to url; write user and password (or password_file) into each of "
                    "relays that is to get them");
        }
        for (unsigned i = 0; i < email->n_relays; i++) {
                const struct email_relay_config *relay = &email->relays[i];
                key_path_item(item_path, key_path, i);
                if (!check_login(source, relay->user, relay->password, item_path))
                        return false;
        }
        return true;
}

static bool check_email(const struct source *source, struct email_config *email, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        if (email->url == NULL && email->n_relays == 0) {
                key_path_join(key_path, path, "url");
                return source_fail(source, key_path,
                    "is required, or relays: smtp://host[:port] or smtps://host[:port]");
        }
        if (email->n_relays > 0 && !check_relays(source, email, path))
                return false;
        if (!check_login(source, email->user, email->password, path))
                return false;
        if (email->key_file != NULL && email->cert_file == NULL) {
                key_path_join(key_path, path, "key_file");
                return source_fail(source, key_path, "is given without cert_file");
        }
        if (email->message_id_domain == NULL)
                email->message_id_domain = email_address_domain(email->from);
        return true;
}

static bool check_patterns(const struct source *source, const char *path, const char *name,
    char *const *patterns, unsigned n_patterns)
{
        const char *wrong = topic_patterns_check(patterns, n_patterns);
        char key_path[KEY_PATH_SIZE];

        if (wrong == NULL)
                return true;
        key_path_join(key_path, path, name);
        return source_fail(source, key_path, "%s", wrong);
}

static bool check_rate(
    const struct source *source, const struct rate_config *rate, const char *path)
{
        char rate_path[KEY_PATH_SIZE];
        char key_path[KEY_PATH_SIZE];

        if (rate->burst == 0 || rate->per_second > 0)
                return true;
        key_path_join(rate_path, path, "rate");
        key_path_join(key_path, rate_path, "burst");
        return source_fail(source, key_path,
            "is given without per_second, which limits the rate in the first place");
}

/* Each mail on its way occupies a thread. */
/* Receivers have rates of their own; one for all would make the slowest hold up the others. */
static bool check_rate_is_of_one(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        if (!sink_config_fans_out(sink) || sink->rate.per_second <= 0)
                return true;
        key_path_join(key_path, path, "rate");
        return source_fail(source, key_path,
            "does not go with endpoints: table: give each endpoint its own "
            "(courier.endpoint.rate)");
}

static bool check_concurrency(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        char key_path[KEY_PATH_SIZE];

        if (sink->email == NULL || sink->concurrency <= 16)
                return true;
        key_path_join(key_path, path, "concurrency");
        return source_fail(source, key_path, "'%u' is out of range; allowed for email: 1 to 16",
            sink->concurrency);
}

static bool check_sink(const struct source *source, struct sink_config *sink, const char *path)
{
        char block_path[KEY_PATH_SIZE];

        if (!check_has_one_kind(source, sink, path) || !check_retry(source, sink, path) ||
            !check_patterns(source, path, "topics", sink->topics, sink->n_topics) ||
            !check_patterns(source, path, "types", sink->types, sink->n_types) ||
            !check_rate(source, &sink->rate, path) || !check_rate_is_of_one(source, sink, path) ||
            !check_concurrency(source, sink, path))
                return false;
        key_path_join(block_path, path, sink_config_kind(sink));
        if (sink->redis != NULL)
                return check_redis(source, sink->redis, block_path);
        if (sink->http != NULL)
                return http_check(source, sink->http, block_path);
        if (sink->email != NULL)
                return check_email(source, sink->email, block_path);
        return true;
}

/* Beyond this machine the token is all that stands before it. */
static bool check_admin(const struct source *source, const struct admin_config *admin)
{
        struct listen_address address;

        if (admin == NULL || admin->token != NULL)
                return true;
        if (listen_address_parse(admin->listen, &address) != NULL)
                abort(); /* its row's check has accepted it */
        return listen_address_is_local(&address) ||
               source_fail(source, "admin.listen",
                   "is reachable from other machines, but there is no token; add admin.token_file "
                   "(make a token by: openssl rand -hex 32), or listen on 127.0.0.1, [::1] or "
                   "unix:/path");
}

static bool check_outbox(const struct source *source, const struct outbox_config *outbox)
{
        if (outbox->retention_max_ms == 0 || outbox->retention_max_ms >= outbox->retention_ms)
                return true;
        return source_fail(source, "outbox.retention_max",
            "is below outbox.retention; allowed: 0, outbox.retention or longer");
}

bool config_check(const struct source *source, struct config *config)
{
        char path[KEY_PATH_SIZE];

        if (!check_outbox(source, &config->outbox))
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++) {
                key_path_item(path, "sinks", i);
                if (!check_sink(source, &config->sinks[i], path))
                        return false;
        }
        return check_admin(source, config->admin) && check_names_differ(source, config);
}

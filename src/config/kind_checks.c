/*
 * The rules between the keys of one kind of sink. Most of those of http keep a secret or a credential
 * from being sent to no receiver, or to all of them.
 */
#include "config/kind_checks.h"

#include "config/url.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

/* Moves what the URL holds to its member, unless a key of its own gives it too. */
static bool adopt(
    const struct source *source, const char *path, const char *name, char **from_url, char **member)
{
        if (*from_url == NULL)
                return true;
        if (*member != NULL)
                return source_fail(
                    source, path, name, "is given here and in url; keep one of the two");
        *member = *from_url;
        *from_url = NULL;
        return true;
}

static bool take_redis_url(const struct source *source, struct redis_config *redis,
    struct redis_url *url, const char *path)
{
        if (url->db != 0 && source_has(source, path, "db"))
                return source_fail(
                    source, path, "db", "is given here and in url; keep one of the two");
        redis->port = url->port;
        if (url->db != 0)
                redis->db = url->db;
        if (redis->tls && !url->is_tls)
                return source_fail(source, path, "tls",
                    "is true, but url is not rediss://…; write the url so, or leave tls out");
        redis->tls = url->is_tls;
        redis->host = url->host;
        redis->socket_path = url->socket_path;
        url->host = url->socket_path = NULL;
        return adopt(source, path, "user", &url->user, &redis->user) &&
               adopt(source, path, "password", &url->password, &redis->password);
}

static bool check_redis_login(const struct source *source, const char *path, const char *user_key,
    const char *user, const char *password)
{
        int prefix = (int)strlen(user_key) - (int)strlen("user");

        return user == NULL || password != NULL ||
               source_fail(source, path, user_key,
                   "is given without a password; add %.*spassword or %.*spassword_file", prefix,
                   user_key, prefix, user_key);
}

/* The key that a value came from: its own, or that of the file. */
static const char *written_as(
    const struct source *source, const char *path, const char *name, const char *file_name)
{
        return source_has(source, path, file_name) ? file_name : name;
}

static bool check_redis_servers(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        static const char without_sentinels[] = "is given without sentinels";

        if (redis->n_sentinels > 0 && redis->master == NULL)
                return source_fail(source, path, "",
                    "has sentinels but no master; name the master as the sentinels know it");
        if (redis->n_sentinels == 0 && redis->master != NULL)
                return source_fail(source, path, "master", without_sentinels);
        if (redis->n_sentinels == 0 && redis->sentinel_user != NULL)
                return source_fail(source, path, "sentinel_user", without_sentinels);
        if (redis->n_sentinels == 0 && redis->sentinel_password != NULL)
                return source_fail(source, path,
                    written_as(source, path, "sentinel_password", "sentinel_password_file"),
                    without_sentinels);
        if (redis->n_cluster > 0 && redis->db != 0)
                return source_fail(
                    source, path, "db", "is not 0; a Redis Cluster has no other database");
        return true;
}

static bool check_redis_tls(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        static const char without_tls[] =
            "is given without TLS; write the url as rediss://…, or tls: true";

        if (redis->cert_file != NULL && redis->key_file == NULL)
                return source_fail(source, path, "cert_file", "is given without key_file");
        if (redis->cert_file == NULL && redis->key_file != NULL)
                return source_fail(source, path, "key_file", "is given without cert_file");
        if (!redis->tls && redis->ca_file != NULL)
                return source_fail(source, path, "ca_file", without_tls);
        if (!redis->tls && redis->cert_file != NULL)
                return source_fail(source, path, "cert_file", without_tls);
        return true;
}

static bool check_redis_mode(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        static const char *const of_streams[] = {
            "stream", "maxlen", "minid", "layout", "wait_replicas", "wait_timeout", "exactly_once"};

        if (redis->mode == REDIS_STREAM)
                return !source_has(source, path, "channel") ||
                       source_fail(source, path, "channel", "is only for mode: pubsub; use stream");
        for (size_t i = 0; i < sizeof of_streams / sizeof of_streams[0]; i++)
                if (source_has(source, path, of_streams[i]))
                        return source_fail(source, path, of_streams[i],
                            "is only for mode: stream; leave it out with mode: pubsub");
        return true;
}

/* A cluster keeps keys together that share the text in their first braces. The keys beside the stream
 * take the stream's name into theirs, or its own braces. */
static bool has_usable_braces(const char *stream)
{
        const char *open = strchr(stream, '{');
        const char *close = open != NULL ? strchr(open, '}') : NULL;

        if (open == NULL)
                return strchr(stream, '}') == NULL;
        return close != NULL && close > open + 1;
}

static bool check_exactly_once(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        if (!redis->exactly_once)
                return true;
        if (!source_has(source, path, "stream") || strstr(redis->stream, "{{") != NULL)
                return source_fail(source, path, "exactly_once",
                    "needs a fixed stream: what was delivered is noted beside it; set stream to a "
                    "name without variables");
        if (!has_usable_braces(redis->stream))
                return source_fail(source, path, "stream",
                    "has braces that are no hash tag, which exactly_once cannot use; allowed: "
                    "none, or a text in braces");
        return true;
}

static bool check_redis_entries(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        if (redis->maxlen > 0 && redis->minid_ms > 0)
                return source_fail(
                    source, path, "minid", "is given together with maxlen; keep one of the two");
        if (redis->format != FORMAT_CLOUDEVENTS && source_has(source, path, "source"))
                return source_fail(source, path, "source", "is only for format: cloudevents");
        if (redis->wait_replicas == 0 && source_has(source, path, "wait_timeout"))
                return source_fail(
                    source, path, "wait_timeout", "is only for wait_replicas above 0");
        if (redis->wait_replicas > 0 && redis->wait_timeout_ms >= redis->timeout_ms)
                return source_fail(source, path, "wait_timeout",
                    "is not shorter than timeout, after which the connection is given up");
        return check_exactly_once(source, redis, path);
}

bool check_redis(const struct source *source, struct redis_config *redis, const char *path)
{
        struct redis_url url;
        bool is_valid = true;

        if ((redis->url != NULL) + (redis->n_sentinels > 0) + (redis->n_cluster > 0) != 1)
                return source_fail(source, path, "",
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
               check_redis_servers(source, redis, path) && check_redis_tls(source, redis, path) &&
               check_redis_mode(source, redis, path) && check_redis_entries(source, redis, path);
}

static bool has_secret(const struct http_config *http)
{
        return http->secret != NULL || http->n_secrets > 0;
}

static bool check_receivers(
    const struct source *source, const struct http_config *http, const char *path)
{
        if (http->endpoints == HTTP_ENDPOINTS_NONE)
                return http->url != NULL ||
                       source_fail(source, path, "url",
                           "is required, or url_file, or endpoints: table: where events are "
                           "posted, http://host… or https://host…");
        if (http->url != NULL)
                return source_fail(source, path, "endpoints",
                    "is table while url is given too; keep one of the two: one receiver, or "
                    "those of courier.endpoint");
        if (has_secret(http))
                return source_fail(source, path,
                    http->secret != NULL ? written_as(source, path, "secret", "secret_file")
                                         : written_as(source, path, "secrets", "secrets_file"),
                    "is given with endpoints: table, where each endpoint has its own; remove it");
        if (http->auth.user != NULL || http->auth.password != NULL || http->auth.bearer != NULL)
                return source_fail(source, path, "auth",
                    "is given with endpoints: table and would be sent to every one of them; give "
                    "the endpoint an authorization header of its own instead");
        return true;
}

static bool check_secrets(
    const struct source *source, const struct http_config *http, const char *path)
{
        const char *wrong = NULL;
        char list_path[KEY_PATH_SIZE];
        char item_path[KEY_PATH_SIZE];

        if (http->secret != NULL && http->n_secrets > 0)
                return source_fail(source, path, "secrets",
                    "is given together with secret; keep one of the two, the newest first");
        if (http->signing == HTTP_SIGNING_NONE && has_secret(http))
                return source_fail(
                    source, path, "signing", "is none while there is a secret; remove one");
        if ((http->signing == HTTP_SIGNING_GITHUB || http->signing == HTTP_SIGNING_STRIPE) &&
            !has_secret(http) && http->endpoints == HTTP_ENDPOINTS_NONE)
                return source_fail(source, path, "signing",
                    "is given without a secret; add secret, secret_file, secrets or secrets_file");
        if (http->signing != HTTP_SIGNING_STANDARD)
                return true;
        if (http->secret != NULL && (wrong = check_http_secret(http->secret)) != NULL)
                return source_fail(
                    source, path, written_as(source, path, "secret", "secret_file"), "%s", wrong);
        key_path_join(list_path, path, written_as(source, path, "secrets", "secrets_file"));
        for (unsigned i = 0; i < http->n_secrets; i++) {
                key_path_item(item_path, list_path, i);
                wrong = check_http_secret(http->secrets[i]);
                if (wrong != NULL)
                        return source_fail(source, item_path, "", "%s", wrong);
        }
        return true;
}

static bool check_auth(const struct source *source, const struct http_auth *auth, const char *path)
{
        if (auth->user != NULL && auth->password == NULL)
                return source_fail(source, path, "auth.user",
                    "is given without password or password_file; logging in needs both");
        if (auth->user == NULL && auth->password != NULL)
                return source_fail(
                    source, path, "auth.password", "is given without user; logging in needs both");
        if (auth->user != NULL && auth->bearer != NULL)
                return source_fail(source, path, "auth.bearer",
                    "is given together with user and password; a request carries one of the two");
        return true;
}

static bool check_requests(
    const struct source *source, const struct http_config *http, const char *path)
{
        if (http->cert_file != NULL && http->key_file == NULL)
                return source_fail(
                    source, path, "cert_file", "is given without key_file; TLS needs both");
        if (http->cert_file == NULL && http->key_file != NULL)
                return source_fail(
                    source, path, "key_file", "is given without cert_file; TLS needs both");
        if (http->http_version == HTTP_VERSION_2 && http->fresh_connections)
                return source_fail(source, path, "fresh_connections",
                    "cannot go with http_version: 2, whose requests share connections");
        if (http->batch != NULL && http->body == HTTP_BODY_CLOUDEVENTS)
                return source_fail(source, path, "batch",
                    "cannot go with body: cloudevents, whose headers describe one event; use "
                    "cloudevents-structured");
        return true;
}

bool check_http(const struct source *source, const struct http_config *http, const char *path)
{
        return check_receivers(source, http, path) && check_secrets(source, http, path) &&
               check_auth(source, &http->auth, path) && check_requests(source, http, path);
}

static bool check_email_login(
    const struct source *source, const char *user, const char *password, const char *path)
{
        if (user != NULL && password == NULL)
                return source_fail(source, path, "user",
                    "is given without password or password_file; logging in needs both");
        if (user == NULL && password != NULL)
                return source_fail(
                    source, path, "password", "is given without user; logging in needs both");
        return true;
}

static bool check_relays(
    const struct source *source, const struct email_config *email, const char *path)
{
        char relays_path[KEY_PATH_SIZE];
        char item_path[KEY_PATH_SIZE];

        if (email->n_relays > 0 && email->url != NULL)
                return source_fail(
                    source, path, "relays", "is given together with url; keep one of the two");
        /* Which of the relays a password is meant for must never be a guess. */
        if (email->n_relays > 0 && (email->user != NULL || email->password != NULL))
                return source_fail(source, path, email->user != NULL ? "user" : "password",
                    "belongs to url; write user and password (or password_file) into each of "
                    "relays that is to get them");
        key_path_join(relays_path, path, "relays");
        for (unsigned i = 0; i < email->n_relays; i++) {
                const struct email_relay_config *relay = &email->relays[i];
                key_path_item(item_path, relays_path, i);
                if (!check_email_login(source, relay->user, relay->password, item_path))
                        return false;
        }
        return true;
}

bool check_email(const struct source *source, struct email_config *email, const char *path)
{
        if (email->url == NULL && email->n_relays == 0)
                return source_fail(source, path, "url",
                    "is required, or relays: smtp://host[:port] or smtps://host[:port]");
        if (!check_relays(source, email, path) ||
            !check_email_login(source, email->user, email->password, path))
                return false;
        if (email->key_file != NULL && email->cert_file == NULL)
                return source_fail(source, path, "key_file", "is given without cert_file");
        if (email->message_id_domain == NULL)
                email->message_id_domain = email_address_domain(email->from);
        return true;
}

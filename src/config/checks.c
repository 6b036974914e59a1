/* First the rules of each kind of sink, most of which keep a secret or a credential from going to
 * the wrong place or to every receiver; then the rules of any sink; then those of other blocks. */
#include "config/checks.h"

#include "base/alloc.h"
#include "config/broker_checks.h"
#include "config/checks_common.h"
#include "config/postgres_block.h"
#include "config/url.h"
#include "config/values.h"
#include "text/network.h"
#include "text/topic_pattern.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        static const char *const of_streams[] = {"stream", "maxlen", "minid", "layout", "debezium",
            "wait_replicas", "wait_timeout", "exactly_once", NULL};

        if (redis->mode == REDIS_STREAM)
                return !source_has(source, path, "channel") ||
                       source_fail(source, path, "channel", "is only for mode: pubsub; use stream");
        return refuse_keys(
            source, path, of_streams, "is only for mode: stream; leave it out with mode: pubsub");
}

/* A cluster keeps keys together that share the text in their first braces. The keys beside the
 * stream take the stream's name into theirs, or its own braces. */
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
                    "needs a fixed stream; set stream to a name without variables");
        if (!has_usable_braces(redis->stream))
                return source_fail(source, path, "stream",
                    "has braces that are not a hash tag, so exactly_once cannot use it; write "
                    "{TEXT}, or no braces");
        return true;
}

static bool check_debezium(
    const struct source *source, const struct redis_config *redis, const char *redis_path)
{
        static const char *const of_headers[] = {"headers", "context", "type_header", NULL};
        static const char *const of_values[] = {"value", "null_value", "tombstone", NULL};
        char path[KEY_PATH_SIZE];

        key_path_join(path, redis_path, "debezium");
        if (redis->layout == LAYOUT_NATIVE)
                return !source_has(source, redis_path, "debezium") ||
                       source_fail(source, redis_path, "debezium",
                           "is only for layout: debezium-extended and debezium-compact");
        if (redis->layout == LAYOUT_DEBEZIUM_COMPACT &&
            !refuse_keys(source, path, of_headers,
                "is only for layout: debezium-extended; debezium-compact has no headers"))
                return false;
        if (redis->format == FORMAT_CLOUDEVENTS &&
            !refuse_keys(source, path, of_values,
                "is given together with format: cloudevents, which makes the value; keep one of "
                "the two"))
                return false;
        return check_debezium_nulls(source, &redis->debezium, path);
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
                    "is not shorter than timeout; allowed: less than timeout");
        return check_debezium(source, redis, path) && check_exactly_once(source, redis, path);
}

static bool check_redis(const struct source *source, struct redis_config *redis, const char *path)
{
        struct redis_url url;
        bool is_valid = true;

        if ((redis->url != NULL) + (redis->n_sentinels > 0) + (redis->n_cluster > 0) != 1)
                return source_fail(
                    source, path, "", "needs exactly one of url, sentinels and cluster");
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
        if (http->receivers == HTTP_RECEIVERS_NONE)
                return http->url != NULL || source_fail(source, path, "url",
                                                "is required: write https://HOST/PATH, or set "
                                                "url_file or receivers: table");
        if (http->url != NULL)
                return source_fail(source, path, "receivers",
                    "is table, but url is given too; keep one of the two");
        if (has_secret(http))
                return source_fail(source, path,
                    http->secret != NULL ? written_as(source, path, "secret", "secret_file")
                                         : written_as(source, path, "secrets", "secrets_file"),
                    "is given with receivers: table, where each receiver has its own; remove it");
        if (http->auth.user != NULL || http->auth.password != NULL || http->auth.bearer != NULL)
                return source_fail(source, path, "auth",
                    "is given with receivers: table, which would send it to every receiver; remove "
                    "it, and give the receiver that needs it an authorization header");
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
                return source_fail(source, path, "signing",
                    "is none, but a secret is given; remove one of the two");
        if ((http->signing == HTTP_SIGNING_GITHUB || http->signing == HTTP_SIGNING_STRIPE) &&
            !has_secret(http) && http->receivers == HTTP_RECEIVERS_NONE)
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
                    "is given together with user and password; keep one of the two");
        return true;
}

static bool check_requests(
    const struct source *source, const struct http_config *http, const char *path)
{
        if (http->http_version == HTTP_VERSION_2 && http->fresh_connections)
                return source_fail(source, path, "fresh_connections",
                    "cannot be used with http_version: 2, where requests share a connection; "
                    "remove one of the two");
        if (http->batch != NULL && http->body == HTTP_BODY_CLOUDEVENTS)
                return source_fail(source, path, "batch",
                    "cannot be used with body: cloudevents, where the headers describe one event; "
                    "use body: cloudevents-structured");
        return true;
}

static bool check_http(
    const struct source *source, const struct http_config *http, const char *path)
{
        return check_receivers(source, http, path) && check_secrets(source, http, path) &&
               check_auth(source, &http->auth, path) &&
               check_certificate(source, http->cert_file, http->key_file, path) &&
               check_requests(source, http, path);
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
                    "is given together with relays; write user and password (or password_file) "
                    "into each relay that needs them");
        key_path_join(relays_path, path, "relays");
        for (unsigned i = 0; i < email->n_relays; i++) {
                const struct email_relay_config *relay = &email->relays[i];
                key_path_item(item_path, relays_path, i);
                if (!check_login(source, relay->user, relay->password, item_path))
                        return false;
        }
        return true;
}

static bool check_email(const struct source *source, struct email_config *email, const char *path)
{
        if (email->url == NULL && email->n_relays == 0)
                return source_fail(source, path, "url",
                    "is required, or relays: smtp://host[:port] or smtps://host[:port]");
        if (!check_relays(source, email, path) ||
            !check_login(source, email->user, email->password, path))
                return false;
        if (email->key_file != NULL && email->cert_file == NULL)
                return source_fail(source, path, "key_file", "is given without cert_file");
        if (email->message_id_domain == NULL)
                email->message_id_domain = email_address_domain(email->from);
        return true;
}

static bool check_names_differ(const struct source *source, const struct config *config)
{
        char path[KEY_PATH_SIZE];

        for (unsigned i = 1; i < config->n_sinks; i++) {
                for (unsigned j = 0; j < i; j++) {
                        if (strcmp(config->sinks[i].name, config->sinks[j].name) != 0)
                                continue;
                        key_path_item(path, "sinks", i);
                        return source_fail(source, path, "name",
                            "is the name of sinks[%u] too; each sink needs its own", j);
                }
        }
        return true;
}

static bool check_has_one_kind(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        int n_kinds = (sink->redis != NULL) + (sink->http != NULL) + (sink->email != NULL) +
                      (sink->nats != NULL) + (sink->rabbitmq != NULL) + (sink->kafka != NULL) +
                      (sink->postgres != NULL) + (sink->stdout_ != NULL) + (sink->module != NULL);

        if (n_kinds == 1)
                return true;
        return source_fail(source, path, "",
            "has %s destination; exactly one of these is needed: redis, http, email, nats, "
            "rabbitmq, kafka, postgres, stdout, module",
            n_kinds == 0 ? "no" : "more than one");
}

/* As mail servers do it: greylisting passes after a minute, a full mailbox after hours. The delays
 * add up to two and a half days. */
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

/* The length of the list limits the attempts, and its sum their age. The defaults of the other two
 * limits would shorten that, so only values from the file count. */
static void let_delays_decide(
    const struct source *source, struct retry_config *retry, const char *path)
{
        if (!source_has(source, path, "attempts"))
                retry->attempts = 0;
        if (!source_has(source, path, "max_age"))
                retry->max_age_ms = 0;
}

static bool check_delays(const struct source *source, struct retry_config *retry, const char *path)
{
        static const char *const others[] = {"first", "factor", "max"};

        if (retry->n_delays == 0)
                return source_fail(source, path, "delays",
                    "is empty; give at least one delay, or leave the key out (attempts: 1 tries "
                    "only once)");
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
                if (source_has(source, path, others[i]))
                        return source_fail(source, path, others[i],
                            "is given together with delays; keep one of the two");
        let_delays_decide(source, retry, path);
        return true;
}

static bool check_retry(const struct source *source, struct sink_config *sink, const char *path)
{
        struct retry_config *retry = &sink->retry;
        char retry_path[KEY_PATH_SIZE];

        key_path_join(retry_path, path, "retry");
        if (source_has(source, retry_path, "delays"))
                return check_delays(source, retry, retry_path);
        if (sink->email != NULL && !source_has(source, retry_path, "first") &&
            !source_has(source, retry_path, "factor") && !source_has(source, retry_path, "max")) {
                set_email_delays(retry);
                let_delays_decide(source, retry, retry_path);
                return true;
        }
        return retry->max_ms >= retry->first_ms ||
               source_fail(source, retry_path, "max",
                   "is below retry.first; allowed: retry.first or longer");
}

static bool check_patterns(const struct source *source, const char *path, const char *name,
    char *const *patterns, unsigned n_patterns)
{
        const char *wrong = topic_patterns_check(patterns, n_patterns);

        return wrong == NULL || source_fail(source, path, name, "%s", wrong);
}

/* Each shard has an owner of its own, and so an epoch of its own. */
static bool check_shards(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        return sink->shards == 1 || sink->redis == NULL || !sink->redis->exactly_once ||
               source_fail(source, path, "shards",
                   "is above 1, but redis.exactly_once writes with one epoch for a whole stream; "
                   "use shards: 1, or leave exactly_once out");
}

static bool check_rate(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        if (sink->rate.burst > 0 && sink->rate.per_second <= 0)
                return source_fail(
                    source, path, "rate.burst", "is given without per_second; add per_second");
        /* One rate for all receivers would let the slowest hold up the others. */
        if (sink_config_fans_out(sink) && sink->rate.per_second > 0)
                return source_fail(source, path, "rate",
                    "cannot be used with receivers: table; set courier.receiver.rate for each "
                    "receiver");
        return true;
}

/* Each mail on its way occupies a thread. */
static bool check_concurrency(
    const struct source *source, const struct sink_config *sink, const char *path)
{
        return sink->email == NULL || sink->concurrency <= 16 ||
               source_fail(source, path, "concurrency",
                   "'%u' is out of range; allowed for email: 1 to 16", sink->concurrency);
}

static bool check_kind(const struct source *source, struct sink_config *sink, const char *path)
{
        char block_path[KEY_PATH_SIZE];

        key_path_join(block_path, path, sink_config_kind(sink));
        if (sink->redis != NULL)
                return check_redis(source, sink->redis, block_path);
        if (sink->http != NULL)
                return check_http(source, sink->http, block_path);
        if (sink->nats != NULL)
                return check_nats(source, sink->nats, block_path);
        if (sink->rabbitmq != NULL)
                return check_rabbitmq(source, sink->rabbitmq, block_path);
        if (sink->kafka != NULL)
                return check_kafka(source, sink->kafka, block_path);
        if (sink->postgres != NULL)
                return check_postgres_sink(source, sink, path);
        return sink->email == NULL || check_email(source, sink->email, block_path);
}

static bool check_sink(const struct source *source, struct sink_config *sink, const char *path)
{
        return check_has_one_kind(source, sink, path) && check_retry(source, sink, path) &&
               check_patterns(source, path, "topics", sink->topics, sink->n_topics) &&
               check_patterns(source, path, "types", sink->types, sink->n_types) &&
               check_rate(source, sink, path) && check_concurrency(source, sink, path) &&
               check_kind(source, sink, path) && check_shards(source, sink, path);
}

/* Where other machines can reach the endpoint, only the token keeps them from changing things. */
static bool check_admin(const struct source *source, const struct admin_config *admin)
{
        struct listen_address address;

        if (admin == NULL || admin->token != NULL)
                return true;
        if (listen_address_parse(admin->listen, &address) != NULL)
                abort(); /* its row's check has accepted it */
        return listen_address_is_local(&address) ||
               source_fail(source, "admin", "listen",
                   "is reachable from other machines, but there is no token; add admin.token_file "
                   "(make a token with: openssl rand -hex 32), or listen on 127.0.0.1, [::1] or "
                   "unix:/path");
}

/* An empty list would look like a refusal, and allow everything. */
static bool check_portal(const struct source *source, const struct portal_config *portal)
{
        return portal == NULL || portal->n_manage > 0 || !source_has(source, "portal", "manage") ||
               source_fail(source, "portal", "manage",
                   "is empty; list what links with --manage allow (resend, pause, url, secret), or "
                   "leave the key out and make links without --manage");
}

static bool check_outbox(const struct source *source, const struct outbox_config *outbox)
{
        if (outbox->retention_max_ms == 0 || outbox->retention_max_ms >= outbox->retention_ms)
                return true;
        return source_fail(source, "outbox", "retention_max",
            "is below outbox.retention; allowed: 0, outbox.retention or longer");
}

static bool matches_a_sink(const struct config *config, const char *pattern)
{
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (topic_pattern_matches(
                        *pattern == '!' ? pattern + 1 : pattern, config->sinks[i].name))
                        return true;
        return false;
}

static bool check_served(const struct source *source, const struct config *config)
{
        const struct relay_config *relay = &config->relay;
        char path[KEY_PATH_SIZE];

        if (relay->n_sinks == 0)
                return !source_has(source, "relay", "sinks") ||
                       source_fail(source, "relay", "sinks",
                           "is empty; list the sinks that the relay serves, or leave the key out: "
                           "it serves all then");
        for (unsigned i = 0; i < relay->n_sinks; i++) {
                key_path_item(path, "relay.sinks", i);
                if (!matches_a_sink(config, relay->sinks[i]))
                        return source_fail(
                            source, path, "", "matches the name of no sink in this file");
        }
        if (!check_patterns(source, "relay", "sinks", relay->sinks, relay->n_sinks))
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (relay_config_serves(relay, config->sinks[i].name))
                        return true;
        return source_fail(source, "relay", "sinks", "leaves no sink for this relay to serve");
}

/* The host's name, as far as a relay's may be so. */
static void name_relay(struct relay_config *relay)
{
        char host[256] = "";

        if (relay->name != NULL)
                return;
        gethostname(host, sizeof host - 1);
        host[63] = '\0';
        for (char *at = host; *at != '\0'; at++) {
                *at = (char)tolower((unsigned char)*at);
                if (check_relay_name((char[]){*at, '\0'}) != NULL)
                        *at = '-';
        }
        relay->name = xstrdup(*host != '\0' ? host : "relay");
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
                postgres_sink_choose_server(config->sinks[i].postgres, &config->postgres);
        }
        name_relay(&config->relay);
        return check_admin(source, config->admin) && check_portal(source, config->portal) &&
               check_names_differ(source, config) && check_served(source, config);
}

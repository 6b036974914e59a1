#include "outbox/sink_settings.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "config/config.h"
#include "pg/array_literal.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Of what it was made of it tells 32 bits: too few to find a secret, enough to tell two apart. */
static uint32_t mark_of(const char *text)
{
        uint64_t hash = hash_text(text);

        return (uint32_t)(hash ^ hash >> 32);
}

static int compare_texts(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "a, b". Where their order means nothing, two lists that differ in it are the same. */
static void append_list(struct bytes *text, char *const *texts, unsigned n_texts, bool is_set)
{
        char **copy = xcalloc(n_texts + 1, sizeof *copy);

        if (n_texts > 0)
                memcpy(copy, texts, n_texts * sizeof *copy);
        if (is_set)
                qsort(copy, n_texts, sizeof *copy, compare_texts);
        for (unsigned i = 0; i < n_texts; i++)
                bytes_printf(text, "%s%s", i > 0 ? ", " : "", copy[i]);
        free(copy);
}

/* Without user and password, and without what follows the path. */
static void append_url(struct bytes *text, const char *url)
{
        const char *authority = strstr(url, "://");
        const char *at;

        authority = authority != NULL ? authority + 3 : url;
        at = authority + strcspn(authority, "/?#");
        while (at > authority && *at != '@')
                at--;
        bytes_append(text, url, (size_t)(authority - url));
        if (*at == '@')
                authority = at + 1;
        bytes_append(text, authority, strcspn(authority, "?#"));
        if (strpbrk(authority, "?#") != NULL)
                bytes_printf(text, "?... (%08" PRIx32 ")", mark_of(strpbrk(authority, "?#")));
}

static void append_redis(struct bytes *text, const struct redis_config *redis)
{
        const char *scheme = redis->tls ? "rediss" : "redis";

        if (redis->n_cluster > 0) {
                bytes_printf(text, "%s cluster of ", scheme);
                append_list(text, redis->cluster, redis->n_cluster, true);
        } else if (redis->n_sentinels > 0) {
                bytes_printf(text, "%s master %s of sentinels ", scheme, redis->master);
                append_list(text, redis->sentinels, redis->n_sentinels, true);
        } else if (redis->socket_path != NULL) {
                bytes_printf(text, "unix://%s", redis->socket_path);
        } else {
                bytes_printf(text, "%s://%s:%u", scheme, redis->host, (unsigned)redis->port);
        }
        if (redis->n_cluster == 0)
                bytes_printf(text, ", database %u", (unsigned)redis->db);
        if (redis->mode == REDIS_PUBSUB)
                bytes_printf(text, ", channel %s", redis->channel);
        else
                bytes_printf(text, ", stream %s", redis->stream);
}

static void append_email(struct bytes *text, const struct email_config *email)
{
        if (email->url != NULL)
                append_url(text, email->url);
        for (unsigned i = 0; i < email->n_relays; i++) {
                bytes_append_text(text, i > 0 ? ", " : "");
                append_url(text, email->relays[i].url);
        }
        bytes_printf(text, ", from %s", email->from);
}

static void append_nats(struct bytes *text, const struct nats_config *nats)
{
        bytes_append_text(text, "nats ");
        append_list(text, nats->servers, nats->n_servers, true);
        bytes_printf(text, ", subject %s", nats->subject);
        if (nats->stream != NULL)
                bytes_printf(text, ", stream %s", nats->stream);
}

static void append_rabbitmq(struct bytes *text, const struct rabbitmq_config *rabbitmq)
{
        bytes_append_text(text, "rabbitmq ");
        append_list(text, rabbitmq->servers, rabbitmq->n_servers, true);
        bytes_printf(text, ", vhost %s, exchange \"%s\", routing key %s", rabbitmq->vhost,
            rabbitmq->exchange, rabbitmq->routing_key);
}

static void append_kafka(struct bytes *text, const struct kafka_config *kafka)
{
        bytes_append_text(text, "kafka ");
        append_list(text, kafka->brokers, kafka->n_brokers, true);
        bytes_printf(text, ", topic %s", kafka->topic);
}

/* The dsn may hold a password; of the outbox's own all relays have the same. */
static void append_postgres(struct bytes *text, const struct postgres_sink_config *postgres)
{
        bytes_printf(text, "postgres %s %s", postgres->call != NULL ? "call" : "insert",
            postgres->call != NULL ? postgres->call : postgres->insert);
        if (postgres->dsn != NULL)
                bytes_printf(text, ", dsn (%08" PRIx32 ")", mark_of(postgres->dsn));
}

static void append_module(struct bytes *text, const struct module_config *module)
{
        struct bytes options = {0};

        /* Only the module knows which of them are secrets. */
        for (size_t i = 0; i < module->options.n_options; i++)
                bytes_printf(&options, "%s=%s\n", module->options.options[i].name,
                    module->options.options[i].value);
        bytes_printf(text, "%s", module->file);
        if (options.data != NULL) {
                bytes_printf(text, ", options %08" PRIx32, mark_of(options.data));
                explicit_bzero(options.data, options.length);
        }
        bytes_deinit(&options);
}

static void append_destination(struct bytes *text, const struct sink_config *config)
{
        if (config->redis != NULL)
                append_redis(text, config->redis);
        else if (config->http != NULL && config->http->url != NULL)
                append_url(text, config->http->url);
        else if (config->http != NULL)
                bytes_append_text(text, "courier.receiver");
        else if (config->email != NULL)
                append_email(text, config->email);
        else if (config->nats != NULL)
                append_nats(text, config->nats);
        else if (config->rabbitmq != NULL)
                append_rabbitmq(text, config->rabbitmq);
        else if (config->kafka != NULL)
                append_kafka(text, config->kafka);
        else if (config->postgres != NULL)
                append_postgres(text, config->postgres);
        else if (config->module != NULL)
                append_module(text, config->module);
        else
                bytes_append_text(text, "standard output");
}

/* What courier.check_receiver() lets through, which judges addresses in the URLs of receivers. */
static void append_networks(struct bytes *text, const struct http_config *http)
{
        if (http->proxy != NULL)
                bytes_append_text(text, "0.0.0.0/0, ::/0"); /* the proxy connects, and judges */
        else
                append_list(text, http->allow_networks, http->n_allow_networks, true);
}

/* For courier.trace(). */
static json_t *match_headers(const struct sink_config *config)
{
        json_t *list = json_array();

        for (unsigned i = 0; i < config->n_match_headers; i++)
                json_array_append_new(list, json_string(config->match_headers[i]));
        return list;
}

/* Consumes the text. */
static void add_text(json_t *settings, const char *name, struct bytes *text)
{
        if (text->length > 0)
                json_object_set_new(settings, name, json_string(text->data));
        bytes_deinit(text);
        *text = (struct bytes){0};
}

char *sink_settings(const struct sink_config *config)
{
        json_t *settings = json_object();
        struct bytes part = {0};
        char *text;

        append_destination(&part, config);
        add_text(settings, "destination", &part);
        append_list(&part, config->topics, config->n_topics, true);
        add_text(settings, "topics", &part);
        append_list(&part, config->types, config->n_types, true);
        add_text(settings, "types", &part);
        append_list(&part, config->match_headers, config->n_match_headers, true);
        add_text(settings, "headers", &part);
        if (config->n_match_headers > 0)
                json_object_set_new(settings, "match_headers", match_headers(config));
        bytes_append_text(&part, config->filter != NULL ? config->filter : "");
        add_text(settings, "filter", &part);
        bytes_append_text(&part, config->order == ORDER_KEY ? "key" : "none");
        add_text(settings, "order", &part);
        if (config->http != NULL && config->http->url == NULL) {
                append_networks(&part, config->http);
                json_object_set_new(
                    settings, "networks", json_string(part.data != NULL ? part.data : ""));
                bytes_deinit(&part);
        }
        text = json_dumps(settings, JSON_COMPACT);
        if (text == NULL)
                out_of_memory();
        json_decref(settings);
        return text;
}

char *sink_patterns(char *const *patterns, unsigned n_patterns)
{
        struct array_literal array = {0};
        char *text;

        for (unsigned i = 0; i < n_patterns; i++)
                array_add_text(&array, patterns[i]);
        text = xstrdup(array_end(&array));
        array_deinit(&array);
        return text;
}

static const char *text_of(const json_t *settings, const char *part)
{
        const char *text = json_string_value(json_object_get(settings, part));

        return text != NULL ? text : "none";
}

void sink_settings_compare(struct bytes *out_words, const char *ours, const char *theirs)
{
        static const char *const parts[] = {
            "destination", "topics", "types", "headers", "filter", "order", "networks"};
        json_t *here = json_loads(ours, 0, NULL);
        json_t *there = json_loads(theirs, 0, NULL);

        for (size_t i = 0; json_object_size(there) > 0 && i < sizeof parts / sizeof *parts; i++)
                if (strcmp(text_of(here, parts[i]), text_of(there, parts[i])) != 0)
                        bytes_printf(out_words, "%s%s: %s there, %s here",
                            out_words->length > 0 ? "; " : "", parts[i], text_of(there, parts[i]),
                            text_of(here, parts[i]));
        json_decref(here);
        json_decref(there);
}

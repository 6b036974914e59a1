/* A sink in the configuration: its kind, where it delivers to, and the keys of each kind. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "config/config_keys_internal.h"
#include "config/url.h"
#include "text/topic_pattern.h"

#include <stdlib.h>
#include <string.h>

const char *sink_config_kind(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return "redis";
        if (sink->http != NULL)
                return "http";
        if (sink->email != NULL)
                return "email";
        if (sink->nats != NULL)
                return "nats";
        if (sink->rabbitmq != NULL)
                return "rabbitmq";
        if (sink->kafka != NULL)
                return "kafka";
        if (sink->postgres != NULL)
                return "postgres";
        if (sink->stdout_ != NULL)
                return "stdout";
        if (sink->module != NULL)
                return "module";
        abort(); /* config_load() accepts no sink without a kind */
}

const void *sink_config_options(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return sink->redis;
        if (sink->http != NULL)
                return sink->http;
        if (sink->email != NULL)
                return sink->email;
        if (sink->nats != NULL)
                return sink->nats;
        if (sink->rabbitmq != NULL)
                return sink->rabbitmq;
        if (sink->kafka != NULL)
                return sink->kafka;
        if (sink->postgres != NULL)
                return sink->postgres;
        if (sink->stdout_ != NULL)
                return sink->stdout_;
        if (sink->module != NULL)
                return &sink->module->options;
        abort();
}

bool sink_config_fans_out(const struct sink_config *sink)
{
        if (sink->http != NULL)
                return sink->http->receivers == HTTP_RECEIVERS_TABLE;
        return sink->module != NULL && sink->module->receivers == HTTP_RECEIVERS_TABLE;
}

bool relay_config_serves(const struct relay_config *relay, const char *sink)
{
        return relay->n_sinks == 0 || topic_patterns_match(relay->sinks, relay->n_sinks, sink);
}

/* Of a URL no more than this: a token may stand in its path, and often does. */
static void append_origin(struct bytes *words, const char *text)
{
        struct url url;
        bool is_address;

        if (url_split(text, &url) != NULL)
                return; /* which config_load() has refused */
        is_address = strchr(url.host, ':') != NULL;
        bytes_printf(words, "%s://%s%s%s", url.scheme, is_address ? "[" : "", url.host,
            is_address ? "]" : "");
        if (url.port > 0)
                bytes_printf(words, ":%u", url.port);
        url_deinit(&url);
}

static void append_redis(struct bytes *words, const struct redis_config *redis)
{
        const char *name = redis->mode == REDIS_PUBSUB ? redis->channel : redis->stream;

        if (redis->n_sentinels > 0)
                bytes_printf(words, "%s by sentinel %s", redis->master, redis->sentinels[0]);
        else if (redis->n_cluster > 0)
                bytes_printf(words, "cluster of %s", redis->cluster[0]);
        else if (redis->socket_path != NULL)
                bytes_printf(words, "unix://%s", redis->socket_path);
        else
                append_origin(words, redis->url);
        if (redis->db > 0)
                bytes_printf(words, ", database %u", redis->db);
        if (name != NULL)
                bytes_printf(
                    words, ", %s %s", redis->mode == REDIS_PUBSUB ? "channel" : "stream", name);
}

static void append_email(struct bytes *words, const struct email_config *email)
{
        if (email->url != NULL)
                append_origin(words, email->url);
        for (unsigned i = 0; i < email->n_relays; i++) {
                bytes_append_text(words, i > 0 ? ", " : "");
                append_origin(words, email->relays[i].url);
        }
}

static void append_servers(
    struct bytes *words, const char *protocol, char *const *servers, unsigned n_servers)
{
        const char *end = strstr(servers[0], "://");

        bytes_printf(words, "%s %s", protocol, end != NULL ? end + strlen("://") : servers[0]);
        if (n_servers > 1)
                bytes_printf(words, " and %u more", n_servers - 1);
}

static void append_nats(struct bytes *words, const struct nats_config *nats)
{
        append_servers(words, "NATS", nats->servers, nats->n_servers);
        bytes_printf(words, ", subject %s", nats->subject);
}

static void append_kafka(struct bytes *words, const struct kafka_config *kafka)
{
        append_servers(words, "Kafka", kafka->brokers, kafka->n_brokers);
        bytes_printf(words, ", topic %s", kafka->topic);
}

static void append_rabbitmq(struct bytes *words, const struct rabbitmq_config *rabbitmq)
{
        append_servers(words, "RabbitMQ", rabbitmq->servers, rabbitmq->n_servers);
        if (strcmp(rabbitmq->vhost, "/") != 0)
                bytes_printf(words, ", virtual host %s", rabbitmq->vhost);
        if (*rabbitmq->exchange != '\0')
                bytes_printf(words, ", exchange %s", rabbitmq->exchange);
        else
                bytes_printf(words, ", queue %s", rabbitmq->routing_key);
}

static void append_postgres(struct bytes *words, const struct postgres_sink_config *postgres)
{
        bytes_printf(words, "%s %s in %s", postgres->call != NULL ? "function" : "table",
            postgres->call != NULL ? postgres->call : postgres->insert,
            postgres->dsn != NULL ? "another database" : "the outbox's database");
}

char *sink_config_target(const struct sink_config *sink)
{
        struct bytes words = {0};

        bytes_append_text(&words, "");
        if (sink->redis != NULL)
                append_redis(&words, sink->redis);
        else if (sink_config_fans_out(sink))
                bytes_append_text(&words, "the receivers in courier.receiver");
        else if (sink->http != NULL)
                append_origin(&words, sink->http->url);
        else if (sink->email != NULL)
                append_email(&words, sink->email);
        else if (sink->nats != NULL)
                append_nats(&words, sink->nats);
        else if (sink->rabbitmq != NULL)
                append_rabbitmq(&words, sink->rabbitmq);
        else if (sink->kafka != NULL)
                append_kafka(&words, sink->kafka);
        else if (sink->postgres != NULL)
                append_postgres(&words, sink->postgres);
        else if (sink->stdout_ != NULL)
                bytes_append_text(&words, "standard output");
        else if (sink->module != NULL)
                bytes_append_text(&words, sink->module->file);
        return words.data;
}

/* The keys of each kind of sink: the blocks below a sink's own keys. */

/* Of the kinds that know `receivers: table`. */
#define DISABLE_AFTER                                                                              \
        {                                                                                          \
                "disable_after", KEY_DURATION, MEMBER(disable_after_ms),                           \
                    .fallback = "5d", .min = "0", .max = "365d",                                   \
                    .help = "with `receivers: table`, disable a receiver that has failed for "     \
                            "this long without one success; `0`: never"                            \
        }

/* Of the kinds that can write as Debezium does. The first three are those of Debezium Server. */
#define OWNER struct debezium_config
static const struct config_key debezium_keys[] = {
    {"key", KEY_CHOICE, MEMBER(key), .fallback = "json-schema",
        .choices = "string, json, json-schema",
        .help = "the event's key: as it is, as a JSON string, or as JSON with its schema"},
    {"value", KEY_CHOICE, MEMBER(value), .fallback = "json-schema",
        .choices = "string, json, json-schema, expanded",
        .help = "the payload: as it was published, as a JSON string, or as JSON with its schema; "
                "`expanded`: as a JSON object, like `table.expand.json.payload`"},
    {"headers", KEY_CHOICE, MEMBER(headers), .fallback = "json-schema",
        .choices = "string, json, json-schema", .help = "the values of headers; as `key`"},
    {"context", KEY_TEXT, MEMBER(context),
        .help = "add Debezium's three context headers, with this as `connectorLogicalName` "
                "(`topic.prefix`)"},
    {"type_header", KEY_TEXT, MEMBER(type_header),
        .help = "add a header of this name with the event's type, like the placement "
                "`type:header:NAME`"},
    {"null_key", KEY_TEXT, MEMBER(null_key), .fallback = "default",
        .help = "what stands for the key of an event without one, with `key: string`"},
    {"null_value", KEY_TEXT, MEMBER(null_value), .fallback = "default",
        .help = "what stands for a payload that is null, with `value: string` or `tombstone`"},
    {"tombstone", KEY_BOOL, MEMBER(tombstone), .fallback = "false",
        .help = "a payload that is null or blank is null in every form, like "
                "`route.tombstone.on.empty.payload`"},
};
BLOCK(debezium_block, debezium_keys);
#undef OWNER

#define OWNER struct redis_config
static const struct config_key redis_keys[] = {
    {"url", KEY_TEXT, MEMBER(url), .is_secret = true, .check = check_redis_url,
        .help = "`redis://[user[:password]@]host[:port][/db]`, the same with `rediss://` for TLS, "
                "or `unix:///path/to.sock[?db=N]`. Exactly one of `url`, `sentinels` and `cluster` "
                "is needed"},
    {"sentinels", KEY_TEXT, LIST(sentinels, n_sentinels), .check = check_redis_host,
        .help = "instead of `url`: the Sentinels that know the master, each as `host[:port]` "
                "(port 26379); needs `master`"},
    {"master", KEY_TEXT, MEMBER(master), .help = "the name by which the sentinels know the master"},
    {"sentinel_user", KEY_TEXT, MEMBER(sentinel_user),
        .help = "the ACL user at the sentinels; needs a password"},
    {"sentinel_password", KEY_TEXT, MEMBER(sentinel_password), .is_secret = true,
        .help = "the password at the sentinels"},
    FILE_OF(sentinel_password),
    {"cluster", KEY_TEXT, LIST(cluster, n_cluster), .check = check_redis_host,
        .help = "instead of `url`: `host[:port]` of some nodes of a Redis Cluster (port 6379)"},
    {"tls", KEY_BOOL, MEMBER(tls), .fallback = "false",
        .help = "with `sentinels` or `cluster`: TLS to all of them; with `url` write `rediss://`"},
    {"ca_file", KEY_TEXT, MEMBER(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, MEMBER(cert_file), .check = check_readable_file,
        .help = "the client certificate, if Redis asks for it (PEM); needs `key_file`"},
    {"key_file", KEY_TEXT, MEMBER(key_file), .check = check_readable_file,
        .help = "the key of cert_file (PEM), without a passphrase"},
    {"db", KEY_INTEGER, MEMBER(db), .fallback = "0", .min = "0", .max = "2147483647",
        .help = "the number of the database, with `sentinels`; with `url` write it there; a "
                "cluster has only database 0"},
    {"user", KEY_TEXT, MEMBER(user), .help = "the ACL user, if `url` has none; needs a password"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password, if url has none"},
    FILE_OF(password),
    {"mode", KEY_CHOICE, MEMBER(mode), .fallback = "stream", .choices = "stream, pubsub",
        .help = "`stream`: append to a stream; `pubsub`: publish to the current subscribers"},
    {"stream", KEY_TEXT, MEMBER(stream), .fallback = "events:{{topic}}",
        .check = check_stream_template,
        .help = "the stream's key: a fixed text, perhaps followed by `{{topic}}`, `{{type}}` and "
                "`{{key}}` of the event"},
    {"channel", KEY_TEXT, MEMBER(channel), .fallback = "events:{{topic}}",
        .check = check_stream_template, .help = "the channel with `mode: pubsub`; as `stream`"},
    {"max_streams", KEY_INTEGER, MEMBER(max_streams), .fallback = "1000", .min = "0",
        .max = "1000000",
        .help = "how many different streams or channels the sink may write to while the relay "
                "runs; `0`: any number"},
    {"maxlen", KEY_INTEGER, MEMBER(maxlen), .fallback = "0", .min = "0",
        .max = "9223372036854775807",
        .help = "trim the stream to about this many entries (`MAXLEN ~`); `0`: never"},
    {"minid", KEY_DURATION, MEMBER(minid_ms), .fallback = "0", .min = "0", .max = "3650d",
        .help = "trim entries older than about this (`MINID ~`); `0`: never; not together with "
                "`maxlen`"},
    {"layout", KEY_CHOICE, MEMBER(layout), .fallback = "native",
        .choices = "native, debezium-extended, debezium-compact",
        .help = "the fields of an entry: pgcourier's, or those of Debezium Server's Redis sink"},
    {"debezium", KEY_BLOCK, MEMBER(debezium), .block = &debezium_block,
        .help = "with a Debezium layout: which of Debezium's settings to write like; the defaults "
                "are Debezium Server's; see [sinks](sinks.md#debezium)"},
    {"format", KEY_CHOICE, MEMBER(format), .fallback = "native", .choices = "native, cloudevents",
        .help = "cloudevents: the event as CloudEvents JSON in one field"},
    {"source", KEY_TEXT, MEMBER(source), .fallback = "pgcourier", .check = check_event_source,
        .help = "the `source` attribute of CloudEvents: a URI reference"},
    {"wait_replicas", KEY_INTEGER, MEMBER(wait_replicas), .fallback = "0", .min = "0", .max = "100",
        .help = "an event counts as delivered when this many replicas have it (`WAIT`); `0`: "
                "do not wait for replicas"},
    {"wait_timeout", KEY_DURATION, MEMBER(wait_timeout_ms), .fallback = "1s", .min = "1ms",
        .max = "1h", .help = "how long to wait for the replicas; shorter than `timeout`"},
    {"exactly_once", KEY_BOOL, MEMBER(exactly_once), .fallback = "false",
        .help = "record deliveries in Redis, so that a crash of the relay does not repeat "
                "them; needs a fixed `stream`"},
    {"connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "5s", .min = "1ms", .max = "1h",
        .help = "how long to wait for the answer to a command before closing the connection"},
};
BLOCK(redis_block, redis_keys);
#undef OWNER

#define OWNER struct http_set_header
static const struct config_key http_set_header_keys[] = {
    {"name", KEY_TEXT, MEMBER(name), .is_required = true, .check = check_header_name,
        .help = "the header's name"},
    {"value", KEY_TEXT, MEMBER(value), .is_required = true, .is_secret = true,
        .check = check_header_value, .help = "its value"},
    FILE_OF(value),
};
static BLOCK(http_set_header_block, http_set_header_keys);
#undef OWNER

#define OWNER struct http_auth
static const struct config_key http_auth_keys[] = {
    {"user", KEY_TEXT, MEMBER(user), .check = check_auth_user,
        .help =
            "the name to log in with (`Authorization: Basic`), without a colon; needs a password"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true, .check = check_header_value,
        .help = "the password to log in with"},
    FILE_OF(password),
    {"bearer", KEY_TEXT, MEMBER(bearer), .is_secret = true, .check = check_auth_bearer,
        .help =
            "a token to log in with (`Authorization: Bearer`), instead of `user` and `password`"},
    FILE_OF(bearer),
};
static BLOCK(http_auth_block, http_auth_keys);
#undef OWNER

#define OWNER struct http_batch
static const struct config_key http_batch_keys[] = {
    {"events", KEY_INTEGER, MEMBER(events), .fallback = "100", .min = "1", .max = "1000",
        .help = "the most events in one request"},
    {"bytes", KEY_SIZE, MEMBER(bytes), .fallback = "256KiB", .min = "1KiB", .max = "64MiB",
        .help = "the most bytes of payloads in one request; a larger event goes alone"},
    {"linger", KEY_DURATION, MEMBER(linger_ms), .fallback = "50ms", .min = "0", .max = "10s",
        .help = "how long a request waits for more events"},
};
static BLOCK(http_batch_block, http_batch_keys);
#undef OWNER

#define OWNER struct http_config
static const struct config_key http_keys[] = {
    {"url", KEY_TEXT, MEMBER(url), .is_secret = true, .check = check_http_url,
        .help = "where events are posted: http://host… or https://host…"},
    FILE_OF(url),
    {"receivers", KEY_CHOICE, MEMBER(receivers), .fallback = "none", .choices = "none, table",
        .help = "`table`: every row of `courier.receiver` is a receiver with its own URL, "
                "secrets and headers; then leave out `url`, `secret`, `secrets` and `auth`"},
    DISABLE_AFTER,
    {"signing", KEY_CHOICE, MEMBER(signing), .fallback = "standard",
        .choices = "standard, github, stripe, none",
        .help = "how requests are signed, if there is a secret: as in Standard Webhooks, or as "
                "GitHub or Stripe do it; see [sinks](sinks.md#signatures)"},
    {"secret", KEY_TEXT, MEMBER(secret), .is_secret = true,
        .help = "the secret that signs requests; without it they are not signed. `signing: "
                "standard` needs `whsec_` and base64 of 24 to 64 bytes, the others accept any "
                "text"},
    FILE_OF(secret),
    {"secrets", KEY_TEXT, LIST(secrets, n_secrets), .max_items = 10, .is_secret = true,
        .help = "instead of `secret`: up to 10 secrets, the newest first; each signs every "
                "request"},
    {"secrets_file", KEY_FILE_OF, LIST(secrets, n_secrets),
        .help = "a file that holds `secrets`, one per line; empty lines are ignored"},
    {"headers", KEY_TEXT, LIST(headers, n_headers), .check = check_header_name,
        .help = "names of event headers that are passed on as HTTP headers"},
    {"set_headers", KEY_BLOCK, LIST(set_headers, n_set_headers), .block = &http_set_header_block,
        .help = "headers that every request carries; they replace event headers of the same name"},
    {"auth", KEY_BLOCK, MEMBER(auth), .block = &http_auth_block,
        .help = "the credentials that every request carries"},
    {"body", KEY_CHOICE, MEMBER(body), .fallback = "raw",
        .choices = "raw, standard, cloudevents, cloudevents-structured",
        .help = "`raw`: the payload as it was published; `standard`: wrapped as Standard Webhooks "
                "recommend; the others: CloudEvents, in headers or as one JSON object; see "
                "[sinks](sinks.md#bodies)"},
    {"source", KEY_TEXT, MEMBER(source), .fallback = "pgcourier", .check = check_ce_source,
        .help = "the `source` attribute of CloudEvents: a URI reference"},
    {"batch", KEY_OPTIONAL_BLOCK, MEMBER(batch), .block = &http_batch_block,
        .help = "several events in one request, as a JSON array; `{}` for its defaults; see "
                "[sinks](sinks.md#batches)"},
    {"on_410", KEY_CHOICE, MEMBER(on_410), .fallback = "pause", .choices = "pause, dead, retry",
        .help = "what `410 Gone` means: pause the receiver, give the event up, or try again"},
    {"accept_409", KEY_BOOL, MEMBER(accept_409), .fallback = "false",
        .help = "take `409 Conflict` as delivered: the receiver has the event already"},
    {"http_version", KEY_CHOICE, MEMBER(http_version), .fallback = "1.1", .choices = "1.1, 2",
        .help = "`2`: HTTP/2 with https receivers that offer it, else 1.1"},
    {"gzip", KEY_BOOL, MEMBER(gzip), .fallback = "false",
        .help = "compress bodies (Content-Encoding: gzip)"},
    {"fresh_connections", KEY_BOOL, MEMBER(fresh_connections), .fallback = "false",
        .help = "use a new connection for each request, so that no request is repeated within one "
                "attempt; not with `http_version: 2`"},
    {"proxy", KEY_TEXT, MEMBER(proxy), .is_secret = true, .check = check_http_proxy,
        .help = "the proxy to go through: `http://[user:password@]host:port`; proxy variables "
                "of the environment are ignored"},
    FILE_OF(proxy),
    {"connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms), .fallback = "5s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "15s", .min = "1ms", .max = "1h",
        .help = "how long a whole request may take"},
    {"ca_file", KEY_TEXT, MEMBER(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, MEMBER(cert_file), .check = check_readable_file,
        .help = "the certificate to show to receivers that ask for one (PEM); needs key_file"},
    {"key_file", KEY_TEXT, MEMBER(key_file), .check = check_readable_file,
        .help = "its private key, not encrypted (PEM)"},
    {"block_metadata", KEY_BOOL, MEMBER(block_metadata), .fallback = "true",
        .help = "never connect to cloud metadata addresses or link-local addresses"},
    {"allow_networks", KEY_TEXT, LIST(allow_networks, n_allow_networks), .max_items = 1000,
        .check = check_network,
        .help = "networks that the sink may connect to although they are private or hold "
                "metadata: `10.0.0.0/8`, `fd12:3456::/32`, `10.1.2.3`; see "
                "[addresses](sinks.md#addresses)"},
    {"allow_ports", KEY_TEXT, LIST(allow_ports, n_allow_ports), .max_items = 1000,
        .check = check_port, .help = "ports besides 80 and 443 that URLs from a table may name"},
    {"https_only", KEY_BOOL, MEMBER(https_only), .fallback = "false",
        .help = "refuse http:// in URLs from a table"},
};
BLOCK(http_block, http_keys);
#undef OWNER

#define OWNER struct email_relay_config
static const struct config_key email_relay_keys[] = {
    {"url", KEY_TEXT, MEMBER(url), .is_required = true, .check = check_email_url,
        .help = "smtp://host[:port] or smtps://host[:port]"},
    {"user", KEY_TEXT, MEMBER(user), .help = "the name to log in with there; needs a password"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password to log in with"},
    FILE_OF(password),
};
static BLOCK(email_relay_block, email_relay_keys);
#undef OWNER

#define OWNER struct email_config
static const struct config_key email_keys[] = {
    {"url", KEY_TEXT, MEMBER(url), .check = check_email_url,
        .help = "`smtp://host[:port]` (STARTTLS, see `tls`) or `smtps://host[:port]`; either this "
                "or `relays` is required"},
    {"relays", KEY_BLOCK, LIST(relays, n_relays), .max_items = 8, .block = &email_relay_block,
        .help = "instead of `url`: up to 8 mail servers; mail goes to the first that can be "
                "reached"},
    {"relay_backoff", KEY_DURATION, MEMBER(relay_backoff_ms), .fallback = "5s", .min = "1ms",
        .max = "5m",
        .help = "how long a relay that failed is skipped; doubles with each failure, up to 60 "
                "times this"},
    {"from", KEY_TEXT, MEMBER(from), .is_required = true, .check = check_email_address,
        .help = "the sender: name@domain, or Name <name@domain>"},
    {"user", KEY_TEXT, MEMBER(user), .help = "the name to log in with; needs a password"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password to log in with"},
    FILE_OF(password),
    {"message_id_domain", KEY_TEXT, MEMBER(message_id_domain), .check = check_domain,
        .help = "the right side of each Message-ID; by default the domain of from"},
    {"templates", KEY_TEXT, MEMBER(templates), .check = check_folder,
        .help = "a folder of templates: `NAME.subject`, `NAME.txt` and `NAME.html`; read and "
                "checked at start and by `check`, see [sinks](sinks.md#templates)"},
    {"max_attachment_bytes", KEY_SIZE, MEMBER(max_attachment_bytes), .fallback = "10MiB",
        .min = "0", .max = "1GiB",
        .help = "the largest total size of one message's attachments; `0`: no attachments. "
                "Base64 makes the payload a third larger than that, and `max_event_bytes` "
                "bounds it, too"},
    {"tls", KEY_CHOICE, MEMBER(tls), .fallback = "auto", .choices = "auto, required, none",
        .help = "`auto`: required, but optional if the host is `localhost` or a loopback "
                "address. `none` with a password is refused, except for such a host"},
    {"connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms), .fallback = "10s", .min = "1ms",
        .max = "10m", .help = "how long connecting may take"},
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "120s", .min = "1ms", .max = "1h",
        .help = "how long sending one message may take"},
    {"ca_file", KEY_TEXT, MEMBER(ca_file), .check = check_readable_file,
        .help = "certificates to trust instead of the system's (PEM)"},
    {"cert_file", KEY_TEXT, MEMBER(cert_file), .check = check_readable_file,
        .help = "the certificate to show to a server that asks for one (PEM)"},
    {"key_file", KEY_TEXT, MEMBER(key_file), .check = check_readable_file,
        .help = "the private key of cert_file, if cert_file does not contain it (PEM)"},
    {"ehlo", KEY_TEXT, MEMBER(ehlo), .check = check_domain,
        .help = "the name to greet mail servers with; by default this machine's"},
    {"max_mails_per_connection", KEY_INTEGER, MEMBER(max_mails_per_connection), .fallback = "100",
        .min = "0", .max = "1000000", .help = "mails sent over one connection; 0: any number"},
    {"idle", KEY_DURATION, MEMBER(idle_ms), .fallback = "30s", .min = "1s", .max = "1h",
        .help = "how long a connection is kept for the next mail"},
    {"domain_rate", KEY_NUMBER, MEMBER(domain_rate), .fallback = "0", .min = "0", .max = "100000",
        .help = "mails per second to each recipient domain; 0: any number"},
    {"domain_concurrency", KEY_INTEGER, MEMBER(domain_concurrency), .fallback = "0", .min = "0",
        .max = "16", .help = "mails at the same time to each recipient domain; 0: no limit"},
    {"domain_backoff", KEY_DURATION, MEMBER(domain_backoff_ms), .fallback = "10s", .min = "0",
        .max = "1h",
        .help = "how long to send nothing to a recipient domain that defers mail; doubles each "
                "time, up to 60 times this; `0`: never"},
    {"on_unknown", KEY_CHOICE, MEMBER(on_unknown), .fallback = "retry", .choices = "retry, reject",
        .help = "if the server does not answer after a mail was sent: send it again, or make "
                "it a dead letter"},
};
BLOCK(email_block, email_keys);
#undef OWNER

#define OWNER struct stdout_config
static const struct config_key stdout_keys[] = {
    {"payload", KEY_BOOL, MEMBER(payload), .fallback = "true",
        .help = "print headers and payloads; `false` leaves only each event's name and identity"},
};
BLOCK(stdout_block, stdout_keys);
#undef OWNER

#define OWNER struct module_config
static const struct config_key module_keys[] = {
    {"file", KEY_TEXT, MEMBER(file), .is_required = true, .check = check_module_file,
        .help = "the module's file name in the folder `relay.modules`, without a path"},
    {"receivers", KEY_CHOICE, MEMBER(receivers), .fallback = "none", .choices = "none, table",
        .help = "`table`: each row of `courier.receiver` with this sink's name is a receiver "
                "of its own, if the module supports it"},
    DISABLE_AFTER,
    {"options", KEY_OPTIONS, MEMBER(options),
        .help = "the module's own options: names of a-z, 0-9, `-` and `_`, each with a single "
                "value, in which `${…}` works as elsewhere. The module defines and checks them"},
};
BLOCK(module_block, module_keys);
#undef OWNER

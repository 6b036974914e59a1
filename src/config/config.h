/*
 * The configuration as the program uses it: one struct per block of the YAML
 * file, every value checked, defaults filled in, secrets read from their
 * files. The keys, their defaults, ranges and help are the table rows in
 * config_keys.c. Durations are milliseconds, sizes bytes.
 */
#pragma once

#include "base/error.h"
#include "log/log.h"
#include "pgcourier/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wakeup { WAKEUP_NOTIFY, WAKEUP_POLL };
enum start { START_NOW, START_BEGINNING };
enum order { ORDER_KEY, ORDER_NONE };

/* Which attempts are kept in courier.attempt. */
enum attempts_kept { ATTEMPTS_FAILURES, ATTEMPTS_ALL, ATTEMPTS_NONE };

struct postgres_config {
        char *dsn;      /* libpq conninfo or URI; never logged */
        char *password; /* from password or password_file; NULL: libpq's own ways */
        int64_t connect_timeout_ms;
        int64_t query_timeout_ms; /* an unanswered statement breaks the connection */
};

struct relay_config {
        char *name;      /* among the relays of the database; by default the host's */
        uint32_t weight; /* its share of the shards, beside those of the others; at least 1 */
        char **sinks;    /* patterns of those that it serves: text/topic_pattern.h; none: all */
        unsigned n_sinks;
        enum wakeup wakeup;
        int64_t sweep_ms;         /* the backlog is read at least so often */
        int64_t poll_interval_ms; /* the same with wakeup: poll */
        int64_t standby_ms;       /* how often a standby tries for a lane that another relay owns */
        int64_t drain_ms;         /* how long SIGTERM waits for what is in flight */
        char **dns_servers;       /* "ip", "ip:port", "[ip6]:port"; none: the system's */
        unsigned n_dns_servers;
        char *modules; /* the folder that modules are loaded from; NULL: the installation's */
};

enum types_rule {
        TYPES_ANY,
        TYPES_STRICT,    /* publishing refuses types that the catalogue does not know */
        TYPES_AS_BEFORE, /* as the database has it; in no file */
};

struct outbox_config {
        int64_t retention_ms;       /* events stay at least this long */
        int64_t retention_max_ms;   /* and at most, even if a sink needs them; 0: no limit */
        int64_t dedup_retention_ms; /* dedup keys stand for their events so long; 0: as before */
        enum types_rule types;
};

struct marks_config {
        bool is_enabled;
        int64_t interval_ms; /* how long after a settle rows are marked */
        uint32_t batch;      /* rows at a time */
        int64_t lock_timeout_ms;
};

struct retry_config {
        int64_t first_ms;
        double factor;
        int64_t max_ms;
        int64_t *delays_ms; /* instead of the three above; NULL: none */
        unsigned n_delays;
        uint32_t attempts;  /* 0: any number */
        int64_t max_age_ms; /* of the delays' sum; 0: any */
};

/* How a converter of Kafka Connect writes a key, value or header (sinks/format/debezium.h). */
enum debezium_form { DEBEZIUM_STRING, DEBEZIUM_JSON, DEBEZIUM_JSON_SCHEMA, DEBEZIUM_EXPANDED };

struct debezium_config {
        enum debezium_form key;
        enum debezium_form value; /* the only one that may be expanded */
        enum debezium_form headers;
        char *context;     /* the name of the connector in Debezium's context headers; NULL: none */
        char *type_header; /* the header with the event's type; NULL: none */
        char *null_key;    /* what stands for a key or value that is null */
        char *null_value;
        bool tombstone; /* a payload that is null or blank is a null value */
};

enum redis_mode { REDIS_STREAM, REDIS_PUBSUB };
enum redis_fields { LAYOUT_NATIVE, LAYOUT_DEBEZIUM_EXTENDED, LAYOUT_DEBEZIUM_COMPACT };
enum redis_format { FORMAT_NATIVE, FORMAT_CLOUDEVENTS };

struct redis_config {
        char *url;  /* redis[s]://[user[:password]@]host[:port][/db] or unix:///path[?db=N]; NULL:
                     * sentinels or cluster instead */
        char *host; /* from url; NULL for a unix socket */
        uint16_t port;
        char *socket_path; /* from url; NULL for TCP */
        char *user;        /* NULL: the default user */
        char *password;    /* from url, password or password_file; NULL: no AUTH */
        uint32_t db;
        enum redis_mode mode;
        char *stream;  /* template on {{topic}}, {{type}} and {{key}}, behind a literal prefix */
        char *channel; /* likewise; mode: pubsub */
        uint32_t max_streams; /* different names that a template may make; 0: any number */
        uint64_t maxlen;      /* 0: never trim; else XADD … MAXLEN ~ n */
        int64_t minid_ms;     /* 0: never trim; else XADD … MINID ~ what is older than this */
        enum redis_fields layout;
        enum redis_format format;
        struct debezium_config debezium; /* layout: debezium-* */
        char *source;                    /* format: cloudevents */
        uint32_t wait_replicas;          /* 0: no WAIT */
        int64_t wait_timeout_ms;
        bool exactly_once; /* fixed stream only */
        char **sentinels;  /* host[:port] of each; none: no Sentinel */
        unsigned n_sentinels;
        char *master;            /* the name by which the sentinels know it */
        char *sentinel_user;     /* NULL: the default user */
        char *sentinel_password; /* NULL: no AUTH */
        char **cluster;          /* host[:port] of some nodes; none: no Redis Cluster */
        unsigned n_cluster;
        bool tls;        /* from url (rediss://) or the key; to sentinels and nodes alike */
        char *ca_file;   /* NULL: the system's */
        char *cert_file; /* NULL: none */
        char *key_file;
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* an unanswered command breaks the connection */
};

enum http_receivers { HTTP_RECEIVERS_NONE, HTTP_RECEIVERS_TABLE };
enum http_signing_scheme {
        HTTP_SIGNING_STANDARD,
        HTTP_SIGNING_GITHUB,
        HTTP_SIGNING_STRIPE,
        HTTP_SIGNING_NONE
};
enum http_body_form {
        HTTP_BODY_RAW,                   /* the payload as it was published */
        HTTP_BODY_STANDARD,              /* {"type", "timestamp", "data"} of Standard Webhooks */
        HTTP_BODY_CLOUDEVENTS,           /* the payload; everything else in ce- headers */
        HTTP_BODY_CLOUDEVENTS_STRUCTURED /* one JSON object */
};
enum http_on_410 { HTTP_ON_410_PAUSE, HTTP_ON_410_DEAD, HTTP_ON_410_RETRY };
enum http_version { HTTP_VERSION_1_1, HTTP_VERSION_2 };

struct http_set_header {
        char *name;
        char *value; /* from value or value_file; may be a secret */
};

struct http_auth { /* at most one of the two kinds */
        char *user;
        char *password;
        char *bearer;
};

struct http_batch {
        uint32_t events;
        uint64_t bytes; /* of payloads */
        int64_t linger_ms;
};

struct http_config {
        char *url; /* NULL with receivers: table */
        enum http_receivers receivers;
        enum http_signing_scheme signing;
        char *secret;   /* whsec_… with signing: standard */
        char **secrets; /* instead of one: the newest first */
        unsigned n_secrets;
        char **headers; /* names of event headers that are passed on */
        unsigned n_headers;
        struct http_set_header *set_headers; /* the same for every request */
        unsigned n_set_headers;
        struct http_auth auth;
        enum http_body_form body;
        char *source;             /* of CloudEvents */
        struct http_batch *batch; /* NULL: a request for each event */
        enum http_on_410 on_410;
        bool accept_409;
        enum http_version http_version;
        bool by_libcurl; /* 1.1 as well; only tests set it, which hold both to the same */
        bool gzip;
        bool fresh_connections; /* no connection is used twice */
        char *proxy;            /* http://[user:password@]host:port; NULL: none */
        int64_t connect_timeout_ms;
        int64_t timeout_ms;
        char *ca_file;   /* NULL: the system's */
        char *cert_file; /* what we show to receivers that ask for a certificate; NULL: none */
        char *key_file;
        int64_t disable_after_ms; /* a receiver of the table that has failed this long; 0: never */

        /* The address guard (sinks/address_guard.h). */
        bool block_metadata;
        char **allow_networks; /* "10.0.0.0/8" */
        unsigned n_allow_networks;
        char **allow_ports; /* decimal */
        unsigned n_allow_ports;
        bool https_only;
};

struct email_relay_config {
        char *url; /* as email_config.url */
        char *user;
        char *password; /* from password or password_file */
};

struct email_config {
        char *url; /* smtp://host[:port] or smtps://host[:port]; NULL: see relays */
        char *user;
        char *password;                    /* from password or password_file */
        struct email_relay_config *relays; /* instead of the three above: tried in order */
        unsigned n_relays;
        int64_t relay_backoff_ms; /* how long a relay that failed is left out at first */
        char *from;               /* address, or "Name <address>" */
        char *message_id_domain;  /* right side of Message-ID; default: the domain of `from` */
        char *templates;          /* folder; NULL: none */
        uint64_t max_attachment_bytes;
        enum {
                TLS_AUTO,
                TLS_REQUIRED,
                TLS_NONE
        } tls; /* auto: required unless the host is loopback */
        int64_t connect_timeout_ms;
        int64_t timeout_ms;
        char *ca_file;
        char *cert_file;                   /* what we show to a server that asks; NULL: nothing */
        char *key_file;                    /* of cert_file; NULL: it is in there, too */
        char *ehlo;                        /* the name we greet with; NULL: the machine's */
        uint32_t max_mails_per_connection; /* 0: any number */
        int64_t idle_ms;                   /* an unused connection is kept this long */
        double domain_rate;                /* mails per second to one recipient domain; 0: any */
        uint32_t domain_concurrency;       /* mails at a time to one; 0: as many as there are */
        int64_t domain_backoff_ms; /* the first pause of a domain that defers mail; 0: none */
        enum {
                UNKNOWN_RETRY,
                UNKNOWN_REJECT
        } on_unknown; /* no answer came to a mail that was sent */
};

struct stdout_config {
        bool payload; /* print payloads; false leaves only the event's name and identity */
};

/* An event as a message of a broker (sinks/format/message.h). */
enum message_format {
        MESSAGE_NATIVE,
        MESSAGE_CLOUDEVENTS,            /* the payload; everything else in headers */
        MESSAGE_CLOUDEVENTS_STRUCTURED, /* one JSON object */
        MESSAGE_DEBEZIUM
};

struct message_config {
        enum message_format format;
        char *source;                    /* of CloudEvents */
        struct debezium_config debezium; /* format: debezium */
};

enum nats_duplicates {
        NATS_DUPLICATES_ID,         /* Nats-Msg-Id is the event_id */
        NATS_DUPLICATES_BY_SUBJECT, /* the stream keeps one message of a subject, for ever */
        NATS_DUPLICATES_OFF
};

/* A stream of JetStream, made if it is missing, never changed. */
struct nats_stream_config {
        char **subjects;
        unsigned n_subjects;
        enum { NATS_STORAGE_FILE, NATS_STORAGE_MEMORY } storage;
        uint32_t replicas;
        int64_t max_age_ms;    /* 0: any age */
        uint64_t max_bytes;    /* 0: any number */
        int64_t duplicates_ms; /* its window */
};

struct nats_config {
        char **servers; /* nats://, tls:// or nothing before host[:port] */
        unsigned n_servers;
        char *subject; /* template on {{topic}}, {{type}}, {{key}} and {{id}} */
        char *stream;  /* the one that must take it; NULL: any */
        struct nats_stream_config *create_stream; /* NULL: none; needs `stream` */
        struct message_config message;
        enum nats_duplicates duplicates;
        char *domain; /* of JetStream's API; NULL: the server's own */
        char *user;
        char *password; /* from password or password_file */
        char *token;    /* from token or token_file */
        char *nkey_file;
        char *creds_file;
        bool tls;       /* for all servers, whatever stands before them */
        bool tls_first; /* before the server's first line */
        char *ca_file;  /* NULL: the system's */
        char *cert_file;
        char *key_file;
        char *inbox; /* what the subjects of our answers begin with */
        int64_t ping_ms;
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* of an answer to one message */
};

enum rabbitmq_unroutable {
        UNROUTABLE_AUTO, /* an event's fault, or the operator's if it meets all */
        UNROUTABLE_RETRY,
        UNROUTABLE_REJECT,
        UNROUTABLE_PAUSE
};

struct rabbitmq_queue_config {
        char *name;
        char *type;      /* classic, quorum, stream */
        char **bindings; /* routing keys by which it is bound to the exchange */
        unsigned n_bindings;
};

/* What is declared at each connect. What is there already must be the same. */
struct rabbitmq_declare_config {
        char
            *exchange_type; /* direct, fanout, topic, headers; NULL: the exchange is not declared */
        bool durable;
        struct rabbitmq_queue_config *queues;
        unsigned n_queues;
};

struct rabbitmq_config {
        char **servers; /* amqp://, amqps:// or nothing before host[:port] */
        unsigned n_servers;
        char *vhost;
        char *exchange;    /* "": the default exchange */
        char *routing_key; /* template on {{topic}}, {{type}} and {{key}} */
        bool mandatory;
        enum rabbitmq_unroutable on_unroutable;
        bool persistent;
        int64_t expiration_ms; /* 0: none */
        uint32_t priority;
        char *app_id;
        struct message_config message;
        struct rabbitmq_declare_config *declare; /* NULL: nothing is declared */
        enum { RABBITMQ_PLAIN, RABBITMQ_EXTERNAL } auth;
        char *user;
        char *password; /* from password or password_file */
        bool tls;       /* for all servers, whatever stands before them */
        char *ca_file;
        char *cert_file;
        char *key_file;
        uint64_t max_message_bytes;
        int64_t heartbeat_ms; /* 0: none */
        int64_t blocked_timeout_ms;
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* of the confirm of one message */
};

enum kafka_sasl {
        KAFKA_SASL_NONE,
        KAFKA_SASL_PLAIN,
        KAFKA_SASL_SCRAM_SHA_256,
        KAFKA_SASL_SCRAM_SHA_512,
        KAFKA_SASL_OAUTHBEARER,
        KAFKA_SASL_GSSAPI
};

struct kafka_config {
        char **brokers; /* host[:port] of some of them */
        unsigned n_brokers;
        char *topic; /* template on {{topic}}, {{type}} and {{key}} */
        uint32_t max_topics;
        struct message_config message;
        char *compression; /* none, gzip, snappy, lz4, zstd */
        int64_t linger_ms;
        uint64_t batch_bytes;
        bool create_topics;
        uint32_t partitions; /* of topics that are created; 0: as the broker does */
        uint32_t replicas;   /* likewise */
        bool tls;
        char *ca_file;
        char *cert_file;
        char *key_file;
        enum kafka_sasl sasl;
        char *user;
        char *password;   /* from password or password_file */
        char *token_file; /* oauthbearer: read anew at each refresh */
        char *keytab;     /* gssapi */
        char *principal;
        char *client_id;
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* of one attempt */
        char **properties;  /* "name=value" for librdkafka */
        unsigned n_properties;
};

struct postgres_sink_config {
        char *call;   /* "schema.function"; NULL: see `insert` */
        char *insert; /* "schema.table"; NULL: see `call` */
        char *dsn;    /* never logged; NULL: that of the relay, with its password */
        char *password;
        char *role;        /* NULL: the one that logs in */
        char *search_path; /* NULL: the role's */
        char **settings;   /* "name=value" for each session */
        unsigned n_settings;
        char *consumer; /* who accepts in the inbox of the target; NULL: the sink's name */
        uint32_t batch; /* events of one INSERT */
        int64_t timeout_ms;
        int64_t connect_timeout_ms;
        int64_t idle_ms;               /* an unused connection is kept this long */
        struct postgres_config server; /* what the keys come to; no key of its own */
};

/* A kind of sink in a shared object of others (sinks/registry.h). */
struct module_config {
        char *file; /* within relay.modules */
        enum http_receivers receivers;
        int64_t disable_after_ms; /* as http_config.disable_after_ms */
        struct sink_options options;
};

struct rate_config {
        double per_second; /* attempts; 0: any number */
        uint32_t burst;    /* attempts at once after a pause; 0: those of a second */
};

/* Attempts in flight where the file says nothing. Those of a table are bounded by the files that
 * may be open, too; fewer than the minimum are worth a warning. */
enum {
        HTTP_CONCURRENCY = 16,
        HTTP_TABLE_CONCURRENCY_MIN = 1024,
        HTTP_TABLE_CONCURRENCY = 16384,
        EMAIL_CONCURRENCY = 2,
        POSTGRES_CONCURRENCY = 4, /* calls, each on a connection of its own */
};

struct sink_config {
        char *name;
        char **topics; /* patterns: text/topic_pattern.h */
        unsigned n_topics;
        char **types; /* patterns; none: any */
        unsigned n_types;
        char **match_headers; /* "name=value", or "name"; all must hold */
        unsigned n_match_headers;
        char *filter; /* a jsonpath predicate on the payload; NULL: none */
        struct rate_config rate;
        uint32_t concurrency; /* attempts in flight; 0: the kind's default */
        enum start start;
        enum order order;
        uint32_t shards; /* at least 1 */
        uint32_t max_in_flight;
        uint64_t max_in_flight_bytes;
        struct retry_config retry;
        int64_t park_after_ms;    /* a delivery that takes longer no longer holds up others */
        uint64_t max_parked;      /* at this many parked deliveries reading stops */
        uint64_t max_event_bytes; /* a larger payload is a dead letter; 0: any size */
        enum attempts_kept attempts;
        int64_t attempts_retention_ms; /* they are dropped by whole days */
        /* Exactly one is set: the sink's kind. */
        struct redis_config *redis;
        struct http_config *http;
        struct email_config *email;
        struct stdout_config *stdout_; /* `stdout` is a macro in <stdio.h> */
        struct nats_config *nats;
        struct rabbitmq_config *rabbitmq;
        struct kafka_config *kafka;
        struct postgres_sink_config *postgres;
        struct module_config *module;
        uint64_t files; /* sink_config_fingerprint() when this was read */
};

/* The endpoint for people, Prometheus and orchestrators (docs/admin.md). */
struct admin_config {
        char *listen;         /* text/network.h */
        char *token;          /* from token or token_file; NULL: nothing can be changed */
        char **allowed_hosts; /* names that requests may be addressed to, besides the usual ones */
        unsigned n_allowed_hosts;
};

enum { ADMIN_CONNECTIONS = 64 };

/* The pages for the owners of receivers (docs/portal.md). */
struct portal_config {
        char *listen;   /* text/network.h */
        char *base_url; /* what links begin with */
        char **manage;  /* what links with --manage may do: resend, pause, url, secret; none: all */
        unsigned n_manage;
};

enum { PORTAL_CONNECTIONS = 128 };

struct config {
        struct postgres_config postgres;
        struct relay_config relay;
        struct admin_config *admin;   /* NULL: no endpoint */
        struct portal_config *portal; /* NULL: none */
        struct outbox_config outbox;
        struct marks_config marks;
        char *log_level;
        enum log_format log_format;
        struct sink_config *sinks;
        unsigned n_sinks;
        unsigned n_unserved; /* behind these: see config_keep_served() */
        char *path;          /* of the file, */
        char *text;          /* and what it said, which may hold secrets */
        size_t text_length;
};

/*
 * Reads and checks a file. On failure returns NULL and sets *error to
 * "FILE:LINE:COLUMN: key path: what is wrong, what is allowed" (ERROR_CONFIG,
 * or ERROR_PERMISSION if the file cannot be read).
 */
struct config *config_load(const char *path, struct error *error);

/* The same with a text that was read from there, whatever the file says by now; with what the files
 * that it names (passwords, templates …) say now. */
struct config *config_load_text(
    const char *path, const char *text, size_t length, struct error *error);

void config_free(struct config *config); /* NULL is allowed; clears secrets first */

/* A copy that owns its strings, in place of one, or of zeros. */
void postgres_config_copy(struct postgres_config *copy, const struct postgres_config *from);
void postgres_config_clear(struct postgres_config *copy);

/* Whether the relay serves the sink of this name. */
bool relay_config_serves(const struct relay_config *relay, const char *sink);

/* Once: puts the sinks that the relay does not serve behind n_sinks, where only those look who must
 * know that they are in the file. */
void config_keep_served(struct config *config);

/* The kind of a sink ("redis", "module") and what its open() gets: its block, or a module's
 * options. */
const char *sink_config_kind(const struct sink_config *sink);
const void *sink_config_options(const struct sink_config *sink);

/* Each row of courier.receiver is a destination of its own. */
bool sink_config_fans_out(const struct sink_config *sink);

/* Where it delivers to, for people to read; without what may be a secret, as are the paths of URLs.
 * Free it. */
char *sink_config_target(const struct sink_config *sink);

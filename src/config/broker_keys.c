/* The keys of the sinks that hand events to brokers: NATS JetStream, RabbitMQ, Kafka. */
#include "config/config.h"
#include "config/config_keys_internal.h"

/* An event as a message is the same for all of them (sinks/format/message.h). */
#define MESSAGE_ROWS                                                                               \
        {"format", KEY_CHOICE, MEMBER(message.format), .fallback = "native",                       \
            .choices = "native, cloudevents, cloudevents-structured, debezium",                    \
            .help = "how an event becomes a message: with pgcourier's headers, as CloudEvents in " \
                    "headers or as one JSON object, or as Debezium writes it"},                    \
            {"source", KEY_TEXT, MEMBER(message.source), .fallback = "pgcourier",                  \
                .check = check_ce_source,                                                          \
                .help = "the `source` attribute of CloudEvents: a URI reference"},                 \
        {                                                                                          \
                "debezium", KEY_BLOCK, MEMBER(message.debezium),                                   \
                    .block = &debezium_block,                                                      \
                    .help = "with `format: debezium`: which of Debezium's settings to write like"  \
        }

#define TLS_FILE_ROWS                                                                              \
        {"ca_file", KEY_TEXT, MEMBER(ca_file), .check = check_readable_file,                       \
            .help = "certificates to trust instead of the system's (PEM)"},                        \
            {"cert_file", KEY_TEXT, MEMBER(cert_file), .check = check_readable_file,               \
                .help = "the certificate to show to a server that asks for one (PEM); needs "      \
                        "`key_file`"},                                                             \
        {                                                                                          \
                "key_file", KEY_TEXT, MEMBER(key_file),                                            \
                    .check = check_readable_file,                                                  \
                    .help = "the key of cert_file (PEM), without a passphrase"                     \
        }

#define CONNECT_TIMEOUT_ROW                                                                        \
        {                                                                                          \
                "connect_timeout", KEY_DURATION, MEMBER(connect_timeout_ms),                       \
                    .fallback = "5s", .min = "1ms", .max = "10m",                                  \
                    .help = "how long connecting may take, logging in included"                    \
        }

#define OWNER struct nats_stream_config
static const struct config_key nats_stream_keys[] = {
    {"subjects", KEY_TEXT, LIST(subjects, n_subjects), .is_required = true, .max_items = 1000,
        .check = check_nats_stream_subject,
        .help = "the subjects that the stream takes, as in `events.>`: `*` stands for one part, "
                "`>` at the end for the rest"},
    {"storage", KEY_CHOICE, MEMBER(storage), .fallback = "file", .choices = "file, memory",
        .help = "where the server keeps messages; what is in memory does not survive its restart"},
    {"replicas", KEY_INTEGER, MEMBER(replicas), .fallback = "1", .min = "1", .max = "5",
        .help = "how many servers of the cluster keep each message"},
    {"max_age", KEY_DURATION, MEMBER(max_age_ms), .fallback = "0", .min = "0", .max = "3650d",
        .help = "drop messages of this age; `0`: never"},
    {"max_bytes", KEY_SIZE, MEMBER(max_bytes), .fallback = "0", .min = "0", .max = "1000000GB",
        .help = "the stream's size, above which the oldest messages are dropped; `0`: any size"},
    {"duplicates", KEY_DURATION, MEMBER(duplicates_ms), .fallback = "2m", .min = "100ms",
        .max = "365d",
        .help = "how long the server recognizes a repeated event; at most `max_age`. Make it "
                "longer than an outage of the relay"},
};
static BLOCK(nats_stream_block, nats_stream_keys);
#undef OWNER

#define OWNER struct nats_config
static const struct config_key nats_keys[] = {
    {"servers", KEY_TEXT, LIST(servers, n_servers), .is_required = true, .max_items = 100,
        .check = check_nats_server,
        .help = "servers of one cluster: `nats://host[:port]`, `tls://host[:port]` or "
                "`host[:port]` (port 4222); the others of the cluster are learned from these"},
    {"subject", KEY_TEXT, MEMBER(subject), .fallback = "events.{{topic}}",
        .check = check_nats_subject,
        .help = "the subject: a fixed text, perhaps followed by `{{topic}}`, `{{type}}`, `{{key}}` "
                "and `{{id}}` of the event; or `{{topic}}` alone"},
    {"stream", KEY_TEXT, MEMBER(stream), .check = check_nats_stream,
        .help = "the stream that must take the messages; by default any stream may"},
    {"create_stream", KEY_OPTIONAL_BLOCK, MEMBER(create_stream), .block = &nats_stream_block,
        .help = "make the stream if it is missing; one that exists is not changed. Needs `stream`"},
    MESSAGE_ROWS,
    {"duplicates", KEY_CHOICE, MEMBER(duplicates), .fallback = "id",
        .choices = "id, by-subject, none",
        .help = "how the server recognizes a repeated event: by its id, within the stream's "
                "window; by its subject, if the stream keeps one message of each; or not at all"},
    {"domain", KEY_TEXT, MEMBER(domain), .check = check_nats_stream,
        .help = "the domain of JetStream, if it is not that of the server"},
    {"user", KEY_TEXT, MEMBER(user), .help = "the name to log in with; needs a password"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password to log in with; without TLS it crosses the network in clear"},
    FILE_OF(password),
    {"token", KEY_TEXT, MEMBER(token), .is_secret = true,
        .help = "the token to log in with, instead of `user` and `password`"},
    FILE_OF(token),
    {"nkey_file", KEY_TEXT, MEMBER(nkey_file), .check = check_readable_file,
        .help = "a file with the seed of an NKey to log in with; read at each connect"},
    {"creds_file", KEY_TEXT, MEMBER(creds_file), .check = check_readable_file,
        .help = "a file with a JWT and its seed to log in with; read at each connect"},
    {"tls", KEY_BOOL, MEMBER(tls), .fallback = "false",
        .help = "TLS to all servers, also to those that are not written as `tls://`"},
    {"tls_first", KEY_BOOL, MEMBER(tls_first), .fallback = "false",
        .help = "start TLS before the server has said anything, for servers with "
                "`handshake_first`"},
    TLS_FILE_ROWS,
    {"inbox", KEY_TEXT, MEMBER(inbox), .fallback = "_INBOX", .check = check_nats_inbox,
        .help = "what the subjects of the server's answers begin with; the account must be allowed "
                "to subscribe to these"},
    {"ping", KEY_DURATION, MEMBER(ping_ms), .fallback = "10s", .min = "100ms", .max = "1h",
        .help = "how often the server must show that it is there; the connection is closed after "
                "two failures"},
    CONNECT_TIMEOUT_ROW,
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "5s", .min = "1ms", .max = "1h",
        .help = "how long to wait for the acknowledgement of an event"},
};
BLOCK(nats_block, nats_keys);
#undef OWNER

#define OWNER struct rabbitmq_queue_config
static const struct config_key rabbitmq_queue_keys[] = {
    {"name", KEY_TEXT, MEMBER(name), .is_required = true, .check = check_amqp_name,
        .help = "the queue's name"},
    {"type", KEY_TEXT, MEMBER(type), .fallback = "quorum", .choices = "classic, quorum, stream",
        .help = "its type"},
    {"bindings", KEY_TEXT, LIST(bindings, n_bindings), .max_items = 1000, .may_be_empty = true,
        .check = check_amqp_name,
        .help = "the routing keys by which it is bound to the exchange, in the form that the "
                "exchange's type knows; not with the default exchange"},
};
static BLOCK(rabbitmq_queue_block, rabbitmq_queue_keys);
#undef OWNER

#define OWNER struct rabbitmq_declare_config
static const struct config_key rabbitmq_declare_keys[] = {
    {"exchange_type", KEY_TEXT, MEMBER(exchange_type), .choices = "direct, fanout, topic, headers",
        .help = "declare the exchange with this type; without it the exchange must be there"},
    {"durable", KEY_BOOL, MEMBER(durable), .fallback = "true",
        .help = "the exchange and the queues survive a restart of RabbitMQ"},
    {"queues", KEY_BLOCK, LIST(queues, n_queues), .max_items = 1000, .block = &rabbitmq_queue_block,
        .help = "the queues to declare, and to bind to the exchange"},
};
static BLOCK(rabbitmq_declare_block, rabbitmq_declare_keys);
#undef OWNER

#define OWNER struct rabbitmq_config
static const struct config_key rabbitmq_keys[] = {
    {"servers", KEY_TEXT, LIST(servers, n_servers), .is_required = true, .max_items = 100,
        .check = check_amqp_server,
        .help = "nodes of one cluster: `amqp://host[:port]`, `amqps://host[:port]` or "
                "`host[:port]` (port 5672, with TLS 5671)"},
    {"vhost", KEY_TEXT, MEMBER(vhost), .fallback = "/", .check = check_amqp_name,
        .help = "the virtual host"},
    {"exchange", KEY_TEXT, MEMBER(exchange), .is_required = true, .may_be_empty = true,
        .check = check_amqp_name,
        .help = "the exchange to publish to; `\"\"` is the default exchange, whose routing keys "
                "are names of queues"},
    {"routing_key", KEY_TEXT, MEMBER(routing_key), .may_be_empty = true, .fallback = "{{topic}}",
        .check = check_amqp_routing_key,
        .help = "the routing key: a text, with `{{topic}}`, `{{type}}` and `{{key}}` of the event"},
    {"mandatory", KEY_BOOL, MEMBER(mandatory), .fallback = "true",
        .help = "an event counts as delivered only if a queue takes it; with `false` RabbitMQ "
                "drops what no queue is bound for"},
    {"on_unroutable", KEY_CHOICE, MEMBER(on_unroutable), .fallback = "auto",
        .choices = "auto, retry, reject, pause",
        .help = "what to do with an event that no queue takes: try it again, make it a dead "
                "letter, or pause the sink at once; `auto`: pause it if other events come back, "
                "too, else try this one five times"},
    {"persistent", KEY_BOOL, MEMBER(persistent), .fallback = "true",
        .help = "messages survive a restart of RabbitMQ, in durable queues"},
    {"expiration", KEY_DURATION, MEMBER(expiration_ms), .fallback = "0", .min = "0", .max = "49d",
        .help = "RabbitMQ drops a message that nothing has consumed for so long; `0`: never"},
    {"priority", KEY_INTEGER, MEMBER(priority), .fallback = "0", .min = "0", .max = "255",
        .help = "the priority of messages, for queues with `x-max-priority`"},
    {"app_id", KEY_TEXT, MEMBER(app_id), .check = check_amqp_name,
        .help = "the property `app_id` of messages"},
    MESSAGE_ROWS,
    {"declare", KEY_OPTIONAL_BLOCK, MEMBER(declare), .block = &rabbitmq_declare_block,
        .help = "declare the exchange, queues and bindings at each connect; what is there already "
                "must be the same"},
    {"auth", KEY_CHOICE, MEMBER(auth), .fallback = "plain", .choices = "plain, external",
        .help = "log in with `user` and `password`, or with the certificate in `cert_file`"},
    {"user", KEY_TEXT, MEMBER(user),
        .help = "the name to log in with; needs a password. Without both it is `guest`, which "
                "RabbitMQ accepts only from its own machine"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password to log in with; without TLS it crosses the network in clear"},
    FILE_OF(password),
    {"tls", KEY_BOOL, MEMBER(tls), .fallback = "false",
        .help = "TLS to all servers, also to those that are not written as `amqps://`"},
    TLS_FILE_ROWS,
    {"max_message_bytes", KEY_SIZE, MEMBER(max_message_bytes), .fallback = "16MiB", .min = "1KiB",
        .max = "512MiB",
        .help = "a larger message becomes a dead letter; not above `max_message_size` of RabbitMQ"},
    {"heartbeat", KEY_DURATION, MEMBER(heartbeat_ms), .fallback = "20s", .min = "0", .max = "1h",
        .help = "how often both sides show that they are there, in whole seconds; the connection "
                "is closed after two failures; `0`: never"},
    {"blocked_timeout", KEY_DURATION, MEMBER(blocked_timeout_ms), .fallback = "60s", .min = "1ms",
        .max = "1h",
        .help = "how long RabbitMQ may block the connection, short of memory or disk, before it "
                "is closed"},
    CONNECT_TIMEOUT_ROW,
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "10s", .min = "1ms", .max = "1h",
        .help = "how long to wait for the confirm of an event"},
};
BLOCK(rabbitmq_block, rabbitmq_keys);
#undef OWNER

#define OWNER struct kafka_config
static const struct config_key kafka_keys[] = {
    {"brokers", KEY_TEXT, LIST(brokers, n_brokers), .is_required = true, .max_items = 100,
        .check = check_kafka_broker,
        .help = "`host[:port]` of some brokers of the cluster (port 9092)"},
    {"topic", KEY_TEXT, MEMBER(topic), .fallback = "{{topic}}", .check = check_kafka_topic,
        .help = "Kafka's topic: a text, with `{{topic}}`, `{{type}}` and `{{key}}` of the event"},
    {"max_topics", KEY_INTEGER, MEMBER(max_topics), .fallback = "1000", .min = "1", .max = "100000",
        .help = "how many different topics the sink may write to while the relay runs"},
    MESSAGE_ROWS,
    {"compression", KEY_TEXT, MEMBER(compression), .fallback = "none",
        .choices = "none, gzip, snappy, lz4, zstd", .help = "how batches are compressed"},
    {"linger", KEY_DURATION, MEMBER(linger_ms), .fallback = "0", .min = "0", .max = "15m",
        .help = "how long a batch waits for more events; shorter than `timeout`. Batches form "
                "without it, too, while requests are under way"},
    {"batch_bytes", KEY_SIZE, MEMBER(batch_bytes), .fallback = "128KiB", .min = "1B", .max = "1GiB",
        .help = "the most bytes in one batch"},
    {"create_topics", KEY_BOOL, MEMBER(create_topics), .fallback = "false",
        .help = "create topics that are missing"},
    {"partitions", KEY_INTEGER, MEMBER(partitions), .fallback = "0", .min = "0", .max = "100000",
        .help = "the partitions of topics that are created; `0`: as many as the broker says"},
    {"replicas", KEY_INTEGER, MEMBER(replicas), .fallback = "0", .min = "0", .max = "100",
        .help = "the replicas of topics that are created; `0`: as many as the broker says"},
    {"tls", KEY_BOOL, MEMBER(tls), .fallback = "false", .help = "TLS to all brokers"},
    TLS_FILE_ROWS,
    {"sasl", KEY_CHOICE, MEMBER(sasl), .fallback = "none",
        .choices = "none, plain, scram-sha-256, scram-sha-512, oauthbearer, gssapi",
        .help =
            "how to log in: `plain` and `scram-…` need `user` and `password`, `oauthbearer` needs "
            "`token_file`, `gssapi` needs `keytab` and `principal`"},
    {"user", KEY_TEXT, MEMBER(user), .help = "the name to log in with"},
    {"password", KEY_TEXT, MEMBER(password), .is_secret = true,
        .help = "the password to log in with; with `sasl: plain` and without TLS it crosses the "
                "network in clear"},
    FILE_OF(password),
    {"token_file", KEY_TEXT, MEMBER(token_file), .check = check_readable_file,
        .help = "a file with a JSON Web Token; read again before the token expires, so that "
                "another program can renew it"},
    {"keytab", KEY_TEXT, MEMBER(keytab), .check = check_readable_file,
        .help = "the Kerberos keytab to log in with"},
    {"principal", KEY_TEXT, MEMBER(principal), .help = "the Kerberos principal to log in as"},
    {"client_id", KEY_TEXT, MEMBER(client_id), .fallback = "pgcourier",
        .help = "the name by which brokers know the sink, in their logs and quotas"},
    CONNECT_TIMEOUT_ROW,
    {"timeout", KEY_DURATION, MEMBER(timeout_ms), .fallback = "30s", .min = "10ms", .max = "1h",
        .help = "how long to wait until the brokers have stored an event"},
    {"properties", KEY_TEXT, LIST(properties, n_properties), .max_items = 100,
        .check = check_kafka_property,
        .help = "further properties of librdkafka, each as `name=value`; not those that a key is "
                "for, nor those that the sink needs to be right"},
};
BLOCK(kafka_block, kafka_keys);
#undef OWNER

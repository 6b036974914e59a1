#include "config/broker_checks.h"

#include "config/checks_common.h"
#include "config/server_address.h"
#include "config/values.h"

#include <stdlib.h>
#include <string.h>

static bool check_message(
    const struct source *source, const struct message_config *message, const char *path)
{
        char debezium_path[KEY_PATH_SIZE];

        if (message->format != MESSAGE_CLOUDEVENTS &&
            message->format != MESSAGE_CLOUDEVENTS_STRUCTURED && source_has(source, path, "source"))
                return source_fail(source, path, "source",
                    "is only for format: cloudevents and cloudevents-structured");
        if (message->format != MESSAGE_DEBEZIUM && source_has(source, path, "debezium"))
                return source_fail(source, path, "debezium", "is only for format: debezium");
        key_path_join(debezium_path, path, "debezium");
        return check_debezium_nulls(source, &message->debezium, debezium_path);
}

/* What all three know of TLS. */
struct tls_keys {
        bool is_used;
        const char *ca_file;
        const char *cert_file;
        const char *key_file;
        const char *without; /* the words for a file without TLS */
};

static bool check_tls(const struct source *source, const struct tls_keys *keys, const char *path)
{
        if (!check_certificate(source, keys->cert_file, keys->key_file, path))
                return false;
        if (!keys->is_used && keys->ca_file != NULL)
                return source_fail(source, path, "ca_file", "%s", keys->without);
        if (!keys->is_used && keys->cert_file != NULL)
                return source_fail(source, path, "cert_file", "%s", keys->without);
        return true;
}

static bool uses_tls(enum server_protocol protocol, char *const *servers, unsigned n, bool tls)
{
        for (unsigned i = 0; i < n && !tls; i++) {
                struct server_address address;
                if (server_address_split(protocol, servers[i], false, &address) != NULL)
                        abort(); /* its row's check has accepted it */
                tls = address.is_tls;
                server_address_deinit(&address);
        }
        return tls;
}

static bool check_nats_login(
    const struct source *source, const struct nats_config *nats, const char *path)
{
        const struct {
                const char *name;
                bool is_given;
        } ways[] = {{"user", nats->user != NULL},
            {written_as(source, path, "token", "token_file"), nats->token != NULL},
            {"nkey_file", nats->nkey_file != NULL}, {"creds_file", nats->creds_file != NULL}};
        const char *first = NULL;

        if (!check_login(source, nats->user, nats->password, path))
                return false;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
                if (!ways[i].is_given)
                        continue;
                if (first != NULL)
                        return source_fail(source, path, ways[i].name,
                            "is given together with %s; there is one way to log in: keep one of "
                            "the two",
                            first);
                first = ways[i].name;
        }
        return true;
}

/* The server refuses a window beyond the age. */
static bool check_window(
    const struct source *source, struct nats_stream_config *stream, const char *path)
{
        if (stream->max_age_ms == 0 || stream->duplicates_ms <= stream->max_age_ms)
                return true;
        if (source_has(source, path, "duplicates"))
                return source_fail(source, path, "duplicates",
                    "is longer than max_age; allowed: max_age or shorter");
        if (stream->max_age_ms < 100)
                return source_fail(
                    source, path, "max_age", "is too short; allowed: 0, or 100ms and longer");
        stream->duplicates_ms = stream->max_age_ms;
        return true;
}

static bool check_nats_stream_keys(
    const struct source *source, const struct nats_config *nats, const char *path)
{
        char stream_path[KEY_PATH_SIZE];

        if (nats->duplicates == NATS_DUPLICATES_BY_SUBJECT && !nats_subject_has_id(nats->subject))
                return source_fail(source, path, "duplicates",
                    "is by-subject, but the subject is not that of one event; add {{id}} to "
                    "subject, as in events.{{topic}}.{{id}}");
        if (nats->create_stream == NULL)
                return true;
        if (nats->stream == NULL)
                return source_fail(source, path, "create_stream",
                    "is given without stream; name the stream there");
        key_path_join(stream_path, path, "create_stream");
        return check_window(source, nats->create_stream, stream_path);
}

bool check_nats(const struct source *source, struct nats_config *nats, const char *path)
{
        const struct tls_keys tls = {
            .is_used = uses_tls(SERVER_NATS, nats->servers, nats->n_servers, nats->tls),
            .ca_file = nats->ca_file,
            .cert_file = nats->cert_file,
            .key_file = nats->key_file,
            .without = "is given without TLS; write the servers as tls://…, or tls: true"};

        if (nats->tls_first && !tls.is_used)
                return source_fail(source, path, "tls_first", "%s", tls.without);
        return check_message(source, &nats->message, path) && check_tls(source, &tls, path) &&
               check_nats_login(source, nats, path) && check_nats_stream_keys(source, nats, path);
}

static bool check_queue(const struct source *source, const struct rabbitmq_config *rabbitmq,
    const struct rabbitmq_queue_config *queue, const char *path)
{
        bool is_default = *rabbitmq->exchange == '\0';

        if (!rabbitmq->declare->durable && strcmp(queue->type, "classic") != 0)
                return source_fail(source, path, "type",
                    "is %s, whose queues are always durable; write type: classic, or leave durable "
                    "out",
                    queue->type);
        if (is_default && queue->n_bindings > 0)
                return source_fail(source, path, "bindings",
                    "is given, but exchange is the default exchange, to which RabbitMQ binds each "
                    "queue by its name; leave it out");
        if (!is_default && queue->n_bindings == 0)
                return source_fail(source, path, "bindings",
                    "is required, with at least one routing key: a queue without a binding takes "
                    "nothing from the exchange");
        return true;
}

static bool check_declare(
    const struct source *source, const struct rabbitmq_config *rabbitmq, const char *rabbitmq_path)
{
        const struct rabbitmq_declare_config *declare = rabbitmq->declare;
        char path[KEY_PATH_SIZE];
        char queues_path[KEY_PATH_SIZE];
        char item_path[KEY_PATH_SIZE];

        if (declare == NULL)
                return true;
        key_path_join(path, rabbitmq_path, "declare");
        if (declare->exchange_type != NULL &&
            (*rabbitmq->exchange == '\0' || strncmp(rabbitmq->exchange, "amq.", 4) == 0))
                return source_fail(source, path, "exchange_type",
                    "is given, but exchange is one of RabbitMQ's own, which are always there; "
                    "leave it out");
        key_path_join(queues_path, path, "queues");
        for (unsigned i = 0; i < declare->n_queues; i++) {
                key_path_item(item_path, queues_path, i);
                if (!check_queue(source, rabbitmq, &declare->queues[i], item_path))
                        return false;
        }
        return true;
}

static bool check_rabbitmq_login(
    const struct source *source, const struct rabbitmq_config *rabbitmq, const char *path)
{
        static const char *const of_plain[] = {"user", "password", "password_file", NULL};

        if (rabbitmq->auth == RABBITMQ_PLAIN)
                return check_login(source, rabbitmq->user, rabbitmq->password, path);
        if (rabbitmq->cert_file == NULL)
                return source_fail(source, path, "auth",
                    "is external, but there is no certificate to log in with; add cert_file and "
                    "key_file");
        return refuse_keys(source, path, of_plain,
            "is only for auth: plain; with auth: external the certificate says who logs in");
}

bool check_rabbitmq(
    const struct source *source, const struct rabbitmq_config *rabbitmq, const char *path)
{
        const struct tls_keys tls = {
            .is_used = uses_tls(SERVER_AMQP, rabbitmq->servers, rabbitmq->n_servers, rabbitmq->tls),
            .ca_file = rabbitmq->ca_file,
            .cert_file = rabbitmq->cert_file,
            .key_file = rabbitmq->key_file,
            .without = "is given without TLS; write the servers as amqps://…, or tls: true"};

        if (!rabbitmq->mandatory && source_has(source, path, "on_unroutable"))
                return source_fail(source, path, "on_unroutable",
                    "is given together with mandatory: false, with which RabbitMQ does not say "
                    "what is unroutable; keep one of the two");
        /* AMQP counts in seconds. */
        if (rabbitmq->heartbeat_ms % 1000 != 0)
                return source_fail(
                    source, path, "heartbeat", "is not whole seconds; allowed: 0, or 1s to 1h");
        return check_message(source, &rabbitmq->message, path) && check_tls(source, &tls, path) &&
               check_rabbitmq_login(source, rabbitmq, path) &&
               check_declare(source, rabbitmq, path);
}

/* What each way of logging in needs, and what the others would need. */
static const struct {
        const char *name;
        const char *const *needed;
        const char *const *others;
        const char *wrong;
} sasl_ways[] = {
#define NAMES(...)                                                                                 \
        (const char *const[])                                                                      \
        {                                                                                          \
                __VA_ARGS__, NULL                                                                  \
        }
#define OF_USER "user", "password", "password_file"
    [KAFKA_SASL_NONE] = {"none", (const char *const[]){NULL},
        NAMES(OF_USER, "token_file", "keytab", "principal"),
        "is given without sasl, the way to log in"},
    [KAFKA_SASL_PLAIN] = {"plain", NAMES("user", "password"),
        NAMES("token_file", "keytab", "principal"), "is not for sasl: plain; leave it out"},
    [KAFKA_SASL_SCRAM_SHA_256] = {"scram-sha-256", NAMES("user", "password"),
        NAMES("token_file", "keytab", "principal"), "is not for sasl: scram-sha-256; leave it out"},
    [KAFKA_SASL_SCRAM_SHA_512] = {"scram-sha-512", NAMES("user", "password"),
        NAMES("token_file", "keytab", "principal"), "is not for sasl: scram-sha-512; leave it out"},
    [KAFKA_SASL_OAUTHBEARER] = {"oauthbearer", NAMES("token_file"),
        NAMES(OF_USER, "keytab", "principal"), "is not for sasl: oauthbearer; leave it out"},
    [KAFKA_SASL_GSSAPI] = {"gssapi", NAMES("keytab", "principal"), NAMES(OF_USER, "token_file"),
        "is not for sasl: gssapi; leave it out"},
#undef OF_USER
#undef NAMES
};

static bool check_sasl(
    const struct source *source, const struct kafka_config *kafka, const char *path)
{
        for (const char *const *name = sasl_ways[kafka->sasl].needed; *name != NULL; name++)
                if (!source_has(source, path, *name) &&
                    (strcmp(*name, "password") != 0 || kafka->password == NULL))
                        return source_fail(source, path, "sasl", "is %s, which needs %s%s; add it",
                            sasl_ways[kafka->sasl].name, *name,
                            strcmp(*name, "password") == 0 ? " or password_file" : "");
        return refuse_keys(
            source, path, sasl_ways[kafka->sasl].others, sasl_ways[kafka->sasl].wrong);
}

bool check_kafka(const struct source *source, const struct kafka_config *kafka, const char *path)
{
        static const char *const of_created[] = {"partitions", "replicas", NULL};
        const struct tls_keys tls = {.is_used = kafka->tls,
            .ca_file = kafka->ca_file,
            .cert_file = kafka->cert_file,
            .key_file = kafka->key_file,
            .without = "is given without TLS; add tls: true"};

        if (!kafka->create_topics &&
            !refuse_keys(source, path, of_created, "is only for create_topics: true; leave it out"))
                return false;
        if (kafka->linger_ms >= kafka->timeout_ms)
                return source_fail(source, path, "linger",
                    "is not shorter than timeout; allowed: less than timeout");
        return check_message(source, &kafka->message, path) && check_tls(source, &tls, path) &&
               check_sasl(source, kafka, path);
}

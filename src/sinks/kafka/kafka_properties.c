#include "sinks/kafka/kafka_properties.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever the file says. */
static const struct {
        const char *name;
        const char *value;
} always[] = {
    {"acks", "all"},
    /* Without it what was sent twice by the client is stored twice, and may be stored late: behind
     * the next event of its key. */
    {"enable.idempotence", "true"},
    {"partitioner", "murmur2_random"}, /* that of Java's clients, and so of Debezium */
    {"socket.nagle.disable", "true"}, {"socket.keepalive.enable", "true"},
    {"queue.buffering.max.messages", "1000000"}, /* more than a lane has in flight */
    {"reconnect.backoff.max.ms", "2000"}, {"log.queue", "true"}, /* else lines go to stderr */
    {"log.connection.close", "false"},
    /* The name in a certificate counts. */
    {"ssl.endpoint.identification.algorithm", "https"}, {"allow.auto.create.topics", "false"},
    {"topic.metadata.propagation.max.ms", "5000"}, /* so long a topic may be unknown */
};

struct setter {
        rd_kafka_conf_t *conf;
        const char *sink;
        struct error *error;
        bool failed;
};

static void set(struct setter *setter, const char *name, const char *value)
{
        char reason[256];

        if (setter->failed || value == NULL ||
            rd_kafka_conf_set(setter->conf, name, value, reason, sizeof reason) == RD_KAFKA_CONF_OK)
                return;
        setter->failed = !error_set(
            setter->error, ERROR_CONFIG, "sinks.%s.kafka: %s: %s", setter->sink, name, reason);
}

static void set_number(struct setter *setter, const char *name, int64_t value)
{
        char text[32];

        snprintf(text, sizeof text, "%" PRId64, value);
        set(setter, name, text);
}

static void set_brokers(struct setter *setter, const struct kafka_config *config)
{
        struct bytes list = {0};

        for (unsigned i = 0; i < config->n_brokers; i++)
                bytes_printf(&list, "%s%s", i > 0 ? "," : "", config->brokers[i]);
        set(setter, "bootstrap.servers", list.data);
        bytes_deinit(&list);
}

static const char *mechanism_of(enum kafka_sasl sasl)
{
        switch (sasl) {
        case KAFKA_SASL_NONE:
                return NULL;
        case KAFKA_SASL_PLAIN:
                return "PLAIN";
        case KAFKA_SASL_SCRAM_SHA_256:
                return "SCRAM-SHA-256";
        case KAFKA_SASL_SCRAM_SHA_512:
                return "SCRAM-SHA-512";
        case KAFKA_SASL_OAUTHBEARER:
                return "OAUTHBEARER";
        case KAFKA_SASL_GSSAPI:
                return "GSSAPI";
        }
        abort();
}

static void set_security(struct setter *setter, const struct kafka_config *config)
{
        const char *mechanism = mechanism_of(config->sasl);

        if (mechanism != NULL)
                set(setter, "security.protocol", config->tls ? "sasl_ssl" : "sasl_plaintext");
        else
                set(setter, "security.protocol", config->tls ? "ssl" : "plaintext");
        set(setter, "sasl.mechanisms", mechanism);
        set(setter, "sasl.username", config->user);
        set(setter, "sasl.password", config->password);
        set(setter, "sasl.kerberos.keytab", config->keytab);
        set(setter, "sasl.kerberos.principal", config->principal);
        set(setter, "ssl.ca.location", config->ca_file);
        set(setter, "ssl.certificate.location", config->cert_file);
        set(setter, "ssl.key.location", config->key_file);
}

static int64_t within(int64_t least, int64_t value, int64_t most)
{
        if (value < least)
                return least;
        return value < most ? value : most;
}

static void set_keys(struct setter *setter, const struct kafka_config *config)
{
        set_brokers(setter, config);
        set(setter, "client.id", config->client_id);
        set(setter, "compression.type", config->compression);
        set_number(setter, "linger.ms", config->linger_ms);
        set_number(setter, "batch.size", (int64_t)config->batch_bytes);
        set_number(setter, "message.timeout.ms", config->timeout_ms);
        /* Of one request and one connection; the client's own limits. */
        set_number(setter, "request.timeout.ms", within(1, config->timeout_ms, 900000));
        set_number(setter, "socket.timeout.ms", within(1000, config->timeout_ms, 300000));
        set_number(setter, "socket.connection.setup.timeout.ms",
            within(1000, config->connect_timeout_ms, INT32_MAX));
        set_security(setter, config);
}

/* Which names are free to choose, config/broker_values.c has judged. */
static void set_property(struct setter *setter, const char *property)
{
        const char *equals = strchr(property, '=');
        char *name = xstrndup(property, (size_t)(equals - property));

        set(setter, name, equals + 1);
        free(name);
}

rd_kafka_conf_t *kafka_properties_make(
    const struct kafka_config *config, const char *sink, struct error *error)
{
        struct setter setter = {.conf = rd_kafka_conf_new(), .sink = sink, .error = error};

        for (size_t i = 0; i < sizeof always / sizeof *always; i++)
                set(&setter, always[i].name, always[i].value);
        set_keys(&setter, config);
        for (unsigned i = 0; i < config->n_properties; i++)
                set_property(&setter, config->properties[i]);
        if (!setter.failed)
                return setter.conf;
        rd_kafka_conf_destroy(setter.conf);
        return NULL;
}

/* What single values of the blocks nats, rabbitmq and kafka must look like. */
#include "base/bytes.h"
#include "base/error.h"
#include "config/server_address.h"
#include "config/values.h"
#include "text/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

enum { MAX_SUBJECT = 1024, MAX_INBOX = 200, MAX_STREAM = 255, MAX_SHORT = 255, MAX_TOPIC = 249 };

static const char *check_server(enum server_protocol protocol, const char *value)
{
        struct server_address address;
        const char *wrong = server_address_split(protocol, value, false, &address);

        server_address_deinit(&address);
        return wrong;
}

const char *check_nats_server(const char *value)
{
        return check_server(SERVER_NATS, value);
}

const char *check_amqp_server(const char *value)
{
        return check_server(SERVER_AMQP, value);
}

const char *check_kafka_broker(const char *value)
{
        return check_server(SERVER_KAFKA, value);
}

/* Renders with an x for each variable, and appends a NUL: what is left to check is the fixed text.
 * False if it is no template. */
static bool render_fixed(const char *value, const char *const *variables, struct bytes *out)
{
        static const char *const letters[] = {"x", "x", "x", "x"};
        struct error error;
        struct template *template = template_compile(value, variables, &error);

        if (template == NULL)
                return false;
        template_render(template, letters, out);
        bytes_append(out, "", 1);
        template_destroy(template);
        return true;
}

static bool begins_with_variable(const char *value)
{
        return strncmp(value, "{{", 2) == 0 && value[2] != '{';
}

static bool has_blank_or_control(const char *text)
{
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
                if (*at <= ' ' || *at == 0x7f)
                        return true;
        return false;
}

static const char *check_subject_tokens(const char *subject)
{
        if (has_blank_or_control(subject))
                return "holds a blank or a control character, which no subject may hold";
        if (*subject == '.' || subject[strlen(subject) - 1] == '.' || strstr(subject, "..") != NULL)
                return "has an empty part; a subject is parts of one character or more, with a dot "
                       "between each two";
        if (strlen(subject) > MAX_SUBJECT)
                return "is longer than 1024 bytes";
        return NULL;
}

static const char *check_fixed_subject(const char *subject)
{
        if (*subject == '$' || strncmp(subject, "_INBOX", strlen("_INBOX")) == 0)
                return "begins with $ or _INBOX, which are NATS's own; allowed: other text, as in "
                       "events.{{topic}}";
        if (strpbrk(subject, "*>") != NULL)
                return "holds a wildcard, * or >; a message has one subject";
        return check_subject_tokens(subject);
}

static const char *const subject_variables[] = {"topic", "type", "key", "id", NULL};

/* What the template is made of, whatever blanks stand in its braces. */
static bool subject_uses(const char *value, int variable)
{
        struct error error;
        struct template *template = template_compile(value, subject_variables, &error);
        bool uses = template != NULL && template_uses(template, variable);

        template_destroy(template);
        return uses;
}

bool nats_subject_has_id(const char *value)
{
        return subject_uses(value, 3);
}

/* Publishers choose topic, type and key. A topic alone is what the operator asks for by that; with
 * more than that behind it, fixed text keeps the subjects apart from those of others. */
static const char *check_subject_start(const char *value, const char *fixed)
{
        if (!begins_with_variable(value) || (strcmp(fixed, "x") == 0 && subject_uses(value, 0)))
                return NULL;
        return "begins with a variable; allowed: {{topic}} alone, or fixed text first, as in "
               "events.{{topic}}";
}

const char *check_nats_subject(const char *value)
{
        struct bytes fixed = {0};
        const char *wrong;

        if (!render_fixed(value, subject_variables, &fixed))
                return "is not a valid template; each {{ needs a }}, and the only variables are "
                       "{{topic}}, {{type}}, {{key}} and {{id}}";
        wrong = check_fixed_subject(fixed.data);
        if (wrong == NULL)
                wrong = check_subject_start(value, fixed.data);
        bytes_deinit(&fixed);
        return wrong;
}

const char *check_nats_inbox(const char *value)
{
        if (*value == '$')
                return "begins with $, as NATS's own subjects do; allowed: other text, as in "
                       "_INBOX or inbox.pgcourier";
        if (strpbrk(value, "*>") != NULL)
                return "holds a wildcard, * or >; give the fixed text that answers begin with";
        if (strlen(value) > MAX_INBOX)
                return "is longer than 200 bytes";
        return check_subject_tokens(value);
}

static const char *check_wildcards(const char *subject)
{
        for (const char *at = subject; *at != '\0'; at += strspn(at, ".")) {
                size_t length = strcspn(at, ".");
                if (length > 1 && strcspn(at, "*>") < length)
                        return "has a wildcard beside other characters; * and > stand alone "
                               "between two dots";
                if (*at == '>' && at[length] != '\0')
                        return "has a > before its end; it stands for all that follows";
                at += length;
        }
        return NULL;
}

const char *check_nats_stream_subject(const char *value)
{
        const char *wrong = check_wildcards(value);

        if (*value == '$')
                return "begins with $, as NATS's own subjects do";
        return wrong != NULL ? wrong : check_subject_tokens(value);
}

const char *check_nats_stream(const char *value)
{
        if (has_blank_or_control(value) || strpbrk(value, ".*>/\\") != NULL)
                return "holds a blank, a control character or one of . * > / and \\, which no name "
                       "of JetStream may hold";
        return strlen(value) <= MAX_STREAM ? NULL : "is longer than 255 bytes";
}

const char *check_amqp_name(const char *value)
{
        return strlen(value) <= MAX_SHORT ? NULL : "is longer than 255 bytes";
}

const char *check_amqp_routing_key(const char *value)
{
        static const char *const variables[] = {"topic", "type", "key", NULL};
        struct bytes fixed = {0};
        bool is_too_long;

        if (!render_fixed(value, variables, &fixed))
                return "is not a valid template; each {{ needs a }}, and the only variables are "
                       "{{topic}}, {{type}} and {{key}}";
        is_too_long = strlen(fixed.data) > MAX_SHORT;
        bytes_deinit(&fixed);
        return is_too_long ? "is longer than 255 bytes, the most that AMQP carries" : NULL;
}

const char *check_kafka_topic(const char *value)
{
        static const char *const variables[] = {"topic", "type", "key", NULL};
        struct bytes fixed = {0};
        const char *wrong = NULL;

        if (!render_fixed(value, variables, &fixed))
                return "is not a valid template; each {{ needs a }}, and the only variables are "
                       "{{topic}}, {{type}} and {{key}}";
        if (fixed.data[strspn(fixed.data, LETTERS DIGITS "._-")] != '\0' ||
            strlen(fixed.data) > MAX_TOPIC || strcmp(fixed.data, ".") == 0 ||
            strcmp(fixed.data, "..") == 0)
                wrong = "is not the name of a Kafka topic; allowed: up to 249 letters, digits, "
                        ". _ and -, and the variables";
        else if (strncmp(fixed.data, "__", 2) == 0)
                wrong = "begins with __, as Kafka's own topics do";
        bytes_deinit(&fixed);
        return wrong;
}

static const char always_set[] =
    "names a property that the sink sets by itself: without it events could be lost, repeated or "
    "come out of order; leave it out";
static const char verified[] =
    "names a property that could switch the verification of servers off; leave it out";
static const char of_program[] =
    "names a property that is the program's own: its callbacks, queues and log; leave it out";
static const char of_secret[] =
    "names a property that holds a secret or a key; use cert_file and key_file";

/* What the sink sets by itself, or has a key for. */
static const struct {
        const char *name; /* a * at its end, or at its beginning, stands for any text */
        const char *wrong;
} refused_properties[] = {
    {"acks", always_set},
    {"request.required.acks", always_set},
    {"enable.idempotence", always_set},
    {"enable.gapless.guarantee", always_set},
    {"max.in.flight*", always_set},
    {"partitioner", always_set},
    {"queuing.strategy", always_set},
    {"delivery.report.only.error", always_set},
    {"transactional.id", always_set},
    {"bootstrap.servers", "names the property of the key brokers; use that"},
    {"metadata.broker.list", "names the property of the key brokers; use that"},
    {"linger.ms", "names the property of the key linger; use that"},
    {"queue.buffering.max.ms", "names the property of the key linger; use that"},
    {"queue.buffering.max.messages", "names the property of the key max_in_flight; use that"},
    {"batch.size", "names the property of the key batch_bytes; use that"},
    {"compression.codec", "names the property of the key compression; use that"},
    {"compression.type", "names the property of the key compression; use that"},
    {"message.timeout.ms", "names the property of the key timeout; use that"},
    {"delivery.timeout.ms", "names the property of the key timeout; use that"},
    {"socket.connection.setup.timeout.ms", "names the property of the key connect_timeout; use "
                                           "that"},
    {"allow.auto.create.topics", "names the property of the key create_topics; use that"},
    {"client.id", "names the property of the key client_id; use that"},
    {"security.protocol", "names the property of the keys tls and sasl; use those"},
    {"sasl.mechanism", "names the property of the key sasl; use that"},
    {"sasl.mechanisms", "names the property of the key sasl; use that"},
    {"sasl.username", "names the property of the key user; use that"},
    {"sasl.password", "names the property of the key password; use that"},
    {"sasl.oauthbearer.*", "names the property of a token; use the key token_file"},
    {"enable.sasl.oauthbearer.*", "names the property of a token; use the key token_file"},
    {"sasl.kerberos.keytab", "names the property of the key keytab; use that"},
    {"sasl.kerberos.principal", "names the property of the key principal; use that"},
    {"sasl.kerberos.kinit.cmd", "names a property that runs a command; leave it out"},
    {"plugin.library.paths", "names a property that loads code; leave it out"},
    {"ssl.providers", "names a property that loads code; leave it out"},
    {"ssl.engine.*", "names a property that loads code; leave it out"},
    {"ssl.ca.*", "names the property of the key ca_file; use that"},
    {"ssl.certificate.*", "names the property of the key cert_file; use that"},
    {"ssl.key.location", "names the property of the key key_file; use that"},
    {"ssl.key.*", of_secret},
    {"ssl.keystore.*", of_secret},
    {"enable.ssl.certificate.verification", verified},
    {"ssl.endpoint.identification.algorithm", verified},
    {"test.mock*", of_program},
    {"debug", of_program},
    {"log*", of_program},
    {"enabled_events", of_program},
    {"opaque", of_program},
    {"default_topic_conf", of_program},
    {"*_cb", of_program},
};

static bool matches(const char *name, size_t length, const char *pattern)
{
        size_t fixed = strlen(pattern) - 1;

        if (*pattern == '*')
                return length >= fixed && memcmp(name + length - fixed, pattern + 1, fixed) == 0;
        if (pattern[fixed] == '*')
                return length >= fixed && memcmp(name, pattern, fixed) == 0;
        return length == fixed + 1 && memcmp(name, pattern, length) == 0;
}

const char *check_kafka_property(const char *value)
{
        size_t length = strcspn(value, "=");

        if (length == 0 || value[length] == '\0' || strcspn(value, " ") < length)
                return "is not of the form name=value";
        for (size_t i = 0; i < sizeof refused_properties / sizeof *refused_properties; i++)
                if (matches(value, length, refused_properties[i].name))
                        return refused_properties[i].wrong;
        return NULL;
}

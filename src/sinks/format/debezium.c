/* Everything is a datum: a value with the schema that Kafka Connect has for it. */
#include "sinks/format/debezium.h"

#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "sinks/format/debezium_expand.h"
#include "sinks/format/event_json.h"
#include "sinks/format/jackson.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UUID_SCHEMA    "io.debezium.data.Uuid"
#define JSON_SCHEMA    "io.debezium.data.Json"
#define CONTEXT_PREFIX "__debezium.context."

struct datum {
        const char *type;   /* of the schema: "string" */
        const char *schema; /* its name; NULL: it has none */
        bool is_optional;
        bool is_null;
        const char *text; /* of numbers and booleans, as they stand in JSON */
        size_t length;
};

static struct datum text_datum(const char *text)
{
        return (struct datum){.type = "string", .text = text, .length = strlen(text)};
}

static void append_json(struct bytes *out, const struct datum *datum)
{
        if (datum->is_null)
                bytes_append(out, "null", 4);
        else if (strcmp(datum->type, "string") == 0)
                jackson_append_text(out, datum->text, datum->length);
        else if (strcmp(datum->type, "bytes") == 0)
                event_json_append_base64(out, datum->text, datum->length);
        else if (strcmp(datum->type, "double") == 0)
                jackson_append_double(out, strtod(datum->text, NULL));
        else
                bytes_append(out, datum->text, datum->length);
}

static void append_with_schema(struct bytes *out, const struct datum *datum)
{
        bytes_printf(out, "{\"schema\":{\"type\":\"%s\",\"optional\":%s", datum->type,
            datum->is_optional ? "true" : "false");
        if (datum->schema != NULL)
                bytes_printf(out, ",\"name\":\"%s\",\"version\":1", datum->schema);
        bytes_append_text(out, "},\"payload\":");
        append_json(out, datum);
        bytes_append(out, "}", 1);
}

static void append_datum(struct bytes *out, enum debezium_form form, const struct datum *datum)
{
        switch (form) {
        case DEBEZIUM_STRING:
                bytes_append(out, datum->text, datum->length);
                return;
        case DEBEZIUM_JSON:
        case DEBEZIUM_EXPANDED:
                append_json(out, datum);
                return;
        case DEBEZIUM_JSON_SCHEMA:
                append_with_schema(out, datum);
                return;
        }
}

bool debezium_append_key(
    const struct debezium_config *config, const struct event *event, struct bytes *out)
{
        struct datum datum = text_datum(event->key != NULL ? event->key : "");

        datum.is_null = datum.is_optional = event->key == NULL;
        if (datum.is_null && config->key == DEBEZIUM_STRING)
                return false;
        append_datum(out, config->key, &datum);
        return true;
}

static bool is_blank(const char *text, size_t length)
{
        while (length > 0 && (unsigned char)text[length - 1] <= ' ')
                length--;
        return length == 0;
}

static bool is_json_null(const struct event *event)
{
        const char *text = event->payload;
        size_t length = event->payload_bytes;

        while (length > 0 && strchr(" \t\r\n", *text) != NULL) {
                text++;
                length--;
        }
        return event->is_json && length >= 4 && memcmp(text, "null", 4) == 0 &&
               is_blank(text + 4, length - 4);
}

bool debezium_append_value(
    const struct debezium_config *config, const struct event *event, struct bytes *out)
{
        struct datum datum = {.type = event->is_json ? "string" : "bytes",
            .schema = event->is_json ? JSON_SCHEMA : NULL,
            .is_optional = true,
            .is_null = is_json_null(event),
            .text = event->payload,
            .length = event->payload_bytes};

        if (datum.is_null && (config->value == DEBEZIUM_STRING || config->tombstone))
                return false;
        if (config->tombstone && is_blank(datum.text, datum.length))
                return false;
        if (config->value == DEBEZIUM_EXPANDED && event->is_json &&
            debezium_append_expanded(out, datum.text, datum.length))
                return true;
        append_datum(out, config->value, &datum);
        return true;
}

/* Beyond double it stays a string: Java has no such number. */
static void set_number(struct datum *datum)
{
        char *end;
        long long number;

        errno = 0;
        number = strtoll(datum->text, &end, 10);
        if (*end == '\0' && errno == 0)
                datum->type = number >= INT32_MIN && number <= INT32_MAX ? "int32" : "int64";
        else if (isfinite(strtod(datum->text, NULL)))
                datum->type = "double";
}

static struct datum header_datum(const struct event *event, size_t i)
{
        struct datum datum = text_datum(event->headers[i].value);

        switch (event->header_types == NULL ? EVENT_HEADER_STRING
                                            : (enum event_header_type)event->header_types[i]) {
        case EVENT_HEADER_STRING:
                break;
        case EVENT_HEADER_NUMBER:
                set_number(&datum);
                break;
        case EVENT_HEADER_BOOLEAN:
                datum.type = "boolean";
                break;
        case EVENT_HEADER_NULL:
                datum.is_null = datum.is_optional = true;
                break;
        case EVENT_HEADER_STRUCTURE:
                datum.schema = JSON_SCHEMA;
                break;
        }
        return datum;
}

static bool has_type_header(const struct debezium_config *config, const struct event *event)
{
        return config->type_header != NULL && event->type != NULL;
}

/* Names count as the same in upper and lower case: in Redis they are upper case. */
static bool is_passed_on(
    const struct debezium_config *config, const struct event *event, const char *name)
{
        if (strcasecmp(name, "id") == 0)
                return false;
        if (config->context != NULL &&
            strncasecmp(name, CONTEXT_PREFIX, sizeof CONTEXT_PREFIX - 1) == 0)
                return false;
        if (has_type_header(config, event) && strcasecmp(name, config->type_header) == 0)
                return false;
        return !event->is_redriven || strcasecmp(name, "redriven") != 0;
}

size_t debezium_n_headers(const struct debezium_config *config, const struct event *event)
{
        size_t n =
            1 + 3 * (config->context != NULL) + has_type_header(config, event) + event->is_redriven;

        for (size_t i = 0; i < event->n_headers; i++)
                n += is_passed_on(config, event, event->headers[i].name);
        return n;
}

struct header_walk {
        enum debezium_form form;
        struct bytes text; /* of the header at hand */
        debezium_header_fn *on_header;
        void *owner;
};

static void tell(struct header_walk *walk, const char *name, struct datum datum)
{
        bytes_clear(&walk->text);
        append_datum(&walk->text, walk->form, &datum);
        walk->on_header(walk->owner, name, walk->text.data, walk->text.length);
}

void debezium_each_header(const struct debezium_config *config, const struct event *event,
    debezium_header_fn *on_header, void *owner)
{
        struct header_walk walk = {.form = config->headers, .on_header = on_header, .owner = owner};
        struct datum id = text_datum(event->event_id);

        id.schema = UUID_SCHEMA;
        tell(&walk, "id", id);
        if (config->context != NULL) {
                tell(&walk, CONTEXT_PREFIX "connectorLogicalName", text_datum(config->context));
                tell(&walk, CONTEXT_PREFIX "taskId", text_datum("0"));
                tell(&walk, CONTEXT_PREFIX "connectorName", text_datum("postgresql"));
        }
        if (has_type_header(config, event))
                tell(&walk, config->type_header, text_datum(event->type));
        for (size_t i = 0; i < event->n_headers; i++)
                if (is_passed_on(config, event, event->headers[i].name))
                        tell(&walk, event->headers[i].name, header_datum(event, i));
        if (event->is_redriven)
                tell(&walk, "redriven", (struct datum){.type = "int32", .text = "1", .length = 1});
        bytes_deinit(&walk.text);
}

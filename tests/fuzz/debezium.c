/*
 * Two bytes of switches, KEY NUL HEADER NUL PAYLOAD. Everything written as JSON is read back by
 * jansson: a text as what it was, an expanded payload as one that expanding leaves as it is.
 */
#include "sinks/format/debezium.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "config/config.h"
#include "fuzz.h"
#include "pgcourier/event.h"
#include "sinks/format/debezium_expand.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static char context[] = "shop";
static char type_header[] = "eventType";

/* To be released. */
static json_t *read_json(const char *text, size_t length)
{
        json_t *value = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

        fuzz_require(value != NULL, "what is written is JSON", text);
        return value;
}

static const json_t *payload_in(const json_t *value, enum debezium_form form)
{
        const json_t *payload = value;

        if (form == DEBEZIUM_JSON_SCHEMA) {
                payload = json_object_get(value, "payload");
                fuzz_require(payload != NULL && json_object_size(value) == 2 &&
                                 json_is_object(json_object_get(value, "schema")),
                    "with a schema stands a payload", "");
        }
        return payload;
}

static void check_text(enum debezium_form form, const char *text, const struct bytes *written)
{
        json_t *value;

        if (form == DEBEZIUM_STRING) {
                fuzz_require(strcmp(written->data, text) == 0, "a string is itself", text);
                return;
        }
        value = read_json(written->data, written->length);
        if (utf8_is_valid(text))
                fuzz_require(strcmp(json_string_value(payload_in(value, form)), text) == 0,
                    "a text comes back", text);
        json_decref(value);
}

static void check_key(const struct debezium_config *config, const struct event *event)
{
        struct bytes out = {0};

        bytes_append_text(&out, "");
        if (debezium_append_key(config, event, &out))
                check_text(config->key, event->key, &out);
        bytes_deinit(&out);
}

static void check_value(const struct debezium_config *config, const struct event *event)
{
        struct bytes out = {0};

        bytes_append_text(&out, "");
        if (!debezium_append_value(config, event, &out))
                fuzz_require(out.length == 0, "a null value is none", out.data);
        else if (config->value == DEBEZIUM_STRING)
                fuzz_require(out.length == event->payload_bytes &&
                                 memcmp(out.data, event->payload, out.length) == 0,
                    "a string is the payload", event->payload);
        else
                json_decref(read_json(out.data, out.length));
        bytes_deinit(&out);
}

struct check {
        const struct debezium_config *config;
        const struct event *event;
        size_t n;
};

static void check_header(void *owner, const char *name, const char *value, size_t length)
{
        struct check *check = owner;

        check->n++;
        if (check->config->headers != DEBEZIUM_STRING)
                json_decref(read_json(value, length));
        if (strcmp(name, check->event->headers[0].name) == 0 &&
            check->event->header_types[0] == EVENT_HEADER_STRING) {
                const struct bytes written = {.data = (char *)value, .length = length};

                check_text(check->config->headers, check->event->headers[0].value, &written);
        }
}

static void check_expanding(const char *payload, size_t length)
{
        struct bytes once = {0};
        struct bytes twice = {0};

        bytes_append_text(&once, "");
        if (debezium_append_expanded(&once, payload, length)) {
                json_decref(read_json(once.data, once.length));
                fuzz_require(debezium_append_expanded(&twice, once.data, once.length) &&
                                 strcmp(once.data, twice.data) == 0,
                    "expanding again changes nothing", once.data);
        } else {
                fuzz_require(once.length == 0, "what is not expanded leaves nothing", once.data);
        }
        bytes_deinit(&twice);
        bytes_deinit(&once);
}

/* A number without a sign, a point or an exponent is enough: it may be as long as it likes. */
static enum event_header_type type_of(const char *value, bool is_structure)
{
        if (is_structure)
                return EVENT_HEADER_STRUCTURE;
        return *value > '0' && *value <= '9' && value[strspn(value, "0123456789")] == '\0'
                   ? EVENT_HEADER_NUMBER
                   : EVENT_HEADER_STRING;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned forms = fuzz_take_byte(&input);
        unsigned switches = fuzz_take_byte(&input);
        char *key = fuzz_take_text(&input);
        char *value = fuzz_take_text(&input);
        size_t length;
        char *payload = fuzz_take_rest(&input, &length);
        const struct debezium_config config = {.key = (enum debezium_form)((forms & 3) % 3),
            .value = (enum debezium_form)(forms >> 2 & 3),
            .headers = (enum debezium_form)((forms >> 4 & 3) % 3),
            .context = (switches & 1) != 0 ? context : NULL,
            .type_header = (switches & 2) != 0 ? type_header : NULL,
            .tombstone = (switches & 4) != 0};
        const unsigned char type = (unsigned char)type_of(value, (switches & 8) != 0);
        const struct event_header header = {.name = "x", .value = value};
        const struct event event = {.event_id = "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911",
            .topic = "t",
            .type = (switches & 16) != 0 ? key : NULL,
            .key = (switches & 32) != 0 ? NULL : key,
            .payload = payload,
            .payload_bytes = length,
            .is_json = (switches & 64) == 0,
            .headers = &header,
            .n_headers = 1,
            .header_types = &type,
            .is_redriven = (switches & 128) != 0};
        struct check check = {.config = &config, .event = &event};

        if (event.key != NULL)
                check_key(&config, &event);
        check_value(&config, &event);
        debezium_each_header(&config, &event, check_header, &check);
        fuzz_require(check.n == debezium_n_headers(&config, &event), "as many headers as said", "");
        check_expanding(payload, length);
        free(payload);
        free(value);
        free(key);
        return 0;
}

/* The texts were printed by Debezium 3.2.1 (EventRouter) and the JsonConverter of Kafka 4.0, but for
 * what only pgcourier has. */
#include "sinks/format/debezium.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/event.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define U              "17b4d294-74f5-4087-879b-38d3a40d5d6c"
#define TEXT(optional) "{\"schema\":{\"type\":\"string\",\"optional\":" optional "},\"payload\":"
#define NAMED(optional, name)                                                                      \
        "{\"schema\":{\"type\":\"string\",\"optional\":" optional                                  \
        ",\"name\":\"io.debezium.data." name "\",\"version\":1},\"payload\":"

static char s_context[] = "shop";
static char s_type[] = "eventType";

static struct event event_with(const char *payload)
{
        return (struct event){.event_id = U,
            .topic = "orders",
            .key = "17",
            .payload = payload,
            .payload_bytes = strlen(payload),
            .is_json = true};
}

/* NULL: it is null. */
static void expect_key(enum debezium_form form, const char *key, const char *expected)
{
        const struct debezium_config config = {.key = form};
        struct event event = event_with("{}");
        struct bytes out = {0};

        event.key = key;
        cr_expect(debezium_append_key(&config, &event, &out) == (expected != NULL));
        cr_expect(out.length == (expected != NULL ? strlen(expected) : 0));
        if (expected != NULL)
                cr_expect_str_eq(out.data, expected);
        bytes_deinit(&out);
}

static void expect_value_of(
    const struct debezium_config *config, const struct event *event, const char *expected)
{
        struct bytes out = {0};

        cr_expect(debezium_append_value(config, event, &out) == (expected != NULL));
        cr_expect(out.length == (expected != NULL ? strlen(expected) : 0));
        if (expected != NULL)
                cr_expect_str_eq(out.data, expected);
        bytes_deinit(&out);
}

static void expect_value(enum debezium_form form, const char *payload, const char *expected)
{
        const struct debezium_config config = {.value = form};
        const struct event event = event_with(payload);

        expect_value_of(&config, &event, expected);
}

/* One "name=value" for each header, in lines. */
static void take_header(void *owner, const char *name, const char *value, size_t length)
{
        struct bytes *lines = owner;

        cr_expect(strlen(value) == length);
        bytes_printf(lines, "%s=%s\n", name, value);
}

static void expect_headers(
    const struct debezium_config *config, const struct event *event, const char *expected)
{
        struct bytes lines = {0};
        size_t n_lines = 0;

        debezium_each_header(config, event, take_header, &lines);
        cr_expect_str_eq(lines.data, expected);
        for (const char *at = expected; (at = strchr(at, '\n')) != NULL; at++)
                n_lines++;
        cr_expect(debezium_n_headers(config, event) == n_lines);
        bytes_deinit(&lines);
}

static void expect_id(enum debezium_form form, const char *line)
{
        const struct debezium_config config = {.headers = form};
        const struct event event = event_with("{}");

        expect_headers(&config, &event, line);
}

Test(debezium, writes_with_schemas_as_debezium_server_does_by_default)
{
        expect_key(DEBEZIUM_JSON_SCHEMA, "17", TEXT("false") "\"17\"}");
        expect_value(DEBEZIUM_JSON_SCHEMA, "{\"order\": 17}",
            NAMED("true", "Json") "\"{\\\"order\\\": 17}\"}");
        expect_id(DEBEZIUM_JSON_SCHEMA, "id=" NAMED("false", "Uuid") "\"" U "\"}\n");
}

Test(debezium, writes_json_strings_without_schemas)
{
        expect_key(DEBEZIUM_JSON, "17", "\"17\"");
        expect_value(DEBEZIUM_JSON, "{\"order\": 17}", "\"{\\\"order\\\": 17}\"");
        expect_id(DEBEZIUM_JSON, "id=\"" U "\"\n");
}

Test(debezium, expands_what_debezium_expands)
{
        expect_value(DEBEZIUM_EXPANDED, "{\"order\": 17}", "{\"order\":17}");
        expect_value(DEBEZIUM_EXPANDED, "[]", "\"[]\"");
        expect_value(DEBEZIUM_EXPANDED, " {\"a\":1}", "\" {\\\"a\\\":1}\"");
        expect_value(DEBEZIUM_EXPANDED, "\"text\"", "\"\\\"text\\\"\"");
        expect_value(DEBEZIUM_EXPANDED, "{\"a\":[1,\"x\"]}", "\"{\\\"a\\\":[1,\\\"x\\\"]}\"");
}

Test(debezium, passes_strings_on)
{
        expect_key(DEBEZIUM_STRING, "17", "17");
        expect_value(DEBEZIUM_STRING, "{\"order\": 17}", "{\"order\": 17}");
        expect_id(DEBEZIUM_STRING, "id=" U "\n");
}

Test(debezium, quotes_any_utf8)
{
        expect_key(
            DEBEZIUM_JSON, "a\"\n\xc3\xa9\xf0\x9f\x98\x80", "\"a\\\"\\n\xc3\xa9\\uD83D\\uDE00\"");
        expect_value(DEBEZIUM_JSON, "{\"o\": \"\xf0\x9f\x98\x80\xc3\xa9\"}",
            "\"{\\\"o\\\": \\\"\\uD83D\\uDE00\xc3\xa9\\\"}\"");
        expect_key(DEBEZIUM_STRING, "a\"\n", "a\"\n");
}

Test(debezium, tells_no_key_from_an_empty_one)
{
        expect_key(DEBEZIUM_STRING, NULL, NULL);
        expect_key(DEBEZIUM_STRING, "", "");
        expect_key(DEBEZIUM_JSON, NULL, "null");
        expect_key(DEBEZIUM_JSON, "", "\"\"");
        expect_key(DEBEZIUM_JSON_SCHEMA, NULL, TEXT("true") "null}");
}

Test(debezium, takes_the_json_null_for_a_payload_that_is_null)
{
        expect_value(DEBEZIUM_STRING, "null", NULL);
        expect_value(DEBEZIUM_STRING, " null\r\n", NULL);
        expect_value(DEBEZIUM_JSON, "null", "null");
        expect_value(DEBEZIUM_EXPANDED, "null", "null");
        expect_value(DEBEZIUM_JSON_SCHEMA, "null", NAMED("true", "Json") "null}");
        expect_value(DEBEZIUM_JSON, "\"null\"", "\"\\\"null\\\"\"");
        expect_value(DEBEZIUM_JSON, "[null]", "\"[null]\"");
}

Test(debezium, makes_tombstones_where_told_to)
{
        static const enum debezium_form forms[] = {
            DEBEZIUM_STRING, DEBEZIUM_JSON, DEBEZIUM_JSON_SCHEMA, DEBEZIUM_EXPANDED};

        for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
                const struct debezium_config config = {.value = forms[i], .tombstone = true};
                struct event event = event_with("null");

                expect_value_of(&config, &event, NULL);
                event = event_with(" \n");
                event.is_json = false;
                expect_value_of(&config, &event, NULL);
        }
}

Test(debezium, writes_bytes_as_base64)
{
        struct event event = event_with("\x01\xff"
                                        "a");
        struct debezium_config config = {.value = DEBEZIUM_STRING};

        event.is_json = false;
        expect_value_of(&config, &event,
            "\x01\xff"
            "a");
        config.value = DEBEZIUM_JSON;
        expect_value_of(&config, &event, "\"Af9h\"");
        config.value = DEBEZIUM_EXPANDED;
        expect_value_of(&config, &event, "\"Af9h\"");
        config.value = DEBEZIUM_JSON_SCHEMA;
        expect_value_of(&config, &event,
            "{\"schema\":{\"type\":\"bytes\",\"optional\":true},\"payload\":\"Af9h\"}");
        event.payload_bytes = 0;
        expect_value_of(&config, &event,
            "{\"schema\":{\"type\":\"bytes\",\"optional\":true},\"payload\":\"\"}");
}

static const struct event_header typed_headers[] = {{"tenant", "ann"}, {"n", "5"},
    {"l", "3000000000"}, {"d", "1.50"}, {"b", "true"}, {"z", "null"}, {"j", "{\"a\": 1}"}};
static const unsigned char header_types[] = {EVENT_HEADER_STRING, EVENT_HEADER_NUMBER,
    EVENT_HEADER_NUMBER, EVENT_HEADER_NUMBER, EVENT_HEADER_BOOLEAN, EVENT_HEADER_NULL,
    EVENT_HEADER_STRUCTURE};

static struct event event_with_headers(void)
{
        struct event event = event_with("{}");

        event.headers = typed_headers;
        event.n_headers = sizeof typed_headers / sizeof typed_headers[0];
        event.header_types = header_types;
        return event;
}

Test(debezium, gives_headers_the_types_that_they_were_published_with)
{
        struct debezium_config config = {.headers = DEBEZIUM_JSON};
        struct event event = event_with_headers();

        expect_headers(&config, &event,
            "id=\"" U "\"\ntenant=\"ann\"\nn=5\nl=3000000000\nd=1.5\nb=true\nz=null\n"
            "j=\"{\\\"a\\\": 1}\"\n");
        config.headers = DEBEZIUM_JSON_SCHEMA;
        expect_headers(&config, &event,
            "id=" NAMED("false",
                "Uuid") "\"" U "\"}\n"
                        "tenant=" TEXT("false") "\"ann\"}\n"
                                                "n={\"schema\":{\"type\":\"int32\",\"optional\":"
                                                "false},\"payload\":5}\n"
                                                "l={\"schema\":{\"type\":\"int64\",\"optional\":"
                                                "false},\"payload\":3000000000}\n"
                                                "d={\"schema\":{\"type\":\"double\",\"optional\":"
                                                "false},\"payload\":1.5}\n"
                                                "b={\"schema\":{\"type\":\"boolean\",\"optional\":"
                                                "false},\"payload\":true}\n"
                                                "z=" TEXT(
                                                    "true") "null}\n"
                                                            "j=" NAMED("false",
                                                                "Json") "\"{\\\"a\\\": 1}\"}\n");
        config.headers = DEBEZIUM_STRING;
        expect_headers(&config, &event,
            "id=" U "\ntenant=ann\nn=5\nl=3000000000\nd=1.50\nb=true\nz=null\nj={\"a\": 1}\n");
}

/* It has 310 digits: as a double it is infinite. */
Test(debezium, leaves_a_number_beyond_double_a_text)
{
        const struct debezium_config config = {.headers = DEBEZIUM_JSON};
        const unsigned char types[] = {EVENT_HEADER_NUMBER, EVENT_HEADER_NUMBER};
        char *number = xasprintf("1%0309d", 0);
        char *expected = xasprintf("id=\"" U "\"\nn=\"%s\"\nm=1000.0\n", number);
        const struct event_header headers[] = {{"n", number}, {"m", "1e3"}};
        struct event event = event_with("{}");

        event.headers = headers;
        event.n_headers = 2;
        event.header_types = types;
        expect_headers(&config, &event, expected);
        free(expected);
        free(number);
}

Test(debezium, takes_headers_without_types_for_texts)
{
        const struct debezium_config config = {.headers = DEBEZIUM_JSON};
        struct event event = event_with_headers();

        event.header_types = NULL;
        event.n_headers = 2;
        expect_headers(&config, &event, "id=\"" U "\"\ntenant=\"ann\"\nn=\"5\"\n");
}

Test(debezium, adds_the_headers_of_context_type_and_redriving)
{
        struct debezium_config config = {
            .headers = DEBEZIUM_JSON_SCHEMA, .context = s_context, .type_header = s_type};
        struct event event = event_with("{}");

        event.type = "order.created";
        expect_headers(&config, &event,
            "id=" NAMED("false",
                "Uuid") "\"" U "\"}\n"
                        "__debezium.context.connectorLogicalName=" TEXT(
                            "false") "\"shop\"}\n"
                                     "__debezium.context.taskId=" TEXT(
                                         "false") "\"0\"}\n"
                                                  "__debezium.context.connectorName=" TEXT(
                                                      "false") "\"postgresql\"}\n"
                                                               "eventType=" TEXT(
                                                                   "false") "\"order.created\"}\n");
        config = (struct debezium_config){.headers = DEBEZIUM_JSON, .type_header = s_type};
        event.type = NULL;
        event.is_redriven = true;
        expect_headers(&config, &event, "id=\"" U "\"\nredriven=1\n");
        config.headers = DEBEZIUM_STRING;
        expect_headers(&config, &event, "id=" U "\nredriven=1\n");
}

Test(debezium, lets_no_header_of_the_event_replace_one_of_ours)
{
        static const struct event_header headers[] = {{"Id", "no"}, {"EVENTTYPE", "no"},
            {"redriven", "no"}, {"__DEBEZIUM.context.taskid", "no"}, {"x", "yes"}};
        struct debezium_config config = {.context = s_context, .type_header = s_type};
        struct event event = event_with("{}");

        event.headers = headers;
        event.n_headers = sizeof headers / sizeof headers[0];
        event.type = "t";
        event.is_redriven = true;
        expect_headers(&config, &event,
            "id=" U "\n__debezium.context.connectorLogicalName=shop\n"
            "__debezium.context.taskId=0\n__debezium.context.connectorName=postgresql\n"
            "eventType=t\nx=yes\nredriven=1\n");
        config = (struct debezium_config){.headers = DEBEZIUM_STRING};
        event.is_redriven = false;
        expect_headers(&config, &event,
            "id=" U "\nEVENTTYPE=no\nredriven=no\n__DEBEZIUM.context.taskid=no\nx=yes\n");
}

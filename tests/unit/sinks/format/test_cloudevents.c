#include "sinks/format/cloudevents.h"

#include "base/bytes.h"
#include "sinks/format/event_time.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

static struct event plain_event(void)
{
        return (struct event){.event_id = "0b8f5c1e-7d3a-4c55-9d0a-111111111111",
            .topic = "orders",
            .payload = "{\"a\": 1.00}",
            .payload_bytes = 11,
            .is_json = true,
            .created_us = 1706745599000001};
}

static void expect_json(const struct event *event, const char *expected)
{
        struct bytes out = {0};
        struct event_time time = {0};
        json_error_t error;
        json_t *parsed;

        cloudevents_append_json(&out, event, "/shop", &time);
        cr_expect_str_eq(out.data, expected);
        parsed = json_loadb(out.data, out.length, 0, &error);
        cr_expect(parsed != NULL, "%s in %s", error.text, out.data);
        json_decref(parsed);
        bytes_deinit(&out);
}

Test(cloudevents, names_the_topic_where_there_is_no_type_and_leaves_out_an_absent_key)
{
        struct event event = plain_event();
        static const char expected[] =
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"2024-01-31T23:59:59.000001Z\","
            "\"datacontenttype\":\"application/json\",\"topic\":\"orders\",\"data\":{\"a\": 1.00}}";

        expect_json(&event, expected);
        event.key = ""; /* a subject must not be empty, nor a type */
        event.type = "";
        expect_json(&event, expected);
}

Test(cloudevents, carries_all_that_an_event_has)
{
        const struct event_header headers[] = {{"traceparent", "00-ab"}, {"tenant", "m\"\xc3\xbc"}};
        struct event event = plain_event();

        event.key = "k\"";
        event.type = "order.paid";
        event.headers = headers;
        event.n_headers = 2;
        event.is_redriven = true;
        expect_json(&event,
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"order.paid\",\"subject\":\"k\\\"\","
            "\"time\":\"2024-01-31T23:59:59.000001Z\",\"datacontenttype\":\"application/json\","
            "\"partitionkey\":\"k\\\"\",\"topic\":\"orders\",\"redriven\":true,"
            "\"traceparent\":\"00-ab\",\"tenant\":\"m\\\"\xc3\xbc\",\"data\":{\"a\": 1.00}}");
}

Test(cloudevents, lets_no_header_take_the_place_of_an_attribute_or_break_the_rules_for_names)
{
        const struct event_header headers[] = {{"id", "x"}, {"specversion", "x"}, {"data", "x"},
            {"data_base64", "x"}, {"Tenant", "x"}, {"a-b", "x"}, {"redriven", "x"},
            {"a23456789012345678901", "x"}, {"a\"b", "x"}, {"a2345678901234567890", "y"}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = sizeof headers / sizeof headers[0];
        expect_json(&event,
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"2024-01-31T23:59:59.000001Z\","
            "\"datacontenttype\":\"application/json\",\"topic\":\"orders\","
            "\"a2345678901234567890\":\"y\",\"data\":{\"a\": 1.00}}");
}

Test(cloudevents, encodes_what_is_not_json)
{
        struct event event = plain_event();

        event.is_json = false;
        event.payload = "\x00\xff\x10";
        event.payload_bytes = 3;
        expect_json(&event,
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"2024-01-31T23:59:59.000001Z\","
            "\"datacontenttype\":\"application/octet-stream\",\"topic\":\"orders\","
            "\"data_base64\":\"AP8Q\"}");
        event.payload_bytes = 0;
        expect_json(&event,
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"2024-01-31T23:59:59.000001Z\","
            "\"datacontenttype\":\"application/octet-stream\",\"topic\":\"orders\","
            "\"data_base64\":\"\"}");
}

static void expect_forbidden(const struct event *event, const char *what)
{
        struct outcome rejected = outcome_delivered;

        cr_expect_not(cloudevents_can_carry(event, &rejected));
        cr_expect_eq(rejected.kind, OUTCOME_REJECTED);
        cr_expect(strstr(rejected.reason, what) != NULL, "%s", rejected.reason);
}

Test(cloudevents, cannot_carry_control_characters_in_an_attribute)
{
        const struct event_header headers[] = {{"a-b", "\n"}, {"id", "\n"}, {"tenant", "a\tb"}};
        struct outcome rejected = outcome_delivered;
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = 2; /* these are no attributes */
        event.key = "\xc2\xa0\xc3\xa4 ";
        cr_expect(cloudevents_can_carry(&event, &rejected));
        event.n_headers = 3;
        expect_forbidden(&event, "event's header tenant holds");
        event.n_headers = 0;
        event.type = "\x7f";
        expect_forbidden(&event, "event's type holds");
        event.type = NULL;
        event.key = "k\n";
        expect_forbidden(&event, "event's key holds");
        event.key = NULL;
        event.topic = "a\x01";
        expect_forbidden(&event, "event's topic holds");
}

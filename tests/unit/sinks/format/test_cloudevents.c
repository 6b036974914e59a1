#include "sinks/format/event_json.h"

#include "base/bytes.h"

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
        json_error_t error;
        json_t *parsed;

        cloudevents_append_json(&out, event, "/shop");
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

        event.key = "k\n";
        event.type = "order.paid";
        event.headers = headers;
        event.n_headers = 2;
        event.is_redriven = true;
        expect_json(&event,
            "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","
            "\"source\":\"/shop\",\"type\":\"order.paid\",\"subject\":\"k\\n\","
            "\"time\":\"2024-01-31T23:59:59.000001Z\",\"datacontenttype\":\"application/json\","
            "\"partitionkey\":\"k\\n\",\"topic\":\"orders\",\"redriven\":true,"
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

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

static struct event event_with(const char *json)
{
        return (struct event){.event_id = "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911",
            .topic = "orders",
            .payload = json,
            .payload_bytes = strlen(json),
            .is_json = true,
            .created_us = 1793620800123456};
}

static void assert_line(const struct event *event, bool with_content, const char *rest)
{
        static const char begin[] = "{\"id\": \"018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911\", ";
        struct bytes out = {0};

        event_json_append_line(&out, event, with_content);
        cr_assert_eq(strncmp(out.data, begin, strlen(begin)), 0, "%s", out.data);
        cr_assert_str_eq(out.data + strlen(begin), rest);
        bytes_deinit(&out);
}

Test(event_line, holds_all_of_an_event)
{
        struct event event = event_with("{\"n\": 1.0}");

        event.key = "42";
        event.type = "order.paid";
        event.headers = (const struct event_header[]){{"traceparent", "00-1"}, {"x", ""}};
        event.n_headers = 2;
        assert_line(&event, true,
            "\"topic\": \"orders\", \"key\": \"42\", \"type\": \"order.paid\", \"time\": "
            "\"2026-11-02T12:00:00.123456Z\", \"headers\": {\"traceparent\": \"00-1\", \"x\": "
            "\"\"}, "
            "\"payload\": {\"n\": 1.0}}\n");
        assert_line(&event, false,
            "\"topic\": \"orders\", \"key\": \"42\", \"type\": \"order.paid\", \"time\": "
            "\"2026-11-02T12:00:00.123456Z\"}\n");
}

Test(event_line, marks_redriven_events)
{
        struct event event = event_with("1");

        event.is_redriven = true;
        assert_line(&event, true,
            "\"topic\": \"orders\", \"key\": null, \"type\": null, \"time\": "
            "\"2026-11-02T12:00:00.123456Z\", \"redriven\": true, \"headers\": {}, \"payload\": "
            "1}\n");
}

#define BARE "\"key\": null, \"type\": null, \"time\": \"2026-11-02T12:00:00.123456Z\""

Test(event_line, escapes_what_json_needs_escaped)
{
        struct event event = event_with("1");

        event.topic = "a\"b\\c\n\t\r\x01\x1f\x7f\xc3\xa4";
        assert_line(&event, false,
            "\"topic\": \"a\\\"b\\\\c\\n\\t\\u000d\\u0001\\u001f\x7f\xc3\xa4\", " BARE "}\n");
}

Test(event_line, replaces_bytes_that_are_not_utf8)
{
        struct event event = event_with("1");

        event.topic = "a\xff"
                      "b\xc3";
        assert_line(&event, false,
            "\"topic\": \"a\xef\xbf\xbd"
            "b\xef\xbf\xbd\", " BARE "}\n");
        event.topic = "\xed\xa0\x80\n";
        assert_line(
            &event, false, "\"topic\": \"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\\n\", " BARE "}\n");
}

#define CONTENT "\"topic\": \"orders\", " BARE ", \"headers\": {}, "

Test(event_line, keeps_a_payload_of_one_line_byte_for_byte)
{
        struct event event = event_with("{ \"big\":12345678901234567890123,  \"e\": 1e400 }");

        assert_line(&event, true,
            CONTENT "\"payload\": { \"big\":12345678901234567890123,  \"e\": 1e400 }}\n");
}

Test(event_line, compacts_a_payload_of_several_lines)
{
        struct event event = event_with("{\n  \"a b\": [1.50,\r\n\t\"\\\" \\\\\", \"x\\\\\" ]\n}");

        assert_line(
            &event, true, CONTENT "\"payload\": {\"a b\":[1.50,\"\\\" \\\\\",\"x\\\\\"]}}\n");
        /* Not JSON, and yet one line. */
        event = event_with("\"a\nb");
        assert_line(&event, true, CONTENT "\"payload\": \"a\\nb}\n");
}

Test(event_line, writes_binary_data_as_base64)
{
        struct event event = event_with("");

        event.is_json = false;
        assert_line(&event, true, CONTENT "\"data_base64\": \"\"}\n");
        event.payload = "\0\xff\n1";
        event.payload_bytes = 4;
        assert_line(&event, true, CONTENT "\"data_base64\": \"AP8KMQ==\"}\n");
}

Test(event_line, writes_times_before_1970)
{
        struct event event = event_with("1");
        struct bytes out = {0};

        event.created_us = -1;
        event_json_append_line(&out, &event, false);
        cr_assert(
            strstr(out.data, "\"time\": \"1969-12-31T23:59:59.999999Z\"") != NULL, "%s", out.data);
        bytes_deinit(&out);
}

#include "sinks/format/event_json.h"

#include "base/bytes.h"
#include "pgcourier/event.h"
#include "sinks/format/event_time.h"

#include <criterion/criterion.h>
#include <string.h>

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
        struct event_time time = {0};

        event_json_append_line(&out, event, &time, with_content);
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

/* What a request says: its body in every form, and the headers that belong to the form. */
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_target.h"

#include <criterion/criterion.h>
#include <string.h>
#include <zlib.h>

#define EVENT_ID "0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f"
#define PARENT   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static char source[] = "pgcourier";

static struct event event_of(const char *payload)
{
        return (struct event){.event_id = EVENT_ID,
            .topic = "orders",
            .key = "k \"1\"",
            .type = "order.paid",
            .payload = payload,
            .payload_bytes = strlen(payload),
            .is_json = true,
            .created_us = 1793620800123456};
}

static void expect_body(
    enum http_body_form form, const struct event *event, const char *wanted, const char *type)
{
        const struct http_config config = {.body = form, .source = source};
        struct bytes body = {0};

        http_body_append(&config, event, &body);
        cr_expect_str_eq(body.data, wanted);
        cr_expect_str_eq(http_content_type(&config, event), type);
        bytes_deinit(&body);
}

Test(http_body, embeds_json_byte_for_byte)
{
        const struct event event = event_of("{\"n\": 1.0,\n \"n\":1e2}");

        expect_body(HTTP_BODY_STANDARD, &event,
            "{\"type\":\"order.paid\",\"timestamp\":\"2026-11-02T12:00:00.123456Z\",\"data\":"
            "{\"n\": 1.0,\n \"n\":1e2}}",
            "application/json");
        expect_body(HTTP_BODY_RAW, &event, event.payload, "application/json");
        expect_body(HTTP_BODY_CLOUDEVENTS, &event, event.payload, "application/json");
        expect_body(HTTP_BODY_CLOUDEVENTS_STRUCTURED, &event,
            "{\"specversion\":\"1.0\",\"id\":\"" EVENT_ID "\",\"source\":\"pgcourier\",\"type\":"
            "\"order.paid\",\"subject\":\"k \\\"1\\\"\",\"time\":\"2026-11-02T12:00:00.123456Z\","
            "\"datacontenttype\":\"application/json\",\"partitionkey\":\"k \\\"1\\\"\",\"topic\":"
            "\"orders\",\"data\":{\"n\": 1.0,\n \"n\":1e2}}",
            "application/cloudevents+json");
}

Test(http_body, says_so_when_data_is_not_json)
{
        struct event event = event_of("\xff\x01z");

        event.is_json = false;
        event.type = NULL;
        event.key = NULL;
        expect_body(HTTP_BODY_STANDARD, &event,
            "{\"type\":\"orders\",\"timestamp\":\"2026-11-02T12:00:00.123456Z\",\"data_base64\":"
            "\"/wF6\"}",
            "application/json");
        expect_body(HTTP_BODY_CLOUDEVENTS, &event, "\xff\x01z", "application/octet-stream");
}

Test(http_body, tells_a_batch_all_that_headers_would_say)
{
        const struct http_batch batch = {.events = 2};
        struct http_config config = {.batch = (struct http_batch *)(uintptr_t)&batch};
        struct event first = event_of("1");
        struct event second = event_of("2");
        const struct event *const events[] = {&first, &second};
        struct bytes body = {0};

        second.key = NULL;
        second.is_redriven = true;
        http_body_append_batch(&config, events, 2, &body);
        cr_expect_str_eq(body.data,
            "[{\"id\":\"" EVENT_ID "\",\"type\":\"order.paid\",\"timestamp\":"
            "\"2026-11-02T12:00:00.123456Z\",\"topic\":\"orders\",\"key\":\"k \\\"1\\\"\","
            "\"data\":1},\n{\"id\":\"" EVENT_ID "\",\"type\":\"order.paid\",\"timestamp\":"
            "\"2026-11-02T12:00:00.123456Z\",\"topic\":\"orders\",\"redriven\":true,\"data\":2}]");
        cr_expect_str_eq(http_content_type(&config, NULL), "application/json");
        config.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED;
        cr_expect_str_eq(http_content_type(&config, NULL), "application/cloudevents-batch+json");
        bytes_deinit(&body);
}

Test(http_batcher, gives_a_batch_an_id_that_depends_on_its_events)
{
        struct event first = event_of("1");
        struct event second = event_of("2");
        const struct event *const events[] = {&first, &second};
        const struct event *const swapped[] = {&second, &first};
        char id[37];
        char other[37];

        second.event_id[0] = 'f';
        http_batch_id(events, 2, id);
        http_batch_id(events, 2, other);
        cr_expect_str_eq(id, other);
        cr_expect_eq(strlen(id), 36);
        cr_expect_eq(id[14], '8', "%s", id);
        http_batch_id(swapped, 2, other);
        cr_expect_str_neq(id, other);
        http_batch_id(events, 1, other);
        cr_expect_str_eq(other, EVENT_ID);
}

Test(http_body, rejects_what_cloudevents_forbid)
{
        const struct http_config raw = {.body = HTTP_BODY_RAW};
        const struct http_config structured = {.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED};
        struct event event = event_of("1");
        struct outcome rejected;

        cr_expect(http_body_can_carry(&structured, &event, &rejected));
        event.key = "a\nb";
        cr_expect(http_body_can_carry(&raw, &event, &rejected));
        cr_expect_not(http_body_can_carry(&structured, &event, &rejected));
        cr_expect_eq(rejected.kind, OUTCOME_REJECTED);
        cr_expect(strstr(rejected.reason, "key") != NULL, "%s", rejected.reason);
}

/* Only what goes along is an attribute. */
Test(http_body, rejects_what_cloudevents_forbid_in_headers_that_are_shown)
{
        static char tenant[] = "tenant";
        static char *names[] = {tenant};
        const struct event_header header = {"tenant", "a\nb"};
        struct http_config config = {.body = HTTP_BODY_CLOUDEVENTS_STRUCTURED};
        struct event event = event_of("1");
        struct outcome rejected;

        event.headers = &header;
        event.n_headers = 1;
        cr_expect(http_body_can_carry(&config, &event, &rejected));
        config.headers = names;
        config.n_headers = 1;
        cr_expect_not(http_body_can_carry(&config, &event, &rejected));
        cr_expect(strstr(rejected.reason, "header tenant") != NULL, "%s", rejected.reason);
}

Test(http_gzip, compresses_to_what_zlib_reads)
{
        char text[100000];
        char back[sizeof text + 1];
        struct bytes compressed = {0};
        z_stream stream = {0};

        for (size_t i = 0; i < sizeof text; i++)
                text[i] = (char)('a' + i * i % 23);
        http_gzip_append(&compressed, text, sizeof text);
        cr_assert_eq(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
        stream.next_in = (unsigned char *)compressed.data;
        stream.avail_in = (uInt)compressed.length;
        stream.next_out = (unsigned char *)back;
        stream.avail_out = sizeof back;
        cr_expect_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
        cr_expect_eq(stream.total_out, sizeof text);
        cr_expect_eq(memcmp(back, text, sizeof text), 0);
        cr_expect_lt(compressed.length, sizeof text / 10);
        inflateEnd(&stream);
        bytes_deinit(&compressed);
}

static bool has_line(const struct bytes *lines, const char *line)
{
        size_t length = strlen(line);

        for (const char *at = lines->data; *at != '\0'; at = strchr(at, '\n') + 1)
                if (strncmp(at, line, length) == 0 && at[length] == '\r')
                        return true;
        return false;
}

Test(http_headers, describe_a_cloudevent_in_headers)
{
        const struct event_header headers[] = {
            {"traceparent", PARENT}, {"tenant", "\xc3\xa4 %"}, {"internal", "no"}};
        char tenant[] = "tenant";
        char *listed[] = {tenant};
        const struct http_config config = {
            .body = HTTP_BODY_CLOUDEVENTS, .source = source, .headers = listed, .n_headers = 1};
        struct event event = event_of("1");
        const struct http_request_head head = {
            .config = &config, .event = &event, .id = EVENT_ID, .body = "1", .body_bytes = 1};
        struct outcome rejected;
        struct bytes lines = {0};

        event.headers = headers;
        event.n_headers = 3;
        cr_assert(http_headers_append(&head, &lines, &rejected), "%s", rejected.reason);
        cr_expect(has_line(&lines, "Content-Type: application/json"));
        cr_expect(has_line(&lines, "ce-specversion: 1.0"));
        cr_expect(has_line(&lines, "ce-id: " EVENT_ID));
        cr_expect(has_line(&lines, "ce-source: pgcourier"));
        cr_expect(has_line(&lines, "ce-type: order.paid"));
        cr_expect(has_line(&lines, "ce-subject: k%20%221%22"));
        cr_expect(has_line(&lines, "ce-partitionkey: k%20%221%22"));
        cr_expect(has_line(&lines, "ce-time: 2026-11-02T12:00:00.123456Z"));
        cr_expect(has_line(&lines, "ce-tenant: %C3%A4%20%25"));
        cr_expect(has_line(&lines, "ce-traceparent: " PARENT));
        cr_expect(has_line(&lines, "traceparent: " PARENT));
        cr_expect_not(has_line(&lines, "ce-internal: no"));
        cr_expect_not(http_header_is_among(lines.data, "ce-datacontenttype"));
        cr_expect_not(http_header_is_among(lines.data, "x-event-key"));
        bytes_deinit(&lines);
}

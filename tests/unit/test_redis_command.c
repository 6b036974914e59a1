#include "sinks/redis_command.h"

#include "base/bytes.h"
#include "base/error.h"
#include "pgcourier/event.h"

#include <criterion/criterion.h>
#include <string.h>

static struct event plain_event(void)
{
        return (struct event){.event_id = "0b8f5c1e-7d3a-4c55-9d0a-111111111111",
            .topic = "orders",
            .payload = "{}",
            .payload_bytes = 2,
            .created_us = 1706745599000001};
}

static void expect_encoded(
    const char *stream, uint64_t maxlen, const struct event *event, const char *expected)
{
        struct error error = {0};
        struct bytes out = {0};
        struct redis_xadd *xadd = redis_xadd_create(stream, maxlen, &error);

        cr_assert(xadd != NULL, "%s", error.text);
        redis_xadd_encode(xadd, event, &out);
        cr_expect(out.length == strlen(expected) && memcmp(out.data, expected, out.length) == 0,
            "%s", out.data);
        bytes_deinit(&out);
        redis_xadd_destroy(xadd);
}

static void expect_time(int64_t created_us, const char *text)
{
        struct error error = {0};
        struct bytes out = {0};
        struct redis_xadd *xadd = redis_xadd_create("s", 0, &error);
        struct event event = plain_event();

        event.created_us = created_us;
        redis_xadd_encode(xadd, &event, &out);
        cr_expect(strstr(out.data, text) != NULL, "%lld: no %s in %s", (long long)created_us, text,
            out.data);
        bytes_deinit(&out);
        redis_xadd_destroy(xadd);
}

Test(redis_command, leaves_out_what_the_event_does_not_have)
{
        const struct event event = plain_event();

        expect_encoded("s", 0, &event,
            "*11\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n"
            "$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n"
            "$7\r\npayload\r\n$2\r\n{}\r\n");
}

Test(redis_command, carries_all_that_an_event_has)
{
        const struct event_header headers[] = {{"traceparent", "00-ab"}, {"x", ""}};
        struct event event = plain_event();

        event.key = "k";
        event.type = "created";
        event.payload_bytes = 0;
        event.headers = headers;
        event.n_headers = 2;
        expect_encoded("ev.{{topic}}", 1000, &event,
            "*22\r\n$4\r\nXADD\r\n$9\r\nev.orders\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$4\r\n1000\r\n"
            "$1\r\n*\r\n$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n$3\r\nkey\r\n$1\r\nk\r\n$4\r\ntype\r\n$7\r\ncreated\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n$7\r\npayload\r\n$0\r\n\r\n"
            "$18\r\nheader:traceparent\r\n$5\r\n00-ab\r\n$8\r\nheader:x\r\n$0\r\n\r\n");
}

Test(redis_command, marks_what_was_redriven_behind_all_else)
{
        const struct event_header headers[] = {{"x", ""}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = 1;
        event.is_redriven = true;
        expect_encoded("s", 0, &event,
            "*15\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n"
            "$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n"
            "$7\r\npayload\r\n$2\r\n{}\r\n$8\r\nheader:x\r\n$0\r\n\r\n"
            "$8\r\nredriven\r\n$1\r\n1\r\n");
}

Test(redis_command, names_the_stream_in_whole_characters)
{
        struct error error = {0};
        struct redis_xadd *xadd = redis_xadd_create("ev.{{topic}}", 0, &error);
        struct event event = plain_event();
        char stream[32];

        redis_xadd_describe(xadd, &event, stream, sizeof stream);
        cr_expect_str_eq(stream, "ev.orders");
        event.topic = "a\n\xc3\xbc\xff";
        redis_xadd_describe(xadd, &event, stream, sizeof stream);
        cr_expect_str_eq(stream, "ev.a?\xc3\xbc?");
        redis_xadd_describe(xadd, &event, stream, 7); /* in the middle of the u with dots */
        cr_expect_str_eq(stream, "ev.a?");
        redis_xadd_destroy(xadd);
}

Test(redis_command, writes_any_time_in_utc)
{
        expect_time(0, "$27\r\n1970-01-01T00:00:00.000000Z\r\n");
        expect_time(-1, "$27\r\n1969-12-31T23:59:59.999999Z\r\n");
        expect_time(1709164799123456, "2024-02-28T23:59:59.123456Z");
        expect_time(1709251199999999, "2024-02-29T23:59:59.999999Z");
        expect_time(INT64_MAX, "$29\r\n294247-01-10T04:00:54.775807Z\r\n");
        expect_time(INT64_MIN, "Z\r\n");
}

Test(redis_command, does_not_mix_the_times_of_successive_events)
{
        struct error error = {0};
        struct bytes out = {0};
        struct redis_xadd *xadd = redis_xadd_create("s", 0, &error);
        struct event event = plain_event();

        redis_xadd_encode(xadd, &event, &out);
        event.created_us += 999999;
        redis_xadd_encode(xadd, &event, &out);

        cr_expect(strstr(out.data, "2024-01-31T23:59:59.000001Z") != NULL);
        cr_expect(strstr(out.data, "2024-02-01T00:00:00.000000Z") != NULL);
        bytes_deinit(&out);
        redis_xadd_destroy(xadd);
}

Test(redis_command, refuses_a_bad_template)
{
        struct error error = {0};

        cr_expect(redis_xadd_create("ev.{{key}}", 0, &error) == NULL);
        cr_expect(strstr(error.text, "{{topic}}") != NULL, "%s", error.text);
}

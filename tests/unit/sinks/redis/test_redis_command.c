#include "sinks/redis/redis_command.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static char s_stream[] = "s";
static char topic_stream[] = "ev.{{topic}}";

static struct event plain_event(void)
{
        return (struct event){.event_id = "0b8f5c1e-7d3a-4c55-9d0a-111111111111",
            .topic = "orders",
            .payload = "{}",
            .payload_bytes = 2,
            .created_us = 1706745599000001};
}

/* The config outlives the command. */
static struct redis_command *create(const struct redis_config *config)
{
        struct error error = {0};
        struct redis_command *command = redis_command_create(config, &error);

        cr_assert(command != NULL, "%s", error.text);
        return command;
}

static void expect_encoded_by(
    const struct redis_config *config, const struct event *event, const char *expected)
{
        struct redis_command *command = create(config);
        struct bytes out = {0};

        redis_command_encode(command, event, &out);
        cr_expect(out.length == strlen(expected) && memcmp(out.data, expected, out.length) == 0,
            "%s", out.data);
        bytes_deinit(&out);
        redis_command_destroy(command);
}

static void expect_encoded(
    char *stream, uint64_t maxlen, const struct event *event, const char *expected)
{
        const struct redis_config config = {.stream = stream, .maxlen = maxlen};

        expect_encoded_by(&config, event, expected);
}

static void expect_time(int64_t created_us, const char *text)
{
        const struct redis_config config = {.stream = s_stream};
        struct bytes out = {0};
        struct redis_command *command = create(&config);
        struct event event = plain_event();

        event.created_us = created_us;
        redis_command_encode(command, &event, &out);
        cr_expect(strstr(out.data, text) != NULL, "%lld: no %s in %s", (long long)created_us, text,
            out.data);
        bytes_deinit(&out);
        redis_command_destroy(command);
}

Test(redis_command, leaves_out_what_the_event_does_not_have)
{
        const struct event event = plain_event();

        expect_encoded(s_stream, 0, &event,
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
        expect_encoded(topic_stream, 1000, &event,
            "*22\r\n$4\r\nXADD\r\n$9\r\nev.orders\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$4\r\n1000\r\n"
            "$1\r\n*\r\n$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n$3\r\nkey\r\n$1\r\nk\r\n$4\r\ntype\r\n$7\r\ncreated\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n$7\r\npayload\r\n$0\r\n\r\n"
            "$18\r\nheader:traceparent\r\n$5\r\n00-ab\r\n$8\r\nheader:x\r\n$0\r\n\r\n");
}

Test(redis_command, marks_redriven_events_after_all_other_fields)
{
        const struct event_header headers[] = {{"x", ""}};
        struct event event = plain_event();

        event.headers = headers;
        event.n_headers = 1;
        event.is_redriven = true;
        expect_encoded(s_stream, 0, &event,
            "*15\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n"
            "$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n"
            "$7\r\npayload\r\n$2\r\n{}\r\n$8\r\nheader:x\r\n$0\r\n\r\n"
            "$8\r\nredriven\r\n$1\r\n1\r\n");
}

Test(redis_command, names_the_stream_in_whole_characters)
{
        const struct redis_config config = {.stream = topic_stream};
        struct redis_command *command = create(&config);
        struct event event = plain_event();
        char stream[32];

        redis_command_describe(command, &event, stream, sizeof stream);
        cr_expect_str_eq(stream, "ev.orders");
        event.topic = "a\n\xc3\xbc\xff";
        redis_command_describe(command, &event, stream, sizeof stream);
        cr_expect_str_eq(stream, "ev.a?\xc3\xbc?");
        redis_command_describe(command, &event, stream, 7); /* in the middle of the u with dots */
        cr_expect_str_eq(stream, "ev.a?");
        redis_command_destroy(command);
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
        const struct redis_config config = {.stream = s_stream};
        struct bytes out = {0};
        struct redis_command *command = create(&config);
        struct event event = plain_event();

        redis_command_encode(command, &event, &out);
        event.created_us += 999999;
        redis_command_encode(command, &event, &out);

        cr_expect(strstr(out.data, "2024-01-31T23:59:59.000001Z") != NULL);
        cr_expect(strstr(out.data, "2024-02-01T00:00:00.000000Z") != NULL);
        bytes_deinit(&out);
        redis_command_destroy(command);
}

Test(redis_command, refuses_a_bad_template)
{
        char stream[] = "ev.{{payload}}";
        const struct redis_config config = {.stream = stream};
        struct error error = {0};

        cr_expect(redis_command_create(&config, &error) == NULL);
        cr_expect(strstr(error.text, "{{topic}}, {{type}}, {{key}}") != NULL, "%s", error.text);
}

Test(redis_command, trims_by_age)
{
        const struct redis_config config = {.stream = s_stream, .minid_ms = INT64_MAX};
        const struct redis_config hour = {.stream = s_stream, .minid_ms = 3600 * 1000};
        const struct event event = plain_event();
        struct redis_command *command = create(&hour);
        struct bytes out = {0};
        int64_t before_ms = clock_wall_us() / 1000;
        long long oldest_ms;

        expect_encoded_by(&config, &event,
            "*14\r\n$4\r\nXADD\r\n$1\r\ns\r\n$5\r\nMINID\r\n$1\r\n~\r\n$1\r\n0\r\n$1\r\n*\r\n"
            "$2\r\nid\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$5\r\ntopic\r\n$6\r\norders\r\n"
            "$4\r\ntime\r\n$27\r\n2024-01-31T23:59:59.000001Z\r\n"
            "$7\r\npayload\r\n$2\r\n{}\r\n");
        redis_command_encode(command, &event, &out);
        cr_assert(sscanf(strstr(out.data, "~\r\n$13\r\n"), "~\r\n$13\r\n%lld", &oldest_ms) == 1);
        cr_expect_geq(oldest_ms, before_ms - hour.minid_ms);
        cr_expect_leq(oldest_ms, clock_wall_us() / 1000 - hour.minid_ms);
        bytes_deinit(&out);
        redis_command_destroy(command);
}

static char s_null_key[] = "no-key";
static char s_null_value[] = "no-value";

static struct redis_config debezium_config(enum redis_fields layout, enum debezium_form form)
{
        return (struct redis_config){.stream = s_stream,
            .layout = layout,
            .debezium = {.key = form,
                .value = form,
                .headers = form,
                .null_key = s_null_key,
                .null_value = s_null_value}};
}

Test(redis_command, lays_fields_out_as_debezium_server_does)
{
        const struct event_header headers[] = {{"traceParent", "00-ab"}, {"Id", "no"}};
        struct redis_config extended = debezium_config(LAYOUT_DEBEZIUM_EXTENDED, DEBEZIUM_STRING);
        struct redis_config compact = debezium_config(LAYOUT_DEBEZIUM_COMPACT, DEBEZIUM_STRING);
        struct event event = plain_event();

        event.is_json = true;
        event.key = "42";
        event.headers = headers;
        event.n_headers = 2;
        expect_encoded_by(
            &compact, &event, "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$2\r\n42\r\n$2\r\n{}\r\n");
        expect_encoded_by(&extended, &event,
            "*11\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$3\r\nkey\r\n$2\r\n42\r\n"
            "$5\r\nvalue\r\n$2\r\n{}\r\n$2\r\nID\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$11\r\nTRACEPARENT\r\n$5\r\n00-ab\r\n");
        event.n_headers = 0;
        event.is_redriven = true;
        expect_encoded_by(&extended, &event,
            "*11\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$3\r\nkey\r\n$2\r\n42\r\n"
            "$5\r\nvalue\r\n$2\r\n{}\r\n$2\r\nID\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n"
            "$8\r\nREDRIVEN\r\n$1\r\n1\r\n");
        extended = debezium_config(LAYOUT_DEBEZIUM_EXTENDED, DEBEZIUM_JSON);
        compact = debezium_config(LAYOUT_DEBEZIUM_COMPACT, DEBEZIUM_JSON);
        event.is_redriven = false;
        expect_encoded_by(&compact, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$4\r\n\"42\"\r\n$4\r\n\"{}\"\r\n");
        expect_encoded_by(&extended, &event,
            "*9\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$3\r\nkey\r\n$4\r\n\"42\"\r\n"
            "$5\r\nvalue\r\n$4\r\n\"{}\"\r\n"
            "$2\r\nID\r\n$38\r\n\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\"\r\n");
}

Test(redis_command, lets_words_stand_for_a_key_and_a_value_that_are_null)
{
        struct redis_config extended = debezium_config(LAYOUT_DEBEZIUM_EXTENDED, DEBEZIUM_STRING);
        struct redis_config compact = debezium_config(LAYOUT_DEBEZIUM_COMPACT, DEBEZIUM_STRING);
        struct event event = plain_event();

        event.is_json = true;
        event.payload = "null";
        event.payload_bytes = 4;
        expect_encoded_by(&compact, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$6\r\nno-key\r\n$8\r\nno-value\r\n");
        expect_encoded_by(&extended, &event,
            "*9\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$3\r\nkey\r\n$6\r\nno-key\r\n"
            "$5\r\nvalue\r\n$8\r\nno-value\r\n"
            "$2\r\nID\r\n$36\r\n0b8f5c1e-7d3a-4c55-9d0a-111111111111\r\n");
        compact = debezium_config(LAYOUT_DEBEZIUM_COMPACT, DEBEZIUM_JSON);
        expect_encoded_by(&compact, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$4\r\nnull\r\n$4\r\nnull\r\n");
        compact.debezium.tombstone = true;
        expect_encoded_by(&compact, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$4\r\nnull\r\n$8\r\nno-value\r\n");
}

#define CLOUDEVENT                                                                                 \
        "{\"specversion\":\"1.0\",\"id\":\"0b8f5c1e-7d3a-4c55-9d0a-111111111111\","                \
        "\"source\":\"/shop\",\"type\":\"orders\",\"time\":\"2024-01-31T23:59:59.000001Z\","       \
        "\"datacontenttype\":\"application/json\",\"topic\":\"orders\",\"data\":{}}"

Test(redis_command, puts_a_cloudevent_where_the_payload_was)
{
        char source[] = "/shop";
        struct redis_config config = {.stream = s_stream,
            .channel = s_stream,
            .format = FORMAT_CLOUDEVENTS,
            .source = source};
        struct event event = plain_event();

        event.is_json = true;
        expect_encoded_by(&config, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$4\r\ndata\r\n$199\r\n" CLOUDEVENT "\r\n");
        config.layout = LAYOUT_DEBEZIUM_COMPACT;
        config.debezium.null_key = s_null_key;
        expect_encoded_by(&config, &event,
            "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$6\r\nno-key\r\n$199\r\n" CLOUDEVENT "\r\n");
        config.layout = LAYOUT_NATIVE;
        config.mode = REDIS_PUBSUB;
        expect_encoded_by(
            &config, &event, "*3\r\n$7\r\nPUBLISH\r\n$1\r\ns\r\n$199\r\n" CLOUDEVENT "\r\n");
        config.format = FORMAT_NATIVE;
        expect_encoded_by(&config, &event, "*3\r\n$7\r\nPUBLISH\r\n$1\r\ns\r\n$2\r\n{}\r\n");
}

static void expect_refused(
    struct redis_command *command, const struct event *event, const char *reason)
{
        struct outcome outcome;

        cr_assert_not(redis_command_admit(command, event, &outcome));
        cr_expect(outcome.kind == OUTCOME_REJECTED);
        cr_expect(strstr(outcome.reason, reason) != NULL, "%s", outcome.reason);
}

Test(redis_command, refuses_events_that_cannot_be_a_cloudevent)
{
        char source[] = "/shop";
        struct redis_config config = {
            .stream = s_stream, .format = FORMAT_CLOUDEVENTS, .source = source};
        struct redis_command *command = create(&config);
        struct event event = plain_event();
        struct outcome outcome;

        cr_expect(redis_command_admit(command, &event, &outcome));
        event.key = "a\nb";
        expect_refused(command, &event, "the event's key holds a line break");
        config.mode = REDIS_PUBSUB;
        expect_refused(command, &event, "the event's key holds a line break");
        config.format = FORMAT_NATIVE;
        cr_expect(redis_command_admit(command, &event, &outcome));
        redis_command_destroy(command);
}

Test(redis_command, refuses_events_that_cannot_name_their_stream)
{
        char stream[] = "ev.{{type}}.{{key}}";
        const struct redis_config config = {.stream = stream};
        struct redis_command *command = create(&config);
        char long_name[1100];
        struct event event = plain_event();
        struct outcome outcome;

        expect_refused(command, &event, "no key");
        event.key = "k";
        expect_refused(command, &event, "no type");
        event.type = "t";
        cr_expect(redis_command_admit(command, &event, &outcome));
        event.key = "a\nb";
        expect_refused(command, &event, "a control character");
        event.key = "a\x7f";
        expect_refused(command, &event, "a control character");
        memset(long_name, 'x', sizeof long_name - 1);
        long_name[sizeof long_name - 1] = '\0';
        event.key = long_name;
        expect_refused(command, &event, "1104 bytes; allowed: 1024");
        redis_command_destroy(command);
}

Test(redis_command, refuses_a_topic_again_and_again)
{
        const struct redis_config config = {.stream = topic_stream};
        struct redis_command *command = create(&config);
        struct event event = plain_event();

        event.topic = "a\nb";
        for (int i = 0; i < 3; i++)
                expect_refused(command, &event, "a control character");
        redis_command_destroy(command);
}

Test(redis_command, makes_only_so_many_streams)
{
        const struct redis_config config = {.stream = topic_stream, .max_streams = 2};
        struct redis_command *command = create(&config);
        struct event event = plain_event();
        struct outcome outcome;

        for (int round = 0; round < 3; round++) {
                event.topic = "a";
                cr_expect(redis_command_admit(command, &event, &outcome));
                event.topic = "b";
                cr_expect(redis_command_admit(command, &event, &outcome));
                event.topic = "c";
                expect_refused(command, &event, "redis.max_streams (2)");
        }
        redis_command_destroy(command);
}

/* More topics than names are kept at hand, and some that could be taken for one another. */
Test(redis_command, tells_the_names_of_many_topics_apart)
{
        char stream[] = "ev.{{topic}}.x";
        const struct redis_config config = {.stream = stream, .max_streams = 50};
        struct redis_command *command = create(&config);
        struct event event = plain_event();
        struct outcome outcome;

        for (int i = 0; i < 3 * 50; i++) {
                char topic[16];
                char expected[24];

                snprintf(topic, sizeof topic, "%c%d.t", 'a' + i % 2, i % 50 / 2);
                snprintf(expected, sizeof expected, "ev.%s.x", topic);
                event.topic = topic;
                cr_expect(redis_command_admit(command, &event, &outcome));
                cr_expect_str_eq(redis_command_target(command, &event)->data, expected);
                cr_expect_str_eq(redis_command_target(command, &event)->data, expected);
                event.topic = "one.too.many.t";
                cr_expect(i < 49 || !redis_command_admit(command, &event, &outcome));
        }
        redis_command_destroy(command);
}

Test(redis_command, makes_the_name_anew_where_the_key_is_part_of_it)
{
        char stream[] = "ev.{{topic}}.{{key}}";
        const struct redis_config config = {.stream = stream};
        struct redis_command *command = create(&config);
        struct event event = plain_event();

        event.key = "a";
        cr_expect_str_eq(redis_command_target(command, &event)->data, "ev.orders.a");
        event.key = "b";
        cr_expect_str_eq(redis_command_target(command, &event)->data, "ev.orders.b");
        redis_command_destroy(command);
}

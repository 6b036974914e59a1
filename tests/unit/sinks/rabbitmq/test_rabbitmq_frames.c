/* AMQP's bytes: what is written, what is read, and what a hostile server may send. */
#include "sinks/rabbitmq/rabbitmq_frames.h"

#include "base/bytes.h"
#include "config/config.h"
#include "sinks/rabbitmq/rabbitmq_greeting.h"

#include <criterion/criterion.h>
#include <string.h>

static struct amqp_input input = {.frame_max = AMQP_FRAME_MAX};

/* The frames of one after the other; each is given in a block of its own. */
static struct amqp_news take(const struct bytes *bytes, size_t *at)
{
        struct amqp_news news;
        size_t n = amqp_take(&input, bytes->data + *at, bytes->length - *at, &news);

        *at += n;
        return news;
}

static struct amqp_news take_one(const struct bytes *bytes)
{
        size_t at = 0;

        return take(bytes, &at);
}

static void put_frame(
    struct bytes *out, uint8_t type, uint16_t channel, const void *payload, size_t length)
{
        amqp_put_8(out, type);
        amqp_put_16(out, channel);
        amqp_put_long(out, payload, length);
        amqp_put_8(out, 0xce);
}

static void put_ack(struct bytes *out, enum amqp_method method, uint64_t tag, uint8_t bits)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, method);

        amqp_put_64(out, tag);
        amqp_put_8(out, bits);
        amqp_end_frame(out, frame);
}

static void put_return(struct bytes *out)
{
        size_t frame = amqp_begin_method(out, AMQP_CHANNEL, AMQP_RETURN);

        amqp_put_16(out, 312);
        amqp_put_short(out, "NO_ROUTE");
        amqp_put_short(out, "events");
        amqp_put_short(out, "orders");
        amqp_end_frame(out, frame);
}

/* A message of ours without its first frame is what the server sends behind its return. */
static void put_content(struct bytes *out, const char *message_id, size_t body_bytes)
{
        static const char body[300] = {0};
        struct bytes frames = {0}, key = {0};
        struct amqp_publish publish = {.exchange = "",
            .content_type = "text/plain",
            .delivery_mode = 2,
            .priority = 1,
            .expiration = "100",
            .message_id = message_id,
            .body = body,
            .body_bytes = body_bytes};
        struct amqp_message_places places;

        bytes_append_text(&key, "k");
        publish.routing_key = &key;
        places = amqp_publish_begin(&frames, &publish);
        amqp_put_entry_text(&frames, "topic", "orders", 6);
        amqp_put_entry_true(&frames, "redriven");
        cr_assert(amqp_publish_end(&frames, &publish, &places, AMQP_FRAME_MIN));
        bytes_append(out, frames.data + places.header, frames.length - places.header);
        bytes_deinit(&frames);
        bytes_deinit(&key);
}

Test(rabbitmq_frames, reads_confirms)
{
        struct bytes bytes = {0};
        struct amqp_news news;
        size_t at = 0;

        put_ack(&bytes, AMQP_ACK, 0x1122334455667788, 1);
        put_ack(&bytes, AMQP_NACK, 7, 0);
        news = take(&bytes, &at);
        cr_expect(news.kind == AMQP_METHOD && news.method == AMQP_ACK);
        cr_expect(news.tag == 0x1122334455667788 && news.is_multiple);
        news = take(&bytes, &at);
        cr_expect(news.method == AMQP_NACK && news.tag == 7 && !news.is_multiple);
        cr_expect(at == bytes.length);
        bytes_deinit(&bytes);
}

Test(rabbitmq_frames, waits_for_the_rest_of_a_frame)
{
        struct bytes bytes = {0};

        put_ack(&bytes, AMQP_ACK, 1, 0);
        for (size_t length = 0; length < bytes.length; length++) {
                struct amqp_news news;
                cr_expect(amqp_take(&input, bytes.data, length, &news) == 0);
                cr_expect(news.kind == AMQP_MORE, "after %zu bytes", length);
        }
        bytes_deinit(&bytes);
}

Test(rabbitmq_frames, names_the_message_that_came_back)
{
        struct bytes bytes = {0};
        struct amqp_news news;
        size_t at = 0;

        put_return(&bytes);
        put_content(&bytes, "some-id", 300);
        put_ack(&bytes, AMQP_ACK, 1, 0);
        cr_expect(take(&bytes, &at).kind == AMQP_NOTHING);
        news = take(&bytes, &at);
        cr_expect(news.kind == AMQP_RETURNED && news.code == 312);
        cr_expect(amqp_span_is(news.message_id, "some-id"));
        cr_expect(amqp_span_is(news.text, "NO_ROUTE"));
        cr_expect(take(&bytes, &at).kind == AMQP_NOTHING); /* its body */
        cr_expect(take(&bytes, &at).method == AMQP_ACK);
        bytes_deinit(&bytes);
}

static void expect_broken(struct bytes *bytes, const char *words)
{
        struct amqp_news news = {0};
        size_t at = 0;

        input = (struct amqp_input){.frame_max = AMQP_FRAME_MAX};
        for (news = take(bytes, &at); news.kind != AMQP_BROKEN && news.kind != AMQP_MORE;)
                news = take(bytes, &at);
        cr_expect(news.kind == AMQP_BROKEN, "%s", words);
        cr_expect(news.kind != AMQP_BROKEN || strstr(news.text.text, words) != NULL, "%s: %s",
            words, news.text.text);
        bytes_deinit(bytes);
}

Test(rabbitmq_frames, breaks_off_what_is_no_amqp)
{
        static const char large[] = {1, 0, 0, 0, 2, 0, 0};
        static const char zero[AMQP_FRAME_MIN] = {0};
        struct bytes bytes = {0};

        bytes_append(&bytes, "AMQP\0\0\11\0", 8);
        expect_broken(&bytes, "another version");
        bytes_append(&bytes, large, sizeof large);
        expect_broken(&bytes, "larger than agreed on");
        put_frame(&bytes, 1, 2, zero, 20);
        expect_broken(&bytes, "channel that is not open");
        put_frame(&bytes, 9, 0, zero, 20);
        expect_broken(&bytes, "where it may not");
        put_frame(&bytes, 1, 0, zero, 3);
        expect_broken(&bytes, "within a field");
        put_frame(&bytes, 2, 1, zero, 20); /* content that belongs to nothing */
        expect_broken(&bytes, "where it may not");
        put_frame(&bytes, 3, 1, zero, 20);
        expect_broken(&bytes, "where it may not");
        put_ack(&bytes, AMQP_ACK, 1, 0);
        bytes.data[bytes.length - 1] = 0;
        expect_broken(&bytes, "does not end");
        put_return(&bytes);
        put_ack(&bytes, AMQP_ACK, 1, 0); /* instead of the message */
        expect_broken(&bytes, "where it may not");
        put_return(&bytes);
        put_content(&bytes, "x", 0);
        put_frame(&bytes, 3, 1, zero, 20); /* more of a body than was announced */
        expect_broken(&bytes, "where it may not");
}

/* Nested 26,000 deep, which recursion would not survive everywhere. */
Test(rabbitmq_frames, skips_tables_without_looking_into_them)
{
        enum { DEPTH = 26000 };
        struct bytes bytes = {0};
        struct amqp_news news;
        size_t frame = amqp_begin_method(&bytes, 0, AMQP_START);

        amqp_put_16(&bytes, 9);
        amqp_put_32(&bytes, 2 + DEPTH * 5);
        amqp_put_8(&bytes, 1);
        amqp_put_8(&bytes, 'a');
        for (uint32_t i = 0; i < DEPTH; i++) {
                amqp_put_8(&bytes, 'A');
                amqp_put_32(&bytes, (DEPTH - i - 1) * 5);
        }
        amqp_put_long(&bytes, "PLAIN", 5);
        amqp_put_long(&bytes, "en_US", 5);
        amqp_end_frame(&bytes, frame);
        news = take_one(&bytes);
        cr_expect(news.kind == AMQP_METHOD && amqp_span_is(news.text, "PLAIN"));
        bytes_deinit(&bytes);
}

Test(rabbitmq_frames, refuses_headers_that_do_not_fit_into_a_frame)
{
        char value[AMQP_FRAME_MIN] = {0};
        struct bytes out = {0}, key = {0};
        struct amqp_publish publish = {
            .exchange = "e", .delivery_mode = 2, .message_id = "id", .body = "", .timestamp_s = -1};
        struct amqp_message_places places;

        bytes_append_text(&key, "k");
        publish.routing_key = &key;
        bytes_append_text(&out, "before");
        places = amqp_publish_begin(&out, &publish);
        amqp_put_entry_text(&out, "h", value, sizeof value);
        cr_expect_not(amqp_publish_end(&out, &publish, &places, AMQP_FRAME_MIN));
        cr_expect_str_eq(out.data, "before");
        places = amqp_publish_begin(&out, &publish);
        amqp_put_entry_text(&out, "h", value, sizeof value);
        cr_expect(amqp_publish_end(&out, &publish, &places, AMQP_FRAME_MAX));
        bytes_deinit(&out);
        bytes_deinit(&key);
}

Test(rabbitmq_frames, cuts_a_body_into_frames)
{
        static char body[3 * AMQP_FRAME_MIN];
        struct bytes out = {0}, key = {0};
        struct amqp_publish publish = {.exchange = "",
            .routing_key = &key,
            .message_id = "",
            .body = body,
            .body_bytes = sizeof body};
        struct amqp_message_places places;
        size_t n_frames = 0;

        bytes_append_text(&key, "");
        places = amqp_publish_begin(&out, &publish);
        cr_assert(amqp_publish_end(&out, &publish, &places, AMQP_FRAME_MIN));
        for (size_t at = 0; at < out.length; n_frames++) {
                const unsigned char *head = (const unsigned char *)out.data + at;
                size_t size =
                    (size_t)head[3] << 24 | (size_t)head[4] << 16 | head[5] << 8 | head[6];
                cr_assert(size + AMQP_FRAME_EXTRA <= AMQP_FRAME_MIN);
                at += size + AMQP_FRAME_EXTRA;
                cr_assert((unsigned char)out.data[at - 1] == 0xce);
        }
        cr_expect(n_frames == 2 + 4, "%zu", n_frames);
        bytes_deinit(&out);
        bytes_deinit(&key);
}

static struct rabbitmq_config config = {.heartbeat_ms = 20000};

static void expect_tuning(
    uint32_t frame_max, uint16_t heartbeat_s, uint32_t expected_max, uint16_t expected_s)
{
        const struct amqp_news tune = {.frame_max = frame_max, .heartbeat_s = heartbeat_s};
        struct rabbitmq_tuning tuning;

        cr_assert(rabbitmq_tune(&config, &tune, &tuning));
        cr_expect(tuning.frame_max == expected_max, "%u", tuning.frame_max);
        cr_expect(tuning.heartbeat_s == expected_s, "%u", tuning.heartbeat_s);
}

Test(rabbitmq_greeting, takes_the_smaller_of_what_both_sides_want)
{
        const struct amqp_news small = {.frame_max = AMQP_FRAME_MIN - 1};
        struct rabbitmq_tuning tuning;

        expect_tuning(0, 0, AMQP_FRAME_MAX, 20);
        expect_tuning(UINT32_MAX, 60, AMQP_FRAME_MAX, 20);
        expect_tuning(AMQP_FRAME_MIN, 10, AMQP_FRAME_MIN, 10);
        config.heartbeat_ms = 0;
        expect_tuning(8192, 60, 8192, 0);
        cr_expect_not(rabbitmq_tune(&config, &small, &tuning));
}

Test(rabbitmq_greeting, logs_in_only_by_what_the_server_offers)
{
        static const char offered[] = "EXTERNAL AMQPLAIN PLAINER";
        const struct amqp_news start = {.text = {offered, sizeof offered - 1}};
        struct bytes out = {0};

        cr_expect_not(rabbitmq_put_login(&out, &config, "s", &start));
        config.auth = RABBITMQ_EXTERNAL;
        cr_expect(rabbitmq_put_login(&out, &config, "s", &start));
        bytes_deinit(&out);
}

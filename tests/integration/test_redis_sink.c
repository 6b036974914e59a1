/* The redis sink: what arrives in a real Redis, and what each single answer leads to. */
#include "redis_rig.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/sink_contract.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(redis_sink, writes_every_field_byte_by_byte)
{
        const struct event_header headers[] = {
            {"traceparent", "00-x"}, {"gr\xc3\xbc\xc3\x9f", "a\r\nb"}};
        const char payload[] = "\0bin\r\n$3\r\n\xff\0";
        struct rig rig;
        redisReply *reply;

        rig_start(&rig, 2);
        rig.events[0].key = "customer 7";
        rig.events[0].type = "created";
        rig.events[0].payload = payload;
        rig.events[0].payload_bytes = sizeof payload - 1;
        rig.events[0].headers = headers;
        rig.events[0].n_headers = 2;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_assert(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        reply = redis_server_run(&rig.server, "XRANGE events - +");
        cr_assert(reply->elements == 2);
        {
                redisReply **fields = reply->element[0]->element[1]->element;
                cr_assert(reply->element[0]->element[1]->elements == 16);
                cr_expect(reply_is(fields[0], "id", 2));
                cr_expect(reply_is(fields[1], "00000000-0000-4000-8000-000000000000", 36));
                cr_expect(reply_is(fields[2], "topic", 5));
                cr_expect(reply_is(fields[3], "orders", 6));
                cr_expect(reply_is(fields[4], "key", 3));
                cr_expect(reply_is(fields[5], "customer 7", 10));
                cr_expect(reply_is(fields[6], "type", 4));
                cr_expect(reply_is(fields[7], "created", 7));
                cr_expect(reply_is(fields[8], "time", 4));
                cr_expect(reply_is(fields[9], "2024-01-31T23:59:59.000001Z", 27));
                cr_expect(reply_is(fields[10], "payload", 7));
                cr_expect(reply_is(fields[11], payload, sizeof payload - 1));
                cr_expect(reply_is(fields[12], "header:traceparent", 18));
                cr_expect(reply_is(fields[13], "00-x", 4));
                cr_expect(reply_is(fields[14], "header:gr\xc3\xbc\xc3\x9f", 13));
                cr_expect(reply_is(fields[15], "a\r\nb", 4));
        }
        cr_expect(reply->element[1]->element[1]->elements == 8);
        freeReplyObject(reply);
        rig_stop(&rig);
}

Test(redis_sink, delivers_a_burst_once_and_in_order)
{
        struct rig rig;

        rig_start(&rig, 10000);
        rig_open(&rig);
        rig_deliver_all(&rig, 10000);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 10000);
        expect_stream_in_order(&rig.server, &rig);
        rig_stop(&rig);
}

Test(redis_sink, delivers_events_that_start_while_others_finish)
{
        struct rig rig;

        rig_start(&rig, 10000);
        rig_open(&rig);
        rig.restart_below = 10000;
        rig_deliver(&rig, 300);
        sink_driver_finish(&rig.driver);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 10000);
        expect_stream_in_order(&rig.server, &rig);
        rig_stop(&rig);
}

Test(redis_sink, delivers_payloads_larger_than_any_socket_buffer)
{
        enum { SIZE = 24 * 1024 * 1024 };
        struct rig rig;
        char *payload = xcalloc(1, SIZE);

        memset(payload, 'x', SIZE);
        rig_start(&rig, 4);
        for (unsigned i = 0; i < 4; i += 2) {
                rig.events[i].payload = payload;
                rig.events[i].payload_bytes = SIZE;
        }
        rig_open(&rig);
        rig_deliver_all(&rig, 4);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 4);
        expect_stream_in_order(&rig.server, &rig);
        free(payload);
        rig_stop(&rig);
}

Test(redis_sink, names_the_stream_by_topic_and_trims_it)
{
        struct rig rig;
        char stream[] = "ev.{{topic}}";
        long long length;

        rig_start(&rig, 5000);
        rig.config.stream = stream;
        rig.config.maxlen = 100;
        rig.events[4999].topic = "refunds";
        rig_open(&rig);
        rig_deliver_all(&rig, 5000);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 5000);
        length = redis_server_count(&rig.server, "XLEN ev.orders");
        cr_expect(length >= 100 && length < 1000, "%lld entries", length);
        cr_expect(redis_server_count(&rig.server, "XLEN ev.refunds") == 1);
        rig_stop(&rig);
}

Test(redis_sink, connects_through_a_unix_socket)
{
        struct rig rig;

        rig_start(&rig, 3);
        rig.config.host = NULL;
        rig.config.socket_path = rig.server.socket_path;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_stop(&rig.server);
        do
                uv_run(&rig.driver.loop, UV_RUN_NOWAIT);
        while (uv_loop_alive(&rig.driver.loop));
        rig_deliver_all(&rig, 1);
        redis_server_restart(&rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, rig.server.socket_path);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(redis_sink, refuses_a_socket_path_that_the_system_would_cut)
{
        char path[200];
        const struct redis_config config = {
            .socket_path = path, .stream = (char[]){"events"}, .timeout_ms = 20000};
        struct error error = {.kind = ERROR_NONE};
        uv_loop_t loop;
        const struct sink_settings settings = {.name = "test", .options = &config, .loop = &loop};

        memset(path, 'a', sizeof path);
        path[sizeof path - 1] = '\0';
        uv_loop_init(&loop);

        cr_expect(redis_sink_ops.open(&settings, &error) == NULL);
        cr_expect(error.kind == ERROR_CONFIG);
        uv_run(&loop, UV_RUN_DEFAULT);
        cr_expect(uv_loop_close(&loop) == 0, "the sink left handles on the loop");
}

static bool have_two_finished(void *context)
{
        const struct sink_driver *driver = context;

        return driver->n_finished >= 2;
}

Test(redis_sink, blames_no_event_when_memory_runs_out)
{
        struct rig rig;
        unsigned n_before;

        rig_start(&rig, 2001);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 1000);
        sink_driver_run_until(&rig.driver, have_two_finished, &rig.driver, "two answers");
        redis_server_do(&rig.server, "CONFIG SET maxmemory 1");
        rig_deliver_all(&rig, 500);

        n_before = rig_count(&rig, OUTCOME_DELIVERED);
        cr_expect(redis_server_count(&rig.server, "XLEN events") == n_before);
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) > 0);
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) + rig_count(&rig, OUTCOME_CANCELLED) ==
                  rig.driver.n_started - n_before);

        redis_server_do(&rig.server, "CONFIG SET maxmemory 0");
        rig_deliver_all(&rig, 500);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == n_before + 500);
        cr_expect(redis_server_count(&rig.server, "XLEN events") == n_before + 500);
        rig_stop(&rig);
}

Test(redis_sink, is_down_when_its_one_stream_is_no_stream)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        redis_server_do(&server, "SET events x");
        rig_init(&rig, &server, 2);
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "WRONGTYPE");
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "WRONGTYPE");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_sink, rejects_only_the_event_whose_stream_is_no_stream)
{
        struct redis_server server;
        struct rig rig;
        char stream[] = "{{topic}}";

        redis_server_start(&server, NULL);
        redis_server_do(&server, "SET taken x");
        rig_init(&rig, &server, 3);
        rig.config.stream = stream;
        rig.events[1].topic = "taken";
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_REJECTED, "WRONGTYPE");
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_sink, probes_without_writing)
{
        struct rig rig;
        struct outcome outcome;

        rig_start(&rig, 1);
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%s", outcome.reason);
        cr_expect(redis_server_count(&rig.server, "EXISTS events") == 0);

        redis_server_stop(&rig.server);
        cr_expect(sink_driver_probe(&rig.driver).kind != OUTCOME_DELIVERED);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect(strstr(outcome.reason, "Connection refused") != NULL, "%s", outcome.reason);
        rig_stop(&rig);
}

/* PING is answered by a Redis that takes no event. */
Test(redis_sink, probes_whether_events_would_be_taken)
{
        struct rig rig;
        struct outcome outcome;

        rig_start(&rig, 1);
        rig_open(&rig);
        redis_server_do(&rig.server, "CONFIG SET maxmemory 1");
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN, "%s", outcome.reason);
        cr_expect(strncmp(outcome.reason, "OOM ", 4) == 0 &&
                      strstr(outcome.reason, "raise its maxmemory") != NULL,
            "%s", outcome.reason);
        redis_server_do(&rig.server, "CONFIG SET maxmemory 0");
        redis_server_do(&rig.server, "CONFIG SET min-replicas-to-write 1");
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(strncmp(outcome.reason, "NOREPLICAS ", 11) == 0, "%s", outcome.reason);
        redis_server_do(&rig.server, "CONFIG SET min-replicas-to-write 0");

        redis_server_do(&rig.server, "CONFIG SET maxmemory 1gb");
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED);
        cr_expect_str_empty(outcome.reason);
        redis_server_do(&rig.server, "CONFIG SET maxmemory-policy allkeys-lru");
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED);
        cr_expect(strstr(outcome.reason, "allkeys-lru: when its memory is full") != NULL, "%s",
            outcome.reason);
        cr_expect(redis_server_count(&rig.server, "EXISTS events") == 0);
        rig_stop(&rig);
}

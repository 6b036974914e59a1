/* The rabbitmq sink against a real RabbitMQ: what arrives, and what its answers mean. */
#include "rabbitmq_rig.h"

#include "base/alloc.h"
#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const json_t *message, const char *name)
{
        const char *text = json_string_value(json_object_get(message, name));

        return text != NULL ? text : "(none)";
}

Test(rabbitmq_sink, delivers_a_burst_in_order)
{
        struct rig rig;

        rig_start(&rig, 2000);
        rig_add_queue(&rig, "q", "#");
        rig_open(&rig);
        rig_deliver_all(&rig, 1500);
        rig_deliver_all(&rig, 500);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2000);
        expect_events(&rig, "q", 0, 2000);
        rig_stop(&rig);
}

Test(rabbitmq_sink, writes_properties_and_headers_that_another_client_reads)
{
        static const struct event_header headers[] = {{"tenant", "münchen ✓"}, {"größe", "7"},
            {"empty", ""}, {"CC", "elsewhere"}, {"bcc", "elsewhere"}, {"x-death", "never"},
            {"X-Delay", "1"},
            {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}};
        static char app_id[] = "shop";
        struct rig rig;
        json_t *messages, *found;
        const json_t *message;

        rig_start(&rig, 1);
        rig_add_queue(&rig, "q", "#");
        rabbitmq_make_queue(rig.server, rig.vhost, "elsewhere", "");
        rig.config.app_id = app_id;
        rig.config.priority = 3;
        rig.config.expiration_ms = 600000;
        rig.events[0].topic = "bestellungen.größe";
        rig.events[0].type = "größe.geändert";
        rig.events[0].key = "kunde-ß";
        rig.events[0].payload = "{\"a\": \"ü\"}";
        rig.events[0].payload_bytes = strlen("{\"a\": \"ü\"}");
        rig.events[0].headers = headers;
        rig.events[0].n_headers = sizeof headers / sizeof *headers;
        rig.events[0].is_redriven = true;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        messages = rig_drain(&rig, "q", 1);
        message = json_array_get(messages, 0);
        cr_expect_str_eq(text_of(message, "exchange"), "events");
        cr_expect_str_eq(text_of(message, "routing_key"), "bestellungen.größe");
        cr_expect_str_eq(text_of(message, "body"), "{\"a\": \"ü\"}");
        cr_expect_str_eq(text_of(message, "message_id"), "00000000-0000-4000-8000-000000000000");
        cr_expect_str_eq(text_of(message, "type"), "größe.geändert");
        cr_expect_str_eq(text_of(message, "app_id"), "shop");
        cr_expect_str_eq(text_of(message, "expiration"), "600000");
        cr_expect_str_eq(text_of(message, "content_type"), "application/json");
        cr_expect_str_eq(text_of(message, "user_id"), "(none)");
        cr_expect(json_integer_value(json_object_get(message, "delivery_mode")) == 2);
        cr_expect(json_integer_value(json_object_get(message, "priority")) == 3);
        cr_expect(json_integer_value(json_object_get(message, "timestamp")) == 1706745599);
        found = json_object_get(message, "headers");
        cr_expect_str_eq(text_of(found, "topic"), "bestellungen.größe");
        cr_expect_str_eq(text_of(found, "key"), "kunde-ß");
        cr_expect_str_eq(text_of(found, "tenant"), "münchen ✓");
        cr_expect_str_eq(text_of(found, "größe"), "7");
        cr_expect_str_eq(text_of(found, "empty"), "");
        cr_expect_str_eq(text_of(found, "time"), "2024-01-31T23:59:59.000001Z");
        cr_expect_str_eq(text_of(found, "traceparent"),
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        cr_expect(json_is_true(json_object_get(found, "redriven")));
        cr_expect(json_object_size(found) == 8, "no header routes: %s", json_dumps(found, 0));
        json_decref(messages);
        json_decref(rig_drain(&rig, "elsewhere", 0));
        rig_stop(&rig);
}

Test(rabbitmq_sink, writes_cloudevents_as_headers)
{
        static char source[] = "/shop";
        struct rig rig;
        json_t *messages, *found;

        rig_start(&rig, 1);
        rig_add_queue(&rig, "q", "#");
        rig.config.message.format = MESSAGE_CLOUDEVENTS;
        rig.config.message.source = source;
        rig.events[0].type = "created";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        messages = rig_drain(&rig, "q", 1);
        found = json_object_get(json_array_get(messages, 0), "headers");
        cr_expect_str_eq(text_of(found, "cloudEvents:id"), "00000000-0000-4000-8000-000000000000");
        cr_expect_str_eq(text_of(found, "cloudEvents:type"), "created");
        cr_expect_str_eq(text_of(found, "cloudEvents:specversion"), "1.0");
        json_decref(messages);
        rig_stop(&rig);
}

Test(rabbitmq_sink, sends_a_payload_that_needs_many_frames)
{
        struct rig rig;
        size_t size = 1000 * 1000;
        char *payload = xmalloc(size);
        json_t *messages;

        rig_start(&rig, 1);
        rig_add_queue(&rig, "q", "#");
        memset(payload, 'x', size);
        payload[0] = payload[size - 1] = '"';
        rig.events[0].payload = payload;
        rig.events[0].payload_bytes = size;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        messages = rig_drain(&rig, "q", 1);
        cr_expect(strlen(text_of(json_array_get(messages, 0), "body")) == size);
        json_decref(messages);
        rig_stop(&rig);
        free(payload);
}

Test(rabbitmq_sink, rejects_what_amqp_cannot_carry_and_delivers_the_rest)
{
        static char long_name[] = "n23456789012345678901234567890123456789012345678901234567890"
                                  "1234567890123456789012345678901234567890123456789012345678901"
                                  "23456789";
        char *long_text = xcalloc(1, 200 * 1000 + 1);
        const struct event_header odd_name = {long_name, "x"};
        const struct event_header large = {"large", long_text};
        struct rig rig;

        memset(long_text, 'k', 200 * 1000);
        rig_start(&rig, 6);
        rig_add_queue(&rig, "q", "#");
        rig.config.max_message_bytes = 1000;
        rig.events[1].topic = long_text + 200 * 1000 - 256;
        rig.events[2].type = long_text + 200 * 1000 - 256;
        rig.events[3].headers = &odd_name;
        rig.events[3].n_headers = 1;
        rig.events[4].headers = &large;
        rig.events[4].n_headers = 1;
        rig.events[5].payload = long_text;
        rig.events[5].payload_bytes = 1001;
        rig_open(&rig);
        rig_deliver_all(&rig, 6);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_REJECTED, "routing key has 256 bytes");
        expect_outcome(&rig, 2, OUTCOME_REJECTED, "type has 256 bytes");
        expect_outcome(&rig, 3, OUTCOME_REJECTED, "name of a header has 129 bytes");
        expect_outcome(&rig, 4, OUTCOME_REJECTED, "headers do not fit");
        expect_outcome(&rig, 5, OUTCOME_REJECTED, "1001 bytes");
        cr_expect(rig.driver.attempts[5].outcome.fault == OUTCOME_FAULT_TOO_LARGE);
        expect_events(&rig, "q", 0, 1);
        rig_stop(&rig);
        free(long_text);
}

Test(rabbitmq_sink, takes_nothing_for_delivered_that_no_queue_took)
{
        struct rig rig;

        rig_start(&rig, 300);
        rig_add_queue(&rig, "q", "orders");
        for (unsigned i = 0; i < 200; i += 2)
                rig.events[i].topic = "unbound";
        rig_open(&rig);
        rig_deliver_all(&rig, 200);

        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) == 100);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 100);
        expect_outcome(
            &rig, 0, OUTCOME_SINK_DOWN, "unroutable: no queue is bound to exchange 'events'");
        cr_expect(!rig.driver.attempts[0].outcome.concerns_all);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_AMQP);
        json_decref(rig_drain(&rig, "q", 100));

        rabbitmq_bind(rig.server, rig.vhost, "events", "q", "unbound");
        for (unsigned i = 200; i < 300; i++)
                rig.events[i].topic = "unbound";
        rig_deliver_all(&rig, 100);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 200);
        expect_events(&rig, "q", 200, 100);
        rig_stop(&rig);
}

Test(rabbitmq_sink, pauses_if_the_fixed_routing_key_leads_nowhere)
{
        static char fixed[] = "all";
        struct rig rig;

        rig_start(&rig, 2);
        rig.config.routing_key = fixed;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "unroutable");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_stop(&rig);
}

Test(rabbitmq_sink, does_with_the_unroutable_what_the_key_says)
{
        struct rig rig;

        rig_start(&rig, 1);
        rig.config.on_unroutable = UNROUTABLE_REJECT;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_REJECTED, "unroutable");
        rig_stop(&rig);
}

Test(rabbitmq_sink, publishes_to_a_queue_by_the_default_exchange)
{
        static char none[] = "", queue[] = "q";
        struct rig rig;

        rig_start(&rig, 2);
        rabbitmq_make_queue(rig.server, rig.vhost, "q", "");
        rig.config.exchange = none;
        rig.config.routing_key = queue;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        expect_events(&rig, "q", 0, 2);
        rig_stop(&rig);
}

/* Each nack is judged for itself, in a burst that the queue takes in part. */
Test(rabbitmq_sink, takes_a_nack_for_a_queue_that_is_full)
{
        static char fixed[] = "all";
        struct rig rig;
        unsigned n_down;

        rig_start(&rig, 40);
        rabbitmq_make_queue(rig.server, rig.vhost, "q",
            "{<<\"x-max-length\">>, long, 5}, {<<\"x-overflow\">>, longstr, "
            "<<\"reject-publish\">>}");
        rabbitmq_bind(rig.server, rig.vhost, "events", "q", "all");
        rig.config.routing_key = fixed;
        rig_open(&rig);
        rig_deliver_all(&rig, 20);

        n_down = rig_count(&rig, OUTCOME_SINK_DOWN);
        cr_expect(n_down >= 10, "%u of 20 are refused", n_down);
        cr_expect(n_down + rig_count(&rig, OUTCOME_DELIVERED) == 20);
        expect_outcome(&rig, 19, OUTCOME_SINK_DOWN, "nack");
        cr_expect_not(rig.driver.attempts[19].outcome.needs_operator);
        expect_events(&rig, "q", 0, 20 - n_down);
        rig_stop(&rig);
}

Test(rabbitmq_sink, leaves_it_to_the_lane_if_the_event_names_a_queue_that_refuses_it)
{
        struct rig rig;

        rig_start(&rig, 20);
        rabbitmq_make_queue(rig.server, rig.vhost, "q",
            "{<<\"x-max-length\">>, long, 1}, {<<\"x-overflow\">>, longstr, "
            "<<\"reject-publish\">>}");
        rabbitmq_bind(rig.server, rig.vhost, "events", "q", "orders");
        rig_open(&rig);
        rig_deliver_all(&rig, 20);

        expect_outcome(&rig, 19, OUTCOME_SINK_DOWN, "nack");
        cr_expect(rig.driver.sink->has_targets);
        rig_stop(&rig);
}

struct channel_watch {
        struct rig *rig;
        char *first; /* the process of the channel */
};

static char *find_channel(const struct rig *rig)
{
        return rabbitmq_eval(rig->server,
            "[P || P <- rabbit_channel:list_local(), [{vhost, <<\"%s\">>}] =:= "
            "(catch rabbit_channel:info(P, [vhost]))]",
            rig->vhost);
}

/* Each is refused. */
static bool has_another_channel(void *context)
{
        struct channel_watch *watch = context;
        char *channel;
        bool is_another;

        rig_deliver_all(watch->rig, 1);
        channel = find_channel(watch->rig);
        is_another = strcmp(channel, watch->first) != 0;
        free(channel);
        return is_another;
}

/* A channel that was opened while a quorum queue had no leader refuses everything for ever. */
Test(rabbitmq_sink, takes_another_channel_after_a_nack)
{
        struct rig rig;
        struct channel_watch watch = {.rig = &rig};

        rig_start(&rig, 5000);
        rabbitmq_make_queue(rig.server, rig.vhost, "q",
            "{<<\"x-max-length\">>, long, 1}, {<<\"x-overflow\">>, longstr, "
            "<<\"reject-publish\">>}");
        rabbitmq_bind(rig.server, rig.vhost, "events", "q", "orders");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        watch.first = find_channel(&rig);
        wait_until(has_another_channel, &watch, 20000, "the channel stays");

        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, rig.driver.n_started - 1, OUTCOME_SINK_DOWN, "nack");
        free(watch.first);
        rig_stop(&rig);
}

/* RabbitMQ 3 reads the first, and RabbitMQ 4 the second. */
#define SET_MAX_MESSAGE_SIZE                                                                       \
        "application:set_env(rabbit, max_message_size, %1$d), "                                    \
        "persistent_term:put(max_message_size, %1$d)"

/* RabbitMQ says 406 for one, and closes the channel for all. */
Test(rabbitmq_sink, finds_the_message_for_which_the_channel_is_closed)
{
        struct rig rig;
        size_t size = 3 * 1000 * 1000;
        char *payload = xcalloc(1, size + 1);

        memset(payload, '7', size);
        rig_start(&rig, 100);
        rig_add_queue(&rig, "q", "#");
        rabbitmq_do(rig.server, SET_MAX_MESSAGE_SIZE, 2000000);
        rig.events[40].payload = payload;
        rig.events[40].payload_bytes = size;
        rig_open(&rig);
        rig_deliver_all(&rig, 100);
        rabbitmq_do(rig.server, SET_MAX_MESSAGE_SIZE, 16777216);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 99);
        expect_outcome(&rig, 40, OUTCOME_REJECTED, "RabbitMQ refused it (406)");
        rig_stop(&rig);
        free(payload);
}

Test(rabbitmq_sink, asks_for_an_operator_when_the_exchange_goes_away)
{
        struct rig rig;

        rig_start(&rig, 20);
        rig_add_queue(&rig, "q", "#");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rabbitmq_do(rig.server,
            "ok = rabbit_exchange:delete(rabbit_misc:r(<<\"%s\">>, exchange, <<\"events\">>), "
            "false, <<\"test\">>)",
            rig.vhost);
        rig_deliver_all(&rig, 9);

        for (size_t i = 1; i < 10; i++) {
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "404");
                cr_expect(rig.driver.attempts[i].outcome.needs_operator);
        }
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 10, OUTCOME_SINK_DOWN, "no exchange 'events'");

        rabbitmq_make_exchange(rig.server, rig.vhost, "events", "topic");
        rabbitmq_bind(rig.server, rig.vhost, "events", "q", "#");
        rig_deliver_all(&rig, 9);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 10);
        rig_stop(&rig);
}

Test(rabbitmq_sink, declares_what_it_is_told_to)
{
        static char exchange[] = "made", type[] = "topic", queue[] = "mine", quorum[] = "quorum";
        static char one[] = "orders", other[] = "bills.#";
        char *bindings[] = {one, other};
        struct rabbitmq_queue_config queues[] = {
            {.name = queue, .type = quorum, .bindings = bindings, .n_bindings = 2}};
        struct rabbitmq_declare_config declare = {
            .exchange_type = type, .durable = true, .queues = queues, .n_queues = 1};
        struct rig rig;

        rig_start(&rig, 3);
        rig.config.exchange = exchange;
        rig.config.declare = &declare;
        rig.events[1].topic = "bills.paid";
        rig.events[2].topic = "else";
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "unroutable");
        expect_events(&rig, "mine", 0, 2);
        rig_stop(&rig);
}

Test(rabbitmq_sink, does_not_change_what_is_declared_otherwise)
{
        static char type[] = "fanout";
        struct rabbitmq_declare_config declare = {.exchange_type = type, .durable = true};
        struct rig rig;

        rig_start(&rig, 1);
        rig.config.declare = &declare;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "inequivalent arg 'type'");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_stop(&rig);
}

Test(rabbitmq_sink, says_where_an_event_goes)
{
        struct rig rig;
        char text[64];

        rig_start(&rig, 1);
        rig_open(&rig);
        rabbitmq_sink_ops.describe_target(rig.driver.sink, &rig.events[0], NULL, text, sizeof text);

        cr_expect_str_eq(text, "events/orders");
        rig_stop(&rig);
}

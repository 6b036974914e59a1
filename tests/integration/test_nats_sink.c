/* The nats sink and a real NATS server: what arrives, and how it looks. */
#include "nats_rig.h"

#include "sinks/sink_contract.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_header(const struct nats_stored *stored, const char *name, const char *value)
{
        char *found = nats_stored_header(stored, name);

        cr_expect(found != NULL && strcmp(found, value) == 0, "%s: %s, not %s", name,
            found != NULL ? found : "none", value);
        free(found);
}

static void expect_no_header(const struct nats_stored *stored, const char *name)
{
        char *found = nats_stored_header(stored, name);

        cr_expect(found == NULL, "%s: %s", name, found);
        free(found);
}

static void read_first(struct rig *rig, struct nats_stored *out)
{
        cr_assert(nats_server_read(&rig->server, "S", 1, out), "nothing has arrived");
}

Test(nats_sink, stores_each_event_once)
{
        struct rig rig;

        rig_start(&rig, 500, NULL);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 499);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 500);
        expect_stream_has_delivered(&rig.server, &rig);
        rig_stop(&rig);
}

Test(nats_sink, sends_what_the_event_says_of_itself)
{
        const struct event_header headers[] = {
            {"tenant", "Z\xc3\xbcrich"}, {"empty", ""}, {"tab", "a\tb"}};
        static char subject[] = "events.{{topic}}";
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.subject = subject;
        rig.events[0].key = "caf\xc3\xa9 1%";
        rig.events[0].type = "order.paid";
        rig.events[0].headers = headers;
        rig.events[0].n_headers = 3;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        read_first(&rig, &stored);
        cr_expect(strcmp(stored.subject, "events.orders") == 0);
        cr_expect(strcmp(stored.payload, "0") == 0);
        expect_header(&stored, "Nats-Msg-Id", "00000000-0000-4000-8000-000000000000");
        expect_header(&stored, "x-event-id", "00000000-0000-4000-8000-000000000000");
        expect_header(&stored, "x-event-topic", "orders");
        expect_header(&stored, "x-event-type", "order.paid");
        expect_header(&stored, "x-event-key", "caf%C3%A9%201%25");
        expect_header(&stored, "x-event-time", "2024-01-31T23:59:59.000001Z");
        expect_header(&stored, "Content-Type", "application/json");
        expect_header(&stored, "tenant", "Z\xc3\xbcrich");
        expect_header(&stored, "empty", "");
        expect_header(&stored, "tab", "a\tb");
        expect_no_header(&stored, "x-event-redriven");
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, sends_bytes_as_they_are)
{
        static const char bytes[] = {0, '\r', '\n', (char)0xff, 'M', 'S', 'G', ' ', 0};
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.events[0].payload = bytes;
        rig.events[0].payload_bytes = sizeof bytes;
        rig.events[0].is_json = false;
        rig.events[1].payload_bytes = 0;
        rig.events[1].is_json = false;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        read_first(&rig, &stored);
        cr_expect(stored.payload_bytes == sizeof bytes &&
                  memcmp(stored.payload, bytes, sizeof bytes) == 0);
        nats_stored_deinit(&stored);
        cr_assert(nats_server_read(&rig.server, "S", 2, &stored));
        cr_expect(stored.payload_bytes == 0);
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, sends_cloudevents_in_headers)
{
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.message.format = MESSAGE_CLOUDEVENTS;
        rig.events[0].type = "order.paid";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        read_first(&rig, &stored);
        expect_header(&stored, "ce-id", "00000000-0000-4000-8000-000000000000");
        expect_header(&stored, "ce-specversion", "1.0");
        expect_header(&stored, "ce-type", "order.paid");
        expect_header(&stored, "ce-datacontenttype", "application/json");
        expect_header(&stored, "Nats-Msg-Id", "00000000-0000-4000-8000-000000000000");
        cr_expect(strcmp(stored.payload, "0") == 0);
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, sends_cloudevents_as_one_object)
{
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.message.format = MESSAGE_CLOUDEVENTS_STRUCTURED;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        read_first(&rig, &stored);
        expect_header(&stored, "Content-Type", "application/cloudevents+json; charset=UTF-8");
        cr_expect(strstr(stored.payload, "\"specversion\":\"1.0\"") != NULL, "%s", stored.payload);
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, writes_as_debezium_does_with_an_id_that_the_stream_knows)
{
        static char empty[] = "";
        const struct event_header headers[] = {{"tenant", "acme"}};
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.message.format = MESSAGE_DEBEZIUM;
        rig.config.message.debezium.null_key = empty;
        rig.config.message.debezium.null_value = empty;
        rig.events[0].headers = headers;
        rig.events[0].n_headers = 1;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        read_first(&rig, &stored);
        expect_header(&stored, "Nats-Msg-Id", "00000000-0000-4000-8000-000000000000");
        expect_header(&stored, "id", "00000000-0000-4000-8000-000000000000");
        expect_header(&stored, "tenant", "acme");
        expect_no_header(&stored, "x-event-topic");
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

/* Nats-Rollup deletes all that came before. */
Test(nats_sink, passes_no_header_on_that_the_server_acts_on)
{
        const struct event_header headers[] = {
            {"Nats-Rollup", "all"}, {"nats-msg-id", "x"}, {"NATS-Expected-Stream", "other"}};
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 3, NULL);
        rig.events[2].headers = headers;
        rig.events[2].n_headers = 3;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 3);
        cr_expect(nats_server_count(&rig.server, "S") == 3);
        cr_assert(nats_server_read(&rig.server, "S", 3, &stored));
        expect_header(&stored, "Nats-Msg-Id", "00000000-0000-4000-8000-000000000002");
        cr_expect(strstr(stored.headers, "Rollup") == NULL);
        cr_expect(strstr(stored.headers, "nats-msg-id") == NULL);
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, rejects_headers_that_would_be_others)
{
        static const struct event_header bad[] = {{"a b", "1"}, {"a:b", "1"},
            {"a\r\nNats-Rollup", "all"}, {"a", "1\r\nNats-Rollup: all"}, {"a", "1\n"}};
        enum { N = sizeof bad / sizeof *bad };
        struct rig rig;

        rig_start(&rig, N + 1, NULL);
        for (unsigned i = 0; i < N; i++) {
                rig.events[i].headers = &bad[i];
                rig.events[i].n_headers = 1;
        }
        rig_open(&rig);
        rig_deliver_all(&rig, N + 1);

        for (unsigned i = 0; i < N; i++) {
                expect_outcome(&rig, i, OUTCOME_REJECTED, "header");
                cr_expect(rig.driver.attempts[i].outcome.fault == OUTCOME_FAULT_EVENT);
        }
        expect_outcome(&rig, N, OUTCOME_DELIVERED, "");
        cr_expect(nats_server_count(&rig.server, "S") == 1);
        rig_stop(&rig);
}

Test(nats_sink, lets_no_event_reach_what_is_not_for_events)
{
        static const char *const topics[] = {"$JS.API.STREAM.DELETE.S", "$SYS.REQ.SERVER.PING",
            "_INBOX.a.b", "a.*", ">", "a..b", ".a", "a.", "a b", "a\tb", "a\nPUB events.x 0", ""};
        enum { N = sizeof topics / sizeof *topics };
        static char subject[] = "{{topic}}";
        struct rig rig;

        rig_start(&rig, N + 1, NULL);
        rig.config.subject = subject;
        for (unsigned i = 0; i < N; i++)
                rig.events[i].topic = topics[i];
        rig.events[N].topic = "events.fine";
        rig_open(&rig);
        rig_deliver_all(&rig, N + 1);

        for (unsigned i = 0; i < N; i++)
                expect_outcome(&rig, i, OUTCOME_REJECTED, "the event's subject");
        expect_outcome(&rig, N, OUTCOME_DELIVERED, "");
        cr_expect(nats_server_count(&rig.server, "S") == 1);
        rig_stop(&rig);
}

Test(nats_sink, takes_subjects_from_key_and_type)
{
        static char subject[] = "events.{{type}}.{{key}}";
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 3, NULL);
        rig.config.subject = subject;
        rig.events[0].type = "paid";
        rig.events[0].key = "17";
        rig.events[1].type = "paid";
        rig.events[2].key = "17";
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        read_first(&rig, &stored);
        cr_expect(strcmp(stored.subject, "events.paid.17") == 0);
        expect_outcome(&rig, 1, OUTCOME_REJECTED, "no key");
        expect_outcome(&rig, 2, OUTCOME_REJECTED, "no type");
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, sends_a_repetition_that_the_stream_knows)
{
        struct rig rig;

        rig_start(&rig, 3, NULL);
        memcpy(rig.events[1].event_id, rig.events[0].event_id, sizeof rig.events[0].event_id);
        memcpy(rig.events[2].event_id, rig.events[0].event_id, sizeof rig.events[0].event_id);
        rig.events[2].is_redriven = true;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        cr_expect(nats_server_count(&rig.server, "S") == 1);

        /* One that an operator sends again is wanted again. */
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        cr_expect(nats_server_count(&rig.server, "S") == 2);
        rig_stop(&rig);
}

Test(nats_sink, knows_a_repetition_by_its_subject_for_ever)
{
        static char subject[] = "once.{{topic}}.{{id}}";
        struct rig rig;

        rig_start(&rig, 2, NULL);
        nats_server_make_stream(&rig.server, "ONCE", "once.>",
            ",\"discard\":\"new\",\"discard_new_per_subject\":true,\"max_msgs_per_subject\":1");
        rig.config.subject = subject;
        rig.config.duplicates = NATS_DUPLICATES_BY_SUBJECT;
        memcpy(rig.events[1].event_id, rig.events[0].event_id, sizeof rig.events[0].event_id);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        cr_expect(nats_server_count(&rig.server, "ONCE") == 1);
        rig_stop(&rig);
}

Test(nats_sink, marks_nothing_as_a_repetition_if_it_may_not)
{
        struct nats_stored stored;
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.config.duplicates = NATS_DUPLICATES_OFF;
        memcpy(rig.events[1].event_id, rig.events[0].event_id, sizeof rig.events[0].event_id);
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(nats_server_count(&rig.server, "S") == 2);
        read_first(&rig, &stored);
        expect_no_header(&stored, "Nats-Msg-Id");
        nats_stored_deinit(&stored);
        rig_stop(&rig);
}

Test(nats_sink, cancels_what_is_under_way_and_goes_on)
{
        struct rig rig;

        rig_start(&rig, 30, NULL);
        rig_open(&rig);
        rig_deliver_all(&rig, 10);
        nats_server_pause(&rig.server);
        rig_deliver(&rig, 10);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 10);

        /* The late answers to the ten are nobody's. */
        nats_server_resume(&rig.server);
        rig_deliver_all(&rig, 10);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 20);
        cr_expect(nats_server_count(&rig.server, "S") == 30);
        rig_stop(&rig);
}

static void close_at_the_last(struct sink_driver *driver)
{
        if (driver->n_finished == driver->n_started)
                sink_driver_start_close(driver);
}

Test(nats_sink, may_be_closed_by_its_last_answer)
{
        struct rig rig;

        rig_start(&rig, 5, NULL);
        rig_open(&rig);
        rig.driver.on_finished = close_at_the_last;
        rig_deliver_all(&rig, 5);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 5);
        rig_stop(&rig);
}

Test(nats_sink, starts_new_attempts_from_within_answers)
{
        struct rig rig;

        rig_start(&rig, 1000, NULL);
        rig_open(&rig);
        rig.restart_below = 1000;
        rig_deliver(&rig, 10);
        sink_driver_finish(&rig.driver);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1000);
        expect_stream_has_delivered(&rig.server, &rig);
        rig_stop(&rig);
}

/* The nats sink: what a real server may answer, and what each answer comes to. */
#include "nats_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char per_event[] = "events.{{topic}}";

/* A message of a subject without a stream is not stored, so it is no success. */
Test(nats_outcomes, needs_an_operator_where_no_stream_takes_the_subject)
{
        static char subject[] = "nowhere.orders";
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.subject = subject;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "no stream takes the subject");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_NATS);
        rig_stop(&rig);
}

Test(nats_outcomes, leaves_it_to_the_lane_if_no_stream_takes_the_subject_of_one_event)
{
        static char subject[] = "{{topic}}";
        const struct outcome *outcome;
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.config.subject = subject;
        rig.events[0].topic = "nowhere.orders";
        rig.events[1].topic = "events.orders";
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        outcome = &rig.driver.attempts[0].outcome;
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "no stream takes");
        cr_expect(outcome->max_attempts == 5 && !outcome->concerns_all);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outcomes, waits_for_a_stream_that_was_there_a_moment_ago)
{
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        json_decref(nats_server_ask(&rig.server, "STREAM.DELETE.S", ""));
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "no stream takes the subject");
        cr_expect(!rig.driver.attempts[1].outcome.needs_operator);
        rig_stop(&rig);
}

Test(nats_outcomes, needs_an_operator_without_jetstream)
{
        struct nats_server server;
        struct rig rig;

        nats_server_start(&server, "# jetstream: disabled\n");
        rig_init(&rig, &server, 1);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "no responders");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&rig);
        nats_server_destroy(&server);
}

Test(nats_outcomes, rejects_what_the_server_does_not_take_for_its_size)
{
        static char payload[3000];
        struct rig rig;

        memset(payload, '1', sizeof payload);
        rig_start(&rig, 3, "max_payload: 2000\n");
        rig.events[1].payload = payload;
        rig.events[1].payload_bytes = sizeof payload;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        expect_outcome(&rig, 1, OUTCOME_REJECTED, "the server takes at most 2000 (max_payload)");
        cr_expect(rig.driver.attempts[1].outcome.fault == OUTCOME_FAULT_TOO_LARGE);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&rig);
}

/* The limit counts the headers, too: without them this one would fit. */
Test(nats_outcomes, counts_headers_as_the_server_does)
{
        static char payload[2000];
        struct rig rig;

        memset(payload, '1', sizeof payload);
        rig_start(&rig, 2, "max_payload: 2000\n");
        rig.events[0].payload = payload;
        rig.events[0].payload_bytes = sizeof payload;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_REJECTED, "max_payload");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outcomes, rejects_what_the_stream_does_not_take_for_its_size)
{
        static char payload[3000];
        static char subject[] = "small.orders";
        struct rig rig;

        memset(payload, '1', sizeof payload);
        rig_start(&rig, 3, NULL);
        nats_server_make_stream(&rig.server, "SMALL", "small.>", ",\"max_msg_size\":1000");
        rig.config.subject = subject;
        rig.events[1].payload = payload;
        rig.events[1].payload_bytes = sizeof payload;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        expect_outcome(&rig, 1, OUTCOME_REJECTED, "10054");
        cr_expect(rig.driver.attempts[1].outcome.fault == OUTCOME_FAULT_TOO_LARGE);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&rig);
}

Test(nats_outcomes, is_down_while_the_stream_is_full)
{
        static char subject[] = "full.orders";
        struct rig rig;

        rig_start(&rig, 4, NULL);
        nats_server_make_stream(
            &rig.server, "FULL", "full.>", ",\"max_msgs\":2,\"discard\":\"new\"");
        rig.config.subject = subject;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "maximum messages exceeded");
        cr_expect(!rig.driver.attempts[2].outcome.needs_operator);

        json_decref(nats_server_ask(&rig.server, "STREAM.PURGE.FULL", ""));
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outcomes, is_down_while_one_subject_of_the_stream_is_full)
{
        static char subject[] = "full.orders";
        struct rig rig;

        rig_start(&rig, 3, NULL);
        nats_server_make_stream(&rig.server, "FULL", "full.>",
            ",\"discard\":\"new\",\"discard_new_per_subject\":true,\"max_msgs_per_subject\":1");
        rig.config.subject = subject;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 1);

        /* Not a repetition: it was not asked for one by its subject. */
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "maximum messages per subject exceeded");
        rig_stop(&rig);
}

Test(nats_outcomes, is_down_beyond_the_limits_of_the_account)
{
        static char payload[400 * 1024];
        struct nats_server server;
        struct rig rig;

        memset(payload, '1', sizeof payload);
        nats_server_start_as(&server,
            "accounts { A { jetstream { max_file: 1MB, max_mem: 1MB }, "
            "users: [ { user: a, password: a } ] } }\n",
            "\"user\":\"a\",\"pass\":\"a\"");
        nats_server_make_stream(&server, "S", "events.>", NULL);
        rig_init(&rig, &server, 5);
        rig.config.user = rig.config.password = rig.payloads[0];
        strcpy(rig.payloads[0], "a");
        for (unsigned i = 0; i < 5; i++) {
                rig.events[i].payload = payload;
                rig.events[i].payload_bytes = sizeof payload;
        }
        rig_open(&rig);
        rig_deliver_all(&rig, 5);

        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) > 0);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) + rig_count(&rig, OUTCOME_SINK_DOWN) == 5);
        expect_outcome(&rig, 4, OUTCOME_SINK_DOWN, "exceeded");
        rig_destroy(&rig);
        nats_server_destroy(&server);
}

Test(nats_outcomes, needs_an_operator_where_another_stream_took_the_subject)
{
        static char stream[] = "OTHER";
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.stream = stream;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "expected stream does not match");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        cr_expect(nats_server_count(&rig.server, "S") == 0);
        rig_stop(&rig);
}

Test(nats_outcomes, needs_an_operator_for_a_sealed_stream)
{
        struct rig rig;

        rig_start(&rig, 1, NULL);
        json_decref(nats_server_ask(&rig.server, "STREAM.UPDATE.S",
            "{\"name\":\"S\",\"subjects\":[\"events.>\"],\"retention\":\"limits\",\"storage\":"
            "\"file\",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,"
            "\"num_replicas\":1,\"discard\":\"new\",\"sealed\":true,\"deny_delete\":true,"
            "\"deny_purge\":true}"));
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "sealed");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_stop(&rig);
}

#define PUBLISHER                                                                                  \
        "authorization { users: [ { user: rig, password: rig }, { user: a, password: a, "          \
        "permissions: { publish: %s, subscribe: %s } } ] }\n"

static void start_restricted(
    struct rig *rig, unsigned n, const char *publish, const char *subscribe)
{
        static char a[] = "a";
        struct nats_server server;
        char config[400];

        snprintf(config, sizeof config, PUBLISHER, publish, subscribe);
        nats_server_start_as(&server, config, "\"user\":\"rig\",\"pass\":\"rig\"");
        nats_server_make_stream(&server, "S", "events.>", NULL);
        rig_init(rig, &server, n);
        rig->server = server;
        rig->config.user = a;
        rig->config.password = a;
}

Test(nats_outcomes, needs_no_more_rights_than_to_publish_and_to_read_answers)
{
        struct rig rig;

        start_restricted(&rig, 3, "[\"events.orders\"]", "[\"_INBOX.>\"]");
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 3);
        rig_stop(&rig);
}

/* No answer comes, only an error on the connection. */
Test(nats_outcomes, needs_an_operator_where_it_may_not_publish)
{
        struct rig rig;

        start_restricted(&rig, 5, "[\"other\"]", "[\"_INBOX.>\"]");
        rig_open(&rig);
        rig_deliver_all(&rig, 5);

        for (unsigned i = 0; i < 5; i++) {
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "Permissions Violation for Publish");
                cr_expect(rig.driver.attempts[i].outcome.needs_operator);
                cr_expect(rig.driver.attempts[i].outcome.fault == OUTCOME_FAULT_AUTH);
        }
        rig_stop(&rig);
}

Test(nats_outcomes, refuses_only_those_whose_subject_is_forbidden)
{
        struct rig rig;

        start_restricted(&rig, 6, "[\"events.orders\"]", "[\"_INBOX.>\"]");
        rig.config.subject = per_event;
        rig.events[1].topic = "secret";
        rig.events[3].topic = "a\"b\\c";
        rig.events[4].topic = "secret";
        rig_open(&rig);
        rig_deliver_all(&rig, 6);

        for (unsigned i = 0; i < 6; i++) {
                bool is_forbidden = rig.events[i].topic[0] != 'o';
                expect_outcome(&rig, i, is_forbidden ? OUTCOME_SINK_DOWN : OUTCOME_DELIVERED,
                    is_forbidden ? "Permissions Violation for Publish" : "");
                cr_expect(!is_forbidden || rig.driver.attempts[i].outcome.needs_operator);
        }
        rig_stop(&rig);
}

/* The server may end the connection for it, or not: the next event tells, or the one behind it. */
Test(nats_outcomes, learns_of_rights_that_were_taken_away)
{
        const struct outcome *outcome;
        char config[400];
        struct rig rig;

        start_restricted(&rig, 4, "[\"events.orders\"]", "[\"_INBOX.>\"]");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        snprintf(config, sizeof config, PUBLISHER, "[\"other\"]", "[\"_INBOX.>\"]");
        nats_server_reload(&rig.server, config);
        do {
                rig_deliver_all(&rig, 1);
                outcome = &rig.driver.attempts[rig.driver.n_started - 1].outcome;
                cr_expect(outcome->kind == OUTCOME_SINK_DOWN, "%s", outcome->reason);
        } while (!outcome->needs_operator && rig.driver.n_started < 4);

        expect_outcome_is(outcome, OUTCOME_SINK_DOWN, "Permissions Violation for Publish");
        cr_expect(outcome->needs_operator);
        rig_stop(&rig);
}

/* Or each would be stored, and come again for want of an answer. */
Test(nats_outcomes, sends_nothing_where_it_may_not_read_answers)
{
        struct rig rig;

        start_restricted(&rig, 2, "[\"events.>\"]", "[\"mine.>\"]");
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        for (unsigned i = 0; i < 2; i++) {
                expect_outcome(
                    &rig, i, OUTCOME_SINK_DOWN, "Permissions Violation for Subscription");
                cr_expect(rig.driver.attempts[i].outcome.needs_operator);
        }
        cr_expect(nats_server_count(&rig.server, "S") == 0);
        rig_stop(&rig);
}

Test(nats_outcomes, reads_answers_where_it_is_told_to)
{
        static char inbox[] = "mine.answers";
        struct rig rig;

        start_restricted(&rig, 2, "[\"events.>\"]", "[\"mine.>\"]");
        rig.config.inbox = inbox;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&rig);
}

Test(nats_outcomes, makes_the_stream_that_is_missing)
{
        char *subjects[] = {(char[]){"made.>"}};
        static char subject[] = "made.orders";
        static char name[] = "MADE";
        struct nats_stream_config stream = {.subjects = subjects,
            .n_subjects = 1,
            .replicas = 1,
            .max_age_ms = 86400000,
            .duplicates_ms = 3600000};
        json_t *answer;
        const json_t *config;
        struct rig rig;

        rig_start(&rig, 4, NULL);
        rig.config.subject = subject;
        rig.config.stream = name;
        rig.config.create_stream = &stream;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);

        answer = nats_server_ask(&rig.server, "STREAM.INFO.MADE", "");
        config = json_object_get(answer, "config");
        cr_expect(json_integer_value(json_object_get(config, "duplicate_window")) == 3600000000000);
        cr_expect(json_integer_value(json_object_get(config, "max_age")) == 86400000000000);
        cr_expect(strcmp(json_string_value(json_object_get(config, "storage")), "file") == 0);
        json_decref(answer);

        /* And again, when somebody has deleted it. */
        json_decref(nats_server_ask(&rig.server, "STREAM.DELETE.MADE", ""));
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "no stream");
        cr_expect(!rig.driver.attempts[2].outcome.needs_operator);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outcomes, says_why_it_cannot_make_the_stream)
{
        char *subjects[] = {(char[]){"events.orders"}};
        static char name[] = "CLASH";
        struct nats_stream_config stream = {
            .subjects = subjects, .n_subjects = 1, .replicas = 1, .duplicates_ms = 3600000};
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.stream = name;
        rig.config.create_stream = &stream;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot create stream CLASH");
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "overlap");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_stop(&rig);
}

/* Probes. */

Test(nats_outcomes, warns_of_a_window_that_is_short)
{
        struct outcome outcome;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.subject = per_event;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "recognizes a repeated event for 2m only");
        cr_expect(outcome.needs_operator);

        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outcomes, tells_a_window_of_an_hour_without_a_warning)
{
        static char subject[] = "long.orders";
        struct outcome outcome;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        nats_server_make_stream(
            &rig.server, "LONG", "long.>", ",\"duplicate_window\":3600000000000");
        rig.config.subject = subject;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);

        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "recognizes a repeated event for 1h (");
        cr_expect(!outcome.needs_operator);
        rig_stop(&rig);
}

Test(nats_outcomes, finds_by_a_probe_that_no_stream_takes_the_subject)
{
        static char subject[] = "nowhere.{{topic}}";
        struct outcome outcome;
        struct rig rig;

        rig_start(&rig, 0, NULL);
        rig.config.subject = subject;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);

        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, "no stream takes nowhere.>");
        cr_expect(nats_server_count(&rig.server, "S") == 0);
        rig_stop(&rig);
}

Test(nats_outcomes, finds_by_a_probe_that_the_stream_is_another_one)
{
        static char stream[] = "OTHER";
        struct outcome outcome;
        struct rig rig;

        rig_start(&rig, 0, NULL);
        nats_server_make_stream(&rig.server, "OTHER", "other.>", NULL);
        rig.config.stream = stream;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, "OTHER exists, but another one");

        json_decref(nats_server_ask(&rig.server, "STREAM.DELETE.OTHER", ""));
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, "there is no stream OTHER");
        rig_stop(&rig);
}

Test(nats_outcomes, finds_by_a_probe_that_a_stream_does_not_know_repetitions_by_subject)
{
        static char subject[] = "events.{{id}}";
        struct outcome outcome;
        struct rig rig;

        rig_start(&rig, 0, NULL);
        rig.config.subject = subject;
        rig.config.duplicates = NATS_DUPLICATES_BY_SUBJECT;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);

        expect_outcome_is(&outcome, OUTCOME_SINK_DOWN, "discard_new_per_subject");
        rig_stop(&rig);
}

Test(nats_outcomes, is_content_with_a_probe_that_may_ask_nothing)
{
        static char stream[] = "S";
        struct outcome outcome;
        struct rig rig;

        start_restricted(&rig, 0, "[\"events.orders\"]", "[\"_INBOX.>\"]");
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "");
        rig.config.stream = stream;
        outcome = sink_driver_probe(&rig.driver);
        expect_outcome_is(&outcome, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/*
 * The kafka sink against librdkafka's mock of a cluster: outages, and every answer that a broker
 * can be made to give only so. What needs a real broker is in test_kafka_broker.c.
 */
#include "kafka_rig.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"

#include <stdlib.h>
#include <unistd.h>

static void push_errors(struct rig *rig, rd_kafka_resp_err_t code, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                rd_kafka_mock_push_request_errors(rig->mock, KAFKA_PRODUCE, 1, code);
}

Test(kafka_mock, stores_each_event_under_its_key_with_its_headers)
{
        struct rig rig;
        struct kafka_records records;

        rig_init_mock(&rig, 1, 4, 1000);
        rig.events[0].type = "order.placed";
        rig_open(&rig);
        rig_deliver_all(&rig, 1000);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1000);
        records = kafka_read(rig.broker, "events");
        cr_expect(records.n == 1000);
        for (unsigned i = 0; i < 1000; i++)
                cr_expect(rig_n_stored(&records, &rig.events[i]) == 1);
        for (size_t i = 0; i < records.n; i++)
                if (strcmp(records.items[i].key, "k0") == 0) {
                        cr_expect(strstr(records.items[i].headers, "type=order.placed\n") != NULL);
                        cr_expect(strstr(records.items[i].headers, "topic=orders\n") != NULL);
                        cr_expect(strstr(records.items[i].headers,
                                      "id=00000000-0000-4000-8000-000000000000\n") != NULL,
                            "%s", records.items[i].headers);
                        cr_expect(records.items[i].timestamp_ms == 1706745599000);
                }
        kafka_records_deinit(&records);
        rig_destroy(&rig);
}

/* Without its handle the client waits for a second before it asks for a topic. */
Test(kafka_mock, asks_for_a_new_topic_at_once)
{
        static char template[] = "{{topic}}";
        static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
        struct rig rig;
        uint64_t begun;

        rig_init_mock(&rig, 1, 1, 7);
        for (unsigned i = 0; i < 6; i++) {
                rd_kafka_mock_topic_create(rig.mock, names[i], 1, 1);
                rig.events[i + 1].topic = names[i];
        }
        rig.config.topic = template;
        rig.events[0].topic = "events";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        begun = uv_hrtime();
        for (unsigned i = 0; i < 6; i++)
                rig_deliver_all(&rig, 1);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 7);
        /* Six waits of a second each cannot be mistaken for a slow machine. */
        cr_expect(uv_hrtime() - begun < UINT64_C(4000000000), "%ju ms",
            (uintmax_t)((uv_hrtime() - begun) / 1000000));
        rig_destroy(&rig);
}

Test(kafka_mock, rejects_what_is_no_name_of_a_topic)
{
        static char template[] = "{{topic}}";
        static const char *const names[] = {"__consumer_offsets", ".", "..", "a b", "a/b",
            "\xc3\xa4", "a\nb",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
        enum { N = sizeof names / sizeof *names };
        struct rig rig;

        rig_init_mock(&rig, 1, 1, N);
        rig.config.topic = template;
        for (unsigned i = 0; i < N; i++)
                rig.events[i].topic = names[i];
        rig_open(&rig);
        rig_deliver_all(&rig, N);

        for (unsigned i = 0; i < N; i++)
                expect_outcome(&rig, i, OUTCOME_REJECTED, "the name of the topic");
        rig_destroy(&rig);
}

Test(kafka_mock, rejects_one_topic_too_many)
{
        static char template[] = "t{{type}}";
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 4);
        rd_kafka_mock_topic_create(rig.mock, "ta", 1, 1);
        rd_kafka_mock_topic_create(rig.mock, "tb", 1, 1);
        rig.config.topic = template;
        rig.config.max_topics = 2;
        rig.events[0].type = rig.events[3].type = "a";
        rig.events[1].type = "b";
        rig.events[2].type = "c";
        rig_open(&rig);
        rig_deliver_all(&rig, 4);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 2, OUTCOME_REJECTED, "max_topics");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
}

Test(kafka_mock, rejects_an_event_that_lacks_what_its_topic_needs)
{
        static char template[] = "{{type}}";
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 1);
        rig.config.topic = template;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_REJECTED, "has no type");
        rig_destroy(&rig);
}

Test(kafka_mock, rejects_what_is_too_large_for_the_client_and_sends_its_neighbours)
{
        enum { SIZE = 1100000 };
        char *large = xcalloc(1, SIZE);
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 3);
        rig.events[1].payload = large;
        rig.events[1].payload_bytes = SIZE;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_REJECTED, "too large");
        cr_expect(rig.driver.attempts[1].outcome.fault == OUTCOME_FAULT_TOO_LARGE);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        free(large);
}

/* A broker refuses the batch, and does not say for which of its records. */
Test(kafka_mock, sends_each_alone_after_their_batch_was_refused)
{
        static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_RECORD,
            RD_KAFKA_RESP_ERR_INVALID_MSG};

        enum { N = 50 };
        struct rig rig;
        struct kafka_records records;

        rig_init_mock(&rig, 1, 1, 1 + N * sizeof codes / sizeof *codes);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
                push_errors(&rig, codes[i], 1);
                rig_deliver_all(&rig, N);
                cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == rig.driver.n_started, "%d",
                    (int)codes[i]);
        }
        records = kafka_read(rig.broker, "events");
        for (size_t i = 0; i < rig.driver.n_started; i++)
                cr_expect(rig_n_stored(&records, &rig.events[i]) == 1);
        kafka_records_deinit(&records);
        rig_destroy(&rig);
}

static const struct {
        rd_kafka_resp_err_t code;
        enum outcome_kind kind;
        bool needs_operator;
        uint32_t max_attempts;
} rows[] = {
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OUTCOME_SINK_DOWN, true, 0},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, OUTCOME_SINK_DOWN, true, 0},
    {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, OUTCOME_SINK_DOWN, true, 0},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, OUTCOME_SINK_DOWN, true, 0},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, OUTCOME_SINK_DOWN, true, 0},
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, OUTCOME_SINK_DOWN, false, 0},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, OUTCOME_SINK_DOWN, false, 0},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, OUTCOME_SINK_DOWN, false, 0},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, OUTCOME_RETRY, false, 5},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, OUTCOME_RETRY, false, 5},
    /* These the client tries again by itself. */
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, OUTCOME_DELIVERED, false, 0},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, OUTCOME_DELIVERED, false, 0},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUTCOME_DELIVERED, false, 0},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, OUTCOME_DELIVERED, false, 0},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, OUTCOME_DELIVERED, false, 0},
};

/* The client refuses a topic for a while that was refused once. */
static bool is_delivered_at_last(struct rig *rig)
{
        uint64_t deadline = uv_hrtime() + UINT64_C(20000000000);
        struct outcome outcome;

        do
                outcome = sink_driver_deliver(&rig->driver, &rig->events[2]);
        while (outcome.kind != OUTCOME_DELIVERED && uv_hrtime() < deadline &&
               rig->driver.n_started < SINK_DRIVER_MAX_ATTEMPTS);
        return outcome.kind == OUTCOME_DELIVERED;
}

/* No event counts as delivered without its own positive answer, and the next one is delivered. */
Test(kafka_mock, judges_the_errors_of_brokers)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 3);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
                struct outcome outcome;
                push_errors(&rig, rows[i].code, 1);
                outcome = sink_driver_deliver(&rig.driver, &rig.events[1]);
                cr_expect(outcome.kind == rows[i].kind, "%s: %s, %s",
                    rd_kafka_err2name(rows[i].code), outcome_name(outcome.kind), outcome.reason);
                cr_expect(outcome.needs_operator == rows[i].needs_operator, "%s", outcome.reason);
                cr_expect(outcome.max_attempts == rows[i].max_attempts, "%s", outcome.reason);
                cr_expect(is_delivered_at_last(&rig), "%s", rd_kafka_err2name(rows[i].code));
        }
        rig_destroy(&rig);
}

Test(kafka_mock, leaves_it_to_the_lane_if_a_topic_that_the_event_names_is_refused)
{
        static char template[] = "{{topic}}";
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 2);
        rig.config.topic = template;
        rig.events[0].topic = rig.events[1].topic = "events";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        push_errors(&rig, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 1);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "authorization failed");
        cr_expect(rig.driver.sink->has_targets);
        cr_expect(!rig.driver.attempts[1].outcome.concerns_all);
        rig_destroy(&rig);
}

/* Fatal in the middle of others: they all come to an end, and what comes then is delivered. */
Test(kafka_mock, makes_a_new_producer_after_a_fatal_error)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 4, 400);
        rig_open(&rig);
        rig_deliver_all(&rig, 100);
        push_errors(&rig, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 1);
        rig_deliver_all(&rig, 200);
        rig_deliver_all(&rig, 100);

        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) > 0);
        for (unsigned i = 300; i < 400; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        cr_expect(rig_count(&rig, OUTCOME_RETRY) + rig_count(&rig, OUTCOME_REJECTED) == 0);
        rig_destroy(&rig);
}

Test(kafka_mock, says_at_once_that_no_broker_is_there_at_its_start)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 3);
        rd_kafka_mock_broker_set_down(rig.mock, 1);
        rig_open(&rig);
        rig_deliver_all(&rig, 2);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "");
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "");
        cr_expect(!rig.driver.attempts[0].outcome.needs_operator);

        rd_kafka_mock_broker_set_up(rig.mock, 1);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
}

/* What was sent may be stored: while the client may still find out, it is not given back. */
Test(kafka_mock, outlives_a_short_outage_without_a_word)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 101);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rd_kafka_mock_broker_set_down(rig.mock, 1);
        rig_deliver(&rig, 100);
        rd_kafka_mock_broker_set_up(rig.mock, 1);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 101);
        rig_destroy(&rig);
}

Test(kafka_mock, gives_everything_back_in_a_longer_outage)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 202);
        rig.config.connect_timeout_ms = 1000;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rd_kafka_mock_broker_set_down(rig.mock, 1);
        rig_deliver_all(&rig, 100);
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) == 100);
        rig_deliver_all(&rig, 1); /* while it is known to be down */
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) == 101);

        /* The client connects again within two seconds; as the relay does, ask until it has. */
        rd_kafka_mock_broker_set_up(rig.mock, 1);
        while (sink_driver_probe(&rig.driver).kind != OUTCOME_DELIVERED)
                ;
        rig_deliver_all(&rig, 100);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 101);
        rig_destroy(&rig);
}

Test(kafka_mock, charges_no_answer_in_time_to_the_destination)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 2);
        rig.config.timeout_ms = 1500;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rd_kafka_mock_broker_set_rtt(rig.mock, 1, 20000);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_RETRY, "no answer in time");
        cr_expect(rig.driver.attempts[1].outcome.is_unanswered);
        cr_expect(rig.driver.attempts[1].outcome.fault == OUTCOME_FAULT_TIMEOUT);
        rd_kafka_mock_broker_set_rtt(rig.mock, 1, 0);
        rig_destroy(&rig);
}

/* It finds the leader again without a new start of the relay. */
/* Beyond what the client allows for a single request. */
Test(kafka_mock, takes_the_longest_times_that_the_keys_allow)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 1);
        rig.config.timeout_ms = 3600000;
        rig.config.connect_timeout_ms = 600000;
        rig.config.linger_ms = 1;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
}

/* As after SIGCONT: the timers are due, and so are the reports. */
Test(kafka_mock, reads_what_came_while_the_relay_stood_still)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 2);
        rig.config.timeout_ms = 500;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 1);
        usleep(3000000); /* the standstill is what is tested */
        sink_driver_finish(&rig.driver);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
}

Test(kafka_mock, goes_on_when_a_partition_has_a_leader_again)
{
        struct rig rig;

        /* Its mock broker wants to tell who leads, and reads the id of nobody. */
        if (rd_kafka_version() >= 0x02080000) {
                printf("no mock of a partition without a leader here: librdkafka %s\n",
                    rd_kafka_version_str());
                return;
        }
        rig_init_mock(&rig, 1, 1, 3);
        rig.config.timeout_ms = 2000;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rd_kafka_mock_partition_set_leader(rig.mock, "events", 0, -1);
        push_errors(&rig, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 1);
        rig_deliver_all(&rig, 1);
        cr_expect(rig.driver.attempts[1].outcome.kind == OUTCOME_RETRY, "%s",
            rig.driver.attempts[1].outcome.reason);
        rd_kafka_mock_partition_set_leader(rig.mock, "events", 0, 1);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
}

Test(kafka_mock, cancels_what_is_under_way_and_stays_usable)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 202);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rd_kafka_mock_broker_set_rtt(rig.mock, 1, 3000);
        rig_deliver(&rig, 100);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 100);
        rd_kafka_mock_broker_set_rtt(rig.mock, 1, 0);
        rig_deliver_all(&rig, 101);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 102);
        rig_destroy(&rig);
}

static void close_with_the_last(struct sink_driver *driver)
{
        if (driver->n_finished == 300)
                sink_driver_start_close(driver);
}

/* Inside a report; more may stand in the queue, and in the event. */
Test(kafka_mock, may_be_closed_while_an_attempt_finishes)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 4, 300);
        rig_open(&rig);
        rig.driver.on_finished = close_with_the_last;
        rig_deliver_all(&rig, 300);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 300);
        rig_close(&rig);
        rig_destroy(&rig);
}

Test(kafka_mock, closes_while_no_broker_answers)
{
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 10);
        rd_kafka_mock_broker_set_rtt(rig.mock, 1, 5000);
        rig_open(&rig);
        rig_deliver(&rig, 10);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        rig_destroy(&rig);
}

Test(kafka_mock, probes_the_brokers)
{
        struct rig rig;
        struct outcome outcome;

        rig_init_mock(&rig, 1, 1, 1);
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%s", outcome.reason);
        rig_close(&rig);

        rd_kafka_mock_broker_set_down(rig.mock, 1);
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect(outcome.fault == OUTCOME_FAULT_REFUSED, "%s", outcome.reason);
        rig_destroy(&rig);
}

/*
 * The kafka sink against a real Kafka: what the mock does not know. Rights, logins, TLS, the limits
 * of topics, and what an independent client reads back. Run once for each version.
 */
#include "kafka_rig.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"
#include "support/kafka_reader.h"
#include "support/kafka_server.h"
#include "support/postgres_expect.h"
#include "support/relay_fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static struct kafka_server *begin(struct rig *rig, char *topic, unsigned n_events)
{
        struct kafka_server *server = kafka_server_shared();

        rig_init(rig, server->brokers, n_events);
        rig->config.topic = topic;
        return server;
}

/* What kafka-python reads: a line of JSON for each record. */
static json_t *dump(const struct kafka_server *server, const char *topic)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/dump", folder);
        const char *const argv[] = {
            "/usr/bin/python3", PGCOURIER_DUMP_SCRIPT, server->brokers, topic, NULL};
        json_t *records = json_array();
        char *text;
        char *rest;
        char *line;

        cr_assert(process_run(argv, path, false) == 0, "%s", read_file(path));
        rest = text = read_file(path);
        while ((line = strsep(&rest, "\n")) != NULL)
                if (*line != '\0')
                        json_array_append_new(records, json_loads(line, 0, NULL));
        free(text);
        free(path);
        free(folder);
        return records;
}

static const char *header_of(const json_t *record, const char *name)
{
        size_t i;
        json_t *header;

        json_array_foreach(json_object_get(record, "headers"), i,
            header) if (strcmp(json_string_value(json_array_get(header, 0)), name) ==
                        0) return json_string_value(json_array_get(header, 1));
        return "none";
}

Test(kafka_broker, brings_every_header_to_an_independent_client)
{
        static char topic[] = "open-headers";
        static const struct event_header headers[] = {{"plain", "value"},
            {"h\xc3\xa4", "\xe6\x97\xa5\xe6\x9c\xac"}, {"empty", ""}, {"Topic", "not ours"}};
        struct rig rig;
        struct kafka_server *server = begin(&rig, topic, 2);
        json_t *records;
        const json_t *first;

        kafka_server_topic(server, topic, 1, NULL);
        rig.events[0].type = "order.placed";
        rig.events[0].headers = headers;
        rig.events[0].n_headers = sizeof headers / sizeof *headers;
        rig.events[0].key = "\xc3\xa4";
        rig.events[0].is_redriven = true;
        rig.events[1].key = NULL;
        rig.events[1].payload = "";
        rig.events[1].payload_bytes = 0;
        rig.events[1].is_json = false;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 1);
        cr_assert(
            rig_count(&rig, OUTCOME_DELIVERED) == 2, "%s", rig.driver.attempts[0].outcome.reason);

        records = dump(server, topic);
        cr_assert(json_array_size(records) == 2);
        first = json_array_get(records, 0);
        cr_expect_str_eq(json_string_value(json_object_get(first, "key")), "\xc3\xa4");
        cr_expect_str_eq(json_string_value(json_object_get(first, "value")), "0");
        cr_expect(json_integer_value(json_object_get(first, "timestamp")) == 1706745599000);
        cr_expect_str_eq(header_of(first, "id"), rig.events[0].event_id);
        cr_expect_str_eq(header_of(first, "topic"), "orders");
        cr_expect_str_eq(header_of(first, "type"), "order.placed");
        cr_expect_str_eq(header_of(first, "redriven"), "true");
        cr_expect_str_eq(header_of(first, "content-type"), "application/json");
        cr_expect_str_eq(header_of(first, "plain"), "value");
        cr_expect_str_eq(header_of(first, "h\xc3\xa4"), "\xe6\x97\xa5\xe6\x9c\xac");
        cr_expect_str_eq(header_of(first, "empty"), "");
        cr_expect_str_eq(header_of(first, "Topic"), "none");
        /* Empty is not a tombstone, and without a key there is none. */
        cr_expect(json_is_null(json_object_get(json_array_get(records, 1), "key")));
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(records, 1), "value")), "");
        json_decref(records);
        rig_destroy(&rig);
}

Test(kafka_broker, writes_a_tombstone_for_debezium)
{
        static char topic[] = "open-tombstone";
        struct rig rig;
        struct kafka_server *server = begin(&rig, topic, 1);
        json_t *records;

        kafka_server_topic(server, topic, 1, NULL);
        rig.config.message.format = MESSAGE_DEBEZIUM;
        rig.config.message.debezium.tombstone = true;
        rig.events[0].payload = "null";
        rig.events[0].payload_bytes = 4;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        records = dump(server, topic);
        cr_expect(json_is_null(json_object_get(json_array_get(records, 0), "value")));
        json_decref(records);
        rig_destroy(&rig);
}

/* The broker refuses the whole batch for it. */
Test(kafka_broker, rejects_only_the_one_that_is_too_large_for_its_topic)
{
        enum { N = 1000, LARGE = 2500 };
        static char topic[] = "open-small";
        static const char *const config[] = {"max.message.bytes", "2000", NULL};
        char *large = xcalloc(1, LARGE + 1);
        struct rig rig;
        struct kafka_server *server = begin(&rig, topic, N);
        struct kafka_records records;

        kafka_server_topic(server, topic, 1, config);
        memset(large, 'x', LARGE);
        rig.events[500].payload = large;
        rig.events[500].payload_bytes = LARGE;
        rig_open(&rig);
        rig_deliver_all(&rig, N);

        expect_outcome(&rig, 500, OUTCOME_REJECTED, "too large");
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == N - 1);
        records = kafka_read(server->brokers, topic);
        cr_expect(records.n == N - 1, "%zu", records.n);
        kafka_records_deinit(&records);
        rig_destroy(&rig);
        free(large);
}

static bool some_are_delivered(void *rig)
{
        return rig_count(rig, OUTCOME_DELIVERED) >= 20;
}

/* What a relay does while the sink is down: brokers tell of a new topic when they will. */
static void deliver_once_there(struct rig *rig, const struct event *event)
{
        struct outcome outcome;

        do
                outcome = sink_driver_deliver(&rig->driver, event);
        while (outcome.kind == OUTCOME_SINK_DOWN && rig->driver.n_started < 20000);
        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%s", outcome.reason);
}

/* Its batch was refused, so they go one by one; then it goes away, and is made anew. */
Test(kafka_broker, makes_a_topic_anew_that_is_deleted_while_events_go_one_by_one)
{
        enum { N = 300, LARGE = 2500 };
        static char topic[] = "open-deleted";
        static const char *const config[] = {"max.message.bytes", "2000", NULL};
        char *large = xcalloc(1, LARGE + 1);
        struct rig rig;
        struct kafka_server *server = begin(&rig, topic, N);

        kafka_server_topic(server, topic, 1, config);
        memset(large, 'x', LARGE);
        rig.events[0].payload = large;
        rig.events[0].payload_bytes = LARGE;
        rig.config.create_topics = true;
        rig_open(&rig);
        rig_deliver(&rig, N);
        sink_driver_run_until(&rig.driver, some_are_delivered, &rig, "the first of them");
        cr_expect(rig.driver.n_finished < N);
        kafka_server_delete_topic(server, topic);
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 0, OUTCOME_REJECTED, "too large");
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) + rig_count(&rig, OUTCOME_SINK_DOWN) == N - 1);
        deliver_once_there(&rig, &rig.events[N - 1]);
        rig_destroy(&rig);
        free(large);
}

Test(kafka_broker, pauses_for_a_topic_that_is_not_there)
{
        static char topic[] = "open-missing";
        struct rig rig;
        struct kafka_server *server = begin(&rig, topic, 2);
        struct outcome outcome;

        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(
            outcome.kind == OUTCOME_SINK_DOWN && outcome.needs_operator, "%s", outcome.reason);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, topic);
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);

        kafka_server_topic(server, topic, 1, NULL);
        deliver_once_there(&rig, &rig.events[1]);
        rig_destroy(&rig);
}

Test(kafka_broker, creates_the_topics_of_events)
{
        static char template[] = "made-{{type}}";
        struct rig rig;
        struct kafka_server *server = begin(&rig, template, 300);
        struct kafka_records records;

        rig.config.create_topics = true;
        rig.config.partitions = 3;
        for (unsigned i = 0; i < 300; i++)
                rig.events[i].type = i % 2 == 0 ? "a" : "b";
        rig_open(&rig);
        rig_deliver_all(&rig, 300);
        cr_expect(
            rig_count(&rig, OUTCOME_DELIVERED) == 300, "%s", rig.driver.attempts[0].outcome.reason);
        records = kafka_read(server->brokers, "made-a");
        cr_expect(records.n == 150);
        cr_expect(records.items[0].partition + records.items[149].partition > 0);
        kafka_records_deinit(&records);
        rig_destroy(&rig);
}

Test(kafka_broker, says_why_a_topic_cannot_be_created)
{
        static char topic[] = "never-made";
        struct rig rig;

        begin(&rig, topic, 1);
        rig.config.create_topics = true;
        rig.config.replicas = 3;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot be created");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&rig);
}

/* Logins */

static const char *token_of(bool is_good)
{
        /* {"alg":"none"} . {"sub":"relay","exp":4102444800,"iat":1} */
        return is_good ? "eyJhbGciOiJub25lIn0."
                         "eyJzdWIiOiJyZWxheSIsImV4cCI6NDEwMjQ0NDgwMCwiaWF0IjoxfQ."
                       : "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyZWxheSIsImV4cCI6MjAwMCwiaWF0IjoxfQ.";
}

/* The rig with a login; `is_good`: the right one. */
static void log_in(struct rig *rig, enum kafka_sasl sasl, bool is_good)
{
        static char user[] = "relay";
        static char password[] = KAFKA_PASSWORD;
        static char wrong[] = "wrong-canary";
        static char topic[] = "open-login";
        struct kafka_server *server = kafka_server_shared();
        const char *folder = server->nodes[0].folder;

        rig_init(rig, server->brokers, 2);
        free(rig->broker);
        rig->broker =
            xasprintf("127.0.0.1:%u", sasl == KAFKA_SASL_NONE ? server->nodes[0].certificate_port
                                                              : server->nodes[0].sasl_port);
        rig->config.topic = topic;
        rig->config.tls = true;
        rig->config.sasl = sasl;
        rig->config.ca_file = xasprintf("%s/ca.pem", folder);
        if (sasl == KAFKA_SASL_OAUTHBEARER) {
                char *tokens = temp_folder();
                rig->config.token_file = xasprintf("%s/token", tokens);
                replace_file(rig->config.token_file, token_of(is_good));
                free(tokens);
        } else if (sasl != KAFKA_SASL_NONE) {
                rig->config.user = user;
                rig->config.password = is_good ? password : wrong;
        } else if (is_good) {
                rig->config.cert_file = xasprintf("%s/client-cert.pem", folder);
                rig->config.key_file = xasprintf("%s/client-key.pem", folder);
        }
}

static void log_out(struct rig *rig)
{
        free(rig->config.ca_file);
        free(rig->config.cert_file);
        free(rig->config.key_file);
        free(rig->config.token_file);
        rig_destroy(rig);
}

static const struct {
        enum kafka_sasl sasl;
        const char *words; /* of the refusal */
        enum outcome_fault fault;
} logins[] = {
    {KAFKA_SASL_PLAIN, "uthentication failed", OUTCOME_FAULT_AUTH},
    {KAFKA_SASL_SCRAM_SHA_256, "uthentication failed", OUTCOME_FAULT_AUTH},
    {KAFKA_SASL_SCRAM_SHA_512, "uthentication failed", OUTCOME_FAULT_AUTH},
    {KAFKA_SASL_OAUTHBEARER, "", OUTCOME_FAULT_AUTH},
    {KAFKA_SASL_NONE, "", OUTCOME_FAULT_TLS},
};

/* librdkafka before 2.6.1 cannot, at Kafka 4. */
static bool can_log_in(enum kafka_sasl sasl)
{
        return (sasl != KAFKA_SASL_SCRAM_SHA_256 && sasl != KAFKA_SASL_SCRAM_SHA_512) ||
               rd_kafka_version() >= 0x02060100 || kafka_server_shared()->version[0] < '4';
}

/* What it may not ask, the topic's settings, is no matter. */
static void expect_delivery(struct rig *rig)
{
        struct outcome outcome = sink_driver_probe(&rig->driver);

        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%d: %s", rig->config.sasl, outcome.reason);
        cr_expect(outcome.reason[0] == '\0', "%s", outcome.reason);
        rig_deliver_all(rig, 1);
        expect_outcome(rig, 0, OUTCOME_DELIVERED, "");
}

Test(kafka_broker, logs_in_and_says_why_it_cannot)
{
        kafka_server_topic(kafka_server_shared(), "open-login", 1, NULL);
        for (size_t i = 0; i < sizeof logins / sizeof *logins; i++) {
                struct rig rig;
                struct outcome outcome;
                log_in(&rig, logins[i].sasl, true);
                rig_open(&rig);
                if (can_log_in(logins[i].sasl)) {
                        expect_delivery(&rig);
                } else {
                        rig_deliver_all(&rig, 1);
                        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot log in to Kafka 4");
                }
                log_out(&rig);

                log_in(&rig, logins[i].sasl, false);
                rig_open(&rig);
                rig_deliver_all(&rig, 1);
                outcome = rig.driver.attempts[0].outcome;
                cr_expect(outcome.kind == OUTCOME_SINK_DOWN, "%zu: %s", i, outcome.reason);
                cr_expect(outcome.needs_operator, "%zu: %s", i, outcome.reason);
                cr_expect(outcome.fault == logins[i].fault, "%zu: %d %s", i, (int)outcome.fault,
                    outcome.reason);
                cr_expect(strstr(outcome.reason, logins[i].words) != NULL, "%s", outcome.reason);
                cr_expect(strstr(outcome.reason, "canary") == NULL);
                log_out(&rig);
        }
}

Test(kafka_broker, trusts_no_certificate_of_an_unknown_authority)
{
        struct rig rig;

        log_in(&rig, KAFKA_SASL_PLAIN, true);
        free(rig.config.ca_file);
        rig.config.ca_file = NULL;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_TLS, "%s",
            rig.driver.attempts[0].outcome.reason);
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        log_out(&rig);
}

/* The same address by a name that is not in it. */
Test(kafka_broker, trusts_no_certificate_of_another_name)
{
        struct rig rig;

        log_in(&rig, KAFKA_SASL_PLAIN, true);
        free(rig.broker);
        rig.broker = xasprintf("127.1:%u", kafka_server_shared()->nodes[0].sasl_port);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_TLS, "%s",
            rig.driver.attempts[0].outcome.reason);
        log_out(&rig);
}

Test(kafka_broker, says_that_it_may_not_write_to_a_topic)
{
        static char topic[] = "closed";
        struct rig rig;
        const struct outcome *outcome;

        kafka_server_topic(kafka_server_shared(), topic, 1, NULL);
        log_in(&rig, KAFKA_SASL_PLAIN, true);
        rig.config.topic = topic;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        outcome = &rig.driver.attempts[0].outcome;
        cr_expect(outcome->kind == OUTCOME_SINK_DOWN && outcome->needs_operator, "%s: %s",
            outcome_name(outcome->kind), outcome->reason);
        cr_expect(outcome->fault == OUTCOME_FAULT_AUTH, "%s", outcome->reason);
        log_out(&rig);
}

static bool has_died(void *context)
{
        const struct relay_fixture *fixture = context;

        publish(fixture->admin, "open-one", NULL, "more");
        return database_integer(fixture->admin, "SELECT count(*) FROM courier.dead_letter") > 0;
}

/* The whole relay: who may not write to one topic loses that topic's events, and no others. */
Test(kafka_broker, gives_up_only_the_events_to_a_topic_that_is_forbidden)
{
        enum { N_OTHERS = 30 };
        struct kafka_server *server = kafka_server_shared();
        struct kafka_records records;
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        kafka_server_topic(server, "open-one", 1, NULL);
        kafka_server_topic(server, "forbidden", 1, NULL);
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "relay: {modules: " PGCOURIER_BUILD_FOLDER "/modules}\n"
                            "sinks:\n"
                            "  - name: kafka\n"
                            "    topics: [\"**\"]\n"
                            "    start: beginning\n"
                            "    retry: {first: 50ms, max: 100ms}\n"
                            "    kafka: {brokers: [\"127.0.0.1:%u\"], topic: \"{{topic}}\",\n"
                            "      tls: true, ca_file: \"%s/ca.pem\", sasl: plain, user: relay,\n"
                            "      password: " KAFKA_PASSWORD "}\n",
            fixture.relay, server->nodes[0].sasl_port, server->nodes[0].folder);
        publish(fixture.admin, "forbidden", "p", "poison");
        for (int i = 0; i < N_OTHERS; i++)
                publish(fixture.admin, "open-one", NULL, "good");
        wait_until(has_died, &fixture, 60000, "a dead letter");
        await_in_database(fixture.admin, "SELECT " ALL_IS_SETTLED, "all is settled");
        expect_value(fixture.admin,
            "SELECT target || ' ' || attempts || ' ' || reason FROM courier.dead_letter",
            "forbidden 5 attempts");
        expect_value(fixture.admin, "SELECT count(*) FROM courier.pause", "0");
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        records = kafka_read(server->brokers, "open-one");
        cr_expect_geq(records.n, N_OTHERS);
        kafka_records_deinit(&records);
}

/* A client in the middle of a handshake ends, too. */
Test(kafka_broker, closes_during_a_handshake)
{
        for (unsigned i = 0; i < 10; i++) {
                struct rig rig;
                log_in(&rig, KAFKA_SASL_SCRAM_SHA_512, true);
                rig_open(&rig);
                rig_deliver(&rig, 1);
                sink_cancel(rig.driver.sink);
                sink_driver_finish(&rig.driver);
                log_out(&rig);
        }
}

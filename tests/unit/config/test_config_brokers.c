/* The blocks nats, rabbitmq and kafka: their defaults, what they refuse, and what they tell. */
#include "base/bytes.h"
#include "config/compare.h"
#include "config/config_show.h"
#include "config/server_address.h"
#include "config/values.h"
#include "support/config_steps.h"

#define NATS(keys)        PG SINK "    nats: {servers: [h], " keys "}\n"
#define RABBITMQ(keys)    PG SINK "    rabbitmq: {servers: [h], exchange: x, " keys "}\n"
#define RABBITMQ_ALL(all) PG SINK "    rabbitmq: {" all "}\n"
#define KAFKA(keys)       PG SINK "    kafka: {brokers: [h], " keys "}\n"
#define PAIR              "cert_file: /etc/passwd, key_file: /etc/passwd"
#define LOGIN             "user: u, password: " CANARY

TestSuite(config_brokers, .init = make_path, .fini = remove_path);

Test(config_brokers, nats_has_defaults)
{
        struct config *config = load(PG SINK "    nats: {servers: [a, \"tls://[::1]:5\"]}\n");
        const struct nats_config *nats = config->sinks[0].nats;

        cr_expect_str_eq(sink_config_kind(&config->sinks[0]), "nats");
        cr_expect_eq(sink_config_options(&config->sinks[0]), nats);
        cr_expect_eq(nats->n_servers, 2);
        cr_expect_str_eq(nats->servers[1], "tls://[::1]:5");
        cr_expect_str_eq(nats->subject, "events.{{topic}}");
        cr_expect_null(nats->stream);
        cr_expect_null(nats->create_stream);
        cr_expect_eq(nats->message.format, MESSAGE_NATIVE);
        cr_expect_str_eq(nats->message.source, "pgcourier");
        cr_expect_eq(nats->message.debezium.value, DEBEZIUM_JSON_SCHEMA);
        cr_expect_eq(nats->duplicates, NATS_DUPLICATES_ID);
        cr_expect_null(nats->domain);
        cr_expect(nats->user == NULL && nats->password == NULL && nats->token == NULL);
        cr_expect(nats->nkey_file == NULL && nats->creds_file == NULL);
        cr_expect_not(nats->tls || nats->tls_first);
        cr_expect_str_eq(nats->inbox, "_INBOX");
        cr_expect_eq(nats->ping_ms, 10000);
        cr_expect_eq(nats->connect_timeout_ms, 5000);
        cr_expect_eq(nats->timeout_ms, 5000);
        config_free(config);
}

Test(config_brokers, nats_reads_every_key)
{
        struct config *config =
            load(NATS("subject: \"a.{{type}}.{{key}}.{{id}}\", stream: S, "
                      "create_stream: {subjects: [\"a.>\", b.*.c], storage: memory, replicas: 3, "
                      "max_age: 1m, max_bytes: 1GB}, format: debezium, debezium: {key: string}, "
                      "duplicates: by-subject, domain: hub, token: " CANARY ", tls: true, "
                      "tls_first: true, ca_file: /etc/passwd, " PAIR ", inbox: in.box, ping: 1s, "
                      "connect_timeout: 2s, timeout: 3s"));
        const struct nats_config *nats = config->sinks[0].nats;
        const struct nats_stream_config *stream = nats->create_stream;

        cr_expect_str_eq(nats->subject, "a.{{type}}.{{key}}.{{id}}");
        cr_expect_str_eq(nats->stream, "S");
        cr_expect_eq(stream->n_subjects, 2);
        cr_expect_str_eq(stream->subjects[0], "a.>");
        cr_expect_eq(stream->storage, NATS_STORAGE_MEMORY);
        cr_expect_eq(stream->replicas, 3);
        cr_expect_eq(stream->max_age_ms, 60000);
        cr_expect_eq(stream->max_bytes, 1000000000);
        cr_expect_eq(stream->duplicates_ms, 60000, "the default does not exceed max_age");
        cr_expect_eq(nats->message.format, MESSAGE_DEBEZIUM);
        cr_expect_eq(nats->message.debezium.key, DEBEZIUM_STRING);
        cr_expect_eq(nats->duplicates, NATS_DUPLICATES_BY_SUBJECT);
        cr_expect_str_eq(nats->domain, "hub");
        cr_expect_str_eq(nats->token, CANARY);
        cr_expect(nats->tls && nats->tls_first);
        cr_expect_str_eq(nats->ca_file, "/etc/passwd");
        cr_expect_str_eq(nats->cert_file, "/etc/passwd");
        cr_expect_str_eq(nats->inbox, "in.box");
        cr_expect_eq(nats->ping_ms, 1000);
        cr_expect_eq(nats->connect_timeout_ms, 2000);
        cr_expect_eq(nats->timeout_ms, 3000);
        config_free(config);
}

Test(config_brokers, rabbitmq_has_defaults)
{
        struct config *config = load(RABBITMQ_ALL("servers: [h], exchange: \"\""));
        const struct rabbitmq_config *rabbitmq = config->sinks[0].rabbitmq;

        cr_expect_str_eq(sink_config_kind(&config->sinks[0]), "rabbitmq");
        cr_expect_eq(sink_config_options(&config->sinks[0]), rabbitmq);
        cr_expect_str_eq(rabbitmq->vhost, "/");
        cr_expect_str_eq(rabbitmq->exchange, "");
        cr_expect_str_eq(rabbitmq->routing_key, "{{topic}}");
        cr_expect(rabbitmq->mandatory && rabbitmq->persistent);
        cr_expect_eq(rabbitmq->on_unroutable, UNROUTABLE_AUTO);
        cr_expect_eq(rabbitmq->expiration_ms, 0);
        cr_expect_eq(rabbitmq->priority, 0);
        cr_expect_null(rabbitmq->app_id);
        cr_expect_null(rabbitmq->declare);
        cr_expect_eq(rabbitmq->auth, RABBITMQ_PLAIN);
        cr_expect(rabbitmq->user == NULL && rabbitmq->password == NULL);
        cr_expect_not(rabbitmq->tls);
        cr_expect_eq(rabbitmq->max_message_bytes, 16 * 1024 * 1024);
        cr_expect_eq(rabbitmq->heartbeat_ms, 20000);
        cr_expect_eq(rabbitmq->blocked_timeout_ms, 60000);
        cr_expect_eq(rabbitmq->connect_timeout_ms, 5000);
        cr_expect_eq(rabbitmq->timeout_ms, 10000);
        config_free(config);
}

Test(config_brokers, rabbitmq_reads_every_key)
{
        struct config *config =
            load(RABBITMQ_ALL("servers: [\"amqps://a:1\", b], vhost: v, exchange: e, "
                              "routing_key: \"{{topic}}.{{key}}\", on_unroutable: reject, "
                              "persistent: false, expiration: 1h, priority: 255, app_id: shop, "
                              "format: cloudevents, source: /shop, declare: {exchange_type: topic, "
                              "durable: false, queues: [{name: q, type: classic, bindings: [\"#\", "
                              "\"\"]}]}, auth: external, " PAIR ", max_message_bytes: 1MiB, "
                              "heartbeat: 0, blocked_timeout: 1s"));
        const struct rabbitmq_config *rabbitmq = config->sinks[0].rabbitmq;
        const struct rabbitmq_declare_config *declare = rabbitmq->declare;

        cr_expect_str_eq(rabbitmq->vhost, "v");
        cr_expect_str_eq(rabbitmq->exchange, "e");
        cr_expect_str_eq(rabbitmq->routing_key, "{{topic}}.{{key}}");
        cr_expect_eq(rabbitmq->on_unroutable, UNROUTABLE_REJECT);
        cr_expect_not(rabbitmq->persistent);
        cr_expect_eq(rabbitmq->expiration_ms, 3600000);
        cr_expect_eq(rabbitmq->priority, 255);
        cr_expect_str_eq(rabbitmq->app_id, "shop");
        cr_expect_eq(rabbitmq->message.format, MESSAGE_CLOUDEVENTS);
        cr_expect_str_eq(rabbitmq->message.source, "/shop");
        cr_expect_str_eq(declare->exchange_type, "topic");
        cr_expect_not(declare->durable);
        cr_expect_eq(declare->n_queues, 1);
        cr_expect_str_eq(declare->queues[0].type, "classic");
        cr_expect_eq(declare->queues[0].n_bindings, 2);
        cr_expect_str_eq(declare->queues[0].bindings[1], "");
        cr_expect_eq(rabbitmq->auth, RABBITMQ_EXTERNAL);
        cr_expect_eq(rabbitmq->max_message_bytes, 1024 * 1024);
        cr_expect_eq(rabbitmq->heartbeat_ms, 0);
        config_free(config);
}

Test(config_brokers, kafka_has_defaults)
{
        struct config *config = load(PG SINK "    kafka: {brokers: [h]}\n");
        const struct kafka_config *kafka = config->sinks[0].kafka;

        cr_expect_str_eq(sink_config_kind(&config->sinks[0]), "kafka");
        cr_expect_eq(sink_config_options(&config->sinks[0]), kafka);
        cr_expect_str_eq(kafka->topic, "{{topic}}");
        cr_expect_eq(kafka->max_topics, 1000);
        cr_expect_str_eq(kafka->compression, "none");
        cr_expect_eq(kafka->linger_ms, 0);
        cr_expect_eq(kafka->batch_bytes, 128 * 1024);
        cr_expect_not(kafka->create_topics || kafka->tls);
        cr_expect_eq(kafka->sasl, KAFKA_SASL_NONE);
        cr_expect_str_eq(kafka->client_id, "pgcourier");
        cr_expect_eq(kafka->connect_timeout_ms, 5000);
        cr_expect_eq(kafka->timeout_ms, 30000);
        cr_expect_eq(kafka->n_properties, 0);
        config_free(config);
}

Test(config_brokers, kafka_reads_every_key)
{
        struct config *config =
            load(KAFKA("topic: \"shop.{{topic}}\", max_topics: 5, format: cloudevents-structured, "
                       "compression: zstd, linger: 5ms, batch_bytes: 1MiB, create_topics: true, "
                       "partitions: 6, replicas: 3, tls: true, " PAIR ", "
                       "sasl: scram-sha-512, " LOGIN ", client_id: me, timeout: 6s, "
                       "properties: [socket.keepalive.enable=true, compression.level=3]"));
        const struct kafka_config *kafka = config->sinks[0].kafka;

        cr_expect_str_eq(kafka->topic, "shop.{{topic}}");
        cr_expect_eq(kafka->max_topics, 5);
        cr_expect_eq(kafka->message.format, MESSAGE_CLOUDEVENTS_STRUCTURED);
        cr_expect_str_eq(kafka->compression, "zstd");
        cr_expect_eq(kafka->linger_ms, 5);
        cr_expect_eq(kafka->batch_bytes, 1024 * 1024);
        cr_expect(kafka->create_topics && kafka->tls);
        cr_expect_eq(kafka->partitions, 6);
        cr_expect_eq(kafka->replicas, 3);
        cr_expect_eq(kafka->sasl, KAFKA_SASL_SCRAM_SHA_512);
        cr_expect_str_eq(kafka->user, "u");
        cr_expect_str_eq(kafka->password, CANARY);
        cr_expect_str_eq(kafka->client_id, "me");
        cr_expect_eq(kafka->timeout_ms, 6000);
        cr_expect_eq(kafka->n_properties, 2);
        cr_expect_str_eq(kafka->properties[1], "compression.level=3");
        config_free(config);
        config_free(load(KAFKA("sasl: oauthbearer, token_file: /etc/passwd")));
        config_free(load(KAFKA("sasl: gssapi, keytab: /etc/passwd, principal: p")));
}

static void expect_address(enum server_protocol protocol, const char *text, bool tls,
    const char *host, uint16_t port, bool is_tls)
{
        struct server_address address;
        const char *wrong = server_address_split(protocol, text, tls, &address);

        cr_assert_null(wrong, "%s: %s", text, wrong);
        cr_expect_str_eq(address.host, host);
        cr_expect_eq(address.port, port, "%s: %u", text, address.port);
        cr_expect_eq(address.is_tls, is_tls, "%s", text);
        server_address_deinit(&address);
}

Test(config_brokers, servers_are_split_into_host_port_and_tls)
{
        expect_address(SERVER_NATS, "h", false, "h", 4222, false);
        expect_address(SERVER_NATS, "nats://h:1", false, "h", 1, false);
        expect_address(SERVER_NATS, "nats://h", true, "h", 4222, true);
        expect_address(SERVER_NATS, "TLS://[2001:db8::1]", false, "2001:db8::1", 4222, true);
        expect_address(SERVER_AMQP, "h.example", false, "h.example", 5672, false);
        expect_address(SERVER_AMQP, "h", true, "h", 5671, true);
        expect_address(SERVER_AMQP, "amqp://h", true, "h", 5671, true);
        expect_address(SERVER_AMQP, "amqps://h", false, "h", 5671, true);
        expect_address(SERVER_AMQP, "amqps://h:65535", false, "h", 65535, true);
        expect_address(SERVER_KAFKA, "127.0.0.1", false, "127.0.0.1", 9092, false);
        expect_address(SERVER_KAFKA, "[::1]:1", true, "::1", 1, true);
}

Test(config_brokers, servers_say_which_key_is_meant)
{
        static const struct bad cases[] = {
            {PG SINK "    nats: {}\n", "5:5", "nats.servers: is required, with at least one"},
            {PG SINK "    nats: {servers: []}\n", "5:12", "nats.servers: is required"},
            {PG SINK "    nats: {servers: [a, \"nats://me:hunter2@h\"]}\n", "5:25",
                "nats.servers[1]: has a user name or a token before its host; use the keys user"},
            {PG SINK "    nats: {servers: [\"nats://hunter2@h\"]}\n", "5:22", "or token"},
            {PG SINK "    nats: {servers: [\"nats://h/x\"]}\n", "5:22", "has text after its host"},
            {PG SINK "    nats: {servers: [\"ws://h\"]}\n", "5:22", "allowed: nats://host[:port]"},
            {PG SINK "    nats: {servers: [\"nats://\"]}\n", "5:22", "has no host"},
            {PG SINK "    nats: {servers: [\"h:0\"]}\n", "5:22", "malformed host or port"},
            {PG SINK "    nats: {servers: [\"h:70000\"]}\n", "5:22", "malformed host or port"},
            {PG SINK "    nats: {servers: [\"a,b\"]}\n", "5:22", "malformed host or port"},
            {RABBITMQ_ALL("exchange: x, servers: [\"amqp://u:hunter2@h\"]"), "5:39",
                "use the keys user and password"},
            {RABBITMQ_ALL("exchange: x, servers: [\"amqp://h/shop\"]"), "5:39",
                "use the key vhost"},
            {RABBITMQ_ALL("exchange: x, servers: [\"amqp://h?heartbeat=5\"]"), "5:39",
                "for what a ?query says the other keys"},
            {RABBITMQ_ALL("exchange: x, servers: [\"nats://h\"]"), "5:39",
                "allowed: amqp://host[:port]"},
            {PG SINK "    kafka: {brokers: [\"kafka://h\"]}\n", "5:23",
                "kafka.brokers[0]: has a scheme; write host[:port]"},
            {PG SINK "    kafka: {brokers: [\"u:hunter2@h\"]}\n", "5:23", "the keys sasl, user"},
            {PG SINK "    kafka: {brokers: [\"h:9092/t\"]}\n", "5:23", "text after its host"},
        };

        REFUSE_ALL(cases);
}

Test(config_brokers, subjects_stay_among_those_of_the_sink)
{
        static const char *const right[] = {"a", "events.{{topic}}", "{{topic}}", "{{ topic }}",
            "a.b-{{type}}", "a.{{topic}}.{{key}}.{{id}}", "a_INBOX", "a.$JS", "{{{topic}}}"};
        static const struct {
                const char *subject;
                const char *words;
        } wrong[] = {{"$JS.API.STREAM.DELETE.x", "begins with $ or _INBOX"},
            {"_INBOX.{{topic}}", "begins with $ or _INBOX"}, {"$", "begins with $"},
            {"a.*", "a wildcard"}, {"a.>.{{topic}}", "a wildcard"}, {"a b", "a blank"},
            {"a\t{{topic}}", "a blank"}, {"a..b", "an empty part"}, {".a", "an empty part"},
            {"a.", "an empty part"}, {"{{type}}", "begins with a variable"},
            {"{{topic}}.x", "begins with a variable"}, {"{{key}}", "begins with a variable"},
            {"a.{{name}}", "only variables are"}, {"a.{{topic", "each {{ needs a }}"}};
        char too_long[1026] = {0};

        for (size_t i = 0; i < sizeof right / sizeof *right; i++)
                cr_expect_null(
                    check_nats_subject(right[i]), "%s: %s", right[i], check_nats_subject(right[i]));
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
                const char *words = check_nats_subject(wrong[i].subject);
                cr_expect(words != NULL && strstr(words, wrong[i].words) != NULL, "%s: %s",
                    wrong[i].subject, words != NULL ? words : "accepted");
        }
        memset(too_long, 'a', 1025);
        cr_expect(check_nats_subject(too_long) != NULL);
        too_long[1024] = '\0';
        cr_expect_null(check_nats_subject(too_long));
}

Test(config_brokers, names_of_each_broker_are_checked)
{
        static const char *const subjects[] = {"a", "a.>", ">", "*.b", "a.*.c"};
        static const char *const bad_subjects[] = {"$JS.>", "a.>.b", "a*", "a.b>", "a..b", "a b"};
        static const char *const inboxes[] = {"_INBOX", "_INBOX_me.x", "in"};
        static const char *const bad_inboxes[] = {"_INBOX.*", "in.>", "in.", "a b", "$in"};
        static const char *const topics[] = {"{{topic}}", "a.b_c-D9", "{{type}}.v1", "_x"};
        static const char *const bad_topics[] = {"a b", "a/{{topic}}", "..", ".",
            "__consumer_offsets", "__{{topic}}", "{{id}}", "\xc3\xa9"};

        for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
                cr_expect_null(check_nats_stream_subject(subjects[i]), "%s", subjects[i]);
        for (size_t i = 0; i < sizeof bad_subjects / sizeof *bad_subjects; i++)
                cr_expect(
                    check_nats_stream_subject(bad_subjects[i]) != NULL, "%s", bad_subjects[i]);
        for (size_t i = 0; i < sizeof inboxes / sizeof *inboxes; i++)
                cr_expect_null(check_nats_inbox(inboxes[i]), "%s", inboxes[i]);
        for (size_t i = 0; i < sizeof bad_inboxes / sizeof *bad_inboxes; i++)
                cr_expect(check_nats_inbox(bad_inboxes[i]) != NULL, "%s", bad_inboxes[i]);
        for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
                cr_expect_null(check_kafka_topic(topics[i]), "%s", topics[i]);
        for (size_t i = 0; i < sizeof bad_topics / sizeof *bad_topics; i++)
                cr_expect(check_kafka_topic(bad_topics[i]) != NULL, "%s", bad_topics[i]);
        cr_expect_null(check_nats_stream("EVENTS-1"));
        cr_expect(check_nats_stream("a.b") != NULL);
        cr_expect(check_amqp_routing_key("{{id}}") != NULL);
        cr_expect_null(check_amqp_routing_key(""));
}

Test(config_brokers, nats_refuses_what_does_not_go_together)
{
        static const struct bad cases[] = {
            {NATS("subject: \"$JS.{{topic}}\""), "5:26", "nats.subject: begins with $"},
            {NATS("create_stream: {subjects: [a]}"), "5:26",
                "nats.create_stream: is given without stream"},
            {NATS("stream: s, create_stream: {}"), "5:37", "create_stream.subjects: is required"},
            {NATS("stream: s, create_stream: {subjects: [a], replicas: 6}"), "5:68",
                "replicas: '6' is out of range; allowed: 1 to 5"},
            {NATS("stream: s, create_stream: {subjects: [a], max_age: 1m, duplicates: 2m}"), NULL,
                "create_stream.duplicates: is longer than max_age"},
            {NATS("stream: s, create_stream: {subjects: [a], max_age: 99ms}"), NULL,
                "create_stream.max_age: is too short"},
            {NATS("stream: a.b"), "5:26", "nats.stream: holds"},
            {NATS("duplicates: by-subject"), "5:26", "add {{id}} to subject"},
            {NATS("user: u"), "5:26", "nats.user: is given without password or password_file"},
            {NATS("password: hunter2"), "5:26", "nats.password: is given without user"},
            {NATS(LOGIN ", token: hunter2"), NULL, "nats.token: is given together with user"},
            {NATS("token: hunter2, creds_file: /etc/passwd"), NULL,
                "nats.creds_file: is given together with token"},
            {NATS("nkey_file: /etc/passwd, creds_file: /etc/passwd"), NULL,
                "nats.creds_file: is given together with nkey_file"},
            {NATS("nkey_file: /nonexistent"), "5:26", "names a file that does not exist"},
            {NATS("tls_first: true"), "5:26", "nats.tls_first: is given without TLS"},
            {NATS("ca_file: /etc/passwd"), "5:26", "write the servers as tls://…"},
            {NATS(PAIR), NULL, "nats.cert_file: is given without TLS"},
            {NATS("tls: true, cert_file: /etc/passwd"), NULL, "cert_file: is given without key"},
            {NATS("tls: true, key_file: /etc/passwd"), NULL, "key_file: is given without cert"},
            {NATS("source: x"), "5:26", "nats.source: is only for format: cloudevents"},
            {NATS("debezium: {}"), "5:26", "nats.debezium: is only for format: debezium"},
            {NATS("format: debezium, debezium: {null_key: x}"), NULL,
                "nats.debezium.null_key: is only for key: string"},
            {NATS("format: avro"), "5:26",
                "allowed: native, cloudevents, cloudevents-structured, debezium"},
            {NATS("ping: 0"), "5:26", "out of range; allowed: 100ms to 1h"},
        };

        REFUSE_ALL(cases);
        config_free(load(PG SINK "    nats: {servers: [\"tls://h\"], ca_file: /etc/passwd, " PAIR
                                 ", creds_file: /etc/passwd, tls_first: true}\n"));
        config_free(load(NATS("duplicates: by-subject, subject: \"a.{{ id }}\"")));
}

Test(config_brokers, rabbitmq_refuses_what_does_not_go_together)
{
        static const struct bad cases[] = {
            {RABBITMQ_ALL("servers: [h]"), "5:5", "rabbitmq.exchange: is required"},
            {RABBITMQ("routing_key: \"{{id}}\""), NULL, "rabbitmq.routing_key: is not a valid"},
            {RABBITMQ("mandatory: false, on_unroutable: retry"), NULL,
                "rabbitmq.on_unroutable: is given together with mandatory: false"},
            {RABBITMQ("heartbeat: 1500ms"), NULL, "rabbitmq.heartbeat: is not whole seconds"},
            {RABBITMQ("priority: 256"), NULL, "allowed: 0 to 255"},
            {RABBITMQ("expiration: 50d"), NULL, "allowed: 0 to 49d"},
            {RABBITMQ("user: u"), NULL, "rabbitmq.user: is given without password"},
            {RABBITMQ("password: hunter2"), NULL, "rabbitmq.password: is given without user"},
            {RABBITMQ("tls: true, auth: external"), NULL, "rabbitmq.auth: is external, but"},
            {RABBITMQ("tls: true, auth: external, " PAIR ", " LOGIN), NULL,
                "rabbitmq.user: is only for auth: plain"},
            {RABBITMQ("ca_file: /etc/passwd"), NULL, "write the servers as amqps://…"},
            {RABBITMQ("auth: external, " PAIR), NULL, "cert_file: is given without TLS"},
            {RABBITMQ("declare: {queues: [{name: q}]}"), NULL,
                "rabbitmq.declare.queues[0].bindings: is required, with at least one"},
            {RABBITMQ("declare: {durable: false, queues: [{name: q, bindings: [a]}]}"), NULL,
                "queues[0].type: is quorum, whose queues are always durable"},
            {RABBITMQ("declare: {queues: [{bindings: [a]}]}"), NULL, "queues[0].name: is required"},
            {RABBITMQ("declare: {exchange_type: x-delayed}"), NULL,
                "allowed: direct, fanout, topic, headers"},
            {RABBITMQ_ALL("servers: [h], exchange: \"\", declare: {exchange_type: topic}"), NULL,
                "declare.exchange_type: is given, but exchange is one of RabbitMQ's own"},
            {RABBITMQ_ALL("servers: [h], exchange: amq.topic, declare: {exchange_type: topic}"),
                NULL, "exchange is one of RabbitMQ's own"},
            {RABBITMQ_ALL("servers: [h], exchange: \"\", declare: {queues: [{name: q, bindings: "
                          "[q]}]}"),
                NULL, "queues[0].bindings: is given, but exchange is the default exchange"},
            {RABBITMQ_ALL("servers: [h], exchange: x, vhost: \"\""), NULL, "vhost: is empty"},
            {RABBITMQ("source: x"), NULL, "rabbitmq.source: is only for format: cloudevents"},
        };

        REFUSE_ALL(cases);
}

Test(config_brokers, kafka_refuses_what_does_not_go_together)
{
        static const struct bad cases[] = {
            {PG SINK "    kafka: {}\n", "5:5", "kafka.brokers: is required"},
            {KAFKA("topic: \"__{{topic}}\""), NULL, "kafka.topic: begins with __"},
            {KAFKA("linger: 30s"), NULL, "kafka.linger: is not shorter than timeout"},
            {KAFKA("partitions: 3"), NULL, "kafka.partitions: is only for create_topics: true"},
            {KAFKA("replicas: 3"), NULL, "kafka.replicas: is only for create_topics: true"},
            {KAFKA("compression: brotli"), NULL, "allowed: none, gzip, snappy, lz4, zstd"},
            {KAFKA(PAIR), NULL, "kafka.cert_file: is given without TLS; add tls: true"},
            {KAFKA("source: x"), NULL, "kafka.source: is only for format: cloudevents"},
            {KAFKA("user: u"), NULL, "kafka.user: is given without sasl"},
            {KAFKA("password_file: /etc/hostname"), NULL, "password_file: is given without sasl"},
            {KAFKA("sasl: plain"), NULL, "kafka.sasl: is plain, which needs user; add it"},
            {KAFKA("sasl: plain, user: u"), NULL, "which needs password or password_file"},
            {KAFKA("sasl: plain, keytab: /etc/passwd, " LOGIN), NULL,
                "kafka.keytab: is not for sasl: plain"},
            {KAFKA("sasl: scram-sha-256, token_file: /etc/passwd, " LOGIN), NULL,
                "kafka.token_file: is not for sasl: scram-sha-256"},
            {KAFKA("sasl: scram-sha-512"), NULL, "is scram-sha-512, which needs user"},
            {KAFKA("sasl: oauthbearer"), NULL, "is oauthbearer, which needs token_file; add it"},
            {KAFKA("sasl: oauthbearer, token_file: /etc/passwd, user: u"), NULL,
                "kafka.user: is not for sasl: oauthbearer"},
            {KAFKA("sasl: gssapi, keytab: /etc/passwd"), NULL, "needs principal"},
            {KAFKA("sasl: gssapi, keytab: /etc/passwd, principal: p, user: u"), NULL,
                "kafka.user: is not for sasl: gssapi"},
            {KAFKA("properties: [a=b, sasl.password=hunter2]"), "5:45",
                "kafka.properties[1]: names the property of the key password; use that"},
        };

        REFUSE_ALL(cases);
}

Test(config_brokers, kafka_properties_do_not_undo_the_sink)
{
        static const char *const refused[] = {"acks=1", "request.required.acks=0",
            "enable.idempotence=false", "max.in.flight=9",
            "max.in.flight.requests.per.connection=9", "partitioner=random", "transactional.id=t",
            "bootstrap.servers=x", "linger.ms=9", "batch.size=9", "compression.type=none",
            "compression.codec=none", "message.timeout.ms=9", "delivery.timeout.ms=9",
            "security.protocol=plaintext", "sasl.mechanisms=PLAIN", "sasl.username=u",
            "sasl.oauthbearer.config=x", "sasl.kerberos.kinit.cmd=sh", "ssl.ca.location=/x",
            "ssl.key.password=x", "ssl.key.location=x", "ssl.certificate.pem=x",
            "ssl.keystore.location=x", "enable.ssl.certificate.verification=false",
            "ssl.endpoint.identification.algorithm=none", "plugin.library.paths=/x.so",
            "dr_msg_cb=x", "log_level=7", "log.queue=false", "debug=all", "queuing.strategy=lifo",
            "delivery.report.only.error=true", "client.id=x", "", "=", "=x", "acks", "a b=c"};
        static const char *const accepted[] = {"compression.level=3",
            "socket.keepalive.enable=true", "message.max.bytes=2000000",
            "sasl.kerberos.service.name=kafka", "ssl.cipher.suites=x",
            "metadata.max.age.ms=", "acks.x=1"};

        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
                cr_expect(check_kafka_property(refused[i]) != NULL, "%s", refused[i]);
        for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
                cr_expect_null(check_kafka_property(accepted[i]), "%s", accepted[i]);
}

static void collect(void *owner, const struct config_shown *shown)
{
        bytes_printf((struct bytes *)owner, "%s=%s\n", shown->path,
            shown->is_masked ? "***" : (shown->value != NULL ? shown->value : ""));
}

Test(config_brokers, are_shown_without_their_secrets)
{
        static const struct {
                const char *text;
                const char *line;
        } cases[] = {
            {NATS("token: " CANARY), "sinks[0].nats.token=***\n"},
            {NATS(LOGIN), "sinks[0].nats.password=***\n"},
            {RABBITMQ(LOGIN), "sinks[0].rabbitmq.password=***\n"},
            {KAFKA("sasl: plain, " LOGIN), "sinks[0].kafka.password=***\n"},
            {KAFKA("properties: [a=b]"), "sinks[0].kafka.properties[0]=a=b\n"},
            {RABBITMQ_ALL("servers: [h], exchange: \"\""), "sinks[0].rabbitmq.exchange=\n"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct error error = {0};
                struct bytes text = {0};
                write_file(path, cases[i].text, strlen(cases[i].text));
                cr_assert(config_walk(path, collect, &text, &error), "%s", error.text);
                cr_expect(strstr(text.data, cases[i].line) != NULL, "%s", text.data);
                cr_expect(strstr(text.data, SECRET_WORD) == NULL, "%s", text.data);
                bytes_deinit(&text);
        }
}

static bool are_equal(const char *a, const char *b)
{
        struct config *of_a = load("%s", a);
        struct config *of_b = load("%s", b);
        bool is_same = sink_configs_are_equal(&of_a->sinks[0], &of_b->sinks[0]);

        config_free(of_a);
        config_free(of_b);
        return is_same;
}

Test(config_brokers, are_compared_by_what_they_mean)
{
        cr_expect(are_equal(NATS("ping: 10s"), NATS("ping: 10000ms, tls: false")));
        cr_expect_not(are_equal(NATS("token: a"), NATS("token: b")));
        cr_expect_not(
            are_equal(NATS("stream: s"), NATS("stream: s, create_stream: {subjects: [a]}")));
        cr_expect_not(are_equal(NATS("stream: s, create_stream: {subjects: [a]}"),
            NATS("stream: s, create_stream: {subjects: [b]}")));
        cr_expect_not(
            are_equal(NATS("format: debezium"), NATS("format: debezium, debezium: {key: string}")));
        cr_expect(are_equal(RABBITMQ("vhost: /"), RABBITMQ("routing_key: \"{{topic}}\"")));
        cr_expect_not(are_equal(RABBITMQ("declare: {queues: [{name: q, bindings: [a]}]}"),
            RABBITMQ("declare: {queues: [{name: q, bindings: [b]}]}")));
        cr_expect_not(are_equal(KAFKA("properties: [a=b]"), KAFKA("properties: [a=c]")));
        cr_expect_not(are_equal(KAFKA("linger: 0"), NATS("ping: 10s")));
}

/* What a sink reads by itself is read again by a reload. */
Test(config_brokers, notice_a_file_that_was_replaced)
{
        static const char *const forms[] = {NATS("creds_file: %s"), NATS("nkey_file: %s"),
            RABBITMQ("tls: true, ca_file: %s"), KAFKA("sasl: oauthbearer, token_file: %s")};

        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
                char *file = make_file("one", 3);
                char *before = strstr(forms[i], "%s");
                char *text = xasprintf(
                    "%.*s%s%s", (int)(before - forms[i]), forms[i], file, before + strlen("%s"));
                struct config *first = load("%s", text);
                struct config *second = load("%s", text);
                struct config *third;
                write_file(file, "three", 5);
                third = load("%s", text);
                cr_expect(sink_configs_are_equal(&first->sinks[0], &second->sinks[0]));
                cr_expect_not(sink_configs_are_equal(&first->sinks[0], &third->sinks[0]));
                config_free(first);
                config_free(second);
                config_free(third);
                free(text);
                remove_file(file);
        }
}

Test(config_brokers, say_where_they_deliver_to)
{
        static const struct {
                const char *text;
                const char *target;
        } cases[] = {
            {PG SINK "    nats: {servers: [\"tls://h:1\", b]}\n",
                "NATS h:1 and 1 more, subject events.{{topic}}"},
            {RABBITMQ("vhost: v"), "RabbitMQ h, virtual host v, exchange x"},
            {RABBITMQ_ALL("servers: [\"amqp://h\"], exchange: \"\""),
                "RabbitMQ h, queue {{topic}}"},
            {KAFKA("topic: t"), "Kafka h, topic t"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load("%s", cases[i].text);
                char *target = sink_config_target(&config->sinks[0]);
                cr_expect_str_eq(target, cases[i].target);
                free(target);
                config_free(config);
        }
}

Test(config_brokers, are_one_kind_of_sink_each)
{
        refuse("3:5",
            "has more than one destination; exactly one of these is needed: redis, http, "
            "email, nats, rabbitmq, kafka, postgres, stdout, module",
            PG SINK "    nats: {servers: [h]}\n    kafka: {brokers: [h]}\n");
}

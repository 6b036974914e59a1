/*
 * The whole program writes to a real Redis as Debezium Server does: events of the database's types,
 * and their entries byte for byte. The texts are those of Debezium 3.2.1, as in
 * tests/unit/sinks/format/test_debezium.c.
 */
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#define U              "17b4d294-74f5-4087-879b-38d3a40d5d6"
#define TEXT(optional) "{\"schema\":{\"type\":\"string\",\"optional\":" optional "},\"payload\":"
#define NAMED(optional, name)                                                                      \
        "{\"schema\":{\"type\":\"string\",\"optional\":" optional                                  \
        ",\"name\":\"io.debezium.data." name "\",\"version\":1},\"payload\":"

enum { N_EVENTS = 3 };

static void publish_events(PGconn *connection)
{
        database_exec(connection,
            "INSERT INTO courier.outbox (event_id, topic, key, type, payload, data, headers) "
            "VALUES ('" U "1', 'orders', '17', 'order.created', "
            "        '{\"order\": 17, \"total\": 1.50, \"note\": null}', NULL, "
            "        '{\"tenant\": \"ann\", \"try\": 5, \"big\": 3000000000, \"ratio\": 0.5, "
            "          \"vip\": true, \"none\": null, \"tags\": [\"a\"]}'), "
            "       ('" U "2', 'orders', NULL, NULL, 'null', NULL, NULL), "
            "       ('" U
            "3', 'orders', E'k\"\\n\xf0\x9f\x98\x80', NULL, NULL, '\\x01ff61', NULL)");
}

#define SINK(name, keys)                                                                           \
        "  - name: " name "\n"                                                                     \
        "    topics: [\"**\"]\n"                                                                   \
        "    start: beginning\n"                                                                   \
        "    redis: {url: \"unix://%s\", stream: " name ", " keys "}\n"

static struct relay_process *start(const struct relay_fixture *fixture)
{
        const char *socket = fixture->redis.socket_path;

        return relay_start(
            "postgres: {dsn: \"%s\"}\n"
            "sinks:\n" SINK("server", "layout: debezium-extended") SINK("plain",
                "layout: debezium-extended, debezium: {key: json, value: json, "
                "headers: json, context: shop, type_header: eventType}")
                SINK("expanded", "layout: debezium-extended, debezium: {key: json, value: "
                                 "expanded, headers: json, tombstone: true}")
                    SINK("strings", "layout: debezium-extended, debezium: {key: string, "
                                    "value: string, headers: string, null_key: none}")
                        SINK("compact", "layout: debezium-compact")
                            SINK("compact-strings", "layout: debezium-compact, exactly_once: true, "
                                                    "debezium: {key: string, value: string}"),
            fixture->relay, socket, socket, socket, socket, socket, socket);
}

/* `expected` is names and values in any order, up to a NULL. */
static void expect_entry(
    struct relay_fixture *fixture, const char *stream, size_t i, const char *const *expected)
{
        redisReply *entries = redis_server_run(&fixture->redis, "XRANGE %s - +", stream);
        const redisReply *fields;
        size_t n_expected = 0;

        cr_assert(entries->elements == N_EVENTS, "%zu in %s", entries->elements, stream);
        fields = entries->element[i]->element[1];
        for (; expected[n_expected] != NULL; n_expected += 2) {
                size_t at = 0;

                while (at < fields->elements &&
                       strcmp(fields->element[at]->str, expected[n_expected]) != 0)
                        at += 2;
                cr_assert(at < fields->elements, "%s of %s has no %s", expected[0], stream,
                    expected[n_expected]);
                cr_expect_str_eq(fields->element[at + 1]->str, expected[n_expected + 1],
                    "%s of entry %zu of %s", expected[n_expected], i, stream);
        }
        cr_expect(fields->elements == n_expected, "%zu instead of %zu in entry %zu of %s",
            fields->elements, n_expected, i, stream);
        freeReplyObject(entries);
}

#define EXPECT_ENTRY(stream, i, ...)                                                               \
        expect_entry(&fixture, stream, i, (const char *const[]){__VA_ARGS__, NULL})

#define PAYLOAD      "{\"order\": 17, \"total\": 1.50, \"note\": null}"
#define QUOTED       "\"{\\\"order\\\": 17, \\\"total\\\": 1.50, \\\"note\\\": null}\""
#define NUMBER(type) "{\"schema\":{\"type\":\"" type "\",\"optional\":false},\"payload\":"
#define BASE64       "{\"schema\":{\"type\":\"bytes\",\"optional\":true},\"payload\":\"Af9h\"}"
#define SMILE        "\"k\\\"\\n\\uD83D\\uDE00\""
#define CONTEXT                                                                                    \
        "__DEBEZIUM.CONTEXT.CONNECTORLOGICALNAME", "\"shop\"", "__DEBEZIUM.CONTEXT.TASKID",        \
            "\"0\"", "__DEBEZIUM.CONTEXT.CONNECTORNAME", "\"postgresql\""
#define PLAIN_HEADERS                                                                              \
        "TENANT", "\"ann\"", "TRY", "5", "BIG", "3000000000", "RATIO", "0.5", "VIP", "true",       \
            "NONE", "null", "TAGS", "\"[\\\"a\\\"]\""

Test(redis_debezium, writes_entries_as_debezium_server_does, .timeout = 120)
{
        static const char *const streams[] = {
            "server", "plain", "expanded", "strings", "compact", "compact-strings"};
        struct relay_fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture, postgres_shared());
        publish_events(fixture.admin);
        relay = start(&fixture);
        for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
                relay_fixture_await(&fixture, streams[i], N_EVENTS);
        relay_stop(relay);

        EXPECT_ENTRY("server", 0, "key", TEXT("false") "\"17\"}", "value",
            NAMED("true", "Json") QUOTED "}", "ID", NAMED("false", "Uuid") "\"" U "1\"}", "TENANT",
            TEXT("false") "\"ann\"}", "TRY", NUMBER("int32") "5}", "BIG",
            NUMBER("int64") "3000000000}", "RATIO", NUMBER("double") "0.5}", "VIP",
            NUMBER("boolean") "true}", "NONE", TEXT("true") "null}", "TAGS",
            NAMED("false", "Json") "\"[\\\"a\\\"]\"}");
        EXPECT_ENTRY("server", 1, "key", TEXT("true") "null}", "value",
            NAMED("true", "Json") "null}", "ID", NAMED("false", "Uuid") "\"" U "2\"}");
        EXPECT_ENTRY("server", 2, "key", TEXT("false") SMILE "}", "value", BASE64, "ID",
            NAMED("false", "Uuid") "\"" U "3\"}");

        EXPECT_ENTRY("plain", 0, "key", "\"17\"", "value", QUOTED, "ID", "\"" U "1\"", CONTEXT,
            "EVENTTYPE", "\"order.created\"", PLAIN_HEADERS);
        EXPECT_ENTRY("plain", 1, "key", "null", "value", "null", "ID", "\"" U "2\"", CONTEXT);
        EXPECT_ENTRY("plain", 2, "key", SMILE, "value", "\"Af9h\"", "ID", "\"" U "3\"", CONTEXT);

        EXPECT_ENTRY("expanded", 0, "key", "\"17\"", "value", "{\"order\":17,\"total\":1.5}", "ID",
            "\"" U "1\"", PLAIN_HEADERS);
        EXPECT_ENTRY("expanded", 1, "key", "null", "value", "default", "ID", "\"" U "2\"");

        EXPECT_ENTRY("strings", 0, "key", "17", "value", PAYLOAD, "ID", U "1", "TENANT", "ann",
            "TRY", "5", "BIG", "3000000000", "RATIO", "0.5", "VIP", "true", "NONE", "null", "TAGS",
            "[\"a\"]");
        EXPECT_ENTRY("strings", 1, "key", "none", "value", "default", "ID", U "2");
        EXPECT_ENTRY("strings", 2, "key", "k\"\n\xf0\x9f\x98\x80", "value",
            "\x01\xff"
            "a",
            "ID", U "3");

        EXPECT_ENTRY("compact", 0, TEXT("false") "\"17\"}", NAMED("true", "Json") QUOTED "}");
        EXPECT_ENTRY("compact", 1, TEXT("true") "null}", NAMED("true", "Json") "null}");
        EXPECT_ENTRY("compact", 2, TEXT("false") SMILE "}", BASE64);
        EXPECT_ENTRY("compact-strings", 0, "17", PAYLOAD);
        EXPECT_ENTRY("compact-strings", 1, "default", "default");
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

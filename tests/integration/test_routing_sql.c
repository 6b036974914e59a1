/*
 * Routing by the real statement in a real database: that it lets through exactly what the C rules
 * say, and what only the database can judge, the filters.
 */
#include "base/alloc.h"
#include "outbox/routing.h"
#include "outbox/session.h"
#include "store_rig.h"
#include "support/reader.h"
#include "text/topic_pattern.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Through an integer: the lists are not written to. */
#define LIST(...)                                                                                  \
        (char *const *)(uintptr_t)(const char *const[])                                            \
        {                                                                                          \
                __VA_ARGS__                                                                        \
        }
#define COUNT(...) (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#define TOPICS(...)  .topics = LIST(__VA_ARGS__), .n_topics = COUNT(__VA_ARGS__)
#define TYPES(...)   .types = LIST(__VA_ARGS__), .n_types = COUNT(__VA_ARGS__)
#define HEADERS(...) .headers = LIST(__VA_ARGS__), .n_headers = COUNT(__VA_ARGS__)

/* The ids, separated by blanks. */
static const char *ids_of(const struct page *page)
{
        static char text[4096];
        size_t length = 0;

        text[0] = '\0';
        for (size_t i = 0; i < page->n_events; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%" PRId64,
                    i > 0 ? " " : "", page->events[i].id);
        return text;
}

static void expect_ids(struct store_rig *rig, const struct routing *routing, const char *ids)
{
        const struct page *page = store_rig_read_page_for(rig, &routing, 1);

        cr_assert_not_null(page);
        cr_expect_str_eq(ids_of(page), ids);
}

Test(routing_sql, chooses_by_topic)
{
        struct test_database fixture = test_database_make();
        struct store_rig *rig;

        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload) SELECT topic, '0' FROM unnest('{"
            "orders.created,orders.eu.created,orders,refunds.created,a%b_c,axbyc}'::text[]) topic");
        rig = store_rig_open(fixture.dsn);
        expect_ids(rig, &(struct routing){TOPICS("**")}, "1 2 3 4 5 6");
        expect_ids(rig, &(struct routing){TOPICS("*")}, "3 5 6");
        expect_ids(rig, &(struct routing){TOPICS("orders.*")}, "1");
        expect_ids(rig, &(struct routing){TOPICS("orders.**")}, "1 2");
        expect_ids(rig, &(struct routing){TOPICS("orders**")}, "1 2 3");
        expect_ids(rig, &(struct routing){TOPICS("**.created", "!orders.eu.*")}, "1 4");
        expect_ids(rig, &(struct routing){TOPICS("!orders", "**", "!refunds.**")}, "1 2 5 6");
        expect_ids(rig, &(struct routing){TOPICS("a%b_c", "orders", "refunds.*")}, "3 4 5");
        expect_ids(rig, &(struct routing){TOPICS("a%b_**")}, "5");
        expect_ids(rig, &(struct routing){TOPICS("orders*", "orders.eu.*")}, "2 3");
        expect_ids(rig, &(struct routing){TOPICS("**", "!orders*", "!orders.eu.*")}, "1 4 5 6");
        expect_ids(rig, &(struct routing){TOPICS("a.b", "[a-z]*", "^", "(")}, "");
        store_rig_close(rig);
        test_database_drop(&fixture);
}

Test(routing_sql, chooses_by_type_and_by_headers)
{
        struct test_database fixture = test_database_make();
        struct store_rig *rig;

        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload, type, headers) VALUES"
            " ('t', '0', 'order.created', '{\"region\": \"eu\", \"n\": 5}'),"
            " ('t', '0', 'order.paid', '{\"region\": \"us\", \"x\": null}'),"
            " ('t', '0', 'refund', '{\"a=b\": \"c\", \"region\": \"eu\"}'),"
            " ('t', '0', NULL, NULL)");
        rig = store_rig_open(fixture.dsn);
        expect_ids(rig, &(struct routing){TOPICS("**"), TYPES("order.paid")}, "2");
        expect_ids(rig, &(struct routing){TOPICS("**"), TYPES("order.*", "x.**")}, "1 2");
        expect_ids(rig, &(struct routing){TOPICS("**"), TYPES("**")}, "1 2 3");
        expect_ids(rig, &(struct routing){TOPICS("**"), TYPES("**", "!order.c*")}, "2 3");
        expect_ids(rig, &(struct routing){TOPICS("**"), HEADERS("region")}, "1 2 3");
        expect_ids(rig, &(struct routing){TOPICS("**"), HEADERS("region=eu")}, "1 3");
        expect_ids(rig, &(struct routing){TOPICS("**"), HEADERS("region=eu", "n=5")}, "1");
        expect_ids(rig, &(struct routing){TOPICS("**"), HEADERS("x")}, "2");
        expect_ids(rig, &(struct routing){TOPICS("**"), HEADERS("a=b")}, "");
        expect_ids(
            rig, &(struct routing){TOPICS("**"), TYPES("order.*"), HEADERS("region=eu")}, "1");
        store_rig_close(rig);
        test_database_drop(&fixture);
}

Test(routing_sql, reads_for_a_thousand_receivers_with_one_statement)
{
        enum { N = 1000 };
        struct test_database fixture = test_database_make();
        static struct routing routings[N];
        static const struct routing *list[N];
        static char topics[N][24];
        static char *patterns[N][1];
        struct store_rig *rig;

        for (size_t i = 0; i < N; i++) {
                snprintf(topics[i], sizeof topics[i], "shop%zu.*", i);
                patterns[i][0] = topics[i];
                routings[i] =
                    (struct routing){.topics = patterns[i], .n_topics = 1, .is_receiver = true};
                list[i] = &routings[i];
        }
        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload) SELECT 'shop' || i || '.x', "
            "json_build_object('n', i) FROM generate_series(990, 1009) AS i");
        rig = store_rig_open(fixture.dsn);
        cr_expect_eq(
            store_rig_read_page_for(rig, list, N)->n_events, 20, "more than it could ask for");
        cr_expect_eq(store_rig_read_page_for(rig, list, 5)->n_events, 0, "only what one takes");
        cr_expect_eq(store_rig_read_page_for(rig, NULL, 0)->n_events, 0);
        store_rig_close(rig);
        test_database_drop(&fixture);
}

/* ---- the statement and the C rules ---------------------------------------------------------- */

static unsigned dice;

static unsigned roll(unsigned n)
{
        dice = dice * 1664525U + 1013904223U;
        return (dice >> 8) % n;
}

/* A pattern, or a topic if without wildcards, of up to five parts. */
static void invent(char *text, bool is_pattern)
{
        static const char *const parts[] = {"a", "b", ".", "ab", "%", "\\", "*", "**"};
        unsigned n = 1 + roll(5);

        text[0] = '\0';
        if (is_pattern && roll(4) == 0)
                strcat(text, "!");
        while (n-- > 0)
                strcat(text, parts[roll(is_pattern ? 8 : 6)]);
        if (strstr(text, "***") != NULL || strcmp(text, "!") == 0)
                strcpy(text, "a.*");
}

enum { N_EVENTS = 60, N_PATTERNS = 4 };

static PGresult *read_all(PGconn *connection, const struct routing_params *route)
{
        const char *by_param[N_PAGE_PARAMS] = {[PAGE_FROM_FLOOR] = "0",
            [PAGE_ABOVE] = "0",
            [PAGE_UPTO] = "1000",
            [PAGE_MAX_EVENTS] = "1000",
            [PAGE_MAX_EVENT_BYTES] = "100000"};
        const char *values[N_PAGE_PARAMS];
        struct page_shape shape = page_shape_of(route);
        struct page_text text;
        PGresult *result;

        memcpy(&by_param[PAGE_ROUTE], route->values, sizeof route->values);
        shape.is_opening = true;
        page_text_render(&text, &shape);
        for (int i = 0; i < text.n_params; i++)
                values[i] = by_param[text.params[i]];
        result = PQexecParams(connection, text.sql, text.n_params, NULL, values, NULL, NULL, 0);
        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(connection));
        page_text_deinit(&text);
        return result;
}

/* courier.pattern_matches() for each event's topic; the pattern has no `!`. */
static void expect_sql_agreement(PGconn *connection, const char *pattern, const char *const *topics)
{
        PGresult *result = PQexecParams(connection,
            "SELECT courier.pattern_matches($1, topic) FROM courier.outbox ORDER BY id", 1, NULL,
            &pattern, NULL, NULL, 0);

        cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(connection));
        for (int i = 0; i < N_EVENTS; i++)
                cr_assert(topic_pattern_matches(pattern, topics[i]) ==
                              (PQgetvalue(result, i, 0)[0] == 't'),
                    "%s with %s", topics[i], pattern);
        PQclear(result);
}

static void expect_agreement(PGconn *connection, const struct routing *routing,
    const char *const *topics, const char *const *types)
{
        struct routing_params params;
        PGresult *result;
        int row = 1;

        routing_params_init(&params, &routing, 1);
        cr_assert(params.is_exact);
        result = read_all(connection, &params);
        for (int i = 0; i < N_EVENTS; i++) {
                const struct event event = {.topic = topics[i], .type = types[i]};
                bool expected = routing_matches(routing, &event);
                bool found = row < PQntuples(result) && atoi(PQgetvalue(result, row, 0)) == i + 1;

                cr_assert(found == expected, "%s of type %s with %s %s (%zu): %d", topics[i],
                    types[i] != NULL ? types[i] : "-", routing->topics[0], routing->topics[1],
                    routing->n_topics, found);
                row += found;
        }
        cr_assert_eq(row, PQntuples(result));
        PQclear(result);
        routing_params_deinit(&params);
}

/* Each character that is special in some pattern language stands for itself, wherever patterns
 * are judged: in C, by the statement of a page (as a literal, with LIKE, as a regular
 * expression), and by the schema's function. */
Test(routing_sql, takes_every_character_for_itself)
{
        static const struct {
                const char *before, *behind;
        } forms[] = {
            {"", ""}, {"x", ""}, {"x", "*"}, {"*", "*"}, {"*", "x"}, {"x*", "**"}, {"", "*x"}};
        enum { N_FORMS = sizeof forms / sizeof *forms };
        struct test_database fixture = test_database_make();
        PGconn *relay = database_connect(fixture.relay);
        const char *special[] = {".", "\\", "+", "?", "(", ")", "[", "]", "{", "}", "|", "^", "$",
            "#", "-", "_", "%", "&", "~", "/", " ", "'", "\"", "!", ",", ":", "=", "<", "0", "B",
            "é", "ß", "١", "日", "·", "😀"};
        enum { N_SPECIAL = sizeof special / sizeof *special };
        char texts[N_EVENTS][64];
        const char *topics[N_EVENTS], *types[N_EVENTS] = {NULL};

        for (size_t i = 0; i < N_EVENTS; i++) {
                snprintf(texts[i], sizeof texts[i], "%s%s%s%s", i < N_SPECIAL ? "x" : "",
                    special[i % N_SPECIAL], special[i % 5], i < N_SPECIAL ? "" : "x");
                topics[i] = texts[i];
                PQclear(PQexecParams(fixture.admin,
                    "INSERT INTO courier.outbox (topic, payload) VALUES ($1, '0')", 1, NULL,
                    &topics[i], NULL, NULL, 0));
        }
        for (size_t i = 0; i < N_SPECIAL; i++)
                for (size_t j = 0; j < N_FORMS; j++) {
                        char pattern[64];
                        char *list[2] = {pattern, pattern};
                        const struct routing routing = {.topics = list, .n_topics = 1};

                        snprintf(pattern, sizeof pattern, "%s%s%s", forms[j].before, special[i],
                            forms[j].behind);
                        if (pattern[0] == '!')
                                continue;
                        expect_agreement(relay, &routing, topics, types);
                        expect_sql_agreement(relay, pattern, topics);
                }
        PQfinish(relay);
        test_database_drop(&fixture);
}

Test(routing_sql, agrees_with_the_rules_in_c)
{
        struct test_database fixture = test_database_make();
        PGconn *relay = database_connect(fixture.relay);
        char texts[2 * N_EVENTS][64], patterns[2 * N_PATTERNS][64];
        const char *topics[N_EVENTS], *types[N_EVENTS];
        char *lists[2 * N_PATTERNS];
        PGresult *result;

        for (size_t i = 0; i < N_EVENTS; i++) {
                const char *row[2];

                invent(texts[2 * i], false);
                invent(texts[2 * i + 1], false);
                row[0] = topics[i] = texts[2 * i];
                row[1] = types[i] = i % 4 == 0 ? NULL : texts[2 * i + 1];
                result = PQexecParams(fixture.admin,
                    "INSERT INTO courier.outbox (topic, payload, type) VALUES ($1, '0', $2)", 2,
                    NULL, row, NULL, NULL, 0);
                cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK);
                PQclear(result);
        }
        for (size_t i = 0; i < 2 * N_PATTERNS; i++)
                lists[i] = patterns[i];
        for (int round = 0; round < 400; round++) {
                struct routing routing = {.topics = lists,
                    .n_topics = 1 + roll(N_PATTERNS),
                    .types = lists + N_PATTERNS,
                    .n_types = roll(2) * roll(N_PATTERNS)};

                for (size_t i = 0; i < 2 * N_PATTERNS; i++)
                        invent(patterns[i], true);
                if (roll(4) == 0)
                        strcpy(patterns[0], "**");
                expect_agreement(relay, &routing, topics, types);
                expect_sql_agreement(relay, patterns[0] + (patterns[0][0] == '!'), topics);
        }
        PQfinish(relay);
        test_database_drop(&fixture);
}

/* Its regular expression would be too long, so everything is read, and judged here. */
Test(routing_sql, takes_what_it_should_with_very_many_patterns)
{
        enum { N = 900 };
        struct test_database fixture = test_database_make();
        static char texts[N][24];
        static char *patterns[N];
        const struct routing routing = {.topics = patterns, .n_topics = N};
        struct store_rig *rig;

        for (size_t i = 0; i < N; i++) {
                snprintf(texts[i], sizeof texts[i], "*.shop%zu.*", i);
                patterns[i] = texts[i];
        }
        database_exec(fixture.admin,
            "INSERT INTO courier.outbox (topic, payload) SELECT 'a.shop' || i || '.x', '0' "
            "FROM generate_series(890, 909) AS i");
        rig = store_rig_open(fixture.dsn);
        expect_ids(rig, &routing, "1 2 3 4 5 6 7 8 9 10");
        cr_expect_eq(rig->page->upto, 20);
        store_rig_close(rig);
        test_database_drop(&fixture);
}

/* ---- along the stream ------------------------------------------------------------------------ */

static const char *deliveries(const struct reader *reader)
{
        static char text[1024];
        size_t length = 0;

        text[0] = '\0';
        for (size_t i = 0; i < reader->n_deliveries; i++)
                length += (size_t)snprintf(text + length, sizeof text - length, "%s%s",
                    i > 0 ? " " : "", reader->payloads[i]);
        return text;
}

Test(routing_sql, holds_for_stragglers_too)
{
        struct test_database fixture = test_database_make();
        PGconn *slow = database_connect(fixture.dsn);
        struct reader *reader =
            reader_open(fixture.relay, &(struct reader_options){.start = START_BEGINNING,
                                           .routing = {TOPICS("orders.*", "!orders.test"),
                                               TYPES("**", "!no"), HEADERS("h=1")}});
#define ROW(topic, type, header, payload)                                                          \
        "INSERT INTO courier.outbox (topic, type, headers, payload) VALUES ('" topic "', '" type   \
        "', '{\"h\": \"" header "\"}', '" payload "');"

        database_exec(slow, "BEGIN;" ROW("orders.a", "y", "1", "3")
                                ROW("orders.test", "y", "1", "4") ROW("orders.a", "no", "1", "5")
                                    ROW("orders.a", "y", "2", "6") ROW("users.a", "y", "1", "7"));
        database_exec(fixture.admin, ROW("orders.b", "y", "1", "8"));
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader), "8");
        database_exec(slow, ROW("orders.c", "y", "1", "9") "COMMIT");
        reader_catch_up(reader);
        cr_expect_str_eq(deliveries(reader), "8 3 9");
        reader_close(reader);
        PQfinish(slow);
        test_database_drop(&fixture);
}

Test(routing_sql, refuses_to_begin_with_a_filter_that_is_none)
{
        static const struct {
                const char *filter, *words;
        } cases[] = {
            {"$.amount >", "sink test"},
            {"$.amount >", "syntax error"},
            {"$.vip", "it is not a predicate"},
            {"$.items[*] ? (@.price > 1)", "exists("},
            {"$amount > 1", "could not find jsonpath variable \"amount\""},
            {"$.a like_regex \"(\"", "parentheses () not balanced"},
        };
        struct test_database fixture = test_database_make();

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct reader *reader = reader_open(fixture.relay,
                    &(struct reader_options){.routing = {TOPICS("**"), .filter = cases[i].filter}});

                cr_expect(!reader->is_owned);
                cr_expect_eq(reader->refused.kind, ERROR_CONFIG);
                cr_expect_not_null(strstr(reader->refused.text, cases[i].words), "%s: %s",
                    cases[i].filter, reader->refused.text);
                reader_close(reader);
        }
        test_database_drop(&fixture);
}

/* What becomes of the headers of an event, a JSON object of any values. */
#include "outbox/event_row.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_headers(const char *json, const struct event_header *expected, size_t n_expected)
{
        char jsonb[512] = "\1";
        struct event_headers owner = {0};
        struct event event = {0};

        strcat(jsonb, json);
        event_headers_read(&owner, jsonb, strlen(jsonb), &event);
        cr_assert_eq(event.n_headers, n_expected, "%zu headers of %s", event.n_headers, json);
        for (size_t i = 0; i < n_expected; i++) {
                cr_expect_str_eq(event.headers[i].name, expected[i].name);
                cr_expect_str_eq(event.headers[i].value, expected[i].value);
        }
        event_headers_deinit(&owner);
}

#define EXPECT(json, ...)                                                                          \
        expect_headers(json, (const struct event_header[]){__VA_ARGS__},                           \
            sizeof((const struct event_header[]){__VA_ARGS__}) / sizeof(struct event_header))

Test(event_headers, keep_numbers_as_they_were_written)
{
        EXPECT("{\"big\": 123456789012345678901234567890, \"tenth\": 0.1, \"scale\": 12.50, "
               "\"negative\": -1e-7}",
            {"big", "123456789012345678901234567890"}, {"tenth", "0.1"}, {"scale", "12.50"},
            {"negative", "-1e-7"});
}

Test(event_headers, keep_numbers_within_lists_and_objects)
{
        EXPECT("{\"list\": [1, 0.10, \"a, 5\"], \"object\": {\"n\": 98765432109876543210, \"t\": "
               "\"x\\\"1\"}}",
            {"list", "[1,0.10,\"a, 5\"]"},
            {"object", "{\"n\":98765432109876543210,\"t\":\"x\\\"1\"}"});
}

Test(event_headers, leave_digits_in_texts_alone)
{
        EXPECT("{\"a1\": \"b 2\", \"c\": \"-3\", \"d\": true, \"e\": null, \"f\": \"\\\\\"}",
            {"a1", "b 2"}, {"c", "-3"}, {"d", "true"}, {"e", "null"}, {"f", "\\"});
}

/* The reader marks numbers with this character. */
Test(event_headers, take_no_text_for_a_number_whatever_it_begins_with)
{
        EXPECT("{\"\\u0001a\": \"\\u0001}, {\", \"b\": [\"\\u00015\", \"\\\"\\u0001\", 5]}",
            {"\x01\x61", "\x01}, {"}, {"b", "[\"\\u00015\",\"\\\"\\u0001\",5]"});
}

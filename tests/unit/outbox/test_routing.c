/* Which events a routing takes, and that no pattern is slow to say so. */
#include "outbox/page.h"
#include "outbox/routing.h"
#include "text/topic_pattern.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void expect_match(const char *pattern, const char *text, bool expected)
{
        cr_expect(topic_pattern_matches(pattern, text) == expected, "%s on %s: not %d", pattern,
            text, expected);
}

Test(topic_pattern, stands_for_itself_without_a_wildcard)
{
        expect_match("orders", "orders", true);
        expect_match("orders", "order", false);
        expect_match("orders", "orders.", false);
        expect_match("orders.created", "orders.created", true);
        expect_match("orders.created", "ordersxcreated", false);
        expect_match("Orders", "orders", false);
        expect_match("a%_\\b[c]^$", "a%_\\b[c]^$", true);
        expect_match("\xc3\xa4", "\xc3\xa4", true);
}

Test(topic_pattern, keeps_one_star_within_a_segment)
{
        expect_match("*", "orders", true);
        expect_match("*", "orders.created", false);
        expect_match("orders.*", "orders.created", true);
        expect_match("orders.*", "orders.", true);
        expect_match("orders.*", "orders", false);
        expect_match("orders.*", "orders.eu.created", false);
        expect_match("*.created", "orders.created", true);
        expect_match("*.created", ".created", true);
        expect_match("*.created", "eu.orders.created", false);
        expect_match("o*s.c*d", "orders.created", true);
        expect_match("a*b*c", "a-b-b-c", true);
        expect_match("a*b*c", "a-b.b-c", false);
        expect_match("*a.b*c", "xa.ba.bc", false);
}

Test(topic_pattern, lets_two_stars_cross_dots)
{
        expect_match("**", "orders", true);
        expect_match("**", "orders.eu.created", true);
        expect_match("orders.**", "orders.eu.created", true);
        expect_match("orders.**", "orders.", true);
        expect_match("orders.**", "orders", false);
        expect_match("orders**", "orders", true);
        expect_match("**.created", "orders.eu.created", true);
        expect_match("**.created", "created", false);
        expect_match("a.**.z", "a.z", false);
        expect_match("a.**.z", "a..z", true);
        expect_match("a.**.z", "a.b.c.z", true);
        expect_match("a.**.z", "a.b.z.c", false);
}

Test(topic_pattern, mixes_both)
{
        expect_match("**.*", "a.b.c", true);
        expect_match("*.**", "a.b.c", true);
        expect_match("**a*b", "a.ab", true);
        expect_match("**a*b", "a.a.b", false);
        expect_match("**.a*c.**.d", "x.ab.ac.y.ac.d", true);
        expect_match("*.b**c*", "a.b.x.cc", true);
        expect_match("*.b**c*", "a.b.x.cc.d", false);
}

/* What the words say, tried in every way. */
static bool matches_by_trying(const char *pattern, const char *text)
{
        if (pattern[0] == '\0')
                return text[0] == '\0';
        if (pattern[0] == '*') {
                bool crosses_dots = pattern[1] == '*';
                const char *rest = pattern + 1 + crosses_dots;

                for (;; text++) {
                        if (matches_by_trying(rest, text))
                                return true;
                        if (*text == '\0' || (*text == '.' && !crosses_dots))
                                return false;
                }
        }
        return *pattern == *text && matches_by_trying(pattern + 1, text + 1);
}

/* The `number`th text of so many letters. */
static void spell(char *text, size_t length, const char *letters, unsigned number)
{
        size_t n_letters = strlen(letters);

        for (size_t i = 0; i < length; i++, number /= (unsigned)n_letters)
                text[i] = letters[number % n_letters];
        text[length] = '\0';
}

Test(topic_pattern, agrees_with_trying_every_way_on_all_short_texts)
{
        char pattern[8], text[8];
        unsigned n_matches = 0;

        for (unsigned i = 0; i < 4 * 4 * 4 * 4 * 4 * 4; i++) {
                spell(pattern, 6, "*a.b", i);
                if (strstr(pattern, "***") != NULL)
                        continue;
                for (unsigned j = 0; j < 3 * 3 * 3 * 3 * 3; j++) {
                        spell(text, 5, "a.b", j);
                        bool expected = matches_by_trying(pattern, text);

                        n_matches += expected;
                        cr_assert(topic_pattern_matches(pattern, text) == expected, "%s on %s: %d",
                            pattern, text, !expected);
                }
        }
        cr_expect(n_matches > 1000);
}

/* With a search that tries every way, none of these would end in our lifetime. */
Test(topic_pattern, is_never_slow, .timeout = 10)
{
        char pattern[256] = "", text[256];

        memset(text, 'a', 255);
        text[255] = '\0';
        while (strlen(pattern) < 250)
                strcat(pattern, "**a");
        strcat(pattern, "**b");
        for (int i = 0; i < 100; i++)
                expect_match(pattern, text, false);
        for (size_t i = 2; i < 255; i += 3)
                text[i] = '.';
        pattern[0] = '\0';
        while (strlen(pattern) < 240)
                strcat(pattern, "**a*a*");
        strcat(pattern, "**b");
        for (int i = 0; i < 100; i++)
                expect_match(pattern, text, false);
        for (int i = 0; i < 100; i++)
                expect_match("**a*a*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", text, false);
}

Test(topic_pattern, says_what_is_wrong_with_one)
{
        char longest[258];

        memset(longest, 'x', sizeof longest);
        longest[0] = '!';
        longest[256] = '\0';
        cr_expect_null(topic_pattern_check("orders.*"));
        cr_expect_null(topic_pattern_check("!orders.**"));
        cr_expect_null(topic_pattern_check("a!b"));
        cr_expect_null(topic_pattern_check(longest));
        cr_expect_str_eq(topic_pattern_check(""), "is empty; ** matches everything");
        cr_expect_str_eq(topic_pattern_check("!"), "is empty; ** matches everything");
        cr_expect_str_eq(
            topic_pattern_check("!!a"), "begins with two !; one excludes what the pattern matches");
        cr_expect_str_eq(topic_pattern_check("a.***"),
            "has more than two * in a row; * stands for any run of characters without a dot, ** "
            "for "
            "any run at all");
        cr_expect_str_eq(
            topic_pattern_check("a\tb"), "holds a control character, which no topic or type has");
        longest[256] = 'x';
        longest[257] = '\0';
        cr_expect_str_eq(topic_pattern_check(longest), "is longer than 255 bytes");
        cr_expect_str_eq(topic_pattern_check(longest + 1), "is longer than 255 bytes");
}

/* Through an integer: the lists are not written to. */
#define LIST(...)                                                                                  \
        (char *const *)(uintptr_t)(const char *const[])                                            \
        {                                                                                          \
                __VA_ARGS__                                                                        \
        }
#define COUNT(...) (sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
#define TEXTS(...) LIST(__VA_ARGS__), COUNT(__VA_ARGS__)

Test(topic_patterns, must_not_only_exclude)
{
        static const char only_excludes[] =
            "only excludes; begin with a pattern that includes, as in [\"**\", \"!a.*\"]";

        cr_expect_null(topic_patterns_check(NULL, 0));
        cr_expect_null(topic_patterns_check(TEXTS("!a", "**")));
        cr_expect_str_eq(topic_patterns_check(TEXTS("!a", "!b")), only_excludes);
}

Test(topic_patterns, take_a_topic_that_one_matches_and_none_excludes)
{
        cr_expect(topic_patterns_match(TEXTS("a.*", "b.*"), "b.c"));
        cr_expect(!topic_patterns_match(TEXTS("a.*", "b.*"), "c.c"));
        cr_expect(!topic_patterns_match(TEXTS("**", "!a.*"), "a.b"));
        cr_expect(!topic_patterns_match(TEXTS("!a.*", "**", "a.b"), "a.b"), "whatever the order");
        cr_expect(topic_patterns_match(TEXTS("**", "!a.*"), "a.b.c"));
        cr_expect(!topic_patterns_match(TEXTS("!a.*"), "b"));
        cr_expect(!topic_patterns_match(NULL, 0, "a"));
}

static const struct event_header headers[] = {{"region", "eu"}, {"trace", "a=b"}, {"empty", ""}};
static const struct event created = {
    .topic = "orders.created", .type = "order.created", .headers = headers, .n_headers = 3};

#define TOPICS(...)  .topics = LIST(__VA_ARGS__), .n_topics = COUNT(__VA_ARGS__)
#define TYPES(...)   .types = LIST(__VA_ARGS__), .n_types = COUNT(__VA_ARGS__)
#define HEADERS(...) .headers = LIST(__VA_ARGS__), .n_headers = COUNT(__VA_ARGS__)
#define TAKES(...)   routing_matches(&(struct routing){TOPICS("**"), __VA_ARGS__}, &created)

Test(routing, chooses_by_type)
{
        struct event untyped = created;
        const struct routing routing = {TOPICS("**"), TYPES("**")};

        cr_expect(TAKES(TYPES("order.*")));
        cr_expect(TAKES(TYPES("refund.*", "order.created")));
        cr_expect(!TAKES(TYPES("refund.*")));
        cr_expect(!TAKES(TYPES("**", "!order.*")));
        untyped.type = NULL;
        cr_expect(!routing_matches(&routing, &untyped), "** is any type, but no type is none");
}

Test(routing, chooses_by_headers)
{
        cr_expect(TAKES(HEADERS("region=eu")));
        cr_expect(TAKES(HEADERS("region")));
        cr_expect(TAKES(HEADERS("trace=a=b", "region=eu")));
        cr_expect(TAKES(HEADERS("empty=")));
        cr_expect(TAKES(HEADERS("empty")));
        cr_expect(!TAKES(HEADERS("region=us")));
        cr_expect(!TAKES(HEADERS("region=")));
        cr_expect(!TAKES(HEADERS("regio")));
        cr_expect(!TAKES(HEADERS("regions")));
        cr_expect(!TAKES(HEADERS("region=eu", "absent")), "all must hold");
}

Test(routing, demands_all_of_it)
{
        cr_expect(TAKES(TYPES("order.*"), HEADERS("region")));
        cr_expect(!TAKES(TYPES("refund.*"), HEADERS("region")));
        cr_expect(!TAKES(TYPES("order.*"), HEADERS("absent")));
        cr_expect(!routing_matches(&(struct routing){TYPES("**")}, &created), "no topic, no event");
}

static bool takes_topic(const char *pattern, const char *other, const char *topic, bool is_receiver)
{
        const struct routing routing = {TOPICS(pattern, other), .is_receiver = is_receiver};

        return routing_matches_topic(&routing, topic);
}

Test(routing, shows_a_receiver_our_own_events_only_when_asked_for)
{
        static const char disabled[] = "courier.receiver.disabled";

        cr_expect(takes_topic("**", "a", disabled, false));
        cr_expect(!takes_topic("**", "a", disabled, true));
        cr_expect(!takes_topic("c**", "**.disabled", disabled, true));
        cr_expect(takes_topic("a", "courier.**", disabled, true));
        cr_expect(takes_topic("a", "courier.receiver.*", disabled, true));
        cr_expect(!takes_topic("courier.**", "!**.disabled", disabled, true));
        cr_expect(takes_topic("**", "a", "couriers.x", true));
        cr_expect(takes_topic("**", "a", "courier", true));
}

#include "text/topic_index.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TEXT(text) ((char[]){text})

static struct topic_index topics;
static char found[256];

static void note(void *context, void *owner)
{
        (void)context;
        strcat(found, (const char *)owner);
        strcat(found, " ");
}

static void add(char *pattern, char *owner)
{
        char *const patterns[] = {pattern};

        topic_index_add(&topics, patterns, 1, owner);
}

static const char *owners_of(const char *topic)
{
        found[0] = '\0';
        topic_index_find(&topics, topic, note, NULL);
        return found;
}

static void end(void)
{
        topic_index_deinit(&topics);
}

TestSuite(topic_index, .fini = end);

Test(topic_index, is_empty_at_first)
{
        cr_expect_str_eq(owners_of("orders.created"), "");
}

Test(topic_index, finds_by_what_stands_before_the_first_star)
{
        add(TEXT("orders.created"), TEXT("literal"));
        add(TEXT("orders.**"), TEXT("below"));
        add(TEXT("orders.*.eu"), TEXT("within"));
        add(TEXT("**"), TEXT("all"));
        add(TEXT("invoices.**"), TEXT("other"));
        cr_expect_str_eq(owners_of("orders.created"), "all below within literal ");
        cr_expect_str_eq(owners_of("orders"), "all ");
        cr_expect_str_eq(owners_of("orders.created.eu"), "all below within literal ",
            "more than match, but none too few");
        cr_expect_str_eq(owners_of(""), "all ");
}

Test(topic_index, keeps_the_order_of_one_prefix_and_skips_exclusions)
{
        char *const patterns[] = {TEXT("a.**"), TEXT("!a.b"), TEXT("a.*")};

        add(TEXT("a.*"), TEXT("first"));
        topic_index_add(&topics, patterns, 3, TEXT("second"));
        cr_expect_str_eq(owners_of("a.b"), "first second second ");
        add(TEXT("a.**"), TEXT("third"));
        cr_expect_str_eq(owners_of("a.c"), "first second second third ", "added after a search");
}

Test(topic_index, finds_among_thousands)
{
        static char names[5000][24];

        for (size_t i = 0; i < 5000; i++) {
                char pattern[32];
                snprintf(pattern, sizeof pattern, "tenant.%zu.**", i);
                snprintf(names[i], sizeof names[i], "%zu", i);
                add(pattern, names[i]);
        }
        cr_expect_str_eq(owners_of("tenant.4711.order"), "4711 ");
        cr_expect_str_eq(owners_of("tenant.47110.order"), "");
}

Test(topic_index, takes_topics_and_patterns_of_any_length)
{
        char longest[TOPIC_PATTERN_BYTES + 1];

        memset(longest, 'x', sizeof longest - 1);
        longest[sizeof longest - 1] = '\0';
        add(longest, TEXT("longest"));
        cr_expect_str_eq(owners_of(longest), "longest ");
}

/*
 * TEXT NUL TYPE NUL ENTRY NUL ENTRY... against a matcher that tries everything: slow, so short, and
 * too simple to be wrong.
 */
#include "text/topic_pattern.h"

#include "base/alloc.h"
#include "fuzz.h"
#include "outbox/routing.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 6
#define MAX_TEXT    24
#define MAX_PATTERN 12

static bool matches(const char *pattern, const char *text)
{
        if (pattern[0] == '*' && pattern[1] == '*')
                return matches(pattern + 2, text) || (*text != '\0' && matches(pattern, text + 1));
        if (pattern[0] == '*')
                return matches(pattern + 1, text) ||
                       (*text != '\0' && *text != '.' && matches(pattern, text + 1));
        if (*text == '\0' || *pattern == '\0')
                return *text == *pattern;
        return *pattern == *text && matches(pattern + 1, text + 1);
}

static bool list_matches(char **entries, size_t n, const char *text)
{
        bool is_taken = false;

        for (size_t i = 0; i < n; i++) {
                if (entries[i][0] == '!' && matches(entries[i] + 1, text))
                        return false;
                is_taken |= entries[i][0] != '!' && matches(entries[i], text);
        }
        return is_taken;
}

static void check_routing(char **entries, size_t n, const char *text)
{
        const struct routing inner = {.topics = entries, .n_topics = n};
        const struct routing receiver = {.topics = entries, .n_topics = n, .is_receiver = true};
        const struct event event = {.topic = text};
        bool is_inner = routing_matches(&inner, &event);
        bool is_receiver = routing_matches(&receiver, &event);
        bool names_own = false;

        for (size_t i = 0; i < n; i++)
                names_own |= strncmp(entries[i], "courier.", 8) == 0;
        fuzz_require(
            is_inner == list_matches(entries, n, text), "a sink takes what its topics say", text);
        fuzz_require(is_inner || !is_receiver, "a receiver takes no more than a sink would", text);
        if (strncmp(text, "courier.", 8) == 0)
                fuzz_require(names_own || !is_receiver,
                    "news of ours go only to those that name them", text);
        else
                fuzz_require(is_inner == is_receiver, "other topics are nothing special", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *text = fuzz_take_text(&input);
        char *entries[MAX_ENTRIES];
        size_t n = 0;

        while (input.size > 0 && n < MAX_ENTRIES) {
                char *entry = fuzz_take_text(&input);

                if (strlen(entry) > MAX_PATTERN || topic_pattern_check(entry) != NULL) {
                        free(entry);
                        continue;
                }
                entries[n++] = entry;
        }
        if (strlen(text) <= MAX_TEXT && *text != '\0') {
                for (size_t i = 0; i < n; i++) {
                        const char *pattern = entries[i] + (entries[i][0] == '!');
                        fuzz_require(topic_pattern_matches(pattern, text) == matches(pattern, text),
                            "a pattern matches as described", pattern);
                }
                fuzz_require(
                    topic_patterns_match(entries, n, text) == list_matches(entries, n, text),
                    "a list matches as described", text);
                check_routing(entries, n, text);
        }
        for (size_t i = 0; i < n; i++)
                free(entries[i]);
        free(text);
        return 0;
}

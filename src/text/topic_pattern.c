/*
 * Matching goes from left to right and never looks further back than to the
 * last `*` and the last `**`. That is enough: whatever an earlier wildcard could
 * have taken, the later one can take as well. Only a `*` that meets a dot is
 * stuck, and then what stands before it, up to the last `**`, has to lie further
 * to the right.
 */
#include "text/topic_pattern.h"

#include <string.h>

const char *topic_pattern_check(const char *entry)
{
        const char *pattern = *entry == '!' ? entry + 1 : entry;

        if (*pattern == '\0')
                return "is empty; ** matches everything";
        if (*pattern == '!')
                return "begins with two !; one excludes what the pattern matches";
        if (strlen(pattern) > TOPIC_PATTERN_BYTES)
                return "is longer than 255 bytes";
        if (strstr(pattern, "***") != NULL)
                return "has more than two * in a row; * stands for any run of characters without a "
                       "dot, ** for any run at all";
        for (const char *at = pattern; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || *at == '\x7f')
                        return "holds a control character, which no topic or type has";
        return NULL;
}

const char *topic_patterns_check(char *const *entries, size_t n_entries)
{
        for (size_t i = 0; i < n_entries; i++)
                if (*entries[i] != '!')
                        return NULL;
        return n_entries == 0
                   ? NULL
                   : "only excludes; begin with a pattern that includes, as in [\"**\", \"!a.*\"]";
}

/* Where to go on when what stands behind a wildcard does not match here. */
struct wildcard {
        const char *behind; /* in the pattern; NULL: there was none yet */
        const char *end;    /* of what it has taken of the text */
};

bool topic_pattern_matches(const char *pattern, const char *text)
{
        struct wildcard any = {0}, within_segment = {0};

        while (*text != '\0') {
                if (pattern[0] == '*' && pattern[1] == '*') {
                        pattern += 2;
                        any = (struct wildcard){pattern, text};
                        within_segment.behind = NULL;
                } else if (pattern[0] == '*') {
                        pattern++;
                        within_segment = (struct wildcard){pattern, text};
                } else if (*pattern == *text) {
                        pattern++;
                        text++;
                } else if (within_segment.behind != NULL && *within_segment.end != '.') {
                        text = ++within_segment.end;
                        pattern = within_segment.behind;
                } else if (any.behind != NULL) {
                        text = ++any.end;
                        pattern = any.behind;
                        within_segment.behind = NULL;
                } else {
                        return false;
                }
        }
        return pattern[strspn(pattern, "*")] == '\0';
}

bool topic_patterns_match(char *const *entries, size_t n_entries, const char *text)
{
        bool is_matched = false;

        for (size_t i = 0; i < n_entries; i++) {
                if (*entries[i] == '!') {
                        if (topic_pattern_matches(entries[i] + 1, text))
                                return false;
                } else if (!is_matched) {
                        is_matched = topic_pattern_matches(entries[i], text);
                }
        }
        return is_matched;
}

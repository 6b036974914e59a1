/*
 * Patterns of topics and of types, as in `topics: ["orders.**", "!orders.test.**"]`:
 * `*` stands for any run of characters without a dot, `**` for any run at all
 * (both may be empty), everything else for itself. A list may hold entries that
 * begin with `!`: what one of these matches is left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOPIC_PATTERN_BYTES 255 /* the longest, without its `!`; a topic is never longer */

/* NULL, or what is wrong with it and what is allowed, to be said behind its name. */
const char *topic_pattern_check(const char *entry);

/* The same for a list as a whole; an empty one is right. */
const char *topic_patterns_check(char *const *entries, size_t n_entries);

/* `pattern` has no `!`. Takes at most time in the order of the product of the lengths. */
bool topic_pattern_matches(const char *pattern, const char *text);

/* Some entry matches, and none that begins with `!` does. */
bool topic_patterns_match(char *const *entries, size_t n_entries, const char *text);

/*
 * Allocation for small objects of our own: out of memory logs and aborts.
 * Nothing is lost by that: what was not settled is delivered again by the next
 * relay. Sizes that outsiders choose are bounded before they get here.
 */
#pragma once

#include <stddef.h>

void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull, warn_unused_result));
void *xrealloc(void *block, size_t size) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *text) __attribute__((returns_nonnull, warn_unused_result));
char *xstrndup(const char *text, size_t max) __attribute__((returns_nonnull, warn_unused_result));
char *xasprintf(const char *format, ...)
    __attribute__((returns_nonnull, warn_unused_result, format(printf, 1, 2)));

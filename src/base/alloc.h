/*
 * Allocation that does not fail: where memory is out, the process says so in one line and ends with
 * the exit code for "try again later". Nothing is lost by that: what was not settled is delivered
 * again by the next relay. Code that pretends to survive there is never tested; this is.
 * Sizes that outsiders choose are bounded before they get here.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

void *xmalloc(size_t size) __attribute__((returns_nonnull, warn_unused_result));
void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull, warn_unused_result));
void *xrealloc(void *block, size_t size) __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *text) __attribute__((returns_nonnull, warn_unused_result));
char *xstrndup(const char *text, size_t max) __attribute__((returns_nonnull, warn_unused_result));
char *xasprintf(const char *format, ...)
    __attribute__((returns_nonnull, warn_unused_result, format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list arguments)
    __attribute__((returns_nonnull, warn_unused_result, format(printf, 1, 0)));

/* For a library's function that can only have failed for want of memory. From any thread. */
void out_of_memory(void) __attribute__((noreturn));

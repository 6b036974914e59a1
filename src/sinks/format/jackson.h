/*
 * Texts and numbers as Jackson writes them into JSON with its defaults, byte for byte: the library
 * with which Debezium writes. Pure.
 */
#pragma once

#include <stddef.h>

struct bytes;

/* A string in its quotes. Control characters are \n, \t, \b, \f, \r or \u001F; a character beyond
 * U+FFFF is two escapes, \uD83D\uDE00; all others stay as they are, even a slash. What is not UTF-8
 * becomes U+FFFD. `text` may hold NUL, and has one behind its end. */
void jackson_append_text(struct bytes *out, const char *text, size_t length);

/* A finite number as Double.toString() of Java 19 and later has it: the fewest digits that mean
 * this number, "1.5", "100.0", "1.0E10". */
void jackson_append_double(struct bytes *out, double number);

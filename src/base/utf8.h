/* UTF-8 as RFC 3629 allows it: no surrogates, no overlong forms, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character at `at` in a NUL-terminated text; 0 if it is not valid. At the end,
 * 1. */
size_t utf8_char_bytes(const char *at);

bool utf8_is_valid(const char *text);
bool utf8_is_ascii(const char *text);    /* and without DEL */
bool utf8_has_control(const char *text); /* of ASCII: a byte below space, or DEL */

/* Copies what fits into `size` (at least 1), in whole characters; '?' stands for control characters
 * and for bytes that are not UTF-8. */
void utf8_copy(char *target, size_t size, const char *text);

/* Copies text of others for people, safe in a terminal, in JSON and in a web page: what fits into
 * `size`, in whole characters, control characters as \n, \t or \xNN, invalid bytes as '?'. NULL
 * becomes "". */
void utf8_show(char *out, size_t size, const char *text);

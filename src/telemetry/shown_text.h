/* Text of others, for people: safe in a terminal, in JSON and in a web page's text. */
#pragma once

#include <stddef.h>

/* Copies what fits of it, to whole characters: valid UTF-8, control characters as \n, \t or \xNN,
 * invalid bytes as '?'. NULL becomes "". */
void shown_text(char *out, size_t size, const char *text);

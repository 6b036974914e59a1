/*
 * JSON numbers as they were written. A parsed number is a double: 12.50 would
 * come back as 12.5 and 12345678901234567890 as 1.2345678901234567e19, and in
 * a receipt that is wrong.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Makes each number in `root` a text, written as in `json`, from which `root` was parsed with
 * JSON_REJECT_DUPLICATES. `root` itself stays what it is. */
void json_numbers_to_texts(json_t *root, const char *json, size_t length);

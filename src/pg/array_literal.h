/*
 * PostgreSQL's array literals, {1,"two",NULL}: one parameter for a whole column
 * of values. Zero-initialised; the text is complete after array_end().
 */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct array_literal {
        struct bytes bytes;
};

void array_add_text(struct array_literal *array, const char *text); /* NULL gives NULL */
void array_add_int(struct array_literal *array, int64_t value);
void array_add_bool(struct array_literal *array, bool value);
const char *array_end(struct array_literal *array); /* owned by the array */
void array_clear(struct array_literal *array);      /* to be filled anew; keeps the storage */
void array_deinit(struct array_literal *array);

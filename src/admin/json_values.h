/* Values of the status document. What is not known is null. */
#pragma once

#include <jansson.h>
#include <stdint.h>

json_t *json_time(int64_t wall_us);   /* RFC 3339, UTC, milliseconds; 0: null */
json_t *json_seconds(double seconds); /* negative: null */
json_t *json_words(const char *text); /* NULL or empty: null; what is not UTF-8 too */

/* Of an object; a missing or NULL one is null. A new reference. */
json_t *json_member(const json_t *object, const char *name);

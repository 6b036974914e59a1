/*
 * What needs attention: what is stuck, why, and what helps. A pure function of a
 * status document. Nothing else decides it, so that the page, `status` and `doctor`
 * say the same.
 */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

/*
 * An array of {"id", "level", "sink", "title", "lasts", "why", "remedy", "command", "action"}, the
 * worst first; docs/admin.md describes them. Levels:
 *   error    something stands still, or soon will
 *   warning  look at it some time
 *   note     it mends itself
 */
json_t *findings_find(const json_t *status);

/* How many of them are errors or warnings. */
unsigned findings_count(const json_t *findings);

/* A duration for people: "0.4 s", "12 s", "4 min 10 s", "3 h", "2 d 4 h". */
void findings_duration(char *text, size_t size, double seconds);

/* Numbers of shards in order: "0, 2 to 5". */
void findings_append_numbers(struct bytes *text, const json_t *numbers);

/* Who has shards of a sink, of "shards" of its document: "relay-a: 0 to 3, relay-b: 4". */
void findings_append_owners(struct bytes *text, const json_t *shards);

/*
 * What needs somebody's attention, in words: what is stuck, why, and the command
 * that helps. A pure function over a status document, wherever that comes from,
 * so that the page and the commands say the same.
 */
#pragma once

#include <jansson.h>

/*
 * An array of {"level", "sink", "words", "command"}, the worst first. Levels:
 *   error    something stands still, or soon will
 *   warning  somebody should look at it some time
 *   note     it mends itself
 * `sink` is null for what concerns all of them; `command` if no command helps.
 */
json_t *attention_find(const json_t *status);

/* How many of them are errors or warnings. */
unsigned attention_count(const json_t *findings);

/* A duration for people: "0.4 s", "12 s", "4 min 10 s", "3 h 5 min", "2 d 4 h". */
void attention_duration(char *text, size_t size, double seconds);

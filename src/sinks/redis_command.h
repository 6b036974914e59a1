/*
 * Writes XADD commands in the wire protocol (RESP). The protocol carries
 * lengths, so every value passes as it is: no byte needs escaping.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;
struct error;
struct event;
struct redis_xadd;

/* `stream` is a template on {{topic}}; `maxlen` 0 means no trimming. NULL and *error on failure. */
struct redis_xadd *redis_xadd_create(const char *stream, uint64_t maxlen, struct error *error);
void redis_xadd_destroy(struct redis_xadd *xadd); /* NULL is allowed */

/* True if the stream's name comes from the event. */
bool redis_xadd_is_stream_per_event(const struct redis_xadd *xadd);

/*
 * Appends the command that adds `event`:
 *   XADD <stream> [MAXLEN ~ <n>] * id <event_id> topic <topic> [key <key>] [type <type>]
 *        time <2024-01-31T23:59:59.000000Z> payload <bytes> [header:<name> <value>]...
 *        [redriven 1]
 */
void redis_xadd_encode(struct redis_xadd *xadd, const struct event *event, struct bytes *out);

/* Writes the name of the stream that `event` goes to, cut to `size`. */
void redis_xadd_describe(
    const struct redis_xadd *xadd, const struct event *event, char *stream, size_t size);

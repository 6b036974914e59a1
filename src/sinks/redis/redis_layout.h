/*
 * What an event looks like in Redis: the fields of a stream's entry, or the
 * message of a channel.
 *
 *   native               id, topic, [key], [type], time, payload, [header:<name>]..., [redriven]
 *   debezium-extended    key, value, ID, [<HEADER>]...
 *   debezium-compact     <key> = value
 *
 * Key, value and headers of the latter two are those of sinks/format/debezium.h; names of headers
 * are in upper case (ASCII letters). With format: cloudevents the value is CloudEvents JSON, and
 * the native layout has it as its only field, `data`. A message has no fields, so it is the payload
 * or the CloudEvents JSON.
 */
#pragma once

#include <stddef.h>

struct bytes;
struct event;
struct redis_config;
struct redis_layout;

/* The config is borrowed. */
struct redis_layout *redis_layout_create(const struct redis_config *config);
void redis_layout_destroy(struct redis_layout *layout); /* NULL is allowed */

/* Two for each field. */
size_t redis_layout_n_words(const struct redis_layout *layout, const struct event *event);
void redis_layout_append_fields(
    struct redis_layout *layout, const struct event *event, struct bytes *out);

/* One word. */
void redis_layout_append_message(
    struct redis_layout *layout, const struct event *event, struct bytes *out);

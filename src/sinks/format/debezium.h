/*
 * An event as Debezium's outbox router and the converter behind it make it: the text of its key,
 * the text of its value, and headers. For every sink that has a block `debezium`. Pure.
 *
 * Of an event with the key 17, the payload {"order": 17} and the event_id U:
 *
 *   form         key                 value                                  header id
 *   string       17                  {"order": 17}                          U
 *   json         "17"                "{\"order\": 17}"                      "U"
 *   json-schema  {"schema":{"type":"string","optional":false},"payload":"17"}, and likewise
 *   expanded                         {"order":17}: debezium_expand.h
 *
 * A payload of bytes stays what it is as a string; otherwise it is base64, as with
 * `binary.handling.mode=bytes`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct debezium_config;
struct event;

/* False, and nothing is appended, if the key is null: the sink says what stands for that. Only a
 * string can be null; as JSON it is the word. */
bool debezium_append_key(
    const struct debezium_config *config, const struct event *event, struct bytes *out);

/* Likewise. A payload that is null in the application's table is the JSON null in an event. With
 * `tombstone` it is null in any form, and so is one that is blank. */
bool debezium_append_value(
    const struct debezium_config *config, const struct event *event, struct bytes *out);

/*
 * The headers: `id`; the three of `context`; `type_header`; those of the event, a number or boolean
 * as one, an object as the text of its JSON, a number beyond double as a string; `redriven`, the
 * number 1, only if the event was. A header of the event's is left out if one of ours has its name,
 * in upper or lower case.
 */
size_t debezium_n_headers(const struct debezium_config *config, const struct event *event);

/* The value is borrowed for the call, and may hold any UTF-8. The name is a constant, or lives in
 * the event or the config. */
typedef void debezium_header_fn(void *owner, const char *name, const char *value, size_t length);

void debezium_each_header(const struct debezium_config *config, const struct event *event,
    debezium_header_fn *on_header, void *owner);

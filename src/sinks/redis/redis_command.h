/*
 * The command that delivers an event, in the wire protocol:
 *
 *   XADD <stream> [MAXLEN ~ <n> | MINID ~ <ms>] * <field> <value>...
 *   PUBLISH <channel> <message>
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;
struct error;
struct event;
struct outcome;
struct redis_command;
struct redis_config;

/* The config is borrowed. NULL and *error on failure. */
struct redis_command *redis_command_create(const struct redis_config *config, struct error *error);
void redis_command_destroy(struct redis_command *command); /* NULL is allowed */

/* True if the stream's or channel's name comes from the event. */
bool redis_command_is_target_per_event(const struct redis_command *command);

/* False and a REJECTED *out_refusal if the event has no target: it lacks the key or type that
 * the name is made of, the name cannot be that of a stream, or it would be one stream more than
 * redis.max_streams allows; or if it cannot be the CloudEvent that the config wants. Topic, type
 * and key are the publisher's choice, so this is asked once for each event before it is encoded. */
bool redis_command_admit(
    struct redis_command *command, const struct event *event, struct outcome *out_refusal);

/* The name of the stream or channel that `event` goes to, until the next call on this command. */
const struct bytes *redis_command_target(struct redis_command *command, const struct event *event);

/* Appends the command. */
void redis_command_encode(
    struct redis_command *command, const struct event *event, struct bytes *out);

/* The same within another command: how many words, and only those. */
size_t redis_command_n_words(const struct redis_command *command, const struct event *event);
void redis_command_append_words(
    struct redis_command *command, const struct event *event, struct bytes *out);

/* The same name for people, cut to `size`. */
void redis_command_describe(
    const struct redis_command *command, const struct event *event, char *name, size_t size);

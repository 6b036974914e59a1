/*
 * Where an event goes: the stream or channel that a template names. Topic, type
 * and key are the publisher's choice, so a name made of them is looked at
 * before anything is sent, and only so many different ones are made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes;
struct error;
struct event;
struct outcome;
struct redis_target;

/* `max_names` 0: any number. NULL and *error on failure. */
struct redis_target *redis_target_create(
    const char *name_template, uint32_t max_names, struct error *error);
void redis_target_destroy(struct redis_target *target); /* NULL is allowed */

bool redis_target_is_per_event(const struct redis_target *target);

/* False and a REJECTED *out_refusal if the event may go nowhere: it has no key or type to make the
 * name of, the name is not fit to be a key, or it would be one name too many. */
bool redis_target_admit(
    struct redis_target *target, const struct event *event, struct outcome *out_refusal);

/* The name for `event`, until the next call. */
const struct bytes *redis_target_name(struct redis_target *target, const struct event *event);

/* The same for people, cut to `size`. */
void redis_target_describe(
    const struct redis_target *target, const struct event *event, char *name, size_t size);

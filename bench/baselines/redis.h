/*
 * Redis as the baselines use it: XADD with the fields that pgcourier writes, appended to one buffer
 * that goes out in large pieces, and replies that are looked at only for errors.
 */
#pragma once

#include <stddef.h>

struct event;

struct redis;

struct redis *redis_connect(const char *socket_path);

/* Adds an XADD to the stream events:TOPIC; what has gathered is sent now and then. */
void redis_add(struct redis *redis, const struct event *event);

void redis_send(struct redis *redis);

/* Waits for the next reply; an error ends the program. */
void redis_await_reply(struct redis *redis);

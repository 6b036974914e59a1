/*
 * What a new connection says before the first command, all in one go: AUTH if
 * there is a password, SELECT if the database is not 0, CLIENT SETNAME, and an empty
 * transaction: without MULTI and EXEC the order of events could not be kept.
 */
#pragma once

#include <hiredis/async.h>
#include <stdbool.h>
#include <stddef.h>

struct redis_config;

enum redis_greeting_progress { GREETING_GOES_ON, GREETING_ACCEPTED, GREETING_REFUSED };

/* on_answer comes once for each command; its privdata is for redis_greeting_judge(). */
void redis_greeting_send(
    redisAsyncContext *context, const struct redis_config *config, redisCallbackFn *on_answer);

/* Judges one answer. If REFUSED, `refusal` says what was refused, in Redis' words and without the
 * password, and *out_needs_operator whether waiting would help. */
enum redis_greeting_progress redis_greeting_judge(const struct redis_config *config,
    const redisReply *reply, void *privdata, char *refusal, size_t size, bool *out_needs_operator);

/*
 * Lets a hiredis connection live on the libuv loop. Replaces the adapter that
 * hiredis ships: the one of 0.14 never tells of a refused connection.
 *
 * A driver belongs to its context: it comes with redis_driver_attach() and goes
 * when hiredis frees the context, however that happens.
 */
#pragma once

#include <hiredis/async.h>
#include <stdbool.h>
#include <uv.h>

/* `context` is fresh from redisAsyncConnect*(), without an error and without callbacks: set those
 * afterwards. False if libuv refuses the socket. */
bool redis_driver_attach(redisAsyncContext *context, uv_loop_t *loop);

/*
 * Writes what hiredis has buffered now instead of in the next turn of the loop.
 * May be called anywhere, also inside hiredis' callbacks. A broken connection
 * is found here too: the context may be gone when this returns.
 */
void redis_driver_flush(redisAsyncContext *context);

/*
 * After a command was given to hiredis: ends the program if that had no memory. `last` is what
 * context->replies.tail was before. Without memory to note whom to answer, hiredis before 1.0 sends a
 * command all the same, and aborts when the answer comes; without memory for the command it leaves this
 * one out, and sends the next.
 */
void redis_driver_expect_command(const redisAsyncContext *context, const redisCallback *last);

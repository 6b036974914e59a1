/*
 * The simple kinds of Redis' answers, read where they lie: most answers are an entry's id, +QUEUED or a
 * number, and hiredis allocates twice for each. All else, also whatever is not whole yet or not as
 * it should be, is left to hiredis. Pure.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>

/* Reads the answer at the front, if it is a whole string, status or integer: fills *reply, whose text
 * lies in `data` (a NUL is put behind it), and returns how many bytes it has. Else 0, and nothing
 * was changed. */
size_t resp_fast_read(char *data, size_t size, redisReply *reply);

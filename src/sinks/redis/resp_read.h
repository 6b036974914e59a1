/*
 * Answers in Redis' protocol, of the bytes that a connection brings. Of hiredis this uses the
 * parser only: its asynchronous connection of 0.14 knows no TLS, frees itself under its owner, and
 * resolves names on the loop's thread.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stddef.h>

/* Free it with redisReaderFree(). */
redisReader *resp_reader_create(void);

/*
 * The next whole answer of what was read before and the bytes at *data, which move on and may be
 * written to. It is `simple`, whose text lies in the bytes, or another, to be freed with
 * freeReplyObject(). NULL: more has to come, unless reader->err says that it is malformed.
 */
redisReply *resp_read(redisReader *reader, char **data, size_t *size, redisReply *simple);

/*
 * Reads the simple kinds of answers where they lie: most answers are an entry's id, +QUEUED or a
 * number, and hiredis allocates twice for each. Hiredis reads all others, and what is incomplete or
 * malformed.
 *
 * If the answer at the front is a whole string, status or integer, this fills *reply, whose text
 * lies in `data` (a NUL is put behind it), and returns how many bytes the answer has. Else it
 * returns 0 and changes nothing. Pure; public for its tests.
 */
size_t resp_fast_read(char *data, size_t size, redisReply *reply);

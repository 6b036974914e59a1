#include "sinks/redis/resp_read.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if HIREDIS_MAJOR == 0
/* hiredis calls these where it aborts without memory, and gives no reason. Ours replace those of
 * the library. */
void *hi_malloc(size_t size);
char *hi_strdup(const char *text);

void *hi_malloc(size_t size)
{
        return xmalloc(size);
}

char *hi_strdup(const char *text)
{
        return xstrdup(text);
}
#endif

enum { MAX_DIGITS = 18 /* they fit into a long long */ };

/* Digits up to "\r\n", as Redis writes a number. Returns how many bytes that is, or 0. */
static size_t read_number(const char *data, size_t size, long long *number)
{
        size_t n = 0;

        *number = 0;
        while (n < size && n < MAX_DIGITS && data[n] >= '0' && data[n] <= '9')
                *number = 10 * *number + (data[n++] - '0');
        if (n == 0 || (data[0] == '0' && n > 1) || n + 2 > size || data[n] != '\r' ||
            data[n + 1] != '\n')
                return 0;
        return n + 2;
}

static size_t read_text(char *data, size_t size, size_t length, int type, redisReply *reply)
{
        if (length + 2 > size || data[length] != '\r' || data[length + 1] != '\n')
                return 0;
        data[length] = '\0';
        *reply = (redisReply){.type = type, .str = data, .len = length};
        return length + 2;
}

static size_t read_string(char *data, size_t size, redisReply *reply)
{
        long long length;
        size_t n = read_number(data, size, &length);
        size_t n_text;

        if (n == 0 || (unsigned long long)length > size - n)
                return 0;
        n_text = read_text(data + n, size - n, (size_t)length, REDIS_REPLY_STRING, reply);
        return n_text > 0 ? n + n_text : 0;
}

static size_t read_status(char *data, size_t size, redisReply *reply)
{
        const char *end = memchr(data, '\r', size);

        /* One within it is an error to hiredis 1. */
        if (end == NULL || memchr(data, '\n', (size_t)(end - data)) != NULL)
                return 0;
        return read_text(data, size, (size_t)(end - data), REDIS_REPLY_STATUS, reply);
}

static size_t read_integer(const char *data, size_t size, redisReply *reply)
{
        long long number;
        size_t n = read_number(data, size, &number);

        if (n > 0)
                *reply = (redisReply){.type = REDIS_REPLY_INTEGER, .integer = number};
        return n;
}

size_t resp_fast_read(char *data, size_t size, redisReply *reply)
{
        size_t n = 0;

        if (size == 0)
                return 0;
        if (data[0] == '$')
                n = read_string(data + 1, size - 1, reply);
        else if (data[0] == '+')
                n = read_status(data + 1, size - 1, reply);
        else if (data[0] == ':')
                n = read_integer(data + 1, size - 1, reply);
        return n > 0 ? 1 + n : 0;
}

redisReader *resp_reader_create(void)
{
        redisReader *reader = redisReaderCreate();

        if (reader == NULL)
                out_of_memory();
        /* Beyond this hiredis 0.14 would throw its buffer away, and crash without memory for a new
         * one. */
        reader->maxbuf = 0;
        return reader;
}

static bool is_between_replies(const redisReader *reader)
{
        return reader->ridx < 0 && reader->pos == reader->len;
}

redisReply *resp_read(redisReader *reader, char **data, size_t *size, redisReply *simple)
{
        void *reply = NULL;

        /* Whole answers of the simple kinds need no reader. */
        if (is_between_replies(reader)) {
                size_t n = resp_fast_read(*data, *size, simple);

                *data += n;
                *size -= n;
                if (n > 0)
                        return simple;
        }
        if (*size > 0 && redisReaderFeed(reader, *data, *size) != REDIS_OK)
                out_of_memory();
        *data += *size;
        *size = 0;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK && reader->err == REDIS_ERR_OOM)
                out_of_memory();
        return reply;
}

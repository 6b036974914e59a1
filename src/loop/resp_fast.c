#include "loop/resp_fast.h"

#include <string.h>

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

        return end != NULL ? read_text(data, size, (size_t)(end - data), REDIS_REPLY_STATUS, reply)
                           : 0;
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

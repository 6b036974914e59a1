#include "sinks/redis/resp_write.h"

#include "base/bytes.h"

#include <string.h>

enum { FRAME_BYTES = 32 /* more than "$", a length, and twice "\r\n" */ };

static char *put_number(char *at, uint64_t number)
{
        char *end = at + 1;

        for (uint64_t rest = number; rest >= 10; rest /= 10)
                end++;
        for (char *to = end; to > at; number /= 10)
                *--to = (char)('0' + number % 10);
        return end;
}

static char *put(char *at, const void *data, size_t length)
{
        if (length > 0)
                memcpy(at, data, length);
        return at + length;
}

static char *put_count(char *at, char type, uint64_t count)
{
        *at++ = type;
        return put(put_number(at, count), "\r\n", 2);
}

static void end_at(struct bytes *out, char *end)
{
        *end = '\0';
        out->length = (size_t)(end - out->data);
}

void redis_append_count(struct bytes *out, char type, uint64_t count)
{
        end_at(out, put_count(bytes_reserve(out, FRAME_BYTES), type, count));
}

void redis_append_behind(
    struct bytes *out, const char *before, size_t n_before, const void *data, size_t length)
{
        char *at = bytes_reserve(out, n_before + length + FRAME_BYTES);

        at = put(at, before, n_before);
        at = put_count(at, '$', length);
        at = put(at, data, length);
        end_at(out, put(at, "\r\n", 2));
}

void redis_append_word(struct bytes *out, const void *data, size_t length)
{
        redis_append_behind(out, "", 0, data, length);
}

void redis_append_text(struct bytes *out, const char *text)
{
        redis_append_word(out, text, strlen(text));
}

void redis_append_number(struct bytes *out, uint64_t number)
{
        char text[24];

        redis_append_word(out, text, (size_t)(put_number(text, number) - text));
}

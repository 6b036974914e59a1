#include "sinks/redis_words.h"

#include "base/bytes.h"

#include <string.h>

/* Writes `number` before `end`; returns where it begins. */
static char *write_number(char *end, uint64_t number)
{
        do {
                *--end = (char)('0' + number % 10);
                number /= 10;
        } while (number > 0);
        return end;
}

void redis_append_count(struct bytes *out, char mark, uint64_t count)
{
        char text[24];
        char *end = text + sizeof text - 2;
        char *begin = write_number(end, count);

        memcpy(end, "\r\n", 2);
        *--begin = mark;
        bytes_append(out, begin, (size_t)(text + sizeof text - begin));
}

void redis_append_word(struct bytes *out, const void *data, size_t length)
{
        redis_append_count(out, '$', length);
        bytes_append(out, data, length);
        bytes_append(out, "\r\n", 2);
}

void redis_append_text(struct bytes *out, const char *text)
{
        redis_append_word(out, text, strlen(text));
}

void redis_append_number(struct bytes *out, uint64_t number)
{
        char text[24];
        char *end = text + sizeof text;
        char *begin = write_number(end, number);

        redis_append_word(out, begin, (size_t)(end - begin));
}

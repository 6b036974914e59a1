#include "base/utf8.h"

#include <string.h>

static bool is_between(char byte, unsigned low, unsigned high)
{
        return (unsigned char)byte >= low && (unsigned char)byte <= high;
}

/* The first byte says how many follow, and narrows the second one: that excludes overlong forms,
 * surrogates and the end of the range. The terminating NUL is never a continuation, so a text that
 * stops within a character is not read beyond its end. */
size_t utf8_char_bytes(const char *at)
{
        unsigned low = 0x80;
        unsigned high = 0xbf;
        size_t length;

        if (is_between(at[0], 0x00, 0x7f))
                return 1;
        if (is_between(at[0], 0xc2, 0xdf))
                length = 2;
        else if (is_between(at[0], 0xe0, 0xef))
                length = 3;
        else if (is_between(at[0], 0xf0, 0xf4))
                length = 4;
        else
                return 0;

        if (is_between(at[0], 0xe0, 0xe0))
                low = 0xa0;
        if (is_between(at[0], 0xed, 0xed))
                high = 0x9f;
        if (is_between(at[0], 0xf0, 0xf0))
                low = 0x90;
        if (is_between(at[0], 0xf4, 0xf4))
                high = 0x8f;
        if (!is_between(at[1], low, high))
                return 0;
        for (size_t i = 2; i < length; i++)
                if (!is_between(at[i], 0x80, 0xbf))
                        return 0;
        return length;
}

bool utf8_is_valid(const char *text)
{
        while (*text != '\0') {
                size_t length = utf8_char_bytes(text);
                if (length == 0)
                        return false;
                text += length;
        }
        return true;
}

void utf8_copy(char *target, size_t size, const char *text)
{
        size_t n = 0;

        while (*text != '\0') {
                size_t length = utf8_char_bytes(text);
                bool is_bad = length == 0 || (unsigned char)*text < ' ' || *text == 0x7f;

                if (is_bad)
                        length = 1;
                if (n + length >= size)
                        break;
                memcpy(target + n, is_bad ? "?" : text, length);
                n += length;
                text += length;
        }
        target[n] = '\0';
}

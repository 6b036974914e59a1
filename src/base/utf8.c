#include "base/utf8.h"

#include <stdio.h>
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

bool utf8_is_ascii(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text > '~')
                        return false;
        return true;
}

bool utf8_has_control(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == '\x7f')
                        return true;
        return false;
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

/* U+0080 to U+009F, which some terminals obey as well. */
static int is_high_control(const unsigned char *at)
{
        return at[0] == 0xc2 && at[1] < 0xa0;
}

/* One character as it is shown; returns how many bytes of the text that was. */
static size_t show(const unsigned char *at, char shown[8])
{
        size_t n = utf8_char_bytes((const char *)at);

        memset(shown, 0, 8);
        if (n == 0)
                strcpy(shown, "?");
        else if (*at == '\n')
                strcpy(shown, "\\n");
        else if (*at == '\t')
                strcpy(shown, "\\t");
        else if (*at < ' ' || *at == 0x7f)
                snprintf(shown, 8, "\\x%02x", *at);
        else if (is_high_control(at))
                snprintf(shown, 8, "\\x%02x", at[1]);
        else
                memcpy(shown, at, n);
        return n > 0 ? n : 1;
}

void utf8_show(char *out, size_t size, const char *text)
{
        const unsigned char *at = (const unsigned char *)(text != NULL ? text : "");
        size_t length = 0;

        while (*at != '\0') {
                char shown[8];
                at += show(at, shown);
                if (length + strlen(shown) >= size)
                        break;
                strcpy(out + length, shown);
                length += strlen(shown);
        }
        out[length] = '\0';
}

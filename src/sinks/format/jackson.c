#include "sinks/format/jackson.h"

#include "base/bytes.h"
#include "base/utf8.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

enum { MAX_DIGITS = 17 /* tell any two doubles apart */ };

/* The bytes from `text` on that stay as they are. `*out_char` is the length of the character behind
 * them, 0 if it is not valid; at the end, 1. */
static size_t plain_run(const char *text, size_t length, size_t *out_char)
{
        size_t run = 0;

        for (*out_char = 1; run < length; run += *out_char) {
                unsigned char byte = (unsigned char)text[run];

                *out_char = byte < 0x80 ? 1 : utf8_char_bytes(text + run);
                if (*out_char > length - run)
                        *out_char = 0;
                if (byte < ' ' || byte == '"' || byte == '\\' || *out_char == 0 || *out_char > 3)
                        break;
        }
        return run;
}

static void append_ascii_escape(struct bytes *out, char byte)
{
        static const char from[] = "\"\\\b\f\n\r\t";
        static const char to[] = "\"\\bfnrt";
        const char *found = byte != '\0' ? strchr(from, byte) : NULL;

        if (found != NULL)
                bytes_append(out, (const char[]){'\\', to[found - from]}, 2);
        else
                bytes_printf(out, "\\u%04X", (unsigned char)byte);
}

static void append_surrogates(struct bytes *out, const char *four)
{
        const unsigned char *byte = (const unsigned char *)four;
        unsigned code =
            (byte[0] & 7U) << 18 | (byte[1] & 63U) << 12 | (byte[2] & 63U) << 6 | (byte[3] & 63U);

        code -= 0x10000;
        bytes_printf(out, "\\u%04X\\u%04X", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

void jackson_append_text(struct bytes *out, const char *text, size_t length)
{
        const char *end = text + length;

        bytes_append(out, "\"", 1);
        for (;;) {
                size_t char_bytes;
                size_t run = plain_run(text, (size_t)(end - text), &char_bytes);

                bytes_append(out, text, run);
                text += run;
                if (text == end)
                        break;
                if (char_bytes == 0)
                        bytes_append_text(out, REPLACEMENT_CHARACTER);
                else if (char_bytes == 1)
                        append_ascii_escape(out, *text);
                else
                        append_surrogates(out, text);
                text += char_bytes > 0 ? char_bytes : 1;
        }
        bytes_append(out, "\"", 1);
}

/* A number above 0 as D.DDD times ten to the `exponent`. */
struct decimal {
        char digits[MAX_DIGITS + 1];
        int exponent;
};

/* The nearest of so many digits. The decimal point, which depends on the locale, is skipped. */
static struct decimal nearest(double number, int n_digits)
{
        struct decimal decimal = {.exponent = 0};
        char text[MAX_DIGITS + 16];

        snprintf(text, sizeof text, "%.*e", n_digits - 1, number);
        decimal.digits[0] = text[0];
        memcpy(decimal.digits + 1, text + 2, (size_t)n_digits - 1);
        decimal.exponent = atoi(strchr(text, 'e') + 1);
        return decimal;
}

static bool means(const struct decimal *decimal, double number)
{
        char text[MAX_DIGITS + 16];

        snprintf(text, sizeof text, "%se%d", decimal->digits,
            decimal->exponent - (int)strlen(decimal->digits) + 1);
        return strtod(text, NULL) == number;
}

/* To the next one of as many digits; false if it has fewer. */
static bool step_up(struct decimal *decimal)
{
        size_t n = strlen(decimal->digits);

        while (n > 0 && decimal->digits[n - 1] == '9')
                decimal->digits[--n] = '0';
        if (n > 0)
                decimal->digits[n - 1]++;
        return n > 0;
}

/* Below a power of two doubles lie closer together than above it. So the nearest decimal may lie
 * below it and mean another number, while the one above it means this one. */
static bool find(double number, int n_digits, struct decimal *out_decimal)
{
        *out_decimal = nearest(number, n_digits);
        return means(out_decimal, number) || (step_up(out_decimal) && means(out_decimal, number));
}

/* Java prefers the nearer of two digits to one digit: 4.9E-324, not 5E-324. */
static struct decimal shortest(double number)
{
        struct decimal decimal;
        size_t n;

        /* Of DBL_DIG digits at most one decimal means the number, so a shorter one is this one. The
         * smallest numbers have fewer digits. */
        for (int n_digits = number < DBL_MIN ? 2 : DBL_DIG; n_digits <= MAX_DIGITS; n_digits++)
                if (find(number, n_digits, &decimal))
                        break;
        for (n = strlen(decimal.digits); n > 1 && decimal.digits[n - 1] == '0'; n--)
                decimal.digits[n - 1] = '\0';
        return decimal;
}

static void append_plain(struct bytes *out, const struct decimal *decimal)
{
        int n = (int)strlen(decimal->digits);
        int n_before = decimal->exponent + 1; /* digits before the point */

        if (n_before <= 0)
                bytes_printf(out, "0.%.*s%s", -n_before, "000", decimal->digits);
        else if (n <= n_before)
                bytes_printf(out, "%s%.*s.0", decimal->digits, n_before - n, "000000");
        else
                bytes_printf(out, "%.*s.%s", n_before, decimal->digits, decimal->digits + n_before);
}

void jackson_append_double(struct bytes *out, double number)
{
        struct decimal decimal;

        assert(isfinite(number));
        if (signbit(number))
                bytes_append(out, "-", 1);
        if (number == 0) {
                bytes_append_text(out, "0.0");
                return;
        }
        decimal = shortest(fabs(number));
        if (decimal.exponent >= -3 && decimal.exponent < 7)
                append_plain(out, &decimal);
        else
                bytes_printf(out, "%c.%sE%d", decimal.digits[0],
                    decimal.digits[1] != '\0' ? decimal.digits + 1 : "0", decimal.exponent);
}

#include "config/units.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

struct unit {
        const char *name;
        uint64_t factor;
};

static const struct unit durations[] = {
    {"ms", 1},
    {"s", 1000},
    {"m", 60 * 1000},
    {"h", 60 * 60 * 1000},
    {"d", 24 * 60 * 60 * 1000},
    {NULL, 0},
};

static const struct unit sizes[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"KiB", 1024},
    {"MB", 1000 * 1000},
    {"MiB", 1024 * 1024},
    {"GB", 1000 * 1000 * 1000},
    {"GiB", 1024 * 1024 * 1024},
    {NULL, 0},
};

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

/* Reads digits and returns where they end; NULL if there are none, or too many, or "007". */
static const char *parse_digits(const char *text, uint64_t *out)
{
        const char *at = text;
        uint64_t value = 0;

        for (; is_digit(*at); at++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
                        return NULL;
        if (at == text || (*text == '0' && at > text + 1))
                return NULL;
        *out = value;
        return at;
}

static bool parse_with_unit(const char *text, const struct unit *units, uint64_t *out)
{
        uint64_t value;
        const char *rest = parse_digits(text, &value);

        if (rest == NULL)
                return false;
        for (const struct unit *unit = units; unit->name != NULL; unit++)
                if (strcmp(rest, unit->name) == 0)
                        return !__builtin_mul_overflow(value, unit->factor, out) &&
                               *out <= INT64_MAX;
        return false;
}

bool units_parse_duration(const char *text, int64_t *out_ms)
{
        uint64_t ms = 0;

        if (strcmp(text, "0") != 0 && !parse_with_unit(text, durations, &ms))
                return false;
        *out_ms = (int64_t)ms;
        return true;
}

bool units_parse_size(const char *text, uint64_t *out_bytes)
{
        uint64_t bytes;

        if (!parse_with_unit(text, sizes, &bytes))
                return false;
        *out_bytes = bytes;
        return true;
}

bool units_parse_integer(const char *text, uint64_t *out)
{
        uint64_t value;
        const char *rest = parse_digits(text, &value);

        if (rest == NULL || *rest != '\0')
                return false;
        *out = value;
        return true;
}

bool units_parse_number(const char *text, double *out)
{
        uint64_t whole;
        double fraction = 0;
        double place = 1;
        const char *at = parse_digits(text, &whole);

        if (at == NULL)
                return false;
        if (*at == '.') {
                if (!is_digit(*++at))
                        return false;
                for (; is_digit(*at); at++) {
                        fraction = fraction * 10 + (*at - '0');
                        place *= 10;
                }
        }
        if (*at != '\0' || place > 1e15)
                return false;
        *out = (double)whole + fraction / place;
        return true;
}

void units_append_duration(struct bytes *text, int64_t ms)
{
        size_t i = sizeof durations / sizeof *durations - 2; /* the largest */

        while (ms % (int64_t)durations[i].factor != 0)
                i--;
        if (ms == 0)
                bytes_append_text(text, "0");
        else
                bytes_printf(
                    text, "%" PRId64 "%s", ms / (int64_t)durations[i].factor, durations[i].name);
}

void units_append_size(struct bytes *text, uint64_t bytes)
{
        static const char *const names[] = {"B", "KiB", "MiB", "GiB"};
        size_t i = 0;

        for (; i < 3 && bytes > 0 && bytes % 1024 == 0; i++)
                bytes /= 1024;
        bytes_printf(text, "%" PRIu64 "%s", bytes, bytes > 0 ? names[i] : "");
}

/*
 * There is no grammar for this, so only one shape is trusted: "in" or "after",
 * a number, a unit of time. Any other number in a reply may be anything.
 */
#include "sinks/email/email_hint.h"

#include "pgcourier/outcome.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define MAX_MS (60 * 60 * INT64_C(1000))

static const struct {
        const char *name;
        int64_t ms;
} units[] = {{"s", 1000}, {"sec", 1000}, {"secs", 1000}, {"second", 1000}, {"seconds", 1000},
    {"min", 60000}, {"mins", 60000}, {"minute", 60000}, {"minutes", 60000}, {"hour", MAX_MS},
    {"hours", MAX_MS}};

static size_t letters(const char *text)
{
        size_t n = 0;

        while (isalpha((unsigned char)text[n]))
                n++;
        return n;
}

static bool is_word(const char *text, size_t length, const char *word)
{
        return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* `text` follows "in" or "after". */
static int64_t read_duration_ms(const char *text)
{
        int64_t number = 0;
        size_t length;

        text += strspn(text, " ");
        if (!isdigit((unsigned char)*text))
                return OUTCOME_NO_DELAY;
        for (; isdigit((unsigned char)*text); text++)
                if (number < MAX_MS) /* more digits cannot change the answer */
                        number = number * 10 + (*text - '0');
        text += strspn(text, " ");
        length = letters(text);
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
                if (is_word(text, length, units[i].name))
                        return number < MAX_MS / units[i].ms ? number * units[i].ms : MAX_MS;
        return OUTCOME_NO_DELAY;
}

int64_t smtp_hinted_delay_ms(const char *words)
{
        while (*words != '\0') {
                size_t length = letters(words);

                if (is_word(words, length, "in") || is_word(words, length, "after")) {
                        int64_t delay_ms = read_duration_ms(words + length);
                        if (delay_ms != OUTCOME_NO_DELAY)
                                return delay_ms;
                }
                words += length > 0 ? length : 1;
        }
        return OUTCOME_NO_DELAY;
}

#include "fuzz.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const uint8_t *data, size_t size)
{
        char *text = xmalloc(size + 1);

        if (size > 0)
                memcpy(text, data, size);
        text[size] = '\0';
        return text;
}

char *fuzz_take_text(struct fuzz_input *input)
{
        const uint8_t *end = input->size > 0 ? memchr(input->data, '\0', input->size) : NULL;
        size_t length = end != NULL ? (size_t)(end - input->data) : input->size;
        char *text = copy(input->data, length);

        input->data += length + (end != NULL);
        input->size -= length + (end != NULL);
        return text;
}

char *fuzz_take_rest(struct fuzz_input *input, size_t *out_size)
{
        char *rest = copy(input->data, input->size);

        *out_size = input->size;
        input->size = 0;
        return rest;
}

unsigned fuzz_take_byte(struct fuzz_input *input)
{
        if (input->size == 0)
                return 0;
        input->size--;
        return *input->data++;
}

bool fuzz_is_one_line(const char *text, bool may_have_tab)
{
        for (; *text != '\0'; text++)
                if (((unsigned char)*text < ' ' && !(may_have_tab && *text == '\t')) ||
                    *text == '\x7f')
                        return false;
        return true;
}

void fuzz_require(bool is_kept, const char *promise, const char *detail)
{
        if (is_kept)
                return;
        fprintf(stderr, "broken promise: %s\n%s\n", promise, detail);
        abort();
}

void fuzz_require_outcome(const struct outcome *outcome)
{
        fuzz_require(outcome->kind <= OUTCOME_CANCELLED, "an outcome is of a known kind", "");
        fuzz_require(outcome->delay_ms >= OUTCOME_NO_DELAY &&
                         outcome->delay_ms <= INT64_C(24) * 60 * 60 * 1000,
            "a delay is at most a day", "");
        fuzz_require(
            fuzz_is_one_line(outcome->reason, false), "a reason is one line", outcome->reason);
        fuzz_require(outcome->kind == OUTCOME_DELIVERED || outcome->kind == OUTCOME_CANCELLED ||
                         outcome->reason[0] != '\0',
            "what is not delivered has a reason", "");
}

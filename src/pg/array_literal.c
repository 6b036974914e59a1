#include "pg/array_literal.h"

#include <string.h>

static void begin_element(struct array_literal *array)
{
        bytes_append_text(&array->bytes, array->bytes.length == 0 ? "{" : ",");
}

void array_add_text(struct array_literal *array, const char *text)
{
        begin_element(array);
        if (text == NULL) {
                bytes_append_text(&array->bytes, "NULL");
                return;
        }
        bytes_append_text(&array->bytes, "\"");
        while (*text != '\0') {
                size_t plain = strcspn(text, "\"\\");

                bytes_append(&array->bytes, text, plain);
                text += plain;
                if (*text != '\0') {
                        bytes_append_text(&array->bytes, "\\");
                        bytes_append(&array->bytes, text++, 1);
                }
        }
        bytes_append_text(&array->bytes, "\"");
}

/* By hand: printf() would take most of the time of writing an attempt down. */
void array_add_int(struct array_literal *array, int64_t value)
{
        char digits[24], *first = digits + sizeof digits;
        uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;

        begin_element(array);
        do
                *--first = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (value < 0)
                *--first = '-';
        bytes_append(&array->bytes, first, (size_t)(digits + sizeof digits - first));
}

void array_add_bool(struct array_literal *array, bool value)
{
        begin_element(array);
        bytes_append_text(&array->bytes, value ? "t" : "f");
}

const char *array_end(struct array_literal *array)
{
        bytes_append_text(&array->bytes, array->bytes.length == 0 ? "{}" : "}");
        return array->bytes.data;
}

void array_clear(struct array_literal *array)
{
        bytes_clear(&array->bytes);
}

void array_deinit(struct array_literal *array)
{
        bytes_deinit(&array->bytes);
}

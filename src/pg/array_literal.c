#include "pg/array_literal.h"

#include <inttypes.h>
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

void array_add_int(struct array_literal *array, int64_t value)
{
        begin_element(array);
        bytes_printf(&array->bytes, "%" PRId64, value);
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

void array_deinit(struct array_literal *array)
{
        bytes_deinit(&array->bytes);
}

/*
 * Values on their way to PostgreSQL and back: texts become an array literal
 * that a reader like PostgreSQL's takes apart again; bytes are read as the
 * jsonb of headers.
 */
#include "pg/array_literal.h"

#include "base/alloc.h"
#include "fuzz.h"
#include "outbox/event_row.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXTS 8

/* One element; *is_null for a NULL without quotes. `at` is left behind it. */
static char *read_element(const char **at, bool *is_null)
{
        char *out = xcalloc(strlen(*at) + 1, 1);
        bool is_quoted = **at == '"';
        size_t n = 0;

        *at += is_quoted;
        while (is_quoted ? **at != '"' : **at != ',' && **at != '}') {
                *at += **at == '\\';
                fuzz_require(**at != '\0', "an array literal is complete", out);
                out[n++] = *(*at)++;
        }
        *at += is_quoted;
        *is_null = !is_quoted && strcmp(out, "NULL") == 0;
        return out;
}

static void check_array(char **texts, size_t n)
{
        struct array_literal array = {0};
        const char *at;

        for (size_t i = 0; i < n; i++)
                array_add_text(&array, texts[i]);
        at = array_end(&array);
        fuzz_require(*at++ == '{', "an array begins", "");
        for (size_t i = 0; i < n; i++) {
                bool is_null;
                char *text = read_element(&at, &is_null);

                fuzz_require(is_null == (texts[i] == NULL) &&
                                 (texts[i] == NULL || strcmp(text, texts[i]) == 0),
                    "an element comes back as it was", text);
                fuzz_require(*at == (i + 1 < n ? ',' : '}'), "elements are apart", at);
                at += i + 1 < n;
                free(text);
        }
        fuzz_require(strcmp(at, "}") == 0, "an array ends", at);
        array_deinit(&array);
}

/*
 * As the payload of an event is JSON, and a header's value any. What jansson refuses (1e400, or no
 * JSON at all) is read without a judgement: PostgreSQL sends no such number and no such text.
 */
static void check_headers(const char *jsonb, size_t length)
{
        struct event_headers headers = {0};
        struct event event = {.n_headers = 0};
        json_t *object = length > 1 ? json_loadb(jsonb + 1, length - 1, 0, NULL) : NULL;

        event_headers_read(&headers, jsonb, length, &event);
        fuzz_require(object == NULL || event.n_headers <= json_object_size(object),
            "no header is invented", "");
        for (size_t i = 0; object != NULL && i < event.n_headers; i++) {
                json_t *value = json_object_get(object, event.headers[i].name);

                fuzz_require(event.headers[i].name[0] != '\0' && value != NULL,
                    "a header is one of the object's", event.headers[i].name);
                fuzz_require(
                    json_is_string(value) == (event.header_types[i] == EVENT_HEADER_STRING),
                    "a text is known as one", event.headers[i].name);
                if (json_is_string(value))
                        fuzz_require(strcmp(json_string_value(value), event.headers[i].value) == 0,
                            "a text is itself", event.headers[i].value);
        }
        event_headers_deinit(&headers);
        json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *jsonb = fuzz_take_text(&input);
        char *texts[MAX_TEXTS];
        size_t n = 0;

        check_headers(jsonb, strlen(jsonb));
        while (input.size > 0 && n < MAX_TEXTS) {
                texts[n] = fuzz_take_text(&input);
                if (strcmp(texts[n], "\\N") == 0) {
                        free(texts[n]);
                        texts[n] = NULL;
                }
                n++;
        }
        check_array(texts, n);
        for (size_t i = 0; i < n; i++)
                free(texts[i]);
        free(jsonb);
        return 0;
}

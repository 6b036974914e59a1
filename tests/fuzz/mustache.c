/* A byte (1: HTML), TEMPLATE NUL JSON. */
#include "sinks/format/mustache.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static bool copies_raw(const char *text)
{
        return strstr(text, "{{{") != NULL || strchr(text, '&') != NULL;
}

static void check_rendering(
    const struct mustache *mustache, const char *text, const json_t *values, bool is_html)
{
        struct outcome rejected = outcome_delivered;
        struct outcome again_rejected = outcome_delivered;
        struct bytes out = {0};
        struct bytes again = {0};
        bool is_done;

        bytes_append_text(&out, "");
        bytes_append_text(&again, "");
        is_done = mustache_render(mustache, values, &out, &rejected);
        fuzz_require(is_done == mustache_render(mustache, values, &again, &again_rejected) &&
                         out.length == again.length &&
                         memcmp(out.data, again.data, out.length) == 0,
            "rendering twice gives the same", text);
        fuzz_require(out.length <= MUSTACHE_MAX_OUTPUT_BYTES, "output is bounded", text);
        if (!is_done) {
                fuzz_require(
                    rejected.kind == OUTCOME_REJECTED, "what cannot be rendered is rejected", text);
                fuzz_require_outcome(&rejected);
        } else if (strstr(text, "{{") == NULL) {
                fuzz_require(strcmp(out.data, text) == 0, "a text without tags is itself", text);
        }
        if (is_html && !copies_raw(text) && strpbrk(text, "<>") == NULL)
                fuzz_require(memchr(out.data, '<', out.length) == NULL &&
                                 memchr(out.data, '>', out.length) == NULL,
                    "values bring no tag into HTML", out.data);
        bytes_deinit(&out);
        bytes_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        bool is_html = fuzz_take_byte(&input) == 1;
        char *text = fuzz_take_text(&input);
        size_t length;
        char *json = fuzz_take_rest(&input, &length);
        json_t *values = json_loadb(json, length, JSON_REJECT_DUPLICATES, NULL);
        struct error error = {.kind = ERROR_NONE};
        struct mustache *mustache =
            mustache_parse("greeting.txt", text, strlen(text), is_html, &error);

        if (mustache == NULL) {
                fuzz_require(error.kind == ERROR_CONFIG, "an error is set", text);
                fuzz_require(strncmp(error.text, "greeting.txt:", 13) == 0 &&
                                 fuzz_is_one_line(error.text, false),
                    "an error is one line that says where", error.text);
        } else if (values != NULL) {
                check_rendering(mustache, text, values, is_html);
        }
        mustache_destroy(mustache);
        json_decref(values);
        free(json);
        free(text);
        return 0;
}

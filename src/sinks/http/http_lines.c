#include "sinks/http/http_lines.h"

#include "base/alloc.h"

#include <stdlib.h>

#define KEPT_BYTES 8192

void http_lines_deinit(struct http_lines *lines)
{
        bytes_deinit(&lines->text);
        free(lines->lines);
        *lines = (struct http_lines){0};
}

void http_lines_clear(struct http_lines *lines)
{
        if (lines->text.capacity > KEPT_BYTES)
                bytes_deinit(&lines->text);
        bytes_clear(&lines->text);
        lines->n_lines = 0;
}

void http_lines_begin(struct http_lines *lines, const char *name)
{
        if (lines->n_lines == lines->n_allocated) {
                lines->n_allocated = lines->n_allocated > 0 ? 2 * lines->n_allocated : 16;
                lines->lines = xrealloc(lines->lines, lines->n_allocated * sizeof *lines->lines);
        }
        lines->lines[lines->n_lines++].at = lines->text.length;
        bytes_append_text(&lines->text, name);
        bytes_append(&lines->text, ": ", 2);
        lines->value_at = lines->text.length;
}

void http_lines_end(struct http_lines *lines)
{
        struct bytes *text = &lines->text;

        /* libcurl's own spelling: "name;" for a header without value, where "name:" removes it. */
        if (text->length == lines->value_at) {
                text->length -= 2;
                bytes_append(text, ";", 1);
        }
        bytes_append(text, "", 1);
}

void http_lines_add(struct http_lines *lines, const char *name, const char *value)
{
        http_lines_begin(lines, name);
        bytes_append_text(&lines->text, value);
        http_lines_end(lines);
}

struct curl_slist *http_lines_list(struct http_lines *lines, struct curl_slist *tail)
{
        for (size_t i = lines->n_lines; i > 0; i--) {
                struct http_line *line = &lines->lines[i - 1];

                line->node.data = lines->text.data + line->at;
                line->node.next = tail;
                tail = &line->node;
        }
        return tail;
}

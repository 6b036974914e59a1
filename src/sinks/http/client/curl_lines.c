#include "sinks/http/client/curl_lines.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES 8192

void curl_lines_deinit(struct curl_lines *lines)
{
        bytes_deinit(&lines->text);
        free(lines->nodes);
        *lines = (struct curl_lines){0};
}

static void append_line(struct bytes *text, const char *line, size_t length)
{
        /* libcurl's own spelling: "name;" for a header without value, where "name:" removes it. */
        if (length > 2 && memcmp(line + length - 2, ": ", 2) == 0) {
                bytes_append(text, line, length - 2);
                bytes_append(text, ";", 1);
        } else {
                bytes_append(text, line, length);
        }
        bytes_append(text, "", 1);
}

/* Returns their number. */
static size_t append_lines(struct bytes *text, const char *lines)
{
        size_t n = 0;

        for (const char *end; (end = strstr(lines, "\r\n")) != NULL; lines = end + 2, n++)
                append_line(text, lines, (size_t)(end - lines));
        return n;
}

struct curl_slist *curl_lines_make(struct curl_lines *lines, const char *first, const char *second)
{
        size_t n = 1;
        char *at;

        if (lines->text.capacity > KEPT_BYTES)
                bytes_deinit(&lines->text);
        bytes_clear(&lines->text);
        n += append_lines(&lines->text, first);
        n += append_lines(&lines->text, second);
        /* Without this, large bodies wait a second for a 100 Continue that few servers send. */
        bytes_append(&lines->text, "Expect:", sizeof "Expect:");
        if (n > lines->n_allocated) {
                lines->n_allocated = n;
                lines->nodes = xrealloc(lines->nodes, n * sizeof *lines->nodes);
        }
        at = lines->text.data;
        for (size_t i = 0; i < n; i++) {
                lines->nodes[i].data = at;
                lines->nodes[i].next = i + 1 < n ? &lines->nodes[i + 1] : NULL;
                at += strlen(at) + 1;
        }
        return lines->nodes;
}

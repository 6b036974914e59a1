#include "outbox/event_headers.h"

#include "base/alloc.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* One event's headers: the parsed object that the strings live in, and the rest. */
struct header_block {
        struct header_block *next;
        json_t *object; /* owned */
        char **dumped;  /* owned: the texts of values that are not strings */
        size_t n_dumped;
        struct event_header *headers; /* owned */
};

static const char *value_text(struct header_block *block, const json_t *value)
{
        char *text;

        if (json_is_string(value)) {
                /* Only possible if jsonb ever learned \u0000; half a value would be a wrong one. */
                if (strlen(json_string_value(value)) != json_string_length(value))
                        return NULL;
                return json_string_value(value);
        }
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (text != NULL)
                block->dumped[block->n_dumped++] = text;
        return text;
}

void event_headers_read(
    struct event_headers *headers, const char *jsonb, size_t length, struct event *event)
{
        /* The first byte of binary jsonb is a version; the text follows. */
        json_t *object = length > 1 ? json_loadb(jsonb + 1, length - 1, 0, NULL) : NULL;
        struct header_block *block;
        const char *name;
        json_t *value;

        if (object == NULL || json_object_size(object) == 0) {
                json_decref(object);
                return;
        }
        block = xcalloc(1, sizeof *block);
        block->object = object;
        block->headers = xcalloc(json_object_size(object), sizeof *block->headers);
        block->dumped = xcalloc(json_object_size(object), sizeof *block->dumped);
        block->next = headers->blocks;
        headers->blocks = block;

        json_object_foreach(object, name, value)
        {
                const char *text = value_text(block, value);
                if (text != NULL && *name != '\0')
                        block->headers[event->n_headers++] =
                            (struct event_header){.name = name, .value = text};
        }
        event->headers = block->headers;
}

void event_headers_deinit(struct event_headers *headers)
{
        while (headers->blocks != NULL) {
                struct header_block *block = headers->blocks;
                headers->blocks = block->next;
                for (size_t i = 0; i < block->n_dumped; i++)
                        free(block->dumped[i]);
                free(block->dumped);
                free(block->headers);
                json_decref(block->object);
                free(block);
        }
}

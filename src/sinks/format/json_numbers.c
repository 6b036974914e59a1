/* jansson keeps members in the order of the text, so the numbers of the tree and those of the text
 * come in the same order: walking both at once needs no parser of our own. */
#include "sinks/format/json_numbers.h"

#include <stdbool.h>
#include <string.h>

struct scan {
        const char *at;
        const char *end;
};

static bool begins_number(char byte)
{
        return byte == '-' || (byte >= '0' && byte <= '9');
}

static void skip_string(struct scan *scan)
{
        for (scan->at++; scan->at < scan->end && *scan->at != '"'; scan->at++)
                if (*scan->at == '\\')
                        scan->at++;
        scan->at++;
}

/* The next number of the text, as a JSON string. */
static json_t *take_number(struct scan *scan)
{
        const char *start;

        while (scan->at < scan->end && !begins_number(*scan->at)) {
                if (*scan->at == '"')
                        skip_string(scan);
                else
                        scan->at++;
        }
        start = scan->at;
        while (scan->at < scan->end && (begins_number(*scan->at) || strchr("+.eE", *scan->at)))
                scan->at++;
        return json_stringn(start, (size_t)(scan->at - start));
}

static void replace(json_t *value, struct scan *scan)
{
        if (json_is_object(value)) {
                for (void *at = json_object_iter(value); at != NULL;
                     at = json_object_iter_next(value, at)) {
                        if (json_is_number(json_object_iter_value(at)))
                                json_object_iter_set_new(value, at, take_number(scan));
                        else
                                replace(json_object_iter_value(at), scan);
                }
        } else if (json_is_array(value)) {
                for (size_t i = 0; i < json_array_size(value); i++) {
                        if (json_is_number(json_array_get(value, i)))
                                json_array_set_new(value, i, take_number(scan));
                        else
                                replace(json_array_get(value, i), scan);
                }
        }
}

void json_numbers_to_texts(json_t *root, const char *json, size_t length)
{
        struct scan scan = {.at = json, .end = json + length};

        replace(root, &scan);
}

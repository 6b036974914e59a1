/*
 * In three steps: the text is compared with Jackson's limits, and parsed; a shape is made of it, as
 * Debezium makes a schema; the document is written by the shape. The limits come first, because
 * they bound how deep everything behind them recurses.
 *
 * A shape is JSON itself: an object of the members' shapes, an array of the one shape of its items,
 * or a number, which stands for a type.
 */
#include "sinks/format/debezium_expand.h"

#include "base/bytes.h"
#include "sinks/format/jackson.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

/* Jackson's StreamReadConstraints. */
enum {
        MAX_DEPTH = 1000,
        MAX_NUMBER_DIGITS = 1000,
        MAX_NAME_CHARS = 50000,
        MAX_TEXT_CHARS = 20000000,
};

enum { MAX_GROWTH = 16 * 1024 * 1024 };

/* UTF-16, as Java counts, of the string that begins at *at; moves behind it. In a text that ends
 * within the string it stops at the end. */
static size_t skip_text(const char **at, const char *end)
{
        size_t n_chars = 0;

        for ((*at)++; *at < end && **at != '"'; n_chars++) {
                unsigned char byte = (unsigned char)**at;

                if (byte == '\\' && end - *at > 1)
                        *at += (*at)[1] == 'u' && end - *at > 5 ? 6 : 2;
                else
                        (*at)++;
                n_chars += byte >= 0xf0;          /* two units */
                n_chars -= (byte & 0xc0) == 0x80; /* no unit of its own */
        }
        *at += *at < end;
        return n_chars;
}

static size_t skip_number(const char **at, const char *end)
{
        size_t n_digits = 0;

        for (; *at < end && **at != '\0' && strchr("0123456789+-.eE", **at) != NULL; (*at)++)
                n_digits += **at >= '0' && **at <= '9';
        return n_digits;
}

/* A text that is not JSON may pass. */
static bool is_within_limits(const char *json, size_t length)
{
        const char *end = json + length;
        size_t depth = 0;

        for (const char *at = json; at < end;) {
                if (*at == '"') {
                        size_t n_chars = skip_text(&at, end);

                        while (at < end && *at != '\0' && strchr(" \t\r\n", *at) != NULL)
                                at++;
                        if (n_chars > (at < end && *at == ':' ? MAX_NAME_CHARS : MAX_TEXT_CHARS))
                                return false;
                } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
                        if (skip_number(&at, end) > MAX_NUMBER_DIGITS)
                                return false;
                } else {
                        if ((*at == '{' || *at == '[') && ++depth > MAX_DEPTH)
                                return false;
                        depth -= (*at == '}' || *at == ']') && depth > 0;
                        at++;
                }
        }
        return true;
}

enum type { TYPE_TEXT, TYPE_BOOLEAN, TYPE_INT32, TYPE_INT64, TYPE_DOUBLE, TYPE_OBJECT, TYPE_ARRAY };

static enum type type_of(const json_t *value)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                return TYPE_OBJECT;
        case JSON_ARRAY:
                return TYPE_ARRAY;
        case JSON_INTEGER:
                return json_integer_value(value) >= INT32_MIN &&
                               json_integer_value(value) <= INT32_MAX
                           ? TYPE_INT32
                           : TYPE_INT64;
        case JSON_REAL:
                return TYPE_DOUBLE;
        case JSON_TRUE:
        case JSON_FALSE:
                return TYPE_BOOLEAN;
        case JSON_STRING:
        case JSON_NULL:
                break;
        }
        return TYPE_TEXT;
}

/* Besides shapes there are two words for none. As a member, the first is left out, the second lets
 * Debezium expand nothing. As a further item of an array of arrays, both take its shape. */
#define NOTHING json_null()  /* a null, or an empty array */
#define UNCLEAR json_false() /* an array of nothing else */

static bool is_shape(const json_t *shape)
{
        return !json_is_null(shape) && !json_is_false(shape);
}

static bool merge(json_t *shape, json_t *more)
{
        json_t *theirs;
        const char *name;

        if (json_is_array(shape) && json_is_array(more))
                return merge(json_array_get(shape, 0), json_array_get(more, 0));
        if (!json_is_object(shape) || !json_is_object(more))
                return json_is_integer(shape) && json_is_integer(more) &&
                       json_integer_value(shape) == json_integer_value(more);
        json_object_foreach(more, name, theirs)
        {
                json_t *ours = json_object_get(shape, name);

                if (ours == NULL)
                        json_object_set(shape, name, theirs);
                else if (!merge(ours, theirs))
                        return false;
        }
        return true;
}

static json_t *shape_of(json_t *value);

static json_t *shape_of_object(json_t *object)
{
        json_t *shape = json_object();
        json_t *member;
        const char *name;

        json_object_foreach(object, name, member)
        {
                json_t *of_member = shape_of(member);

                if (json_is_null(of_member))
                        continue;
                if (of_member == NULL || !is_shape(of_member) || *name == '\0') {
                        json_decref(of_member);
                        json_decref(shape);
                        return NULL;
                }
                json_object_set_new(shape, name, of_member);
        }
        return shape;
}

/* That of all items. One of another type has another shape, or none; then writing it fails. */
static json_t *shape_of_items(json_t *array, size_t first)
{
        json_t *shape = shape_of(json_array_get(array, first));

        for (size_t i = first + 1; i < json_array_size(array); i++) {
                json_t *item = json_array_get(array, i);
                json_t *more;
                bool fits;

                if (shape == NULL || !is_shape(shape))
                        break;
                if (json_is_null(item))
                        continue;
                more = shape_of(item);
                fits = more != NULL && (!is_shape(more) || merge(shape, more));
                json_decref(more);
                if (!fits) {
                        json_decref(shape);
                        return NULL;
                }
        }
        return shape;
}

static json_t *shape_of_array(json_t *array)
{
        size_t first = 0;
        json_t *items;

        if (json_array_size(array) == 0)
                return NOTHING;
        while (first < json_array_size(array) && json_is_null(json_array_get(array, first)))
                first++;
        if (first == json_array_size(array))
                return UNCLEAR;
        items = shape_of_items(array, first);
        if (items == NULL)
                return NULL;
        return is_shape(items) ? json_pack("[o]", items) : UNCLEAR;
}

/* To be released; NULL: Debezium expands no payload with this value. */
static json_t *shape_of(json_t *value)
{
        if (json_is_null(value))
                return NOTHING;
        switch (type_of(value)) {
        case TYPE_OBJECT:
                return shape_of_object(value);
        case TYPE_ARRAY:
                return shape_of_array(value);
        case TYPE_TEXT:
        case TYPE_BOOLEAN:
        case TYPE_INT32:
        case TYPE_INT64:
        case TYPE_DOUBLE:
                break;
        }
        return json_integer(type_of(value));
}

struct writer {
        struct bytes *out;
        size_t max_length; /* of `out` */
};

static void write_single(struct bytes *out, const json_t *value)
{
        if (json_is_string(value))
                jackson_append_text(out, json_string_value(value), json_string_length(value));
        else if (json_is_integer(value))
                bytes_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else if (json_is_real(value))
                jackson_append_double(out, json_real_value(value));
        else
                bytes_append_text(out, json_is_true(value) ? "true" : "false");
}

static bool write_value(struct writer *writer, json_t *value, json_t *shape);

static bool write_object(struct writer *writer, json_t *object, json_t *shape)
{
        size_t n_left = json_object_size(object); /* members that are not written yet */
        char before = '{';
        json_t *of_member;
        json_t *member;
        const char *name;

        json_object_foreach(shape, name, of_member)
        {
                member = json_object_get(object, name);
                n_left -= member != NULL;
                bytes_append(writer->out, &before, 1);
                jackson_append_text(writer->out, name, strlen(name));
                bytes_append(writer->out, ":", 1);
                if (!write_value(writer, member, of_member))
                        return false;
                before = ',';
        }
        bytes_append_text(writer->out, before == '{' ? "{}" : "}");
        if (n_left == 0)
                return true;
        json_object_foreach(object, name, member)
        {
                if (json_object_get(shape, name) == NULL && !json_is_null(member) &&
                    !(json_is_array(member) && json_array_size(member) == 0))
                        return false; /* it would be lost */
        }
        return true;
}

static bool write_array(struct writer *writer, json_t *array, json_t *shape)
{
        json_t *item;
        size_t i;

        bytes_append(writer->out, "[", 1);
        json_array_foreach(array, i, item)
        {
                if (i > 0)
                        bytes_append(writer->out, ",", 1);
                if (!write_value(writer, item, json_array_get(shape, 0)))
                        return false;
        }
        bytes_append(writer->out, "]", 1);
        return true;
}

/* False if the value does not have the shape. */
static bool write_value(struct writer *writer, json_t *value, json_t *shape)
{
        if (writer->out->length > writer->max_length)
                return false;
        if (value == NULL || json_is_null(value)) {
                bytes_append(writer->out, "null", 4);
                return true;
        }
        if (json_is_object(shape))
                return json_is_object(value) && write_object(writer, value, shape);
        if (json_is_array(shape))
                return json_is_array(value) && write_array(writer, value, shape);
        if (json_integer_value(shape) != (json_int_t)type_of(value))
                return false;
        write_single(writer->out, value);
        return true;
}

bool debezium_append_expanded(struct bytes *out, const char *json, size_t length)
{
        struct writer writer = {
            .out = out, .max_length = out->length + 3 * length + (size_t)MAX_GROWTH};
        size_t start = out->length;
        json_t *root = NULL;
        json_t *shape = NULL;
        bool is_written = false;

        if (*json == '{' && is_within_limits(json, length))
                root = json_loadb(json, length, JSON_ALLOW_NUL, NULL);
        if (root != NULL)
                shape = shape_of(root);
        if (shape != NULL)
                is_written = write_value(&writer, root, shape);
        json_decref(shape);
        json_decref(root);
        if (!is_written && out->length > start) {
                out->length = start;
                out->data[start] = '\0';
        }
        return is_written;
}

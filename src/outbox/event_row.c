#include "outbox/event_row.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <endian.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* 2000-01-01, the epoch of PostgreSQL's timestamps, in microseconds since 1970-01-01. */
#define POSTGRES_EPOCH_US INT64_C(946684800000000)

/* One event's headers: the parsed object that the strings live in, and the rest. */
struct header_block {
        struct header_block *next;
        json_t *object; /* owned */
        char **dumped;  /* owned: the texts of values that are not strings */
        size_t n_dumped;
        struct event_header *headers; /* owned; behind them their types, in the same memory */
};

/*
 * Numbers stay as they were written: jansson would refuse an integer beyond 64 bits, and write 0.1
 * as 0.10000000000000001. So each is given to it as a string that begins with this character, and
 * gets it back; a string or a name that begins with it by itself is given one more.
 */
#define MARK        '\x01'
#define MARK_ESCAPE "\\u0001" /* as PostgreSQL and jansson write it */
#define ESCAPE_SIZE (sizeof MARK_ESCAPE - 1)

static bool is_mark(const char *text, const char *end)
{
        return (size_t)(end - text) >= ESCAPE_SIZE && memcmp(text, MARK_ESCAPE, ESCAPE_SIZE) == 0;
}

/* The text with its numbers as strings. False, and nothing is written, if it is the same: few
 * headers have any. */
static bool quote_numbers(struct bytes *out_text, const char *text, size_t length)
{
        const char *end = text + length;
        const char *from = text;
        bool is_in_string = false;

        for (const char *at = text; at < end; at++) {
                if (*at == '"') {
                        is_in_string = !is_in_string;
                        if (is_in_string && is_mark(at + 1, end)) {
                                bytes_append(out_text, from, (size_t)(at + 1 - from));
                                bytes_append(out_text, MARK_ESCAPE, ESCAPE_SIZE);
                                from = at + 1;
                        }
                } else if (is_in_string) {
                        at += *at == '\\';
                } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
                        size_t n = 1;
                        while (at + n < end && strchr("-+.0123456789eE", at[n]) != NULL &&
                               at[n] != '\0')
                                n++;
                        bytes_append(out_text, from, (size_t)(at - from));
                        bytes_printf(out_text, "\"" MARK_ESCAPE "%.*s\"", (int)n, at);
                        from = at + n;
                        at = from - 1;
                }
        }
        if (from == text)
                return false;
        bytes_append(out_text, from, (size_t)(end - from));
        return true;
}

/* The reverse in a text that jansson has written. */
static void unquote_numbers(char *text)
{
        const char *end = text + strlen(text);
        const char *from = text;
        char *to = text;
        bool is_in_string = false;

        while (from < end) {
                bool is_quote = *from == '"';

                if (*from == '\\') {
                        *to++ = *from++;
                } else if (is_quote && !is_in_string && is_mark(from + 1, end)) {
                        from += 1 + ESCAPE_SIZE;
                        if (!is_mark(from, end)) {
                                while (*from != '"')
                                        *to++ = *from++;
                                from++;
                                continue;
                        }
                        *to++ = '"';
                        is_in_string = true;
                        continue;
                } else if (is_quote) {
                        is_in_string = !is_in_string;
                }
                *to++ = *from++;
        }
        *to = '\0';
}

static bool is_number(const json_t *value)
{
        const char *text = json_string_value(value);

        return text != NULL && text[0] == MARK && text[1] != MARK;
}

static const char *without_mark(const char *text)
{
        return text + (text[0] == MARK);
}

static enum event_header_type type_of(const json_t *value)
{
        if (is_number(value))
                return EVENT_HEADER_NUMBER;
        switch (json_typeof(value)) {
        case JSON_OBJECT:
        case JSON_ARRAY:
                return EVENT_HEADER_STRUCTURE;
        case JSON_STRING:
                return EVENT_HEADER_STRING;
        case JSON_INTEGER:
        case JSON_REAL: /* none is left: quote_numbers() */
                return EVENT_HEADER_NUMBER;
        case JSON_TRUE:
        case JSON_FALSE:
                return EVENT_HEADER_BOOLEAN;
        case JSON_NULL:
                return EVENT_HEADER_NULL;
        }
        abort();
}

static const char *value_text(struct header_block *block, const json_t *value)
{
        char *text;

        if (json_is_string(value)) {
                /* Only possible if jsonb ever learned \u0000; half a value would be a wrong one. */
                if (strlen(json_string_value(value)) != json_string_length(value))
                        return NULL;
                return without_mark(json_string_value(value));
        }
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        if (text == NULL)
                out_of_memory();
        unquote_numbers(text);
        block->dumped[block->n_dumped++] = text;
        return text;
}

void event_headers_read(
    struct event_headers *headers, const char *jsonb, size_t length, struct event *event)
{
        struct bytes quoted = {0};
        json_t *object = NULL;
        struct header_block *block;
        unsigned char *types;
        const char *name;
        json_t *value;

        /* The first byte of binary jsonb is a version; the text follows. */
        if (length > 1) {
                object = quote_numbers(&quoted, jsonb + 1, length - 1)
                             ? json_loadb(quoted.data, quoted.length, 0, NULL)
                             : json_loadb(jsonb + 1, length - 1, 0, NULL);
                bytes_deinit(&quoted);
        }
        if (object == NULL || json_object_size(object) == 0) {
                json_decref(object);
                return;
        }
        block = xcalloc(1, sizeof *block);
        block->object = object;
        block->headers = xcalloc(json_object_size(object), sizeof *block->headers + sizeof *types);
        types = (unsigned char *)(block->headers + json_object_size(object));
        block->dumped = xcalloc(json_object_size(object), sizeof *block->dumped);
        block->next = headers->blocks;
        headers->blocks = block;

        json_object_foreach(object, name, value)
        {
                const char *text = value_text(block, value);
                if (text == NULL || *name == '\0')
                        continue;
                types[event->n_headers] = (unsigned char)type_of(value);
                block->headers[event->n_headers++] =
                    (struct event_header){.name = without_mark(name), .value = text};
        }
        event->headers = block->headers;
        event->header_types = types;
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

int64_t event_row_int64(const PGresult *result, int row, int column)
{
        uint64_t big_endian;

        memcpy(&big_endian, PQgetvalue(result, row, column), sizeof big_endian);
        return (int64_t)be64toh(big_endian);
}

int32_t event_row_int32(const PGresult *result, int row, int column)
{
        uint32_t big_endian;

        memcpy(&big_endian, PQgetvalue(result, row, column), sizeof big_endian);
        return (int32_t)be32toh(big_endian);
}

bool event_row_bool(const PGresult *result, int row, int column)
{
        return !PQgetisnull(result, row, column) && *PQgetvalue(result, row, column) != 0;
}

static const char *text_of(const PGresult *result, int row, int column)
{
        return PQgetisnull(result, row, column) ? NULL : PQgetvalue(result, row, column);
}

static void read_uuid(const PGresult *result, int row, char text[37])
{
        static const char digits[] = "0123456789abcdef";
        const unsigned char *bytes =
            (const unsigned char *)PQgetvalue(result, row, COLUMN_EVENT_ID);

        for (int i = 0; i < 16; i++) {
                *text++ = digits[bytes[i] >> 4];
                *text++ = digits[bytes[i] & 15];
                if (i == 3 || i == 5 || i == 7 || i == 9)
                        *text++ = '-';
        }
        *text = '\0';
}

void event_row_read(
    const PGresult *result, int row, struct event_headers *headers, struct event *event)
{
        int payload;

        event->id = event_row_int64(result, row, COLUMN_ID);
        read_uuid(result, row, event->event_id);
        event->topic = text_of(result, row, COLUMN_TOPIC);
        event->key = text_of(result, row, COLUMN_KEY);
        event->type = text_of(result, row, COLUMN_TYPE);
        event->is_json = !PQgetisnull(result, row, COLUMN_PAYLOAD);
        payload = event->is_json ? COLUMN_PAYLOAD : COLUMN_DATA;
        event->payload = PQgetvalue(result, row, payload);
        event->payload_bytes = (size_t)PQgetlength(result, row, payload);
        event->created_us = event_row_int64(result, row, COLUMN_CREATED_AT) + POSTGRES_EPOCH_US;
        if (!PQgetisnull(result, row, COLUMN_SOURCE))
                event->source = event_row_int32(result, row, COLUMN_SOURCE);
        if (!PQgetisnull(result, row, COLUMN_HEADERS))
                event_headers_read(headers, PQgetvalue(result, row, COLUMN_HEADERS),
                    (size_t)PQgetlength(result, row, COLUMN_HEADERS), event);
}

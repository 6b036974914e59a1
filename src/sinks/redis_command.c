/*
 * This runs once for each event, so it goes without printf and without an
 * argument list: texts that never change are written with their lengths by the
 * preprocessor, and the second that most neighbouring events share is
 * formatted once.
 */
#include "sinks/redis_command.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/template.h"
#include "pgcourier/event.h"
#include "sinks/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct redis_xadd {
        struct template *stream; /* owned */
        struct bytes name;       /* the stream's name for the event at hand */
        struct bytes trimming;   /* MAXLEN ~ n, encoded; empty without trimming */
        int64_t second;          /* the one that second_text shows */
        char second_text[40];    /* "2024-01-31T23:59:59" */
};

/* One argument that is known here: its length is part of the program. */
#define APPEND_WORD(out, length, word)                                                             \
        do {                                                                                       \
                _Static_assert(sizeof(word) - 1 == (length), "the length of " word);               \
                bytes_append((out), "$" #length "\r\n" word "\r\n",                                \
                    sizeof("$" #length "\r\n" word "\r\n") - 1);                                   \
        } while (0)

/* Writes `number` before `end`; returns where it begins. */
static char *write_number(char *end, uint64_t number)
{
        do {
                *--end = (char)('0' + number % 10);
                number /= 10;
        } while (number > 0);
        return end;
}

/* "*3\r\n" or "$3\r\n". */
static void append_count(struct bytes *out, char mark, uint64_t count)
{
        char text[24];
        char *end = text + sizeof text - 2;
        char *begin = write_number(end, count);

        memcpy(end, "\r\n", 2);
        *--begin = mark;
        bytes_append(out, begin, (size_t)(text + sizeof text - begin));
}

static void append_argument(struct bytes *out, const void *data, size_t length)
{
        append_count(out, '$', length);
        bytes_append(out, data, length);
        bytes_append(out, "\r\n", 2);
}

static void append_text(struct bytes *out, const char *text)
{
        append_argument(out, text, strlen(text));
}

static void append_header(struct bytes *out, const struct event_header *header)
{
        static const char prefix[] = "header:";
        size_t length = strlen(header->name);

        append_count(out, '$', sizeof prefix - 1 + length);
        bytes_append(out, prefix, sizeof prefix - 1);
        bytes_append(out, header->name, length);
        bytes_append(out, "\r\n", 2);
        append_text(out, header->value);
}

static void format_second(struct redis_xadd *xadd, int64_t second)
{
        time_t when = second;
        struct tm utc = {0};

        gmtime_r(&when, &utc);
        strftime(xadd->second_text, sizeof xadd->second_text, "%Y-%m-%dT%H:%M:%S", &utc);
        xadd->second = second;
}

/* ISO 8601 in UTC, to the microsecond. */
static void append_time(struct redis_xadd *xadd, struct bytes *out, int64_t us)
{
        int64_t second = us / 1000000;
        int64_t rest = us % 1000000;
        char fraction[] = ".000000Z";
        size_t length;

        if (rest < 0) {
                second--;
                rest += 1000000;
        }
        if (xadd->second_text[0] == '\0' || second != xadd->second)
                format_second(xadd, second);
        length = strlen(xadd->second_text);
        write_number(fraction + 7, (uint64_t)rest);
        append_count(out, '$', length + sizeof fraction - 1);
        bytes_append(out, xadd->second_text, length);
        bytes_append(out, fraction, sizeof fraction - 1);
        bytes_append(out, "\r\n", 2);
}

struct redis_xadd *redis_xadd_create(const char *stream, uint64_t maxlen, struct error *error)
{
        static const char *const variables[] = {"topic", NULL};
        struct redis_xadd *xadd = xcalloc(1, sizeof *xadd);

        xadd->stream = template_compile(stream, variables, error);
        if (xadd->stream == NULL) {
                redis_xadd_destroy(xadd);
                return NULL;
        }
        if (maxlen > 0) {
                char number[24];

                snprintf(number, sizeof number, "%" PRIu64, maxlen);
                APPEND_WORD(&xadd->trimming, 6, "MAXLEN");
                APPEND_WORD(&xadd->trimming, 1, "~");
                append_text(&xadd->trimming, number);
        }
        return xadd;
}

void redis_xadd_destroy(struct redis_xadd *xadd)
{
        if (xadd == NULL)
                return;
        template_destroy(xadd->stream);
        bytes_deinit(&xadd->name);
        bytes_deinit(&xadd->trimming);
        free(xadd);
}

bool redis_xadd_is_stream_per_event(const struct redis_xadd *xadd)
{
        return template_has_variables(xadd->stream);
}

void redis_xadd_encode(struct redis_xadd *xadd, const struct event *event, struct bytes *out)
{
        const char *const values[] = {event->topic};
        size_t n_fields = 4 + (event->key != NULL) + (event->type != NULL) + event->n_headers +
                          event->is_redriven;
        size_t n_trimming = xadd->trimming.length > 0 ? 3 : 0;

        bytes_clear(&xadd->name);
        template_render(xadd->stream, values, &xadd->name);

        append_count(out, '*', 3 + n_trimming + 2 * n_fields);
        APPEND_WORD(out, 4, "XADD");
        append_argument(out, xadd->name.data, xadd->name.length);
        bytes_append(out, xadd->trimming.data, xadd->trimming.length);
        APPEND_WORD(out, 1, "*");
        APPEND_WORD(out, 2, "id");
        append_text(out, event->event_id);
        APPEND_WORD(out, 5, "topic");
        append_text(out, event->topic);
        if (event->key != NULL) {
                APPEND_WORD(out, 3, "key");
                append_text(out, event->key);
        }
        if (event->type != NULL) {
                APPEND_WORD(out, 4, "type");
                append_text(out, event->type);
        }
        APPEND_WORD(out, 4, "time");
        append_time(xadd, out, event->created_us);
        APPEND_WORD(out, 7, "payload");
        append_argument(out, event->payload, event->payload_bytes);
        for (size_t i = 0; i < event->n_headers; i++)
                append_header(out, &event->headers[i]);
        if (event->is_redriven) {
                APPEND_WORD(out, 8, "redriven");
                APPEND_WORD(out, 1, "1");
        }
}

void redis_xadd_describe(
    const struct redis_xadd *xadd, const struct event *event, char *stream, size_t size)
{
        const char *const values[] = {event->topic};
        struct bytes name = {0};

        bytes_append_text(&name, "");
        template_render(xadd->stream, values, &name);
        utf8_copy(stream, size, name.data);
        bytes_deinit(&name);
}

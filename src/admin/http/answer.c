#include "admin/http/answer.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A browser may run nothing here but the page, and no other site may frame, embed or read it. */
const struct http_header answer_headers[] = {
    {"Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; "
                                "connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
                                "form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {NULL, NULL},
};

static void answer(
    struct http_call *request, unsigned status, json_t *document, const struct http_header *headers)
{
        char *text = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(6));

        if (text == NULL)
                out_of_memory();
        json_decref(document);
        http_call_answer(request, &(struct http_answer){.status = status,
                                      .content_type = "application/json",
                                      .body = text,
                                      .body_length = strlen(text),
                                      .headers = headers});
        free(text);
}

void answer_json(struct http_call *request, unsigned status, json_t *document)
{
        answer(request, status, document, NULL);
}

void answer_refusal_with(
    struct http_call *request, unsigned status, const struct http_header *header, const char *words)
{
        const struct http_header headers[] = {
            {header != NULL ? header->name : NULL, header != NULL ? header->value : NULL},
            {NULL, NULL}};
        json_t *document = json_pack("{s:s}", "error", words);

        /* Some words quote what a peer sent, which need not be UTF-8. */
        if (document == NULL)
                document = json_pack("{s:s}", "error", "the request is not valid UTF-8");
        answer(request, status, document, headers);
}

void answer_refusal(struct http_call *request, unsigned status, const char *format, ...)
{
        va_list arguments;
        char *words;

        va_start(arguments, format);
        words = xvasprintf(format, arguments);
        va_end(arguments);
        answer_refusal_with(request, status, NULL, words);
        free(words);
}

static unsigned status_of(enum error_kind kind)
{
        switch (kind) {
        case ERROR_USAGE:
        case ERROR_CONFIG:
                return 400;
        case ERROR_EMPTY:
                return 404;
        case ERROR_DATABASE:
        case ERROR_LOGIN:
        case ERROR_SCHEMA:
        case ERROR_PERMISSION:
        case ERROR_TEMPORARY:
        case ERROR_SINK:
                return 503;
        case ERROR_NONE:
        case ERROR_SYSTEM:
                return 500;
        }
        abort();
}

void answer_error(struct http_call *request, const struct error *error)
{
        answer_refusal(request, status_of(error->kind), "%s", error->text);
}

json_t *json_time(int64_t wall_us)
{
        time_t seconds = (time_t)(wall_us / 1000000);
        struct tm utc;
        char text[64];
        size_t length;

        if (wall_us <= 0)
                return json_null();
        gmtime_r(&seconds, &utc);
        length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(text + length, sizeof text - length, ".%03dZ", (int)(wall_us / 1000 % 1000));
        return json_string(text);
}

json_t *json_seconds(double seconds)
{
        return seconds < 0 ? json_null() : json_real(seconds);
}

json_t *json_words(const char *text)
{
        json_t *words = text != NULL && *text != '\0' ? json_string(text) : NULL;

        return words != NULL ? words : json_null();
}

json_t *json_member(const json_t *object, const char *name)
{
        json_t *member = json_object_get(object, name);

        return member != NULL ? json_incref(member) : json_null();
}

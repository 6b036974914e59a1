/*
 * Header lines go out as they are, line breaks included, so every value that comes from an event
 * passes one of two gates:
 *
 * - topic, key and type (x-event-*, ce-*) are percent-encoded outside visible
 *   ASCII (sinks/format/percent.h): the receiver decodes any text exactly, and
 *   none is refused for being UTF-8.
 * - event headers go out as they are, because their receivers (tracing,
 *   routing) expect the value itself. UTF-8 is allowed, but not space at the
 *   ends, which every receiver strips.
 *
 * Control characters pass neither: no honest key holds them, and a line break
 * that a gateway decodes too early is an injection.
 */
#include "sinks/http/http_headers.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "sinks/format/cloudevents.h"
#include "sinks/format/event_time.h"
#include "sinks/format/percent.h"
#include "sinks/format/trace.h"
#include "sinks/http/http_signing.h"
#include "sinks/http/http_target.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Until end_line() the value is appended to `lines`. */
static void begin_line(struct bytes *lines, const char *name)
{
        bytes_append_text(lines, name);
        bytes_append(lines, ": ", 2);
}

static void end_line(struct bytes *lines)
{
        bytes_append(lines, "\r\n", 2);
}

struct header_list {
        struct bytes *lines;          /* borrowed */
        struct outcome *out_rejected; /* borrowed */
        bool is_rejected;
};

/* Servers take a fraction of this. */
enum { MAX_HEADER_BYTES = 256 * 1024 };

static void append(struct header_list *list, const char *name, const char *value)
{
        begin_line(list->lines, name);
        bytes_append_text(list->lines, value);
        end_line(list->lines);
}

static void reject(struct header_list *list, const char *name, const char *why)
{
        if (!list->is_rejected)
                *list->out_rejected = outcome_make(
                    OUTCOME_REJECTED, "the value of header %.100s cannot be sent: %s", name, why);
        list->is_rejected = true;
}

/* Strictly: '"' too. */
static void append_encoded(
    struct header_list *list, const char *name, const char *value, bool is_strict)
{
        if (utf8_has_control(value)) {
                reject(list, name, "it holds a line break or another control character");
                return;
        }
        begin_line(list->lines, name);
        percent_append(list->lines, value, is_strict);
        end_line(list->lines);
}

static void append_as_is(struct header_list *list, const char *name, const char *value)
{
        size_t length = strlen(value);

        if (utf8_has_control(value))
                reject(list, name, "it holds a line break or another control character");
        else if (length > 0 && (value[0] == ' ' || value[length - 1] == ' '))
                reject(list, name, "it begins or ends with space, which HTTP strips");
        else
                append(list, name, value);
}

static bool is_listed(const struct http_config *config, const char *name)
{
        for (unsigned i = 0; i < config->n_headers; i++)
                if (strcasecmp(config->headers[i], name) == 0)
                        return true;
        return false;
}

static void append_event_headers(struct header_list *list, const struct http_request_head *head)
{
        const struct http_config *config = head->config;
        const struct event *event = head->event;

        for (unsigned i = 0; i < config->n_headers; i++)
                for (size_t j = 0; j < event->n_headers; j++)
                        if (strcasecmp(config->headers[i], event->headers[j].name) == 0 &&
                            !http_header_is_among(head->fixed, config->headers[i]))
                                append_as_is(list, config->headers[i], event->headers[j].value);
}

static void append_trace(struct header_list *list, const struct http_request_head *head)
{
        const struct trace trace = trace_of(head->event);

        if (trace.parent != NULL && !is_listed(head->config, "traceparent") &&
            !http_header_is_among(head->fixed, "traceparent"))
                append(list, "traceparent", trace.parent);
        if (trace.state != NULL && !is_listed(head->config, "tracestate") &&
            !http_header_is_among(head->fixed, "tracestate"))
                append(list, "tracestate", trace.state);
}

static void append_webhook_headers(struct header_list *list, const struct http_request_head *head)
{
        char timestamp[24];

        snprintf(timestamp, sizeof timestamp, "%" PRId64, head->now_s);
        append(list, "webhook-id", head->id);
        append(list, "webhook-timestamp", timestamp);
        if (head->signing == NULL)
                return;
        begin_line(list->lines, http_signing_header(head->signing));
        http_signing_append(
            head->signing, head->id, head->now_s, head->body, head->body_bytes, list->lines);
        end_line(list->lines);
}

struct event_header *http_headers_shown(
    const struct http_config *config, const struct event *event, size_t *out_n_headers)
{
        struct event_header *shown = xcalloc(event->n_headers + 1, sizeof *shown);
        const struct trace trace = trace_of(event);
        size_t n = 0;

        for (size_t i = 0; i < event->n_headers; i++) {
                const char *value = event->headers[i].value;

                if (is_listed(config, event->headers[i].name) || value == trace.parent ||
                    value == trace.state)
                        shown[n++] = event->headers[i];
        }
        *out_n_headers = n;
        return shown;
}

static void append_attribute(void *owner, const struct cloudevents_attribute *attribute)
{
        char *name;

        if (strcmp(attribute->name, "datacontenttype") == 0)
                return; /* HTTP has a header for that */
        name = xasprintf("ce-%s", attribute->name);
        append_encoded(owner, name, attribute->value, true);
        free(name);
}

static void append_cloudevent_headers(
    struct header_list *list, const struct http_config *config, const struct event *event)
{
        struct event shown = *event;
        struct event_header *headers = http_headers_shown(config, event, &shown.n_headers);
        struct event_time time = {0};

        shown.headers = headers;
        cloudevents_each_attribute(&shown, config->source, &time, append_attribute, list);
        free(headers);
}

static void append_event_names(struct header_list *list, const struct event *event)
{
        append_encoded(list, "x-event-topic", event->topic, false);
        if (event->key != NULL)
                append_encoded(list, "x-event-key", event->key, false);
        if (event->type != NULL)
                append_encoded(list, "x-event-type", event->type, false);
}

static void append_all_of_event(struct header_list *list, const struct http_request_head *head)
{
        switch (head->config->body) {
        case HTTP_BODY_RAW:
        case HTTP_BODY_STANDARD:
                append_event_names(list, head->event);
                break;
        case HTTP_BODY_CLOUDEVENTS:
                append_cloudevent_headers(list, head->config, head->event);
                break;
        case HTTP_BODY_CLOUDEVENTS_STRUCTURED:
                break; /* all of it is in the body */
        }
        if (head->event->is_redriven)
                append(list, "x-event-redriven", "true");
        append_event_headers(list, head);
        append_trace(list, head);
}

const char *http_content_type(const struct http_config *config, const struct event *event)
{
        if (config->body == HTTP_BODY_CLOUDEVENTS_STRUCTURED)
                return event != NULL ? "application/cloudevents+json"
                                     : "application/cloudevents-batch+json";
        if (event == NULL || config->body == HTTP_BODY_STANDARD || event->is_json)
                return "application/json";
        return "application/octet-stream";
}

bool http_headers_append(
    const struct http_request_head *head, struct bytes *lines, struct outcome *out_rejected)
{
        struct header_list list = {.lines = lines, .out_rejected = out_rejected};
        size_t length_before = lines->length;

        append(&list, "Content-Type", http_content_type(head->config, head->event));
        if (head->config->gzip)
                append(&list, "Content-Encoding", "gzip");
        append_webhook_headers(&list, head);
        if (head->event != NULL)
                append_all_of_event(&list, head);
        if (lines->length - length_before > MAX_HEADER_BYTES && !list.is_rejected) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "topic, key, type and headers take %zu bytes; at most %d can be sent",
                    lines->length - length_before, MAX_HEADER_BYTES);
                list.is_rejected = true;
        }
        return !list.is_rejected;
}

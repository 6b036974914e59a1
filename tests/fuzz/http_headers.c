/*
 * A byte of switches, then TOPIC NUL KEY NUL TYPE NUL NAME NUL VALUE NUL NAME NUL VALUE...: the
 * headers of an event and, for another request, of a receiver. Lines go out as
 * they are, so none may hold a line break, and none may be named otherwise than we meant.
 */
#include "sinks/http/http_headers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "fuzz.h"
#include "sinks/http/http_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EVENT_ID    "0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f"
#define MAX_HEADERS 8

static char x_tenant[] = "X-Tenant";
static char x_trace[] = "X-Request-Id";
static char *passed[] = {x_tenant, x_trace};
static char source[] = "/shop";

static const char *const names[] = {"Content-Type", "Content-Encoding", "webhook-id",
    "webhook-timestamp", "x-event-topic", "x-event-key", "x-event-type", "x-event-redriven",
    "traceparent", "tracestate", x_tenant, x_trace};

static const char *value_of(const char *line, const char *name)
{
        size_t length = strlen(name);

        if (strncmp(line, name, length) != 0)
                return NULL;
        return strncmp(line + length, ": ", 2) == 0 ? line + length + 2 : NULL;
}

/* Percent-decoded, as a receiver would; NULL if that fails. */
static char *decode(const char *text)
{
        char *out = xcalloc(strlen(text) + 1, 1);
        size_t n = 0;

        for (; *text != '\0'; text++) {
                unsigned byte = (unsigned char)*text;
                if (*text == '%') {
                        fuzz_require(sscanf(text + 1, "%2x", &byte) == 1, "it decodes", text);
                        text += 2;
                }
                out[n++] = (char)byte;
        }
        return out;
}

/* The next line without its end, or NULL; *at moves behind it. */
static char *next_line(const char **at)
{
        const char *end;
        char *line;

        if (**at == '\0')
                return NULL;
        end = strstr(*at, "\r\n");
        fuzz_require(end != NULL, "each line ends with CR and LF", *at);
        line = xstrndup(*at, (size_t)(end - *at));
        *at = end + 2;
        return line;
}

static void check_round_trip(const char *lines, const char *name, const char *text)
{
        bool is_found = false;
        char *line;

        while (!is_found && (line = next_line(&lines)) != NULL) {
                const char *value = value_of(line, name);

                if (value != NULL) {
                        char *decoded = decode(value);

                        fuzz_require(text != NULL && strcmp(decoded, text) == 0,
                            "a receiver can decode it exactly", line);
                        free(decoded);
                        is_found = true;
                }
                free(line);
        }
        fuzz_require(is_found || text == NULL, "what the event has is sent", name);
}

static void check_lines(const char *lines, bool is_cloudevent)
{
        char *line;

        while ((line = next_line(&lines)) != NULL) {
                bool is_known = is_cloudevent && strncmp(line, "ce-", 3) == 0;

                fuzz_require(fuzz_is_one_line(line, false), "a header is one line", line);
                for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                        is_known |= value_of(line, names[i]) != NULL;
                fuzz_require(is_known, "no other header is sent", line);
                free(line);
        }
}

static void check_event(const struct event *event, unsigned switches)
{
        const struct http_config config = {.headers = passed,
            .n_headers = 2,
            .source = source,
            .gzip = (switches & 1) != 0,
            .body = (switches & 2) != 0 ? HTTP_BODY_CLOUDEVENTS : HTTP_BODY_RAW};
        const struct http_request_head head = {.config = &config,
            .event = event,
            .id = event->event_id,
            .now_s = 1,
            .body = event->payload,
            .body_bytes = event->payload_bytes};
        struct outcome rejected = outcome_delivered;
        struct bytes lines = {0};

        if (!http_headers_append(&head, &lines, &rejected)) {
                fuzz_require(
                    rejected.kind == OUTCOME_REJECTED, "what cannot be sent is rejected", "");
                fuzz_require_outcome(&rejected);
                bytes_deinit(&lines);
                return;
        }
        check_lines(lines.data, config.body == HTTP_BODY_CLOUDEVENTS);
        if (config.body == HTTP_BODY_RAW) {
                check_round_trip(lines.data, "x-event-topic", event->topic);
                check_round_trip(lines.data, "x-event-key", event->key);
                check_round_trip(lines.data, "x-event-type", event->type);
        }
        bytes_deinit(&lines);
}

/* The first characters of a line up to its : are a token, and none of those that are ours. */
static void check_own(const struct event_header *headers, size_t n)
{
        static const char *const ours[] = {"host", "content-length", "transfer-encoding",
            "content-type", "webhook-id", "webhook-signature", "x-event-key", "connection"};
        const struct http_config config = {.body = HTTP_BODY_RAW};
        struct error error = {.kind = ERROR_NONE};
        char *lines = http_fixed_headers_make(&config, headers, n, &error);
        const char *at = lines;
        char *line;

        if (lines == NULL) {
                fuzz_require(error.kind == ERROR_CONFIG, "an error is set", "");
                return;
        }
        while ((line = next_line(&at)) != NULL) {
                size_t length = strcspn(line, ": \t");

                fuzz_require(fuzz_is_one_line(line, false), "a header is one line", line);
                fuzz_require(length > 0 && line[length] == ':', "a header has a name", line);
                for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
                        fuzz_require(
                            strncasecmp(line, ours[i], length) != 0 || strlen(ours[i]) != length,
                            "no receiver replaces what is ours", line);
                free(line);
        }
        free(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        char *topic = fuzz_take_text(&input);
        char *key = fuzz_take_text(&input);
        char *type = fuzz_take_text(&input);
        struct event_header headers[MAX_HEADERS];
        struct event event = {.event_id = EVENT_ID,
            .topic = topic,
            .key = (switches & 4) != 0 ? NULL : key,
            .type = (switches & 8) != 0 ? NULL : type,
            .payload = "{}",
            .payload_bytes = 2,
            .is_json = true,
            .headers = headers,
            .is_redriven = (switches & 16) != 0};

        while (input.size > 0 && event.n_headers < MAX_HEADERS) {
                char *name = fuzz_take_text(&input);
                headers[event.n_headers++] =
                    (struct event_header){.name = name, .value = fuzz_take_text(&input)};
        }
        check_event(&event, switches);
        check_own(headers, event.n_headers);
        for (size_t i = 0; i < event.n_headers; i++) {
                free((char *)(uintptr_t)headers[i].name);
                free((char *)(uintptr_t)headers[i].value);
        }
        free(type);
        free(key);
        free(topic);
        return 0;
}

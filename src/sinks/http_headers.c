/*
 * libcurl sends header lines as they are, line breaks included, so every value
 * that comes from an event passes one of two gates:
 *
 * - topic, key and type (x-event-*) are percent-encoded outside visible ASCII:
 *   the receiver decodes any text exactly, and none is refused for being UTF-8.
 *   '%' is encoded too, or decoding would be ambiguous.
 * - event headers go out as they are, because their receivers (tracing,
 *   routing) expect the value itself. UTF-8 is allowed, but not space at the
 *   ends, which every receiver strips.
 *
 * Control characters pass neither: no honest key holds them, and a line break
 * that somebody decodes too early is an injection.
 */
#include "sinks/http_headers.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "sinks/webhook_signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What event headers may not replace: ours, and those that frame or route the request. A name
 * ending in '-' stands for all that begin with it. */
static const char *const reserved_names[] = {"connection", "content-length", "content-type",
    "expect", "host", "keep-alive", "proxy-", "te", "trailer", "transfer-encoding", "upgrade",
    "user-agent", "webhook-", "x-event-"};

struct header_list {
        struct curl_slist *lines;     /* owned */
        struct outcome *out_rejected; /* borrowed */
        size_t bytes;
        bool is_rejected;
};

static bool is_reserved(const char *name)
{
        for (size_t i = 0; i < sizeof reserved_names / sizeof reserved_names[0]; i++) {
                size_t length = strlen(reserved_names[i]);

                if (strncasecmp(name, reserved_names[i], length) == 0 &&
                    (name[length] == '\0' || reserved_names[i][length - 1] == '-'))
                        return true;
        }
        return false;
}

static bool is_token(const char *name)
{
        size_t length = strspn(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        return length > 0 && name[length] == '\0';
}

bool http_headers_check_names(const struct http_config *config, struct error *error)
{
        for (unsigned i = 0; i < config->n_headers; i++) {
                if (!is_token(config->headers[i]))
                        return error_set(error, ERROR_CONFIG,
                            "http.headers: \"%s\" cannot be the name of an HTTP header: letters, "
                            "digits and - are safe",
                            config->headers[i]);
                if (is_reserved(config->headers[i]))
                        return error_set(error, ERROR_CONFIG,
                            "http.headers: %s cannot come from events: pgcourier or HTTP itself "
                            "sets it; remove it from the list",
                            config->headers[i]);
        }
        return true;
}

/* libcurl builds a request in 1 MiB at most, and servers take a fraction of this. */
enum { MAX_HEADER_BYTES = 256 * 1024 };

static void append(struct header_list *list, const char *name, const char *value)
{
        /* libcurl's own spelling: "name;" for a header without value, where "name:" removes it. */
        char *line = value[0] != '\0' ? xasprintf("%s: %s", name, value) : xasprintf("%s;", name);
        struct curl_slist *longer = curl_slist_append(list->lines, line);

        if (longer == NULL)
                out_of_memory();
        list->lines = longer;
        list->bytes += strlen(line) + strlen("\r\n");
        free(line);
}

static void reject(struct header_list *list, const char *name, const char *why)
{
        if (!list->is_rejected)
                *list->out_rejected = outcome_make(
                    OUTCOME_REJECTED, "the value of header %.100s cannot be sent: %s", name, why);
        list->is_rejected = true;
}

static bool has_control(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text < ' ' || *text == '\x7f')
                        return true;
        return false;
}

static void append_encoded(struct header_list *list, const char *name, const char *value)
{
        struct bytes encoded = {0};

        if (has_control(value)) {
                reject(list, name, "it holds a line break or another control character");
                return;
        }
        bytes_append_text(&encoded, "");
        for (const char *at = value; *at != '\0'; at++) {
                if (*at > ' ' && *at <= '~' && *at != '%')
                        bytes_append(&encoded, at, 1);
                else
                        bytes_printf(&encoded, "%%%02X", (unsigned char)*at);
        }
        append(list, name, encoded.data);
        bytes_deinit(&encoded);
}

static void append_as_is(struct header_list *list, const char *name, const char *value)
{
        size_t length = strlen(value);

        if (has_control(value))
                reject(list, name, "it holds a line break or another control character");
        else if (length > 0 && (value[0] == ' ' || value[length - 1] == ' '))
                reject(list, name, "it begins or ends with space, which HTTP strips");
        else
                append(list, name, value);
}

static void append_event_headers(
    struct header_list *list, const struct http_config *config, const struct event *event)
{
        for (unsigned i = 0; i < config->n_headers; i++)
                for (size_t j = 0; j < event->n_headers; j++)
                        if (strcasecmp(config->headers[i], event->headers[j].name) == 0)
                                append_as_is(list, config->headers[i], event->headers[j].value);
}

static void append_webhook_headers(struct header_list *list, const struct event *event,
    const struct webhook_signer *signer, int64_t now_s)
{
        char timestamp[24];
        char signature[WEBHOOK_SIGNATURE_SIZE];

        snprintf(timestamp, sizeof timestamp, "%" PRId64, now_s);
        append(list, "webhook-id", event->event_id);
        append(list, "webhook-timestamp", timestamp);
        if (signer == NULL)
                return;
        webhook_signer_sign(
            signer, event->event_id, now_s, event->payload, event->payload_bytes, signature);
        append(list, "webhook-signature", signature);
}

struct curl_slist *http_headers_make(const struct http_config *config, const struct event *event,
    const struct webhook_signer *signer, int64_t now_s, struct outcome *out_rejected)
{
        struct header_list list = {.out_rejected = out_rejected};

        append(&list, "Content-Type",
            event->is_json ? "application/json" : "application/octet-stream");
        append_webhook_headers(&list, event, signer, now_s);
        append_encoded(&list, "x-event-topic", event->topic);
        if (event->key != NULL)
                append_encoded(&list, "x-event-key", event->key);
        if (event->type != NULL)
                append_encoded(&list, "x-event-type", event->type);
        if (event->is_redriven)
                append(&list, "x-event-redriven", "true");
        append_event_headers(&list, config, event);
        if (list.bytes > MAX_HEADER_BYTES && !list.is_rejected) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "topic, key, type and headers take %zu bytes; at most %d can be sent",
                    list.bytes, MAX_HEADER_BYTES);
                list.is_rejected = true;
        }

        if (list.is_rejected) {
                curl_slist_free_all(list.lines);
                return NULL;
        }
        return list.lines;
}

#include "sinks/http/http_message.h"

#include "base/alloc.h"
#include "config/config.h"
#include "sinks/http/http_batcher.h"
#include "sinks/http/http_body.h"
#include "sinks/http/http_gzip.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_target.h"

#include <stdlib.h>

static void adopt(struct http_message *message, struct bytes *built)
{
        bytes_deinit(&message->built);
        message->built = *built;
        message->body = built->length > 0 ? built->data : "";
        message->body_bytes = built->length;
}

static void make_body(struct http_message *message, const struct http_config *config,
    const struct event *const *events, size_t n_events)
{
        struct bytes built = {0};
        struct bytes compressed = {0};

        if (http_body_is_payload(config)) {
                message->body = events[0]->payload;
                message->body_bytes = events[0]->payload_bytes;
        } else {
                if (config->batch != NULL)
                        http_body_append_batch(config, events, n_events, &built);
                else
                        http_body_append(config, events[0], &built);
                adopt(message, &built);
        }
        if (config->gzip) {
                http_gzip_append(&compressed, message->body, message->body_bytes);
                adopt(message, &compressed);
        }
}

bool http_message_make(struct http_message *message, const struct http_config *config,
    const struct http_target *target, struct attempt *const *attempts, size_t n_attempts,
    int64_t now_s, struct outcome *out_rejected)
{
        const struct event **events = xcalloc(n_attempts, sizeof(struct event *));
        bool can_carry = true;
        char id[37];

        http_message_clear(message);
        for (size_t i = 0; i < n_attempts; i++) {
                events[i] = attempts[i]->event;
                can_carry = can_carry && http_body_can_carry(config, events[i], out_rejected);
        }
        if (can_carry) {
                make_body(message, config, events, n_attempts);
                http_batch_id(events, n_attempts, id);
                const struct http_request_head head = {.config = config,
                    .event = config->batch == NULL ? events[0] : NULL,
                    .id = id,
                    .fixed = target->fixed,
                    .signing = target->signing,
                    .now_s = now_s,
                    .body = message->body,
                    .body_bytes = message->body_bytes};
                message->headers = http_headers_make(&head, &message->lines, out_rejected);
        }
        free(events);
        return message->headers != NULL;
}

void http_message_clear(struct http_message *message)
{
        bytes_deinit(&message->built);
        message->headers = NULL;
}

void http_message_deinit(struct http_message *message)
{
        http_message_clear(message);
        http_lines_deinit(&message->lines);
}

/*
 * A byte of switches, SUBJECT NUL TOPIC NUL TYPE NUL KEY NUL NAME NUL VALUE NUL PAYLOAD: the event
 * is published, and what goes to the server is read back by a second reader.
 */
#include "sinks/nats/nats_message.h"

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "fuzz.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static char source[] = "/shop";
static char nothing[] = "default";
static char stream[] = "STREAM";

static void check_subject(const char *subject, size_t length)
{
        fuzz_require(length > 0 && length <= 1024, "a subject has a length", "");
        fuzz_require(*subject != '$' && strncmp(subject, "_INBOX", 6) != 0,
            "an event reaches nothing but events", subject);
        fuzz_require(
            *subject != '.' && subject[length - 1] != '.', "each part has a name", subject);
        for (size_t i = 0; i < length; i++)
                fuzz_require((unsigned char)subject[i] > ' ' && subject[i] != '*' &&
                                 subject[i] != '>' && (subject[i] != '.' || subject[i + 1] != '.'),
                    "a subject is one", subject);
}

/* Each line is a header; of those that a server acts on only ours, each once. */
static void check_headers(const char *text, size_t length, const struct event *event, bool has_id)
{
        const char *end = text + length - 2;
        unsigned n_ids = 0;
        unsigned n_streams = 0;

        fuzz_require(strncmp(text, "NATS/1.0\r\n", 10) == 0, "headers have a version", text);
        fuzz_require(memcmp(end, "\r\n", 2) == 0, "headers end", text);
        for (const char *line = text + 10; line < end;) {
                const char *next = memchr(line, '\r', (size_t)(end - line));
                const char *colon = memchr(line, ':', (size_t)(end - line));

                fuzz_require(
                    next != NULL && next[1] == '\n' && next > line, "a header is one line", line);
                fuzz_require(
                    colon != NULL && colon > line && colon < next, "a header has a name", line);
                fuzz_require(memchr(line, '\n', (size_t)(next - line)) == NULL &&
                                 memchr(line, '\0', (size_t)(next - line)) == NULL,
                    "a header is one line", line);
                if (strncmp(line, "Nats-Msg-Id: ", 13) == 0) {
                        n_ids++;
                        fuzz_require(
                            strncmp(line + 13, event->event_id, 36) == 0 && next == line + 13 + 36,
                            "the id is the event's", line);
                } else if (strncmp(line, "Nats-Expected-Stream: STREAM\r", 29) == 0) {
                        n_streams++;
                } else {
                        fuzz_require(
                            strncasecmp(line, "Nats-", 5) != 0, "an event orders nothing", line);
                }
                line = next + 2;
        }
        fuzz_require(n_ids == (has_id ? 1 : 0) && n_streams == 1, "our orders are there", text);
}

static void check_publication(
    const struct bytes *out, const struct nats_message *message, const struct event *event)
{
        const struct nats_config *config = message->config;
        const char *subject = out->data + 5;
        size_t subject_bytes = strcspn(subject, " ");
        size_t headers_bytes;
        size_t total;
        int n = -1;

        fuzz_require(strncmp(out->data, "HPUB ", 5) == 0, "it is a publication", out->data);
        check_subject(subject, subject_bytes);
        fuzz_require(
            sscanf(subject + subject_bytes, " reply %zu %zu%n", &headers_bytes, &total, &n) == 2 &&
                n > 0 && memcmp(subject + subject_bytes + n, "\r\n", 2) == 0,
            "it has its lengths", out->data);
        subject += subject_bytes + (size_t)n + 2;
        fuzz_require((size_t)(subject - out->data) + total + 2 == out->length &&
                         memcmp(subject + total, "\r\n", 2) == 0,
            "it is as long as it says", out->data);
        check_headers(subject, headers_bytes, event,
            config->duplicates == NATS_DUPLICATES_ID && !event->is_redriven);
        if (config->message.format == MESSAGE_NATIVE ||
            config->message.format == MESSAGE_CLOUDEVENTS)
                fuzz_require(
                    total - headers_bytes == event->payload_bytes &&
                        memcmp(subject + headers_bytes, event->payload, event->payload_bytes) == 0,
                    "the body is the payload, byte for byte", out->data);
}

static void check(const struct nats_config *config, const struct event *event)
{
        struct error error = {.kind = ERROR_NONE};
        struct nats_subject *subject = nats_subject_create(config->subject, "_INBOX", &error);
        struct nats_message message;
        struct outcome refusal = outcome_delivered;
        const struct bytes *text;
        struct bytes out = {0};

        if (subject == NULL) {
                fuzz_require(error.kind == ERROR_CONFIG, "an error is set", config->subject);
                return;
        }
        nats_message_init(&message, config);
        text = nats_subject_of(subject, event, &refusal);
        if (text == NULL || !nats_message_make(&message, event, 1000000, &refusal)) {
                fuzz_require(refusal.kind == OUTCOME_REJECTED, "what cannot go is rejected", "");
                fuzz_require_outcome(&refusal);
        } else {
                nats_append_publication(&out, &(struct nats_publication){.subject = text->data,
                                                  .subject_bytes = text->length,
                                                  .reply = "reply",
                                                  .reply_bytes = 5,
                                                  .headers = message.headers.data,
                                                  .headers_bytes = message.headers.length,
                                                  .payload = message.body,
                                                  .payload_bytes = message.body_bytes});
                check_publication(&out, &message, event);
        }
        bytes_deinit(&out);
        nats_message_deinit(&message);
        nats_subject_destroy(subject);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        char *subject = fuzz_take_text(&input);
        char *topic = fuzz_take_text(&input);
        char *type = fuzz_take_text(&input);
        char *key = fuzz_take_text(&input);
        char *name = fuzz_take_text(&input);
        char *value = fuzz_take_text(&input);
        size_t length;
        char *payload = fuzz_take_rest(&input, &length);
        const struct event_header header = {.name = *name != '\0' ? name : "a", .value = value};
        const enum debezium_form form =
            (switches & 4) != 0 ? DEBEZIUM_JSON_SCHEMA : DEBEZIUM_STRING;
        const struct nats_config config = {.subject = subject,
            .stream = stream,
            .duplicates = (switches & 8) != 0 ? NATS_DUPLICATES_OFF : NATS_DUPLICATES_ID,
            .message = {.format = (enum message_format)(switches & 3),
                .source = source,
                .debezium = {.key = form,
                    .value = form,
                    .headers = form,
                    .null_key = nothing,
                    .null_value = nothing}}};
        const struct event event = {.event_id = "018f2b6e-5c1d-7a43-9b0e-2f64a1c7d911",
            .topic = topic,
            .type = (switches & 32) != 0 ? NULL : type,
            .key = (switches & 64) != 0 ? NULL : key,
            .payload = payload,
            .payload_bytes = length,
            .created_us = 1706745599000001,
            .headers = &header,
            .n_headers = 1,
            .is_redriven = (switches & 128) != 0};

        check(&config, &event);
        free(payload);
        free(value);
        free(name);
        free(key);
        free(type);
        free(topic);
        free(subject);
        return 0;
}

#include "cli/type/type_envelope.h"

#include "base/alloc.h"
#include "config/config.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_signing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_ID   "0f1e2d3c-4b5a-4697-8869-7a5b4c3d2e1f"
#define SAMPLE_KEY  "17"
#define SAMPLE_TIME INT64_C(1767225600) /* 2026-01-01T00:00:00Z */

static const char *const signature_headers[] = {
    [HTTP_SIGNING_STANDARD] = "webhook-signature",
    [HTTP_SIGNING_GITHUB] = "X-Hub-Signature-256",
    [HTTP_SIGNING_STRIPE] = "Stripe-Signature",
    [HTTP_SIGNING_NONE] = NULL,
};

static const char *const signature_words[] = {
    [HTTP_SIGNING_STANDARD] =
        "HMAC-SHA256 of webhook-id, webhook-timestamp and body, joined by dots, in base64 behind "
        "\"v1,\". The key is what follows whsec_ in the secret, decoded from base64. While a "
        "secret is changed there are several signatures, with blanks between them: one that fits "
        "is enough. This is the scheme of Standard Webhooks.",
    [HTTP_SIGNING_GITHUB] =
        "HMAC-SHA256 of the body in hexadecimal, behind \"sha256=\". The key is the text of the "
        "secret.",
    [HTTP_SIGNING_STRIPE] =
        "t=TIMESTAMP,v1=HEX: HMAC-SHA256 of timestamp, a dot and the body. The key is the text of "
        "the secret. While a secret is changed there are several v1: one that fits is enough.",
    [HTTP_SIGNING_NONE] = NULL,
};

const char *envelope_signature(const struct type_docs *docs)
{
        return docs->is_signed ? signature_words[docs->http->signing] : NULL;
}

static const char *content_type(const struct http_config *http)
{
        static const struct event json_event = {.is_json = true};

        return http_content_type(http, http->batch == NULL ? &json_event : NULL);
}

const char *envelope_content_type(const struct type_docs *docs)
{
        return content_type(docs->http);
}

/* ---- JSON, of all files of this folder ----------------------------------------------------- */

json_t *type_parse_json(const char *what, const char *text, struct error *error)
{
        json_error_t fault;
        json_t *json =
            json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);

        if (json == NULL)
                error_set(error, ERROR_USAGE, "%s: line %d, column %d: %s", what, fault.line,
                    fault.column, fault.text);
        return json;
}

char *type_json_text(const json_t *json)
{
        char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_REAL_PRECISION(15));

        if (text == NULL)
                out_of_memory();
        return text;
}

/* ---- headers ------------------------------------------------------------------------------ */

#define ENCODED "; outside visible ASCII percent-encoded"

static const struct envelope_header event_headers[] = {
    {"x-event-topic", "What the event is about" ENCODED, .is_required = true},
    {"x-event-key", "Events with the same key come in order" ENCODED, .is_required = false},
    {"x-event-type", "The type" ENCODED, .is_required = true},
};

static const struct envelope_header cloudevents_headers[] = {
    {"ce-specversion", "The version of CloudEvents", .constant = "1.0", .is_required = true},
    {"ce-id", "The event's id, the same at every attempt", .format = "uuid", .is_required = true},
    {"ce-source", "Where the event comes from", .is_required = true},
    {"ce-type", "The type" ENCODED, .is_required = true},
    {"ce-subject", "The event's key" ENCODED, .is_required = false},
    {"ce-time", "When the event was published", .format = "date-time", .is_required = true},
    {"ce-partitionkey", "Events with the same key come in order" ENCODED, .is_required = false},
    {"ce-topic", "What the event is about" ENCODED, .is_required = true},
};

static const struct envelope_header redriven_headers[] = {
    {"x-event-redriven", "It was sent again by an operator", .constant = "true"},
};
static const struct envelope_header trace_headers[] = {
    {"traceparent", "W3C trace context", .is_required = false},
    {"tracestate", "W3C trace context", .is_required = false},
};

struct telling {
        const struct type_docs *docs;
        const struct type_doc *type;
        envelope_header_fn *on_header;
        void *owner;
};

/* A text that a header holds as it is. */
static const char *plain_or_null(const char *text)
{
        for (const char *at = text; *at != '\0'; at++)
                if (*at <= ' ' || *at > '~' || *at == '%' || *at == '"')
                        return NULL;
        return text;
}

static void tell_each(
    const struct telling *telling, const struct envelope_header *headers, size_t n_headers)
{
        for (size_t i = 0; i < n_headers; i++) {
                struct envelope_header header = headers[i];

                if (strcmp(header.name, "ce-source") == 0)
                        header.constant = plain_or_null(telling->docs->http->source);
                if (strcmp(header.name, "x-event-type") == 0 || strcmp(header.name, "ce-type") == 0)
                        header.constant = plain_or_null(telling->type->name);
                telling->on_header(telling->owner, &header);
        }
}
#define TELL(headers) tell_each(&telling, headers, sizeof(headers) / sizeof *(headers))

/* Names that the configuration lists; as attributes of a CloudEvent they are in its body. */
static void tell_passed_on(const struct telling *telling)
{
        const struct http_config *http = telling->docs->http;

        for (unsigned i = 0; i < http->n_headers; i++)
                tell_each(telling,
                    &(struct envelope_header){
                        .name = http->headers[i], .meaning = "Of the event, if it has it"},
                    1);
}

void envelope_each_header(const struct type_docs *docs, const struct type_doc *type,
    envelope_header_fn *on_header, void *owner)
{
        const struct telling telling = {docs, type, on_header, owner};
        const struct http_config *http = docs->http;
        const struct envelope_header always[] = {
            {"webhook-id",
                http->batch == NULL
                    ? "The event's id, the same at every attempt: recognise repetitions by it"
                    : "Stands for these events in this order: recognise repetitions by the id of "
                      "the items",
                .format = "uuid", .is_required = true},
            {"webhook-timestamp", "When this attempt was made, in seconds since 1970",
                .is_number = true, .is_required = true},
        };
        const struct envelope_header signature = {
            signature_headers[http->signing], "The signature", .is_required = true};

        TELL(always);
        if (docs->is_signed && signature.name != NULL)
                tell_each(&telling, &signature, 1);
        if (http->batch != NULL)
                return;
        if (http->body == HTTP_BODY_RAW || http->body == HTTP_BODY_STANDARD)
                TELL(event_headers);
        if (http->body == HTTP_BODY_CLOUDEVENTS)
                TELL(cloudevents_headers);
        TELL(redriven_headers);
        tell_passed_on(&telling);
        TELL(trace_headers);
}

/* ---- bodies ------------------------------------------------------------------------------- */

static json_t *text_of(const char *format, const char *meaning)
{
        json_t *schema = json_pack("{s:s}", "type", "string");

        if (format != NULL)
                json_object_set_new(schema, "format", json_string(format));
        json_object_set_new(schema, "description", json_string(meaning));
        return schema;
}

static void add(json_t *object, const char *name, bool is_required, json_t *schema)
{
        json_object_set_new(json_object_get(object, "properties"), name, schema);
        if (is_required)
                json_array_append_new(json_object_get(object, "required"), json_string(name));
}

static json_t *object_schema(void)
{
        return json_pack("{s:s s:[] s:{}}", "type", "object", "required", "properties");
}

static json_t *standard_schema(const char *type, bool is_item, json_t *payload)
{
        json_t *object = object_schema();

        if (is_item)
                add(object, "id", true,
                    text_of("uuid", "The event's id, the same at every attempt"));
        add(object, "type", true, json_pack("{s:s s:s}", "const", type, "type", "string"));
        add(object, "timestamp", true, text_of("date-time", "When the event was published"));
        if (is_item) {
                add(object, "topic", true, text_of(NULL, "What the event is about"));
                add(object, "key", false, text_of(NULL, "Events with the same key come in order"));
                add(object, "redriven", false,
                    json_pack("{s:b s:s}", "const", 1, "description",
                        "It was sent again by an operator"));
        }
        add(object, "data", true, payload);
        return object;
}

static json_t *cloudevent_schema(const char *type, const char *source, json_t *payload)
{
        json_t *object = object_schema();

        add(object, "specversion", true, json_pack("{s:s}", "const", "1.0"));
        add(object, "id", true, text_of("uuid", "The event's id, the same at every attempt"));
        add(object, "source", true, json_pack("{s:s}", "const", source));
        add(object, "type", true, json_pack("{s:s s:s}", "const", type, "type", "string"));
        add(object, "subject", false, text_of(NULL, "The event's key"));
        add(object, "time", true, text_of("date-time", "When the event was published"));
        add(object, "datacontenttype", true, json_pack("{s:s}", "const", "application/json"));
        add(object, "partitionkey", false, text_of(NULL, "Events with the same key come in order"));
        add(object, "topic", true, text_of(NULL, "What the event is about"));
        add(object, "redriven", false,
            json_pack("{s:b s:s}", "const", 1, "description", "It was sent again by an operator"));
        add(object, "data", true, payload);
        return object;
}

json_t *envelope_schema(const struct type_docs *docs, const struct type_doc *type, json_t *payload)
{
        const struct http_config *http = docs->http;

        switch (http->body) {
        case HTTP_BODY_CLOUDEVENTS_STRUCTURED:
                return cloudevent_schema(type->name, http->source, payload);
        case HTTP_BODY_STANDARD:
                return standard_schema(type->name, http->batch != NULL, payload);
        case HTTP_BODY_RAW:
        case HTTP_BODY_CLOUDEVENTS:
                return http->batch != NULL ? standard_schema(type->name, true, payload) : payload;
        }
        abort();
}

/* ---- a sample ----------------------------------------------------------------------------- */

static void sample_event(struct event *event, const struct type_doc *type, const char *payload)
{
        *event = (struct event){.event_id = SAMPLE_ID,
            .topic = type->name,
            .key = SAMPLE_KEY,
            .type = type->name,
            .payload = payload,
            .payload_bytes = strlen(payload),
            .is_json = true,
            .created_us = SAMPLE_TIME * 1000000};
}

static void append_body(struct bytes *out, const struct type_docs *docs, const struct event *event)
{
        if (docs->http->batch != NULL)
                http_body_append_batch(docs->http, &event, 1, out);
        else
                http_body_append(docs->http, event, out);
}

json_t *envelope_example(const struct type_docs *docs, const struct type_doc *type)
{
        struct bytes body = {0};
        struct event event;
        json_t *example;
        char *payload;

        if (type->example == NULL)
                return NULL;
        payload = type_json_text(type->example);
        sample_event(&event, type, payload);
        append_body(&body, docs, &event);
        example = json_loadb(body.data, body.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        bytes_deinit(&body);
        free(payload);
        return example;
}

/* CR and LF as a text has them. */
static void append_lines(struct bytes *out, const struct bytes *lines)
{
        for (size_t i = 0; i < lines->length; i++)
                if (lines->data[i] != '\r')
                        bytes_append(out, &lines->data[i], 1);
}

bool envelope_sample_append(
    struct bytes *out, const struct type_docs *docs, const struct type_doc *type)
{
        const char *const secrets[] = {ENVELOPE_SECRET};
        struct bytes body = {0}, packed = {0}, lines = {0};
        struct outcome rejected;
        struct error ignored = {0};
        struct http_signing *signing;
        struct event event;
        bool can_be_sent;

        if (type->example == NULL)
                return false;
        signing =
            docs->is_signed ? http_signing_create(docs->http->signing, secrets, 1, &ignored) : NULL;
        sample_event(&event, type, type->example_text);
        append_body(&body, docs, &event);
        if (docs->http->gzip)
                http_gzip_append(&packed, body.data, body.length);
        can_be_sent =
            http_headers_append(&(struct http_request_head){.config = docs->http,
                                    .event = docs->http->batch == NULL ? &event : NULL,
                                    .id = event.event_id,
                                    .signing = signing,
                                    .now_s = SAMPLE_TIME,
                                    .body = docs->http->gzip ? packed.data : body.data,
                                    .body_bytes = docs->http->gzip ? packed.length : body.length},
                &lines, &rejected);
        if (can_be_sent) {
                append_lines(out, &lines);
                bytes_append_text(out, "\n");
                bytes_append(out, body.data, body.length);
        }
        http_signing_destroy(signing);
        bytes_deinit(&body);
        bytes_deinit(&packed);
        bytes_deinit(&lines);
        return can_be_sent;
}

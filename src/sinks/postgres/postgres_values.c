#include "sinks/postgres/postgres_values.h"

#include "base/bytes.h"
#include "sinks/format/event_json.h"

void postgres_values_deinit(struct postgres_values *values)
{
        for (size_t i = 0; i < POSTGRES_PARAMETERS; i++)
                array_deinit(&values->arrays[i]);
        bytes_deinit(&values->headers);
        bytes_deinit(&values->data);
}

/* As they were published; the text of what is no string is its JSON. */
static const char *headers_of(struct postgres_values *values, const struct event *event)
{
        struct bytes *out = &values->headers;

        if (event->n_headers == 0)
                return NULL;
        bytes_clear(out);
        for (size_t i = 0; i < event->n_headers; i++) {
                const struct event_header *header = &event->headers[i];
                bytes_append_text(out, i > 0 ? ", " : "{");
                event_json_append_text(out, header->name);
                bytes_append_text(out, ": ");
                if (event->header_types == NULL || event->header_types[i] == EVENT_HEADER_STRING)
                        event_json_append_text(out, header->value);
                else
                        bytes_append_text(out,
                            event->header_types[i] == EVENT_HEADER_NULL ? "null" : header->value);
        }
        bytes_append_text(out, "}");
        return out->data;
}

/* "\x00ff", as PostgreSQL reads bytea. */
static const char *data_of(struct postgres_values *values, const struct event *event)
{
        static const char digits[] = "0123456789abcdef";
        const unsigned char *data = event->payload;
        char *at;

        if (event->is_json)
                return NULL;
        bytes_clear(&values->data);
        bytes_append_text(&values->data, "\\x");
        at = bytes_reserve(&values->data, 2 * event->payload_bytes);
        for (size_t i = 0; i < event->payload_bytes; i++) {
                *at++ = digits[data[i] >> 4];
                *at++ = digits[data[i] & 15];
        }
        values->data.length += 2 * event->payload_bytes;
        *at = '\0';
        return values->data.data;
}

void postgres_values_of_event(
    struct postgres_values *values, const char *consumer, const struct event *event)
{
        const char **to = values->values;

        to[PARAMETER_CONSUMER] = consumer;
        to[PARAMETER_ID] = event->event_id;
        to[PARAMETER_TOPIC] = event->topic;
        to[PARAMETER_KEY] = event->key;
        to[PARAMETER_TYPE] = event->type;
        to[PARAMETER_PAYLOAD] = event->is_json ? event->payload : NULL;
        to[PARAMETER_HEADERS] = headers_of(values, event);
        to[PARAMETER_CREATED_AT] = event_time_text(&values->time, event->created_us);
        to[PARAMETER_DATA] = data_of(values, event);
}

void postgres_values_of_queue(
    struct postgres_values *values, const char *consumer, const struct attempt_queue *queue)
{
        for (size_t i = PARAMETER_ID; i < POSTGRES_PARAMETERS; i++)
                array_clear(&values->arrays[i]);
        for (const struct attempt *attempt = queue->first; attempt != NULL;
             attempt = attempt->sink_data) {
                postgres_values_of_event(values, consumer, attempt->event);
                for (size_t i = PARAMETER_ID; i < POSTGRES_PARAMETERS; i++)
                        array_add_text(&values->arrays[i], values->values[i]);
        }
        for (size_t i = PARAMETER_ID; i < POSTGRES_PARAMETERS; i++)
                values->values[i] = array_end(&values->arrays[i]);
}

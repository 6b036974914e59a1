/* JetStream: HPUB with Nats-Msg-Id and a subject for the answer; each PubAck is looked at. */
#define _GNU_SOURCE /* memmem */
#include "bare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INBOX "_INBOX.bare"

static const char greeting[] =
    "CONNECT {\"verbose\":false,\"pedantic\":true,\"headers\":true,\"no_responders\":true,"
    "\"echo\":false,\"lang\":\"C\",\"version\":\"1\",\"name\":\"bare\"}\r\n"
    "SUB " INBOX ".* 1\r\nPING\r\n";

static void put(struct bare_stream *stream, const void *data, size_t n_bytes)
{
        memcpy(stream->out + stream->out_end, data, n_bytes);
        stream->out_end += n_bytes;
}

static void publish(struct bare_stream *stream, const struct bare_event *event, long slot)
{
        static char headers[512];
        size_t n_headers = (size_t)snprintf(headers, sizeof headers,
            "NATS/1.0\r\nNats-Msg-Id: %s\r\nContent-Type: " BARE_CONTENT_TYPE
            "\r\nx-event-topic: %s\r\nx-event-key: %s\r\nx-event-type: " BARE_TYPE
            "\r\nx-event-time: %s\r\n\r\n",
            event->id, event->topic, event->key, event->time);

        stream->out_end += (size_t)sprintf(stream->out + stream->out_end,
            "HPUB events.%s " INBOX ".%ld %zu %zu\r\n", event->topic, slot, n_headers,
            n_headers + BARE_PAYLOAD_BYTES);
        put(stream, headers, n_headers);
        put(stream, event->payload, BARE_PAYLOAD_BYTES);
        put(stream, "\r\n", 2);
}

/* One line and what belongs to it; false: it is not there in full. */
static bool take(struct bare *bare, struct bare_stream *stream, bool *out_pong)
{
        char *line = stream->in + stream->in_start;
        size_t n_bytes = stream->in_end - stream->in_start;
        char *end = memchr(line, '\n', n_bytes);
        size_t n_line, n_body;

        if (end == NULL)
                return false;
        n_line = (size_t)(end + 1 - line);
        if (memcmp(line, "MSG ", 4) == 0) {
                char *size = end;

                while (size[-1] != ' ')
                        size--;
                n_body = strtoul(size, NULL, 10);
                if (n_bytes < n_line + n_body + 2)
                        return false;
                if (memmem(line + n_line, n_body, "\"seq\":", 6) == NULL ||
                    memmem(line + n_line, n_body, "\"error\":", 8) != NULL)
                        bare_die("JetStream says", line);
                bare->n_acked++;
                n_line += n_body + 2;
        } else if (memcmp(line, "PONG", 4) == 0) {
                *out_pong = true;
        } else if (memcmp(line, "PING", 4) == 0) {
                put(stream, "PONG\r\n", 6);
        } else if (memcmp(line, "INFO", 4) != 0) {
                *end = '\0';
                bare_die("NATS says", line);
        }
        stream->in_start += n_line;
        return true;
}

int main(int n_args, char **args)
{
        struct bare bare;
        struct bare_event event = {0};
        struct bare_stream stream;
        bool is_ready = false;

        bare_init(&bare, n_args, args);
        bare_stream_init(&stream, bare_connect(&bare));
        put(&stream, greeting, sizeof greeting - 1);
        while (!is_ready) {
                bare_stream_turn(&stream);
                while (take(&bare, &stream, &is_ready))
                        continue;
        }
        bare_begin(&bare);
        while (bare.n_acked < bare.n_events) {
                while (bare.n_sent < bare.n_events && bare.n_sent - bare.n_acked < bare.in_flight &&
                       bare_stream_has_room(&stream)) {
                        bare_event(&bare, &event);
                        publish(&stream, &event, bare.n_sent % bare.in_flight);
                        bare.n_sent++;
                }
                bare_stream_turn(&stream);
                while (take(&bare, &stream, &is_ready))
                        continue;
        }
        bare_end(&bare);
        return 0;
}

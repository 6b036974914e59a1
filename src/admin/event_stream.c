/*
 * Nothing of this runs while no client is connected. Documents are made once for
 * all clients. A client that has not read the last status gets no further one
 * (the next says it all). The deliveries that wait for a client are bounded: the
 * listener drops clients that let too many wait, or wait too long.
 */
#include "admin/event_stream.h"

#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "admin/status_document.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/timer.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STREAMS = 16, MAX_WAITING_BYTES = 256 * 1024, TICK_MS = 1000 };

struct event_streams {
        struct admin *admin; /* borrowed */
        struct list all;     /* event_stream::link */
        unsigned n_streams;
        struct timer *tick;
        uint64_t n_left_out; /* of the telemetry's, already told */
};

struct event_stream {
        struct list link;
        struct event_streams *streams;
        struct http_stream *http; /* the listener's */
        char *sink;               /* owned; only its deliveries; NULL: all */
        char *receiver;           /* owned; only those to this receiver; NULL: all */
        bool wants_status;
};

static struct telemetry *telemetry_of(const struct event_streams *streams)
{
        return streams->admin->options.telemetry;
}

/* Consumes the document. */
static void append_event(struct bytes *text, const char *event, json_t *document)
{
        char *data = json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(6));

        if (data == NULL)
                out_of_memory();
        bytes_printf(text, "event: %s\ndata: %s\n\n", event, data);
        free(data);
        json_decref(document);
}

static bool is_wanted(const struct event_stream *stream, const struct recent_delivery *delivery)
{
        return (stream->sink == NULL || strcmp(stream->sink, delivery->sink) == 0) &&
               (stream->receiver == NULL || strcmp(stream->receiver, delivery->receiver) == 0);
}

/* A tap that was made since the last look has no name yet: that of its next events is known. */
static json_t *delivery_of(
    const struct event_streams *streams, const struct recent_delivery *delivery)
{
        const struct admin_options *options = &streams->admin->options;
        const json_t *found = options->operations->look(options->owner);

        if (delivery->source != 0 && status_table(found, delivery->source) == NULL)
                (void)options->operations->look_again(options->owner, NULL, NULL);
        return status_delivery(delivery, found);
}

static void on_noted(void *owner, const struct recent_delivery *delivery)
{
        struct event_streams *streams = owner;
        struct bytes text = {0};

        append_event(&text, "delivery", delivery_of(streams, delivery));
        list_for_each (link, &streams->all) {
                struct event_stream *stream = list_owner(link, struct event_stream, link);

                if (is_wanted(stream, delivery))
                        http_stream_write(stream->http, text.data, text.length);
        }
        bytes_deinit(&text);
}

/* How many deliveries happened that are in no event. */
static void append_left_out(struct event_streams *streams, struct bytes *text)
{
        uint64_t n = telemetry_of(streams)->recent.n_left_out;

        if (n > streams->n_left_out)
                append_event(text, "left_out",
                    json_pack("{s:I}", "deliveries", (json_int_t)(n - streams->n_left_out)));
        streams->n_left_out = n;
}

static bool any_wants_status(const struct event_streams *streams)
{
        list_for_each (link, (struct list *)(uintptr_t)&streams->all)
                if (list_owner(link, struct event_stream, link)->wants_status)
                        return true;
        return false;
}

/* A client that wants no status gets a comment, so that both sides notice when the other has
 * gone. */
static void on_tick(void *owner)
{
        struct event_streams *streams = owner;
        struct bytes common = {0};
        struct bytes status = {0};

        bytes_append_text(&common, ":\n\n");
        append_left_out(streams, &common);
        if (any_wants_status(streams)) {
                const struct admin_options *options = &streams->admin->options;

                append_event(&status, "status", admin_status(streams->admin));
                (void)options->operations->look_again(options->owner, NULL, NULL);
        }
        list_for_each (link, &streams->all) {
                struct event_stream *stream = list_owner(link, struct event_stream, link);
                bool is_read = http_stream_is_read(stream->http);

                if (is_read)
                        http_stream_write(stream->http, common.data, common.length);
                if (is_read && stream->wants_status)
                        http_stream_write(stream->http, status.data, status.length);
        }
        bytes_deinit(&common);
        bytes_deinit(&status);
        timer_arm(streams->tick, TICK_MS);
}

static void remove_stream(struct event_stream *stream)
{
        struct event_streams *streams = stream->streams;

        list_remove(&stream->link);
        free(stream->sink);
        free(stream->receiver);
        free(stream);
        if (--streams->n_streams > 0)
                return;
        timer_disarm(streams->tick);
        telemetry_listen(telemetry_of(streams), NULL, NULL);
}

static void on_ended(void *owner)
{
        remove_stream(owner);
}

static void add_stream(struct event_streams *streams, struct event_stream *stream)
{
        list_init(&stream->link);
        list_push_back(&streams->all, &stream->link);
        if (streams->n_streams++ > 0)
                return;
        telemetry_listen(telemetry_of(streams), on_noted, streams);
        streams->n_left_out = telemetry_of(streams)->recent.n_left_out;
        timer_arm(streams->tick, TICK_MS);
}

static void greet(struct event_stream *stream)
{
        struct bytes text = {0};

        bytes_append_text(&text, ":\n\n");
        if (stream->wants_status)
                append_event(&text, "status", admin_status(stream->streams->admin));
        http_stream_write(stream->http, text.data, text.length);
        bytes_deinit(&text);
}

void answer_events(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const struct http_header headers[] = {
            {"X-Accel-Buffering", "no"}, /* nginx passes it on as it comes */
            {NULL, NULL}};
        struct event_streams *streams = admin->streams;
        const char *sink = http_call_argument(request, "sink");
        const char *receiver = http_call_argument(request, "receiver");
        const char *only = http_call_argument(request, "only");
        struct event_stream *stream;

        (void)name;
        (void)body;
        if (sink != NULL && telemetry_find_sink(telemetry_of(streams), sink) == NULL) {
                answer_refusal(
                    request, 404, "this relay has no sink of that name; see `pgcourier status`");
                return;
        }
        if (streams->n_streams >= MAX_STREAMS) {
                answer_refusal(request, 503,
                    "%d clients follow the events already; that is the limit", MAX_STREAMS);
                return;
        }
        stream = xcalloc(1, sizeof *stream);
        stream->streams = streams;
        stream->sink = sink != NULL ? xstrdup(sink) : NULL;
        stream->receiver = receiver != NULL ? xstrdup(receiver) : NULL;
        stream->wants_status = only == NULL || strcmp(only, "delivery") != 0;
        stream->http = http_call_stream(request,
            &(struct http_answer){
                .status = 200, .content_type = "text/event-stream", .headers = headers},
            MAX_WAITING_BYTES, on_ended, stream);
        add_stream(streams, stream);
        greet(stream);
}

struct event_streams *event_streams_create(struct admin *admin)
{
        struct event_streams *streams = xcalloc(1, sizeof *streams);

        streams->admin = admin;
        list_init(&streams->all);
        streams->tick = timer_create_on(admin->loop, on_tick, streams);
        return streams;
}

void event_streams_destroy(struct event_streams *streams)
{
        if (streams == NULL)
                return;
        list_for_each (link, &streams->all)
                remove_stream(list_owner(link, struct event_stream, link));
        timer_destroy(streams->tick);
        free(streams);
}

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/admin_client.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/receiver/receiver_common.h"
#include "operator/receiver_rows.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS 5000

enum { CONFIG, SINK, RECEIVER, KEY, JSON, COUNT };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    [SINK] = {"sink", 0, "SINK", false,
        "only deliveries to this sink, or with SINK/RECEIVER\nto this receiver of it"},
    [RECEIVER] = {"receiver", 0, "NAME", false, "only deliveries to this receiver"},
    [KEY] = {"key", 0, "KEY", false, "only deliveries of this key"},
    [JSON] = {"json", 0, NULL, false, "print JSON, one object a line"},
    [COUNT] = {"count", 'n', "N", false, "end after this many lines"},
    {0},
};

struct tail {
        const char *key; /* NULL: any */
        bool as_json;
        unsigned n_left; /* 0: any number */
        int sink_width, topic_width;
};

static const char *text_of(const json_t *delivery, const char *name)
{
        const char *text = json_string_value(json_object_get(delivery, name));

        return text != NULL ? text : "";
}

/* A column keeps the width of the longest text so far, so that lines stay aligned. */
static int widen(int *width, const char *text)
{
        if ((int)strlen(text) > *width)
                *width = (int)strlen(text);
        return *width;
}

static void print_latency(double seconds)
{
        if (seconds < 1)
                printf("%7.1f ms", seconds * 1e3);
        else
                printf("%8.2f s", seconds);
}

/* Without the date: the lines appear as things happen. */
static void print_line(struct tail *tail, const json_t *delivery)
{
        const char *at = text_of(delivery, "at");
        const char *receiver = text_of(delivery, "receiver");
        char *lane = xasprintf("%s%s%s", text_of(delivery, "sink"), *receiver != '\0' ? "/" : "",
            receiver); /* as in the log */
        const char *topic = text_of(delivery, "topic");
        const char *words = text_of(delivery, "words");
        const char *source = text_of(delivery, "source");

        printf("%.12s  %-*s  %-9s  ", strlen(at) > 11 ? at + 11 : at,
            widen(&tail->sink_width, lane), lane, text_of(delivery, "outcome"));
        print_latency(json_number_value(json_object_get(delivery, "latency")));
        printf("  #%-2" JSON_INTEGER_FORMAT "  %" JSON_INTEGER_FORMAT "  %-*s  %s",
            json_integer_value(json_object_get(delivery, "attempt")),
            json_integer_value(json_object_get(delivery, "id")), widen(&tail->topic_width, topic),
            topic, text_of(delivery, "key"));
        if (*source != '\0')
                printf("%sfrom %s", *text_of(delivery, "key") != '\0' ? "  " : "", source);
        printf("%s%s\n", *words != '\0' ? "  " : "", words);
        free(lane);
}

/* False: enough, or the reader of standard output is gone. */
static bool show(struct tail *tail, const json_t *delivery, const char *data)
{
        if (tail->key != NULL && strcmp(tail->key, text_of(delivery, "key")) != 0)
                return true;
        if (tail->as_json)
                puts(data);
        else
                print_line(tail, delivery);
        if (fflush(stdout) != 0)
                return false;
        return tail->n_left == 0 || --tail->n_left > 0;
}

static bool on_event(void *owner, const char *event, const char *data)
{
        struct tail *tail = owner;
        json_t *document = json_loads(data, 0, NULL);
        bool goes_on = true;

        if (strcmp(event, "delivery") == 0)
                goes_on = show(tail, document, data);
        else if (strcmp(event, "left_out") == 0)
                fprintf(stderr, "... and %" JSON_INTEGER_FORMAT " more, too many to show\n",
                    json_integer_value(json_object_get(document, "deliveries")));
        json_decref(document);
        return goes_on;
}

static void append_argument(
    struct bytes *path, const char *name, const char *value, size_t value_bytes)
{
        char *escaped = curl_easy_escape(NULL, value, (int)value_bytes);

        if (escaped == NULL)
                out_of_memory();
        bytes_printf(path, "&%s=%s", name, escaped);
        curl_free(escaped);
}

/* The relay stays silent about a misspelt name, so the database is asked. If it does not answer,
 * the command follows all the same. */
static bool receiver_exists(const char *config_path, const char *name, struct error *error)
{
        struct error ignored;
        struct blocking_conn *conn =
            connect_for_command(NULL, config_path, ANSWER_TIMEOUT_MS, &ignored);
        struct rows *rows = conn != NULL ? receiver_names(conn, &ignored) : NULL;
        bool is_there = rows == NULL;

        for (int i = 0; !is_there && i < rows_count(rows); i++)
                is_there = strcmp(rows_text(rows, i, 0), name) == 0;
        if (!is_there)
                is_there = receiver_missing(conn, name, error);
        rows_free(rows);
        blocking_conn_close(conn);
        return is_there;
}

/* Names have no slash, so "webhooks/acme" is a sink and its receiver. */
static bool make_path(const struct arguments *arguments, struct bytes *path, struct error *error)
{
        const char *sink = arguments_value(arguments, SINK);
        const char *receiver = arguments_value(arguments, RECEIVER);
        const char *slash = sink != NULL ? strchr(sink, '/') : NULL;

        if (slash != NULL && receiver != NULL)
                return error_set(error, ERROR_USAGE,
                    "tail: --sink %.64s and --receiver both name a receiver: give one", sink);
        if (slash != NULL)
                receiver = slash + 1;
        if ((sink != NULL && (*sink == '\0' || slash == sink)) ||
            (receiver != NULL && *receiver == '\0'))
                return error_set(error, ERROR_USAGE, "tail: --%s: a name is empty",
                    receiver != NULL && slash == NULL ? "receiver" : "sink");
        if (receiver != NULL &&
            !receiver_exists(arguments_value(arguments, CONFIG), receiver, error))
                return false;
        bytes_append_text(path, "/api/events?only=delivery");
        if (sink != NULL)
                append_argument(
                    path, "sink", sink, slash != NULL ? (size_t)(slash - sink) : strlen(sink));
        if (receiver != NULL)
                append_argument(path, "receiver", receiver, strlen(receiver));
        return true;
}

static bool run_tail(const struct arguments *arguments, struct error *error)
{
        struct tail tail = {.key = arguments_value(arguments, KEY),
            .as_json = arguments_has(arguments, JSON),
            .sink_width = 8,
            .topic_width = 16};
        struct admin_client *client;
        struct bytes path = {0};
        bool ok;

        if (!arguments_has(arguments, CONFIG))
                return error_set(error, ERROR_USAGE,
                    "tail needs the relay's configuration: pgcourier tail -c FILE");
        if (!arguments_count(arguments, COUNT, 1, 1000000000, &tail.n_left, error))
                return false;
        client = make_path(arguments, &path, error)
                     ? admin_client_open(arguments_value(arguments, CONFIG), error)
                     : NULL;
        ok = client != NULL && admin_client_follow(client, path.data, on_event, &tail, error);
        bytes_deinit(&path);
        admin_client_close(client);
        return ok;
}

const struct command tail_command = {
    .name = "tail",
    .summary = "follow the deliveries of a running relay",
    .usage = "-c FILE [--sink SINK[/RECEIVER]] [--receiver NAME] [--key KEY] [--json] [-n N]",
    .details =
        "Prints a line for each attempt of the relay that runs with this configuration, as it\n"
        "ends: time, sink (webhooks/acme: its receiver acme), outcome, latency since the event "
        "was\n"
        "created, attempt, the event's number, topic and key, the table that a tap took it from,\n"
        "and what went wrong.\n"
        "\n"
        "The relay shows at most twenty successful deliveries and a hundred failed attempts in\n"
        "each second, of all sinks together. If there are more, a line on standard error says\n"
        "how many were left out. Ends when the relay ends.\n"
        "Exit code 8: there is no such receiver.\n",
    .options = options,
    .run = run_tail,
};

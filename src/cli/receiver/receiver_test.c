/*
 * `pgcourier receiver test`: posts one made-up event from this process, as the
 * relay would. The outbox and the relay have no part in it, so it tells nothing
 * about them, and works while the receiver is paused.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/connect.h"
#include "cli/receiver/receiver_common.h"
#include "cli/receiver/receiver_delivery.h"
#include "config/config.h"
#include "operator/receiver_rows.h"
#include "operator/type_rows.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST_TOPIC "courier.receiver.test"

enum { TOPIC, TYPE, PAYLOAD };

static const struct command_option options[] = {
    [TOPIC] = {"topic", 0, "TOPIC", false, "of the test event; default: " TEST_TOPIC},
    [TYPE] = {"type", 0, "TYPE", false,
        "of the test event, with the example of the catalogue;\ndefault: the first type that has "
        "one and that the\nreceiver asks for, else its topic"},
    [PAYLOAD] = {"payload", 0, "JSON", false, "of the test event"},
    {0},
};

/* A receiver, put together from its rows; borrows their texts. */
struct receiver {
        const char *sink;
        struct target_settings target;
        const char **secrets;
        struct event_header *headers;
        const char *event_id;
};

static void receiver_init(struct receiver *receiver, const char *name, const struct rows *rows)
{
        int n_rows = rows_count(rows);

        *receiver = (struct receiver){.sink = rows_text(rows, 0, RECEIVER_PART_SINK),
            .secrets = xcalloc((size_t)n_rows, sizeof *receiver->secrets),
            .headers = xcalloc((size_t)n_rows, sizeof *receiver->headers)};
        receiver->target = (struct target_settings){
            .name = name, .secrets = receiver->secrets, .headers = receiver->headers};
        for (int i = 0; i < n_rows; i++) {
                const char *part = rows_text(rows, i, RECEIVER_PART);
                const char *value = rows_text(rows, i, RECEIVER_PART_VALUE);
                if (strcmp(part, "event_id") == 0)
                        receiver->event_id = value;
                else if (strcmp(part, "url") == 0)
                        receiver->target.url = value;
                else if (strcmp(part, "secret") == 0)
                        receiver->secrets[receiver->target.n_secrets++] = value;
                else
                        receiver->headers[receiver->target.n_headers++] =
                            (struct event_header){rows_text(rows, i, RECEIVER_PART_NAME), value};
        }
}

static void receiver_deinit(struct receiver *receiver)
{
        free(receiver->secrets);
        free(receiver->headers);
}

static bool check_payload(const char *payload, struct error *error)
{
        json_error_t fault;
        json_t *value;

        if (payload == NULL)
                return true;
        value = json_loads(payload, JSON_DECODE_ANY | JSON_ALLOW_NUL, &fault);
        json_decref(value);
        return value != NULL ||
               error_set(error, ERROR_USAGE, "--payload is not JSON: %s at byte %d", fault.text,
                   fault.position);
}

static bool report(const char *name, const struct event *event, const struct outcome *outcome,
    int64_t ms, struct error *error)
{
        if (outcome->kind != OUTCOME_DELIVERED)
                return error_set(error, ERROR_SINK,
                    "%.100s did not take the test event after %" PRId64 " ms: %s: %s", name, ms,
                    outcome_name(outcome->kind), outcome->reason);
        printf("%s took the test event %s%s%s%s in %" PRId64 " ms\n", name, event->event_id,
            event->type != event->topic ? " (" : "", event->type != event->topic ? event->type : "",
            event->type != event->topic ? ")" : "", ms);
        return true;
}

/* Of the catalogue. Rows without one: none is to be sent, the event is made up. */
static struct rows *read_example(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->operands[0];
        const char *type = arguments_value(arguments, TYPE);
        struct rows *rows;

        if (type == NULL)
                return type_for_receiver(conn, name, error);
        rows = type_example(conn, type, error);
        if (rows == NULL || arguments_has(arguments, PAYLOAD))
                return rows;
        if (rows_count(rows) > 0 && rows_text(rows, 0, TYPE_EXAMPLE) != NULL)
                return rows;
        if (rows_count(rows) == 0)
                name_missing(type_names(conn, error), "type", "type list", type, error);
        else
                error_set(error, ERROR_EMPTY,
                    "the type \"%.100s\" has no example: add --payload JSON here, or give it one: "
                    "pgcourier type set %.100s --example FILE",
                    type, type);
        rows_free(rows);
        return NULL;
}

/* What the command line says, then the catalogue, then what is made up. */
static void fill_event(struct event *event, const struct arguments *arguments,
    const struct rows *example, const char *made_up)
{
        const char *topic = arguments_value(arguments, TOPIC);
        const char *type = arguments_value(arguments, TYPE);
        const char *payload = arguments_value(arguments, PAYLOAD);
        /* Of a topic or payload that was given, a type that was not would say what is not so. */
        const bool is_example =
            rows_count(example) > 0 && (type != NULL || (topic == NULL && payload == NULL));

        event->topic = topic != NULL ? topic : TEST_TOPIC;
        event->type = type != NULL ? type : event->topic;
        event->payload = made_up;
        if (is_example) {
                event->type = rows_text(example, 0, TYPE_EXAMPLE_NAME);
                if (rows_text(example, 0, TYPE_EXAMPLE) != NULL)
                        event->payload = rows_text(example, 0, TYPE_EXAMPLE);
        }
        if (payload != NULL)
                event->payload = payload;
        event->payload_bytes = strlen(event->payload);
}

static bool deliver(const struct receiver *receiver, const struct arguments *arguments,
    const struct config *config, const struct rows *example, struct error *error)
{
        const struct sink_config *sink = receiver_find_sink(config, receiver->sink, error);
        struct bytes made_up = {0};
        struct event event = {
            .created_us = clock_wall_us(), .key = receiver->target.name, .is_json = true};
        struct outcome outcome = {0};
        int64_t ms = 0;
        bool ok;

        if (sink == NULL)
                return false;
        bytes_printf(&made_up, "{\"receiver\":\"%s\",\"test\":true}", receiver->target.name);
        fill_event(&event, arguments, example, made_up.data);
        snprintf(event.event_id, sizeof event.event_id, "%s", receiver->event_id);
        ok = receiver_delivery_try(sink, &receiver->target, &event, &outcome, &ms, error) &&
             report(receiver->target.name, &event, &outcome, ms, error);
        bytes_deinit(&made_up);
        return ok;
}

static bool test(struct blocking_conn *conn, const struct arguments *arguments,
    const struct config *config, struct error *error)
{
        const char *name = arguments->operands[0];
        struct rows *rows = receiver_read_parts(conn, name, error);
        struct rows *example;
        struct receiver receiver;
        bool ok;

        if (rows == NULL)
                return false;
        if (rows_count(rows) == 0) {
                rows_free(rows);
                return receiver_missing(conn, name, error);
        }
        example = read_example(conn, arguments, error);
        receiver_init(&receiver, name, rows);
        ok = example != NULL && deliver(&receiver, arguments, config, example, error);
        receiver_deinit(&receiver);
        rows_free(example);
        rows_free(rows);
        return ok;
}

static bool check_words(const struct arguments *arguments, struct error *error)
{
        const char *topic = arguments_value(arguments, TOPIC);
        const char *type = arguments_value(arguments, TYPE);

        if (arguments->config_path == NULL)
                return error_set(error, ERROR_USAGE,
                    "receiver test needs the sink's settings: add -c FILE with the relay's "
                    "configuration");
        if (topic != NULL && (*topic == '\0' || strlen(topic) > 255))
                return error_set(error, ERROR_USAGE, "--topic: a topic has 1 to 255 bytes, not %zu",
                    strlen(topic));
        if (type != NULL && (*type == '\0' || strlen(type) > 255))
                return error_set(
                    error, ERROR_USAGE, "--type: a type has 1 to 255 bytes, not %zu", strlen(type));
        return check_payload(arguments_value(arguments, PAYLOAD), error);
}

static bool run_test(const struct arguments *arguments, struct error *error)
{
        struct blocking_conn *conn = NULL;
        struct config *config = NULL;
        bool ok;

        if (check_words(arguments, error))
                config = config_load(arguments->config_path, error);
        if (config != NULL)
                conn = command_connect(arguments, error);
        ok = conn != NULL && test(conn, arguments, config, error);
        config_free(config);
        return ok;
}

const struct command receiver_test_command = {
    .name = "test",
    .usage = "NAME [--topic TOPIC] [--type TYPE] [--payload JSON] -c FILE",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_test,
};

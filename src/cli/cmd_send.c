/* A test event, followed to each sink that takes it: the way to try a setup, and to find out
 * where an event is stuck. */
#include "base/bytes.h"
#include "cli/cmd_publish.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/destinations.h"
#include "cli/remedy.h"
#include "cli/send_follow.h"
#include "config/config.h"
#include "config/units.h"
#include "operator/history.h"
#include "outbox/event_row.h"
#include "sinks/email/email_address.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS  30000
#define DEFAULT_TIMEOUT_MS 10000
#define MAX_TIMEOUT_MS     (INT64_C(24) * 60 * 60 * 1000)
#define DEFAULT_PAYLOAD    "{\"test\": true}"

enum { KEY, TYPE, DATA, TO, HEADER, TIMEOUT, CONFIG };

static const struct command_option options[] = {
    [KEY] = {"key", 0, "KEY", false, "events of one key are delivered in order"},
    [TYPE] = {"type", 0, "TYPE", false, "the kind of event, for receivers"},
    [DATA] = {"data", 0, "JSON|@FILE|-", false,
        "the body as JSON; @FILE reads a file, - reads\nstandard input; default: " DEFAULT_PAYLOAD},
    [TO] = {"to", 0, "ADDRESS", false,
        "instead of --data: a test mail to this address,\nfor topics that a sink of kind email "
        "takes"},
    [HEADER] = {"header", 0, "NAME=VALUE", true, "for receivers; may be given several times"},
    [TIMEOUT] = {"timeout", 0, "DURATION", false, "how long to follow it; default: 10s"},
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    {0},
};

struct sending {
        const struct arguments *arguments;
        struct blocking_conn *conn;
        char *headers;             /* owned; JSON, or NULL */
        struct followed published; /* once it is */
        bool is_publishing;        /* as a publisher; everything else is for the relay's role */
};

/* The event as routing sees it: topic, type and headers, which `parsed` holds. */
static struct event make_event(
    const struct arguments *arguments, const char *headers, struct event_headers *out_parsed)
{
        struct event event = {
            .topic = arguments->operands[0], .type = arguments_value(arguments, TYPE)};
        struct bytes jsonb = {0};

        *out_parsed = (struct event_headers){0};
        bytes_append(&jsonb, "\1", 1); /* as the server would send it */
        if (headers != NULL)
                bytes_append_text(&jsonb, headers);
        event_headers_read(out_parsed, jsonb.data, jsonb.length, &event);
        bytes_deinit(&jsonb);
        return event;
}

/* A payload that is no mail would leave a dead letter at each sink of kind email. */
static bool check_mails(const struct arguments *arguments, const struct destinations *destinations,
    const struct event *event, struct error *error)
{
        const char *sink = NULL;

        for (size_t i = 0; i < destinations->n_destinations; i++) {
                const struct destination *destination = &destinations->destinations[i];
                if (destination->is_email &&
                    destination_judge(destination, event) == DESTINATION_TAKES)
                        sink = destination->sink;
        }
        if (sink == NULL && arguments_has(arguments, TO))
                return error_set(error, ERROR_USAGE,
                    "send: --to makes a test mail, and no sink of kind email takes such an event "
                    "(%.100s): leave it out, or name a topic that one of them takes",
                    arguments->operands[0]);
        return sink == NULL || arguments_has(arguments, DATA) || arguments_has(arguments, TO) ||
               error_set(error, ERROR_USAGE,
                   "send: sink %s takes %.100s and sends mail, but " DEFAULT_PAYLOAD
                   " is no mail: the event would become a dead letter. Add --to ADDRESS for a "
                   "test mail, or --data with the payload of a mail",
                   sink, arguments->operands[0]);
}

/* As the sink does: an address that it refuses would make a dead letter. */
static bool check_address(const char *address, struct error *error)
{
        struct mailbox mailbox;
        const char *problem = mailbox_parse(address, &mailbox);

        if (problem != NULL)
                return error_set(error, ERROR_USAGE, "send: --to \"%.100s\": %s", address, problem);
        mailbox_deinit(&mailbox);
        return true;
}

static bool make_mail(const char *address, struct bytes *out_payload, struct error *error)
{
        json_t *mail = json_pack("{s:s, s:s, s:s}", "to", address, "subject", "A test of pgcourier",
            "text", "Sent by `pgcourier send`. Nothing has to be done.\n");
        char *text = mail != NULL ? json_dumps(mail, JSON_COMPACT) : NULL;

        json_decref(mail);
        if (text == NULL)
                return error_set(error, ERROR_USAGE, "--to: the address is not valid UTF-8");
        bytes_append_text(out_payload, text);
        free(text);
        return true;
}

/* The server judges the payload. */
static bool publish(struct sending *sending, struct error *error)
{
        const struct arguments *arguments = sending->arguments;
        struct followed *published = &sending->published;
        const char *data = arguments_value(arguments, DATA);
        const char *address = arguments_value(arguments, TO);
        struct bytes payload = {0};
        bool ok = true;

        if (address != NULL)
                ok = make_mail(address, &payload, error);
        else
                ok = publish_read_payload(data != NULL ? data : DEFAULT_PAYLOAD, &payload, error);
        if (!ok)
                return false;
        sending->is_publishing = true;
        ok = follow_publish(sending->conn, arguments->operands[0],
            payload.data != NULL ? payload.data : "", arguments_value(arguments, KEY),
            arguments_value(arguments, TYPE), sending->headers, published, error);
        bytes_deinit(&payload);
        if (!ok)
                return false;
        sending->is_publishing = false;
        printf("published: id %s, event_id %s, transaction %s, committed at %s\n", published->id,
            published->event_id, published->xid, published->committed_at);
        fflush(stdout);
        return true;
}

/* Where a tap publishes such events, this one tests all that comes behind the tap. */
static bool say_tap(struct sending *sending, struct error *error)
{
        const char *topic = sending->arguments->operands[0];
        struct rows *rows = follow_find_tap(sending->conn, topic, error);

        if (rows == NULL)
                return false;
        if (rows_count(rows) > 0)
                remedy_print("note: events of this topic come from table %s, by the tap %s; this "
                             "one did not pass it",
                    rows_text(rows, 0, 1), rows_text(rows, 0, 0));
        rows_free(rows);
        return true;
}

static bool send_event(
    struct sending *sending, const struct config *config, int64_t timeout_ms, struct error *error)
{
        struct destinations destinations;
        struct event_headers parsed;
        struct event event;
        bool ok;

        if (!destinations_load(&destinations, config, sending->conn, error))
                return false;
        event = make_event(sending->arguments, sending->headers, &parsed);
        ok = check_mails(sending->arguments, &destinations, &event, error) &&
             publish(sending, error) && say_tap(sending, error) &&
             send_follow(
                 sending->conn, &destinations, &event, &sending->published, timeout_ms, error);
        event_headers_deinit(&parsed);
        destinations_deinit(&destinations);
        return ok;
}

static bool read_timeout(
    const struct arguments *arguments, int64_t *out_timeout_ms, struct error *error)
{
        const char *value = arguments_value(arguments, TIMEOUT);

        *out_timeout_ms = DEFAULT_TIMEOUT_MS;
        return value == NULL ||
               (units_parse_duration(value, out_timeout_ms) && *out_timeout_ms <= MAX_TIMEOUT_MS) ||
               error_set(error, ERROR_USAGE,
                   "--timeout: \"%.64s\" is not " UNITS_DURATION ", at most a day", value);
}

static bool run_send(const struct arguments *arguments, struct error *error)
{
        const char *path = arguments_value(arguments, CONFIG);
        struct sending sending = {.arguments = arguments};
        struct config *config;
        int64_t timeout_ms;
        bool ok = false;

        if (path == NULL)
                return error_set(error, ERROR_USAGE,
                    "send needs the relay's configuration, which says who takes the event: "
                    "pgcourier send TOPIC -c FILE");
        if (arguments_has(arguments, DATA) && arguments_has(arguments, TO))
                return error_set(
                    error, ERROR_USAGE, "send: --data and --to both say what is sent: give one");
        if ((arguments_has(arguments, TO) &&
                !check_address(arguments_value(arguments, TO), error)) ||
            !read_timeout(arguments, &timeout_ms, error))
                return false;
        config = config_load(path, error);
        if (config == NULL)
                return false;
        if (publish_make_headers(arguments, HEADER, &sending.headers, error))
                sending.conn = connect_to_schema(NULL, path, ANSWER_TIMEOUT_MS, error);
        if (sending.conn != NULL)
                ok = send_event(&sending, config, timeout_ms, error);
        if (sending.conn != NULL && !ok && *blocking_conn_sqlstate(sending.conn) != '\0')
                (sending.is_publishing ? publish_refused : command_refused)(
                    sending.conn, arguments, error);
        blocking_conn_close(sending.conn);
        free(sending.headers);
        config_free(config);
        return ok;
}

const struct command send_command = {
    .name = "send",
    .summary = "publish a test event and follow it to each sink",
    .usage = "TOPIC [--data JSON|@FILE|- | --to ADDRESS] [--key KEY] [--type TYPE]\n"
             "       [--header NAME=VALUE]... [--timeout DURATION] -c FILE",
    .details =
        "Publishes one event and prints a line for each thing that happens to it: which sinks do\n"
        "not take it and why, which delivered it after how many milliseconds, where an attempt\n"
        "failed, what is paused or has no relay. The event is real: every sink that takes it\n"
        "gets it. A delivery is seen when the relay has settled it, which it does every 20 ms\n"
        "(for receivers every 100 ms). The receivers of a sink with more than five are summed up\n"
        "in one line at the end. If a tap makes events of this topic, a line names its table.\n"
        "\n"
        "Ends with 0 when all sinks that take it have it, with 5 if one gave it up, with 8 if no\n"
        "sink takes it, and with 75 if a sink does not have it yet. The role must be a member of\n"
        "courier_relay and of courier_publisher.\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_send,
};

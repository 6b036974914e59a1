/*
 * A test event, followed to each sink that takes it: the way to try a setup, and
 * to find out where an event is stuck.
 *
 * One line for each thing that happens. A lane that cannot move now (paused, or
 * without a relay) says so at once; when none is left that can, the waiting
 * ends, too.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/connect.h"
#include "cli/destinations.h"
#include "cli/cmd_publish.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "config/units.h"
#include "operator/filter_check.h"
#include "operator/follow.h"
#include "outbox/event_headers.h"
#include "pg/array_literal.h"
#include "sinks/email/email_address.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_TIMEOUT_MS  30000
#define DEFAULT_TIMEOUT_MS 10000
#define MAX_TIMEOUT_MS     (INT64_C(24) * 60 * 60 * 1000)
#define FIRST_POLL_MS      5
#define LAST_POLL_MS       50
#define DEFAULT_PAYLOAD    "{\"test\": true}"

/* A sink with more receivers than this is summed up: the line that matters is to be seen. */
#define MANY 5

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
    [TIMEOUT] = {"timeout", 0, "DURATION", false, "follow it for so long; default: 10s"},
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    {0},
};

/* What was last said of a lane. */
enum stage {
        STAGE_READING,
        STAGE_PAUSED,
        STAGE_UNOWNED,
        STAGE_PARKED,
        /* The ends. */
        STAGE_NOT_TAKEN,
        STAGE_DELIVERED,
        STAGE_DEAD,
};

struct lane {
        const struct destination *destination;
        char *name;
        enum stage stage;
        char attempt[16]; /* of a parked one: another attempt is news */
        bool is_one_of_many;
        long ms; /* once it is delivered */
};

struct sending {
        struct blocking_conn *conn;
        struct followed event;
        struct destinations destinations;
        struct lane *lanes;
        size_t n_lanes;
        bool is_publishing; /* as a publisher; everything else is for the relay's role */
};

static const char *or_dash(const char *text)
{
        return text != NULL && *text != '\0' ? text : "-";
}

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

/* What is no mail would be a dead letter of each sink of kind email: a trial that needs a clean-up. */
static bool check_mails(const struct sending *sending, const struct arguments *arguments,
    const char *headers, struct error *error)
{
        struct event_headers parsed;
        const struct event event = make_event(arguments, headers, &parsed);
        const char *sink = NULL;

        for (size_t i = 0; i < sending->n_lanes; i++) {
                const struct destination *destination = sending->lanes[i].destination;
                if (destination->is_email &&
                    destination_judge(destination, &event) == DESTINATION_TAKES)
                        sink = destination->sink;
        }
        event_headers_deinit(&parsed);
        if (sink == NULL && arguments_has(arguments, TO))
                return error_set(error, ERROR_USAGE,
                    "send: --to makes a test mail, and no sink of kind email takes such an event "
                    "(%.100s): leave it out, or name a topic that one of them takes",
                    arguments->operands[0]);
        return sink == NULL || arguments_has(arguments, DATA) || arguments_has(arguments, TO) ||
               error_set(error, ERROR_USAGE,
                   "send: sink %s takes %.100s and sends mail, which " DEFAULT_PAYLOAD
                   " is not: it would become a dead letter. Add --to ADDRESS for a test mail, or "
                   "--data with one of your own",
                   sink, arguments->operands[0]);
}

static void not_taken(struct lane *lane, const char *why)
{
        lane->stage = STAGE_NOT_TAKEN;
        if (!lane->is_one_of_many)
                remedy_print("%s: not taken: %s", lane->name, why);
}

/* What its filters say, if it has any. Where they take too long, nothing is known: a receiver that is
 * not active waits, whatever they say later. */
static bool ask_filters(struct sending *sending, struct lane *lane, struct error *error)
{
        const struct endpoint *endpoint = lane->destination->endpoint;
        struct array_literal ids = {0};
        struct bytes filters = {0};
        struct rows *rows;
        bool ok;

        if (!destination_has_filter(lane->destination))
                return true;
        array_add_int(&ids, strtoll(sending->event.id, NULL, 10));
        destination_append_filters(lane->destination, &filters);
        ok = filters_ask(sending->conn, array_end(&ids), filters.data, &rows, error);
        array_deinit(&ids);
        bytes_deinit(&filters);
        if (!ok)
                return false;
        if (rows != NULL && rows_count(rows) == 0) {
                not_taken(lane, "its filter is not true of the payload");
        } else if (rows == NULL && (endpoint == NULL || endpoint->state == ENDPOINT_ACTIVE)) {
                lane->stage = STAGE_DEAD;
                remedy_print("%s: given up (unjudged): its filter takes longer than %d ms for this "
                             "event: the relay makes it a dead letter",
                    lane->name, FILTERS_LIMIT_MS);
        }
        rows_free(rows);
        return true;
}

static bool judge(struct sending *sending, const struct arguments *arguments, const char *headers,
    struct error *error)
{
        struct event_headers parsed;
        const struct event event = make_event(arguments, headers, &parsed);
        bool ok = true;

        for (size_t i = 0; ok && i < sending->destinations.n_destinations; i++) {
                struct lane *lane = &sending->lanes[i];

                switch (destination_judge(lane->destination, &event)) {
                case DESTINATION_TAKES:
                        ok = ask_filters(sending, lane, error);
                        break;
                case DESTINATION_NOT_TOPIC:
                        not_taken(lane, "none of its topics matches, or one excludes it");
                        break;
                case DESTINATION_NOT_TYPE:
                        not_taken(lane, "none of its types matches");
                        break;
                case DESTINATION_NOT_HEADERS:
                        not_taken(lane, "the event does not have the headers that it asks for");
                        break;
                }
        }
        event_headers_deinit(&parsed);
        return ok;
}

static void say_parked(const struct lane *lane, const struct rows *rows)
{
        const char *ms = rows_text(rows, 0, FOLLOW_MS);
        const char *state = rows_text(rows, 0, FOLLOW_PARKED_STATE);

        if (strcmp(state, "blocked") == 0)
                remedy_print(
                    "%s: %s ms: waits behind an earlier event of its key: `pgcourier parked "
                    "list --blocked --sink %s`",
                    lane->name, ms, lane->destination->sink);
        else
                remedy_print("%s: %s ms: attempt %s failed: %s; tried again at %sZ", lane->name, ms,
                    rows_text(rows, 0, FOLLOW_PARKED_ATTEMPTS),
                    or_dash(rows_text(rows, 0, FOLLOW_PARKED_ERROR)),
                    rows_text(rows, 0, FOLLOW_PARKED_DUE));
}

static void say(const struct lane *lane, const struct rows *rows)
{
        const char *ms = rows_text(rows, 0, FOLLOW_MS);
        const struct endpoint *endpoint = lane->destination->endpoint;

        switch (lane->stage) {
        case STAGE_READING:
        case STAGE_NOT_TAKEN:
                break;
        case STAGE_PAUSED:
                if (endpoint != NULL && endpoint->state != ENDPOINT_ACTIVE)
                        remedy_print("%s: waits: it is %s (%s): `pgcourier endpoint resume %s`",
                            lane->name, endpoint->state == ENDPOINT_PAUSED ? "paused" : "disabled",
                            or_dash(endpoint->state_reason), endpoint->name);
                else
                        remedy_print("%s: waits: paused by the %s (%s): `pgcourier resume %s`",
                            lane->name, rows_text(rows, 0, FOLLOW_PAUSED_BY),
                            or_dash(rows_text(rows, 0, FOLLOW_PAUSED_WHY)),
                            lane->destination->sink);
                break;
        case STAGE_UNOWNED:
                remedy_print("%s: waits: no relay %s: `pgcourier run`", lane->name,
                    rows_bool(rows, 0, FOLLOW_HAS_CURSOR) ? "is running it"
                                                          : "has ever run it here");
                break;
        case STAGE_PARKED:
                say_parked(lane, rows);
                break;
        case STAGE_DELIVERED:
                if (!lane->is_one_of_many)
                        remedy_print("%s: %s ms: delivered and settled", lane->name, ms);
                break;
        case STAGE_DEAD:
                remedy_print("%s: %s ms: given up (%s): %s; `pgcourier dead show %s`", lane->name,
                    ms, rows_text(rows, 0, FOLLOW_DEAD_REASON),
                    rows_text(rows, 0, FOLLOW_DEAD_ERROR), rows_text(rows, 0, FOLLOW_DEAD_ID));
                break;
        }
}

static enum stage stage_of(const struct lane *lane, const struct rows *rows)
{
        const struct endpoint *endpoint = lane->destination->endpoint;

        if (rows_text(rows, 0, FOLLOW_DEAD_ID) != NULL)
                return STAGE_DEAD;
        if (rows_text(rows, 0, FOLLOW_PARKED_STATE) == NULL && rows_bool(rows, 0, FOLLOW_IS_PASSED))
                return STAGE_DELIVERED;
        if (rows_text(rows, 0, FOLLOW_PAUSED_BY) != NULL ||
            (endpoint != NULL && endpoint->state != ENDPOINT_ACTIVE))
                return STAGE_PAUSED;
        if (!rows_bool(rows, 0, FOLLOW_IS_OWNED))
                return STAGE_UNOWNED;
        if (rows_text(rows, 0, FOLLOW_PARKED_STATE) != NULL)
                return STAGE_PARKED;
        return STAGE_READING;
}

static bool look(struct sending *sending, struct lane *lane, struct error *error)
{
        struct rows *rows = follow_look(sending->conn, &sending->event, lane->destination->sink,
            lane->destination->lane, error);
        const char *attempt;
        enum stage stage;

        if (rows == NULL)
                return false;
        stage = stage_of(lane, rows);
        attempt = rows_text(rows, 0, FOLLOW_PARKED_ATTEMPTS);
        if (stage != lane->stage ||
            (stage == STAGE_PARKED && strcmp(attempt, lane->attempt) != 0)) {
                lane->stage = stage;
                lane->ms = strtol(rows_text(rows, 0, FOLLOW_MS), NULL, 10);
                snprintf(lane->attempt, sizeof lane->attempt, "%s", attempt != NULL ? attempt : "");
                say(lane, rows);
        }
        rows_free(rows);
        return true;
}

static bool has_ended(const struct lane *lane)
{
        return lane->stage >= STAGE_NOT_TAKEN;
}

static size_t count(const struct sending *sending, enum stage stage)
{
        size_t n = 0;

        for (size_t i = 0; i < sending->n_lanes; i++)
                n += sending->lanes[i].stage == stage;
        return n;
}

/* Whether something may still happen by itself. */
static bool is_any_moving(const struct sending *sending)
{
        return count(sending, STAGE_READING) + count(sending, STAGE_PARKED) > 0;
}

static bool follow(struct sending *sending, int64_t timeout_ms, struct error *error)
{
        int64_t deadline_us = clock_monotonic_us() + timeout_ms * 1000;
        int64_t poll_ms = FIRST_POLL_MS;

        for (;;) {
                for (size_t i = 0; i < sending->n_lanes; i++)
                        if (!has_ended(&sending->lanes[i]) &&
                            !look(sending, &sending->lanes[i], error))
                                return false;
                if (!is_any_moving(sending) || clock_monotonic_us() >= deadline_us)
                        return true;
                nanosleep(&(struct timespec){.tv_nsec = poll_ms * 1000000}, NULL);
                poll_ms = poll_ms * 2 < LAST_POLL_MS ? poll_ms * 2 : LAST_POLL_MS;
        }
}

/* A line for each sink with many receivers, in place of theirs. */
static void sum_up(const struct sending *sending)
{
        for (size_t i = 0, end; i < sending->n_lanes; i = end) {
                const char *sink = sending->lanes[i].destination->sink;
                size_t n_delivered = 0, n_not_taken = 0;
                long first_ms = 0, last_ms = 0;

                for (end = i;
                     end < sending->n_lanes && sending->lanes[end].destination->sink == sink;
                     end++) {
                        const struct lane *lane = &sending->lanes[end];
                        n_not_taken += lane->stage == STAGE_NOT_TAKEN;
                        if (lane->stage != STAGE_DELIVERED)
                                continue;
                        if (n_delivered++ == 0 || lane->ms < first_ms)
                                first_ms = lane->ms;
                        if (lane->ms > last_ms)
                                last_ms = lane->ms;
                }
                if (!sending->lanes[i].is_one_of_many)
                        continue;
                if (n_delivered > 0)
                        remedy_print(
                            "sink %s: %ld to %ld ms: delivered to %zu of its %zu endpoints", sink,
                            first_ms, last_ms, n_delivered, end - i);
                if (n_not_taken > 0)
                        remedy_print("sink %s: not taken by %zu of its %zu endpoints", sink,
                            n_not_taken, end - i);
        }
}

static void say_reading(const struct lane *lane)
{
        const struct endpoint *endpoint = lane->destination->endpoint;

        remedy_print("%s: not delivered yet: its destination is slow or down, or other events come "
                     "first; `pgcourier %s %s` says which",
            lane->name, endpoint != NULL ? "endpoint show" : "status",
            endpoint != NULL ? endpoint->name : lane->destination->sink);
}

static bool conclude(const struct sending *sending, struct error *error)
{
        size_t n_delivered = count(sending, STAGE_DELIVERED);
        size_t n_dead = count(sending, STAGE_DEAD);
        size_t n_taking = sending->n_lanes - count(sending, STAGE_NOT_TAKEN);

        sum_up(sending);
        for (size_t i = 0; i < sending->n_lanes; i++)
                if (sending->lanes[i].stage == STAGE_READING)
                        say_reading(&sending->lanes[i]);
        if (n_taking == 0)
                return error_set(error, ERROR_EMPTY, "no sink takes such an event");
        if (n_dead > 0)
                return error_set(
                    error, ERROR_SINK, "%zu of the %zu that take it gave it up", n_dead, n_taking);
        return n_delivered == n_taking ||
               error_set(error, ERROR_TEMPORARY,
                   "delivered to %zu of %zu so far; the event stays in the outbox for the others",
                   n_delivered, n_taking);
}

/* As the sink will: what it refuses would be a dead letter. */
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
            "text", "Somebody ran `pgcourier send`. Nothing has to be done.\n");
        char *text = mail != NULL ? json_dumps(mail, JSON_COMPACT) : NULL;

        json_decref(mail);
        if (text == NULL)
                return error_set(error, ERROR_USAGE, "--to: the address is not valid UTF-8");
        bytes_append_text(out_payload, text);
        free(text);
        return true;
}

/* What the payload may be is for the server to say. */
static bool publish(struct sending *sending, const struct arguments *arguments, const char *headers,
    struct error *error)
{
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
            arguments_value(arguments, TYPE), headers, &sending->event, error);
        bytes_deinit(&payload);
        if (!ok)
                return false;
        sending->is_publishing = false;
        printf("published: id %s, event_id %s, transaction %s, committed at %s\n",
            sending->event.id, sending->event.event_id, sending->event.xid,
            sending->event.committed_at);
        fflush(stdout);
        return true;
}

static size_t count_of_sink(const struct destinations *destinations, size_t place)
{
        size_t n = 0;

        for (size_t i = 0; i < destinations->n_destinations; i++)
                n += destinations->destinations[i].sink == destinations->destinations[place].sink;
        return n;
}

static bool send_event(struct sending *sending, const struct arguments *arguments,
    const struct config *config, const char *headers, int64_t timeout_ms, struct error *error)
{
        if (!destinations_load(&sending->destinations, config, sending->conn, error))
                return false;
        sending->n_lanes = sending->destinations.n_destinations;
        sending->lanes = xcalloc(sending->n_lanes + 1, sizeof *sending->lanes);
        for (size_t i = 0; i < sending->n_lanes; i++)
                sending->lanes[i] =
                    (struct lane){.destination = &sending->destinations.destinations[i],
                        .name = destination_name(&sending->destinations.destinations[i]),
                        .is_one_of_many = count_of_sink(&sending->destinations, i) > MANY};
        return check_mails(sending, arguments, headers, error) &&
               publish(sending, arguments, headers, error) &&
               judge(sending, arguments, headers, error) && follow(sending, timeout_ms, error) &&
               conclude(sending, error);
}

static void sending_deinit(struct sending *sending)
{
        for (size_t i = 0; i < sending->n_lanes; i++)
                free(sending->lanes[i].name);
        free(sending->lanes);
        destinations_deinit(&sending->destinations);
        blocking_conn_close(sending->conn);
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
        struct sending sending = {0};
        struct config *config;
        char *headers = NULL;
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
        if (publish_make_headers(arguments, HEADER, &headers, error))
                sending.conn = connect_to_schema(NULL, path, ANSWER_TIMEOUT_MS, error);
        if (sending.conn != NULL)
                ok = send_event(&sending, arguments, config, headers, timeout_ms, error);
        if (sending.conn != NULL && !ok && *blocking_conn_sqlstate(sending.conn) != '\0')
                (sending.is_publishing ? publish_refused : command_refused)(
                    sending.conn, arguments, error);
        sending_deinit(&sending);
        free(headers);
        config_free(config);
        return ok;
}

const struct command send_command = {
    .name = "send",
    .summary = "publish a test event and follow it to each sink",
    .usage = "TOPIC [--data JSON|@FILE|- | --to ADDRESS] [--key KEY] [--type TYPE]\n"
             "       [--header NAME=VALUE]... [--timeout DURATION] -c FILE",
    .details =
        "Publishes one event and prints a line for everything that becomes of it: who does not\n"
        "take it and why, who delivered it after how many milliseconds, where an attempt failed,\n"
        "what is paused or has no relay. Whatever it says, the event is real: all who take it\n"
        "get it. A delivery is seen when the relay has settled it, which it does every 20 ms\n"
        "(for endpoints every 100 ms). Of a sink with more than five endpoints those that have it\n"
        "are one line, at the end.\n"
        "\n"
        "Ends with 0 when all who take it have it, with 5 if one gave it up, with 8 if nobody\n"
        "takes it, and with 75 if somebody does not have it yet. The role must be a member of\n"
        "courier_relay and of courier_publisher.\n",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_send,
};

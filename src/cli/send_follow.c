/* Prints one line for each step of the event. A lane that is paused or has no relay is reported
 * at once; when no lane is left that can move, the waiting ends. */
#include "cli/send_follow.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/destinations.h"
#include "cli/remedy.h"
#include "operator/history.h"
#include "pg/array_literal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_POLL_MS 5
#define LAST_POLL_MS  50

/* A sink with more receivers than this gets one line for all that have the event, so that the
 * lines about trouble stand out. */
#define MANY 5

/* What was last printed of a lane. */
enum stage {
        STAGE_READING,
        STAGE_PAUSED,
        STAGE_UNOWNED,
        STAGE_PARKED,
        /* Nothing follows these. */
        STAGE_NOT_TAKEN,
        STAGE_DELIVERED,
        STAGE_DEAD,
};

struct followed_lane {
        const struct destination *destination;
        char *name;
        enum stage stage;
        char attempt[16]; /* of a parked one: another attempt is news */
        bool is_one_of_many;
        long ms; /* once it is delivered */
};

struct following {
        struct blocking_conn *conn;   /* borrowed */
        const struct followed *event; /* borrowed */
        struct followed_lane *lanes;  /* owned */
        size_t n_lanes;
};

static const char *or_dash(const char *text)
{
        return text != NULL && *text != '\0' ? text : "-";
}

static void not_taken(struct followed_lane *lane, const char *why)
{
        lane->stage = STAGE_NOT_TAKEN;
        if (!lane->is_one_of_many)
                remedy_print("%s: not taken: %s", lane->name, why);
}

/* Asks the filters of a lane, if it has any. One that takes too long makes the event a dead
 * letter, unless the receiver is not active: then the event waits. */
static bool ask_filters(
    struct following *following, struct followed_lane *lane, struct error *error)
{
        const struct receiver *receiver = lane->destination->receiver;
        struct array_literal ids = {0};
        struct bytes filters = {0};
        struct rows *rows;
        bool ok;

        if (!destination_has_filter(lane->destination))
                return true;
        array_add_int(&ids, strtoll(following->event->id, NULL, 10));
        destination_append_filters(lane->destination, &filters);
        ok = filters_ask(following->conn, array_end(&ids), filters.data, &rows, error);
        array_deinit(&ids);
        bytes_deinit(&filters);
        if (!ok)
                return false;
        if (rows != NULL && rows_count(rows) == 0) {
                not_taken(lane, "its filter is not true of the payload");
        } else if (rows == NULL && (receiver == NULL || receiver->state == RECEIVER_ACTIVE)) {
                lane->stage = STAGE_DEAD;
                remedy_print("%s: given up (unjudged): its filter takes longer than %d ms for this "
                             "event: the relay makes it a dead letter",
                    lane->name, FILTERS_LIMIT_MS);
        }
        rows_free(rows);
        return true;
}

static bool judge(struct following *following, const struct event *event, struct error *error)
{
        bool ok = true;

        for (size_t i = 0; ok && i < following->n_lanes; i++) {
                struct followed_lane *lane = &following->lanes[i];

                switch (destination_judge(lane->destination, event)) {
                case DESTINATION_TAKES:
                        ok = ask_filters(following, lane, error);
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
        return ok;
}

static void say_parked(const struct followed_lane *lane, const struct rows *rows)
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

static void say(const struct followed_lane *lane, const struct rows *rows)
{
        const char *ms = rows_text(rows, 0, FOLLOW_MS);
        const struct receiver *receiver = lane->destination->receiver;

        switch (lane->stage) {
        case STAGE_READING:
        case STAGE_NOT_TAKEN:
                break;
        case STAGE_PAUSED:
                if (receiver != NULL && receiver->state != RECEIVER_ACTIVE)
                        remedy_print("%s: waits: it is %s (%s): `pgcourier receiver resume %s`",
                            lane->name, receiver->state == RECEIVER_PAUSED ? "paused" : "disabled",
                            or_dash(receiver->state_reason), receiver->name);
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

static enum stage stage_of(const struct followed_lane *lane, const struct rows *rows)
{
        const struct receiver *receiver = lane->destination->receiver;

        if (rows_text(rows, 0, FOLLOW_DEAD_ID) != NULL)
                return STAGE_DEAD;
        if (rows_text(rows, 0, FOLLOW_PARKED_STATE) == NULL && rows_bool(rows, 0, FOLLOW_IS_PASSED))
                return STAGE_DELIVERED;
        if (rows_text(rows, 0, FOLLOW_PAUSED_BY) != NULL ||
            (receiver != NULL && receiver->state != RECEIVER_ACTIVE))
                return STAGE_PAUSED;
        if (!rows_bool(rows, 0, FOLLOW_IS_OWNED))
                return STAGE_UNOWNED;
        if (rows_text(rows, 0, FOLLOW_PARKED_STATE) != NULL)
                return STAGE_PARKED;
        return STAGE_READING;
}

static bool look(struct following *following, struct followed_lane *lane, struct error *error)
{
        struct rows *rows = follow_look(following->conn, following->event, lane->destination->sink,
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

static bool has_ended(const struct followed_lane *lane)
{
        return lane->stage >= STAGE_NOT_TAKEN;
}

static size_t count(const struct following *following, enum stage stage)
{
        size_t n = 0;

        for (size_t i = 0; i < following->n_lanes; i++)
                n += following->lanes[i].stage == stage;
        return n;
}

/* Whether anything may still happen without an operator. */
static bool is_any_moving(const struct following *following)
{
        return count(following, STAGE_READING) + count(following, STAGE_PARKED) > 0;
}

static bool follow(struct following *following, int64_t timeout_ms, struct error *error)
{
        int64_t deadline_us = clock_monotonic_us() + timeout_ms * 1000;
        int64_t poll_ms = FIRST_POLL_MS;

        for (;;) {
                for (size_t i = 0; i < following->n_lanes; i++)
                        if (!has_ended(&following->lanes[i]) &&
                            !look(following, &following->lanes[i], error))
                                return false;
                if (!is_any_moving(following) || clock_monotonic_us() >= deadline_us)
                        return true;
                nanosleep(&(struct timespec){.tv_nsec = poll_ms * 1000000}, NULL);
                poll_ms = poll_ms * 2 < LAST_POLL_MS ? poll_ms * 2 : LAST_POLL_MS;
        }
}

/* A line for each sink with many receivers, in place of theirs. */
static void sum_up(const struct following *following)
{
        for (size_t i = 0, end; i < following->n_lanes; i = end) {
                const char *sink = following->lanes[i].destination->sink;
                size_t n_delivered = 0, n_not_taken = 0;
                long first_ms = 0, last_ms = 0;

                for (end = i;
                     end < following->n_lanes && following->lanes[end].destination->sink == sink;
                     end++) {
                        const struct followed_lane *lane = &following->lanes[end];
                        n_not_taken += lane->stage == STAGE_NOT_TAKEN;
                        if (lane->stage != STAGE_DELIVERED)
                                continue;
                        if (n_delivered++ == 0 || lane->ms < first_ms)
                                first_ms = lane->ms;
                        if (lane->ms > last_ms)
                                last_ms = lane->ms;
                }
                if (!following->lanes[i].is_one_of_many)
                        continue;
                if (n_delivered > 0)
                        remedy_print(
                            "sink %s: %ld to %ld ms: delivered to %zu of its %zu receivers", sink,
                            first_ms, last_ms, n_delivered, end - i);
                if (n_not_taken > 0)
                        remedy_print("sink %s: not taken by %zu of its %zu receivers", sink,
                            n_not_taken, end - i);
        }
}

static void say_reading(const struct followed_lane *lane)
{
        const struct receiver *receiver = lane->destination->receiver;

        remedy_print("%s: not delivered yet: its destination is slow or down, or other events come "
                     "first; `pgcourier %s %s` says which",
            lane->name, receiver != NULL ? "receiver show" : "status",
            receiver != NULL ? receiver->name : lane->destination->sink);
}

static bool conclude(const struct following *following, struct error *error)
{
        size_t n_delivered = count(following, STAGE_DELIVERED);
        size_t n_dead = count(following, STAGE_DEAD);
        size_t n_taking = following->n_lanes - count(following, STAGE_NOT_TAKEN);

        sum_up(following);
        for (size_t i = 0; i < following->n_lanes; i++)
                if (following->lanes[i].stage == STAGE_READING)
                        say_reading(&following->lanes[i]);
        if (n_taking == 0)
                return error_set(error, ERROR_EMPTY, "no sink takes this event");
        if (n_dead > 0)
                return error_set(
                    error, ERROR_SINK, "%zu of the %zu that take it gave it up", n_dead, n_taking);
        return n_delivered == n_taking ||
               error_set(error, ERROR_TEMPORARY,
                   "delivered to %zu of %zu so far; the event stays in the outbox for the others",
                   n_delivered, n_taking);
}

static size_t count_of_sink(const struct destinations *destinations, size_t place)
{
        size_t n = 0;

        for (size_t i = 0; i < destinations->n_destinations; i++)
                n += destinations->destinations[i].sink == destinations->destinations[place].sink;
        return n;
}

bool send_follow(struct blocking_conn *conn, const struct destinations *destinations,
    const struct event *event, const struct followed *followed, int64_t timeout_ms,
    struct error *error)
{
        struct following following = {.conn = conn,
            .event = followed,
            .lanes = xcalloc(destinations->n_destinations + 1, sizeof *following.lanes),
            .n_lanes = destinations->n_destinations};
        bool ok;

        for (size_t i = 0; i < following.n_lanes; i++)
                following.lanes[i] =
                    (struct followed_lane){.destination = &destinations->destinations[i],
                        .name = destination_name(&destinations->destinations[i]),
                        .is_one_of_many = count_of_sink(destinations, i) > MANY};
        ok = judge(&following, event, error) && follow(&following, timeout_ms, error) &&
             conclude(&following, error);
        for (size_t i = 0; i < following.n_lanes; i++)
                free(following.lanes[i].name);
        free(following.lanes);
        return ok;
}

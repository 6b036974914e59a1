/*
 * courier.receiver for the commands: the receivers of sinks that fan out. The
 * table's triggers tell a running relay.
 */
#pragma once

#include "base/error.h"
#include "pg/blocking_conn.h"

#include <stdbool.h>
#include <stdint.h>

/* What can be said of a new receiver; the rest has defaults. */
enum receiver_field {
        RECEIVER_SINK,
        RECEIVER_NAME,
        RECEIVER_URL,
        RECEIVER_DESCRIPTION,
        RECEIVER_SECRET,
        RECEIVER_HEADERS, /* a JSON object */
        RECEIVER_TOPICS,  /* array literals */
        RECEIVER_TYPES,
        RECEIVER_FILTER, /* a JSON path */
        RECEIVER_START,
        RECEIVER_CONCURRENCY,
        RECEIVER_RATE,
        RECEIVER_BURST,
        RECEIVER_N_FIELDS,
};

/* A value that is NULL is the table's default. One row: the columns, or with as_json an object. */
enum {
        ADDED_ID,
        ADDED_SECRET,
};
struct rows *receiver_add(struct blocking_conn *conn, const char *const *values, bool as_json,
    struct error *error) __attribute__((warn_unused_result));

/* Changes what is given (values of the fields as above; "" makes description, types and filter
 * nothing). Of headers, those in the object are set, and removed where their value is null. One row
 * with its name; no row if there is no such receiver. Its sink, name, secret and start stay. */
struct rows *receiver_set(struct blocking_conn *conn, const char *const *values,
    struct error *error) __attribute__((warn_unused_result));

/* Which receivers; those in trouble come first: failing, disabled, paused, with deliveries that are
 * retried, then all others by sink and name. */
struct receivers_chosen {
        const char *sink;   /* NULL: of any sink */
        const char *search; /* the name or the description contains it; NULL: any */
        const char *state;  /* active, paused, disabled or failing; NULL: any */
        unsigned limit;     /* at most so many; 0: all. Each takes some 0.1 to 3 ms */
        int64_t offset;     /* after so many */
};
enum {
        RECEIVER_ROW_JSON,  /* of courier.receiver_status */
        RECEIVER_ROW_TOTAL, /* how many there are without limit and offset */
        RECEIVER_ROW_NAME,
        RECEIVER_ROW_SINK,
        RECEIVER_ROW_STATE,
        RECEIVER_ROW_SINCE, /* it fails, or is in this state */
        RECEIVER_ROW_DELIVERED,
        RECEIVER_ROW_WAITING, /* "~7": about so many */
        RECEIVER_ROW_RETRYING,
        RECEIVER_ROW_DEAD,
        RECEIVER_ROW_TOPICS,
        RECEIVER_ROW_URL, /* without what may be a token in it */
        RECEIVER_ROW_REASON,
};
struct rows *receivers_read(struct blocking_conn *conn, const struct receivers_chosen *chosen,
    struct error *error) __attribute__((warn_unused_result));

/* The statement itself, for the operators' session. */
extern const char receiver_list_sql[];
enum { RECEIVERS_PARAMETERS = 5 };
struct receivers_parameters {
        char limit[12], offset[24];
        struct parameter values[RECEIVERS_PARAMETERS]; /* borrowed from these and what is chosen */
};
void receivers_parameters_fill(
    struct receivers_parameters *parameters, const struct receivers_chosen *chosen);

/* Of all receivers of a sink, by id: what receiver_read() takes, without secrets. */
enum {
        RECEIVER_TEXT_ID,
        RECEIVER_TEXT,
};
struct rows *receivers_read_texts(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One with everything, as rows of a name and a value; no row if there is none. */
struct rows *receiver_show(struct blocking_conn *conn, const char *name, bool with_secrets,
    struct error *error) __attribute__((warn_unused_result));

/* The same with its newest attempts (`n_attempts` at most) as one JSON object. */
struct rows *receiver_story(struct blocking_conn *conn, const char *name, const char *n_attempts,
    bool with_secrets, struct error *error) __attribute__((warn_unused_result));
extern const char receiver_story_sql[]; /* $1 name  $2 attempts  $3 with secrets */

/* Its newest attempts, as far as they are kept, the newest first. */
enum {
        ATTEMPT_ROW_AT,
        ATTEMPT_ROW_EVENT,
        ATTEMPT_ROW_NUMBER,
        ATTEMPT_ROW_OUTCOME,
        ATTEMPT_ROW_TOOK,
        ATTEMPT_ROW_STATUS,
        ATTEMPT_ROW_ANSWER,
};
struct rows *receiver_attempts(struct blocking_conn *conn, const char *name, const char *n_attempts,
    struct error *error) __attribute__((warn_unused_result));

/* There is a sink of that name, with receivers: table, or there will be. */
bool receiver_note_sink(struct blocking_conn *conn, const char *sink, struct error *error)
    __attribute__((warn_unused_result));

/* One row for each thing that a request to it is made of, its name and its value: "url", "secret"
 * (those that sign, the newest first), "header"; and "event_id", a new one. */
enum {
        RECEIVER_PART,
        RECEIVER_PART_NAME, /* of a header */
        RECEIVER_PART_VALUE,
        RECEIVER_PART_SINK,
};
struct rows *receiver_read_parts(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* How many events wait for it ("7", "about 7"), how many deliveries are parked and how many have
 * died; no row if there is none. */
enum {
        RECEIVER_COUNT_WAITING,
        RECEIVER_COUNT_PARKED,
        RECEIVER_COUNT_DEAD,
};
struct rows *receiver_count(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

extern const char receiver_set_state_sql[]; /* as the next; $1 name  $2 state  $3 reason */

/* The state it had before ("active" …), in a row; no row if there is none. A reason that is NULL
 * leaves the one there is. */
struct rows *receiver_set_state(struct blocking_conn *conn, const char *name, const char *state,
    const char *reason, struct error *error) __attribute__((warn_unused_result));

bool receiver_remove(struct blocking_conn *conn, const char *name, bool *out_existed,
    struct error *error) __attribute__((warn_unused_result));

/* A row with the new secret and until when the old ones sign (NULL: no longer). `secret` NULL makes
 * one. */
enum {
        ROTATED_SECRET,
        ROTATED_UNTIL,
};
struct rows *receiver_rotate_secret(struct blocking_conn *conn, const char *name,
    int64_t overlap_ms, const char *secret, struct error *error)
    __attribute__((warn_unused_result));

/* A list of all names, to find the one that was meant: one column. */
struct rows *receiver_names(struct blocking_conn *conn, struct error *error)
    __attribute__((warn_unused_result));

/* Makes a link to the portal, of which the table has the hash alone (hexadecimal digits). One row;
 * no row if there is no such receiver. Those that have expired go. */
enum {
        LINK_ROW_ID,
        LINK_ROW_EXPIRES,
        LINK_ROW_MANAGE, /* "yes" or "no" */
        LINK_ROW_CREATED,
        LINK_ROW_JSON,
};
struct rows *receiver_link_add(struct blocking_conn *conn, const char *name, const char *token_hash,
    bool can_manage, int64_t for_ms, struct error *error) __attribute__((warn_unused_result));

/* Those that have not expired, the newest first. */
struct rows *receiver_links(struct blocking_conn *conn, const char *name, struct error *error)
    __attribute__((warn_unused_result));

/* Removes all of a receiver, or that with the number `id` alone. A row for each. */
struct rows *receiver_links_remove(struct blocking_conn *conn, const char *name, const char *id,
    struct error *error) __attribute__((warn_unused_result));

/*
 * What the writers of a chaos run publish, and for whom. One event serves all sinks: its payload is
 * a mail whose subject says which event it is, and a few are such that their destination never
 * takes them. Everything follows from the writer and the number, so nothing needs to be remembered.
 */
#pragma once

#include "chaos/checker.h"

#include <stdbool.h>

enum chaos_sink {
        SINK_STREAM, /* Redis */
        SINK_HOOK,   /* HTTP, in the order of keys */
        SINK_FAST,   /* HTTP, in any order */
        SINK_MAIL,   /* e-mail: every ninth event */
        SINK_ONCE,   /* Redis, exactly once */
        SINK_JOBS,   /* a function of PostgreSQL, exactly once: jobs.h */
        SINK_NATS,   /* JetStream, which takes nothing twice */
        SINK_RABBIT, /* a quorum queue */
        SINK_KAFKA,
        N_PLAIN_SINKS,

        /* The receivers of one sink that fans out: judged as if each were a sink of its own. */
        SINK_ALL = N_PLAIN_SINKS,
        SINK_EVENTS,  /* all but what is a mail */
        SINK_MAILS,   /* and what is */
        SINK_FRAIL,   /* has a server of its own */
        SINK_PAUSED,  /* now and then */
        SINK_MOVING,  /* between two servers */
        SINK_PASSING, /* is removed, and added anew */
        SINK_LIMITED, /* by a rate */
        SINK_STRICT,  /* refuses some events at times */
        SINK_CHOOSY,  /* by a filter, which is dear at times */
        SINK_FRESH,   /* those that are added among what they must get; newcomers.h */
        N_SINKS,
};

enum {
        ALL_SINKS = (1 << N_SINKS) - 1,
        ALL_RECEIVERS = ALL_SINKS & -(1 << N_PLAIN_SINKS),
};

/* As in the configuration. */
const char *chaos_sink_name(enum chaos_sink sink);
bool chaos_sink_keeps_order(enum chaos_sink sink);
bool chaos_sink_is_receiver(enum chaos_sink sink);

/* How many events a relay may have taken and not settled. */
uint32_t chaos_sink_window(enum chaos_sink sink);

/* For struct writer_options. Free it. */
extern const char chaos_event_columns[];
char *chaos_event_sql(bool with_refusals);

/* Whether the function refuses the event with that payload, in SQL. Free it. */
char *chaos_refused_by_job_sql(const char *payload);

struct chaos_event chaos_event(
    unsigned writer, unsigned number, enum published fate, bool with_refusals);

/* Finds in a payload, or in a whole mail, the writer, the number and when it is due (0: at
 * once). */
bool chaos_event_parse(
    const char *text, unsigned *out_writer, unsigned *out_number, int64_t *out_due_us);

/* Whether a destination refuses just now what it takes at other times. */
bool chaos_is_strict(int64_t now_us);

/* An event that is not counted. Every destination takes it, which shows that it works. */
extern const char chaos_beacon_sql[];
bool chaos_is_beacon(const char *text);

/*
 * What the writers of a chaos run publish, and for whom. One event serves all sinks: its payload is a
 * mail whose subject says which event it is, and a few are such that their destination never takes
 * them. Everything follows from the writer and the number, so nothing needs to be remembered.
 */
#pragma once

#include "chaos/checker.h"

#include <stdbool.h>

enum chaos_sink {
        SINK_STREAM, /* Redis */
        SINK_HOOK,   /* HTTP, in the order of keys */
        SINK_FAST,   /* HTTP, in any order */
        SINK_MAIL,   /* e-mail: every ninth event */
        N_SINKS,
};

enum { ALL_SINKS = (1 << N_SINKS) - 1 };

/* As in the configuration. */
const char *chaos_sink_name(enum chaos_sink sink);
bool chaos_sink_keeps_order(enum chaos_sink sink);

/* For struct writer_options. Free it. */
extern const char chaos_event_columns[];
char *chaos_event_sql(bool with_refusals);

struct chaos_event chaos_event(
    unsigned writer, unsigned number, enum published fate, bool with_refusals);

/* Finds in a payload, or in a whole mail, the writer, the number and when it is due (0: at once). */
bool chaos_event_parse(
    const char *text, unsigned *out_writer, unsigned *out_number, int64_t *out_due_us);

/* An event that nobody counts. Every destination takes it, which shows that it works. */
extern const char chaos_beacon_sql[];
bool chaos_is_beacon(const char *text);

/*
 * Who owned what, and when, as the relays' logs tell it; and when sinks were divided anew, as the
 * database does. A lane's owner is who logged lane_owned last.
 */
#pragma once

#include "chaos/world.h"

enum { ALL_SHARDS = -1 };

struct owners {
        struct owning {
                int64_t at_us;
                int relay;
                enum chaos_sink sink; /* or receiver */
                int shard;            /* 0 if the sink has no others */
        } * each;                     /* in order of time; owned */
        size_t n;
        struct abandoned {
                int64_t at_us;
                int relay;
                int configured; /* the sink; SINK_MANY: that of the receivers */
                int shard;
                uint32_t n_in_flight; /* that were not waited for */
        } * abandoned;                /* owned */
        size_t n_abandoned;
        struct division {
                int64_t at_us;
                int configured; /* likewise */
        } * divisions;          /* in order of time; owned */
        size_t n_divisions;
        unsigned n_given;   /* shards that were handed over */
        unsigned n_waiting; /* times that a relay found its configuration to be the older one */
};

struct owners owners_read(const struct world *world);
void owners_deinit(struct owners *owners);

/* -1: nobody yet. */
int owners_find(const struct owners *owners, enum chaos_sink sink, int shard, int64_t at_us);

/* When it, or with ALL_SHARDS any shard, was owned next; -1: never. */
int64_t owners_next(const struct owners *owners, enum chaos_sink sink, int shard, int64_t at_us);

/* Whether a sink of the configuration is that sink, or has that receiver. */
bool owners_is_of(int configured, enum chaos_sink sink);

/* When it was divided anew next; -1: never. */
int64_t owners_next_division(const struct owners *owners, enum chaos_sink sink, int64_t at_us);

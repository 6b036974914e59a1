/* Everything a chaos run consists of: servers, roads between them, relays, writers, what arrived. */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/events.h"
#include "chaos/fault_proxy.h"
#include "chaos/relays.h"
#include "support/http_receiver.h"
#include "support/postgres.h"

#include <stdatomic.h>

enum link {
        LINK_PG_A, /* one for each relay */
        LINK_PG_B,
        LINK_STREAM, /* one for each sink, in their order */
        LINK_HOOK,
        LINK_FAST,
        LINK_MAIL,
        N_LINKS,
};

enum hook_mood {
        MOOD_GOOD,
        MOOD_500,
        MOOD_503,
        MOOD_429,
        MOOD_SLOW,
        MOOD_HANGING, /* takes the event and does not say so */
        MOOD_SILENT,  /* takes the event and closes */
        MOOD_HALF,    /* takes the event and closes in the middle of its answer */
        N_MOODS,
};

/* An HTTP receiver. */
struct hook {
        struct http_receiver *receiver;
        enum chaos_sink sink;
        struct arrivals *arrivals;
        bool with_refusals;
        atomic_int mood;
};

struct world_options {
        uint64_t seed;
        bool with_refusals;
        unsigned n_writers;
        unsigned pause_us; /* of writers */
};

struct world {
        struct world_options options;
        char *folder; /* of logs and configurations */
        struct postgres *postgres;
        char *dsn; /* of the superuser */
        char *app;
        struct redis_server redis;
        struct hook hooks[2]; /* SINK_HOOK, SINK_FAST */
        struct smtp_receiver smtp;
        char *mood_path; /* of the mail server */
        struct fault_proxy *proxy;
        struct fault_link *links[N_LINKS];
        struct relay_slot relays[N_RELAYS];
        struct writers *writers;
        char *event_sql;
        struct arrivals arrivals[N_SINKS];
};

#define WORLD_STREAM        "events"
#define WORLD_MAX_IN_FLIGHT 50

void world_begin(struct world *world, const struct world_options *options);
void world_end(struct world *world);

/* The mail server's; "" for a good one. */
void world_set_mail_mood(struct world *world, const char *mood);
void world_start_mail(struct world *world);

void world_read_arrivals(struct world *world);

/* Everything a chaos run consists of: servers, roads between them, relays, writers, what
 * arrived. */
#pragma once

#include "chaos/arrivals.h"
#include "chaos/brokers.h"
#include "chaos/events.h"
#include "chaos/fault_proxy.h"
#include "chaos/newcomers.h"
#include "chaos/passwords.h"
#include "chaos/receivers.h"
#include "chaos/relays.h"
#include "chaos/taps.h"
#include "chaos/trimmer.h"
#include "support/http_receiver.h"
#include "support/postgres.h"

#include <stdatomic.h>

enum link {
        LINK_PG_A, /* every other relay takes this one */
        LINK_PG_B,
        LINK_STREAM,
        LINK_HOOK, /* one for each HTTP server, in their order */
        LINK_FAST,
        LINK_MANY,
        LINK_FRAIL,
        LINK_MAIL,
        LINK_ONCE, /* another one to Redis */
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

/* An HTTP server. */
struct hook {
        struct http_receiver *receiver;
        enum chaos_sink sink; /* N_SINKS: the path says which receiver */
        struct world *world;
        atomic_int mood;
};

enum { HOOK_HOOK, HOOK_FAST, HOOK_MANY, HOOK_FRAIL, N_HOOKS };

/* What a run may do without, to find out what a fault depends on. */
enum without {
        WITHOUT_REFUSALS = 1,
        WITHOUT_FILTERS = 2,   /* that are dear */
        WITHOUT_PASSWORDS = 4, /* that change */
        WITHOUT_NEWCOMERS = 8,
        WITHOUT_ABSENCES = 16, /* of all relays */
        WITHOUT_NATS = 32,     /* the brokers in their order */
        WITHOUT_RABBIT = 64,
        WITHOUT_KAFKA = 128,
};

/* What a configuration has: the plain sinks, and the one of the receivers. */
enum { SINK_MANY = N_PLAIN_SINKS, N_CONFIGURED };

/* Of these, those that are divided into shards, with the number that they usually have. */
enum { DIVIDED_STREAM, DIVIDED_HOOK, DIVIDED_MANY, N_DIVIDED, MAX_SHARDS = 6 };

extern const struct divided_sink {
        const char *name;
        unsigned usual;
} divided_sinks[N_DIVIDED];

struct world_options {
        uint64_t seed;
        unsigned without; /* enum without, as bits */
        unsigned n_writers;
        unsigned pause_us; /* of writers */
        bool has_clusters; /* NATS is three servers */
        bool has_standby;  /* PostgreSQL that is killed does not come back: it takes over */
};

struct world {
        struct world_options options;
        unsigned n_trimmed; /* partitions, when all is over */
        char *folder;       /* of logs and configurations */
        struct postgres *postgres;
        struct postgres *standby; /* synchronous; NULL: there is none */
        char *dsn;                /* of the superuser */
        char *app;
        struct redis_server redis;
        struct passwords passwords;
        struct hook hooks[N_HOOKS];
        struct receivers receivers;
        struct smtp_receiver smtp;
        char *mood_path; /* of the mail server */
        struct brokers brokers;
        struct fault_proxy *proxy;
        struct fault_link *links[N_LINKS];
        struct relay_slot relays[N_RELAYS];
        unsigned numbers[N_RELAYS][N_DIVIDED]; /* of shards, in the configuration of each */
        struct trimmer *trimmer;
        struct taps taps;
        struct writers *writers;
        struct newcomers *newcomers;         /* NULL in the calm */
        int64_t calm_from_us, calm_until_us; /* nothing was wrong between these two */
        atomic_bool has_written;             /* no more events are to come */
        char *event_sql;
        struct arrivals arrivals[N_SINKS];
};

#define WORLD_STREAM        "events"
#define WORLD_LEDGER        "ledger" /* of SINK_ONCE */
#define WORLD_MAX_IN_FLIGHT 50

/* The brokers that take part, as bits. */
unsigned world_brokers(const struct world_options *options);

void world_begin(struct world *world, const struct world_options *options);
void world_end(struct world *world);

/* After postgres_kill(). */
void world_recover_postgres(struct world *world);

/* When the calm is over: what would bring along what is late. */
void world_end_calm(struct world *world);

/* Whether it takes part. */
bool world_has_sink(const struct world *world, enum chaos_sink sink);

/* How it differs from the usual one. */
struct relay_settings {
        uint32_t narrow; /* these sinks, as bits, have half of their window */
        bool is_hasty;   /* with PostgreSQL, which takes another session; see AFTERMATH_US */
        int left_out;    /* this sink; -1: none */
};

extern const struct relay_settings the_usual;

/* By a reload, or at its next start. */
void world_configure_relay(
    struct world *world, unsigned relay, const struct relay_settings *settings);

/* The mail server's; "" for a good one. */
void world_set_mail_mood(struct world *world, const char *mood);
void world_start_mail(struct world *world);

/* The sinks whose events take that road, as bits. */
uint32_t world_sinks_of_link(enum link link);

void world_read_arrivals(struct world *world);
void world_read_arrivals_of_nats(struct world *world);

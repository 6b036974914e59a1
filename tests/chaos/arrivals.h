/* What arrived at one destination, in order of arrival; noted by any thread. */
#pragma once

#include "chaos/checker.h"
#include "support/redis_server.h"
#include "support/smtp_receiver.h"

#include <pthread.h>

struct arrivals {
        pthread_mutex_t lock;
        struct arrived {
                unsigned writer;
                unsigned number;
                int64_t at_us; /* wall clock */
                int64_t due_us;
        } * each; /* owned */
        size_t n;
        size_t capacity;
        unsigned
            generation;   /* of a destination that is renewed: what is of another does not count */
        char last_id[48]; /* of a stream: read so far */
        long mailbox_offset; /* of a mailbox: read so far */
};

void arrivals_init(struct arrivals *arrivals);
void arrivals_deinit(struct arrivals *arrivals);

/* Aborts if the text is no event of ours; beacons are left out. */
void arrivals_note(struct arrivals *arrivals, const char *text, int64_t at_us);

/* The same for what was sent to this generation. */
void arrivals_note_of(
    struct arrivals *arrivals, unsigned generation, const char *text, int64_t at_us);

/* As if nothing had arrived yet: the destination is of this generation from here on. */
void arrivals_renew(struct arrivals *arrivals, unsigned generation);

/* Notes what has been added since the last time. */
void arrivals_read_stream(
    struct arrivals *arrivals, struct redis_server *server, const char *stream);
void arrivals_read_mailbox(struct arrivals *arrivals, const struct smtp_receiver *smtp);

/* The events of several writers, one after the other: those of writer w are from first[w] on. */
struct numbering {
        uint32_t *first; /* n_writers + 1; owned */
        unsigned n_writers;
};

/* UINT32_MAX if no writer wrote it. */
uint32_t numbering_find(const struct numbering *numbering, unsigned writer, unsigned number);

/* Those so far, as numbers of events. Free it. */
struct chaos_arrival *arrivals_number(
    struct arrivals *arrivals, const struct numbering *numbering, size_t *out_n);

/*
 * A client of one destination and nothing else: what that takes from a program that reads no database.
 *
 *   bare_NAME PORT EVENTS [IN_FLIGHT [PAUSE_US]]
 *
 * publishes so many messages as pgcourier's native form has them, of 256 bytes, and waits for the
 * acknowledgement of each, IN_FLIGHT (1000) at a time. Its result is one line on standard output,
 * `events=N us=N`: from the first message to the last acknowledgement. With PAUSE_US it rests so long
 * before each message, one in flight, and adds `p50_us=N`: from a message to its acknowledgement.
 * Then it waits until its standard input ends, so that the measuring program can look at it first. It
 * ends on the first error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BARE_PAYLOAD_BYTES = 256 };

#define BARE_TYPE         "order"
#define BARE_CONTENT_TYPE "application/json"

/* As an event of the backlog (bench/rig.py). */
struct bare_event {
        char id[37];
        char key[24];
        char time[28]; /* 2024-01-31T23:59:59.123456Z */
        int64_t created_us;
        const char *topic; /* one of bare_topics */
        unsigned topic_index;
        char payload[BARE_PAYLOAD_BYTES + 1];
        size_t key_bytes, topic_bytes;
};

extern const char *const bare_topics[2];

struct bare {
        int port;
        long n_events, in_flight;
        long n_sent, n_acked;
        int64_t began_us;
        long pause_us;
        int64_t sent_us;  /* the last message, with a pause */
        int64_t *took_us; /* n_events of them, with a pause */
};

_Noreturn void bare_die(const char *what, const char *why);
void bare_init(struct bare *bare, int n_args, char **args);

/* A socket on the broker's port, which blocks. */
int bare_connect(const struct bare *bare);

/* The next event to send, at once; *event keeps what does not change. */
void bare_event(struct bare *bare, struct bare_event *event);

/* Just before the first message. */
void bare_begin(struct bare *bare);

/* All are acknowledged: prints the result and waits for the end of standard input. */
void bare_end(const struct bare *bare);

/* What is written to a socket and read from it. */
struct bare_stream {
        int fd;
        char *out, *in;
        size_t out_start, out_end, in_start, in_end;
};

enum { BARE_BUFFER_BYTES = 1 << 20, BARE_MESSAGE_MAX = 2048 };

void bare_stream_init(struct bare_stream *stream, int fd);

/* For one more message, of at most BARE_MESSAGE_MAX bytes, at out + out_end. */
bool bare_stream_has_room(const struct bare_stream *stream);

/* Waits until something has come; writes meanwhile what the socket takes. */
void bare_stream_turn(struct bare_stream *stream);

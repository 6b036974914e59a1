#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEYS 1000

const char *const bare_topics[2] = {"orders.created", "orders.paid"};

static const char *name = "bare";

void bare_die(const char *what, const char *why)
{
        fprintf(stderr, "%s: %s: %s\n", name, what, why);
        exit(1);
}

static int64_t now_us(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

void bare_init(struct bare *bare, int n_args, char **args)
{
        name = args[0];
        if (n_args < 3 || n_args > 5)
                bare_die("usage", "PORT EVENTS [IN_FLIGHT [PAUSE_US]]");
        *bare = (struct bare){.port = atoi(args[1]),
            .n_events = atol(args[2]),
            .in_flight = n_args >= 4 ? atol(args[3]) : 1000,
            .pause_us = n_args == 5 ? atol(args[4]) : 0};
        if (bare->port <= 0 || bare->n_events <= 0 || bare->in_flight <= 0)
                bare_die("usage", "numbers above 0 are needed");
        if (bare->pause_us > 0 && bare->in_flight != 1)
                bare_die("usage", "PAUSE_US needs one in flight");
        bare->took_us = calloc((size_t)bare->n_events, sizeof *bare->took_us);
        if (bare->took_us == NULL)
                bare_die("calloc", "no memory");
}

int bare_connect(const struct bare *bare)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons((uint16_t)bare->port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) != 0)
                bare_die("connect", strerror(errno));
        return fd;
}

static void first_time(struct bare_event *event)
{
        struct tm utc;
        time_t second;
        int n;

        event->created_us = now_us(CLOCK_REALTIME);
        second = event->created_us / 1000000;
        gmtime_r(&second, &utc);
        n = (int)strftime(event->time, sizeof event->time, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(event->time + n, sizeof event->time - (size_t)n, ".%06dZ",
            (int)(event->created_us % 1000000));
        /* No two runs have an id in common: a broker may remember. */
        snprintf(event->id, sizeof event->id, "%08lx-%04x-4000-8000-000000000000",
            (unsigned long)(second & 0xffffffff), (unsigned)getpid() & 0xffff);
        memset(event->payload, 'x', BARE_PAYLOAD_BYTES);
        memcpy(event->payload, "{\"order\": 0000000000, \"note\": \"", 31);
        memcpy(event->payload + BARE_PAYLOAD_BYTES - 2, "\"}", 3);
}

static void put_digits(char *end, long number, unsigned base, int n_digits)
{
        for (; n_digits > 0; n_digits--, number /= base)
                *--end = "0123456789abcdef"[number % base];
}

/* One is in flight, so the one before is acknowledged. */
static void pause_after(struct bare *bare)
{
        struct timespec rest = {
            .tv_sec = bare->pause_us / 1000000, .tv_nsec = bare->pause_us % 1000000 * 1000};

        if (bare->n_sent > 0)
                bare->took_us[bare->n_sent - 1] = now_us(CLOCK_MONOTONIC) - bare->sent_us;
        nanosleep(&rest, NULL);
        bare->sent_us = now_us(CLOCK_MONOTONIC);
}

void bare_event(struct bare *bare, struct bare_event *event)
{
        long number = bare->n_sent;

        if (bare->pause_us > 0)
                pause_after(bare);
        if (event->created_us == 0)
                first_time(event);
        put_digits(event->id + 36, number, 16, 12);
        put_digits(event->payload + 20, number + 1000000000, 10, 10); /* no leading zero: JSON */
        event->key_bytes =
            (size_t)snprintf(event->key, sizeof event->key, "customer-%ld", number % KEYS);
        event->topic_index = (unsigned)(number % 2);
        event->topic = bare_topics[event->topic_index];
        event->topic_bytes = strlen(event->topic);
}

static int compare(const void *a, const void *b)
{
        int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

        return (left > right) - (left < right);
}

void bare_end(const struct bare *bare)
{
        int64_t ended_us = now_us(CLOCK_MONOTONIC);
        char byte;

        printf("events=%ld us=%lld", bare->n_acked, (long long)(ended_us - bare->began_us));
        if (bare->pause_us > 0) {
                bare->took_us[bare->n_events - 1] = ended_us - bare->sent_us;
                qsort(bare->took_us, (size_t)bare->n_events, sizeof *bare->took_us, compare);
                printf(" p50_us=%lld", (long long)bare->took_us[bare->n_events / 2]);
        }
        printf("\n");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
}

void bare_begin(struct bare *bare)
{
        bare->began_us = now_us(CLOCK_MONOTONIC);
}

void bare_stream_init(struct bare_stream *stream, int fd)
{
        *stream = (struct bare_stream){
            .fd = fd, .out = malloc(BARE_BUFFER_BYTES), .in = malloc(BARE_BUFFER_BYTES)};
        if (stream->out == NULL || stream->in == NULL)
                bare_die("malloc", "no memory");
}

bool bare_stream_has_room(const struct bare_stream *stream)
{
        return BARE_BUFFER_BYTES - stream->out_end >= BARE_MESSAGE_MAX;
}

static void write_some(struct bare_stream *stream)
{
        ssize_t n = send(stream->fd, stream->out + stream->out_start,
            stream->out_end - stream->out_start, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
                bare_die("send", strerror(errno));
        if (n > 0)
                stream->out_start += (size_t)n;
        if (stream->out_start == stream->out_end)
                stream->out_start = stream->out_end = 0;
}

static void read_some(struct bare_stream *stream)
{
        ssize_t n;

        memmove(stream->in, stream->in + stream->in_start, stream->in_end - stream->in_start);
        stream->in_end -= stream->in_start;
        stream->in_start = 0;
        n = recv(stream->fd, stream->in + stream->in_end, BARE_BUFFER_BYTES - stream->in_end, 0);
        if (n <= 0)
                bare_die("recv", n == 0 ? "the broker hung up" : strerror(errno));
        stream->in_end += (size_t)n;
}

void bare_stream_turn(struct bare_stream *stream)
{
        struct pollfd poll_fd = {.fd = stream->fd};

        do {
                if (stream->out_end > 0)
                        write_some(stream);
                poll_fd.events = POLLIN | (stream->out_end > 0 ? POLLOUT : 0);
                if (poll(&poll_fd, 1, 60000) == 0)
                        bare_die("poll", "no answer in 60 seconds");
        } while ((poll_fd.revents & (POLLIN | POLLERR | POLLHUP)) == 0);
        read_some(stream);
}

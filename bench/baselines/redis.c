#include "redis.h"

#include "database.h"
#include "event.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES 65536 /* Redis works on the first pieces while we write the next */

struct redis {
        int fd;
        char *out;
        size_t out_length, out_capacity;
        char in[PIECE_BYTES];
        size_t in_start, in_end;
        time_t second; /* that second_text shows: neighbours mostly share it */
        char second_text[20];
};

struct redis *redis_connect(const char *socket_path)
{
        struct redis *redis = calloc(1, sizeof *redis);
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (redis == NULL)
                die("calloc", "no memory");
        snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
        redis->fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(redis->fd, (struct sockaddr *)&address, sizeof address) != 0)
                die(socket_path, strerror(errno));
        return redis;
}

/* ---- commands ------------------------------------------------------------------------------- */

static char *room(struct redis *redis, size_t n_bytes)
{
        if (redis->out_capacity - redis->out_length < n_bytes) {
                redis->out_capacity = 2 * redis->out_capacity + n_bytes;
                redis->out = realloc(redis->out, redis->out_capacity);
                if (redis->out == NULL)
                        die("realloc", "no memory");
        }
        return redis->out + redis->out_length;
}

static char *put(char *at, const char *data, size_t length)
{
        memcpy(at, data, length);
        return at + length;
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static char *put_number(char *at, size_t number)
{
        char digits[20];
        size_t n = sizeof digits;

        do
                digits[--n] = (char)('0' + number % 10);
        while ((number /= 10) > 0);
        return put(at, digits + n, sizeof digits - n);
}

static char *put_length(char *at, size_t length)
{
        return PUT(put_number(PUT(at, "$"), length), "\r\n");
}

static char *put_word(char *at, const char *data, size_t length)
{
        return PUT(put(put_length(at, length), data, length), "\r\n");
}

/* 2024-01-31T23:59:59.123456Z */
static char *put_time(struct redis *redis, char *at, int64_t us)
{
        time_t second = us / 1000000;
        long rest = us % 1000000;
        struct tm utc;

        if (second != redis->second) {
                redis->second = second;
                gmtime_r(&second, &utc);
                strftime(redis->second_text, sizeof redis->second_text, "%Y-%m-%dT%H:%M:%S", &utc);
        }
        at = put(PUT(at, "$27\r\n"), redis->second_text, 19);
        at = PUT(at, ".000000Z\r\n");
        for (char *digit = at - 4; rest > 0; rest /= 10)
                *digit-- = (char)('0' + rest % 10);
        return at;
}

void redis_add(struct redis *redis, const struct event *event)
{
        bool has_key = event->key.data != NULL;
        bool has_type = event->type.data != NULL;
        char *start = room(redis, 512 + 2 * event->topic.length + event->key.length +
                                      event->type.length + event->payload.length);
        char *at = PUT(start, "*");

        at = put_number(at, (size_t)(3 + 2 * (4 + has_key + has_type)));
        at = PUT(at, "\r\n$4\r\nXADD\r\n");
        at = put_length(at, sizeof "events:" - 1 + event->topic.length);
        at = PUT(put(PUT(at, "events:"), event->topic.data, event->topic.length), "\r\n");
        at = PUT(at, "$1\r\n*\r\n$2\r\nid\r\n");
        at = put_word(at, event->event_id, sizeof event->event_id);
        at = put_word(PUT(at, "$5\r\ntopic\r\n"), event->topic.data, event->topic.length);
        if (has_key)
                at = put_word(PUT(at, "$3\r\nkey\r\n"), event->key.data, event->key.length);
        if (has_type)
                at = put_word(PUT(at, "$4\r\ntype\r\n"), event->type.data, event->type.length);
        at = put_time(redis, PUT(at, "$4\r\ntime\r\n"), event->created_us);
        at = put_word(PUT(at, "$7\r\npayload\r\n"), event->payload.data, event->payload.length);
        redis->out_length += (size_t)(at - start);
        if (redis->out_length >= PIECE_BYTES)
                redis_send(redis);
}

void redis_send(struct redis *redis)
{
        size_t n_sent = 0;

        while (n_sent < redis->out_length) {
                ssize_t n = write(redis->fd, redis->out + n_sent, redis->out_length - n_sent);

                if (n < 0 && errno != EINTR)
                        die("Redis", strerror(errno));
                if (n > 0)
                        n_sent += (size_t)n;
        }
        redis->out_length = 0;
}

/* ---- replies -------------------------------------------------------------------------------- */

static void read_more(struct redis *redis)
{
        ssize_t n;

        memmove(redis->in, redis->in + redis->in_start, redis->in_end - redis->in_start);
        redis->in_end -= redis->in_start;
        redis->in_start = 0;
        n = read(redis->fd, redis->in + redis->in_end, sizeof redis->in - redis->in_end);
        if (n <= 0)
                die("Redis", n == 0 ? "it hung up" : strerror(errno));
        redis->in_end += (size_t)n;
}

/* The line's length with its end; 0: it is not there in full. */
static size_t line_at(const struct redis *redis, size_t start)
{
        const char *end = memchr(redis->in + start, '\n', redis->in_end - start);

        return end != NULL ? (size_t)(end - redis->in) + 1 - start : 0;
}

/* $15\r\n1732200000000-0\r\n */
void redis_await_reply(struct redis *redis)
{
        for (;;) {
                const char *reply = redis->in + redis->in_start;
                size_t head = line_at(redis, redis->in_start);
                size_t body = head > 0 ? line_at(redis, redis->in_start + head) : 0;

                if (head > 0 && reply[0] != '$') {
                        redis->in[redis->in_start + head - 1] = '\0';
                        die("Redis", reply);
                }
                if (body > 0) {
                        redis->in_start += head + body;
                        return;
                }
                read_more(redis);
        }
}

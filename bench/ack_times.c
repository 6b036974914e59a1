/*
 * Notes when a program reads the acknowledgements of Redis: a library to be preloaded,
 *
 *   LD_PRELOAD=ack_times.so ACK_TIMES=FILE program
 *
 * Each program is measured by the same instrument, without its help and without another process
 * that would have to be woken: XADD answers with the id of the new entry, and what is noted is the
 * wall time at which the program's own read() has brought such an id. Who made the entry is read
 * from the stream afterwards. Costs a look at the clock for each read and a record for each id.
 *
 * FILE is shared memory for the program that measures: the number of records, then the records. It is made
 * when the program connects to a unix socket whose name ends in redis.sock, and only such
 * connections are looked at.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_MAX (8u << 20)
#define FDS_MAX     1024
#define SOCKET_NAME "redis.sock"

struct record {
        int64_t at_us;
        uint64_t ms, sequence; /* the entry's id: ms-sequence */
};

struct log {
        uint64_t n_records;
        uint64_t reserved[2];
        struct record records[RECORDS_MAX];
};

/* Where a connection is in a line of the answer; an id may be cut anywhere by the end of a read. */
enum place { IN_MS, IN_SEQUENCE, IN_OTHER };

struct watched {
        bool is_redis;
        enum place place;
        bool has_digits;
        uint64_t ms, sequence;
};

static struct watched watched[FDS_MAX];
static struct log *log_;

/* The C library's function of this name. Found when first called, not by a constructor: those of other
 * libraries may run before ours and call it. */
#define FIND_REAL(name)                                                                            \
        static __typeof__(&name) real;                                                             \
        real = real != NULL ? real : (__typeof__(real))dlsym(RTLD_NEXT, #name)

static void open_log(void)
{
        const char *path = getenv("ACK_TIMES");
        int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

        if (fd < 0 || ftruncate(fd, sizeof *log_) != 0 ||
            (log_ = mmap(NULL, sizeof *log_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
                MAP_FAILED) {
                perror("ack_times: ACK_TIMES");
                abort();
        }
        close(fd);
}

static void note(int64_t at_us, const struct watched *at)
{
        if (log_->n_records == RECORDS_MAX)
                return;
        log_->records[log_->n_records] =
            (struct record){.at_us = at_us, .ms = at->ms, .sequence = at->sequence};
        __atomic_store_n(&log_->n_records, log_->n_records + 1, __ATOMIC_RELEASE);
}

static void begin_line(struct watched *at)
{
        at->place = IN_MS;
        at->has_digits = false;
        at->ms = at->sequence = 0;
}

/* A line of nothing but digits-digits is an id. */
static void look_at(struct watched *at, char byte, int64_t at_us)
{
        uint64_t *number = at->place == IN_MS ? &at->ms : &at->sequence;

        if (byte == '\n') {
                begin_line(at);
        } else if (at->place == IN_OTHER) {
                return;
        } else if (byte >= '0' && byte <= '9') {
                *number = *number * 10 + (uint64_t)(byte - '0');
                at->has_digits = true;
        } else if (byte == '-' && at->place == IN_MS && at->has_digits) {
                at->place = IN_SEQUENCE;
                at->has_digits = false;
        } else {
                if (byte == '\r' && at->place == IN_SEQUENCE && at->has_digits)
                        note(at_us, at);
                at->place = IN_OTHER;
        }
}

static ssize_t look(int fd, const char *bytes, ssize_t n_bytes)
{
        struct timespec now;

        if (n_bytes <= 0 || fd < 0 || fd >= FDS_MAX || !watched[fd].is_redis)
                return n_bytes;
        clock_gettime(CLOCK_REALTIME, &now);
        for (ssize_t i = 0; i < n_bytes; i++)
                look_at(&watched[fd], bytes[i], now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000);
        return n_bytes;
}

int connect(int fd, const struct sockaddr *address, socklen_t n_bytes)
{
        FIND_REAL(connect);
        const struct sockaddr_un *path = (const struct sockaddr_un *)address;
        size_t n_path;

        if (address->sa_family == AF_UNIX && fd >= 0 && fd < FDS_MAX) {
                n_path = strnlen(path->sun_path, n_bytes - offsetof(struct sockaddr_un, sun_path));
                if (n_path >= strlen(SOCKET_NAME) &&
                    memcmp(path->sun_path + n_path - strlen(SOCKET_NAME), SOCKET_NAME,
                        strlen(SOCKET_NAME)) == 0) {
                        if (log_ == NULL)
                                open_log();
                        begin_line(&watched[fd]);
                        watched[fd].is_redis = true;
                }
        }
        return real(fd, address, n_bytes);
}

int close(int fd)
{
        FIND_REAL(close);
        if (fd >= 0 && fd < FDS_MAX)
                watched[fd].is_redis = false;
        return real(fd);
}

ssize_t read(int fd, void *bytes, size_t n_bytes)
{
        FIND_REAL(read);
        return look(fd, bytes, real(fd, bytes, n_bytes));
}

ssize_t recv(int fd, void *bytes, size_t n_bytes, int flags)
{
        FIND_REAL(recv);
        return look(fd, bytes, real(fd, bytes, n_bytes, flags));
}

/* What _FORTIFY_SOURCE may make of the two. */
ssize_t __read_chk(int fd, void *bytes, size_t n_bytes, size_t size)
{
        if (n_bytes > size)
                abort();
        return read(fd, bytes, n_bytes);
}

ssize_t __recv_chk(int fd, void *bytes, size_t n_bytes, size_t size, int flags)
{
        if (n_bytes > size)
                abort();
        return recv(fd, bytes, n_bytes, flags);
}

/*
 * A library for LD_PRELOAD that lets one chosen call of the program fail.
 *
 *   PGCOURIER_TORTURE=KIND:@STACK   the first call of that kind with that stack fails
 *   PGCOURIER_TORTURE=KIND:N        the N-th call of that kind fails
 *   PGCOURIER_TORTURE=...+          so does every later one
 *   PGCOURIER_TORTURE=KIND:0        none fails; number and stack of each call go to the log
 *   PGCOURIER_TORTURE_LOG=FILE      where it says what failed, and from where it was called
 *
 * How a call fails is said in a table in choice.c. STACK is a hash of the places that led to the
 * call. It is the same in every run, where the N-th call is not: how often the loop turns depends
 * on time.
 *
 * Calls count from the beginning of main() until it returns, those of all libraries included.
 * Allocations are forwarded to the next definition, so that under AddressSanitizer they remain its
 * own: its report on what happens after a failure is half the point.
 */
#include "choice.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Only what this needs of libpq, whose header declares the functions that are replaced here. */
typedef struct pg_conn PGconn;
typedef unsigned Oid;
typedef struct conninfo_option PQconninfoOption;

/* What stands behind our function of that name. A union, as ISO C has no cast for this. */
#define NEXT(name)                                                                                 \
        static union {                                                                             \
                void *address;                                                                     \
                __typeof__(&name) call;                                                            \
        } next;                                                                                    \
        if (next.address == NULL)                                                                  \
        next.address = dlsym(RTLD_NEXT, #name)

void *malloc(size_t size)
{
        NEXT(malloc);
        return fails(ALLOCATION) ? NULL : next.call(size);
}

void *calloc(size_t count, size_t size)
{
        NEXT(calloc);
        return fails(ALLOCATION) ? NULL : next.call(count, size);
}

void *realloc(void *block, size_t size)
{
        NEXT(realloc);
        return fails(ALLOCATION) ? NULL : next.call(block, size);
}

/* Of glibc's own functions these are the ones that AddressSanitizer does without malloc(). */
char *strdup(const char *text)
{
        NEXT(strdup);
        return fails(ALLOCATION) ? NULL : next.call(text);
}

char *strndup(const char *text, size_t max)
{
        NEXT(strndup);
        return fails(ALLOCATION) ? NULL : next.call(text, max);
}

static bool is_socket(int file)
{
        struct stat status;

        return fstat(file, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* Breaks the connection for both: libpq goes on reading after a send failed, for the server's last
 * words, and would wait for ever while the server lives. */
static ssize_t break_off(int socket)
{
        int error = errno;

        if (chosen == SEND || chosen == RECEIVE)
                shutdown(socket, SHUT_RDWR);
        errno = error;
        return -1;
}

ssize_t recv(int socket, void *data, size_t length, int flags)
{
        NEXT(recv);
        if (fails(RECEIVE))
                return break_off(socket);
        return next.call(socket, data, length > 1 && fails(RECEIVE_LESS) ? 1 : length, flags);
}

ssize_t read(int file, void *data, size_t length)
{
        NEXT(read);
        if (chosen == NONE || !is_socket(file))
                return next.call(file, data, length);
        if (fails(RECEIVE))
                return break_off(file);
        return next.call(file, data, length > 1 && fails(RECEIVE_LESS) ? 1 : length);
}

ssize_t send(int socket, const void *data, size_t length, int flags)
{
        NEXT(send);
        if (fails(SEND) || fails(SEND_NOTHING))
                return break_off(socket);
        return next.call(socket, data, length > 1 && fails(SEND_LESS) ? 1 : length, flags);
}

ssize_t write(int file, const void *data, size_t length)
{
        NEXT(write);
        if (chosen == NONE || file == log_file)
                return next.call(file, data, length);
        if (!is_socket(file)) {
                struct stat status;
                /* libuv's own pipes and event descriptors cannot be full. */
                bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
                if (is_file && fails(WRITE))
                        return -1;
                return next.call(file, data, length);
        }
        if (fails(SEND) || fails(SEND_NOTHING))
                return break_off(file);
        return next.call(file, data, length > 1 && fails(SEND_LESS) ? 1 : length);
}

/* stdio's own write() cannot be replaced. */
int fflush(FILE *file)
{
        NEXT(fflush);
        return file == stdout && fails(WRITE) ? EOF : next.call(file);
}

/* With _GNU_SOURCE the address is a union of pointers that C lets pass for any of them. */
int connect(int socket, __CONST_SOCKADDR_ARG address, socklen_t length)
{
        NEXT(connect);
        return fails(CONNECT) ? -1 : next.call(socket, address, length);
}

/* libuv aborts if the poll itself cannot be set up, but not where it only asks: with no data. */
int epoll_ctl(int epoll, int operation, int file, struct epoll_event *event)
{
        NEXT(epoll_ctl);
        if (operation == EPOLL_CTL_ADD && event->data.fd == -1 && fails(WATCH))
                return -1;
        return next.call(epoll, operation, file, event);
}

/* Not pipe2(): without its pipe for signals libuv aborts, and run makes sure of some
 * descriptors. */
int socket(int domain, int type, int protocol)
{
        NEXT(socket);
        return fails(DESCRIPTOR) ? -1 : next.call(domain, type, protocol);
}

int epoll_create1(int flags)
{
        NEXT(epoll_create1);
        return fails(DESCRIPTOR) ? -1 : next.call(flags);
}

int eventfd(unsigned value, int flags);

int eventfd(unsigned value, int flags)
{
        NEXT(eventfd);
        return fails(DESCRIPTOR) ? -1 : next.call(value, flags);
}

int open(const char *path, int flags, ...)
{
        va_list arguments;
        mode_t mode;
        NEXT(open);

        va_start(arguments, flags);
        mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
        va_end(arguments);
        return fails(DESCRIPTOR) ? -1 : next.call(path, flags, mode);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
    void *(*run)(void *), void *restrict argument)
{
        bool was_inside;
        int result;
        NEXT(pthread_create);
        if (fails(THREAD))
                return EAGAIN;
        /* Its allocations fail as a whole: libuv aborts, and run makes sure of the threads
         * before. */
        was_inside = is_inside;
        is_inside = true;
        result = next.call(thread, attributes, run, argument);
        is_inside = was_inside;
        return result;
}

/* AddressSanitizer asks this of each thread, allocates in it, and cannot go on without an
 * answer. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes)
{
        int result;
        NEXT(pthread_getattr_np);

        is_inside = true;
        result = next.call(thread, attributes);
        is_inside = false;
        return result;
}

#define LIBPQ_FAILS(result, name, parameters, arguments, failure)                                  \
        result name parameters;                                                                    \
        result name parameters                                                                     \
        {                                                                                          \
                NEXT(name);                                                                        \
                return fails(LIBPQ) ? (failure) : next.call arguments;                             \
        }

LIBPQ_FAILS(PGconn *, PQconnectStartParams,
    (const char *const *keywords, const char *const *values, int expand),
    (keywords, values, expand), NULL)
LIBPQ_FAILS(PGconn *, PQconnectdbParams,
    (const char *const *keywords, const char *const *values, int expand),
    (keywords, values, expand), NULL)
LIBPQ_FAILS(PQconninfoOption *, PQconninfo, (PGconn * conn), (conn), NULL)
LIBPQ_FAILS(int, PQsendQuery, (PGconn * conn, const char *query), (conn, query), 0)
LIBPQ_FAILS(int, PQsendQueryParams,
    (PGconn * conn, const char *query, int n_params, const Oid *types, const char *const *values,
        const int *lengths, const int *formats, int result_format),
    (conn, query, n_params, types, values, lengths, formats, result_format), 0)
LIBPQ_FAILS(int, PQconnectPoll, (PGconn * conn), (conn), 0)
LIBPQ_FAILS(int, PQsetnonblocking, (PGconn * conn, int arg), (conn, arg), -1)
LIBPQ_FAILS(int, PQenterPipelineMode, (PGconn * conn), (conn), 0)
LIBPQ_FAILS(int, PQsendPrepare,
    (PGconn * conn, const char *name, const char *query, int n_params, const Oid *types),
    (conn, name, query, n_params, types), 0)
LIBPQ_FAILS(int, PQsendQueryPrepared,
    (PGconn * conn, const char *name, int n_params, const char *const *values, const int *lengths,
        const int *formats, int result_format),
    (conn, name, n_params, values, lengths, formats, result_format), 0)
LIBPQ_FAILS(int, PQpipelineSync, (PGconn * conn), (conn), 0)
LIBPQ_FAILS(int, PQconsumeInput, (PGconn * conn), (conn), 0)
LIBPQ_FAILS(int, PQflush, (PGconn * conn), (conn), -1)

static int (*real_main)(int, char **, char **);

static int tortured_main(int argc, char **argv, char **environment)
{
        int code;

        choose_from_environment();
        arm(true);
        code = real_main(argc, argv, environment);
        arm(false);
        return code;
}

typedef int main_fn(int, char **, char **);

int __libc_start_main(main_fn *program_main, int argc, char **argv, void (*init)(void),
    void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(main_fn *program_main, int argc, char **argv, void (*init)(void),
    void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
        NEXT(__libc_start_main);
        real_main = program_main;
        return next.call(tortured_main, argc, argv, init, fini, rtld_fini, stack_end);
}

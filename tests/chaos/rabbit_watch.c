#include "chaos/rabbit_watch.h"

#include "base/alloc.h"
#include "base/clock.h"

#if __has_include(<rabbitmq-c/amqp.h>) /* since 0.12 */
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_tcp_socket.h>
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define LOOK_EVERY_NS (50 * 1000 * 1000)

static const struct timeval connect_limit = {.tv_sec = 5};
static const struct timeval read_limit = {.tv_usec = 100 * 1000};

struct rabbit_watch {
        uint16_t port;
        const char *queue;
        struct arrivals *arrivals;
        pthread_t thread;
        atomic_bool wants_reading, is_over;
        struct length {
                uint32_t n;
                int64_t at_us; /* when it was first seen to be so long */
        } * lengths;           /* owned */
        size_t n_lengths;
        size_t n_past; /* of them: shorter than what has been read */
        uint32_t n_read;
};

static bool connect_to(const struct rabbit_watch *watch, amqp_connection_state_t connection)
{
        amqp_socket_t *socket = amqp_tcp_socket_new(connection);

        amqp_set_handshake_timeout(connection, &connect_limit);
        amqp_set_rpc_timeout(connection, &connect_limit);
        return socket != NULL &&
               amqp_socket_open_noblock(socket, "127.0.0.1", watch->port, &connect_limit) == 0 &&
               amqp_login(connection, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
                   "guest", "guest")
                       .reply_type == AMQP_RESPONSE_NORMAL &&
               amqp_channel_open(connection, 1) != NULL;
}

/* ---- its length ------------------------------------------------------------------------------ */

static void note_length(struct rabbit_watch *watch, uint32_t n)
{
        size_t n_lengths = watch->n_lengths;

        if (n <= (n_lengths > 0 ? watch->lengths[n_lengths - 1].n : 0))
                return;
        if ((n_lengths & (n_lengths + 1)) == 0)
                watch->lengths =
                    xrealloc(watch->lengths, 2 * (n_lengths + 1) * sizeof *watch->lengths);
        watch->lengths[watch->n_lengths++] = (struct length){.n = n, .at_us = clock_wall_us()};
}

/* Both are false once the connection is of no more use. */
static bool look(struct rabbit_watch *watch, amqp_connection_state_t connection)
{
        static const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
        const amqp_queue_declare_ok_t *queue;

        amqp_maybe_release_buffers(connection);
        queue = amqp_queue_declare(
            connection, 1, amqp_cstring_bytes(watch->queue), 1, 1, 0, 0, amqp_empty_table);
        if (queue == NULL)
                return false;
        note_length(watch, queue->message_count);
        nanosleep(&pause, NULL);
        return true;
}

/* ---- what is in it --------------------------------------------------------------------------- */

static int64_t came_at(struct rabbit_watch *watch)
{
        while (watch->n_past < watch->n_lengths && watch->lengths[watch->n_past].n <= watch->n_read)
                watch->n_past++;
        return watch->n_past < watch->n_lengths ? watch->lengths[watch->n_past].at_us
                                                : clock_wall_us();
}

static bool take(struct rabbit_watch *watch, amqp_connection_state_t connection)
{
        amqp_envelope_t envelope;
        amqp_rpc_reply_t reply;
        char *text;

        amqp_maybe_release_buffers(connection);
        reply = amqp_consume_message(connection, &envelope, &read_limit, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL)
                return reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
                       reply.library_error == AMQP_STATUS_TIMEOUT;
        text = xstrndup(envelope.message.body.bytes, envelope.message.body.len);
        arrivals_note(watch->arrivals, text, came_at(watch));
        watch->n_read++;
        free(text);
        amqp_destroy_envelope(&envelope);
        return true;
}

static void read_all(struct rabbit_watch *watch, amqp_connection_state_t connection)
{
        if (amqp_basic_consume(connection, 1, amqp_cstring_bytes(watch->queue), amqp_empty_bytes, 0,
                1, 0, amqp_empty_table) == NULL)
                test_abort("RabbitMQ's queue cannot be read");
        while (!atomic_load(&watch->is_over))
                if (!take(watch, connection))
                        test_abort("RabbitMQ ends the reading of its queue");
}

static void *run(void *watch_)
{
        static const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
        struct rabbit_watch *watch = watch_;

        while (!atomic_load(&watch->is_over)) {
                amqp_connection_state_t connection = amqp_new_connection();
                bool is_open = connect_to(watch, connection);
                while (
                    is_open && !atomic_load(&watch->is_over) && !atomic_load(&watch->wants_reading))
                        is_open = look(watch, connection);
                if (is_open && !atomic_load(&watch->is_over))
                        read_all(watch, connection);
                amqp_destroy_connection(connection);
                nanosleep(&pause, NULL);
        }
        return NULL;
}

struct rabbit_watch *rabbit_watch_start(uint16_t port, const char *queue, struct arrivals *arrivals)
{
        struct rabbit_watch *watch = xcalloc(1, sizeof *watch);

        watch->port = port;
        watch->queue = queue;
        watch->arrivals = arrivals;
        if (pthread_create(&watch->thread, NULL, run, watch) != 0)
                test_abort("cannot start a thread");
        return watch;
}

void rabbit_watch_read(struct rabbit_watch *watch)
{
        atomic_store(&watch->wants_reading, true);
}

void rabbit_watch_stop(struct rabbit_watch *watch)
{
        if (watch == NULL)
                return;
        atomic_store(&watch->is_over, true);
        pthread_join(watch->thread, NULL);
        free(watch->lengths);
        free(watch);
}

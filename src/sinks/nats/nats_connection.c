/*
 * A server that hangs up says why before, by -ERR: that is kept and becomes the reason of the loss.
 *
 * What a server in the clear says before TLS is believed only as far as whether it offers TLS: it
 * says everything again behind it, or the login fails.
 */
#include "sinks/nats/nats_connection.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "loop/byte_stream.h"
#include "loop/timer.h"
#include "loop/tls_session.h"
#include "sinks/nats/nats_answers.h"
#include "sinks/nats/nats_credentials.h"
#include "sinks/nats/nats_greeting.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_servers.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SID = 1, RANDOM_BYTES = 12, MAX_SILENT_PINGS = 2 };
enum { MAX_UNWRITTEN_PONGS = 1000 /* to a server that asks and does not read */ };

struct nats_connection {
        enum nats_connection_state state;
        uv_loop_t *loop;                             /* borrowed */
        const struct nats_config *config;            /* borrowed */
        struct tls_context *tls;                     /* owned; NULL: no server of ours has it */
        const struct nats_connection_events *events; /* borrowed */
        void *owner;                                 /* borrowed */
        struct nats_servers servers;
        struct byte_stream *stream; /* owned; NULL if CLOSED */
        struct nats_info info;      /* the server's last one */
        bool is_secured;
        struct bytes inbox; /* "<config->inbox>.<random>." */
        struct timer *ping; /* owned */
        unsigned n_silent;  /* PINGs of the timer's since the server has said anything */
        uint64_t n_pings;
        uint64_t n_pongs;
        bool owes_ping; /* something was published behind the last one */
        unsigned n_pongs_unwritten;
        uint64_t last_read_ms;
        char last_error[200]; /* the server's words, of -ERR; "" */

        /* Of the round through the list. */
        unsigned n_tried;
        struct outcome failure; /* why those that were tried failed */
};

static void try_current(struct nats_connection *connection);

/* The only place that assigns connection->state, and the stream's and the timer's life with it. */
static void enter(struct nats_connection *connection, enum nats_connection_state next)
{
        connection->state = next;
        switch (next) {
        case NATS_CLOSED:
                byte_stream_destroy(connection->stream);
                connection->stream = NULL;
                nats_info_deinit(&connection->info);
                timer_disarm(connection->ping);
                return;
        case NATS_READY:
                byte_stream_greeted(connection->stream);
                timer_arm(connection->ping, (uint64_t)connection->config->ping_ms);
                return;
        case NATS_CONNECTING:
        case NATS_SECURING:
        case NATS_GREETING:
        case NATS_LEAVING:
                return;
        }
}

static bool is_established(const struct nats_connection *connection)
{
        return connection->state == NATS_READY || connection->state == NATS_LEAVING;
}

/* Collects what each server of the round did: one that is down must not hide what another said. */
static void note_failure(struct nats_connection *connection, const struct outcome *why)
{
        struct outcome *failure = &connection->failure;

        if (connection->n_tried <= 1)
                *failure = *why;
        else
                *failure = outcome_down(failure->needs_operator ? failure->fault : why->fault,
                    failure->needs_operator || why->needs_operator, "%s; %s", failure->reason,
                    why->reason);
}

/* The server is of no use: the next one, or the end. The next round begins behind it. */
static void give_up_server(struct nats_connection *connection, const struct outcome *why)
{
        bool was_established = is_established(connection);

        enter(connection, NATS_CLOSED);
        nats_servers_advance(&connection->servers);
        if (was_established) {
                connection->events->on_lost(connection->owner, why);
                return;
        }
        note_failure(connection, why);
        if (connection->n_tried < connection->servers.n) {
                try_current(connection);
                return;
        }
        connection->events->on_lost(connection->owner, &connection->failure);
}

static void on_failed(void *owner, enum outcome_fault fault, const char *reason)
{
        struct nats_connection *connection = owner;
        const struct outcome why =
            connection->last_error[0] != '\0'
                ? outcome_down(fault, false, "%s closed the connection: %s",
                      byte_stream_peer(connection->stream), connection->last_error)
                : outcome_down(fault, false, "%s", reason);

        give_up_server(connection, &why);
}

void nats_connection_fail(
    struct nats_connection *connection, enum outcome_fault fault, const char *reason)
{
        const struct outcome why =
            outcome_down(fault, false, "%s %s", byte_stream_peer(connection->stream), reason);

        assert(is_established(connection));
        give_up_server(connection, &why);
}

static void draw_inbox(struct nats_connection *connection)
{
        unsigned char random[RANDOM_BYTES];

        if (uv_random(NULL, NULL, random, sizeof random, 0, NULL) != 0)
                abort(); /* the kernel always has some */
        bytes_clear(&connection->inbox);
        bytes_printf(&connection->inbox, "%s.", connection->config->inbox);
        for (size_t i = 0; i < sizeof random; i++)
                bytes_printf(&connection->inbox, "%02x", random[i]);
        bytes_append_text(&connection->inbox, ".");
}

static void send_ping(struct nats_connection *connection)
{
        connection->n_pings++;
        connection->owes_ping = false;
        nats_append_ping(byte_stream_out(connection->stream));
        byte_stream_note_appended(connection->stream);
}

static void log_in(struct nats_connection *connection)
{
        struct nats_credentials credentials;
        struct bytes greeting = {0};
        struct error error;

        if (!nats_credentials_read(connection->config, &credentials, &error)) {
                const struct outcome why = outcome_down(OUTCOME_FAULT_AUTH, true, "%s", error.text);
                give_up_server(connection, &why);
                return;
        }
        draw_inbox(connection);
        nats_append_connect(&greeting, connection->config, &credentials, &connection->info);
        nats_credentials_deinit(&credentials);
        bytes_append_text(&connection->inbox, "*");
        nats_append_subscription(&greeting, connection->inbox.data, SID);
        connection->inbox.data[--connection->inbox.length] = '\0';
        enter(connection, NATS_GREETING);
        byte_stream_send(connection->stream, greeting.data, greeting.length);
        explicit_bzero(greeting.data, greeting.capacity);
        bytes_deinit(&greeting);
        send_ping(connection);
}

static bool wants_tls(const struct nats_connection *connection)
{
        return nats_servers_current(&connection->servers)->is_tls;
}

static void greet(struct nats_connection *connection)
{
        const struct nats_info *info = &connection->info;
        const char *peer = byte_stream_peer(connection->stream);
        struct outcome why;

        if (!info->has_headers)
                why = outcome_down(OUTCOME_FAULT_NATS, true,
                    "%s is older than NATS 2.2, which headers and JetStream need", peer);
        else if (wants_tls(connection) && !connection->is_secured && !info->requires_tls &&
                 !info->offers_tls)
                why = outcome_down(OUTCOME_FAULT_TLS, true,
                    "%s does not offer TLS: configure it there, or write nats:// instead of tls://",
                    peer);
        else if (!wants_tls(connection) && info->requires_tls)
                why = outcome_down(
                    OUTCOME_FAULT_TLS, true, "%s requires TLS: write it as tls://…", peer);
        else if (wants_tls(connection) && !connection->is_secured) {
                enter(connection, NATS_SECURING);
                byte_stream_secure(connection->stream);
                return;
        } else {
                log_in(connection);
                return;
        }
        give_up_server(connection, &why);
}

static void take_info(struct nats_connection *connection, const struct nats_frame *frame)
{
        struct nats_info info;

        if (!nats_info_parse(frame->text, frame->text_bytes, &info)) {
                const struct outcome why = outcome_down(OUTCOME_FAULT_PROTOCOL, false,
                    "%s sent an INFO that makes no sense", byte_stream_peer(connection->stream));
                give_up_server(connection, &why);
                return;
        }
        nats_info_deinit(&connection->info);
        connection->info = info;
        if (connection->state == NATS_CONNECTING) {
                greet(connection);
                return;
        }
        if (!wants_tls(connection) || connection->is_secured)
                nats_servers_learn(&connection->servers, info.urls, info.n_urls);
        if (info.is_lame_duck && connection->state == NATS_READY) {
                enter(connection, NATS_LEAVING);
                connection->events->on_leaving(connection->owner);
        }
}

static void become_ready(struct nats_connection *connection)
{
        struct nats_info *info = &connection->info;

        nats_servers_learn(&connection->servers, info->urls, info->n_urls);
        enter(connection, NATS_READY);
        connection->events->on_ready(connection->owner);
}

static void take_pong(struct nats_connection *connection)
{
        if (connection->n_pongs < connection->n_pings)
                connection->n_pongs++;
        connection->last_error[0] = '\0'; /* it did not hang up */
        if (connection->state == NATS_GREETING)
                become_ready(connection);
        else if (connection->owes_ping && connection->n_pongs == connection->n_pings)
                send_ping(connection);
}

static void take_error(struct nats_connection *connection, const struct nats_frame *frame)
{
        const struct nats_error error = nats_error_read(frame->text, frame->text_bytes);
        const char *peer = byte_stream_peer(connection->stream);
        struct outcome why;

        switch (error.kind) {
        case NATS_ERROR_OF_PUBLICATION:
                connection->events->on_forbidden(connection->owner, &error);
                return;
        case NATS_ERROR_OF_SUBSCRIPTION:
                /* Each message would be stored, and come again for want of an answer. */
                why = outcome_down(OUTCOME_FAULT_AUTH, true,
                    "%s: %s: without it no acknowledgement reaches us", peer, error.words);
                break;
        case NATS_ERROR_OF_LOGIN:
                /* Of an established connection: credentials that were renewed may help at once. */
                why = outcome_down(OUTCOME_FAULT_AUTH, !is_established(connection),
                    "%s refused us: %s", peer, error.words);
                break;
        case NATS_ERROR_OF_SERVER:
                why = outcome_down(
                    OUTCOME_FAULT_REFUSED, false, "%s does not want us: %s", peer, error.words);
                break;
        case NATS_ERROR_OTHER:
                snprintf(connection->last_error, sizeof connection->last_error, "%s", error.words);
                return;
        }
        give_up_server(connection, &why);
}

static void take_message(struct nats_connection *connection, const struct nats_frame *frame)
{
        const struct bytes *inbox = &connection->inbox;

        if (!is_established(connection) || frame->subject_bytes <= inbox->length ||
            memcmp(frame->subject, inbox->data, inbox->length) != 0)
                return;
        connection->events->on_message(connection->owner, frame, frame->subject + inbox->length,
            frame->subject_bytes - inbox->length);
}

static void answer_ping(struct nats_connection *connection)
{
        if (byte_stream_unwritten(connection->stream) == 0)
                connection->n_pongs_unwritten = 0;
        if (connection->n_pongs_unwritten++ >= MAX_UNWRITTEN_PONGS)
                return;
        nats_append_pong(byte_stream_out(connection->stream));
        byte_stream_note_appended(connection->stream);
}

static void take_frame(struct nats_connection *connection, const struct nats_frame *frame)
{
        struct outcome why;

        switch (frame->kind) {
        case NATS_MESSAGE:
                take_message(connection, frame);
                return;
        case NATS_PONG:
                take_pong(connection);
                return;
        case NATS_PING:
                answer_ping(connection);
                return;
        case NATS_INFO:
                take_info(connection, frame);
                return;
        case NATS_ERROR:
                take_error(connection, frame);
                return;
        case NATS_OK:
        case NATS_INCOMPLETE:
                return;
        case NATS_MALFORMED:
                why = outcome_down(OUTCOME_FAULT_PROTOCOL, false, "%s sent %.*s",
                    byte_stream_peer(connection->stream), (int)frame->text_bytes, frame->text);
                give_up_server(connection, &why);
                return;
        }
}

static size_t on_data(void *owner, char *data, size_t size)
{
        struct nats_connection *connection = owner;
        const struct byte_stream *stream = connection->stream;
        size_t n_used = 0;

        connection->last_read_ms = uv_now(connection->loop);
        connection->n_silent = 0;
        while (n_used < size) {
                const struct nats_frame frame = nats_read(data + n_used, size - n_used);

                if (frame.kind == NATS_INCOMPLETE)
                        return n_used;
                n_used += frame.size;
                take_frame(connection, &frame);
                if (connection->stream != stream || connection->state == NATS_SECURING)
                        return n_used;
        }
        return n_used;
}

/* A server speaks first, but not after TLS that came in between. */
static void on_connected(void *owner)
{
        struct nats_connection *connection = owner;
        bool is_second = connection->state == NATS_SECURING;

        connection->is_secured =
            is_second || (wants_tls(connection) && connection->config->tls_first);
        if (is_second)
                log_in(connection);
}

static void on_ping_due(void *owner)
{
        struct nats_connection *connection = owner;
        char reason[80];

        if (connection->n_silent >= MAX_SILENT_PINGS) {
                snprintf(reason, sizeof reason, "has not answered %d PINGs within %" PRId64 " ms",
                    MAX_SILENT_PINGS, MAX_SILENT_PINGS * connection->config->ping_ms);
                nats_connection_fail(connection, OUTCOME_FAULT_TIMEOUT, reason);
                return;
        }
        connection->n_silent++;
        send_ping(connection);
        timer_arm(connection->ping, (uint64_t)connection->config->ping_ms);
}

static bool open_tls(struct nats_connection *connection, struct error *error)
{
        const struct tls_files files = {.ca_file = connection->config->ca_file,
            .cert_file = connection->config->cert_file,
            .key_file = connection->config->key_file};

        if (connection->servers.has_tls)
                connection->tls = tls_context_create(&files, error);
        return !connection->servers.has_tls || connection->tls != NULL;
}

struct nats_connection *nats_connection_create(uv_loop_t *loop, const struct nats_config *config,
    const struct nats_connection_events *events, void *owner, struct error *error)
{
        struct nats_connection *connection = xcalloc(1, sizeof *connection);
        uint64_t random = 0;

        if (uv_random(NULL, NULL, &random, sizeof random, 0, NULL) != 0)
                abort(); /* the kernel always has some */
        connection->state = NATS_CLOSED;
        connection->loop = loop;
        connection->config = config;
        connection->events = events;
        connection->owner = owner;
        connection->ping = timer_create_on(loop, on_ping_due, connection);
        if (nats_servers_init(&connection->servers, config, random | 1, error) &&
            open_tls(connection, error))
                return connection;
        nats_connection_destroy(connection);
        return NULL;
}

void nats_connection_destroy(struct nats_connection *connection)
{
        if (connection == NULL)
                return;
        enter(connection, NATS_CLOSED);
        nats_servers_deinit(&connection->servers);
        tls_context_destroy(connection->tls);
        timer_destroy(connection->ping);
        bytes_deinit(&connection->inbox);
        free(connection);
}

enum nats_connection_state nats_connection_state(const struct nats_connection *connection)
{
        return connection->state;
}

static void try_current(struct nats_connection *connection)
{
        static const struct byte_stream_events events = {
            .on_connected = on_connected, .on_data = on_data, .on_failed = on_failed};
        const struct server_address *server = nats_servers_current(&connection->servers);
        const struct byte_stream_target target = {.host = server->host,
            .port = server->port,
            .tls = wants_tls(connection) ? connection->tls : NULL,
            .begins_plain = wants_tls(connection) && !connection->config->tls_first,
            .connect_timeout_ms = connection->config->connect_timeout_ms};

        connection->n_tried++;
        connection->is_secured = false;
        connection->n_silent = 0;
        connection->n_pings = connection->n_pongs = 0;
        connection->owes_ping = false;
        connection->last_error[0] = '\0';
        enter(connection, NATS_CONNECTING);
        connection->stream = byte_stream_open(connection->loop, &target, &events, connection);
}

void nats_connection_open(struct nats_connection *connection)
{
        assert(connection->state == NATS_CLOSED);
        connection->n_tried = 0;
        try_current(connection);
}

void nats_connection_close(struct nats_connection *connection)
{
        if (connection->state == NATS_LEAVING)
                nats_servers_advance(&connection->servers);
        enter(connection, NATS_CLOSED);
}

void nats_connection_publish(struct nats_connection *connection,
    const struct nats_publication *publication, const char *token, size_t token_bytes)
{
        struct nats_publication whole = *publication;
        struct bytes *inbox = &connection->inbox;
        size_t n = inbox->length;

        assert(connection->state == NATS_READY);
        bytes_append(inbox, token, token_bytes);
        whole.reply = inbox->data;
        whole.reply_bytes = inbox->length;
        nats_append_publication(byte_stream_out(connection->stream), &whole);
        inbox->data[n] = '\0';
        inbox->length = n;
}

void nats_connection_note_published(struct nats_connection *connection)
{
        assert(connection->state == NATS_READY);
        connection->owes_ping = true;
        if (connection->n_pongs == connection->n_pings)
                send_ping(connection);
        else
                byte_stream_note_appended(connection->stream);
}

void nats_connection_flush(struct nats_connection *connection)
{
        if (connection->stream != NULL)
                byte_stream_flush(connection->stream);
}

size_t nats_connection_max_payload(const struct nats_connection *connection)
{
        return connection->info.max_payload;
}

uint64_t nats_connection_next_ping(const struct nats_connection *connection)
{
        return connection->n_pings + 1;
}

uint64_t nats_connection_last_pong(const struct nats_connection *connection)
{
        return connection->n_pongs;
}

uint64_t nats_connection_silent_ms(const struct nats_connection *connection)
{
        return uv_now(connection->loop) - connection->last_read_ms;
}

/*
 * NATS JetStream: each event becomes one message, and is delivered when a stream says that it has
 * stored it. All events go by one connection; the acknowledgements come in any order. Calls go
 * downwards only:
 *
 *   nats_sink        when something is sent: setup, probes, deadlines
 *   nats_attempts    how each attempt is sent, and how it ends
 *   nats_setup       the questions to JetStream's API, before events and for a probe
 *   nats_connection  servers, greeting, watch; below it greeting, credentials, servers
 *   nats_message, nats_subject, nats_answers, nats_pending, nats_protocol: pure
 *
 * After a burst of messages there is a PING. Its PONG says that the server has worked them off: a
 * message that is still not acknowledged after `timeout` is one that JetStream does not answer. If
 * nothing comes at all, it is the server that is silent.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pgcourier/sink.h"
#include "sinks/nats/nats_answers.h"
#include "sinks/nats/nats_attempts.h"
#include "sinks/nats/nats_connection.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_setup.h"
#include "sinks/nats/nats_subject.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INBOX_BYTES = 200 };
enum { QUESTION = 'q' }; /* its token begins with that, an attempt's does not */

extern const struct sink_ops nats_sink_ops;

struct nats_sink {
        struct sink base;
        const struct nats_config *config;   /* borrowed */
        struct nats_connection *connection; /* owned */
        struct nats_subject *subject;       /* owned */
        struct nats_attempts attempts;
        struct timer *overdue; /* of the acknowledgement that is due first */

        /* The question to JetStream's API that is under way. */
        struct nats_setup setup;
        bool is_set_up; /* on this connection */
        uint64_t n_questions;
        char question[24]; /* its token */
        struct timer *unanswered;

        sink_probed_fn *on_probed; /* NULL: no probe is running */
        void *probe_owner;         /* borrowed */
};

static struct nats_sink *nats_sink_from(struct sink *sink)
{
        assert(sink->ops == &nats_sink_ops);
        return (struct nats_sink *)sink;
}

static void finish_probe(struct nats_sink *sink, const struct outcome *outcome)
{
        timer_disarm(sink->unanswered);
        nats_connection_close(sink->connection); /* it was not set up for events */
        sink_probed_later(&sink->base, sink->on_probed, sink->probe_owner, outcome);
        sink->on_probed = NULL;
}

static void on_lost(void *owner, const struct outcome *why)
{
        struct nats_sink *sink = owner;

        timer_disarm(sink->overdue);
        timer_disarm(sink->unanswered);
        nats_attempts_give_back(&sink->attempts, why);
        if (sink->on_probed != NULL)
                finish_probe(sink, why);
}

/* Deadlines. */

static void watch_overdue(struct nats_sink *sink)
{
        unsigned slot = nats_pending_sent(&sink->attempts.pending);
        uint64_t now_ms = uv_now(sink->base.loop);
        uint64_t due_ms;

        if (slot == 0 || timer_is_armed(sink->overdue))
                return;
        due_ms = nats_pending_at(&sink->attempts.pending, slot)->sent_ms +
                 (uint64_t)sink->config->timeout_ms;
        timer_arm_behind_sockets(sink->overdue, due_ms > now_ms ? due_ms - now_ms : 0);
}

/* Nothing more is sent to a server that is about to stop: once all is answered, another one. */
static bool leave_if_answered(struct nats_sink *sink)
{
        if (nats_connection_state(sink->connection) != NATS_LEAVING ||
            sink->attempts.pending.n_sent > 0)
                return false;
        nats_connection_close(sink->connection);
        if (sink->attempts.pending.n_waiting > 0)
                nats_connection_open(sink->connection);
        return true;
}

static void on_overdue(void *owner)
{
        struct nats_sink *sink = owner;
        unsigned slot = nats_pending_sent(&sink->attempts.pending);
        const uint64_t limit_ms = (uint64_t)sink->config->timeout_ms;
        const struct nats_slot *oldest;
        char reason[80];

        if (slot == 0)
                return;
        oldest = nats_pending_at(&sink->attempts.pending, slot);
        if (uv_now(sink->base.loop) - oldest->sent_ms < limit_ms) {
                watch_overdue(sink);
                return;
        }
        if (oldest->ping > nats_connection_last_pong(sink->connection) &&
            nats_connection_silent_ms(sink->connection) >= limit_ms) {
                snprintf(reason, sizeof reason, "has not answered for %" PRIu64 " ms", limit_ms);
                nats_connection_fail(sink->connection, OUTCOME_FAULT_TIMEOUT, reason);
                return;
        }
        nats_attempts_expire(&sink->attempts);
        if (leave_if_answered(sink))
                return;
        watch_overdue(sink);
        if (timer_is_armed(sink->overdue) && nats_pending_sent(&sink->attempts.pending) == slot)
                timer_arm_behind_sockets(
                    sink->overdue, limit_ms / 4 + 1); /* it is to be worked off yet */
}

/* Sending. */

static void send_waiting(struct nats_sink *sink)
{
        if (nats_connection_state(sink->connection) != NATS_READY || !sink->is_set_up)
                return;
        nats_attempts_send(&sink->attempts);
        watch_overdue(sink);
}

/* The questions to JetStream's API. */

static void ask(struct nats_sink *sink)
{
        struct bytes subject = {0};
        struct bytes body = {0};

        nats_setup_ask(&sink->setup, &subject, &body);
        snprintf(
            sink->question, sizeof sink->question, "%c%" PRIu64, QUESTION, ++sink->n_questions);
        nats_connection_publish(sink->connection,
            &(struct nats_publication){.subject = subject.data,
                .subject_bytes = subject.length,
                .payload = body.data,
                .payload_bytes = body.length},
            sink->question, strlen(sink->question));
        nats_connection_note_published(sink->connection);
        timer_arm(sink->unanswered, (uint64_t)sink->config->timeout_ms);
        bytes_deinit(&subject);
        bytes_deinit(&body);
}

static void go_on_with_setup(struct nats_sink *sink)
{
        if (sink->setup.step != SETUP_DONE) {
                ask(sink);
                return;
        }
        timer_disarm(sink->unanswered);
        if (sink->on_probed != NULL) {
                finish_probe(sink, &sink->setup.outcome);
                return;
        }
        sink->is_set_up = sink->setup.outcome.kind == OUTCOME_DELIVERED;
        if (sink->is_set_up) {
                send_waiting(sink);
                return;
        }
        /* The next event asks again. What was sent before the stream was missed is not answered any
         * more. */
        nats_connection_close(sink->connection);
        on_lost(sink, &sink->setup.outcome);
}

static void on_ready(void *owner)
{
        struct nats_sink *sink = owner;

        sink->is_set_up = false;
        if (sink->on_probed != NULL)
                nats_setup_begin_probe(&sink->setup);
        else
                nats_setup_begin(&sink->setup);
        go_on_with_setup(sink);
}

static void on_question_unanswered(void *owner)
{
        struct nats_sink *sink = owner;

        if (nats_connection_state(sink->connection) == NATS_READY)
                nats_connection_fail(sink->connection, OUTCOME_FAULT_TIMEOUT,
                    "has not answered for JetStream's API");
}

/* What comes from the server. */

/* The stream that we make may have been deleted: nothing is sent before it is there again. */
static void look_again(struct nats_sink *sink, struct outcome *outcome)
{
        if (sink->config->create_stream == NULL)
                return;
        outcome->needs_operator = false;
        if (sink->setup.step != SETUP_DONE)
                return;
        sink->is_set_up = false;
        nats_setup_begin(&sink->setup);
        ask(sink);
}

static void take_answer(struct nats_sink *sink, unsigned slot, const struct nats_frame *answer)
{
        struct attempt *attempt = nats_pending_take(&sink->attempts.pending, slot);
        struct outcome outcome = nats_attempts_judge(&sink->attempts, answer);

        if (answer->status != 0 && nats_connection_state(sink->connection) == NATS_READY)
                look_again(sink, &outcome);
        (void)leave_if_answered(sink);
        attempt_finish(attempt, &outcome); /* last: it may close the sink */
}

static void on_message(
    void *owner, const struct nats_frame *message, const char *token, size_t token_bytes)
{
        struct nats_sink *sink = owner;
        unsigned slot;

        if (token[0] != QUESTION) {
                slot = nats_pending_find(&sink->attempts.pending, token, token_bytes);
                if (slot != 0)
                        take_answer(sink, slot, message);
                return;
        }
        if (sink->setup.step == SETUP_DONE || token_bytes != strlen(sink->question) ||
            memcmp(token, sink->question, token_bytes) != 0 ||
            nats_connection_state(sink->connection) != NATS_READY)
                return;
        nats_setup_take(&sink->setup, message);
        go_on_with_setup(sink);
}

static void on_forbidden(void *owner, const struct nats_error *error)
{
        struct nats_sink *sink = owner;

        if (error->subject[0] != '$') {
                nats_attempts_forbid(&sink->attempts, error);
                (void)leave_if_answered(sink);
        } else if (sink->setup.step != SETUP_DONE &&
                   nats_connection_state(sink->connection) == NATS_READY) {
                nats_setup_refuse(&sink->setup, error->words);
                go_on_with_setup(sink);
        }
}

static void on_leaving(void *owner)
{
        struct nats_sink *sink = owner;
        const struct outcome stopping =
            outcome_down(OUTCOME_FAULT_OTHER, false, "the server is about to stop");

        timer_disarm(sink->unanswered);
        if (sink->on_probed != NULL)
                finish_probe(sink, &stopping);
        (void)leave_if_answered(sink);
}

/* The contract. */

static void nats_deliver(struct sink *base, struct attempt *attempt)
{
        nats_pending_add(&nats_sink_from(base)->attempts.pending, attempt); /* flush() sends it */
}

static void nats_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        (void)target;
        nats_subject_describe(((const struct nats_sink *)base)->subject, event, text, size);
}

static void nats_flush(struct sink *base)
{
        struct nats_sink *sink = nats_sink_from(base);

        if (sink->attempts.pending.n_waiting == 0)
                return;
        (void)leave_if_answered(sink); /* those that it was left open for may have been cancelled */
        if (nats_connection_state(sink->connection) == NATS_CLOSED)
                nats_connection_open(sink->connection);
        else
                send_waiting(sink);
        nats_connection_flush(sink->connection);
}

/* The answers to what was sent find nothing when they come. */
static void nats_cancel(struct sink *base)
{
        struct nats_sink *sink = nats_sink_from(base);

        nats_attempts_give_back(&sink->attempts, &outcome_cancelled);
        timer_disarm(sink->overdue);
}

static void nats_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        struct nats_sink *sink = nats_sink_from(base);

        assert(sink->on_probed == NULL);
        sink->on_probed = on_probed;
        sink->probe_owner = owner;
        nats_connection_close(sink->connection);
        nats_connection_open(sink->connection);
}

static void destroy(struct sink *base)
{
        struct nats_sink *sink = nats_sink_from(base);

        nats_connection_destroy(sink->connection);
        nats_subject_destroy(sink->subject);
        nats_message_deinit(&sink->attempts.message);
        nats_pending_deinit(&sink->attempts.pending);
        timer_destroy(sink->overdue);
        timer_destroy(sink->unanswered);
        sink_deinit(&sink->base);
        free(sink);
}

static void nats_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        assert(nats_sink_from(base)->on_probed == NULL);
        sink_close_later(base, destroy, on_closed, owner);
}

static bool open_parts(struct nats_sink *sink, struct error *error)
{
        static const struct nats_connection_events events = {.on_ready = on_ready,
            .on_message = on_message,
            .on_forbidden = on_forbidden,
            .on_leaving = on_leaving,
            .on_lost = on_lost};
        const struct nats_config *config = sink->config;

        sink->subject = nats_subject_create(config->subject, config->inbox, error);
        if (sink->subject == NULL)
                return false;
        if (config->duplicates == NATS_DUPLICATES_BY_SUBJECT &&
            !nats_subject_is_unique(sink->subject))
                return error_set(error, ERROR_CONFIG,
                    "duplicates: by-subject needs {{id}} in the subject, or all events but the "
                    "first would count as repetitions of it");
        if (strlen(config->inbox) > MAX_INBOX_BYTES)
                return error_set(
                    error, ERROR_CONFIG, "inbox is longer than %d bytes", MAX_INBOX_BYTES);
        sink->connection = nats_connection_create(sink->base.loop, config, &events, sink, error);
        return sink->connection != NULL;
}

static struct sink *nats_open(const struct sink_settings *settings, struct error *error)
{
        const struct nats_config *config = settings->options;
        struct nats_sink *sink = xcalloc(1, sizeof *sink);

        sink_init(&sink->base, &nats_sink_ops, settings);
        sink->config = sink->setup.config = sink->attempts.config = config;
        sink->attempts.loop = settings->loop;
        nats_message_init(&sink->attempts.message, config);
        nats_pending_init(&sink->attempts.pending);
        sink->overdue = timer_create_on(settings->loop, on_overdue, sink);
        sink->unanswered = timer_create_on(settings->loop, on_question_unanswered, sink);
        if (open_parts(sink, error)) {
                sink->setup.subject = sink->attempts.subject = sink->subject;
                sink->base.has_targets = nats_subject_is_per_event(sink->subject);
                sink->attempts.connection = sink->connection;
                return &sink->base;
        }
        (void)sink_blame(settings->name, "nats", error);
        destroy(&sink->base);
        return NULL;
}

const struct sink_ops nats_sink_ops = {
    .kind = "nats",
    .open = nats_open,
    .deliver = nats_deliver,
    .describe_target = nats_describe_target,
    .flush = nats_flush,
    .cancel = nats_cancel,
    .close = nats_close,
    .probe = nats_probe,
};

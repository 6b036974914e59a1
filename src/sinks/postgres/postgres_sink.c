/*
 * Calls a function of PostgreSQL once for each event, or inserts events into a table. The statement
 * that does so accepts the event in the target's inbox (courier_inbox), and is a transaction: so an
 * event that comes again has no effect. Calls go downwards only:
 *
 *   postgres_sink      which attempts go together, and to which session; how they end
 *   postgres_session   one connection: settings, the look at the target, one transaction at a time
 *   postgres_values, postgres_answers: pure; postgres_call.sql, postgres_insert.sql
 *
 * A call is a batch of one. A batch that an event made fail is tried again in halves, until the
 * event is alone.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "loop/timer.h"
#include "pg/pg_error.h"
#include "sinks/postgres/postgres_answers.h"
#include "sinks/postgres/postgres_session.h"
#include "sinks/postgres/postgres_values.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* While one batch commits, the next is sent. */
enum { INSERTING_SESSIONS = 2 };

/* After a session could not be opened while others could. */
enum { NO_MORE_SESSIONS_MS = 5000 };

extern const struct sink_ops postgres_sink_ops;

/* Attempts of one transaction. */
struct batch {
        struct attempt_queue queue;
        unsigned n;
};

struct postgres_sink {
        struct sink base;
        const struct postgres_sink_config *config; /* borrowed */
        const char *consumer;                      /* borrowed */
        struct attempt_queue waiting;
        unsigned n_waiting;
        struct batch *halves; /* owned; to be tried before those that wait, the last one first */
        unsigned n_halves;
        struct slot *slots; /* owned */
        unsigned n_slots;
        uint64_t no_more_until_ms;
        struct timer *idle; /* armed while a session rests */
        struct postgres_values values;

        struct postgres_session *probe; /* owned; NULL: none is running */
        sink_probed_fn *on_probed;
        void *prober; /* borrowed */
};

struct slot {
        struct postgres_sink *sink;
        struct postgres_session *session; /* owned */
        struct batch batch;               /* under way */
};

static struct postgres_sink *postgres_sink_from(struct sink *sink)
{
        assert(sink->ops->kind == postgres_sink_ops.kind);
        return (struct postgres_sink *)sink;
}

static enum postgres_session_state state_of(const struct slot *slot)
{
        return postgres_session_state(slot->session);
}

/* Batches. */

static void batch_add(struct batch *batch, struct attempt *attempt)
{
        attempt_queue_push(&batch->queue, attempt);
        batch->n++;
}

/* Those that come to an end may let the relay send others, or close the sink: the batch is not the
 * sink's any more when the first is finished. */
static void batch_finish(struct batch batch, const struct outcome *outcome)
{
        struct attempt *attempt;

        while ((attempt = attempt_queue_take(&batch.queue)) != NULL)
                attempt_finish(attempt, outcome);
}

static void batch_finish_later(struct batch *batch, const struct outcome *outcome)
{
        struct attempt *attempt;

        while ((attempt = attempt_queue_take(&batch->queue)) != NULL)
                attempt_finish_later(attempt, outcome);
        batch->n = 0;
}

static void add_half(struct postgres_sink *sink, const struct batch *half)
{
        sink->halves = xrealloc(sink->halves, (sink->n_halves + 1) * sizeof *sink->halves);
        sink->halves[sink->n_halves++] = *half;
}

static void try_in_halves(struct postgres_sink *sink, struct batch batch)
{
        struct batch first = {0};
        struct batch second = {0};
        unsigned n = batch.n;
        struct attempt *attempt;

        for (unsigned i = 0; (attempt = attempt_queue_take(&batch.queue)) != NULL; i++)
                batch_add(i < n / 2 ? &first : &second, attempt);
        add_half(sink, &second);
        add_half(sink, &first);
}

static bool has_work(const struct postgres_sink *sink)
{
        return sink->n_halves > 0 || sink->n_waiting > 0;
}

static struct batch take_batch(struct postgres_sink *sink)
{
        const unsigned most = sink->config->call != NULL ? 1 : sink->config->batch;
        struct batch batch = {0};

        if (sink->n_halves > 0)
                return sink->halves[--sink->n_halves];
        while (sink->n_waiting > 0 && batch.n < most) {
                batch_add(&batch, attempt_queue_take(&sink->waiting));
                sink->n_waiting--;
        }
        return batch;
}

/* All that no session has begun. */
static void give_back(struct postgres_sink *sink, const struct outcome *outcome)
{
        while (has_work(sink)) {
                struct batch batch = take_batch(sink);
                batch_finish_later(&batch, outcome);
        }
}

/* Sessions. */

static void start(struct slot *slot)
{
        struct postgres_sink *sink = slot->sink;

        slot->batch = take_batch(sink);
        if (sink->config->call != NULL)
                postgres_values_of_event(
                    &sink->values, sink->consumer, slot->batch.queue.first->event);
        else
                postgres_values_of_queue(&sink->values, sink->consumer, &slot->batch.queue);
        postgres_session_run(slot->session, sink->values.values);
}

static unsigned n_batches(const struct postgres_sink *sink)
{
        const unsigned most = sink->config->call != NULL ? 1 : sink->config->batch;

        return sink->n_halves + (sink->n_waiting + most - 1) / most;
}

static bool is_any_open(const struct postgres_sink *sink)
{
        for (unsigned i = 0; i < sink->n_slots; i++)
                if (state_of(&sink->slots[i]) == POSTGRES_READY ||
                    state_of(&sink->slots[i]) == POSTGRES_BUSY)
                        return true;
        return false;
}

/* Where one is open, its next end leads to another look at what waits. */
static bool may_open(const struct postgres_sink *sink)
{
        return uv_now(sink->base.loop) >= sink->no_more_until_ms || !is_any_open(sink);
}

/* The first slots are used first, so that the last ones may rest, and close. */
static void advance(struct postgres_sink *sink)
{
        unsigned n_opening = 0;

        for (unsigned i = 0; i < sink->n_slots && has_work(sink); i++)
                if (state_of(&sink->slots[i]) == POSTGRES_READY)
                        start(&sink->slots[i]);
        for (unsigned i = 0; i < sink->n_slots; i++)
                n_opening += state_of(&sink->slots[i]) == POSTGRES_OPENING;
        for (unsigned i = 0; i < sink->n_slots && n_opening < n_batches(sink) && may_open(sink);
             i++) {
                if (state_of(&sink->slots[i]) != POSTGRES_CLOSED)
                        continue;
                postgres_session_open(sink->slots[i].session);
                n_opening++;
        }
        if (!timer_is_armed(sink->idle))
                timer_arm(sink->idle, (uint64_t)sink->config->idle_ms);
}

static void on_idle(void *owner)
{
        struct postgres_sink *sink = owner;
        bool are_all_closed = true;

        for (unsigned i = 0; i < sink->n_slots; i++) {
                if (postgres_session_idle_ms(sink->slots[i].session) >=
                    (uint64_t)sink->config->idle_ms)
                        postgres_session_close(sink->slots[i].session);
                are_all_closed &= state_of(&sink->slots[i]) == POSTGRES_CLOSED;
        }
        if (!are_all_closed)
                timer_arm(sink->idle, (uint64_t)sink->config->idle_ms);
}

static void on_ready(void *owner, struct postgres_session *session)
{
        struct slot *slot = owner;

        (void)session;
        advance(slot->sink);
}

/* One row: what the function returned, for people. None: it was done before. */
static struct outcome judge_success(const struct postgres_sink *sink, const PGresult *result)
{
        struct outcome outcome = outcome_delivered;

        if (sink->config->insert != NULL)
                return outcome;
        if (PQntuples(result) == 0)
                outcome = outcome_make(
                    OUTCOME_DELIVERED, "it was done before, and has not been repeated");
        else if (!PQgetisnull(result, 0, 0) && PQgetlength(result, 0, 0) > 0)
                outcome = outcome_make(OUTCOME_DELIVERED, "%s", PQgetvalue(result, 0, 0));
        outcome.fault = OUTCOME_FAULT_OTHER;
        return outcome;
}

static struct postgres_verdict judge(const struct postgres_sink *sink, const PGresult *result)
{
        const struct postgres_error error = {
            .sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE),
            .message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
            .detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL),
            .context = PQresultErrorField(result, PG_DIAG_CONTEXT)};

        if (result_is_success(result))
                return (struct postgres_verdict){.outcome = judge_success(sink, result)};
        return postgres_error_judge(&error);
}

static void on_ended(void *owner, struct postgres_session *session, const PGresult *result)
{
        struct slot *slot = owner;
        struct postgres_sink *sink = slot->sink;
        const struct postgres_verdict verdict = judge(sink, result);
        struct batch batch = slot->batch;

        slot->batch = (struct batch){0};
        if (verdict.ends_session || result_ends_session(result))
                postgres_session_close(session);
        if (verdict.outcome.kind == OUTCOME_SINK_DOWN)
                give_back(sink, &outcome_cancelled);
        if (verdict.is_of_event && batch.n > 1) {
                try_in_halves(sink, batch);
                batch = (struct batch){0};
        }
        advance(sink);
        batch_finish(batch, &verdict.outcome); /* last: it may close the sink */
}

/* Only the inbox knows whether an attempt that was under way has committed. */
static void on_lost(void *owner, struct postgres_session *session, enum postgres_session_state was,
    const struct outcome *why)
{
        struct slot *slot = owner;
        struct postgres_sink *sink = slot->sink;
        struct batch batch = slot->batch;

        (void)session;
        slot->batch = (struct batch){0};
        if (was == POSTGRES_BUSY && why->fault == OUTCOME_FAULT_LOST && batch.n > 1) {
                try_in_halves(sink, batch); /* one of them may bring its server process down */
                batch = (struct batch){0};
        }
        if (was == POSTGRES_BUSY)
                advance(sink);
        else if (was == POSTGRES_OPENING && is_any_open(sink))
                sink->no_more_until_ms = uv_now(sink->base.loop) + NO_MORE_SESSIONS_MS;
        else if (was == POSTGRES_OPENING)
                give_back(sink, why);
        batch_finish(batch, why); /* last: it may close the sink */
}

/* A probe has a session of its own: those of the events go on. */

static void finish_probe(struct postgres_sink *sink, const struct outcome *outcome)
{
        postgres_session_close(sink->probe);
        sink_probed_later(&sink->base, sink->on_probed, sink->prober, outcome);
        sink->on_probed = NULL;
}

static void on_probe_ready(void *owner, struct postgres_session *session)
{
        (void)session;
        finish_probe(owner, &outcome_delivered);
}

static void on_probe_lost(void *owner, struct postgres_session *session,
    enum postgres_session_state was, const struct outcome *why)
{
        struct postgres_sink *sink = owner;

        (void)session;
        (void)was;
        if (sink->on_probed != NULL)
                finish_probe(sink, why);
}

static void postgres_probe(struct sink *base, sink_probed_fn *on_probed, void *owner)
{
        static const struct postgres_session_events events = {
            .on_ready = on_probe_ready, .on_lost = on_probe_lost};
        struct postgres_sink *sink = postgres_sink_from(base);

        assert(sink->on_probed == NULL);
        sink->on_probed = on_probed;
        sink->prober = owner;
        if (sink->probe == NULL)
                sink->probe = postgres_session_create(sink->base.loop, sink->config, &events, sink);
        postgres_session_open(sink->probe);
}

/* The contract. */

static void postgres_deliver(struct sink *base, struct attempt *attempt)
{
        struct postgres_sink *sink = postgres_sink_from(base);

        attempt_queue_push(&sink->waiting, attempt); /* flush() sends it */
        sink->n_waiting++;
}

static void postgres_flush(struct sink *base)
{
        if (has_work(postgres_sink_from(base)))
                advance(postgres_sink_from(base));
}

static void postgres_describe_target(
    const struct sink *base, const struct event *event, const void *target, char *text, size_t size)
{
        const struct postgres_sink_config *config = ((const struct postgres_sink *)base)->config;

        (void)event;
        (void)target;
        snprintf(text, size, "%s%s", config->call != NULL ? config->call : config->insert,
            config->call != NULL ? "()" : "");
}

/* The server cancels what is under way, as its client has gone. */
static void postgres_cancel(struct sink *base)
{
        struct postgres_sink *sink = postgres_sink_from(base);

        for (unsigned i = 0; i < sink->n_slots; i++) {
                struct slot *slot = &sink->slots[i];
                if (state_of(slot) == POSTGRES_BUSY)
                        postgres_session_close(slot->session);
                batch_finish_later(&slot->batch, &outcome_cancelled);
        }
        give_back(sink, &outcome_cancelled);
}

static void destroy(struct sink *base)
{
        struct postgres_sink *sink = postgres_sink_from(base);

        for (unsigned i = 0; i < sink->n_slots; i++)
                postgres_session_destroy(sink->slots[i].session);
        postgres_session_destroy(sink->probe);
        timer_destroy(sink->idle);
        postgres_values_deinit(&sink->values);
        free(sink->slots);
        free(sink->halves);
        sink_deinit(&sink->base);
        free(sink);
}

static void postgres_close(struct sink *base, sink_closed_fn *on_closed, void *owner)
{
        assert(postgres_sink_from(base)->on_probed == NULL);
        sink_close_later(base, destroy, on_closed, owner);
}

static void make_slots(struct postgres_sink *sink)
{
        static const struct postgres_session_events events = {
            .on_ready = on_ready, .on_ended = on_ended, .on_lost = on_lost};

        sink->slots = xcalloc(sink->n_slots, sizeof *sink->slots);
        for (unsigned i = 0; i < sink->n_slots; i++) {
                sink->slots[i].sink = sink;
                sink->slots[i].session = postgres_session_create(
                    sink->base.loop, sink->config, &events, &sink->slots[i]);
        }
}

static struct sink *postgres_open(const struct sink_settings *settings, struct error *error)
{
        struct postgres_sink *sink = xcalloc(1, sizeof *sink);

        (void)error; /* the configuration is checked; the database is asked when it is needed */
        sink_init(&sink->base, &postgres_sink_ops, settings);
        sink->config = settings->options;
        sink->consumer = sink->config->consumer != NULL ? sink->config->consumer : settings->name;
        sink->n_slots = INSERTING_SESSIONS;
        if (sink->config->call != NULL) {
                if (sink->base.max_concurrent == 0)
                        sink->base.max_concurrent = POSTGRES_CONCURRENCY;
                sink->n_slots = sink->base.max_concurrent;
        }
        sink->idle = timer_create_on(settings->loop, on_idle, sink);
        make_slots(sink);
        return &sink->base;
}

const struct sink_ops postgres_sink_ops = {
    .kind = "postgres",
    .open = postgres_open,
    .deliver = postgres_deliver,
    .describe_target = postgres_describe_target,
    .flush = postgres_flush,
    .cancel = postgres_cancel,
    .close = postgres_close,
    .probe = postgres_probe,
};

#include "sinks/sink_contract.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"
#include "config/suggest.h"
#include "loop/timer.h"
#include "pgcourier/option.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Modules are code of others: what they break is to end here, in every build. */
#undef NDEBUG
#include <assert.h>

const struct outcome outcome_delivered = {.kind = OUTCOME_DELIVERED, .delay_ms = OUTCOME_NO_DELAY};
const struct outcome outcome_cancelled = {
    .kind = OUTCOME_CANCELLED, .delay_ms = OUTCOME_NO_DELAY, .reason = "cancelled"};

static void give_reason(struct outcome *outcome, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void give_reason(struct outcome *outcome, const char *format, va_list arguments)
{
        vsnprintf(outcome->reason, sizeof outcome->reason, format, arguments);

        /* A peer's words end up on terminals and in JSON: plain ASCII is all they may hold. */
        for (char *at = outcome->reason; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
                        *at = *at == '\r' || *at == '\n' || *at == '\t' ? ' ' : '?';
}

struct outcome outcome_make(enum outcome_kind kind, const char *format, ...)
{
        struct outcome outcome = {.kind = kind,
            .fault = kind == OUTCOME_REJECTED ? OUTCOME_FAULT_EVENT : OUTCOME_FAULT_OTHER,
            .delay_ms = OUTCOME_NO_DELAY};
        va_list arguments;

        va_start(arguments, format);
        give_reason(&outcome, format, arguments);
        va_end(arguments);
        return outcome;
}

struct outcome outcome_down(enum outcome_fault fault, bool needs_operator, const char *format, ...)
{
        struct outcome outcome = {.kind = OUTCOME_SINK_DOWN,
            .fault = fault,
            .delay_ms = OUTCOME_NO_DELAY,
            .concerns_all = true,
            .needs_operator = needs_operator};
        va_list arguments;

        va_start(arguments, format);
        give_reason(&outcome, format, arguments);
        va_end(arguments);
        return outcome;
}

const char *outcome_name(enum outcome_kind kind)
{
        switch (kind) {
        case OUTCOME_DELIVERED:
                return "delivered";
        case OUTCOME_RETRY:
                return "retry";
        case OUTCOME_REJECTED:
                return "rejected";
        case OUTCOME_SINK_DOWN:
                return "sink_down";
        case OUTCOME_CANCELLED:
                return "cancelled";
        }
        abort();
}

/* The answers that were known too early; given in the next turn of the loop. */
struct deferred {
        struct list answers; /* deferred_answer::link, oldest first */
        struct list due;     /* of these, those being given */
        struct timer *timer;

        /* Of a probe. */
        sink_probed_fn *on_probed;
        void *prober; /* borrowed */
        struct outcome probed;
        struct timer *probe_timer;
};

struct deferred_answer {
        struct list link;
        struct attempt *attempt; /* lent by the relay until it is finished */
        struct outcome outcome;
};

static void give_deferred_answers(void *owner)
{
        struct sink *sink = owner;
        struct list *due = &sink->deferred->due;

        /* Finishing an attempt may start another that fails at once: that one waits its turn. */
        while (!list_is_empty(&sink->deferred->answers)) {
                struct list *first = sink->deferred->answers.next;
                list_remove(first);
                list_push_back(due, first);
        }
        while (!list_is_empty(due)) {
                struct deferred_answer *answer =
                    list_owner(due->next, struct deferred_answer, link);
                const struct deferred_answer given = *answer;
                bool is_last;

                list_remove(&answer->link);
                free(answer);
                is_last = list_is_empty(due);
                attempt_finish(given.attempt, &given.outcome); /* with the last one it may close */
                if (is_last)
                        return;
        }
}

static void answer_probe(void *owner)
{
        struct sink *sink = owner;
        const struct outcome outcome = sink->deferred->probed;

        sink->deferred->on_probed(sink->deferred->prober, &outcome); /* it may close the sink */
}

void sink_probed_later(
    struct sink *sink, sink_probed_fn *on_probed, void *owner, const struct outcome *outcome)
{
        struct deferred *deferred = sink->deferred;

        assert(!timer_is_armed(deferred->probe_timer));
        deferred->on_probed = on_probed;
        deferred->prober = owner;
        deferred->probed = *outcome;
        timer_arm(deferred->probe_timer, 0);
}

void sink_init(struct sink *sink, const struct sink_ops *ops, const struct sink_settings *settings)
{
        *sink = (struct sink){.ops = ops,
            .name = settings->name,
            .loop = settings->loop,
            .max_concurrent = settings->concurrency};
        sink->deferred = xcalloc(1, sizeof *sink->deferred);
        list_init(&sink->deferred->answers);
        list_init(&sink->deferred->due);
        sink->deferred->timer = timer_create_on(settings->loop, give_deferred_answers, sink);
        sink->deferred->probe_timer = timer_create_on(settings->loop, answer_probe, sink);
}

void sink_deinit(struct sink *sink)
{
        assert(list_is_empty(&sink->deferred->answers));
        assert(!timer_is_armed(sink->deferred->probe_timer));
        timer_destroy(sink->deferred->timer);
        timer_destroy(sink->deferred->probe_timer);
        free(sink->deferred);
        sink->deferred = NULL;
}

void attempt_finish(struct attempt *attempt, const struct outcome *outcome)
{
        struct sink *sink = attempt->sink;

        assert(sink != NULL);      /* finished twice, or never started */
        assert(!sink->is_calling); /* finished inside the call that started or hurried it */
        assert(sink->n_in_flight > 0);
        sink->n_in_flight--;
        attempt->sink = NULL;
        attempt->on_finished(attempt, outcome);
}

void attempt_finish_later(struct attempt *attempt, const struct outcome *outcome)
{
        struct deferred *deferred = attempt->sink->deferred;
        struct deferred_answer *answer = xcalloc(1, sizeof *answer);

        answer->attempt = attempt;
        answer->outcome = *outcome;
        list_push_back(&deferred->answers, &answer->link);
        if (!timer_is_armed(deferred->timer))
                timer_arm(deferred->timer, 0);
}

bool sink_owes_answers(const struct sink *sink)
{
        return !list_is_empty(&sink->deferred->answers) || !list_is_empty(&sink->deferred->due);
}

struct sink *sink_open(
    const struct sink_ops *ops, const struct sink_settings *settings, struct error *error)
{
        struct sink *sink;

        error->kind = ERROR_NONE;
        sink = ops->open(settings, error);
        if (sink == NULL) {
                if (error->kind == ERROR_NONE)
                        error_set(error, ERROR_SINK, "the kind %s did not say why", ops->kind);
                return NULL;
        }
        if (sink->deferred == NULL || (sink->remembers && ops->settled == NULL)) {
                error_set(error, ERROR_SINK, "the kind %s %s", ops->kind,
                    sink->deferred == NULL ? "has not called sink_init() in its open()"
                                           : "sets `remembers` without owned() and settled()");
                return NULL;
        }
        /* A module's own may be shorter than what is called here. */
        sink->ops = ops;
        return sink;
}

void sink_deliver(struct sink *sink, struct attempt *attempt)
{
        assert(attempt->sink == NULL);
        attempt->sink = sink;
        attempt->sink_data = NULL;
        sink->n_in_flight++;
        sink->is_calling = true;
        sink->ops->deliver(sink, attempt);
        sink->is_calling = false;
}

void sink_flush(struct sink *sink)
{
        if (sink->ops->flush == NULL)
                return;
        sink->is_calling = true;
        sink->ops->flush(sink);
        sink->is_calling = false;
}

void sink_cancel(struct sink *sink)
{
        sink->is_calling = true;
        sink->ops->cancel(sink);
        sink->is_calling = false;
}

void sink_probe(struct sink *sink, sink_probed_fn *on_probed, void *owner)
{
        assert(sink->n_in_flight == 0);
        sink->ops->probe(sink, on_probed, owner);
}

void sink_close(struct sink *sink, sink_closed_fn *on_closed, void *owner)
{
        assert(sink->n_in_flight == 0);
        sink->ops->close(sink, on_closed, owner);
}

bool sink_blame(const char *name, const char *where, struct error *error)
{
        const struct error cause = *error;

        return error_set(error, cause.kind, "sink '%s': %s: %s", name, where, cause.text);
}

/* What is left of a sink that closes. */
struct closing {
        uv_timer_t timer;
        struct sink *sink; /* NULL once it is destroyed */
        sink_destroy_fn *destroy;
        sink_closed_fn *on_closed;
        void *owner;
};

static void on_timer_closed(uv_handle_t *timer)
{
        struct closing closing = *(struct closing *)timer->data;

        free(timer->data);
        closing.on_closed(closing.owner);
}

static void on_closing_due(uv_timer_t *timer)
{
        struct closing *closing = timer->data;

        if (closing->sink == NULL) {
                uv_close((uv_handle_t *)timer, on_timer_closed);
                return;
        }
        closing->destroy(closing->sink);
        closing->sink = NULL;
        /* The sink's handles are closed at the end of this turn; a millisecond is the next one. */
        uv_timer_start(timer, on_closing_due, 1, 0);
}

void sink_close_later(
    struct sink *sink, sink_destroy_fn *destroy, sink_closed_fn *on_closed, void *owner)
{
        struct closing *closing = xcalloc(1, sizeof *closing);

        closing->sink = sink;
        closing->destroy = destroy;
        closing->on_closed = on_closed;
        closing->owner = owner;
        uv_timer_init(sink->loop, &closing->timer);
        closing->timer.data = closing;
        uv_timer_start(&closing->timer, on_closing_due, 0, 0);
}

/* What modules call to read their options, and to say what is wrong with them. */

const struct sink_option *sink_options_find(const struct sink_options *options, const char *name)
{
        for (size_t i = 0; i < options->n_options; i++)
                if (strcmp(options->options[i].name, name) == 0)
                        return &options->options[i];
        return NULL;
}

static bool is_among(const char *name, const char *const *names)
{
        for (; *names != NULL; names++)
                if (strcmp(*names, name) == 0)
                        return true;
        return false;
}

static void refuse_unknown(
    struct error *error, const struct sink_option *option, const char *const *names)
{
        struct bytes allowed = {0};
        const char *nearest = NULL;

        for (size_t i = 0; names[i] != NULL; i++) {
                bytes_printf(&allowed, "%s%s", i > 0 ? ", " : "", names[i]);
                nearest = suggest_nearer(option->name, nearest, names[i]);
        }
        if (nearest != NULL)
                sink_option_refused(error, option,
                    "is not a known option; did you mean %s? allowed: %s", nearest, allowed.data);
        else
                sink_option_refused(error, option, "is not a known option; allowed: %s",
                    allowed.data != NULL ? allowed.data : "none");
        bytes_deinit(&allowed);
}

bool sink_options_know(
    const struct sink_options *options, const char *const *names, struct error *error)
{
        for (size_t i = 0; i < options->n_options; i++) {
                if (is_among(options->options[i].name, names))
                        continue;
                refuse_unknown(error, &options->options[i], names);
                return false;
        }
        return true;
}

bool sink_options_flag(
    const struct sink_options *options, const char *name, bool *out_flag, struct error *error)
{
        const struct sink_option *option = sink_options_find(options, name);

        if (option == NULL)
                return true;
        if (strcmp(option->value, "true") == 0)
                *out_flag = true;
        else if (strcmp(option->value, "false") == 0)
                *out_flag = false;
        else
                return sink_option_refused(error, option, "is neither true nor false") != NULL;
        return true;
}

void *sink_option_refused(
    struct error *error, const struct sink_option *option, const char *format, ...)
{
        char reason[sizeof error->text];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        return sink_open_failed(error, "%s: %s", option->where, reason);
}

void *sink_option_missing(
    struct error *error, const struct sink_options *options, const char *name, const char *reason)
{
        return sink_open_failed(error, "%s: %s is required: %s", options->where, name, reason);
}

void *sink_open_failed(struct error *error, const char *format, ...)
{
        va_list arguments;

        error->kind = ERROR_CONFIG;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        return NULL;
}

#include "relay/errand.h"

#include "base/alloc.h"

#include <stdlib.h>

enum errand_kind { ERRAND_PAUSE, ERRAND_RESUME, ERRAND_LIST_DEAD, ERRAND_REDRIVE, ERRAND_DROP };

struct errand {
        struct list link;
        struct errands *errands;
        enum errand_kind kind;
        admin_done_fn *on_done;
        void *context; /* borrowed */
};

void errands_init(struct errands *errands, struct operator_session *session)
{
        errands->session = session;
        list_init(&errands->open);
}

static struct errand *begin(
    struct errands *errands, enum errand_kind kind, admin_done_fn *on_done, void *context)
{
        struct errand *errand = xcalloc(1, sizeof *errand);

        errand->errands = errands;
        errand->kind = kind;
        errand->on_done = on_done;
        errand->context = context;
        list_init(&errand->link);
        list_push_back(&errands->open, &errand->link);
        return errand;
}

static void end(struct errand *errand, json_t *result, const struct error *error)
{
        list_remove(&errand->link);
        errand->on_done(errand->context, result, error);
        free(errand);
}

void errands_end(struct errands *errands)
{
        struct error error;

        error_set(&error, ERROR_TEMPORARY,
            "the relay is stopping; whether this was done is not known: look, and ask again");
        list_for_each (link, &errands->open) {
                struct errand *errand = list_owner(link, struct errand, link);

                operator_session_forget(errands->session, errand);
                end(errand, NULL, &error);
        }
}

/* A new reference. */
static json_t *result_of(enum errand_kind kind, const struct operator_session_answer *answer)
{
        json_int_t n = (json_int_t)answer->n;

        switch (kind) {
        case ERRAND_PAUSE:
                return json_pack("{s:b s:b}", "paused", 1, "was_paused", n == 0);
        case ERRAND_RESUME:
                return json_pack("{s:b s:I}", "paused", 0, "removed", n);
        case ERRAND_LIST_DEAD:
                return json_pack("{s:O s:b}", "dead", answer->rows, "more", answer->has_more);
        case ERRAND_REDRIVE:
                return json_pack("{s:I s:I s:o}", "redriven", n, "kept", (json_int_t)answer->n_kept,
                    "words",
                    answer->n_kept == 0
                        ? json_null()
                        : json_sprintf("%jd redriven; %jd stay: their event is under way to that "
                                       "sink already, or its receiver was removed",
                              (intmax_t)n, (intmax_t)answer->n_kept));
        case ERRAND_DROP:
                return json_pack("{s:I}", "dropped", n);
        }
        abort();
}

static void on_answer(void *owner, const struct operator_session_answer *answer)
{
        struct errand *errand = owner;
        struct errands *errands = errand->errands;
        bool has_changed = errand->kind != ERRAND_LIST_DEAD;
        struct error error;
        json_t *result;

        if (answer->failure != NULL) {
                error_set(&error, ERROR_DATABASE, "%s", answer->failure);
                end(errand, NULL, &error);
        } else {
                result = result_of(errand->kind, answer);
                end(errand, result, NULL);
                json_decref(result);
        }
        if (has_changed)
                operator_session_ask(errands->session);
}

void errand_pause(struct errands *errands, const char *sink, const char *reason,
    admin_done_fn *on_done, void *context)
{
        operator_session_pause(errands->session, sink, reason, on_answer,
            begin(errands, ERRAND_PAUSE, on_done, context));
}

void errand_resume(struct errands *errands, const char *sink, admin_done_fn *on_done, void *context)
{
        operator_session_resume(
            errands->session, sink, on_answer, begin(errands, ERRAND_RESUME, on_done, context));
}

void errand_list_dead(struct errands *errands, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context)
{
        operator_session_list_dead(errands->session, sink, before, (int)limit, on_answer,
            begin(errands, ERRAND_LIST_DEAD, on_done, context));
}

static struct operator_session_dead which(const struct admin_selection *selection)
{
        return (struct operator_session_dead){
            .sink = selection->sink, .ids = selection->ids, .n_ids = selection->n_ids};
}

void errand_redrive(struct errands *errands, const struct admin_selection *selection,
    admin_done_fn *on_done, void *context)
{
        const struct operator_session_dead dead = which(selection);

        operator_session_redrive(
            errands->session, &dead, on_answer, begin(errands, ERRAND_REDRIVE, on_done, context));
}

void errand_drop(struct errands *errands, const struct admin_selection *selection,
    admin_done_fn *on_done, void *context)
{
        const struct operator_session_dead dead = which(selection);

        operator_session_drop(
            errands->session, &dead, on_answer, begin(errands, ERRAND_DROP, on_done, context));
}

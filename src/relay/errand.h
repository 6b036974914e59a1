/*
 * What somebody asked the admin endpoint to have done: goes to the connection
 * that looks, and comes back as the endpoint's answer. Each ends exactly once:
 * when the database has answered, or when the relay ends before that.
 */
#pragma once

#include "admin/admin.h"
#include "base/list.h"
#include "operator/operator_session.h"

struct errands {
        struct operator_session *session; /* borrowed */
        struct list open;                 /* errand::link */
};

void errands_init(struct errands *errands, struct operator_session *session);

/* Ends those that are open: the relay stops. Before operator_session_destroy(). */
void errands_end(struct errands *errands);

void errand_pause(struct errands *errands, const char *sink, const char *reason,
    admin_done_fn *on_done, void *context);
void errand_resume(
    struct errands *errands, const char *sink, admin_done_fn *on_done, void *context);
void errand_list_dead(struct errands *errands, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context);
void errand_redrive(struct errands *errands, const struct admin_selection *selection,
    admin_done_fn *on_done, void *context);
void errand_drop(struct errands *errands, const struct admin_selection *selection,
    admin_done_fn *on_done, void *context);

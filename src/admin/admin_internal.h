/* Shared by the routes. */
#pragma once

#include "admin/admin.h"
#include "admin/http/routes.h"
#include "base/list.h"
#include "loop/http/http_listener.h"
#include "loop/http/listen_socket.h"

#include <jansson.h>

struct admin {
        uv_loop_t *loop; /* borrowed */
        struct admin_options options;
        struct token token;
        bool is_local; /* only this machine can reach us */
        struct listen_socket socket;
        struct http_listener *listener;
        struct event_streams *streams;
        int64_t refused_us; /* when a wrong token was last told of in the log */
};

/* A file of a page: page_routes.c. "" is the page itself. */
enum page { PAGE_ADMIN, PAGE_PORTAL };
void page_answer_file(struct http_call *request, enum page page, const char *name);

/* The status document as it is now; a new reference. */
json_t *admin_status(struct admin *admin);

/* Of enum route_access ACCESS_OPEN: status_routes.c, page_routes.c */
void answer_livez(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_readyz(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_page(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);

/* ACCESS_READ: status_routes.c, event_stream.c, operator_routes.c */
void answer_metrics(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_status(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_events(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_dead(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_receivers(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_receiver(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_trace(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_types(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);

/* ACCESS_OPERATOR: operator_routes.c */
void answer_receiver_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_receiver_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_schedule_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_schedule_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_schedule_run(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_redrive(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_drop(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_reload(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);
void answer_log(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body);

/*
 * Which request gets which answer: one table. Host, path, method, token, type
 * and body are checked here, in this order, before a route is asked.
 */
#pragma once

#include "loop/http/http_listener.h"

#include <jansson.h>
#include <stddef.h>

struct admin;

enum route_access {
        ACCESS_OPEN,     /* nothing in it is anybody's secret */
        ACCESS_READ,     /* with the token where other machines can reach us */
        ACCESS_OPERATOR, /* with the token, always */
};

struct route {
        const char *method; /* GET answers HEAD too; POST has a JSON object as its body */
        const char *path;   /* "*" stands for one segment, which `name` is */
        enum route_access access;
        /* `body` is NULL for GET and borrowed until the call returns. */
        void (*answer)(
            struct admin *admin, struct http_call *request, const char *name, const json_t *body);
};

/* Ends with a NULL path. */
extern const struct route admin_routes[];

/* Answers any request. */
void routes_answer(struct admin *admin, struct http_call *request);

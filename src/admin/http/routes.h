/*
 * Which request gets which answer: one table. Host, path, method, token, type and body are checked
 * here, in this order, before a route is asked.
 */
#pragma once

#include "config/config.h"
#include "loop/http/http_listener.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct admin;

/* The configured token. Only its hash is kept in memory here. */
struct token {
        bool is_set;
        unsigned char hash[32]; /* SHA-256 */
};

void token_init(struct token *token, const char *text); /* NULL: none is configured */

/* `authorization` is the header's value, or NULL. How long it takes tells nothing of the token. */
bool token_matches(const struct token *token, const char *authorization);

/*
 * Whether a request was meant for us. A foreign web page can have its
 * own name resolved to 127.0.0.1 and then read, from the visitor's browser, what
 * only this machine may read (DNS rebinding). Such a request names that page's
 * host. An IP address cannot be rebound, so any is good: probes and Prometheus
 * address a pod by an address that is not known beforehand.
 *
 * `host` is the header's value, with or without a port; NULL is refused.
 */
bool host_is_ours(const struct admin_config *config, const char *host);

enum route_access {
        ACCESS_OPEN,     /* the answer holds no secret */
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

/* For tables of routes, this and the portal's. Copies what the pattern's "*" stands for. */
enum { ROUTE_NAME_SIZE = 128 };
bool route_path_matches(const char *pattern, const char *path, char out_name[ROUTE_NAME_SIZE]);

/* A path has one method, and HEAD with GET. False: any other was answered. */
bool route_takes_method(struct http_call *request, const char *takes);

/* The JSON object that a POST brings, to be freed; NULL: it brings none, and was answered. */
json_t *route_read_body(struct http_call *request);

/* Answers any request. */
void routes_answer(struct admin *admin, struct http_call *request);

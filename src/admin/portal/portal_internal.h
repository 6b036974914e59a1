/* What the two files of the portal share: portal.c lets requests in and calls portal_routes.c,
 * never the reverse. */
#pragma once

#include "admin/portal/portal_routes.h"
#include "loop/http/http_listener.h"
#include "loop/http/listen_socket.h"

struct portal {
        struct portal_options options;
        struct listen_socket socket;
        struct http_listener *listener;
        struct portal_access access;
        char *origin;       /* owned; of the base URL, as browsers send it */
        int64_t refused_us; /* when refused requests were last told of in the log */
        unsigned n_refused; /* since then */
};

/* The token looks like one, and may ask now. */
void portal_route_answer(struct portal *portal, struct http_call *request,
    const struct portal_route *route, const char *name, const struct portal_hash *hash);

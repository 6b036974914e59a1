#include "loop/resolve.h"

#include "base/alloc.h"

#include <stdlib.h>

struct resolve {
        uv_getaddrinfo_t request;
        resolved_fn *on_resolved; /* NULL once cancelled */
        void *owner;              /* borrowed */
        int start_status;         /* why libuv would not even start */
        uv_timer_t report;        /* carries that failure into a later turn */
};

static void on_request_done(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
        struct resolve *resolve = request->data;

        if (resolve->on_resolved != NULL)
                resolve->on_resolved(resolve->owner, status == 0 ? addresses : NULL,
                    status == 0 ? NULL : uv_strerror(status));
        uv_freeaddrinfo(addresses);
        free(resolve);
}

static void on_report_closed(uv_handle_t *handle)
{
        free(handle->data);
}

static void on_report(uv_timer_t *timer)
{
        struct resolve *resolve = timer->data;

        if (resolve->on_resolved != NULL)
                resolve->on_resolved(resolve->owner, NULL, uv_strerror(resolve->start_status));
        uv_close((uv_handle_t *)timer, on_report_closed);
}

struct resolve *resolve_start(
    uv_loop_t *loop, const char *host, const char *service, resolved_fn *on_resolved, void *owner)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct resolve *resolve = xcalloc(1, sizeof *resolve);

        resolve->on_resolved = on_resolved;
        resolve->owner = owner;
        resolve->request.data = resolve;
        resolve->start_status =
            uv_getaddrinfo(loop, &resolve->request, on_request_done, host, service, &hints);
        if (resolve->start_status != 0) {
                uv_timer_init(loop, &resolve->report);
                resolve->report.data = resolve;
                uv_timer_start(&resolve->report, on_report, 0, 0);
        }
        return resolve;
}

void resolve_cancel(struct resolve *resolve)
{
        if (resolve == NULL)
                return;
        resolve->on_resolved = NULL;
        if (resolve->start_status == 0)
                uv_cancel((uv_req_t *)&resolve->request);
}

/* How the relay is: for probes, for Prometheus, and as the status document. */
#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "admin/metrics/metrics.h"
#include "admin/status_document.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>

/* That this answers says everything: the loop turns. It never depends on PostgreSQL or a sink, else
 * an outage would have every relay restarted. */
void answer_livez(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)admin;
        (void)name;
        (void)body;
        answer_json(request, 200, json_pack("{s:b}", "live", 1));
}

void answer_readyz(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        struct telemetry *telemetry = admin->options.telemetry;
        json_t *conditions;
        bool is_ready;

        (void)name;
        (void)body;
        telemetry_refresh(telemetry, clock_monotonic_us());
        conditions = readiness_conditions(telemetry, &is_ready);
        answer_json(request, is_ready ? 200 : 503,
            json_pack("{s:b s:o}", "ready", is_ready, "conditions", conditions));
}

/* What the database said before it stopped answering is not what is. */
static const json_t *fresh_look(const struct admin_options *options)
{
        return options->operations->look_failure(options->owner) == NULL
                   ? options->operations->look(options->owner)
                   : NULL;
}

void answer_metrics(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        enum metrics_format format = metrics_format_for(http_call_header(request, "Accept"));
        struct bytes text = {0};

        (void)name;
        (void)body;
        telemetry_refresh(options->telemetry, clock_monotonic_us());
        metrics_write(&text, format, options->telemetry, fresh_look(options));
        http_call_answer(request, &(struct http_answer){.status = 200,
                                      .content_type = metrics_content_type(format),
                                      .body = text.data,
                                      .body_length = text.length});
        bytes_deinit(&text);
}

json_t *admin_status(struct admin *admin)
{
        const struct admin_options *options = &admin->options;

        return status_document(
            &(struct status_basis){.found = options->operations->look(options->owner),
                .query_error = options->operations->look_failure(options->owner),
                .telemetry = options->telemetry,
                .config_file = options->config_file,
                .can_change = admin->token.is_set});
}

struct question {
        struct admin *admin;
        struct http_call *request;
};

static void on_looked(void *context, json_t *result, const struct error *error)
{
        struct question *question = context;

        (void)result;
        if (error != NULL)
                answer_error(question->request, error);
        else
                answer_json(question->request, 200, admin_status(question->admin));
        free(question);
}

/* Who asks once wants to know how it is now; a stream shows soon enough what has changed. */
void answer_status(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        struct question *question = xcalloc(1, sizeof *question);

        (void)name;
        (void)body;
        *question = (struct question){.admin = admin, .request = request};
        if (options->operations->look_again == NULL ||
            !options->operations->look_again(options->owner, on_looked, question))
                on_looked(question, NULL, NULL);
}

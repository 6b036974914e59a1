#include "admin/admin_internal.h"
#include "admin/metrics/metrics.h"
#include "base/clock.h"
#include "telemetry/telemetry.h"

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

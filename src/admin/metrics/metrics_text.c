#include "admin/metrics/metrics_text.h"

#include "telemetry/histogram.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(const struct metrics_text *text)
{
        switch (text->type) {
        case METRIC_COUNTER:
                return "counter";
        case METRIC_GAUGE:
                return "gauge";
        case METRIC_HISTOGRAM:
                return "histogram";
        case METRIC_INFO:
                return text->format == METRICS_OPENMETRICS ? "info" : "gauge";
        }
        abort();
}

static const char *suffix(const struct metrics_text *text)
{
        return text->type == METRIC_COUNTER ? "_total" : text->type == METRIC_INFO ? "_info" : "";
}

void metrics_text_family(struct metrics_text *text, const char *name, enum metric_type type,
    const char *unit, const char *help)
{
        const char *end;

        text->name = name;
        text->type = type;
        /* In OpenMetrics a family is called by its bare name, its samples by another. */
        end = text->format == METRICS_OPENMETRICS ? "" : suffix(text);
        bytes_printf(text->out, "# HELP %s%s %s\n", name, end, help);
        bytes_printf(text->out, "# TYPE %s%s %s\n", name, end, type_name(text));
        if (unit != NULL && text->format == METRICS_OPENMETRICS)
                bytes_printf(text->out, "# UNIT %s %s\n", name, unit);
}

static void put_escaped(struct bytes *out, const char *value)
{
        for (; *value != '\0'; value++) {
                if (*value == '\n')
                        bytes_append_text(out, "\\n");
                else if (*value == '\\' || *value == '"')
                        bytes_printf(out, "\\%c", *value);
                else
                        bytes_append(out, value, 1);
        }
}

/* `le` NULL: none. */
static void put_labels(struct bytes *out, const struct metric_label *labels, const char *le)
{
        const char *before = "{";

        for (; labels != NULL && labels->name != NULL; labels++) {
                bytes_printf(out, "%s%s=\"", before, labels->name);
                put_escaped(out, labels->value);
                bytes_append_text(out, "\"");
                before = ",";
        }
        if (le != NULL) {
                bytes_printf(out, "%sle=\"%s\"", before, le);
                before = ",";
        }
        if (*before == ',')
                bytes_append_text(out, "}");
}

static void format_number(char *out, size_t size, double value)
{
        bool is_whole = fabs(value) < 1e15 && value == floor(value);

        snprintf(out, size, is_whole ? "%.0f" : "%.15g", value);
}

static void put_sample(struct metrics_text *text, const char *end,
    const struct metric_label *labels, const char *le, double value)
{
        char number[40];

        format_number(number, sizeof number, value);
        bytes_printf(text->out, "%s%s", text->name, end);
        put_labels(text->out, labels, le);
        bytes_printf(text->out, " %s\n", number);
}

void metrics_text_sample(struct metrics_text *text, const struct metric_label *labels, double value)
{
        if (!isnan(value))
                put_sample(text, suffix(text), labels, NULL, value);
}

static void format_bound(const struct metrics_text *text, char *out, size_t size, double bound)
{
        format_number(out, size, bound);
        /* OpenMetrics wants to see that it is no integer. */
        if (text->format == METRICS_OPENMETRICS && strpbrk(out, ".e") == NULL)
                strncat(out, ".0", size - strlen(out) - 1);
}

void metrics_text_histogram(
    struct metrics_text *text, const struct metric_label *labels, const struct histogram *histogram)
{
        const struct histogram_bounds *bounds = histogram->bounds;
        uint64_t n = 0;

        for (unsigned i = 0; i < bounds->n_bounds; i++) {
                char bound[40];
                n += histogram->counts[i];
                format_bound(text, bound, sizeof bound, (double)bounds->bounds[i] / bounds->units);
                put_sample(text, "_bucket", labels, bound, (double)n);
        }
        put_sample(text, "_bucket", labels, "+Inf", (double)histogram->n_values);
        put_sample(text, "_sum", labels, NULL, (double)histogram->sum / bounds->units);
        put_sample(text, "_count", labels, NULL, (double)histogram->n_values);
}

void metrics_text_end(struct metrics_text *text)
{
        if (text->format == METRICS_OPENMETRICS)
                bytes_append_text(text->out, "# EOF\n");
}

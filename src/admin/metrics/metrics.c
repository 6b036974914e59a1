/* One row for each metric: what it is called, what it means and where its samples come from; and
 * the two formats in which the rows are written. */
#include "admin/metrics/metrics.h"

#include "admin/metrics/metrics_values.h"
#include "pgcourier/version.h"
#include "telemetry/histogram.h"
#include "telemetry/telemetry.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The two text formats, told apart in one place: Prometheus 0.0.4 and OpenMetrics 1.0. A family
 * is begun, then come its samples. */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

struct metric_label {
        const char *name; /* NULL ends a list of labels */
        const char *value;
};

struct metrics_text {
        struct bytes *out; /* borrowed */
        enum metrics_format format;
        const char *name; /* of the family: borrowed */
        enum metric_type type;
};

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

/* The name is without _total and _info; the unit, or NULL, is the name's last word. */
static void begin_family(struct metrics_text *text, const char *name, enum metric_type type,
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

/* Labels may be NULL. A value that is not a number means that it is not known: no sample. */
static void write_sample(struct metrics_text *text, const struct metric_label *labels, double value)
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

static void write_histogram(
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

static void write_end(struct metrics_text *text)
{
        if (text->format == METRICS_OPENMETRICS)
                bytes_append_text(text->out, "# EOF\n");
}

/* The rows. Of the last six members exactly one is set. */
struct metric {
        const char *name;
        enum metric_type type;
        const char *unit;
        const char *help;

        double (*of_all)(const struct metrics_source *source);
        double (*of_sink)(const struct sink_telemetry *sink);
        const struct histogram *(*histogram_of)(const struct sink_telemetry *sink);
        const char *source_path[2]; /* of the database, as the last look saw it */
        const char *sink_path[2];   /* of a sink, likewise */
        void (*write)(struct metrics_text *text, const struct metrics_source *source);
};

static const struct sink_telemetry *next_sink(
    const struct telemetry *telemetry, const struct sink_telemetry *sink)
{
        struct list *link = sink == NULL ? telemetry->sinks.next : sink->link.next;

        return link == &telemetry->sinks ? NULL : list_owner(link, struct sink_telemetry, link);
}

#define for_each_sink(sink, source)                                                                \
        for (const struct sink_telemetry *sink = next_sink((source)->telemetry, NULL);             \
             sink != NULL; sink = next_sink((source)->telemetry, sink))

/* Of a sink. */

static double in_flight(const struct sink_telemetry *sink)
{
        return (double)sink->in_flight;
}

static double window(const struct sink_telemetry *sink)
{
        return (double)sink->window;
}

static double sending(const struct sink_telemetry *sink)
{
        return (double)sink->sending;
}

static double is_owned(const struct sink_telemetry *sink)
{
        return sink->is_owned;
}

/* Not known before the relay has first seen the sink in the database. */
static double n_shards(const struct sink_telemetry *sink)
{
        return sink->n_shards > 0 ? (double)sink->n_shards : (double)NAN;
}

static double n_shards_owned(const struct sink_telemetry *sink)
{
        return sink->n_shards > 0 ? (double)sink->n_shards_owned : (double)NAN;
}

static double is_up(const struct sink_telemetry *sink)
{
        return sink->is_up;
}

static double n_slow_filters(const struct sink_telemetry *sink)
{
        return sink->n_slow_filters;
}

static double is_paused(const struct sink_telemetry *sink)
{
        return sink->is_paused;
}

static double breaker(const struct sink_telemetry *sink)
{
        return sink->breaker;
}

static double payload_bytes(const struct sink_telemetry *sink)
{
        return (double)sink->payload_bytes;
}

static double delivered_at(const struct sink_telemetry *sink)
{
        return value_seconds(sink->last_delivery_us);
}

static const struct histogram *latency(const struct sink_telemetry *sink)
{
        return &sink->latency;
}

static const struct histogram *batch(const struct sink_telemetry *sink)
{
        return &sink->batch;
}

/* With a second label, of a closed set. */

static void put(struct metrics_text *text, const struct sink_telemetry *sink, const char *label,
    const char *value, double number_)
{
        const struct metric_label labels[] = {{"sink", sink->name}, {label, value}, {NULL, NULL}};

        write_sample(text, labels, number_);
}

static void write_outcomes(struct metrics_text *text, const struct metrics_source *source)
{
        for_each_sink(sink, source) for (unsigned i = 0; i < TELEMETRY_OUTCOMES; i++)
            put(text, sink, "outcome", telemetry_outcome_name((enum telemetry_outcome)i),
                (double)sink->outcomes[i]);
}

static void write_faults(struct metrics_text *text, const struct metrics_source *source)
{
        for_each_sink(sink, source) for (unsigned i = 0; i < OUTCOME_FAULTS; i++) put(text, sink,
            "reason", telemetry_fault_name((enum outcome_fault)i), (double)sink->faults[i]);
}

static void write_redeliveries(struct metrics_text *text, const struct metrics_source *source)
{
        for_each_sink(sink, source) for (unsigned i = 0; i < REDELIVERY_CAUSES; i++)
            put(text, sink, "cause", redelivery_cause_name((enum redelivery_cause)i),
                (double)sink->redeliveries[i]);
}

static void write_states(struct metrics_text *text, const struct metrics_source *source)
{
        for_each_sink(sink, source) for (unsigned i = 0; i < SINK_STATES; i++) put(
            text, sink, "state", sink_state_name((enum sink_state)i), (unsigned)sink->state == i);
}

static void write_receivers(struct metrics_text *text, const struct metrics_source *source)
{
        static const char *const states[] = {"total", "failing", "paused", "disabled"};

        for_each_sink(sink, source) for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
            put(text, sink, "state", states[i],
                value_at_sink(source, sink, (const char *const[2]){"receivers", states[i]}));
}

/* Of one state, or of one tap. A value that is not known gives no sample. */
static void put_one(struct metrics_text *text, const char *label, const char *value,
    const json_t *number, double otherwise)
{
        const struct metric_label labels[] = {{label, value}, {NULL, NULL}};

        write_sample(text, labels, json_is_number(number) ? json_number_value(number) : otherwise);
}

static void write_taps(struct metrics_text *text, const struct metrics_source *source)
{
        static const char *const states[] = {
            "ok", "disabled", "trigger_missing", "now_a_partition", "edited", "table_gone"};
        const json_t *found = json_object_get(json_object_get(source->look, "taps"), "states");

        for (size_t i = 0; found != NULL && i < sizeof states / sizeof states[0]; i++)
                put_one(text, "state", states[i], json_object_get(found, states[i]), 0);
}

static void write_unmarked(struct metrics_text *text, const struct metrics_source *source)
{
        const json_t *taps = json_object_get(source->look, "taps"), *tap;
        size_t i;

        json_array_foreach(json_object_get(taps, "first"), i, tap)
        {
                const json_t *unmarked = json_object_get(tap, "unmarked");

                put_one(text, "tap", json_string_value(json_object_get(tap, "name")),
                    json_object_get(unmarked, "events"), NAN);
        }
}

static void write_schedules(struct metrics_text *text, const struct metrics_source *source)
{
        static const char *const states[] = {"active", "paused", "failing", "ended"};
        const json_t *found = json_object_get(json_object_get(source->look, "schedules"), "states");

        for (size_t i = 0; found != NULL && i < sizeof states / sizeof states[0]; i++)
                put_one(text, "state", states[i], json_object_get(found, states[i]), 0);
}

/* Of each schedule one value. What is not known gives no sample. */
static void put_schedules(struct metrics_text *text, const struct metrics_source *source,
    const char *member, double (*value_of)(const json_t *member))
{
        const json_t *schedules = json_object_get(source->look, "schedules"), *schedule;
        size_t i;

        json_array_foreach(json_object_get(schedules, "first"), i, schedule)
        {
                const struct metric_label labels[] = {
                    {"schedule", json_string_value(json_object_get(schedule, "name"))},
                    {NULL, NULL}};
                const json_t *value = json_object_get(schedule, member);

                write_sample(text, labels, json_is_null(value) ? NAN : value_of(value));
        }
}

static double seconds_of_time(const json_t *time)
{
        struct tm parts = {0};
        const char *end = strptime(json_string_value(time), "%Y-%m-%dT%H:%M:%S", &parts);

        return end != NULL ? (double)timegm(&parts) : NAN;
}

static void write_unsuccessful(struct metrics_text *text, const struct metrics_source *source)
{
        put_schedules(text, source, "unsuccessful_for", json_number_value);
}

static void write_next_tick(struct metrics_text *text, const struct metrics_source *source)
{
        put_schedules(text, source, "next_at", seconds_of_time);
}

static void write_period(struct metrics_text *text, const struct metrics_source *source)
{
        put_schedules(text, source, "period", json_number_value);
}

static void write_skipped(struct metrics_text *text, const struct metrics_source *source)
{
        put_schedules(text, source, "skipped", json_number_value);
}

static void write_stages(struct metrics_text *text, const struct metrics_source *source)
{
        for_each_sink(sink, source) for (unsigned i = 0; i < STAGES; i++)
        {
                const struct metric_label labels[] = {{"sink", sink->name},
                    {"stage", telemetry_stage_name((enum telemetry_stage)i)}, {NULL, NULL}};
                write_histogram(text, labels, &sink->stages[i]);
        }
}

static void write_wakeups(struct metrics_text *text, const struct metrics_source *source)
{
        for (unsigned i = 0; i < WAKEUP_CAUSES; i++) {
                const struct metric_label labels[] = {
                    {"cause", wakeup_cause_name((enum wakeup_cause)i)}, {NULL, NULL}};
                write_sample(text, labels, (double)source->telemetry->wakeups[i]);
        }
}

static void write_poll(struct metrics_text *text, const struct metrics_source *source)
{
        write_histogram(text, NULL, &source->telemetry->source.poll);
}

static void write_loop_delay(struct metrics_text *text, const struct metrics_source *source)
{
        write_histogram(text, NULL, &source->telemetry->loop_delay);
}

static void write_build(struct metrics_text *text, const struct metrics_source *source)
{
        static const struct metric_label labels[] = {{"version", PGCOURIER_VERSION}, {NULL, NULL}};

        (void)source;
        write_sample(text, labels, 1);
}

/* clang-format off */
static const struct metric metrics[] = {
    {"pgcourier_delivery_latency_seconds", METRIC_HISTOGRAM, "seconds", "From an event's created_at to its acknowledgement by the destination; without what was scheduled for later or redriven. Exact, but for the difference of the two machines' clocks.", .histogram_of = latency},
    {"pgcourier_stage_latency_seconds", METRIC_HISTOGRAM, "seconds", "Where the time goes: pickup (created to read by the relay), queue (to the attempt's start), send (to its outcome), settle (to the answer of PostgreSQL that it is written down).", .write = write_stages},
    {"pgcourier_deliveries", METRIC_COUNTER, NULL, "Attempts by how they ended; dead counts also events that were given up without one. dropped: cancelled by the relay, or answered too late; the event is delivered again.", .write = write_outcomes},
    {"pgcourier_delivery_errors", METRIC_COUNTER, NULL, "Attempts that failed, and events given up for their size, by what was at fault.", .write = write_faults},
    {"pgcourier_redeliveries", METRIC_COUNTER, NULL, "Possible duplicates. An upper bound of what this process knows: deliveries of another relay just before it died are not included.", .write = write_redeliveries},
    {"pgcourier_payload_bytes", METRIC_COUNTER, NULL, "Payload of delivered events.", .of_sink = payload_bytes},
    {"pgcourier_batch_events", METRIC_HISTOGRAM, NULL, "Events for the sink in a page that was read from the outbox; empty pages do not count.", .histogram_of = batch},
    {"pgcourier_last_delivery_timestamp_seconds", METRIC_GAUGE, "seconds", "When the last event was delivered by this process.", .of_sink = delivered_at},

    {"pgcourier_backlog_events", METRIC_GAUGE, NULL, "Events not yet delivered. Exact while they are few, an estimate above some thousand.", .sink_path = {"backlog", "events"}},
    {"pgcourier_oldest_event_age_seconds", METRIC_GAUGE, "seconds", "Age of the oldest undelivered event; 0 without any. Exact.", .sink_path = {"backlog", "oldest_age"}},
    {"pgcourier_retrying_events", METRIC_GAUGE, NULL, "Events that failed and are tried again. Counted up to 10000.", .sink_path = {"retrying"}},
    {"pgcourier_blocked_events", METRIC_GAUGE, NULL, "Events that wait behind a failed one of their key. Counted up to 10000.", .sink_path = {"blocked"}},
    {"pgcourier_delayed_events", METRIC_GAUGE, NULL, "Events scheduled for later. Counted up to 10000.", .sink_path = {"delayed"}},
    {"pgcourier_dead_letters", METRIC_GAUGE, NULL, "Dead letters that have not been redriven or dropped. Counted up to 10000.", .sink_path = {"dead"}},
    {"pgcourier_sink_holds_outbox", METRIC_GAUGE, NULL, "1 if the outbox keeps its oldest expired partition because the sink needs it.", .sink_path = {"holds_outbox"}},
    {"pgcourier_receivers", METRIC_GAUGE, NULL, "Receivers of a sink that fans out, in all and by state.", .write = write_receivers},
    {"pgcourier_slow_filters", METRIC_GAUGE, NULL, "Filters of the sink and of its receivers that were slow when last evaluated. A filter that was given up does not count: it disables the receiver, or pauses the sink.", .of_sink = n_slow_filters},

    {"pgcourier_inflight_events", METRIC_GAUGE, NULL, "Events in memory that are not settled yet.", .of_sink = in_flight},
    {"pgcourier_inflight_limit", METRIC_GAUGE, NULL, "The limit of events in memory: max_in_flight, for all receivers together.", .of_sink = window},
    {"pgcourier_attempts_in_flight", METRIC_GAUGE, NULL, "Attempts that the destination has not answered yet.", .of_sink = sending},
    {"pgcourier_leader", METRIC_GAUGE, NULL, "1 if this relay delivers to the sink, or to some of its shards.", .of_sink = is_owned},
    {"pgcourier_sink_shards", METRIC_GAUGE, NULL, "The shards of the sink.", .of_sink = n_shards},
    {"pgcourier_relay_shards", METRIC_GAUGE, NULL, "The shards of the sink that this relay owns.", .of_sink = n_shards_owned},
    {"pgcourier_sink_up", METRIC_GAUGE, NULL, "1 if this relay delivers to the sink and considers its destination up.", .of_sink = is_up},
    {"pgcourier_sink_paused", METRIC_GAUGE, NULL, "1 if the sink is paused, by an operator or by the relay because the destination refuses it.", .of_sink = is_paused},
    {"pgcourier_circuit_state", METRIC_GAUGE, NULL, "0 closed, 1 half open, 2 open; of several receivers the best.", .of_sink = breaker},
    {"pgcourier_sink_state", METRIC_GAUGE, NULL, "1 for the state that the sink is in, 0 for the others.", .write = write_states},

    {"pgcourier_marks", METRIC_COUNTER, NULL, "Events whose row in an attached table this process has marked (or found marked, or gone).", .of_all = value_marked},
    {"pgcourier_attempts_lost", METRIC_COUNTER, NULL, "Attempts whose record could not be written. Their events are not lost.", .of_all = value_attempts_lost},
    {"pgcourier_marks_failed", METRIC_COUNTER, NULL, "Marks that a table refused, each time. Locks do not count.", .of_all = value_marks_failed},
    {"pgcourier_marks_waiting", METRIC_GAUGE, NULL, "Events that wait for their mark: for a sink that has not passed them, or for another try. Counted up to 10000.", .of_all = value_marks_waiting},
    {"pgcourier_marks_dead", METRIC_GAUGE, NULL, "Marks that were given up and have not been redriven or dropped. Counted up to 10000.", .of_all = value_marks_dead},
    {"pgcourier_marks_lag_seconds", METRIC_GAUGE, "seconds", "Age of the oldest event of an attached table that is not marked; 0 without any.", .of_all = value_marks_lag},

    {"pgcourier_relay_members", METRIC_GAUGE, NULL, "The relays that are members of this database and live.", .of_all = value_members},
    {"pgcourier_ready", METRIC_GAUGE, NULL, "1 while the relay is connected to a schema that it knows; as /readyz.", .of_all = value_is_ready},
    {"pgcourier_source_up", METRIC_GAUGE, NULL, "1 while the relay is connected to PostgreSQL.", .of_all = value_is_source_up},
    {"pgcourier_source_reconnects", METRIC_COUNTER, NULL, "Times that the connection to PostgreSQL was lost and came back.", .of_all = value_reconnects},
    {"pgcourier_source_poll_seconds", METRIC_HISTOGRAM, "seconds", "From asking PostgreSQL for a page of events to its arrival.", .write = write_poll},
    {"pgcourier_wakeups", METRIC_COUNTER, NULL, "Looks for new events: notify (a writer rang), poll (it was time to, as no writer would ring), timer (the sweep), control (an operator changed something).", .write = write_wakeups},
    {"pgcourier_notify_queue_usage_ratio", METRIC_GAUGE, "ratio", "How full PostgreSQL's queue of notifications is, of all databases of the cluster.", .source_path = {"notify_queue_usage"}},
    {"pgcourier_source_oldest_xmin_age_seconds", METRIC_GAUGE, "seconds", "How long any session has held the oldest snapshot. It holds back vacuum, not deliveries; 0 without any.", .of_all = value_oldest_xmin},
    {"pgcourier_outbox_bytes", METRIC_GAUGE, "bytes", "The outbox on disk, with its indexes.", .source_path = {"outbox_bytes"}},
    {"pgcourier_outbox_dead_tuples", METRIC_GAUGE, NULL, "Dead rows of the outbox. An estimate of PostgreSQL's.", .source_path = {"outbox_dead_tuples"}},
    {"pgcourier_outbox_partitions", METRIC_GAUGE, NULL, "Partitions of the outbox.", .source_path = {"outbox_partitions"}},
    {"pgcourier_outbox_held_bytes", METRIC_GAUGE, "bytes", "Partitions of the outbox that are older than outbox.retention and stay, because they are still needed.", .source_path = {"retention", "held_bytes"}},
    {"pgcourier_outbox_held_seconds", METRIC_GAUGE, "seconds", "For how long the first of them has stayed beyond outbox.retention; 0 without any.", .source_path = {"retention", "held_for"}},
    {"pgcourier_outbox_lost_events", METRIC_GAUGE, NULL, "Events dropped by outbox.retention_max in the last 24 hours before a sink had them.", .source_path = {"retention", "lost_events"}},
    {"pgcourier_outbox_default_bytes", METRIC_GAUGE, "bytes", "Rows in the default partition: of ids that no partition was made for in time.", .source_path = {"retention", "default_bytes"}},
    {"pgcourier_foreign_locks", METRIC_GAUGE, NULL, "Advisory locks of the relays that another program holds, which keeps the relays from working.", .of_all = value_foreign_locks},
    {"pgcourier_orphaned_cursors", METRIC_GAUGE, NULL, "Sinks that have a place in the outbox and are in no running relay's configuration: they keep events from being removed.", .of_all = value_orphans},

    {"pgcourier_taps", METRIC_GAUGE, NULL, "Attached and captured tables, by state. Those that are disabled, without trigger or now a partition do not publish what is written.", .write = write_taps},
    {"pgcourier_tap_unmarked_events", METRIC_GAUGE, NULL, "Events of a tap whose rows in its table are still to be marked or deleted. Counted up to 10000 of all taps together, the oldest.", .write = write_unmarked},

    {"pgcourier_schedules", METRIC_GAUGE, NULL, "Recurring events, by state; failing: the event of a tick cannot be published.", .write = write_schedules},
    {"pgcourier_schedule_unsuccessful_seconds", METRIC_GAUGE, "seconds", "Since the last of the schedule's events was published that every sink has delivered, of its last 12; without any since it was made. None if it is paused or has ended.", .write = write_unsuccessful},
    {"pgcourier_schedule_next_tick_timestamp_seconds", METRIC_GAUGE, "seconds", "The next tick of the schedule; none if it is paused or has ended.", .write = write_next_tick},
    {"pgcourier_schedule_period_seconds", METRIC_GAUGE, "seconds", "From the last tick of the schedule to its next.", .write = write_period},
    {"pgcourier_schedule_skipped_ticks", METRIC_GAUGE, NULL, "Ticks that were left out, because the event of the tick before was not delivered yet.", .write = write_skipped},

    {"pgcourier_event_loop_delay_seconds", METRIC_HISTOGRAM, "seconds", "How long one turn of the event loop kept all others waiting.", .write = write_loop_delay},
    {"pgcourier_config_last_reload_successful", METRIC_GAUGE, NULL, "0 if the last reload failed and the configuration before it is still in force.", .of_all = value_is_reload_ok},
    {"pgcourier_config_last_reload_success_timestamp_seconds", METRIC_GAUGE, "seconds", "When the configuration that is in force was read.", .of_all = value_loaded_at},
    {"pgcourier_build", METRIC_INFO, NULL, "The version.", .write = write_build},

    {"process_cpu_seconds", METRIC_COUNTER, "seconds", "CPU time of the process, user and system.", .of_all = value_cpu},
    {"process_resident_memory_bytes", METRIC_GAUGE, "bytes", "Memory of the process that is in RAM.", .of_all = value_resident},
    {"process_virtual_memory_bytes", METRIC_GAUGE, "bytes", "Address space of the process.", .of_all = value_virtual_memory},
    {"process_open_fds", METRIC_GAUGE, NULL, "Open file descriptors.", .of_all = value_open_fds},
    {"process_max_fds", METRIC_GAUGE, NULL, "Maximum number of open file descriptors.", .of_all = value_max_fds},
    {"process_start_time_seconds", METRIC_GAUGE, "seconds", "When the process started.", .of_all = value_started_at},
};
/* clang-format on */

static void write_metric(
    struct metrics_text *text, const struct metric *metric, const struct metrics_source *source)
{
        begin_family(text, metric->name, metric->type, metric->unit, metric->help);
        if (metric->of_all != NULL) {
                write_sample(text, NULL, metric->of_all(source));
                return;
        }
        if (metric->source_path[0] != NULL) {
                write_sample(text, NULL, value_at_source(source, metric->source_path));
                return;
        }
        if (metric->write != NULL) {
                metric->write(text, source);
                return;
        }
        for_each_sink(sink, source)
        {
                const struct metric_label labels[] = {{"sink", sink->name}, {NULL, NULL}};
                if (metric->histogram_of != NULL)
                        write_histogram(text, labels, metric->histogram_of(sink));
                else
                        write_sample(text, labels,
                            metric->of_sink != NULL
                                ? metric->of_sink(sink)
                                : value_at_sink(source, sink, metric->sink_path));
        }
}

void metrics_write(struct bytes *out, enum metrics_format format, const struct telemetry *telemetry,
    const json_t *look)
{
        struct metrics_source source = {.telemetry = telemetry, .look = look};
        struct metrics_text text = {.out = out, .format = format};

        process_stats_read(&source.process);
        for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
                write_metric(&text, &metrics[i], &source);
        write_end(&text);
}

const char *metrics_name(size_t i)
{
        return i < sizeof metrics / sizeof metrics[0] ? metrics[i].name : NULL;
}

enum metrics_format metrics_format_for(const char *accept)
{
        return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL
                   ? METRICS_OPENMETRICS
                   : METRICS_PROMETHEUS;
}

const char *metrics_content_type(enum metrics_format format)
{
        return format == METRICS_OPENMETRICS
                   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                   : "text/plain; version=0.0.4; charset=utf-8";
}

/* The text of the metrics, in both formats. */
#include "admin/metrics/metrics.h"
#include "telemetry/telemetry.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define WALL   (INT64_C(1800000000) * SECOND)

static const char look_text[] =
    "{\"source\": {\"notify_queue_usage\": 0.25, \"outbox_bytes\": 8192, \"oldest_xmin\": null,"
    "   \"retention\": {\"held_bytes\": 4096, \"held_for\": 60.5, \"lost_events\": 6,"
    "     \"default_bytes\": 0}},"
    " \"sinks\": {\"billing\": {\"backlog\": {\"events\": 7, \"oldest_age\": 1.5}, \"dead\": 2,"
    "   \"holds_outbox\": true,"
    "   \"receivers\": {\"total\": 3, \"failing\": 1}}},"
    " \"taps\": {\"states\": {\"ok\": 2, \"disabled\": 1}, \"first\": ["
    "   {\"name\": \"outbox\", \"unmarked\": {\"events\": 12, \"is_exact\": true}},"
    "   {\"name\": \"orders\", \"unmarked\": null}]},"
    " \"schedules\": {\"states\": {\"active\": 1, \"paused\": 1}, \"first\": ["
    "   {\"name\": \"a \\\"b\\\"\", \"next_at\": \"2026-11-28T06:30:00.000Z\", \"period\": 60.5,"
    "    \"unsuccessful_for\": 12.5, \"skipped\": 3},"
    "   {\"name\": \"off\", \"next_at\": null, \"period\": null, \"unsuccessful_for\": null,"
    "    \"skipped\": 0}]},"
    " \"relays\": [{\"name\": \"web1\"}, {\"name\": \"web2\"}],"
    " \"orphans\": [{\"sink\": \"old\"}]}";

static struct telemetry *telemetry;
static struct sink_telemetry *billing, *odd;

static void see(struct sink_telemetry *sink, enum telemetry_outcome outcome,
    enum outcome_fault fault, int64_t latency_us)
{
        const struct event event = {
            .id = 1, .topic = "t", .payload_bytes = 100, .created_us = WALL + SECOND - latency_us};
        const struct attempt_seen seen = {.outcome = outcome,
            .fault = fault,
            .words = outcome == TELEMETRY_DELIVERED ? NULL : "no",
            .event = &event,
            .attempt = 1,
            .arrived_us = 10,
            .started_us = 20,
            .now_us = SECOND};

        telemetry_see_attempt(sink, &seen);
}

static void make(void)
{
        telemetry = telemetry_create(0, WALL);
        billing = telemetry_open_sink(telemetry, "billing", "redis", 0);
        odd = telemetry_open_sink(telemetry, "a\"b\\c\nd", "http", 0);
        see(billing, TELEMETRY_DELIVERED, OUTCOME_FAULT_OTHER, 400);
        see(billing, TELEMETRY_DELIVERED, OUTCOME_FAULT_OTHER, 1000);
        see(billing, TELEMETRY_DELIVERED, OUTCOME_FAULT_OTHER, 400 * SECOND);
        see(billing, TELEMETRY_RETRY, OUTCOME_FAULT_HTTP_5XX, 0);
        telemetry_see_page(billing, (const struct event[3]){0}, 3, NULL, SECOND);
        telemetry_see_wakeup(telemetry, WAKEUP_BY_NOTIFY);
        billing->n_shards = 8;
        billing->n_shards_owned = 3;
}

static void drop(void)
{
        telemetry_close_sink(billing);
        telemetry_close_sink(odd);
        telemetry_destroy(telemetry);
}

static char *write_as(enum metrics_format format, const char *look)
{
        struct bytes out = {0};
        json_t *document = look != NULL ? json_loads(look, 0, NULL) : NULL;

        metrics_write(&out, format, telemetry, document);
        json_decref(document);
        return out.data;
}

static void expect_line(const char *text, const char *line)
{
        char whole[512];

        snprintf(whole, sizeof whole, "\n%s\n", line);
        cr_expect(strstr(text, whole) != NULL, "there is no line %s", line);
}

TestSuite(metrics, .init = make, .fini = drop);

Test(metrics, counts_and_sums_up_buckets)
{
        char *text = write_as(METRICS_PROMETHEUS, look_text);

        expect_line(text, "# TYPE pgcourier_deliveries_total counter");
        expect_line(text, "pgcourier_deliveries_total{sink=\"billing\",outcome=\"delivered\"} 3");
        expect_line(text, "pgcourier_deliveries_total{sink=\"billing\",outcome=\"retry\"} 1");
        expect_line(
            text, "pgcourier_delivery_errors_total{sink=\"billing\",reason=\"http_5xx\"} 1");
        expect_line(text, "pgcourier_payload_bytes_total{sink=\"billing\"} 300");
        expect_line(text, "# TYPE pgcourier_delivery_latency_seconds histogram");
        expect_line(
            text, "pgcourier_delivery_latency_seconds_bucket{sink=\"billing\",le=\"0.0005\"} 1");
        expect_line(
            text, "pgcourier_delivery_latency_seconds_bucket{sink=\"billing\",le=\"0.001\"} 2");
        expect_line(
            text, "pgcourier_delivery_latency_seconds_bucket{sink=\"billing\",le=\"300\"} 2");
        expect_line(
            text, "pgcourier_delivery_latency_seconds_bucket{sink=\"billing\",le=\"+Inf\"} 3");
        expect_line(text, "pgcourier_delivery_latency_seconds_sum{sink=\"billing\"} 400.0014");
        expect_line(text, "pgcourier_delivery_latency_seconds_count{sink=\"billing\"} 3");
        expect_line(text, "pgcourier_wakeups_total{cause=\"notify\"} 1");
        expect_line(text, "pgcourier_build_info{version=\"0.1.0\"} 1");
        expect_line(text, "pgcourier_sink_state{sink=\"billing\",state=\"starting\"} 1");
        expect_line(text, "pgcourier_sink_shards{sink=\"billing\"} 8");
        expect_line(text, "pgcourier_relay_shards{sink=\"billing\"} 3");
        cr_expect_null(strstr(text, "# EOF"));
        cr_expect_null(strstr(text, "# UNIT"));
        free(text);
}

Test(metrics, takes_values_from_the_database_that_only_it_has)
{
        char *text = write_as(METRICS_PROMETHEUS, look_text);

        expect_line(text, "pgcourier_backlog_events{sink=\"billing\"} 7");
        expect_line(text, "pgcourier_oldest_event_age_seconds{sink=\"billing\"} 1.5");
        expect_line(text, "pgcourier_dead_letters{sink=\"billing\"} 2");
        expect_line(text, "pgcourier_receivers{sink=\"billing\",state=\"failing\"} 1");
        expect_line(text, "pgcourier_notify_queue_usage_ratio 0.25");
        expect_line(text, "pgcourier_source_oldest_xmin_age_seconds 0");
        expect_line(text, "pgcourier_orphaned_cursors 1");
        expect_line(text, "pgcourier_relay_members 2");
        expect_line(text, "pgcourier_taps{state=\"ok\"} 2");
        expect_line(text, "pgcourier_taps{state=\"disabled\"} 1");
        expect_line(text, "pgcourier_taps{state=\"table_gone\"} 0");
        expect_line(text, "pgcourier_tap_unmarked_events{tap=\"outbox\"} 12");
        cr_expect_null(strstr(text, "tap=\"orders\""), "none of its rows are marked");
        expect_line(text, "pgcourier_schedules{state=\"active\"} 1");
        expect_line(text, "pgcourier_schedules{state=\"failing\"} 0");
        expect_line(text,
            "pgcourier_schedule_next_tick_timestamp_seconds{schedule=\"a \\\"b\\\"\"} 1795847400");
        expect_line(text, "pgcourier_schedule_period_seconds{schedule=\"a \\\"b\\\"\"} 60.5");
        expect_line(text, "pgcourier_schedule_unsuccessful_seconds{schedule=\"a \\\"b\\\"\"} 12.5");
        expect_line(text, "pgcourier_schedule_skipped_ticks{schedule=\"off\"} 0");
        cr_expect_null(strstr(text, "period_seconds{schedule=\"off\"}"), "it does not tick");
        expect_line(text, "pgcourier_outbox_held_bytes 4096");
        expect_line(text, "pgcourier_outbox_held_seconds 60.5");
        expect_line(text, "pgcourier_outbox_lost_events 6");
        expect_line(text, "pgcourier_outbox_default_bytes 0");
        expect_line(text, "pgcourier_sink_holds_outbox{sink=\"billing\"} 1");
        cr_expect_null(strstr(text, "pgcourier_sink_holds_outbox{sink=\"a"));
        free(text);
}

Test(metrics, leaves_out_values_that_are_not_known)
{
        char *text = write_as(METRICS_PROMETHEUS, NULL);

        expect_line(text, "# TYPE pgcourier_backlog_events gauge");
        cr_expect_null(strstr(text, "\npgcourier_backlog_events{"));
        cr_expect_null(strstr(text, "\npgcourier_outbox_bytes "));
        cr_expect_null(strstr(text, "\npgcourier_orphaned_cursors "));
        cr_expect_null(strstr(text, "\npgcourier_relay_members "));
        cr_expect_null(strstr(text, "\npgcourier_relay_shards{sink=\"a"));
        cr_expect_null(strstr(text, "\npgcourier_sink_shards{sink=\"a"));
        cr_expect_null(strstr(text, "\npgcourier_source_oldest_xmin_age_seconds "));
        cr_expect_null(strstr(text, "\npgcourier_last_delivery_timestamp_seconds{sink=\"a"));
        cr_expect_null(strstr(text, "nan"));
        free(text);
}

Test(metrics, are_openmetrics_for_clients_that_ask_for_it)
{
        char *text = write_as(METRICS_OPENMETRICS, look_text);

        expect_line(text, "# TYPE pgcourier_deliveries counter");
        expect_line(text, "pgcourier_deliveries_total{sink=\"billing\",outcome=\"delivered\"} 3");
        expect_line(text, "# UNIT pgcourier_delivery_latency_seconds seconds");
        expect_line(
            text, "pgcourier_delivery_latency_seconds_bucket{sink=\"billing\",le=\"1.0\"} 2");
        expect_line(text, "# TYPE pgcourier_build info");
        cr_expect_str_eq(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
        free(text);

        cr_expect_eq(metrics_format_for("application/openmetrics-text;version=1.0.0;q=0.5,*/*"),
            METRICS_OPENMETRICS);
        cr_expect_eq(metrics_format_for("text/plain"), METRICS_PROMETHEUS);
        cr_expect_eq(metrics_format_for(NULL), METRICS_PROMETHEUS);
}

Test(metrics, escape_what_a_label_may_hold)
{
        char *text = write_as(METRICS_PROMETHEUS, NULL);

        expect_line(text, "pgcourier_sink_up{sink=\"a\\\"b\\\\c\\nd\"} 0");
        free(text);
}

static void expect_approval(const char *command, enum metrics_format format)
{
        char *text = write_as(format, look_text);
        FILE *judge = popen(command, "w");

        cr_assert_not_null(judge);
        fputs(text, judge);
        cr_expect_eq(pclose(judge), 0, "objects, or is not there: %s", command);
        free(text);
}

/* Exposition and naming, by the tools of those who read them. */
Test(metrics, please_promtool)
{
        expect_approval("promtool check metrics 2>&1", METRICS_PROMETHEUS);
}

Test(metrics, please_the_strict_reader_of_openmetrics)
{
        expect_approval(
            "/usr/bin/python3 -c 'import sys; from prometheus_client.openmetrics import parser;"
            " list(parser.text_fd_to_metric_families(sys.stdin))' 2>&1",
            METRICS_OPENMETRICS);
}

static bool is_metric(const char *name)
{
        for (size_t i = 0; metrics_name(i) != NULL; i++)
                if (strcmp(metrics_name(i), name) == 0)
                        return true;
        return false;
}

/* Each metric has a row in a table of docs/metrics.md, and no row is of anything else. */
Test(metrics, are_documented_each_and_no_others)
{
        FILE *file = fopen(PGCOURIER_DOCS_FOLDER "/metrics.md", "r");
        size_t n_metrics = 0, n_rows = 0;
        char line[2048], name[128];

        cr_assert_not_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
                char *end;
                if (sscanf(line, "| `%127[a-z_]", name) != 1 ||
                    (strncmp(name, "pgcourier_", 10) != 0 && strncmp(name, "process_", 8) != 0))
                        continue;
                n_rows++;
                /* As people query them: with the endings that the text adds. */
                end = strstr(name, "_total");
                if (end == NULL)
                        end = strstr(name, "_info");
                if (end != NULL)
                        *end = '\0';
                cr_expect(is_metric(name), "docs/metrics.md has %s, which is no metric", name);
        }
        fclose(file);
        while (metrics_name(n_metrics) != NULL)
                n_metrics++;
        cr_expect_eq(
            n_rows, n_metrics, "%zu metrics, and %zu in docs/metrics.md", n_metrics, n_rows);
}

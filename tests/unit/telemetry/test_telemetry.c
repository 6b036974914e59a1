/* What is counted, and what is told of it. */
#include "base/utf8.h"
#include "telemetry/telemetry.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define MS     INT64_C(1000)
#define SECOND INT64_C(1000000)
#define WALL   (INT64_C(1800000000) * SECOND)

static struct telemetry *telemetry;
static struct sink_telemetry *sink;

static void make(void)
{
        telemetry = telemetry_create(0, WALL);
        sink = telemetry_open_sink(telemetry, "billing", "redis", 0);
}

static void drop(void)
{
        telemetry_close_sink(sink);
        telemetry_destroy(telemetry);
}

static void see(
    enum telemetry_outcome outcome, const char *words, int64_t latency_us, int64_t now_us)
{
        const struct event event = {.id = now_us,
            .event_id = "0b4b3c1e-9d0c-4a53-a3a5-8d5a1e0b2f01",
            .topic = "orders",
            .key = "k\n1",
            .payload_bytes = 10,
            .created_us = WALL + now_us - latency_us};
        const struct attempt_seen seen = {.outcome = outcome,
            .fault = OUTCOME_FAULT_TIMEOUT,
            .words = words,
            .event = &event,
            .attempt = 1,
            .arrived_us = now_us - 3 * MS,
            .started_us = now_us - 2 * MS,
            .now_us = now_us};

        telemetry_see_attempt(sink, &seen);
}

static void deliver(int64_t latency_us, int64_t now_us)
{
        see(TELEMETRY_DELIVERED, NULL, latency_us, now_us);
}

static unsigned bucket_of(int64_t value)
{
        struct histogram histogram;
        unsigned i = 0;

        histogram_init(&histogram, &histogram_times);
        histogram_add(&histogram, value);
        while (histogram.counts[i] == 0)
                i++;
        return i;
}

Test(histogram, has_each_bound_in_its_own_bucket_and_what_is_above_in_the_next)
{
        cr_expect_eq(bucket_of(0), 0);
        cr_expect_eq(bucket_of(-5), 0);
        for (unsigned i = 0; i < histogram_times.n_bounds; i++) {
                cr_expect_eq(bucket_of(histogram_times.bounds[i] - 1), i);
                cr_expect_eq(bucket_of(histogram_times.bounds[i]), i);
                cr_expect_eq(bucket_of(histogram_times.bounds[i] + 1), i + 1);
        }
        cr_expect_eq(bucket_of(INT64_MAX), histogram_times.n_bounds);
}

Test(histogram, knows_quantiles_to_an_eighth)
{
        for (int64_t value = 1; value < INT64_C(1) << 39; value = value * 3 / 2 + 1) {
                struct log_histogram histogram = {.n_values = 0};
                struct histogram ignored;
                histogram_init(&ignored, &histogram_times);
                histogram_add_both(&ignored, &histogram, value);
                cr_expect_leq(fabs(log_histogram_quantile(&histogram, 0.5) - (double)value),
                    (double)value / 8, "%lld", (long long)value);
        }
}

Test(histogram, finds_the_share_of_many)
{
        struct log_histogram a = {.n_values = 0}, b = {.n_values = 0};
        struct histogram ignored;

        histogram_init(&ignored, &histogram_times);
        cr_expect_lt(log_histogram_quantile(&a, 0.5), 0);
        for (int64_t value = 1; value <= 1000; value++)
                histogram_add_both(&ignored, value % 2 == 0 ? &a : &b, value * 1000);
        log_histogram_merge(&a, &b);
        cr_expect_eq(a.n_values, 1000);
        cr_expect_lt(fabs(log_histogram_quantile(&a, 0.5) - 500000), 500000 / 8.0);
        cr_expect_lt(fabs(log_histogram_quantile(&a, 0.99) - 990000), 990000 / 8.0);
        cr_expect_lt(fabs(log_histogram_quantile(&a, 0.001) - 1000), 1000 / 8.0);
}

TestSuite(telemetry, .init = make, .fini = drop);

Test(telemetry, counts_each_outcome_and_times_each_attempt)
{
        deliver(10 * MS, SECOND);
        see(TELEMETRY_RETRY, "no answer", 10 * MS, SECOND);
        see(TELEMETRY_DROPPED, NULL, 10 * MS, SECOND);

        cr_expect_eq(sink->outcomes[TELEMETRY_DELIVERED], 1);
        cr_expect_eq(sink->outcomes[TELEMETRY_RETRY], 1);
        cr_expect_eq(sink->outcomes[TELEMETRY_DROPPED], 1);
        cr_expect_eq(sink->faults[OUTCOME_FAULT_TIMEOUT], 1);
        cr_expect_eq(sink->payload_bytes, 10);
        cr_expect_eq(sink->latency.n_values, 1);
        cr_expect_eq(sink->latency.sum, 10 * MS);
        cr_expect_eq(sink->stages[STAGE_QUEUE].sum, 2 * MS, "of two");
        cr_expect_eq(sink->stages[STAGE_SEND].sum, 4 * MS);
        cr_expect_eq(sink->last_delivery_us, WALL + SECOND);
}

Test(telemetry, leaves_delayed_events_out_of_the_latency)
{
        const struct event event = {.topic = "t", .created_us = WALL - 3600 * SECOND};
        const struct event redriven = {
            .topic = "t", .created_us = WALL - 3600 * SECOND, .is_redriven = true};
        struct attempt_seen seen = {.outcome = TELEMETRY_DELIVERED,
            .event = &event,
            .attempt = 1,
            .is_scheduled = true,
            .now_us = SECOND};

        telemetry_see_attempt(sink, &seen);
        seen.is_scheduled = false;
        seen.event = &redriven;
        telemetry_see_attempt(sink, &seen);
        cr_expect_eq(sink->latency.n_values, 0);
        cr_expect_eq(sink->outcomes[TELEMETRY_DELIVERED], 2);
        cr_expect_eq(sink->redeliveries[REDELIVERY_REPLAY], 1);
}

Test(telemetry, takes_a_fault_that_it_does_not_know_for_other)
{
        const struct event event = {.topic = "t"};
        struct attempt_seen seen = {.outcome = TELEMETRY_RETRY,
            .fault = (enum outcome_fault)OUTCOME_FAULTS,
            .words = "?",
            .event = &event,
            .now_us = SECOND};

        telemetry_see_attempt(sink, &seen);
        memset(&seen.fault, 0xff, sizeof seen.fault);
        telemetry_see_attempt(sink, &seen);
        cr_expect_eq(sink->faults[OUTCOME_FAULT_OTHER], 2);
}

Test(telemetry, remembers_the_last_error_in_words_that_can_be_shown)
{
        see(TELEMETRY_RETRY, "first", MS, SECOND);
        see(TELEMETRY_SINK_DOWN, "gone\x1b[31m\nred \xff", MS, 2 * SECOND);
        deliver(MS, 3 * SECOND);
        cr_expect_eq(sink->last_error.at_us, WALL + 2 * SECOND);
        cr_expect_eq(sink->last_error.outcome, TELEMETRY_SINK_DOWN);
        cr_expect_eq(sink->last_error.fault, OUTCOME_FAULT_TIMEOUT);
        cr_expect_str_eq(sink->last_error.words, "gone\\x1b[31m\\nred ?");
}

Test(telemetry, cuts_text_at_whole_characters)
{
        char text[8];

        utf8_show(text, sizeof text, "12345\xc3\xa4xyz");
        cr_expect_str_eq(text, "12345\xc3\xa4");
        utf8_show(text, sizeof text, "123456\xc3\xa4");
        cr_expect_str_eq(text, "123456");
        utf8_show(text, sizeof text, "12345\n6");
        cr_expect_str_eq(text, "12345\\n");
        utf8_show(text, sizeof text,
            "a\xc2\x9b"
            "b");
        cr_expect_str_eq(text, "a\\x9bb");
        utf8_show(text, sizeof text, "\xed\xa0\x80\xc3");
        cr_expect_str_eq(text, "????");
        utf8_show(text, sizeof text, NULL);
        cr_expect_str_eq(text, "");
}

Test(telemetry, counts_the_last_minute_and_forgets_earlier_ones)
{
        struct last_minute minute;

        for (int64_t i = 0; i < 100; i++)
                deliver(i < 90 ? 2 * MS : 200 * MS, i * SECOND / 100);
        minutes_last_minute(&sink->minutes, 10 * SECOND, &minute);
        cr_expect_lt(fabs(minute.rate - 10), 0.01);
        cr_expect_lt(fabs(minute.latency.p50 - 0.002), 0.00025);
        cr_expect_lt(fabs(minute.latency.p99 - 0.2), 0.025);
        cr_expect_lt(fabs(minute.stages[STAGE_SEND].p50 - 0.002), 0.00025);
        cr_expect_lt(minute.stages[STAGE_SETTLE].p50, 0, "nothing is known of it");

        minutes_last_minute(&sink->minutes, 59 * SECOND, &minute);
        cr_expect_gt(minute.rate, 1.6);
        minutes_last_minute(&sink->minutes, 61 * SECOND, &minute);
        cr_expect_eq(minute.rate, 0);
        cr_expect_lt(minute.latency.p50, 0);
}

static void series_at(int64_t now_us, struct minutes_step *steps)
{
        minutes_series(&sink->minutes, now_us, steps);
}

Test(telemetry, draws_the_last_five_minutes_in_steps_of_five_seconds)
{
        struct minutes_step steps[MINUTES_STEPS];

        deliver(2 * MS, SECOND);
        telemetry_set_backlog(sink, 7, 1.5, 0.5, 2 * SECOND);
        series_at(4 * SECOND, steps);
        cr_expect_eq(steps[59].rate, 0, "the running step is not over");
        cr_expect_eq(steps[59].backlog, MINUTES_UNKNOWN);

        series_at(6 * SECOND, steps);
        cr_expect_lt(fabs(steps[59].rate - 0.2), 0.001);
        cr_expect_lt(fabs(steps[59].latency.p50 - 0.002), 0.00025);
        cr_expect_eq(steps[59].backlog, 7);
        cr_expect_lt(steps[58].latency.p50, 0);
        cr_expect_eq(sink->oldest_age_s, 1.5);
        cr_expect_eq(sink->overdue_s, 0.5);

        series_at(16 * SECOND, steps);
        cr_expect_gt(steps[57].rate, 0);
        cr_expect_eq(steps[59].rate, 0);
        cr_expect_eq(steps[59].backlog, 7, "it stands until it is set again");

        series_at(304 * SECOND, steps);
        cr_expect_gt(steps[0].rate, 0);
        series_at(306 * SECOND, steps);
        for (unsigned i = 0; i < MINUTES_STEPS; i++)
                cr_expect_eq(steps[i].rate, 0);
}

Test(telemetry, goes_on_after_a_long_time_without_news)
{
        struct minutes_step steps[MINUTES_STEPS];
        struct last_minute minute;

        for (int64_t i = 0; i < 400; i++)
                deliver(2 * MS, i * SECOND);
        telemetry_set_backlog(sink, 7, 1.5, 0.5, 400 * SECOND);
        for (unsigned i = 0; i < 2 * MINUTES_STEPS; i++) {
                int64_t now_us = (1000000 + i * 100007) * SECOND;
                deliver(8 * MS, now_us);
                minutes_last_minute(&sink->minutes, now_us, &minute);
                cr_expect_lt(fabs(minute.latency.p50 - 0.008), 0.001);
                cr_expect_lt(minute.rate, 0.02);
                series_at(now_us + 5 * SECOND, steps);
                cr_expect_lt(fabs(steps[59].rate - 0.2), 0.001);
                cr_expect_eq(steps[59].backlog, 7);
                for (unsigned step = 0; step < 59; step++)
                        cr_expect_eq(steps[step].rate, 0);
        }
}

Test(telemetry, shows_all_recent_deliveries_while_they_are_few)
{
        const struct recent *recent = &telemetry->recent;
        const struct recent_delivery *newest;

        for (int64_t i = 0; i < 250; i++)
                deliver(MS, i * 50 * MS);
        cr_expect_eq(recent_count(recent), RECENT_MAX);
        cr_expect_eq(recent->n_left_out, 0);
        newest = recent_get(recent, 0);
        cr_expect_eq(newest->id, 249 * 50 * MS);
        cr_expect_eq(recent_get(recent, 99)->id, 150 * 50 * MS);
        cr_expect_str_eq(newest->sink, "billing");
        cr_expect_str_eq(newest->topic, "orders");
        cr_expect_str_eq(newest->key, "k\\n1");
        cr_expect_str_eq(newest->event_id, "0b4b3c1e-9d0c-4a53-a3a5-8d5a1e0b2f01");
        cr_expect_eq(newest->latency_us, MS);
        cr_expect_eq(newest->at_us, WALL + 249 * 50 * MS);
}

static unsigned n_heard;

static void on_noted(void *owner, const struct recent_delivery *delivery)
{
        cr_expect_eq(owner, telemetry);
        cr_expect_eq(delivery->outcome, TELEMETRY_RETRY);
        n_heard++;
}

Test(telemetry, leaves_out_good_deliveries_rather_than_failed_ones)
{
        for (int64_t i = 0; i < 1000; i++)
                deliver(MS, SECOND + i);
        cr_expect_eq(recent_count(&telemetry->recent), RECENT_GOOD_PER_S);
        cr_expect_eq(telemetry->recent.n_left_out, 1000 - RECENT_GOOD_PER_S);
        telemetry_listen(telemetry, on_noted, telemetry);
        for (int64_t i = 0; i < 50; i++)
                see(TELEMETRY_RETRY, "no", MS, SECOND + 1000 + i);
        cr_expect_eq(n_heard, 50);
        telemetry_listen(telemetry, NULL, NULL);
        see(TELEMETRY_RETRY, "no", MS, SECOND + 2000);
        cr_expect_eq(n_heard, 50);
        cr_expect_eq(recent_count(&telemetry->recent), RECENT_GOOD_PER_S + 51);
}

Test(telemetry, goes_on_counting_for_a_sink_that_is_replaced_and_forgets_one_that_is_gone)
{
        struct sink_telemetry *next;

        deliver(MS, SECOND);
        next = telemetry_open_sink(telemetry, "billing", "http", 2 * SECOND);
        cr_expect_eq(next, sink);
        cr_expect_str_eq(sink->kind, "http");
        telemetry_close_sink(sink);
        cr_expect_eq(telemetry_find_sink(telemetry, "billing"), next);
        cr_expect_eq(next->outcomes[TELEMETRY_DELIVERED], 1);
        telemetry_close_sink(next);
        cr_expect_null(telemetry_find_sink(telemetry, "billing"));
        sink = telemetry_open_sink(telemetry, "billing", "redis", 3 * SECOND);
        cr_expect_eq(sink->outcomes[TELEMETRY_DELIVERED], 0);
}

Test(telemetry, has_the_sinks_in_the_order_of_their_names)
{
        struct sink_telemetry *z = telemetry_open_sink(telemetry, "z", "http", 0);
        struct sink_telemetry *a = telemetry_open_sink(telemetry, "a", "http", 0);

        cr_expect_eq(telemetry->sinks.next, &a->link);
        cr_expect_eq(a->link.next, &sink->link);
        cr_expect_eq(sink->link.next, &z->link);
        telemetry_close_sink(a);
        telemetry_close_sink(z);
}

Test(telemetry, knows_since_when_a_state_lasts)
{
        telemetry_set_state(sink, SINK_DOWN, "refused", SECOND);
        telemetry_set_state(sink, SINK_DOWN, "timed out", 5 * SECOND);
        cr_expect_eq(sink->state_since_us, WALL + SECOND);
        cr_expect_str_eq(sink->state_reason, "timed out");
        telemetry_set_state(sink, SINK_RUNNING, "", 9 * SECOND);
        cr_expect_eq(sink->state_since_us, WALL + 9 * SECOND);
}

Test(telemetry, counts_a_reconnect_when_it_is_back)
{
        telemetry_see_source_up(telemetry);
        telemetry_see_source_up(telemetry);
        cr_expect_eq(telemetry->source.reconnects, 0);
        telemetry_see_source_down(telemetry, "the server closed the connection\n");
        telemetry_see_source_down(telemetry, "refused");
        cr_expect_eq(telemetry->source.reconnects, 0);
        cr_expect_str_eq(telemetry->source.error, "refused");
        telemetry_see_source_up(telemetry);
        cr_expect_eq(telemetry->source.reconnects, 1);
        cr_expect_str_eq(telemetry->source.error, "");
}

Test(telemetry, follows_changes_of_the_wall_clock)
{
        telemetry_see_turn(telemetry, 9 * SECOND, 10 * SECOND, WALL + 3600 * SECOND);
        cr_expect_eq(telemetry_wall_us(telemetry, 11 * SECOND), WALL + 3601 * SECOND);
        cr_expect_eq(telemetry->loop_delay.sum, SECOND);
}

Test(telemetry, tells_how_the_last_reload_went)
{
        telemetry_see_reload(telemetry, "line 3: no such key", 5 * SECOND);
        cr_expect_not(telemetry->config.is_last_reload_ok);
        cr_expect_eq(telemetry->config.loaded_us, WALL);
        telemetry_see_reload(telemetry, NULL, 6 * SECOND);
        cr_expect(telemetry->config.is_last_reload_ok);
        cr_expect_eq(telemetry->config.loaded_us, WALL + 6 * SECOND);
        cr_expect_str_eq(telemetry->config.error, "");
}

#include "telemetry/telemetry.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct sink_telemetry *sink_of_link(struct list *link)
{
        return list_owner(link, struct sink_telemetry, link);
}

struct telemetry *telemetry_create(int64_t now_us, int64_t wall_us)
{
        struct telemetry *telemetry = xcalloc(1, sizeof *telemetry);

        list_init(&telemetry->sinks);
        telemetry->started_us = wall_us;
        telemetry->wall_minus_us = wall_us - now_us;
        telemetry->config.loaded_us = wall_us;
        telemetry->config.is_last_reload_ok = true;
        histogram_init(&telemetry->source.poll, &histogram_times);
        histogram_init(&telemetry->loop_delay, &histogram_times);
        telemetry_set_ready(telemetry, "starting");
        telemetry_see_source_down(telemetry, "not connected yet");
        return telemetry;
}

void telemetry_destroy(struct telemetry *telemetry)
{
        assert(telemetry == NULL || list_is_empty(&telemetry->sinks));
        free(telemetry);
}

static struct sink_telemetry *make_sink(
    struct telemetry *telemetry, const char *name, const char *kind, int64_t now_us)
{
        struct sink_telemetry *sink = xcalloc(1, sizeof *sink);

        sink->telemetry = telemetry;
        sink->name = xstrdup(name);
        sink->kind = xstrdup(kind);
        histogram_init(&sink->latency, &histogram_times);
        for (unsigned stage = 0; stage < STAGES; stage++)
                histogram_init(&sink->stages[stage], &histogram_times);
        histogram_init(&sink->batch, &histogram_events);
        minutes_init(&sink->minutes, now_us);
        sink->state = SINK_STARTING;
        sink->state_since_us = telemetry_wall_us(telemetry, now_us);
        sink->oldest_age_s = -1;
        sink->overdue_s = -1;
        return sink;
}

static void insert_by_name(struct telemetry *telemetry, struct sink_telemetry *sink)
{
        struct list *place = telemetry->sinks.next;

        while (place != &telemetry->sinks && strcmp(sink_of_link(place)->name, sink->name) < 0)
                place = place->next;
        list_insert_before(place, &sink->link);
}

struct sink_telemetry *telemetry_open_sink(
    struct telemetry *telemetry, const char *name, const char *kind, int64_t now_us)
{
        struct sink_telemetry *sink = telemetry_find_sink(telemetry, name);

        if (sink == NULL) {
                sink = make_sink(telemetry, name, kind, now_us);
                insert_by_name(telemetry, sink);
        } else if (strcmp(sink->kind, kind) != 0) {
                free(sink->kind);
                sink->kind = xstrdup(kind);
        }
        sink->n_references++;
        return sink;
}

void telemetry_set_target(struct sink_telemetry *sink, char *target)
{
        free(sink->target);
        sink->target = target;
}

void telemetry_close_sink(struct sink_telemetry *sink)
{
        if (sink == NULL || --sink->n_references > 0)
                return;
        list_remove(&sink->link);
        free(sink->name);
        free(sink->kind);
        free(sink->target);
        free(sink);
}

struct sink_telemetry *telemetry_find_sink(const struct telemetry *telemetry, const char *name)
{
        for (struct list *link = telemetry->sinks.next; link != &telemetry->sinks;
             link = link->next)
                if (strcmp(sink_of_link(link)->name, name) == 0)
                        return sink_of_link(link);
        return NULL;
}

void telemetry_refresh(struct telemetry *telemetry, int64_t now_us)
{
        if (telemetry->on_refresh != NULL)
                telemetry->on_refresh(telemetry->owner, now_us);
}

int64_t telemetry_wall_us(const struct telemetry *telemetry, int64_t now_us)
{
        return telemetry->wall_minus_us + now_us;
}

void telemetry_see_turn(
    struct telemetry *telemetry, int64_t began_us, int64_t now_us, int64_t wall_us)
{
        telemetry->wall_minus_us = wall_us - now_us;
        histogram_add(&telemetry->loop_delay, now_us - began_us);
}

void telemetry_see_wakeup(struct telemetry *telemetry, enum wakeup_cause cause)
{
        telemetry->wakeups[cause]++;
}

void telemetry_see_source_up(struct telemetry *telemetry)
{
        if (telemetry->source.was_up && !telemetry->source.is_up)
                telemetry->source.reconnects++;
        telemetry->source.is_up = true;
        telemetry->source.was_up = true;
        telemetry->source.error[0] = '\0';
        telemetry->source.login_refused_us = 0;
}

void telemetry_see_login(struct telemetry *telemetry, bool is_refused, int64_t now_us)
{
        if (!is_refused)
                telemetry->source.login_refused_us = 0;
        else if (telemetry->source.login_refused_us == 0)
                telemetry->source.login_refused_us = telemetry_wall_us(telemetry, now_us);
}

void telemetry_see_source_down(struct telemetry *telemetry, const char *words)
{
        telemetry->source.is_up = false;
        telemetry->source.filters_error[0] = '\0';
        utf8_show(telemetry->source.error, sizeof telemetry->source.error, words);
}

void telemetry_see_filters(struct telemetry *telemetry, const char *words, int64_t now_us)
{
        char *error = telemetry->source.filters_error;

        if (words == NULL) {
                error[0] = '\0';
                return;
        }
        if (error[0] == '\0')
                telemetry->source.filters_since_us = telemetry_wall_us(telemetry, now_us);
        utf8_show(error, sizeof telemetry->source.filters_error, words);
}

void telemetry_see_marks(
    struct telemetry *telemetry, uint64_t n_marked, uint64_t n_failed, uint64_t n_dead)
{
        telemetry->marks.marked += n_marked;
        telemetry->marks.failed += n_failed;
        telemetry->marks.dead += n_dead;
}

void telemetry_see_marks_failing(struct telemetry *telemetry, const char *words, int64_t now_us)
{
        char *error = telemetry->marks.error;

        if (words == NULL) {
                error[0] = '\0';
                return;
        }
        if (error[0] == '\0')
                telemetry->marks.failing_since_us = telemetry_wall_us(telemetry, now_us);
        utf8_show(error, sizeof telemetry->marks.error, words);
}

bool telemetry_see_attempts_lost(
    struct telemetry *telemetry, uint64_t n_attempts, const char *words, int64_t now_us)
{
        char reason[sizeof telemetry->attempts_lost.reason];

        telemetry->attempts_lost.n += n_attempts;
        utf8_show(reason, sizeof reason, words);
        if (telemetry->attempts_lost.told_us != 0 &&
            now_us - telemetry->attempts_lost.told_us < 60 * INT64_C(1000000) &&
            strcmp(reason, telemetry->attempts_lost.reason) == 0)
                return false;
        telemetry->attempts_lost.told_us = now_us;
        strcpy(telemetry->attempts_lost.reason, reason);
        return true;
}

void telemetry_see_poll(struct telemetry *telemetry, int64_t took_us)
{
        histogram_add(&telemetry->source.poll, took_us);
}

void telemetry_see_reload(struct telemetry *telemetry, const char *error, int64_t now_us)
{
        telemetry->config.last_reload_us = telemetry_wall_us(telemetry, now_us);
        telemetry->config.is_last_reload_ok = error == NULL;
        if (error == NULL)
                telemetry->config.loaded_us = telemetry->config.last_reload_us;
        utf8_show(telemetry->config.error, sizeof telemetry->config.error, error);
}

void telemetry_set_ready(struct telemetry *telemetry, const char *why_not)
{
        telemetry->is_ready = why_not == NULL;
        utf8_show(telemetry->not_ready, sizeof telemetry->not_ready, why_not);
}

void telemetry_listen(struct telemetry *telemetry, recent_noted_fn *on_noted, void *owner)
{
        telemetry->recent.on_noted = on_noted;
        telemetry->recent.owner = owner;
}

/* The closed sets, in the words of metrics, logs and the status document. */

const char *telemetry_outcome_name(enum telemetry_outcome outcome)
{
        switch (outcome) {
        case TELEMETRY_DELIVERED:
                return "delivered";
        case TELEMETRY_RETRY:
                return "retry";
        case TELEMETRY_DEAD:
                return "dead";
        case TELEMETRY_DROPPED:
                return "dropped";
        case TELEMETRY_SINK_DOWN:
                return "sink_down";
        }
        abort();
}

const char *sink_state_name(enum sink_state state)
{
        switch (state) {
        case SINK_STARTING:
                return "starting";
        case SINK_RUNNING:
                return "running";
        case SINK_STANDBY:
                return "standby";
        case SINK_PAUSED:
                return "paused";
        case SINK_REFUSED:
                return "refused";
        case SINK_DOWN:
                return "down";
        case SINK_STALLED:
                return "stalled";
        case SINK_DRAINING:
                return "draining";
        case SINK_DISCONNECTED:
                return "disconnected";
        }
        abort();
}

const char *redelivery_cause_name(enum redelivery_cause cause)
{
        switch (cause) {
        case REDELIVERY_CRASH:
                return "crash";
        case REDELIVERY_TIMEOUT:
                return "timeout";
        case REDELIVERY_REPLAY:
                return "replay";
        }
        abort();
}

const char *telemetry_stage_name(enum telemetry_stage stage)
{
        switch (stage) {
        case STAGE_PICKUP:
                return "pickup";
        case STAGE_QUEUE:
                return "queue";
        case STAGE_SEND:
                return "send";
        case STAGE_SETTLE:
                return "settle";
        }
        abort();
}

const char *wakeup_cause_name(enum wakeup_cause cause)
{
        switch (cause) {
        case WAKEUP_BY_NOTIFY:
                return "notify";
        case WAKEUP_BY_POLL:
                return "poll";
        case WAKEUP_BY_TIMER:
                return "timer";
        case WAKEUP_BY_CONTROL:
                return "control";
        }
        abort();
}

const char *telemetry_fault_name(enum outcome_fault fault)
{
        switch (fault) {
        case OUTCOME_FAULT_OTHER:
                return "other";
        case OUTCOME_FAULT_TIMEOUT:
                return "timeout";
        case OUTCOME_FAULT_LOST:
                return "lost";
        case OUTCOME_FAULT_REFUSED:
                return "refused";
        case OUTCOME_FAULT_DNS:
                return "dns";
        case OUTCOME_FAULT_TLS:
                return "tls";
        case OUTCOME_FAULT_AUTH:
                return "auth";
        case OUTCOME_FAULT_HTTP_4XX:
                return "http_4xx";
        case OUTCOME_FAULT_HTTP_429:
                return "http_429";
        case OUTCOME_FAULT_HTTP_5XX:
                return "http_5xx";
        case OUTCOME_FAULT_SMTP_4XX:
                return "smtp_4xx";
        case OUTCOME_FAULT_SMTP_5XX:
                return "smtp_5xx";
        case OUTCOME_FAULT_REDIS:
                return "redis";
        case OUTCOME_FAULT_PROTOCOL:
                return "protocol";
        case OUTCOME_FAULT_TOO_LARGE:
                return "too_large";
        case OUTCOME_FAULT_EVENT:
                return "event";
        case OUTCOME_FAULT_NATS:
                return "nats";
        case OUTCOME_FAULT_AMQP:
                return "amqp";
        case OUTCOME_FAULT_POSTGRES:
                return "postgres";
        case OUTCOME_FAULT_KAFKA:
                return "kafka";
        }
        abort();
}

#include "relay/retention_timer.h"

#include "base/alloc.h"
#include "log/log.h"
#include "loop/timer.h"
#include "operator/maintenance.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_MS 30000

/* A partition stays held for long: logged when that begins, and each hour. */
#define ROUNDS_PER_REPORT 120

struct retention_timer {
        struct maintenance *maintenance; /* owned */
        struct timer *round;             /* owned */
        struct retention_timer_events events;
        void *owner; /* borrowed */
        unsigned n_rounds;
        char *held_by;   /* owned; as last logged, of the oldest held partition; NULL: none */
        bool is_held;    /* any is, in this round */
        bool is_refused; /* this round's credentials were wrong, and may have changed */
};

static void on_round(void *owner)
{
        struct retention_timer *retention_timer = owner;

        if (!retention_timer->is_held || retention_timer->n_rounds % ROUNDS_PER_REPORT == 0) {
                free(retention_timer->held_by);
                retention_timer->held_by = NULL;
        }
        retention_timer->is_held = false;
        retention_timer->is_refused = false;
        retention_timer->n_rounds++;
        maintenance_run(retention_timer->maintenance);
        timer_arm(retention_timer->round, ROUND_MS);
}

static int64_t number(const char *const *columns, enum maintenance_column column)
{
        return strtoll(columns[column], NULL, 10);
}

/* The oldest comes first, and what holds it holds the others, too, or nearly all. */
static void report_held(struct retention_timer *retention_timer, const char *const *columns)
{
        const char *held_by = columns[MAINTENANCE_HELD_BY];
        bool is_first = !retention_timer->is_held;

        retention_timer->is_held = true;
        if (!is_first ||
            (retention_timer->held_by != NULL && strcmp(retention_timer->held_by, held_by) == 0))
                return;
        free(retention_timer->held_by);
        retention_timer->held_by = xstrdup(held_by);
        log_warn("retention_held", kv_text("partition", columns[MAINTENANCE_PARTITION]),
            kv_int("bytes", number(columns, MAINTENANCE_BYTES)), kv_text("by", held_by));
}

static void on_news(void *owner, const char *const *columns)
{
        const char *action = columns[MAINTENANCE_ACTION];
        int64_t first_id = number(columns, MAINTENANCE_LOWER);
        int64_t last_id = number(columns, MAINTENANCE_UPPER) - 1;

        if (strcmp(action, "held") == 0)
                report_held(owner, columns);
        else if (strcmp(action, "lost") == 0)
                log_error("events_lost", kv_text("sink", columns[MAINTENANCE_SINK]),
                    kv_int("events", number(columns, MAINTENANCE_EVENTS)),
                    kv_int("first_id", first_id), kv_int("last_id", last_id),
                    kv_text("reason", "outbox.retention_max was over before the sink had them"));
        else if (strcmp(action, "waits") == 0)
                log_debug("partitions_wait",
                    kv_text("for", "a moment in which no transaction publishes"));
        else if (strcmp(action, "stray") == 0)
                log_warn("outbox_default_stays",
                    kv_text("reason", "it holds events whose ids were not drawn in order"),
                    kv_int("bytes", number(columns, MAINTENANCE_BYTES)));
        else
                log_info(strcmp(action, "made") == 0      ? "partition_made"
                         : strcmp(action, "emptied") == 0 ? "partition_emptied"
                                                          : "partition_dropped",
                    kv_text("partition", columns[MAINTENANCE_PARTITION]),
                    kv_int("first_id", first_id), kv_int("last_id", last_id),
                    kv_text("bytes",
                        columns[MAINTENANCE_BYTES][0] != '\0' ? columns[MAINTENANCE_BYTES] : NULL));
}

static void on_failed(void *owner, const struct error *error)
{
        struct retention_timer *retention_timer = owner;

        retention_timer->is_refused =
            error->kind == ERROR_LOGIN &&
            retention_timer->events.on_login_refused(retention_timer->owner);
        if (!retention_timer->is_refused)
                log_warn("maintenance_failed", kv_text("error", error->text));
}

struct retention_timer *retention_timer_create(uv_loop_t *loop, const struct config *config,
    const struct retention_timer_events *retention_timer_events, void *owner)
{
        static const struct maintenance_events events = {
            .on_news = on_news, .on_failed = on_failed};
        struct retention_timer *retention_timer = xcalloc(1, sizeof *retention_timer);

        retention_timer->events = *retention_timer_events;
        retention_timer->owner = owner;
        retention_timer->round = timer_create_on(loop, on_round, retention_timer);
        retention_timer->maintenance = maintenance_create(loop, config, &events, retention_timer);
        return retention_timer;
}

void retention_timer_configure(
    struct retention_timer *retention_timer, const struct postgres_config *config)
{
        maintenance_configure(retention_timer->maintenance, config);
        if (retention_timer->is_refused)
                maintenance_run(retention_timer->maintenance);
        retention_timer->is_refused = false;
}

void retention_timer_destroy(struct retention_timer *retention_timer)
{
        if (retention_timer == NULL)
                return;
        maintenance_destroy(retention_timer->maintenance);
        timer_destroy(retention_timer->round);
        free(retention_timer->held_by);
        free(retention_timer);
}

void retention_timer_start(struct retention_timer *retention_timer)
{
        if (!timer_is_armed(retention_timer->round))
                timer_arm(retention_timer->round, 0);
}

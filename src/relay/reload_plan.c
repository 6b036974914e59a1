#include "relay/reload_plan.h"

#include "base/alloc.h"
#include "config/compare.h"
#include "log/log.h"

#include <stdlib.h>
#include <string.h>

static int find_sink(const struct config *config, const char *name)
{
        for (unsigned i = 0; i < config->n_sinks; i++)
                if (strcmp(config->sinks[i].name, name) == 0)
                        return (int)i;
        return -1;
}

static void plan_sink(struct reload_plan *plan, const struct config *old, const struct config *new,
    unsigned i, const bool *only)
{
        const struct sink_config *sink = &new->sinks[i];
        int before = find_sink(old, sink->name);

        plan->predecessors[i] = before;
        if (before < 0) {
                plan->changes[i] = SINK_ADDED;
                plan->n_added++;
                return;
        }
        plan->is_removed[before] = false;
        plan->n_removed--;
        if ((only != NULL && !only[i]) ||
            (!plan->reopens && sink_configs_are_equal(&old->sinks[before], sink))) {
                plan->changes[i] = SINK_UNCHANGED;
                plan->n_unchanged++;
        } else {
                plan->changes[i] = SINK_CHANGED;
                plan->n_changed++;
        }
}

void reload_plan_init(
    struct reload_plan *plan, const struct config *old, const struct config *new, const bool *only)
{
        *plan = (struct reload_plan){.changes = xcalloc(new->n_sinks + 1, sizeof *plan->changes),
            .predecessors = xcalloc(new->n_sinks + 1, sizeof *plan->predecessors),
            .is_removed = xcalloc(old->n_sinks + 1, sizeof *plan->is_removed),
            /* A session begins with LISTEN, or without. */
            .reopens =
                only == NULL && (!postgres_configs_are_equal(&old->postgres, &new->postgres) ||
                                    old->relay.wakeup != new->relay.wakeup),
            .n_removed = old->n_sinks};
        for (unsigned i = 0; i < old->n_sinks; i++)
                plan->is_removed[i] = true;
        for (unsigned i = 0; i < new->n_sinks; i++)
                plan_sink(plan, old, new, i, only);
}

void reload_plan_deinit(struct reload_plan *plan)
{
        free(plan->changes);
        free(plan->predecessors);
        free(plan->is_removed);
        *plan = (struct reload_plan){0};
}

bool reload_plan_is_filter_new(
    const struct reload_plan *plan, const struct config *old, const struct config *new, unsigned i)
{
        const char *filter = new->sinks[i].filter;
        int before = plan->predecessors[i];

        if (filter == NULL || plan->changes[i] == SINK_UNCHANGED)
                return false;
        return before < 0 || old->sinks[before].filter == NULL ||
               strcmp(old->sinks[before].filter, filter) != 0;
}

static void add_name(struct bytes *names, const char *name)
{
        if (names->length > 0)
                bytes_append_text(names, ",");
        bytes_append_text(names, name);
}

char *reload_plan_name_new(
    const struct reload_plan *plan, const struct config *new, enum sink_change change)
{
        struct bytes names = {0};

        for (unsigned i = 0; i < new->n_sinks; i++)
                if (plan->changes[i] == change)
                        add_name(&names, new->sinks[i].name);
        return names.data;
}

char *reload_plan_name_removed(const struct reload_plan *plan, const struct config *old)
{
        struct bytes names = {0};

        for (unsigned i = 0; i < old->n_sinks; i++)
                if (plan->is_removed[i])
                        add_name(&names, old->sinks[i].name);
        return names.data;
}

/* Other relays may serve it still. */
static bool is_left_to_others(const struct config *new, const char *sink)
{
        for (unsigned i = new->n_sinks; i < new->n_sinks + new->n_unserved; i++)
                if (strcmp(new->sinks[i].name, sink) == 0)
                        return true;
        return false;
}

void reload_plan_log(
    const struct reload_plan *plan, const struct config *old, const struct config *new)
{
        for (unsigned i = 0; i < new->n_sinks; i++)
                if (plan->changes[i] == SINK_ADDED)
                        log_info("sink_added", kv_text("sink", new->sinks[i].name));
                else if (plan->changes[i] == SINK_CHANGED)
                        log_info("sink_changed", kv_text("sink", new->sinks[i].name));
        for (unsigned i = 0; i < old->n_sinks; i++)
                if (plan->is_removed[i])
                        log_warn("sink_removed", kv_text("sink", old->sinks[i].name),
                            kv_text("hint",
                                is_left_to_others(new, old->sinks[i].name)
                                    ? "relay.sinks leaves it to other relays"
                                    : "its cursor stays, and the events behind it are kept for it, "
                                      "until `pgcourier cursor drop` removes it"));
}

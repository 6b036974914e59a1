/*
 * What differs between the configuration in force and one that is to replace it.
 */
#pragma once

#include "base/bytes.h"
#include "config/config.h"

#include <stdbool.h>

enum sink_change { SINK_UNCHANGED, SINK_CHANGED, SINK_ADDED };

struct reload_plan {
        enum sink_change *changes; /* owned; for each sink of the new one */
        int *predecessors;         /* owned; its index in the old one, or -1 */
        bool *is_removed;          /* owned; for each sink of the old one */
        bool reopens; /* there will be another session, and so every sink is replaced */
        unsigned n_unchanged, n_changed, n_added, n_removed;
};

/* `only`: of two configurations of the same text, the sinks that are compared; NULL: everything
 * is. */
void reload_plan_init(
    struct reload_plan *plan, const struct config *old, const struct config *new, const bool *only);
void reload_plan_deinit(struct reload_plan *plan);

/* Sink `i` of the new one has a filter that the old one of its name did not have. */
bool reload_plan_is_filter_new(
    const struct reload_plan *plan, const struct config *old, const struct config *new, unsigned i);

/* The names of the sinks with this change, or that were removed: "a,b", or NULL for none. Free
 * it. */
char *reload_plan_name_new(
    const struct reload_plan *plan, const struct config *new, enum sink_change change);
char *reload_plan_name_removed(const struct reload_plan *plan, const struct config *old);

/* Logs what becomes of each sink. */
void reload_plan_log(
    const struct reload_plan *plan, const struct config *old, const struct config *new);

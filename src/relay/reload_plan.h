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
        int *predecessors;         /* owned; where it stands in the old one, or -1 */
        bool *is_removed;          /* owned; for each sink of the old one */
        bool reopens; /* the session is to be another one, and so every sink makes way for itself */
        unsigned n_unchanged, n_changed, n_added, n_removed;
};

/* `only`: which sinks are looked at, of two configurations of the same text; NULL: everything is. */
void reload_plan_init(
    struct reload_plan *plan, const struct config *old, const struct config *new, const bool *only);
void reload_plan_deinit(struct reload_plan *plan);

/* "a,b", or NULL for none; of those that changed, were added, or were removed. Free them. */
char *reload_plan_name_new(
    const struct reload_plan *plan, const struct config *new, enum sink_change change);
char *reload_plan_name_removed(const struct reload_plan *plan, const struct config *old);

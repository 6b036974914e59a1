/*
 * Paused sinks: rows of courier.pause.
 *
 * Known to the pure core, so no libpq here.
 */
#pragma once

#include <stddef.h>

enum pause_by {
        PAUSED_BY_OPERATOR, /* until it is resumed */
        PAUSED_BY_RELAY,    /* the destination refuses us, and is tried now and then */
};

struct pause {
        const char *sink;
        enum pause_by by;
        const char *reason; /* NULL if none was given */
};

struct pause_list {
        size_t n_pauses;
        struct pause *pauses; /* in order of sink and by */
};

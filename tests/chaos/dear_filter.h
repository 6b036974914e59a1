/*
 * A customer who now and then gives the receiver "choosy" a filter that takes very long for
 * ordinary events. Whatever the filter, it holds for each of our events: with enough time the
 * receiver gets them all. Nothing of its own is to be missing, but for dead letters that name the
 * filter, and no other receiver is to notice anything.
 */
#pragma once

#include "chaos/checker.h"

#include <libpq-fe.h>

enum { DEAR_FILTER_NONE = -1, N_DEAR_FILTERS = 6 };

struct dear_filter {
        int wanted;               /* which, or DEAR_FILTER_NONE; set by the caller */
        int known;                /* the one that the row is known to have */
        struct chaos_span *spans; /* when it might be asked; owned */
        size_t n_spans;
        unsigned n_disabled;  /* how often the receiver was found disabled */
        char bad_reason[200]; /* of a disabled one, without the filter; "": none */
};

void dear_filter_init(struct dear_filter *filter);
void dear_filter_deinit(struct dear_filter *filter);

/* What the receiver has at first, and in between. */
extern const char ordinary_filter[];

bool dear_filter_is_as_wanted(const struct dear_filter *filter);

/* Tries to have it as wanted. Who goes back to the ordinary one activates the receiver too. */
void dear_filter_see_to(struct dear_filter *filter, PGconn *admin);

/* Whether each time that the receiver was disabled was told of as it should be. False: *words, of
 * n_bytes, says what is wrong. */
bool dear_filter_is_told_of(
    const struct dear_filter *filter, PGconn *admin, char *words, size_t n_bytes);

/*
 * Warnings and errors that repeat: of the same event, sink and reason the first
 * few of a minute are written, the others counted, and told in one line when the
 * minute is over. Another reason is another matter, and never counted with it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LOG_FOLD_FREE = 10, LOG_FOLD_MATTERS = 64 };
#define LOG_FOLD_WINDOW_US (INT64_C(60) * 1000 * 1000)

struct log_fold {
        struct log_matter {
                uint64_t hash;
                int level;
                const char *event; /* a literal; NULL: free */
                char sink[128];
                char reason[256];
                unsigned n_seen, n_folded;
                int64_t since_us; /* the first that was seen */
                int64_t first_us; /* the first and last that were not written */
                int64_t last_us;
        } matters[LOG_FOLD_MATTERS];
};

/* True: it is to be written. `sink` and `reason` may be NULL. */
bool log_fold_passes(struct log_fold *fold, int level, const char *event, const char *sink,
    const char *reason, int64_t now_us);

/* One whose minute is over, now free again; NULL: there is none. Its texts are valid until the next
 * call. `is_end`: whatever is left. */
const struct log_matter *log_fold_next_over(struct log_fold *fold, int64_t now_us, bool is_end);

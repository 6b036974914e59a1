#include "log/log_fold.h"

#include "base/hash.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* libcurl says how long it tried: "after 12 ms" is no other reason than "after 9 ms". */
static size_t duration_length(const char *at)
{
        size_t n_digits = strspn(at, "0123456789");

        return n_digits > 0 && strncmp(at + n_digits, " ms", 3) == 0 ? n_digits + 3 : 0;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
        for (const char *at = text != NULL ? text : ""; *at != '\0'; at++) {
                size_t skipped =
                    at == text || !isdigit((unsigned char)at[-1]) ? duration_length(at) : 0;
                if (skipped > 0)
                        at += skipped - 1;
                else
                        hash = hash_byte(hash, (unsigned char)*at);
        }
        return hash_byte(hash, 0xff); /* where one text ends and the next begins */
}

static struct log_matter *find(struct log_fold *fold, uint64_t hash, const char *event)
{
        for (int i = 0; i < LOG_FOLD_MATTERS; i++)
                if (fold->matters[i].event != NULL && fold->matters[i].hash == hash &&
                    strcmp(fold->matters[i].event, event) == 0)
                        return &fold->matters[i];
        return NULL;
}

/* A free place, or that of one that has nothing to tell; NULL: there is none. */
static struct log_matter *find_place(struct log_fold *fold, int64_t now_us)
{
        for (int i = 0; i < LOG_FOLD_MATTERS; i++) {
                struct log_matter *matter = &fold->matters[i];
                if (matter->event == NULL ||
                    (matter->n_folded == 0 && now_us - matter->since_us >= LOG_FOLD_WINDOW_US))
                        return matter;
        }
        return NULL;
}

bool log_fold_passes(struct log_fold *fold, int level, const char *event, const char *sink,
    const char *reason, int64_t now_us)
{
        uint64_t hash = add_text(add_text(add_text(HASH_START, event), sink), reason);
        struct log_matter *matter = find(fold, hash, event);

        if (matter == NULL) {
                matter = find_place(fold, now_us);
                if (matter == NULL)
                        return true; /* too many to remember: better said than lost */
                *matter = (struct log_matter){
                    .hash = hash, .level = level, .event = event, .since_us = now_us};
                snprintf(matter->sink, sizeof matter->sink, "%s", sink != NULL ? sink : "");
                snprintf(matter->reason, sizeof matter->reason, "%s", reason != NULL ? reason : "");
        }
        if (matter->n_folded == 0 && now_us - matter->since_us >= LOG_FOLD_WINDOW_US) {
                matter->n_seen = 0;
                matter->since_us = now_us;
        }
        if (matter->n_seen++ < LOG_FOLD_FREE)
                return true;
        if (matter->n_folded++ == 0)
                matter->first_us = now_us;
        matter->last_us = now_us;
        return false;
}

const struct log_matter *log_fold_next_over(struct log_fold *fold, int64_t now_us, bool is_end)
{
        static struct log_matter over;

        for (int i = 0; i < LOG_FOLD_MATTERS; i++) {
                struct log_matter *matter = &fold->matters[i];
                if (matter->event == NULL || matter->n_folded == 0 ||
                    (!is_end && now_us - matter->since_us < LOG_FOLD_WINDOW_US))
                        continue;
                over = *matter;
                matter->event = NULL;
                return &over;
        }
        return NULL;
}

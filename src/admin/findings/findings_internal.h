/* One finding in the making, and the words that all of them use. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>
#include <stddef.h>

enum findings_level { ATTENTION_ERROR, ATTENTION_WARNING, ATTENTION_NOTE, N_ATTENTION_LEVELS };

/* "error", "warning", "note" */
const char *findings_level_name(enum findings_level level);

/* What a button beside it does. */
enum findings_action { ACTION_NONE, ACTION_RESUME, ACTION_DEAD, ACTION_BLOCKED, ACTION_RELOAD };

struct finding {
        const char *kind; /* and so the id: "kind:sink", or the kind alone */
        enum findings_level level;
        const char *sink; /* NULL: it concerns all of them */
        double lasts_s;   /* negative: not known */
        struct bytes title, why, remedy, command;
        enum findings_action action;
};

struct findings {
        const json_t *status;
        json_t *list;
};

/* To be filled, and then added. */
struct finding finding_of(enum findings_level level, const char *kind, const char *sink);

/* Takes what the finding holds. */
void findings_add(struct findings *findings, struct finding *finding);

void findings_add_sinks(struct findings *findings);
void findings_add_keys(struct findings *findings);
void findings_add_retention(struct findings *findings);
void findings_add_taps(struct findings *findings);
void findings_add_schedules(struct findings *findings);
void findings_add_marks(struct findings *findings);

/* One sentence more: with a full stop, unless it is empty. */
void sentence_append(struct bytes *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "pgcourier WORD… -c PATH", quoted for a shell; up to the NULL. The file's name is left out
 * where it is not known: the command that asks has named the database in another way. */
void command_append(struct findings *findings, struct bytes *command, ...)
    __attribute__((sentinel));

/* "psql -h ADDRESS -p PORT -d DATABASE -c SQL", as far as the server says where it is. */
void psql_append(struct findings *findings, struct bytes *command, const char *sql);

/* How many bytes of it are at most `max`, and end with a whole character: for %.*s. */
int text_up_to(const char *text, int max);

/* "1,500 events", "1 event". */
struct counted {
        char text[96];
};
struct counted words_counted(double n, const char *one, const char *many);

/* "3 events and 1 parked delivery wait, the oldest for 12 s". */
void waiting_append(struct bytes *text, const json_t *sink);

const json_t *status_get(const json_t *object, const char *name);
const char *status_text(const json_t *object, const char *name); /* "" where there is none */
double status_number(const json_t *object, const char *name);    /* 0 where there is none */

/* From a time to the document's own, or the other way round: 0 if it is the wrong way, negative if
 * either is not known. */
double seconds_since(const struct findings *findings, const char *time);
double seconds_until(const struct findings *findings, const char *time);

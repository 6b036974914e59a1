/*
 * The lines of a crontab, as cron(8) reads them: five fields, or @daily and the like, then a
 * command. What the times mean is left to courier.parse_cron().
 */
#pragma once

#include <stdbool.h>

struct crontab {
        char *text;      /* owned */
        char *rest;      /* of it */
        bool has_users;  /* a user stands before each command: /etc/crontab */
        unsigned number; /* of the line that was read last */
        char *time_zone; /* owned; of the last CRON_TZ, NULL: none */
};

/* Owned; freed by crontab_line_deinit(). */
struct crontab_line {
        char *times;   /* NULL: it is no job, and `note` says why it is left out */
        char *command; /* not empty; with \% as % */
        char *note;    /* what of the line is left out; may be NULL if it is a job */
};

/* Copies the text, which ends with NUL. */
void crontab_init(struct crontab *crontab, const char *text, bool has_users);
void crontab_deinit(struct crontab *crontab);

/* The next line that is neither empty nor a comment nor CRON_TZ. False: there is none. */
bool crontab_next(struct crontab *crontab, struct crontab_line *out_line);
void crontab_line_deinit(struct crontab_line *line);

/* A real mail server for tests: aiosmtpd, run by smtp_receiver.py, which documents its scripts. */
#pragma once

#include "support/process.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct smtp_receiver {
        struct process process;
        uint16_t port;
        char *mailbox;  /* path of its JSON lines */
        char *commands; /* path of the commands it was given, one a line */
        char *log;      /* path of what it printed */
};

/* Chooses a port and paths; nothing listens yet. */
void smtp_receiver_init(struct smtp_receiver *receiver);
void smtp_receiver_deinit(struct smtp_receiver *receiver); /* stops it if it runs */

/* Starts it, again if need be, and waits until it listens. `options` are further arguments of
 * smtp_receiver.py and end with NULL; NULL alone means none. */
void smtp_receiver_start(struct smtp_receiver *receiver, const char *const *options);
void smtp_receiver_stop(struct smtp_receiver *receiver);
void smtp_receiver_kill(struct smtp_receiver *receiver);

/* All mails it has accepted so far, as an array of objects. json_decref() it. */
json_t *smtp_receiver_mails(const struct smtp_receiver *receiver);

/* The same once there are at least `n`; aborts the test after 20 s. */
json_t *smtp_receiver_wait_for(const struct smtp_receiver *receiver, size_t n);

/* The value of a mail's first header of that name; "(missing)" if there is none. */
const char *smtp_mail_header(const json_t *mail, const char *name);

/* How many lines of its command log have `text` in them. */
unsigned smtp_receiver_count_commands(const struct smtp_receiver *receiver, const char *text);

/*
 * Which recipient domains may be sent to now: so many mails per second, so
 * many at a time, and none while a domain rests because it put us off. Pure:
 * no I/O, no clock.
 *
 * A mail that may not go now is told how long to wait. Mails that wait for a rate
 * or for a place get turns one behind the other, so that a thousand of them do not
 * all come back for the same free place; a turn is advice, not a reservation.
 *
 * The trap is greylisting. It refuses each new recipient once, so a domain that
 * rests after each such answer would let one recipient through per rest. So a
 * domain that has taken a mail which it had greylisted is remembered as such, and
 * from then on a greylisted first try concerns that mail only.
 *
 * The table is bounded: the domain that was used longest ago is forgotten
 * first, and every domain that has not been used for an hour.
 */
#pragma once

#include "sinks/email/email_replies.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct email_domain_limits {
        double rate;          /* mails per second; 0: any number */
        unsigned concurrency; /* mails at a time; 0: any number */
        int64_t backoff_ms;   /* the first rest; 0: domains never rest */
        size_t max_domains;   /* remembered; above the number of domains of all mails under way */
};

struct email_domains;

struct email_domains *email_domains_create(const struct email_domain_limits *limits);
void email_domains_destroy(struct email_domains *domains); /* NULL is allowed */

/* The domains of one mail's recipients, each once, in lower case. */
struct email_domain_set {
        char **names; /* owned */
        size_t n;
};

void email_domain_set_init(
    struct email_domain_set *set, char *const *recipients, size_t n_recipients);
void email_domain_set_deinit(struct email_domain_set *set);

/*
 * May a mail to all of these go now? Then the answer is 0, and the mail counts
 * as under way until email_domains_leave(). Otherwise: the milliseconds to
 * wait, and *out_name (one of the set's) is the domain it waits for.
 */
int64_t email_domains_enter(struct email_domains *domains, const struct email_domain_set *set,
    int64_t now_ms, const char **out_name);
/* `took_ms`: how long the mail was under way. */
void email_domains_leave(
    struct email_domains *domains, const struct email_domain_set *set, int64_t took_ms);

/* What came of a mail. `is_first_try`: it has not been refused before. */
void email_domains_on_taken(
    struct email_domains *domains, const struct email_domain_set *set, bool is_first_try);
/* A temporary refusal by the domain of `recipient`; `hint_ms` as in smtp_hinted_delay_ms(). */
void email_domains_on_refused(struct email_domains *domains, const char *recipient,
    enum smtp_refusal refusal, bool is_first_try, int64_t hint_ms, int64_t now_ms);

size_t email_domains_count(const struct email_domains *domains); /* remembered now */

#include "sinks/email/email_domains.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/list.h"
#include "pgcourier/outcome.h"

#include <assert.h>
#include <ctype.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_TIMES_THE_FIRST 60
#define FORGET_AFTER_MS     (60 * 60 * INT64_C(1000))
#define MAX_TURN_MS         (10 * 60 * INT64_C(1000)) /* the end of the line, at most */
#define FIRST_GUESS_MS      500                       /* how long a mail takes */

struct domain {
        char *name;         /* owned */
        struct list by_use; /* the one used last at the end */
        int64_t used_at_ms;
        unsigned n_under_way;
        int64_t typical_ms; /* a mail is under way for about so long */

        double tokens; /* of the rate, at most one second's */
        int64_t tokens_at_ms;
        int64_t last_turn_ms; /* given to the last mail that waits for a token or a place */

        int64_t rests_until_ms;
        uint32_t n_refusals; /* in a row */
        bool has_greylisted;
        bool is_greylisting; /* and takes it at the second try */
};

struct email_domains {
        struct email_domain_limits limits;
        void *by_name;      /* a tree of tsearch() */
        struct list by_use; /* heads all of them */
        size_t n;
};

static int compare_names(const void *a, const void *b)
{
        return strcmp(((const struct domain *)a)->name, ((const struct domain *)b)->name);
}

struct email_domains *email_domains_create(const struct email_domain_limits *limits)
{
        struct email_domains *domains = xcalloc(1, sizeof *domains);

        assert(limits->max_domains > 0);
        domains->limits = *limits;
        list_init(&domains->by_use);
        return domains;
}

static struct domain *oldest(const struct email_domains *domains)
{
        return list_owner(domains->by_use.next, struct domain, by_use);
}

static void forget(struct email_domains *domains, struct domain *domain)
{
        tdelete(domain, &domains->by_name, compare_names);
        list_remove(&domain->by_use);
        domains->n--;
        free(domain->name);
        free(domain);
}

void email_domains_destroy(struct email_domains *domains)
{
        if (domains == NULL)
                return;
        while (!list_is_empty(&domains->by_use))
                forget(domains, oldest(domains));
        free(domains);
}

/* Of "local@domain"; never NULL. */
static const char *domain_of(const char *recipient)
{
        const char *at = strrchr(recipient, '@');

        return at != NULL ? at + 1 : recipient;
}

static bool has_name(const struct email_domain_set *set, const char *name)
{
        for (size_t i = 0; i < set->n; i++)
                if (strcasecmp(set->names[i], name) == 0)
                        return true;
        return false;
}

static char *lower_case(const char *text)
{
        char *lower = xstrdup(text);

        for (char *at = lower; *at != '\0'; at++)
                *at = (char)tolower((unsigned char)*at);
        return lower;
}

void email_domain_set_init(
    struct email_domain_set *set, char *const *recipients, size_t n_recipients)
{
        *set = (struct email_domain_set){.names = xcalloc(n_recipients + 1, sizeof *set->names)};
        for (size_t i = 0; i < n_recipients; i++) {
                const char *name = domain_of(recipients[i]);
                if (!has_name(set, name))
                        set->names[set->n++] = lower_case(name);
        }
}

void email_domain_set_deinit(struct email_domain_set *set)
{
        for (size_t i = 0; i < set->n; i++)
                free(set->names[i]);
        free(set->names);
        *set = (struct email_domain_set){0};
}

static struct domain *find(const struct email_domains *domains, char *name)
{
        struct domain key = {.name = name};
        struct domain **found = tfind(&key, &domains->by_name, compare_names);

        return found != NULL ? *found : NULL;
}

/* Room for one more. A domain with mail under way stays, and goes to the end of the line. */
static void make_room(struct email_domains *domains, int64_t now_ms)
{
        for (size_t n = domains->n; n > 0; n--) {
                struct domain *domain = oldest(domains);
                bool is_stale = now_ms - domain->used_at_ms >= FORGET_AFTER_MS &&
                                now_ms >= domain->rests_until_ms;
                if (!is_stale && domains->n < domains->limits.max_domains)
                        return;
                if (domain->n_under_way == 0) {
                        forget(domains, domain);
                        continue;
                }
                list_remove(&domain->by_use);
                list_push_back(&domains->by_use, &domain->by_use);
        }
}

/* A second's worth at once, and at least one. */
static double most_tokens(const struct email_domains *domains)
{
        return domains->limits.rate > 1 ? domains->limits.rate : 1;
}

static struct domain *find_or_add(struct email_domains *domains, char *name, int64_t now_ms)
{
        struct domain *domain = find(domains, name);

        if (domain == NULL) {
                make_room(domains, now_ms);
                domain = xcalloc(1, sizeof *domain);
                domain->name = xstrdup(name);
                domain->typical_ms = FIRST_GUESS_MS;
                domain->tokens = most_tokens(domains);
                domain->tokens_at_ms = now_ms;
                if (tsearch(domain, &domains->by_name, compare_names) == NULL)
                        out_of_memory();
                list_init(&domain->by_use);
                domains->n++;
        }
        list_remove(&domain->by_use);
        list_push_back(&domains->by_use, &domain->by_use);
        domain->used_at_ms = now_ms;
        return domain;
}

static void earn_tokens(const struct email_domains *domains, struct domain *domain, int64_t now_ms)
{
        double earned = (double)(now_ms - domain->tokens_at_ms) * domains->limits.rate / 1000;

        domain->tokens_at_ms = now_ms;
        domain->tokens += earned;
        if (domain->tokens > most_tokens(domains))
                domain->tokens = most_tokens(domains);
}

/* The turn behind all that were given before; places become free every so often. */
static int64_t next_turn(struct domain *domain, int64_t every_ms, int64_t now_ms)
{
        int64_t from_ms = domain->last_turn_ms > now_ms ? domain->last_turn_ms : now_ms;
        int64_t turn_ms = from_ms + (every_ms > 0 ? every_ms : 1);

        if (turn_ms > now_ms + MAX_TURN_MS)
                return MAX_TURN_MS;
        domain->last_turn_ms = turn_ms;
        return turn_ms - now_ms;
}

static int64_t wait_of(const struct email_domains *domains, struct domain *domain, int64_t now_ms)
{
        const struct email_domain_limits *limits = &domains->limits;

        if (now_ms < domain->rests_until_ms)
                return domain->rests_until_ms - now_ms;
        if (limits->concurrency > 0 && domain->n_under_way >= limits->concurrency)
                return next_turn(domain, domain->typical_ms / (int64_t)limits->concurrency, now_ms);
        if (limits->rate > 0) {
                earn_tokens(domains, domain, now_ms);
                if (domain->tokens < 1)
                        return next_turn(domain, (int64_t)(1000 / limits->rate), now_ms);
        }
        return 0;
}

int64_t email_domains_enter(struct email_domains *domains, const struct email_domain_set *set,
    int64_t now_ms, const char **out_name)
{
        int64_t longest_ms = 0;

        for (size_t i = 0; i < set->n; i++) {
                struct domain *domain = find_or_add(domains, set->names[i], now_ms);
                int64_t wait_ms = wait_of(domains, domain, now_ms);
                if (wait_ms > longest_ms) {
                        longest_ms = wait_ms;
                        *out_name = set->names[i];
                }
        }
        if (longest_ms > 0)
                return longest_ms;
        for (size_t i = 0; i < set->n; i++) {
                struct domain *domain = find_or_add(domains, set->names[i], now_ms);
                domain->n_under_way++;
                domain->tokens -= domains->limits.rate > 0 ? 1 : 0;
        }
        return 0;
}

void email_domains_leave(
    struct email_domains *domains, const struct email_domain_set *set, int64_t took_ms)
{
        for (size_t i = 0; i < set->n; i++) {
                struct domain *domain = find(domains, set->names[i]);
                assert(domain != NULL && domain->n_under_way > 0);
                domain->n_under_way--;
                domain->typical_ms = (domain->typical_ms * 3 + took_ms) / 4;
        }
}

void email_domains_on_taken(
    struct email_domains *domains, const struct email_domain_set *set, bool is_first_try)
{
        for (size_t i = 0; i < set->n; i++) {
                struct domain *domain = find(domains, set->names[i]);
                if (domain == NULL)
                        continue;
                domain->n_refusals = 0;
                if (!is_first_try && domain->has_greylisted)
                        domain->is_greylisting = true;
        }
}

static void rest(
    const struct email_domains *domains, struct domain *domain, int64_t hint_ms, int64_t now_ms)
{
        struct backoff backoff = {
            .first_ms = domains->limits.backoff_ms,
            .factor = 2,
            .max_ms = domains->limits.backoff_ms * MAX_TIMES_THE_FIRST,
        };
        int64_t until_ms = now_ms;

        /* Mails that were under way together are refused together: that is one refusal. */
        if (now_ms >= domain->rests_until_ms)
                until_ms += backoff_ms(&backoff, ++domain->n_refusals, UINT32_MAX);
        if (hint_ms != OUTCOME_NO_DELAY && until_ms < now_ms + hint_ms)
                until_ms = now_ms + hint_ms;
        if (domain->rests_until_ms < until_ms)
                domain->rests_until_ms = until_ms;
}

void email_domains_on_refused(struct email_domains *domains, const char *recipient,
    enum smtp_refusal refusal, bool is_first_try, int64_t hint_ms, int64_t now_ms)
{
        char *name = lower_case(domain_of(recipient));
        struct domain *domain = find(domains, name);

        free(name);
        if (domain == NULL || domains->limits.backoff_ms == 0)
                return;
        switch (refusal) {
        case SMTP_REFUSAL_OF_MAIL:
                return;
        case SMTP_REFUSAL_GREYLISTED:
                domain->has_greylisted = true;
                if (is_first_try && domain->is_greylisting)
                        return;
                break;
        case SMTP_REFUSAL_OF_DOMAIN:
                break;
        }
        rest(domains, domain, hint_ms, now_ms);
}

size_t email_domains_count(const struct email_domains *domains)
{
        return domains->n;
}

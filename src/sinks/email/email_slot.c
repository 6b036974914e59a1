#include "sinks/email/email_slot.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Many more than one program writes to within an hour, at some 200 bytes each. */
#define MAX_DOMAINS 10000

bool email_post_init(struct email_post *post, uv_loop_t *loop, const struct email_config *config,
    struct error *error)
{
        *post = (struct email_post){.loop = loop, .config = config};
        if (!email_sender_init(&post->sender, config, error))
                return false;
        if (!email_servers_init(&post->servers, config, error)) {
                email_sender_deinit(&post->sender);
                return false;
        }
        email_relays_init(&post->relays, post->servers.n, config->relay_backoff_ms);
        post->domains = email_domains_create(&(struct email_domain_limits){
            .rate = config->domain_rate,
            .concurrency = config->domain_concurrency,
            .backoff_ms = config->domain_backoff_ms,
            .max_domains = MAX_DOMAINS,
        });
        return true;
}

void email_post_deinit(struct email_post *post)
{
        email_domains_destroy(post->domains);
        email_servers_deinit(&post->servers);
        email_sender_deinit(&post->sender);
}

bool email_slot_init(struct email_slot *slot, struct email_post *post)
{
        *slot = (struct email_slot){.post = post};
        atomic_init(&slot->is_hurried, false);
        slot->mailer = email_mailer_create(&slot->is_hurried);
        return slot->mailer != NULL;
}

void email_slot_deinit(struct email_slot *slot)
{
        email_mailer_destroy(slot->mailer);
        slot->mailer = NULL;
}

static int64_t now_ms(const struct email_slot *slot)
{
        return (int64_t)uv_now(slot->post->loop);
}

/* From here as far as work(): on the worker's thread. */
static void compose(struct email_slot *slot)
{
        slot->has_message = email_message_init(&slot->message, &slot->post->sender,
            slot->attempt->event, clock_wall_us(), &slot->outcome);
        if (slot->has_message)
                email_domain_set_init(
                    &slot->domains, slot->message.recipients, slot->message.n_recipients);
}

/* An attempt of several says by which relay it failed. */
static struct outcome name_relay(
    const struct email_post *post, unsigned relay, const struct outcome *outcome)
{
        struct outcome named = *outcome;

        if (post->servers.n > 1 && outcome->kind != OUTCOME_DELIVERED)
                memcpy(named.reason,
                    outcome_make(
                        outcome->kind, "%s: %s", post->servers.server[relay].place, outcome->reason)
                        .reason,
                    sizeof named.reason);
        return named;
}

/* All of them: a relay that is needed only when the first fails should be found wrong before. */
static void probe(struct email_slot *slot)
{
        const struct email_post *post = slot->post;

        for (unsigned i = 0; i < post->servers.n; i++) {
                slot->outcome = email_mailer_probe(slot->mailer, &post->servers.server[i]);
                slot->outcome = name_relay(post, i, &slot->outcome);
                if (slot->outcome.kind != OUTCOME_DELIVERED)
                        return;
        }
}

static void work(uv_work_t *uv)
{
        struct email_slot *slot = uv->data;
        const struct email_post *post = slot->post;

        switch (slot->state) {
        case EMAIL_SLOT_FREE:
                abort();
        case EMAIL_COMPOSING:
                compose(slot);
                return;
        case EMAIL_SENDING:
                slot->outcome = email_mailer_send(slot->mailer, &post->servers.server[slot->relay],
                    &post->sender, &slot->message);
                return;
        case EMAIL_PROBING:
                probe(slot);
                return;
        }
}

static void on_worked(uv_work_t *uv, int status);

static void start(struct email_slot *slot, enum email_slot_state state)
{
        slot->state = state;
        slot->work.data = slot;
        /* Fails only without a work function. */
        uv_queue_work(slot->post->loop, &slot->work, work, on_worked);
}

/* The slot is free before the outcome is told. */
static void finish(struct email_slot *slot, const struct outcome *outcome)
{
        struct attempt *attempt = slot->attempt;
        struct outcome copy = *outcome;

        if (slot->has_message) {
                email_message_deinit(&slot->message);
                email_domain_set_deinit(&slot->domains);
                slot->has_message = false;
        }
        slot->attempt = NULL;
        slot->state = EMAIL_SLOT_FREE;
        attempt_finish(attempt, &copy);
}

static bool send_by_next_relay(struct email_slot *slot)
{
        struct email_post *post = slot->post;

        if (!email_relays_next(&post->relays, &slot->tour, now_ms(slot), &slot->relay))
                return false;
        start(slot, EMAIL_SENDING);
        return true;
}

static void on_composed(struct email_slot *slot, bool is_cancelled)
{
        struct email_post *post = slot->post;
        const char *domain;
        int64_t wait_ms;

        if (is_cancelled || atomic_load(&slot->is_hurried)) {
                finish(slot, &outcome_cancelled);
                return;
        }
        if (!slot->has_message) {
                finish(slot, &slot->outcome);
                return;
        }
        wait_ms = email_domains_enter(post->domains, &slot->domains, now_ms(slot), &domain);
        if (wait_ms > 0) {
                struct outcome later =
                    outcome_make(OUTCOME_RETRY, "not sent yet: mail to %s has to wait", domain);
                later.is_postponed = true;
                later.delay_ms = wait_ms;
                finish(slot, &later);
                return;
        }
        slot->tour = (struct email_tour){0};
        slot->began_ms = uv_now(post->loop);
        send_by_next_relay(slot); /* of none that was tried, there is always a next */
}

static void add_failure(struct email_slot *slot)
{
        struct email_post *post = slot->post;
        struct outcome failure = name_relay(post, slot->relay, &slot->outcome);
        bool is_first = (slot->tour.tried & (slot->tour.tried - 1)) == 0;
        bool is_whole_tour = slot->tour.tried == (1u << post->servers.n) - 1;
        bool concerns_all = failure.concerns_all && (is_first || slot->down.concerns_all);
        bool needs_operator = failure.needs_operator && (is_first || slot->down_needs_operator);

        slot->down_needs_operator = needs_operator;
        if (is_first)
                slot->down = failure;
        else
                slot->down =
                    outcome_make(OUTCOME_SINK_DOWN, "%s; %s", slot->down.reason, failure.reason);
        slot->down.fault = failure.fault;
        slot->down.concerns_all = concerns_all;
        /* One that is left out meanwhile may come back by itself. */
        slot->down.needs_operator = needs_operator && is_whole_tour;
}

/* Which server put the mail off, and whether others to the same domain should wait. */
static void tell_domains(struct email_slot *slot)
{
        struct email_post *post = slot->post;
        const struct smtp_dialogue *dialogue = email_mailer_dialogue(slot->mailer);
        const struct email_message *message = &slot->message;
        bool is_first_try = slot->attempt->number == 1;
        size_t i = 0;

        if (slot->outcome.kind == OUTCOME_DELIVERED) {
                email_domains_on_taken(post->domains, &slot->domains, is_first_try);
                return;
        }
        if (dialogue->stage == SMTP_RCPT)
                i = dialogue->n_rcpt - 1;
        else if (slot->domains.n > 1)
                return; /* the answer does not say which of them it was */
        assert(i < message->n_recipients);
        email_domains_on_refused(post->domains, message->recipients[i],
            smtp_refusal_of(dialogue, &slot->outcome), is_first_try, slot->outcome.delay_ms,
            now_ms(slot));
}

static void judge(struct email_slot *slot)
{
        struct email_post *post = slot->post;
        const struct smtp_dialogue *dialogue = email_mailer_dialogue(slot->mailer);

        tell_domains(slot);
        if (post->config->on_unknown == UNKNOWN_REJECT &&
            smtp_is_unknown(dialogue, &slot->outcome)) {
                slot->outcome.kind = OUTCOME_REJECTED;
                slot->outcome.is_unanswered = false;
        }
        slot->outcome = name_relay(post, slot->relay, &slot->outcome);
}

static void on_answered(struct email_slot *slot, bool is_cancelled)
{
        struct email_post *post = slot->post;

        if (is_cancelled)
                slot->outcome = outcome_cancelled;
        if (slot->outcome.kind == OUTCOME_CANCELLED) {
                email_relays_unknown(&post->relays, slot->relay);
        } else if (smtp_may_try_elsewhere(email_mailer_dialogue(slot->mailer), &slot->outcome)) {
                email_relays_failed(&post->relays, slot->relay, now_ms(slot));
                add_failure(slot);
                if (!atomic_load(&slot->is_hurried) && send_by_next_relay(slot))
                        return;
                slot->outcome = slot->down;
        } else {
                email_relays_worked(&post->relays, slot->relay);
                judge(slot);
        }
        email_domains_leave(
            post->domains, &slot->domains, (int64_t)(uv_now(post->loop) - slot->began_ms));
        finish(slot, &slot->outcome);
}

/* On the loop's thread again. */
static void on_worked(uv_work_t *uv, int status)
{
        struct email_slot *slot = uv->data;

        switch (slot->state) {
        case EMAIL_SLOT_FREE:
                abort();
        case EMAIL_COMPOSING:
                on_composed(slot, status == UV_ECANCELED);
                return;
        case EMAIL_SENDING:
                on_answered(slot, status == UV_ECANCELED);
                return;
        case EMAIL_PROBING:
                slot->state = EMAIL_SLOT_FREE;
                slot->on_probed(slot->owner, &slot->outcome);
                return;
        }
}

void email_slot_send(struct email_slot *slot, struct attempt *attempt)
{
        assert(slot->state == EMAIL_SLOT_FREE);
        slot->attempt = attempt;
        atomic_store(&slot->is_hurried, false);
        start(slot, EMAIL_COMPOSING);
}

void email_slot_cancel(struct email_slot *slot)
{
        if (slot->state != EMAIL_COMPOSING && slot->state != EMAIL_SENDING)
                return;
        atomic_store(&slot->is_hurried, true);
        /* Still in the queue: then it never runs. Otherwise the flag reaches it. */
        uv_cancel((uv_req_t *)&slot->work);
}

void email_slot_probe(struct email_slot *slot, sink_probed_fn *on_probed, void *owner)
{
        assert(slot->state == EMAIL_SLOT_FREE);
        slot->on_probed = on_probed;
        slot->owner = owner;
        atomic_store(&slot->is_hurried, false);
        start(slot, EMAIL_PROBING);
}

#include "sinks/nats/nats_attempts.h"

#include "base/bytes.h"
#include "config/config.h"
#include "pgcourier/sink.h"
#include "sinks/nats/nats_answers.h"
#include "sinks/nats/nats_connection.h"
#include "sinks/nats/nats_protocol.h"
#include "sinks/nats/nats_subject.h"

#include <string.h>

/* A stream that answered so recently has no leader at the moment, rather than not to exist. */
enum { ELECTION_MS = 30000 };

static struct nats_answer_rules rules_of(const struct nats_attempts *attempts)
{
        return (struct nats_answer_rules){.duplicates = attempts->config->duplicates,
            .is_transient = nats_connection_state(attempts->connection) == NATS_LEAVING ||
                            (attempts->has_acknowledgement &&
                                uv_now(attempts->loop) - attempts->acknowledged_ms < ELECTION_MS)};
}

static void finish_later(
    struct nats_attempts *attempts, unsigned slot, const struct outcome *outcome)
{
        attempt_finish_later(nats_pending_take(&attempts->pending, slot), outcome);
}

/* False if it was refused, and is finished. */
static bool send_one(struct nats_attempts *attempts, unsigned slot)
{
        struct nats_connection *connection = attempts->connection;
        const struct nats_message *message = &attempts->message;
        const struct event *event = nats_pending_at(&attempts->pending, slot)->attempt->event;
        char token[NATS_TOKEN_BYTES];
        struct outcome refusal;
        const struct bytes *subject = nats_subject_of(attempts->subject, event, &refusal);

        if (subject == NULL || !nats_message_make(&attempts->message, event,
                                   nats_connection_max_payload(connection), &refusal)) {
                finish_later(attempts, slot, &refusal);
                return false;
        }
        nats_connection_publish(connection,
            &(struct nats_publication){.subject = subject->data,
                .subject_bytes = subject->length,
                .headers = message->headers.data,
                .headers_bytes = message->headers.length,
                .payload = message->body,
                .payload_bytes = message->body_bytes},
            token, nats_pending_name(&attempts->pending, slot, token));
        nats_pending_note_sent(&attempts->pending, slot, uv_now(attempts->loop),
            nats_connection_next_ping(connection));
        return true;
}

void nats_attempts_send(struct nats_attempts *attempts)
{
        bool has_sent = false;
        unsigned slot;

        while ((slot = nats_pending_waiting(&attempts->pending)) != 0)
                has_sent |= send_one(attempts, slot);
        if (has_sent)
                nats_connection_note_published(attempts->connection);
}

struct outcome nats_attempts_judge(struct nats_attempts *attempts, const struct nats_frame *answer)
{
        struct nats_answer_rules rules;

        if (!nats_answer_is_ack(answer)) {
                rules = rules_of(attempts);
                return nats_answer_judge(answer, &rules);
        }
        attempts->has_acknowledgement = true;
        attempts->acknowledged_ms = uv_now(attempts->loop);
        return outcome_delivered;
}

static bool goes_to(struct nats_attempts *attempts, unsigned slot, const char *text)
{
        struct outcome refusal;
        const struct bytes *subject = nats_subject_of(
            attempts->subject, nats_pending_at(&attempts->pending, slot)->attempt->event, &refusal);

        return subject != NULL && strcmp(subject->data, text) == 0;
}

void nats_attempts_forbid(struct nats_attempts *attempts, const struct nats_error *error)
{
        const struct outcome outcome = nats_answer_forbidden(error->words);
        unsigned slot = nats_pending_sent(&attempts->pending);

        while (slot != 0) {
                unsigned next = nats_pending_next(&attempts->pending, slot);
                if (goes_to(attempts, slot, error->subject))
                        finish_later(attempts, slot, &outcome);
                slot = next;
        }
}

void nats_attempts_expire(struct nats_attempts *attempts)
{
        const struct outcome missing = nats_answer_missing(attempts->config->timeout_ms);
        uint64_t now_ms = uv_now(attempts->loop);
        unsigned slot;

        while ((slot = nats_pending_sent(&attempts->pending)) != 0) {
                const struct nats_slot *sent = nats_pending_at(&attempts->pending, slot);

                if (now_ms - sent->sent_ms < (uint64_t)attempts->config->timeout_ms ||
                    sent->ping > nats_connection_last_pong(attempts->connection))
                        return;
                finish_later(attempts, slot, &missing);
        }
}

/* What was sent may have been stored: it comes again with the same id, by which the stream knows
 * it. */
void nats_attempts_give_back(struct nats_attempts *attempts, const struct outcome *outcome)
{
        struct outcome sent = *outcome;
        struct outcome unsent = *outcome;
        unsigned slot;

        if (outcome->fault == OUTCOME_FAULT_REFUSED)
                sent.fault = OUTCOME_FAULT_LOST;
        if (outcome->fault == OUTCOME_FAULT_TIMEOUT || outcome->fault == OUTCOME_FAULT_LOST)
                unsent.fault = OUTCOME_FAULT_REFUSED;
        while ((slot = nats_pending_sent(&attempts->pending)) != 0)
                finish_later(attempts, slot, &sent);
        while ((slot = nats_pending_waiting(&attempts->pending)) != 0)
                finish_later(attempts, slot, &unsent);
}

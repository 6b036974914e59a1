/* How one attempt to deliver one event ended: a closed set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum outcome_kind {
        OUTCOME_DELIVERED, /* acknowledged by the peer as configured */
        OUTCOME_RETRY,    /* temporary, or unknown whether it arrived: same id, same bytes, later */
        OUTCOME_REJECTED, /* permanent for this event: trying again will not help */
        OUTCOME_SINK_DOWN, /* the destination is unreachable, overloaded or refuses us, as far as
                            * this attempt can tell: it costs the event no attempt, unless other
                            * events are taken meanwhile */
        OUTCOME_CANCELLED, /* we gave up (shutdown, lost lane): not settled, comes again */
};

/* What was at fault, for metrics and alerts; the reason says it to people. A closed set. */
enum outcome_fault {
        OUTCOME_FAULT_OTHER,    /* or not said */
        OUTCOME_FAULT_TIMEOUT,  /* no answer in time: it may have arrived all the same */
        OUTCOME_FAULT_LOST,     /* the connection ended before the answer: likewise */
        OUTCOME_FAULT_REFUSED,  /* no connection came about: refused, unreachable, not allowed */
        OUTCOME_FAULT_DNS,      /* the name has no address */
        OUTCOME_FAULT_TLS,      /* a certificate or a handshake */
        OUTCOME_FAULT_AUTH,     /* our credentials, or what they may do */
        OUTCOME_FAULT_HTTP_4XX, /* a status; but 401, 403, 407 (auth), 413 (too_large), 429 */
        OUTCOME_FAULT_HTTP_429,
        OUTCOME_FAULT_HTTP_5XX,
        OUTCOME_FAULT_SMTP_4XX, /* a reply: try again */
        OUTCOME_FAULT_SMTP_5XX, /* a reply: never */
        OUTCOME_FAULT_REDIS,    /* an error reply */
        OUTCOME_FAULT_PROTOCOL, /* an answer that makes no sense, or a redirect not followed */
        OUTCOME_FAULT_TOO_LARGE,
        OUTCOME_FAULT_EVENT, /* this event cannot be sent there as it is: no address, no such member */
        OUTCOME_FAULT_NATS,     /* an error of the server or of JetStream */
        OUTCOME_FAULT_AMQP,     /* a return, a nack, a channel or connection that was closed */
        OUTCOME_FAULT_KAFKA,    /* an error code of a broker or of the client */
        OUTCOME_FAULT_POSTGRES, /* an error of the server, or of a function that was called */
};
#define OUTCOME_FAULTS 20 /* may grow; treat unknown values as OUTCOME_FAULT_OTHER */

#define OUTCOME_NO_DELAY (-1)

struct outcome {
        enum outcome_kind kind;
        enum outcome_fault fault; /* unless it is DELIVERED or CANCELLED */
        int64_t delay_ms;         /* how long the peer asked us to wait, or OUTCOME_NO_DELAY */

        uint32_t max_attempts; /* RETRY, SINK_DOWN: give up after so many, if the sink's policy
                                * would go on; 0: as the policy says. For what is most likely
                                * permanent. */

        /* RETRY only. */
        bool is_unanswered; /* the destination said nothing at all: an attempt is charged only if
                             * the destination answered others meanwhile */
        bool is_postponed;  /* not tried, because it is not its turn yet (a rate, a part of the
                             * destination that asked us to wait): costs no attempt, and comes
                             * back after delay_ms, which must be set */

        bool concerns_all; /* SINK_DOWN: no request could be made for any event (no address, no
                            * connection, no login), or the receiver said so of itself. Else this
                            * event's own request was answered so, and the relay tries another event
                            * before it believes that of all; leave it false if you don't know. */

        /* SINK_DOWN: credentials, configuration, a destination that wants no more. Waiting will not
         * mend it, so the sink is paused where people see it, and tried rarely. DELIVERED: only of
         * a probe (sink_probed_fn). */
        bool needs_operator;
        bool is_gone; /* with needs_operator: the receiver said that it wants no more, ever */

        uint16_t status;  /* what the peer answered as a number: a status of HTTP, a reply code of
                          * SMTP; 0: nothing of the kind */
        char reason[256]; /* one line for people: the peer's words or ours; never a secret, never
                           * a payload; control characters are escaped. If DELIVERED, the
                           * beginning of what the peer answered, or empty. */
};

/* The two outcomes that need no words. */
extern const struct outcome outcome_delivered;
extern const struct outcome outcome_cancelled;

/*
 * Makes an outcome with a printf-formatted reason. Control characters and
 * invalid UTF-8 in the formatted text become '?', so a peer's words are safe
 * to pass in; what does not fit is cut. delay_ms is OUTCOME_NO_DELAY;
 * the fault is OTHER, and EVENT if it is REJECTED, until it is set.
 */
struct outcome outcome_make(enum outcome_kind kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A SINK_DOWN that concerns all events, its reason as outcome_make() makes it. */
struct outcome outcome_down(enum outcome_fault fault, bool needs_operator, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "delivered", "retry", "rejected", "sink_down", "cancelled": as in logs and metrics. */
const char *outcome_name(enum outcome_kind kind);

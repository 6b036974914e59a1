#include "pgcourier/outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct outcome outcome_delivered = {.kind = OUTCOME_DELIVERED, .delay_ms = OUTCOME_NO_DELAY};
const struct outcome outcome_cancelled = {
    .kind = OUTCOME_CANCELLED, .delay_ms = OUTCOME_NO_DELAY, .reason = "cancelled"};

struct outcome outcome_make(enum outcome_kind kind, const char *format, ...)
{
        struct outcome outcome = {.kind = kind,
            .fault = kind == OUTCOME_REJECTED ? OUTCOME_FAULT_EVENT : OUTCOME_FAULT_OTHER,
            .delay_ms = OUTCOME_NO_DELAY};
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(outcome.reason, sizeof outcome.reason, format, arguments);
        va_end(arguments);

        /* A peer's words end up on terminals and in JSON: plain ASCII is all they may hold. */
        for (char *at = outcome.reason; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
                        *at = *at == '\r' || *at == '\n' || *at == '\t' ? ' ' : '?';
        return outcome;
}

const char *outcome_name(enum outcome_kind kind)
{
        switch (kind) {
        case OUTCOME_DELIVERED:
                return "delivered";
        case OUTCOME_RETRY:
                return "retry";
        case OUTCOME_REJECTED:
                return "rejected";
        case OUTCOME_SINK_DOWN:
                return "sink_down";
        case OUTCOME_CANCELLED:
                return "cancelled";
        }
        abort();
}

/* The words for a parked delivery and a dead letter, as the constraints of their tables list them. */
#include "outbox/parked.h"
#include "outbox/settlement.h"

#include <stdlib.h>

const char *parked_state_name(enum parked_state state)
{
        switch (state) {
        case PARKED_RETRY:
                return "retry";
        case PARKED_BLOCKED:
                return "blocked";
        case PARKED_DELAYED:
                return "delayed";
        }
        abort();
}

const char *dead_reason_name(enum dead_reason reason)
{
        switch (reason) {
        case DEAD_REJECTED:
                return "rejected";
        case DEAD_ATTEMPTS:
                return "attempts";
        case DEAD_AGE:
                return "age";
        case DEAD_TOO_LARGE:
                return "too_large";
        case DEAD_UNJUDGED:
                return "unjudged";
        case DEAD_SKIPPED:
                return "skipped";
        }
        abort();
}

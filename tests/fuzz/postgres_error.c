/* An error of PostgreSQL: its SQLSTATE, message, DETAIL and context, of which the last three may
 * hold anything that a function raises. */
#include "sinks/postgres/postgres_answers.h"

#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check(const struct postgres_error *error)
{
        const struct postgres_verdict verdict = postgres_error_judge(error);
        const struct outcome *outcome = &verdict.outcome;

        fuzz_require_outcome(outcome);
        fuzz_require(outcome->kind == OUTCOME_RETRY || outcome->kind == OUTCOME_REJECTED ||
                         outcome->kind == OUTCOME_SINK_DOWN,
            "an error delivers nothing", outcome->reason);
        fuzz_require(
            (outcome->kind == OUTCOME_REJECTED) == (strncmp(error->sqlstate, "PC001", 5) == 0),
            "only PC001 rejects", outcome->reason);
        fuzz_require(!outcome->is_postponed ||
                         (strncmp(error->sqlstate, "PC002", 5) == 0 && outcome->delay_ms >= 0),
            "only PC002 with a delay comes at no cost", outcome->reason);
        fuzz_require(!outcome->concerns_all, "the lane judges whom it concerns", outcome->reason);
        fuzz_require(
            outcome->kind != OUTCOME_SINK_DOWN || !verdict.is_of_event || error->context != NULL,
            "a batch is divided for what a function raised", outcome->reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        char *sqlstate = fuzz_take_text(&input);
        char *message = fuzz_take_text(&input);
        char *detail = fuzz_take_text(&input);
        char *context = fuzz_take_text(&input);

        check(&(struct postgres_error){.sqlstate = sqlstate,
            .message = (switches & 1) != 0 ? NULL : message,
            .detail = (switches & 2) != 0 ? NULL : detail,
            .context = (switches & 4) != 0 ? NULL : context});
        free(sqlstate);
        free(message);
        free(detail);
        free(context);
        return 0;
}

#include "outbox/verdicts.h"

/* In the order of the parameters of settle_verdicts.sql, from $12 on. */
enum column {
        COLUMN_ID,
        COLUMN_KIND,
        COLUMN_IS_PARKED,
        COLUMN_ATTEMPTS,
        COLUMN_RETRIED_MS,
        COLUMN_WORDS,
        COLUMN_HAS_FAILED,
        COLUMN_STATE,
        COLUMN_DUE_IN_MS,
        COLUMN_GOES_LAST,
        COLUMN_REASON,
        COLUMN_TARGET,
};

static const char *const kinds[] = {
    [VERDICT_DELIVERED] = "delivered", [VERDICT_PARK] = "park", [VERDICT_DEAD] = "dead"};

static void add(struct array_literal *columns, const struct verdict *verdict, int64_t now_ms)
{
        bool parks = verdict->kind == VERDICT_PARK;
        bool is_dead = verdict->kind == VERDICT_DEAD;
        bool is_timed = parks && verdict->state != PARKED_DELAYED && verdict->due_ms > now_ms;

        array_add_int(&columns[COLUMN_ID], verdict->event->id);
        array_add_text(&columns[COLUMN_KIND], kinds[verdict->kind]);
        array_add_bool(&columns[COLUMN_IS_PARKED], verdict->is_parked);
        array_add_int(&columns[COLUMN_ATTEMPTS], verdict->n_attempts);
        array_add_int(&columns[COLUMN_RETRIED_MS], verdict->retried_ms);
        array_add_text(&columns[COLUMN_WORDS], verdict->words);
        array_add_bool(&columns[COLUMN_HAS_FAILED], verdict->has_failed);
        array_add_text(&columns[COLUMN_STATE], parks ? parked_state_name(verdict->state) : NULL);
        array_add_int(&columns[COLUMN_DUE_IN_MS], is_timed ? verdict->due_ms - now_ms : 0);
        array_add_bool(&columns[COLUMN_GOES_LAST], parks && verdict->goes_last);
        array_add_text(&columns[COLUMN_REASON], is_dead ? dead_reason_name(verdict->reason) : NULL);
        array_add_text(&columns[COLUMN_TARGET], is_dead ? verdict->target : NULL);
}

void verdict_arrays_init(
    struct verdict_arrays *arrays, const struct settlement *settlement, const char **values)
{
        *arrays = (struct verdict_arrays){0};
        list_for_each (link, settlement->verdicts)
                add(arrays->columns, list_owner(link, struct verdict, link), settlement->now_ms);
        for (int i = 0; i < N_VERDICT_COLUMNS; i++)
                values[i] = array_end(&arrays->columns[i]);
}

void verdict_arrays_deinit(struct verdict_arrays *arrays)
{
        for (int i = 0; i < N_VERDICT_COLUMNS; i++)
                array_deinit(&arrays->columns[i]);
}

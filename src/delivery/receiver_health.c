#include "delivery/receiver_health.h"

void health_init(struct health *health, int64_t failing_for_ms, int64_t now_ms)
{
        *health = (struct health){0};
        if (failing_for_ms >= 0) {
                health->state = HEALTH_NOTED;
                health->failing_since_ms = now_ms - failing_for_ms;
        }
}

static enum health_news note_success(struct health *health)
{
        bool was_noted = health->state == HEALTH_NOTED;

        *health = (struct health){.state = HEALTH_WELL};
        return was_noted ? HEALTH_RECOVERED : HEALTH_NO_NEWS;
}

static enum health_news note_failure(
    struct health *health, bool is_gone, int64_t now_ms, int64_t disable_after_ms)
{
        int64_t failing_for_ms;

        if (health->state == HEALTH_GIVEN_UP)
                return HEALTH_NO_NEWS;
        if (health->state == HEALTH_WELL) {
                health->state = HEALTH_AILING;
                health->failing_since_ms = now_ms;
        }
        failing_for_ms = now_ms - health->failing_since_ms;
        if (is_gone || (disable_after_ms > 0 && failing_for_ms >= disable_after_ms)) {
                health->state = HEALTH_GIVEN_UP;
                return HEALTH_HOPELESS;
        }
        if (health->state == HEALTH_AILING && failing_for_ms >= HEALTH_NOTE_AFTER_MS) {
                health->state = HEALTH_NOTED;
                return HEALTH_FAILING;
        }
        return HEALTH_NO_NEWS;
}

enum health_news health_note(
    struct health *health, const struct outcome *outcome, int64_t now_ms, int64_t disable_after_ms)
{
        switch (outcome->kind) {
        case OUTCOME_DELIVERED:
                return note_success(health);
        case OUTCOME_RETRY:
                if (outcome->is_postponed)
                        return HEALTH_NO_NEWS;
                return note_failure(health, false, now_ms, disable_after_ms);
        case OUTCOME_SINK_DOWN:
                return note_failure(health, outcome->is_gone, now_ms, disable_after_ms);
        case OUTCOME_REJECTED: /* it answered, but took nothing */
        case OUTCOME_CANCELLED:
                break;
        }
        return HEALTH_NO_NEWS;
}

/* What happens in a history, for people to read. */
#include "simulator/world.h"

#include <stdarg.h>
#include <stdio.h>

void world_say(struct world *world, const char *format, ...)
{
        va_list arguments;

        printf("%5u %7lld ms  ", world->n_steps, (long long)world->now_ms);
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        putchar('\n');
}

void world_fail(struct world *world, const char *check, const char *format, ...)
{
        va_list arguments;

        world->failed_check = check;
        va_start(arguments, format);
        vsnprintf(world->failure, sizeof world->failure, format, arguments);
        va_end(arguments);
        say(world, "FAILED %s: %s", check, world->failure);
        longjmp(*world->on_failure, 1);
}

const char *event_name(const struct world *world, size_t event)
{
        static char names[8][16];
        static unsigned next;
        char *name = names[next++ % 8];
        int key = world->database.events[event].key;

        if (key < 0)
                snprintf(name, sizeof names[0], "#%zu", event + 1);
        else
                snprintf(name, sizeof names[0], "#%zu(%c)", event + 1, 'a' + key);
        return name;
}

const char *outcome_words(const struct outcome *outcome)
{
        if (outcome->kind == OUTCOME_RETRY && outcome->is_unanswered)
                return "retry (unanswered)";
        if (outcome->kind == OUTCOME_RETRY && outcome->is_postponed)
                return "retry (postponed)";
        if (outcome->kind == OUTCOME_SINK_DOWN && outcome->needs_operator)
                return "sink_down (needs an operator)";
        switch (outcome->kind) {
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
        return "?";
}

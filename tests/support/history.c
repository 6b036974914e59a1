#include "support/history.h"

#include "base/alloc.h"
#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_note(struct history *history, const char *payload)
{
        struct arrival arrival;

        if (sscanf(payload, "[%u, %u]", &arrival.writer, &arrival.number) != 2)
                test_abort("no writer's event: %.100s", payload);
        if (history->n_arrivals == history->capacity) {
                history->capacity = history->capacity > 0 ? 2 * history->capacity : 1024;
                history->arrivals =
                    xrealloc(history->arrivals, history->capacity * sizeof *history->arrivals);
        }
        history->arrivals[history->n_arrivals++] = arrival;
}

static void fault(
    struct filter_result *verdict, size_t *count, const char *what, struct arrival event)
{
        if (verdict->first_fault[0] == '\0')
                snprintf(verdict->first_fault, sizeof verdict->first_fault,
                    "event %u of writer %u %s", event.number, event.writer, what);
        ++*count;
}

/* What is known of one writer's events while going through the arrivals. */
struct seen {
        bool *has_arrived; /* by number; owned */
        unsigned next;     /* one beyond the highest number that has arrived */
};

static void judge_arrival(struct filter_result *verdict, const struct writers *writers,
    struct seen *seen, struct arrival arrival)
{
        if (arrival.number >= writers_n_events(writers, arrival.writer) ||
            writers_outcome(writers, arrival.writer, arrival.number) == PUBLISHED_NOT) {
                fault(verdict, &verdict->n_uncommitted, "was not committed and arrived", arrival);
                return;
        }
        if (seen->has_arrived[arrival.number]) {
                verdict->n_repeated++;
                return;
        }
        seen->has_arrived[arrival.number] = true;
        if (arrival.number < seen->next)
                fault(verdict, &verdict->n_misordered, "came after a later one", arrival);
        else
                seen->next = arrival.number + 1;
}

struct filter_result history_judge(const struct history *history, const struct writers *writers)
{
        unsigned n_writers = writers_count(writers);
        struct seen *seen = xcalloc(n_writers, sizeof *seen);
        struct filter_result verdict = {0};

        for (unsigned w = 0; w < n_writers; w++)
                seen[w].has_arrived = xcalloc(writers_n_events(writers, w) + 1, sizeof(bool));
        for (size_t i = 0; i < history->n_arrivals; i++) {
                struct arrival arrival = history->arrivals[i];
                if (arrival.writer >= n_writers)
                        test_abort("there is no writer %u", arrival.writer);
                judge_arrival(&verdict, writers, &seen[arrival.writer], arrival);
        }
        for (unsigned w = 0; w < n_writers; w++) {
                for (unsigned n = 0; n < writers_n_events(writers, w); n++)
                        if (writers_outcome(writers, w, n) == PUBLISHED && !seen[w].has_arrived[n])
                                fault(&verdict, &verdict.n_lost, "was committed and lost",
                                    (struct arrival){.writer = w, .number = n});
                free(seen[w].has_arrived);
        }
        free(seen);
        return verdict;
}

void history_deinit(struct history *history)
{
        free(history->arrivals);
        *history = (struct history){0};
}

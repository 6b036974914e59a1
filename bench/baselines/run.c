#include "run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t monotonic_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

void run_init(struct run *run, int n_args, char **args)
{
        if (n_args != 4 && n_args != 5)
                die("usage", "DSN BATCH null|redis:SOCKET|http:PORT [LOOK_EVERY_MS]");
        *run = (struct run){.dsn = args[1],
            .batch = atoi(args[2]),
            .look_every_ms = n_args == 5 ? atoi(args[4]) : 0,
            .sink = sink_open(args[3])};
        snprintf(run->batch_text, sizeof run->batch_text, "%d", run->batch);
}

void run_start(struct run *run)
{
        run->started_us = monotonic_us();
}

static void make_room(struct run *run, int n_events)
{
        if (run->capacity >= n_events)
                return;
        run->capacity = n_events;
        run->events = realloc(run->events, (size_t)n_events * sizeof *run->events);
        if (run->events == NULL)
                die("realloc", "no memory");
}

int64_t run_deliver(struct run *run, const PGresult *rows, struct id_list *ids)
{
        int n_events = PQntuples(rows);
        int64_t last_id = 0;

        if (n_events == 0)
                return 0;
        make_room(run, n_events);
        for (int row = 0; row < n_events; row++) {
                struct event *event = &run->events[row];

                event_read(event, rows, row);
                run->sink->add(event);
                if (ids != NULL)
                        id_list_add(ids, event->id);
                if (event->id > last_id)
                        last_id = event->id;
        }
        run->sink->await();
        run->ended_us = monotonic_us();
        run->n_events += n_events;
        run->n_batches++;
        return last_id;
}

bool run_goes_on(const struct run *run)
{
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

        return run->look_every_ms > 0 && poll(&input, 1, run->look_every_ms) == 0;
}

void run_end(struct run *run)
{
        char byte;

        printf("events=%lld batches=%lld us=%lld\n", (long long)run->n_events,
            (long long)run->n_batches, (long long)(run->ended_us - run->started_us));
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
}

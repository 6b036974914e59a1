#include "relay/signals.h"

#include "base/alloc.h"
#include "log/log.h"

#include <signal.h>
#include <stdlib.h>

static const int held[] = {SIGHUP, SIGUSR1, SIGUSR2};
static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

enum {
        N_HELD = sizeof held / sizeof *held,
        N_HANDLED = sizeof handled / sizeof *handled,
};

struct signals {
        uv_signal_t handles[N_HANDLED];
        unsigned n_open; /* handles not yet closed */
        struct signals_events events;
        void *owner; /* borrowed */
};

static void change_mask(int how)
{
        sigset_t set;

        sigemptyset(&set);
        for (int i = 0; i < N_HELD; i++)
                sigaddset(&set, held[i]);
        pthread_sigmask(how, &set, NULL);
}

/* They end the process by default, and their sender cannot know how far it has come. */
void signals_hold(void)
{
        change_mask(SIG_BLOCK);
}

static void on_signal(uv_signal_t *handle, int number)
{
        struct signals *signals = handle->data;

        switch (number) {
        case SIGTERM:
                signals->events.on_stop(signals->owner, "SIGTERM");
                return;
        case SIGINT:
                signals->events.on_stop(signals->owner, "SIGINT");
                return;
        case SIGHUP:
                signals->events.on_reload(signals->owner);
                return;
        case SIGUSR1:
                log_say_more();
                return;
        case SIGUSR2:
                log_say_as_configured();
                return;
        }
}

struct signals *signals_create(uv_loop_t *loop, const struct signals_events *events, void *owner)
{
        struct signals *signals = xcalloc(1, sizeof *signals);

        signals->events = *events;
        signals->owner = owner;
        for (int i = 0; i < N_HANDLED; i++) {
                uv_signal_init(loop, &signals->handles[i]);
                signals->handles[i].data = signals;
                uv_signal_start(&signals->handles[i], on_signal, handled[i]);
                signals->n_open++;
        }
        change_mask(SIG_UNBLOCK);
        return signals;
}

static void on_closed(uv_handle_t *handle)
{
        struct signals *signals = handle->data;

        if (--signals->n_open == 0)
                free(signals);
}

void signals_destroy(struct signals *signals)
{
        for (int i = 0; signals != NULL && i < N_HANDLED; i++)
                uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}

/*
 * Whether each sink can be opened as `run` will open it and, with --connect, be
 * reached. All are probed at once on one loop, and reported in the order of the
 * configuration.
 *
 * A sink ends its probe by its own timeouts. Should one not, the deadline here
 * ends the waiting; such a sink may not be closed, so it is left as it is for
 * the few moments until the process ends.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/doctor/report.h"
#include "cli/process.h"
#include "config/config.h"
#include "loop/resolve.h"
#include "loop/timer.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"

#include <curl/curl.h>
#include <stdlib.h>

#define DEADLINE_MS 30000

struct probe {
        struct probing *probing;
        const struct sink_config *config;
        const struct sink_ops *ops; /* NULL: a module that could not be loaded */
        struct sink *sink;          /* NULL: it could not be opened, or it is closed */
        struct error open_error;    /* why */
        struct outcome outcome;     /* once it is answered */
        bool is_answered;
};

struct probing {
        uv_loop_t loop;
        struct timer *deadline;
        bool is_too_late;
        struct probe *probes; /* owned */
        unsigned n_probes;
        unsigned n_waiting; /* for an answer, then for the end of closing */
        bool connects;
};

/* Left to the end of the process: not a leak, and not a thing to free under a sink's threads. */
static struct probing *unfinished __attribute__((used));

static void count_down(struct probing *probing)
{
        if (--probing->n_waiting == 0)
                uv_stop(&probing->loop);
}

static void on_probed(void *owner, const struct outcome *outcome)
{
        struct probe *probe = owner;

        probe->outcome = *outcome;
        probe->is_answered = true;
        count_down(probe->probing);
}

static void on_deadline(void *owner)
{
        struct probing *probing = owner;

        probing->is_too_late = true;
        uv_stop(&probing->loop);
}

static void on_closed(void *owner)
{
        struct probe *probe = owner;

        probe->sink = NULL;
        count_down(probe->probing);
}

static void start_probe(struct probing *probing, struct probe *probe, const char *modules)
{
        const struct sink_settings settings = {.name = probe->config->name,
            .options = sink_config_options(probe->config),
            .loop = &probing->loop};

        probe->probing = probing;
        probe->ops = sink_kind_load(modules, probe->config, &probe->open_error);
        if (probe->ops == NULL)
                return;
        probe->sink = sink_open(probe->ops, &settings, &probe->open_error);
        if (probe->sink == NULL)
                return;
        if (!probing->connects) {
                probe->is_answered = true;
                return;
        }
        probing->n_waiting++;
        sink_probe(probe->sink, on_probed, probe);
}

static void wait_for_all(struct probing *probing)
{
        probing->is_too_late = false;
        if (probing->n_waiting == 0)
                return;
        timer_arm(probing->deadline, DEADLINE_MS);
        uv_run(&probing->loop, UV_RUN_DEFAULT);
        timer_disarm(probing->deadline);
}

static void report_opened(struct report *report, const char *what, const struct probe *probe)
{
        const struct sink_config *config = probe->config;
        struct bytes topics = {0};

        for (unsigned i = 0; i < config->n_topics; i++)
                bytes_printf(&topics, "%s%s", i > 0 ? ", " : "", config->topics[i]);
        report_ok(report, what, "%s, topics %s", probe->ops->kind,
            topics.data != NULL ? topics.data : "none");
        bytes_deinit(&topics);
}

static const char *remedy_for(enum outcome_fault fault)
{
        switch (fault) {
        case OUTCOME_FAULT_REDIS:
        case OUTCOME_FAULT_NATS:
        case OUTCOME_FAULT_AMQP:
        case OUTCOME_FAULT_KAFKA:
        case OUTCOME_FAULT_POSTGRES:
                return "It can be reached, but would take no events: correct what the error says";
        case OUTCOME_FAULT_AUTH:
                return "Check its user and password in the configuration, and the rights of that "
                       "user (docs/sinks.md lists them)";
        case OUTCOME_FAULT_TLS:
                return "Correct its certificate, or the authorities in ca_file";
        case OUTCOME_FAULT_OTHER:
        case OUTCOME_FAULT_TIMEOUT:
        case OUTCOME_FAULT_LOST:
        case OUTCOME_FAULT_REFUSED:
        case OUTCOME_FAULT_DNS:
        case OUTCOME_FAULT_HTTP_4XX:
        case OUTCOME_FAULT_HTTP_429:
        case OUTCOME_FAULT_HTTP_5XX:
        case OUTCOME_FAULT_SMTP_4XX:
        case OUTCOME_FAULT_SMTP_5XX:
        case OUTCOME_FAULT_PROTOCOL:
        case OUTCOME_FAULT_TOO_LARGE:
        case OUTCOME_FAULT_EVENT:
                break;
        }
        return "Check that it runs and can be reached from here, and its url, user and password in "
               "the configuration";
}

static void report_probe(struct report *report, const struct probe *probe)
{
        char *what = xasprintf("sink %s", probe->config->name);
        const char *kind = probe->ops != NULL ? probe->ops->kind : sink_config_kind(probe->config);

        if (probe->sink != NULL && !probe->probing->connects)
                report_opened(report, what, probe);
        else if (probe->sink == NULL)
                report_fail(report, probe->open_error.kind, what,
                    "Correct the sink's block in the configuration", "%s: %s", kind,
                    probe->open_error.text);
        else if (!probe->is_answered)
                report_fail(report, ERROR_SINK, what,
                    "Check whether the destination is overloaded, or a firewall is in between",
                    "%s: no answer within %d s", kind, DEADLINE_MS / 1000);
        else if (probe->outcome.kind != OUTCOME_DELIVERED)
                report_fail(report, ERROR_SINK, what, remedy_for(probe->outcome.fault), "%s: %s",
                    kind, probe->outcome.reason);
        else if (probe->outcome.needs_operator)
                report_warn(report, what, "Correct it before deliveries fail",
                    "%s: can be reached, but %s", kind, probe->outcome.reason);
        else if (sink_config_fans_out(probe->config))
                report_ok(report, what,
                    "%s: receivers: table; its receivers are not tried here; `pgcourier receiver "
                    "list` lists them",
                    kind);
        else
                report_ok(report, what, "%s: can be reached%s%s", kind,
                    probe->outcome.reason[0] != '\0' ? "; " : "", probe->outcome.reason);
        free(what);
}

/* Closes what may be closed. False if something had to be left open. */
static bool close_answered(struct probing *probing)
{
        bool left_open = false;

        probing->n_waiting = 0;
        for (unsigned i = 0; i < probing->n_probes; i++) {
                struct probe *probe = &probing->probes[i];
                if (probe->sink == NULL)
                        continue;
                if (!probe->is_answered) {
                        left_open = true;
                        continue;
                }
                probing->n_waiting++;
                sink_close(probe->sink, on_closed, probe);
        }
        wait_for_all(probing);
        return !left_open && !probing->is_too_late;
}

bool check_sinks(const struct config *config, bool connects, struct report *report)
{
        struct probing *probing = xcalloc(1, sizeof *probing);

        if (!process_init_curl() || uv_loop_init(&probing->loop) != 0) {
                report_fail(report, ERROR_SYSTEM, "sinks",
                    "Check the limits of memory and open files",
                    "libcurl or the event loop cannot be initialised");
                free(probing);
                return true;
        }
        probing->deadline = timer_create_on(&probing->loop, on_deadline, probing);
        probing->connects = connects;
        resolve_use_servers(
            (const char *const *)config->relay.dns_servers, config->relay.n_dns_servers);
        probing->probes = xcalloc(config->n_sinks, sizeof *probing->probes);
        for (unsigned i = 0; i < config->n_sinks; i++) {
                struct probe *probe = &probing->probes[probing->n_probes];

                if (!relay_config_serves(&config->relay, config->sinks[i].name))
                        continue; /* perhaps it cannot be reached from here */
                probing->n_probes++;
                probe->config = &config->sinks[i];
                start_probe(probing, probe, config->relay.modules);
        }
        wait_for_all(probing);
        for (unsigned i = 0; i < probing->n_probes; i++)
                report_probe(report, &probing->probes[i]);

        if (!close_answered(probing)) {
                unfinished = probing;
                return false;
        }
        timer_destroy(probing->deadline);
        uv_run(&probing->loop, UV_RUN_DEFAULT);
        uv_loop_close(&probing->loop);
        free(probing->probes);
        free(probing);
        curl_global_cleanup();
        return true;
}

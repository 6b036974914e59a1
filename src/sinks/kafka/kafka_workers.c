/* What may block, on threads of libuv's pool: a question for the brokers, a file. The client that
 * they use stays until they are done (kafka_sink::n_workers). */
#include "base/alloc.h"
#include "config/config.h"
#include "config/secret.h"
#include "sinks/kafka/kafka_internal.h"
#include "sinks/kafka/kafka_probe.h"
#include "sinks/kafka/kafka_token.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOKEN_LIFE_MS = 5 * 60 * 1000 };

struct kafka_worker {
        uv_work_t work;
        struct kafka_sink *sink;
        rd_kafka_t *client;
        struct kafka_probe probe;
        bool is_answered;
        struct outcome outcome;
        sink_probed_fn *on_probed;
        void *owner;
};

static struct kafka_worker *worker_create(struct kafka_sink *sink)
{
        struct kafka_worker *worker = xcalloc(1, sizeof *worker);

        worker->work.data = worker;
        worker->sink = sink;
        if (sink->producer != NULL)
                worker->client = kafka_producer_client(sink->producer);
        sink->n_workers++;
        return worker;
}

/* The probe */

static void ask_brokers(uv_work_t *work)
{
        struct kafka_worker *worker = work->data;

        if (worker->client != NULL)
                worker->is_answered = kafka_probe_ask(&worker->probe, &worker->outcome);
}

static struct outcome outcome_of_silence(const struct kafka_sink *sink)
{
        struct outcome outcome = sink->trouble;

        if (outcome.kind != OUTCOME_SINK_DOWN) {
                outcome = outcome_make(OUTCOME_SINK_DOWN, "no broker answered in time");
                outcome.fault = OUTCOME_FAULT_TIMEOUT;
        }
        return outcome;
}

static void on_brokers_asked(uv_work_t *work, int status)
{
        struct kafka_worker *worker = work->data;
        struct kafka_sink *sink = worker->sink;
        sink_probed_fn *on_probed = worker->on_probed;
        void *owner = worker->owner;
        struct outcome outcome = worker->is_answered ? worker->outcome : outcome_of_silence(sink);

        (void)status;
        sink->probing = NULL;
        free(worker);
        sink->on_worker_done(sink);
        on_probed(owner, &outcome);
}

void kafka_workers_probe(
    struct kafka_sink *sink, const struct outcome *failure, sink_probed_fn *on_probed, void *owner)
{
        struct kafka_worker *worker = worker_create(sink);

        worker->probe.config = sink->config;
        worker->probe.topics = sink->topics;
        worker->probe.client = worker->client;
        worker->on_probed = on_probed;
        worker->owner = owner;
        sink->probing = worker;
        if (failure != NULL) {
                worker->is_answered = true;
                worker->outcome = *failure;
                worker->client = NULL;
        }
        uv_queue_work(sink->base.loop, &worker->work, ask_brokers, on_brokers_asked);
}

void kafka_workers_hurry(struct kafka_sink *sink)
{
        if (sink->probing != NULL)
                atomic_store(&sink->probing->probe.is_hurried, true);
}

/* A token */

static int64_t wall_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void give_token(struct kafka_worker *worker, const char *token)
{
        const struct kafka_config *config = worker->sink->config;
        int64_t expires_ms = kafka_token_expires_ms(token);
        char reason[512];

        if (expires_ms == 0) /* it does not say when: look at the file again before long */
                expires_ms = wall_ms() + TOKEN_LIFE_MS;
        if (rd_kafka_oauthbearer_set_token(worker->client, token, expires_ms,
                config->principal != NULL ? config->principal : "pgcourier", NULL, 0, reason,
                sizeof reason) != RD_KAFKA_RESP_ERR_NO_ERROR)
                rd_kafka_oauthbearer_set_token_failure(worker->client, reason);
}

static void read_token(uv_work_t *work)
{
        struct kafka_worker *worker = work->data;
        const char *path = worker->sink->config->token_file;
        struct error error;
        char *token = secret_read_line(path, &error);
        char *reason;

        if (token != NULL) {
                give_token(worker, token);
                secret_free(token);
                return;
        }
        reason = xasprintf("%s %s", path, error.text);
        rd_kafka_oauthbearer_set_token_failure(worker->client, reason);
        free(reason);
}

static void on_token_read(uv_work_t *work, int status)
{
        struct kafka_worker *worker = work->data;
        struct kafka_sink *sink = worker->sink;

        (void)status;
        free(worker);
        sink->on_worker_done(sink);
}

void kafka_workers_read_token(struct kafka_sink *sink)
{
        struct kafka_worker *worker = worker_create(sink);

        uv_queue_work(sink->base.loop, &worker->work, read_token, on_token_read);
}

/* What may block, on threads of libuv's pool: a question for the brokers, a file. The client that
 * they use stays until they are done (kafka_sink::n_workers). */
#include "base/alloc.h"
#include "config/config.h"
#include "config/secret.h"
#include "sinks/kafka/kafka_answers.h"
#include "sinks/kafka/kafka_internal.h"
#include "sinks/kafka/kafka_token.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_MS = 1000, TOKEN_LIFE_MS = 5 * 60 * 1000 };

struct kafka_worker {
        uv_work_t work;
        struct kafka_sink *sink;
        rd_kafka_t *client;
        atomic_bool is_hurried;
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

static struct outcome topic_outcome(const struct kafka_sink *sink, rd_kafka_resp_err_t code)
{
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
            (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && sink->config->create_topics))
                return outcome_delivered;
        return kafka_answer_refusal(&(struct kafka_refusal){
            .code = code, .topic = kafka_topics_fixed_name(sink->topics), .topic_is_fixed = true});
}

static struct outcome judge_metadata(
    const struct kafka_sink *sink, const struct rd_kafka_metadata *metadata)
{
        struct outcome outcome = outcome_delivered;

        for (int i = 0; i < metadata->topic_cnt && outcome.kind == OUTCOME_DELIVERED; i++) {
                const struct rd_kafka_metadata_topic *topic = &metadata->topics[i];
                outcome = topic_outcome(sink, topic->err);
                for (int j = 0; j < topic->partition_cnt; j++)
                        if (topic->partitions[j].leader < 0 && outcome.reason[0] == '\0')
                                outcome = outcome_make(outcome.kind,
                                    "partition %d of topic %s has no leader",
                                    topic->partitions[j].id, topic->topic);
        }
        return outcome;
}

static void ask_brokers(uv_work_t *work)
{
        struct kafka_worker *worker = work->data;
        const struct kafka_sink *sink = worker->sink;
        int64_t left_ms = sink->config->connect_timeout_ms + SLICE_MS;
        rd_kafka_topic_t *topic = NULL;

        if (worker->client == NULL)
                return;
        if (kafka_topics_are_fixed(sink->topics))
                topic =
                    rd_kafka_topic_new(worker->client, kafka_topics_fixed_name(sink->topics), NULL);
        for (; left_ms > 0 && !atomic_load(&worker->is_hurried); left_ms -= SLICE_MS) {
                const struct rd_kafka_metadata *metadata;
                if (rd_kafka_metadata(worker->client, 0, topic, &metadata, SLICE_MS) != 0)
                        continue;
                worker->outcome = judge_metadata(sink, metadata);
                worker->is_answered = true;
                rd_kafka_metadata_destroy(metadata);
                break;
        }
        if (topic != NULL)
                rd_kafka_topic_destroy(topic);
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
                atomic_store(&sink->probing->is_hurried, true);
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

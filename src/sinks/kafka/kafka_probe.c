#include "sinks/kafka/kafka_probe.h"

#include "config/config.h"
#include "sinks/kafka/kafka_answers.h"
#include "sinks/kafka/kafka_topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 1000 };

#define COPIES_NEEDED "min.insync.replicas"

/* The topic, if all events go to the same; else the cluster, for topics made by its defaults. */
struct scope {
        const char *topic; /* NULL: the cluster */
        int broker;        /* that answered */
        int n_replicas;    /* of the topic; 0: unknown */
};

static int64_t patience_ms(const struct kafka_probe *probe)
{
        return probe->config->connect_timeout_ms + SLICE_MS;
}

/* Whether it is there */

static struct outcome topic_outcome(const struct kafka_probe *probe, rd_kafka_resp_err_t code)
{
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
            (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && probe->config->create_topics))
                return outcome_delivered;
        return kafka_answer_refusal(
            &(struct kafka_refusal){.code = code, .topic = kafka_topics_fixed_name(probe->topics)});
}

static struct outcome judge_topic(const struct kafka_probe *probe,
    const struct rd_kafka_metadata_topic *topic, struct scope *scope)
{
        struct outcome outcome = topic_outcome(probe, topic->err);

        for (int i = 0; i < topic->partition_cnt; i++) {
                const struct rd_kafka_metadata_partition *partition = &topic->partitions[i];
                if (partition->leader < 0 && outcome.kind == OUTCOME_DELIVERED) {
                        outcome = outcome_make(OUTCOME_DELIVERED,
                            "partition %d of topic %.100s has no leader", partition->id,
                            topic->topic);
                        outcome.needs_operator = true;
                }
                if (scope->n_replicas == 0 || partition->replica_cnt < scope->n_replicas)
                        scope->n_replicas = partition->replica_cnt;
        }
        return outcome;
}

static bool look(struct kafka_probe *probe, struct scope *scope, struct outcome *out_outcome)
{
        const struct rd_kafka_metadata *metadata;
        rd_kafka_topic_t *topic =
            scope->topic != NULL ? rd_kafka_topic_new(probe->client, scope->topic, NULL) : NULL;
        bool is_answered = false;

        for (int64_t left_ms = patience_ms(probe); left_ms > 0 && !atomic_load(&probe->is_hurried);
             left_ms -= SLICE_MS) {
                if (rd_kafka_metadata(probe->client, 0, topic, &metadata, SLICE_MS) != 0)
                        continue;
                is_answered = true;
                *out_outcome = outcome_delivered;
                scope->broker = metadata->orig_broker_id;
                if (metadata->topic_cnt > 0)
                        *out_outcome = judge_topic(probe, &metadata->topics[0], scope);
                rd_kafka_metadata_destroy(metadata);
                break;
        }
        if (topic != NULL)
                rd_kafka_topic_destroy(topic);
        return is_answered;
}

/* How many brokers have an event before it counts as delivered */

static rd_kafka_event_t *describe(struct kafka_probe *probe, const struct scope *scope)
{
        rd_kafka_event_t *answer = NULL;
        rd_kafka_queue_t *queue = rd_kafka_queue_new(probe->client);
        rd_kafka_AdminOptions_t *options =
            rd_kafka_AdminOptions_new(probe->client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
        rd_kafka_ConfigResource_t *resource;
        char broker[16];

        snprintf(broker, sizeof broker, "%d", scope->broker);
        resource = scope->topic != NULL
                       ? rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, scope->topic)
                       : rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, broker);
        rd_kafka_AdminOptions_set_request_timeout(options, (int)patience_ms(probe), NULL, 0);
        rd_kafka_DescribeConfigs(probe->client, &resource, 1, options, queue);
        while (answer == NULL && !atomic_load(&probe->is_hurried))
                answer = rd_kafka_queue_poll(queue, SLICE_MS);
        rd_kafka_ConfigResource_destroy(resource);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_queue_destroy(queue);
        return answer;
}

/* 0: not told. A login that may not ask may write all the same. */
static int copies_needed(const rd_kafka_event_t *answer)
{
        const rd_kafka_DescribeConfigs_result_t *result =
            rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)(uintptr_t)answer);
        const rd_kafka_ConfigResource_t **resources;
        const rd_kafka_ConfigEntry_t **entries;
        size_t n;

        if (result == NULL)
                return 0;
        resources = rd_kafka_DescribeConfigs_result_resources(result, &n);
        if (n == 0)
                return 0;
        entries = rd_kafka_ConfigResource_configs(resources[0], &n);
        for (size_t i = 0; i < n; i++) {
                const char *value = rd_kafka_ConfigEntry_value(entries[i]);
                if (value != NULL &&
                    strcmp(rd_kafka_ConfigEntry_name(entries[i]), COPIES_NEEDED) == 0)
                        return atoi(value);
        }
        return 0;
}

static struct outcome judge_copies(const struct scope *scope, int n_needed)
{
        struct outcome outcome;

        if (scope->topic == NULL)
                outcome = outcome_make(OUTCOME_DELIVERED,
                    COPIES_NEEDED " of the brokers is %d for topics without their own%s", n_needed,
                    n_needed == 1 ? ": what one broker alone has counts as delivered; set 2" : "");
        else if (n_needed > scope->n_replicas)
                /* Newer brokers take the number of replicas for it (3.9 and 4.1 do). */
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "topic %.100s has replicas: %d, " COPIES_NEEDED
                    ": %d: brokers take no event, or only while all replicas are in step; set %s",
                    scope->topic, scope->n_replicas, n_needed,
                    scope->n_replicas == 1 ? "3 and 2" : "2");
        else if (n_needed == 1)
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "topic %.100s has replicas: %d, " COPIES_NEEDED
                    ": 1: what one broker alone has counts as delivered; set %s",
                    scope->topic, scope->n_replicas, scope->n_replicas == 1 ? "3 and 2" : "2");
        else
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "topic %.100s has replicas: %d, " COPIES_NEEDED ": %d", scope->topic,
                    scope->n_replicas, n_needed);
        outcome.fault = OUTCOME_FAULT_KAFKA;
        outcome.needs_operator =
            n_needed == 1 || (scope->topic != NULL && n_needed > scope->n_replicas);
        return outcome;
}

bool kafka_probe_ask(struct kafka_probe *probe, struct outcome *out_outcome)
{
        struct scope scope = {0};
        rd_kafka_event_t *answer;
        int n_needed;

        if (kafka_topics_are_fixed(probe->topics))
                scope.topic = kafka_topics_fixed_name(probe->topics);
        if (!look(probe, &scope, out_outcome))
                return false;
        if (out_outcome->kind != OUTCOME_DELIVERED || out_outcome->needs_operator ||
            (scope.topic != NULL && scope.n_replicas == 0))
                return true;
        answer = describe(probe, &scope);
        if (answer == NULL)
                return true;
        n_needed = copies_needed(answer);
        rd_kafka_event_destroy(answer);
        if (n_needed > 0)
                *out_outcome = judge_copies(&scope, n_needed);
        return true;
}

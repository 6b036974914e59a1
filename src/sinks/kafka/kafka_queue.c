/*
 * Which attempt is sent when, and what its report means.
 *
 *   deliver -> waiting -produced-> sent -report-> finished
 *                                    |
 *                                    +-refused with its batch-> alone -produced-> sent -> finished
 *
 * A broker refuses a batch as a whole. So while some of one wait to go alone, nothing else is sent:
 * each is the only one with the client, and what it is told then is about itself.
 *
 * An outage: the client goes on by itself when a broker is back, and sends what it had sent before
 * by the same numbers, so that nothing is stored twice. It is left alone for connect_timeout; then
 * it has to give back everything. After that, until a broker has answered again, everything comes
 * back at once.
 */
#include "base/alloc.h"
#include "config/config.h"
#include "loop/timer.h"
#include "sinks/format/message.h"
#include "sinks/kafka/kafka_answers.h"
#include "sinks/kafka/kafka_internal.h"
#include "sinks/sink_contract.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        LOOK_MS = 250,
        PATIENCE_MS = 2000, /* beyond the timeout: the client itself looks once a second */
        CREATE_TOPIC_MS = 10000
};

struct kafka_sending {
        struct list link;
        struct attempt *attempt; /* lent by the relay */
        struct kafka_topic *topic;
        uint64_t since_ms; /* in its list */
        bool is_alone;
        bool is_cancelled;
};

static uint64_t now_ms(const struct kafka_sink *sink)
{
        return uv_now(sink->base.loop);
}

static struct kafka_sending *first_of(struct list *list)
{
        return list_owner(list->next, struct kafka_sending, link);
}

static void move_to(struct kafka_sink *sink, struct kafka_sending *sending, struct list *list)
{
        list_remove(&sending->link);
        list_push_back(list, &sending->link);
        sending->since_ms = now_ms(sink);
}

static struct attempt *release(struct kafka_sending *sending)
{
        struct attempt *attempt = sending->attempt;

        list_remove(&sending->link);
        free(sending);
        return attempt;
}

static void finish_all_later(struct list *list, const struct outcome *outcome)
{
        while (!list_is_empty(list))
                attempt_finish_later(release(first_of(list)), outcome);
}

static bool is_at_rest(const struct kafka_sink *sink)
{
        return list_is_empty(&sink->waiting) && list_is_empty(&sink->sent) &&
               list_is_empty(&sink->alone);
}

static struct outcome trouble_of(const struct kafka_sink *sink)
{
        if (sink->trouble.kind == OUTCOME_SINK_DOWN)
                return sink->trouble;
        return outcome_down(OUTCOME_FAULT_REFUSED, false, "no broker can be reached");
}

/* Sending */

static rd_kafka_headers_t *make_headers(const struct message *message)
{
        rd_kafka_headers_t *headers = rd_kafka_headers_new(message->n_headers);

        for (size_t i = 0; i < message->n_headers; i++)
                rd_kafka_header_add(headers, message->headers[i].name, -1,
                    message->headers[i].value, (ssize_t)message->headers[i].value_bytes);
        return headers;
}

static rd_kafka_resp_err_t produce(
    struct kafka_sink *sink, struct kafka_sending *sending, const struct message *message)
{
        rd_kafka_headers_t *headers = make_headers(message);
        void *body = message->is_null ? NULL : (void *)(uintptr_t)message->body;
        size_t key_bytes = message->key != NULL ? message->key_bytes : 0;
        rd_kafka_resp_err_t code = rd_kafka_producev(kafka_producer_client(sink->producer),
            RD_KAFKA_V_RKT(sending->topic->handle), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(message->key, key_bytes), RD_KAFKA_V_VALUE(body, message->body_bytes),
            RD_KAFKA_V_TIMESTAMP(sending->attempt->event->created_us / 1000),
            RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(sending), RD_KAFKA_V_END);

        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
                rd_kafka_headers_destroy(headers);
        return code;
}

static struct outcome judge(const struct kafka_sink *sink, const struct kafka_sending *sending,
    rd_kafka_resp_err_t code, bool may_be_stored)
{
        if (kafka_answer_is_of_topic(code))
                kafka_topics_forget(sink->topics, sending->topic);
        return kafka_answer_refusal(&(struct kafka_refusal){
            .code = code, .may_be_stored = may_be_stored, .topic = sending->topic->name});
}

static void create_topic(struct kafka_sink *sink, struct kafka_topic *topic)
{
        const struct kafka_config *config = sink->config;
        rd_kafka_t *client = kafka_producer_client(sink->producer);
        rd_kafka_AdminOptions_t *options =
            rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_CREATETOPICS);
        rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic->name,
            config->partitions > 0 ? (int)config->partitions : -1,
            config->replicas > 0 ? (int)config->replicas : -1, NULL, 0);

        topic->state = KAFKA_TOPIC_CREATING;
        rd_kafka_AdminOptions_set_request_timeout(options, CREATE_TOPIC_MS, NULL, 0);
        rd_kafka_AdminOptions_set_operation_timeout(options, CREATE_TOPIC_MS / 2, NULL, 0);
        rd_kafka_AdminOptions_set_opaque(options, topic->name);
        rd_kafka_CreateTopics(client, &wanted, 1, options, kafka_producer_queue(sink->producer));
        rd_kafka_NewTopic_destroy(wanted);
        rd_kafka_AdminOptions_destroy(options);
}

/* False: the client is full; its next report makes room. */
static bool try_to_send(struct kafka_sink *sink, struct kafka_sending *sending)
{
        struct message message;
        struct outcome outcome;
        rd_kafka_resp_err_t code;

        if (sending->topic->state == KAFKA_TOPIC_NEW)
                create_topic(sink, sending->topic);
        if (sending->topic->state == KAFKA_TOPIC_CREATING)
                return true;
        if (!message_make(sink->maker, sending->attempt->event, &message, &outcome)) {
                attempt_finish_later(release(sending), &outcome);
                return true;
        }
        code = kafka_topic_open(sending->topic, kafka_producer_client(sink->producer))
                   ? produce(sink, sending, &message)
                   : rd_kafka_last_error();
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
                return false;
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
                move_to(sink, sending, &sink->sent);
                return true;
        }
        outcome = judge(sink, sending, code, false);
        attempt_finish_later(release(sending), &outcome);
        return true;
}

/* False as above, or while its topic is created anew: it may have been deleted meanwhile. */
static bool try_next_alone(struct kafka_sink *sink)
{
        struct kafka_sending *sending = first_of(&sink->alone);
        const struct kafka_topic *topic = sending->topic;

        return try_to_send(sink, sending) && topic->state != KAFKA_TOPIC_CREATING;
}

bool kafka_queue_has_producer(struct kafka_sink *sink, struct outcome *out_trouble)
{
        struct error error;

        if (sink->producer != NULL)
                return true;
        sink->producer = kafka_producer_create(
            sink->base.loop, sink->base.name, sink->conf, &sink->listener, &error);
        if (sink->producer != NULL)
                return true;
        *out_trouble = outcome_down(OUTCOME_FAULT_OTHER, true, "%s", error.text);
        return false;
}

void kafka_queue_send(struct kafka_sink *sink)
{
        struct outcome trouble;

        if (sink->is_retiring || sink->is_broken || is_at_rest(sink))
                return;
        if (!kafka_queue_has_producer(sink, &trouble)) {
                finish_all_later(&sink->alone, &trouble);
                finish_all_later(&sink->waiting, &trouble);
                return;
        }
        while (!list_is_empty(&sink->alone) && list_is_empty(&sink->sent))
                if (!try_next_alone(sink))
                        break;
        if (list_is_empty(&sink->alone) &&
            (list_is_empty(&sink->sent) || !first_of(&sink->sent)->is_alone))
                list_for_each (link, &sink->waiting)
                        if (!try_to_send(sink, list_owner(link, struct kafka_sending, link)))
                                break;
        if (!timer_is_armed(sink->look))
                timer_arm_behind_sockets(sink->look, LOOK_MS);
}

void kafka_queue_add(struct kafka_sink *sink, struct attempt *attempt, struct kafka_topic *topic)
{
        struct kafka_sending *sending = xcalloc(1, sizeof *sending);

        sending->attempt = attempt;
        sending->topic = topic;
        list_init(&sending->link);
        move_to(sink, sending, &sink->waiting);
}

/* Giving up */

static void purge(struct kafka_sink *sink, int flags)
{
        if (sink->producer != NULL)
                rd_kafka_purge(kafka_producer_client(sink->producer), flags);
}

void kafka_queue_cancel(struct kafka_sink *sink)
{
        finish_all_later(&sink->waiting, &outcome_cancelled);
        finish_all_later(&sink->alone, &outcome_cancelled);
        list_for_each (link, &sink->sent)
                list_owner(link, struct kafka_sending, link)->is_cancelled = true;
        if (!list_is_empty(&sink->sent))
                purge(sink, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

static void give_back_for_outage(struct kafka_sink *sink)
{
        sink->was_answered = false;
        purge(sink, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

static void finish_close(struct kafka_sink *sink);

static void on_producer_gone(void *owner)
{
        struct kafka_sink *sink = owner;

        sink->is_retiring = false;
        if (sink->is_closing)
                finish_close(sink);
        else
                kafka_queue_send(sink);
}

static void retire(struct kafka_sink *sink)
{
        struct kafka_producer *producer = sink->producer;

        sink->producer = NULL;
        sink->is_broken = false;
        sink->is_retiring = true;
        sink->is_down = false;
        sink->was_answered = false;
        kafka_topics_close(sink->topics);
        kafka_producer_retire(producer, on_producer_gone, sink);
}

static bool is_overdue(const struct kafka_sink *sink, const struct kafka_sending *sending)
{
        return now_ms(sink) - sending->since_ms >= (uint64_t)sink->config->timeout_ms + PATIENCE_MS;
}

static struct outcome outcome_of_broken(
    const struct kafka_sink *sink, const struct kafka_sending *sending)
{
        struct outcome outcome;

        if (sending->is_cancelled)
                return outcome_cancelled;
        if (!is_overdue(sink, sending))
                return trouble_of(sink);
        outcome = outcome_make(OUTCOME_RETRY, "no answer in time; it may have been stored");
        outcome.fault = OUTCOME_FAULT_TIMEOUT;
        outcome.is_unanswered = true;
        return outcome;
}

/* Its reports will not be read: what is with it comes to an end here. */
static void give_up_broken(struct kafka_sink *sink)
{
        struct list theirs;

        if (!sink->is_broken || sink->n_workers > 0)
                return;
        list_init(&theirs);
        while (!list_is_empty(&sink->sent)) {
                struct list *link = sink->sent.next;
                list_remove(link);
                list_push_back(&theirs, link);
        }
        retire(sink);
        while (!list_is_empty(&theirs)) {
                struct outcome outcome = outcome_of_broken(sink, first_of(&theirs));
                attempt_finish(release(first_of(&theirs)), &outcome);
        }
}

/* The client's words */

static void on_report(void *owner, void *opaque, rd_kafka_resp_err_t code, bool may_be_stored)
{
        struct kafka_sink *sink = owner;
        struct kafka_sending *sending = opaque;
        struct outcome outcome;

        if (code >= RD_KAFKA_RESP_ERR_NO_ERROR) { /* a broker's own word */
                sink->is_down = false;
                sink->was_answered = true;
                if (!sink->is_broken)
                        sink->trouble = outcome_delivered;
        }
        if (kafka_answer_blames_batch(code) && !sending->is_alone && !sending->is_cancelled) {
                sending->is_alone = true;
                move_to(sink, sending, &sink->alone);
                return;
        }
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
                outcome = outcome_delivered;
        else if (kafka_answer_is_purge(code))
                outcome = sending->is_cancelled ? outcome_cancelled : trouble_of(sink);
        else
                outcome = judge(sink, sending, code, may_be_stored);
        attempt_finish(release(sending), &outcome);
}

static void on_all_down(void *owner)
{
        struct kafka_sink *sink = owner;

        if (!sink->is_down)
                sink->down_since_ms = now_ms(sink);
        sink->is_down = true;
        if (!sink->was_answered)
                give_back_for_outage(sink);
        kafka_workers_hurry(sink);
}

/* librdkafka before 2.6.1 repeats a nonce, which Kafka 4 takes for a wrong password. */
static bool may_be_scram_of_old(const struct kafka_sink *sink, const struct outcome *trouble)
{
        enum kafka_sasl sasl = sink->config->sasl;

        return trouble->fault == OUTCOME_FAULT_AUTH && rd_kafka_version() < 0x02060100 &&
               (sasl == KAFKA_SASL_SCRAM_SHA_256 || sasl == KAFKA_SASL_SCRAM_SHA_512);
}

static void on_trouble(void *owner, const struct outcome *trouble)
{
        struct kafka_sink *sink = owner;

        sink->trouble = *trouble;
        if (may_be_scram_of_old(sink, trouble))
                snprintf(sink->trouble.reason, sizeof sink->trouble.reason,
                    "%.160s; librdkafka %s cannot log in to Kafka 4 by SCRAM, 2.6.1 can",
                    trouble->reason, rd_kafka_version_str());
        /* Without a token the client does not even try to connect, and so never fails to. */
        if (trouble->needs_operator && !sink->was_answered)
                on_all_down(sink);
}

static void on_fatal(void *owner, const struct outcome *trouble)
{
        struct kafka_sink *sink = owner;

        sink->trouble = *trouble;
        sink->is_broken = true;
}

static void finish_all_of_topic(struct list *list, const char *name, const struct outcome *outcome)
{
        list_for_each (link, list) {
                struct kafka_sending *sending = list_owner(link, struct kafka_sending, link);
                if (strcmp(sending->topic->name, name) == 0)
                        attempt_finish_later(release(sending), outcome);
        }
}

static void on_topic_made(
    void *owner, const char *name, rd_kafka_resp_err_t code, const char *words)
{
        struct kafka_sink *sink = owner;
        bool is_there =
            code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
        struct outcome outcome;

        kafka_topics_made(sink->topics, name, is_there);
        if (is_there)
                return;
        outcome = kafka_answer_creation(code, words, name);
        finish_all_of_topic(&sink->alone, name, &outcome);
        finish_all_of_topic(&sink->waiting, name, &outcome);
}

static void on_token_wanted(void *owner)
{
        kafka_workers_read_token(owner);
}

static void on_idle(void *owner)
{
        struct kafka_sink *sink = owner;

        give_up_broken(sink);
        kafka_queue_send(sink);
}

/* While anything is under way: what the client does not tell by itself. */
static void on_look(void *owner)
{
        struct kafka_sink *sink = owner;
        struct outcome trouble = trouble_of(sink);
        uint64_t patience_ms = (uint64_t)sink->config->connect_timeout_ms;

        if (is_at_rest(sink))
                return;
        timer_arm_behind_sockets(sink->look, LOOK_MS);
        while (!list_is_empty(&sink->waiting) && is_overdue(sink, first_of(&sink->waiting)))
                attempt_finish(release(first_of(&sink->waiting)), &trouble);
        if (list_is_empty(&sink->sent))
                return;
        if (is_overdue(sink, first_of(&sink->sent)))
                sink->is_broken = true;
        else if (sink->is_down && now_ms(sink) - sink->down_since_ms >= patience_ms &&
                 now_ms(sink) - first_of(&sink->sent)->since_ms >= patience_ms)
                give_back_for_outage(sink);
        give_up_broken(sink);
}

static void on_worker_done(struct kafka_sink *sink)
{
        sink->n_workers--;
        give_up_broken(sink);
}

/* The beginning and the end */

void kafka_queue_init(struct kafka_sink *sink)
{
        list_init(&sink->waiting);
        list_init(&sink->sent);
        list_init(&sink->alone);
        sink->trouble = outcome_delivered;
        sink->on_worker_done = on_worker_done;
        sink->look = timer_create_on(sink->base.loop, on_look, sink);
        sink->listener = (struct kafka_listener){.on_report = on_report,
            .on_trouble = on_trouble,
            .on_all_down = on_all_down,
            .on_fatal = on_fatal,
            .on_topic_made = on_topic_made,
            .on_token_wanted = on_token_wanted,
            .on_idle = on_idle,
            .owner = sink};
}

static void destroy(struct sink *base)
{
        struct kafka_sink *sink = (struct kafka_sink *)base;

        assert(is_at_rest(sink));
        timer_destroy(sink->look);
        kafka_topics_destroy(sink->topics);
        message_maker_destroy(sink->maker);
        rd_kafka_conf_destroy(sink->conf);
        sink_deinit(&sink->base);
        free(sink);
}

static void finish_close(struct kafka_sink *sink)
{
        sink_close_later(&sink->base, destroy, sink->on_closed, sink->closed_owner);
}

void kafka_queue_close(struct kafka_sink *sink)
{
        sink->is_closing = true;
        if (sink->producer != NULL && sink->n_workers > 0)
                sink->is_broken = true; /* goes when the worker is done */
        else if (sink->producer != NULL)
                retire(sink);
        else if (!sink->is_retiring)
                finish_close(sink);
}

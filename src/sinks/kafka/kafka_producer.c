#include "sinks/kafka/kafka_producer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "log/log.h"
#include "loop/socket_watch.h"
#include "sinks/kafka/kafka_answers.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOUDEST_WARNING = 4 /* of syslog: 4 is warning */, LOUDEST_NOTICE = 6 };

struct kafka_producer {
        uv_loop_t *loop;
        const char *sink;                      /* borrowed */
        const struct kafka_listener *listener; /* borrowed */
        rd_kafka_t *client;
        rd_kafka_queue_t *queue;
        int bell; /* an eventfd */
        struct socket_watch *watch;
        bool is_telling; /* what stands in the queue */

        uv_work_t retiring;
        kafka_gone_fn *on_gone;
        void *owner;
};

static void tell_log(struct kafka_producer *producer, rd_kafka_event_t *event)
{
        const char *facility;
        const char *words;
        int loudness;

        if (rd_kafka_event_log(event, &facility, &words, &loudness) != 0)
                return;
        /* What matters of it becomes the outcome of an attempt, and is logged as that. */
        if (loudness <= LOUDEST_NOTICE)
                log_info("kafka_client", kv_text("sink", producer->sink),
                    kv_text("facility", facility), kv_text("words", words));
        else
                log_debug("kafka_client", kv_text("sink", producer->sink),
                    kv_text("facility", facility), kv_text("words", words));
}

static void tell_reports(const struct kafka_listener *listener, rd_kafka_event_t *event)
{
        const rd_kafka_message_t *message;

        while ((message = rd_kafka_event_message_next(event)) != NULL)
                listener->on_report(listener->owner, message->_private, message->err,
                    rd_kafka_message_status(message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED);
}

static void tell_error(struct kafka_producer *producer, rd_kafka_event_t *event)
{
        const struct kafka_listener *listener = producer->listener;
        rd_kafka_resp_err_t code = rd_kafka_event_error(event);
        struct outcome trouble;

        if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
                listener->on_all_down(listener->owner);
                return;
        }
        if (rd_kafka_event_error_is_fatal(event) || code == RD_KAFKA_RESP_ERR__FATAL) {
                char words[256];
                code = rd_kafka_fatal_error(producer->client, words, sizeof words);
                trouble = kafka_answer_trouble(code, words);
                listener->on_fatal(listener->owner, &trouble);
                return;
        }
        trouble = kafka_answer_trouble(code, rd_kafka_event_error_string(event));
        listener->on_trouble(listener->owner, &trouble);
}

static void tell_topics(const struct kafka_listener *listener, rd_kafka_event_t *event)
{
        const rd_kafka_CreateTopics_result_t *result = rd_kafka_event_CreateTopics_result(event);
        const rd_kafka_topic_result_t **topics;
        size_t n_topics = 0;

        /* Where the request as a whole failed there are none: the opaque is the one asked for. */
        topics = rd_kafka_CreateTopics_result_topics(result, &n_topics);
        if (rd_kafka_event_error(event) != 0) {
                listener->on_topic_made(listener->owner, rd_kafka_event_opaque(event),
                    rd_kafka_event_error(event), rd_kafka_event_error_string(event));
                return;
        }
        for (size_t i = 0; i < n_topics; i++)
                listener->on_topic_made(listener->owner, rd_kafka_topic_result_name(topics[i]),
                    rd_kafka_topic_result_error(topics[i]),
                    rd_kafka_topic_result_error_string(topics[i]));
}

static void tell(struct kafka_producer *producer, rd_kafka_event_t *event)
{
        switch (rd_kafka_event_type(event)) {
        case RD_KAFKA_EVENT_DR:
                tell_reports(producer->listener, event);
                return;
        case RD_KAFKA_EVENT_LOG:
                tell_log(producer, event);
                return;
        case RD_KAFKA_EVENT_ERROR:
                tell_error(producer, event);
                return;
        case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
                tell_topics(producer->listener, event);
                return;
        case RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH:
                producer->listener->on_token_wanted(producer->listener->owner);
                return;
        default:
                return;
        }
}

/* On a thread of the pool. */
static void retire(uv_work_t *work)
{
        struct kafka_producer *producer = work->data;

        rd_kafka_purge(producer->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_queue_destroy(producer->queue);
        rd_kafka_destroy(producer->client);
}

static void on_retired(uv_work_t *work, int status)
{
        struct kafka_producer *producer = work->data;
        kafka_gone_fn *on_gone = producer->on_gone;
        void *owner = producer->owner;

        (void)status;
        close(producer->bell);
        free(producer);
        on_gone(owner);
}

static void start_retiring(struct kafka_producer *producer)
{
        uv_queue_work(producer->loop, &producer->retiring, retire, on_retired);
}

static void on_bell(void *owner, int events)
{
        struct kafka_producer *producer = owner;
        rd_kafka_event_t *event;
        uint64_t rings;

        (void)events;
        if (read(producer->bell, &rings, sizeof rings) < 0 && errno != EAGAIN)
                log_error("kafka_client", kv_text("sink", producer->sink),
                    kv_text("words", strerror(errno)));
        producer->is_telling = true;
        while (producer->on_gone == NULL &&
               (event = rd_kafka_queue_poll(producer->queue, 0)) != NULL) {
                tell(producer, event);
                rd_kafka_event_destroy(event);
        }
        producer->is_telling = false;
        if (producer->on_gone != NULL)
                start_retiring(producer);
        else
                producer->listener->on_idle(producer->listener->owner);
}

static rd_kafka_t *create_client(const rd_kafka_conf_t *conf, struct error *error)
{
        rd_kafka_conf_t *own = rd_kafka_conf_dup(conf);
        rd_kafka_t *client;
        char reason[512];

        rd_kafka_conf_set_events(own, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR |
                                          RD_KAFKA_EVENT_LOG |
                                          RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH);
        client = rd_kafka_new(RD_KAFKA_PRODUCER, own, reason, sizeof reason);
        if (client != NULL)
                return client;
        rd_kafka_conf_destroy(own);
        error_set(error, ERROR_SINK, "%s", reason);
        return NULL;
}

struct kafka_producer *kafka_producer_create(uv_loop_t *loop, const char *sink,
    const rd_kafka_conf_t *conf, const struct kafka_listener *listener, struct error *error)
{
        static const uint64_t ring = 1;
        struct kafka_producer *producer;
        rd_kafka_t *client;
        int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

        if (bell < 0) {
                error_set(error, ERROR_SYSTEM, "eventfd: %s", strerror(errno));
                return NULL;
        }
        client = create_client(conf, error);
        if (client == NULL) {
                close(bell);
                return NULL;
        }
        producer = xcalloc(1, sizeof *producer);
        producer->loop = loop;
        producer->sink = sink;
        producer->listener = listener;
        producer->client = client;
        producer->bell = bell;
        rd_kafka_set_log_queue(client, NULL); /* the main one */
        producer->queue = rd_kafka_queue_get_main(client);
        rd_kafka_queue_io_event_enable(producer->queue, bell, &ring, sizeof ring);
        producer->watch = socket_watch_create(loop, bell, on_bell, producer);
        socket_watch_set(producer->watch, SOCKET_READABLE);
        /* What came before the bell was there rings it now. */
        if (write(bell, &ring, sizeof ring) < 0)
                log_error("kafka_client", kv_text("sink", sink), kv_text("words", strerror(errno)));
        return producer;
}

rd_kafka_t *kafka_producer_client(const struct kafka_producer *producer)
{
        return producer->client;
}

rd_kafka_queue_t *kafka_producer_queue(const struct kafka_producer *producer)
{
        return producer->queue;
}

void kafka_producer_retire(struct kafka_producer *producer, kafka_gone_fn *on_gone, void *owner)
{
        socket_watch_destroy(producer->watch);
        rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
        producer->on_gone = on_gone;
        producer->owner = owner;
        producer->retiring.data = producer;
        if (!producer->is_telling) /* else when that has come to an end */
                start_retiring(producer);
}

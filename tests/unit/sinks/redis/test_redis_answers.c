#include "base/error.h"
#include "config/config.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static char stream[] = "s";
static char id_text[] = "1-1";
static char error_text[] = "WRONGTYPE Operation against a key";
static redisReply id = {.type = REDIS_REPLY_STRING, .str = id_text, .len = 3};
static redisReply refusal = {
    .type = REDIS_REPLY_ERROR, .str = error_text, .len = sizeof error_text - 1};
static redisReply ok = {.type = REDIS_REPLY_STATUS, .str = id_text, .len = 3};
static redisReply one_replica = {.type = REDIS_REPLY_INTEGER, .integer = 1};

static struct event event = {.event_id = "0b8f5c1e-7d3a-4c55-9d0a-111111111111",
    .topic = "orders",
    .payload = "{}",
    .payload_bytes = 2};
static struct attempt attempts[4];

/* Queues of a cluster's sink that waits for a replica, without connections. */
static struct redis_sink *create_sink(const struct redis_config *config)
{
        struct redis_sink *sink = calloc(1, sizeof *sink);
        struct error error;

        sink->config = config;
        sink->policy = (struct redis_burst_policy){.is_cluster = true, .wait_replicas = 1};
        sink->encoder = redis_command_create(config, &error);
        sink->answers = calloc(REDIS_BURST_MAX, sizeof *sink->answers);
        return sink;
}

static void destroy_sink(struct redis_sink *sink)
{
        redis_command_destroy(sink->encoder);
        free(sink->answers);
        free(sink);
}

static struct redis_queue *send_two(struct redis_sink *sink, struct attempt *first)
{
        struct redis_queue *queue = redis_queue_create(sink);
        struct bytes out = {0};

        for (int i = 0; i < 2; i++) {
                first[i].event = &event;
                redis_ring_push(&queue->ring, (struct redis_request){.attempt = &first[i]});
        }
        cr_assert_eq(redis_queue_send(queue, &out), 5); /* MULTI, two commands, EXEC, WAIT */
        for (int i = 0; i < 3; i++)
                cr_assert_not(redis_queue_take(queue, &ok).may_send);
        bytes_deinit(&out);
        return queue;
}

static void execute(struct redis_queue *queue, redisReply *second)
{
        redisReply *elements[] = {&id, second};
        const redisReply exec = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};

        cr_expect_eq(redis_queue_take(queue, &exec).n_answers, 0);
}

Test(redis_answers, of_each_queue_are_kept_while_replicas_are_counted)
{
        struct redis_config config = {.stream = stream};
        struct redis_sink *sink = create_sink(&config);
        struct redis_queue *refused = send_two(sink, &attempts[0]);
        struct redis_queue *delivered = send_two(sink, &attempts[2]);

        execute(refused, &refusal);
        execute(delivered, &id);

        cr_expect_eq(redis_queue_take(refused, &one_replica).n_answers, 2);
        cr_expect(sink->answers[0].is_delivered && !sink->answers[1].is_delivered);
        cr_expect_eq(sink->answers[1].request.attempt, &attempts[1]);

        cr_expect_eq(redis_queue_take(delivered, &one_replica).n_answers, 2);
        cr_expect(sink->answers[0].is_delivered && sink->answers[1].is_delivered);

        redis_queue_destroy(refused);
        redis_queue_destroy(delivered);
        destroy_sink(sink);
}

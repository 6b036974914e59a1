/* What a real Redis makes of the sink's other modes: channels, trimming by age, replicas. */
#include "redis_rig.h"

#include "support/process.h"

static redisContext *subscribe(const struct redis_server *server, const char *channel)
{
        redisContext *context = redisConnect("127.0.0.1", server->port);
        redisReply *reply = redisCommand(context, "SUBSCRIBE %s", channel);

        cr_assert(reply != NULL);
        freeReplyObject(reply);
        return context;
}

static void expect_message(redisContext *context, const char *expected)
{
        void *reply = NULL;
        const redisReply *message;

        cr_assert(redisGetReply(context, &reply) == REDIS_OK, "%s", context->errstr);
        message = reply;
        cr_expect(reply_is(message->element[2], expected, strlen(expected)), "%s instead of %s",
            message->element[2]->str, expected);
        freeReplyObject(reply);
}

Test(redis_modes, publishes_in_order_to_all_that_listen)
{
        redisContext *listener;
        struct rig rig;
        char channel[] = "news:{{topic}}";

        rig_start(&rig, 41);
        rig.config.mode = REDIS_PUBSUB;
        rig.config.channel = channel;
        for (unsigned i = 0; i < 41; i++)
                rig.events[i].key = i % 2 == 0 ? "k" : NULL;
        rig_open(&rig);
        rig_deliver_all(&rig, 1); /* no client listens, and that is no failure */
        listener = subscribe(&rig.server, "news:orders");
        rig_deliver_all(&rig, 40);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 41);
        for (unsigned i = 1; i < 41; i++)
                expect_message(listener, rig.payloads[i]);
        redisFree(listener);
        rig_stop(&rig);
}

Test(redis_modes, trims_what_is_older_than_minid)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        for (int i = 1; i <= 250; i++) /* Redis drops whole nodes of 100 */
                redis_server_do(&server, "XADD events %d-1 a b", i);
        rig_init(&rig, &server, 1);
        rig.config.minid_ms = 3600 * 1000;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        cr_expect_leq(redis_server_count(&server, "XLEN events"), 51);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_modes, rejects_what_would_make_too_many_streams_and_nothing_else)
{
        struct rig rig;
        char stream[] = "s:{{topic}}";

        rig_start(&rig, 4);
        rig.config.stream = stream;
        rig.config.max_streams = 1;
        rig.events[1].topic = "other";
        rig_open(&rig);
        for (unsigned i = 0; i < 4; i++)
                rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_REJECTED, "redis.max_streams (1)");
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 3);
        cr_expect(redis_server_count(&rig.server, "DBSIZE") == 1);
        rig_stop(&rig);
}

static bool has_replica(void *context)
{
        return redis_server_count(context, "WAIT 1 100") == 1;
}

static void start_replica(struct redis_server *replica, struct redis_server *of)
{
        redis_server_start(replica, NULL);
        redis_server_do(replica, "REPLICAOF 127.0.0.1 %d", (int)of->port);
        redis_server_do(of, "SET x y");
        wait_until(has_replica, of, 30000, "the replica follows");
}

static void wait_for_replica(bool exactly_once)
{
        struct redis_server server;
        struct redis_server replica;
        struct rig rig;

        redis_server_start(&server, NULL);
        redis_server_do(&server, "CONFIG SET repl-diskless-sync-delay 0");
        start_replica(&replica, &server);
        rig_init(&rig, &server, 40);
        rig.config.wait_replicas = 1;
        rig.config.wait_timeout_ms = 15000;
        rig.config.exactly_once = exactly_once;
        rig_open(&rig);
        if (exactly_once)
                rig.driver.sink->ops->owned(rig.driver.sink, 1);
        rig_deliver_all(&rig, 10);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 10);
        cr_expect(redis_server_count(&replica, "XLEN events") == 10);

        rig.config.wait_timeout_ms = 100;
        redis_server_pause(&replica);
        rig_deliver_all(&rig, 3);
        for (unsigned i = 10; i < 13; i++)
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "0 of the 1 replicas");
        cr_expect(redis_server_count(&server, "XLEN events") == 13);
        for (unsigned i = 10; i < 13; i++) /* they come again */
                rig.events[i + 3] = rig.events[i];
        rig_deliver_all(&rig, 3);
        expect_outcome(&rig, 13, OUTCOME_SINK_DOWN, "0 of the 1 replicas");

        rig.config.wait_timeout_ms = 15000;
        redis_server_resume(&replica);
        wait_until(has_replica, &server, 30000, "the replica follows again");
        for (unsigned i = 10; i < 13; i++)
                rig.events[i + 6] = rig.events[i];
        rig_deliver_all(&rig, 3);
        for (unsigned i = 16; i < 19; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        cr_expect_eq(redis_server_count(&server, "XLEN events"), exactly_once ? 13 : 19);
        rig_destroy(&rig);
        redis_server_destroy(&replica);
        redis_server_destroy(&server);
}

Test(redis_modes, is_down_while_too_few_replicas_have_it)
{
        wait_for_replica(false);
}

Test(redis_modes, repeats_nothing_that_was_marked_while_replicas_were_missing)
{
        wait_for_replica(true);
}

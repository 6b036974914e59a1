/* The whole batch goes out before the first reply is awaited; Redis begins with the first pieces
 * while the rest is being written. */
#include "redis.h"
#include "sink.h"

static struct redis *redis;
static unsigned n_awaited;

static void redis_open(const char *where)
{
        redis = redis_connect(where);
}

static void redis_sink_add(const struct event *event)
{
        redis_add(redis, event);
        n_awaited++;
}

static void redis_await(void)
{
        redis_send(redis);
        for (; n_awaited > 0; n_awaited--)
                redis_await_reply(redis);
}

const struct sink redis_sink = {
    .name = "redis", .open = redis_open, .add = redis_sink_add, .await = redis_await};

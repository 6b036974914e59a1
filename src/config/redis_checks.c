#include "config/redis_checks.h"

#include "config/config.h"
#include "config/source.h"

#include <stddef.h>
#include <string.h>

struct check {
        const struct source *source;
        const char *path; /* of the block */
};

static bool is_given(const struct check *check, const char *name)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, check->path, name);
        return places_find(check->source->places, key_path) != NULL;
}

static bool fail(const struct check *check, const char *name, const char *what)
{
        char key_path[KEY_PATH_SIZE];

        key_path_join(key_path, check->path, name);
        return source_fail(check->source, key_path, "%s", what);
}

static bool check_mode(const struct check *check, const struct redis_config *redis)
{
        static const char *const of_streams[] = {
            "stream", "maxlen", "minid", "layout", "wait_replicas", "wait_timeout", "exactly_once"};

        if (redis->mode == REDIS_STREAM)
                return !is_given(check, "channel") ||
                       fail(check, "channel", "is only for mode: pubsub; use stream");
        for (size_t i = 0; i < sizeof of_streams / sizeof of_streams[0]; i++)
                if (is_given(check, of_streams[i]))
                        return fail(check, of_streams[i],
                            "is only for mode: stream; leave it out with mode: pubsub");
        return true;
}

/* A cluster keeps keys together that share the text in their first braces. The keys beside the stream
 * take the stream's name into theirs, or its own braces. */
static bool has_usable_braces(const char *stream)
{
        const char *open = strchr(stream, '{');
        const char *close = open != NULL ? strchr(open, '}') : NULL;

        if (open == NULL)
                return strchr(stream, '}') == NULL;
        return close != NULL && close > open + 1;
}

static bool check_exactly_once(const struct check *check, const struct redis_config *redis)
{
        if (!redis->exactly_once)
                return true;
        if (!is_given(check, "stream") || strstr(redis->stream, "{{") != NULL)
                return fail(check, "exactly_once",
                    "needs a fixed stream: what was delivered is noted beside it; set stream to a "
                    "name without variables");
        if (!has_usable_braces(redis->stream))
                return fail(check, "stream",
                    "has braces that are no hash tag, which exactly_once cannot use; allowed: "
                    "none, or a text in braces");
        return true;
}

bool check_redis_options(
    const struct source *source, const struct redis_config *redis, const char *path)
{
        const struct check check = {source, path};

        if (!check_mode(&check, redis))
                return false;
        if (redis->maxlen > 0 && redis->minid_ms > 0)
                return fail(&check, "minid", "is given together with maxlen; keep one of the two");
        if (redis->format != FORMAT_CLOUDEVENTS && is_given(&check, "source"))
                return fail(&check, "source", "is only for format: cloudevents");
        if (redis->wait_replicas == 0 && is_given(&check, "wait_timeout"))
                return fail(&check, "wait_timeout", "is only for wait_replicas above 0");
        if (redis->wait_replicas > 0 && redis->wait_timeout_ms >= redis->timeout_ms)
                return fail(&check, "wait_timeout",
                    "is not shorter than timeout, after which the connection is given up");
        return check_exactly_once(&check, redis);
}

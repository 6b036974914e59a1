/* What kind of sink a configuration is of, and where it delivers to. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "config/url.h"

#include <stdlib.h>
#include <string.h>

const char *sink_config_kind(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return "redis";
        if (sink->http != NULL)
                return "http";
        if (sink->email != NULL)
                return "email";
        if (sink->stdout_ != NULL)
                return "stdout";
        if (sink->module != NULL)
                return "module";
        abort(); /* config_load() accepts no sink without a kind */
}

const void *sink_config_options(const struct sink_config *sink)
{
        if (sink->redis != NULL)
                return sink->redis;
        if (sink->http != NULL)
                return sink->http;
        if (sink->email != NULL)
                return sink->email;
        if (sink->stdout_ != NULL)
                return sink->stdout_;
        if (sink->module != NULL)
                return &sink->module->options;
        abort();
}

bool sink_config_fans_out(const struct sink_config *sink)
{
        if (sink->http != NULL)
                return sink->http->endpoints == HTTP_ENDPOINTS_TABLE;
        return sink->module != NULL && sink->module->endpoints == HTTP_ENDPOINTS_TABLE;
}

/* Of a URL no more than this: a token may stand in its path, and often does. */
static void append_origin(struct bytes *words, const char *text)
{
        struct url url;
        bool is_address;

        if (url_split(text, &url) != NULL)
                return; /* which config_load() has refused */
        is_address = strchr(url.host, ':') != NULL;
        bytes_printf(words, "%s://%s%s%s", url.scheme, is_address ? "[" : "", url.host,
            is_address ? "]" : "");
        if (url.port > 0)
                bytes_printf(words, ":%u", url.port);
        url_deinit(&url);
}

static void append_redis(struct bytes *words, const struct redis_config *redis)
{
        const char *name = redis->mode == REDIS_PUBSUB ? redis->channel : redis->stream;

        if (redis->n_sentinels > 0)
                bytes_printf(words, "%s by sentinel %s", redis->master, redis->sentinels[0]);
        else if (redis->n_cluster > 0)
                bytes_printf(words, "cluster of %s", redis->cluster[0]);
        else if (redis->socket_path != NULL)
                bytes_printf(words, "unix://%s", redis->socket_path);
        else
                append_origin(words, redis->url);
        if (redis->db > 0)
                bytes_printf(words, ", database %u", redis->db);
        if (name != NULL)
                bytes_printf(
                    words, ", %s %s", redis->mode == REDIS_PUBSUB ? "channel" : "stream", name);
}

static void append_email(struct bytes *words, const struct email_config *email)
{
        if (email->url != NULL)
                append_origin(words, email->url);
        for (unsigned i = 0; i < email->n_relays; i++) {
                bytes_append_text(words, i > 0 ? ", " : "");
                append_origin(words, email->relays[i].url);
        }
}

char *sink_config_target(const struct sink_config *sink)
{
        struct bytes words = {0};

        bytes_append_text(&words, "");
        if (sink->redis != NULL)
                append_redis(&words, sink->redis);
        else if (sink_config_fans_out(sink))
                bytes_append_text(&words, "the receivers in courier.endpoint");
        else if (sink->http != NULL)
                append_origin(&words, sink->http->url);
        else if (sink->email != NULL)
                append_email(&words, sink->email);
        else if (sink->stdout_ != NULL)
                bytes_append_text(&words, "standard output");
        else if (sink->module != NULL)
                bytes_append_text(&words, sink->module->file);
        return words.data;
}

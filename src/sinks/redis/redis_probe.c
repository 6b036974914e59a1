/*
 * What is asked of a Redis that no event is to be sent to: whether it would take one, and how its
 * memory is.
 *
 * The first question is an XADD with a limit that is no number. Redis looks first at who we are,
 * what we may do and whether it takes any writes at all (NOPERM, OOM, MISCONF, NOREPLICAS), and
 * only then at that: so it refuses a command that wrote nothing, or says why it would refuse
 * events. PING is answered by a Redis that takes none.
 */
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/redis/redis_command.h"
#include "sinks/redis/redis_internal.h"
#include "sinks/redis/resp_write.h"

#include <stdlib.h>
#include <string.h>

/* So full a Redis will soon be full. */
#define NEARLY_FULL 0.9

/* A name that events may have: where a template makes it, it begins as all of them do. */
void redis_probe_append_stream(const struct redis_sink *sink, struct bytes *name)
{
        const char *stream = sink->config->stream;

        if (redis_command_is_target_per_event(sink->encoder)) {
                const char *variable = strstr(stream, "{{");
                bytes_append(
                    name, stream, variable != NULL ? (size_t)(variable - stream) : strlen(stream));
                bytes_append_text(name, "pgcourier-probe");
        } else {
                bytes_append_text(name, stream);
        }
}

void redis_probe_encode(const struct redis_sink *sink, struct bytes *out)
{
        struct bytes name = {0};

        if (sink->probe.step == PROBE_MEMORY) {
                bytes_append_text(out, "*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n");
                return;
        }
        if (sink->config->mode == REDIS_PUBSUB) {
                bytes_append_text(out, "*1\r\n$4\r\nPING\r\n");
                return;
        }
        redis_probe_append_stream(sink, &name);
        redis_append_count(out, '*', 8);
        redis_append_text(out, "XADD");
        redis_append_word(out, name.data, name.length);
        redis_append_text(out, "MAXLEN");
        redis_append_text(out, "=");
        redis_append_text(out, "none");
        redis_append_text(out, "*");
        redis_append_text(out, "pgcourier");
        redis_append_text(out, "probe");
        bytes_deinit(&name);
}

/* Whether it says no more than that the limit is no number. */
static bool is_expected(const struct redis_sink *sink, const char *words, const struct outcome *was)
{
        return was->kind == OUTCOME_RETRY || strncmp(words, "ERR syntax", 10) == 0 ||
               /* Perhaps only of the stream that we made up. */
               (redis_command_is_target_per_event(sink->encoder) &&
                   strncmp(words, "NOPERM ", 7) == 0 && strstr(words, " key") != NULL);
}

/* "used_memory:1024\r\n"; NULL: there is none. */
static const char *value_of(const char *text, const char *name)
{
        const char *at = strstr(text, name);

        return at != NULL ? at + strlen(name) : NULL;
}

static struct outcome judge_memory(const struct redis_sink *sink, const char *text)
{
        const char *used = value_of(text, "\nused_memory:");
        const char *max = value_of(text, "\nmaxmemory:");
        const char *policy = value_of(text, "\nmaxmemory_policy:");
        double used_bytes = used != NULL ? strtod(used, NULL) : 0;
        double max_bytes = max != NULL ? strtod(max, NULL) : 0;
        struct outcome outcome = outcome_delivered;
        int length = policy != NULL ? (int)strcspn(policy, "\r\n") : 0;

        if (max_bytes <= 0 || sink->config->mode == REDIS_PUBSUB)
                return outcome;
        if (length > 40)
                length = 40;
        if (policy != NULL && strncmp(policy, "allkeys-", 8) == 0)
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "maxmemory-policy is %.*s: when its memory is full (%.0f of %.0f MB are used), "
                    "Redis deletes whole streams with all events in them; set noeviction, and trim "
                    "streams by maxlen or minid",
                    length, policy, used_bytes / 1e6, max_bytes / 1e6);
        else if (used_bytes >= NEARLY_FULL * max_bytes)
                outcome = outcome_make(OUTCOME_DELIVERED,
                    "its memory is nearly full (%.0f of %.0f MB of maxmemory are used), and then "
                    "it refuses events: raise maxmemory, or let the sink trim its streams (maxlen, "
                    "minid)",
                    used_bytes / 1e6, max_bytes / 1e6);
        outcome.needs_operator = outcome.reason[0] != '\0';
        return outcome;
}

struct outcome redis_probe_judge(
    const struct redis_sink *sink, const redisReply *reply, const struct outcome *was)
{
        if (sink->probe.step ==
            PROBE_MEMORY) /* a user who may not ask that may deliver all the same */
                return reply->type == REDIS_REPLY_STRING ? judge_memory(sink, reply->str)
                                                         : outcome_delivered;
        if (reply->type == REDIS_REPLY_ERROR && is_expected(sink, reply->str, was))
                return outcome_delivered;
        return *was;
}

/*
 * One table, searched from the top: the first row whose text begins the error
 * decides. An error of no row is RETRY: in doubt an event is tried again, and
 * only what can never succeed is rejected.
 */
#include "sinks/redis_replies.h"

#include <stdio.h>
#include <string.h>

struct rule {
        const char *begins; /* ends with a space where it must be a whole word */
        enum outcome_kind kind;
        bool leaves_server;
        const char *hint; /* appended to Redis' words; or "" */
};

static const struct rule rules[] = {
    /* Redis is there and will take our events, but not now. */
    {"LOADING ", OUTCOME_SINK_DOWN, false, ""},
    {"BUSY ", OUTCOME_SINK_DOWN, false, ""},
    {"TRYAGAIN ", OUTCOME_SINK_DOWN, false, ""},
    {"CLUSTERDOWN ", OUTCOME_SINK_DOWN, false, ""},
    {"NOREPLICAS ", OUTCOME_SINK_DOWN, false, ""},
    {"OOM ", OUTCOME_SINK_DOWN, false, ""},
    {"MISCONF ", OUTCOME_SINK_DOWN, false, ""},
    {"MASTERDOWN ", OUTCOME_SINK_DOWN, false, ""},

    /* Not this server, or not this session: after a failover the name leads elsewhere. */
    {"READONLY ", OUTCOME_SINK_DOWN, true, ""},
    {"ERR max number of clients", OUTCOME_SINK_DOWN, true, ""},
    {"DENIED ", OUTCOME_SINK_DOWN, true, ""},
    {"NOAUTH ", OUTCOME_SINK_DOWN, true, ""},

    /* Redis refuses us until somebody changes its settings or ours. */
    {"WRONGPASS ", OUTCOME_SINK_DOWN, false, ""},
    {"NOPERM ", OUTCOME_SINK_DOWN, false, ""},
    {"ERR unknown command", OUTCOME_SINK_DOWN, false, ""},
    {"ERR syntax", OUTCOME_SINK_DOWN, false, ""},
    {"MOVED ", OUTCOME_SINK_DOWN, false, " (Redis Cluster is not supported)"},
    {"ASK ", OUTCOME_SINK_DOWN, false, " (Redis Cluster is not supported)"},

    /* XADD's complaints about ids ("equal or smaller", "exhausted"): nothing was added. */
    {"ERR The ID specified in XADD", OUTCOME_RETRY, false, ""},
    {"ERR The stream has exhausted", OUTCOME_RETRY, false, ""},

    /* The last row takes everything. */
    {"", OUTCOME_RETRY, false, ""},
};

static const char wrong_type[] = "WRONGTYPE ";

static bool begins_with(const char *text, const char *beginning)
{
        return strncmp(text, beginning, strlen(beginning)) == 0;
}

void redis_reply_words(const redisReply *reply, char *words, size_t size)
{
        char *arguments;

        snprintf(words, size, "%s", reply->str);
        arguments = strstr(words, ", with args beginning");
        if (arguments != NULL)
                *arguments = '\0';
}

static struct redis_verdict judge_error(const redisReply *reply, bool is_stream_per_event)
{
        const struct rule *rule = rules;
        struct redis_verdict verdict = {0};
        char words[200];

        redis_reply_words(reply, words, sizeof words);
        if (begins_with(reply->str, wrong_type)) {
                verdict.outcome = outcome_make(
                    is_stream_per_event ? OUTCOME_REJECTED : OUTCOME_SINK_DOWN, "%s", words);
                return verdict;
        }
        while (!begins_with(reply->str, rule->begins))
                rule++;
        verdict.outcome = outcome_make(rule->kind, "%s%s", words, rule->hint);
        verdict.leaves_server = rule->leaves_server;
        return verdict;
}

struct redis_verdict redis_reply_judge(const redisReply *reply, bool is_stream_per_event)
{
        if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)
                return (struct redis_verdict){.outcome = outcome_delivered};
        if (reply->type == REDIS_REPLY_ERROR)
                return judge_error(reply, is_stream_per_event);
        return (struct redis_verdict){
            .outcome = outcome_make(OUTCOME_RETRY,
                "Redis answered with a reply of type %d instead of an entry's id", reply->type)};
}

/*
 * One table, searched from the top: the first row whose text begins the error
 * decides, and make_verdict() says what its meaning comes to. An error of no
 * row is RETRY: in doubt an event is tried again, and only what can never
 * succeed is rejected.
 */
#include "sinks/redis_replies.h"

#include <stdio.h>
#include <string.h>

enum meaning {
        WAIT,       /* Redis will take our events, but not now */
        GO,         /* not this server, or not this session: connect anew, look the name up anew */
        PAUSE,      /* Redis refuses us until somebody changes its settings or ours */
        PAUSE_GO,   /* likewise, and this session is of no use */
        BAD_STREAM, /* this stream takes no entries: the event's fault if the event names it */
        DROP,       /* never this event */
        DROP_LAST,  /* likewise, and Redis hangs up */
        TRY_AGAIN,
};

struct rule {
        const char *begins; /* ends with a space where it must be a whole word */
        enum meaning meaning;
        const char *hint; /* appended to Redis' words; or "" */
};

#define NO_CLUSTER " (Redis Cluster is not supported)"

static const struct rule rules[] = {
    {"LOADING ", WAIT, ""},
    {"MASTERDOWN ", WAIT, ""},
    {"BUSY ", WAIT, ""},
    {"TRYAGAIN ", WAIT, ""},
    {"CLUSTERDOWN ", WAIT, ""},
    {"NOREPLICAS ", WAIT, ""},
    {"OOM ", WAIT, ""},
    {"MISCONF ", WAIT, ""},

    {"READONLY ", GO, ""},
    {"ERR max number of clients", GO, ""},

    {"NOAUTH ", PAUSE_GO, ""},
    {"DENIED ", PAUSE_GO, ""},
    {"ERR Protocol error: unauthenticated", PAUSE_GO, ""},
    {"WRONGPASS ", PAUSE, ""},
    {"NOPERM ", PAUSE, ""},
    {"ERR unknown command", PAUSE, ""},
    {"ERR syntax", PAUSE, ""},
    {"MOVED ", PAUSE, NO_CLUSTER},
    {"ASK ", PAUSE, NO_CLUSTER},

    /* Redis chooses the ids, so an id that is too small is not about a duplicate. */
    {"WRONGTYPE ", BAD_STREAM, ""},
    {"ERR The ID specified in XADD", BAD_STREAM, ""},
    {"ERR The stream has exhausted", BAD_STREAM, ""},

    {"ERR Elements are too large", DROP, ""},
    {"ERR Protocol error: invalid bulk length", DROP_LAST, " (larger than proto-max-bulk-len)"},
    {"ERR Protocol error: invalid multibulk length", DROP_LAST, " (too many headers)"},

    /* The last row takes everything: EXECABORT without its reason, what newer versions say. */
    {"", TRY_AGAIN, ""},
};

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

static struct redis_verdict make_verdict(
    enum meaning meaning, bool is_stream_per_event, const char *words, const char *hint)
{
        enum outcome_kind kind = OUTCOME_SINK_DOWN;
        struct redis_verdict verdict = {0};

        if (meaning == DROP || meaning == DROP_LAST ||
            (meaning == BAD_STREAM && is_stream_per_event))
                kind = OUTCOME_REJECTED;
        else if (meaning == TRY_AGAIN)
                kind = OUTCOME_RETRY;
        verdict.outcome = outcome_make(kind, "%s%s", words, hint);
        verdict.outcome.needs_operator =
            kind == OUTCOME_SINK_DOWN &&
            (meaning == PAUSE || meaning == PAUSE_GO || meaning == BAD_STREAM);
        verdict.leaves_server = meaning == GO || meaning == PAUSE_GO;
        verdict.ends_connection = meaning == DROP_LAST;
        return verdict;
}

static struct redis_verdict judge_error(const redisReply *reply, bool is_stream_per_event)
{
        static const char aborted[] = "EXECABORT Transaction discarded because of: ";
        const struct rule *rule = rules;
        const char *reason = reply->str;
        char words[200];

        if (begins_with(reason, aborted))
                reason += sizeof aborted - 1;
        while (!begins_with(reason, rule->begins))
                rule++;
        redis_reply_words(reply, words, sizeof words);
        return make_verdict(rule->meaning, is_stream_per_event, words, rule->hint);
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

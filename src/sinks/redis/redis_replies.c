/*
 * One table, searched from the top: the first row whose text begins the error
 * decides, and make_verdict() says what its meaning comes to. An error of no
 * row is RETRY: in doubt an event is tried again, and only what can never
 * succeed is rejected.
 */
#include "sinks/redis/redis_replies.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum meaning {
        WAIT,       /* Redis will take our events, but not now */
        GO,         /* not this server, or not this session: connect anew, look the name up anew */
        PAUSE,      /* Redis refuses us until its settings or ours are changed */
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

#define IS_CLUSTER " (this is a Redis Cluster: configure `cluster` instead of `url`)"

static const struct rule rules[] = {
    {"LOADING ", WAIT, ""},
    {"BUSY ", WAIT, ""},
    {"TRYAGAIN ", WAIT, ""},
    {"CLUSTERDOWN ", WAIT, ""},
    {"NOREPLICAS ", WAIT, ""},
    {"OOM ", WAIT, " (raise its maxmemory, or let the sink trim its streams: maxlen, minid)"},
    {"MISCONF ", WAIT, ""},

    {"READONLY ", GO, ""},
    {"MASTERDOWN ", GO, ""},
    {"ERR max number of clients", GO, ""},

    {"NOAUTH ", PAUSE_GO, ""},
    {"DENIED ", PAUSE_GO, ""},
    {"ERR Protocol error: unauthenticated", PAUSE_GO, ""},
    {"WRONGPASS ", PAUSE, ""},
    {"NOPERM ", PAUSE, ""},
    {"ERR unknown command", PAUSE, ""},
    {"ERR syntax", PAUSE, ""},
    {"MOVED ", PAUSE, IS_CLUSTER},
    {"ASK ", PAUSE, IS_CLUSTER},

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
        if (words[0] == '\0')
                snprintf(words, size, "(an error without words)");
}

static enum outcome_fault fault_of(const struct rule *rule)
{
        static const char *const logins[] = {
            "NOAUTH ", "DENIED ", "WRONGPASS ", "NOPERM ", "ERR Protocol error: unauthenticated"};

        for (size_t i = 0; i < sizeof logins / sizeof logins[0]; i++)
                if (strcmp(rule->begins, logins[i]) == 0)
                        return OUTCOME_FAULT_AUTH;
        return rule->meaning == DROP || rule->meaning == DROP_LAST ? OUTCOME_FAULT_TOO_LARGE
                                                                   : OUTCOME_FAULT_REDIS;
}

static struct redis_verdict make_verdict(
    const struct rule *rule, bool is_stream_per_event, const char *words)
{
        enum meaning meaning = rule->meaning;
        enum outcome_kind kind = OUTCOME_SINK_DOWN;
        struct redis_verdict verdict = {0};
        size_t length = strlen(words);

        if (meaning == DROP || meaning == DROP_LAST ||
            (meaning == BAD_STREAM && is_stream_per_event))
                kind = OUTCOME_REJECTED;
        else if (meaning == TRY_AGAIN)
                kind = OUTCOME_RETRY;
        /* Some of Redis' sentences end with a full stop, which no hint follows. */
        if (*rule->hint != '\0' && length > 0 && words[length - 1] == '.')
                length--;
        verdict.outcome = outcome_make(kind, "%.*s%s", (int)length, words, rule->hint);
        verdict.outcome.fault = fault_of(rule);
        verdict.outcome.needs_operator =
            kind == OUTCOME_SINK_DOWN &&
            (meaning == PAUSE || meaning == PAUSE_GO || meaning == BAD_STREAM);
        verdict.leaves_server = meaning == GO || meaning == PAUSE_GO;
        verdict.outcome.concerns_all = verdict.leaves_server;
        verdict.ends_connection = meaning == DROP_LAST;
        return verdict;
}

/* "MOVED 3999 127.0.0.1:6381"; the host may be empty, or a literal IPv6 address. */
static struct redis_redirect read_redirect(const char *reason)
{
        struct redis_redirect redirect = {0};
        char word[8];
        char where[sizeof redirect.host + 8];
        char *colon;

        if (sscanf(reason, "%7s %5u %263s", word, &redirect.slot, where) != 3 ||
            redirect.slot >= REDIS_SLOTS)
                return (struct redis_redirect){0};
        colon = strrchr(where, ':');
        if (colon == NULL || colon - where >= (ptrdiff_t)sizeof redirect.host ||
            sscanf(colon + 1, "%5" SCNu16, &redirect.port) != 1 || redirect.port == 0)
                return (struct redis_redirect){0};
        *colon = '\0';
        memcpy(redirect.host, where, (size_t)(colon - where) + 1);
        if (strcmp(word, "MOVED") == 0)
                redirect.kind = REDIRECT_MOVED;
        else if (strcmp(word, "ASK") == 0)
                redirect.kind = REDIRECT_ASK;
        return redirect;
}

static struct redis_verdict judge_error(const redisReply *reply, bool is_stream_per_event)
{
        static const char aborted[] = "EXECABORT Transaction discarded because of: ";
        const struct rule *rule = rules;
        const char *reason = reply->str;
        struct redis_verdict verdict;
        char words[200];

        if (begins_with(reason, aborted))
                reason += sizeof aborted - 1;
        while (!begins_with(reason, rule->begins))
                rule++;
        redis_reply_words(reply, words, sizeof words);
        verdict = make_verdict(rule, is_stream_per_event, words);
        if (begins_with(rule->begins, "MOVED") || begins_with(rule->begins, "ASK"))
                verdict.redirect = read_redirect(reason);
        return verdict;
}

bool redis_reply_is_success(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
               reply->type == REDIS_REPLY_INTEGER;
}

struct redis_verdict redis_reply_judge(const redisReply *reply, bool is_stream_per_event)
{
        if (redis_reply_is_success(reply))
                return (struct redis_verdict){.outcome = outcome_delivered};
        if (reply->type == REDIS_REPLY_ERROR)
                return judge_error(reply, is_stream_per_event);
        struct redis_verdict odd = {
            .outcome = outcome_make(OUTCOME_RETRY,
                "Redis answered with a reply of type %d instead of an entry's id", reply->type)};
        odd.outcome.fault = OUTCOME_FAULT_PROTOCOL;
        return odd;
}

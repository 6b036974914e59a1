#include "sinks/redis_replies.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static struct redis_verdict judge_error(const char *text)
{
        redisReply reply = {.type = REDIS_REPLY_ERROR};

        reply.str = (char *)(uintptr_t)text;
        reply.len = strlen(text);
        return redis_reply_judge(&reply, false);
}

static void expect_error_means(const char *text, enum outcome_kind kind, bool leaves_server)
{
        struct redis_verdict verdict = judge_error(text);

        cr_expect(
            verdict.outcome.kind == kind, "'%s' is %s", text, outcome_name(verdict.outcome.kind));
        cr_expect(verdict.leaves_server == leaves_server, "'%s'", text);
        cr_expect(strstr(verdict.outcome.reason, text) != NULL, "'%s' became '%s'", text,
            verdict.outcome.reason);
        cr_expect(verdict.outcome.delay_ms == OUTCOME_NO_DELAY);
}

Test(redis_replies, takes_an_entry_id_for_delivered)
{
        char id[] = "1700000000000-0";
        redisReply reply = {.type = REDIS_REPLY_STRING, .str = id, .len = sizeof id - 1};

        cr_expect(redis_reply_judge(&reply, false).outcome.kind == OUTCOME_DELIVERED);
        reply.type = REDIS_REPLY_STATUS;
        cr_expect(redis_reply_judge(&reply, true).outcome.kind == OUTCOME_DELIVERED);
}

Test(redis_replies, retries_after_a_reply_of_another_type)
{
        const int types[] = {REDIS_REPLY_NIL, REDIS_REPLY_INTEGER, REDIS_REPLY_ARRAY};

        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
                const redisReply reply = {.type = types[i]};
                struct redis_verdict verdict = redis_reply_judge(&reply, false);
                cr_expect(verdict.outcome.kind == OUTCOME_RETRY);
                cr_expect(verdict.outcome.reason[0] != '\0');
        }
}

Test(redis_replies, waits_for_a_redis_that_takes_nothing_now)
{
        expect_error_means(
            "LOADING Redis is loading the dataset in memory", OUTCOME_SINK_DOWN, false);
        expect_error_means("BUSY Redis is busy running a script.", OUTCOME_SINK_DOWN, false);
        expect_error_means(
            "TRYAGAIN Multiple keys request during rehashing", OUTCOME_SINK_DOWN, false);
        expect_error_means("CLUSTERDOWN The cluster is down", OUTCOME_SINK_DOWN, false);
        expect_error_means(
            "NOREPLICAS Not enough good replicas to write.", OUTCOME_SINK_DOWN, false);
        expect_error_means(
            "OOM command not allowed when used memory > 'maxmemory'.", OUTCOME_SINK_DOWN, false);
        expect_error_means(
            "MISCONF Redis is configured to save RDB snapshots", OUTCOME_SINK_DOWN, false);
        expect_error_means("MASTERDOWN Link with MASTER is down", OUTCOME_SINK_DOWN, false);
}

Test(redis_replies, leaves_a_server_that_is_the_wrong_one)
{
        expect_error_means(
            "READONLY You can't write against a read only replica.", OUTCOME_SINK_DOWN, true);
        expect_error_means("ERR max number of clients reached", OUTCOME_SINK_DOWN, true);
        expect_error_means(
            "ERR max number of clients + cluster connections reached", OUTCOME_SINK_DOWN, true);
        expect_error_means("DENIED Redis is running in protected mode", OUTCOME_SINK_DOWN, true);
        expect_error_means("NOAUTH Authentication required.", OUTCOME_SINK_DOWN, true);
}

Test(redis_replies, waits_while_redis_refuses_us)
{
        expect_error_means("WRONGPASS invalid username-password pair or user is disabled.",
            OUTCOME_SINK_DOWN, false);
        expect_error_means("NOPERM User app has no permissions to run the 'xadd' command",
            OUTCOME_SINK_DOWN, false);
        expect_error_means("ERR unknown command 'XADD'", OUTCOME_SINK_DOWN, false);
        expect_error_means("ERR syntax error", OUTCOME_SINK_DOWN, false);
}

Test(redis_replies, says_that_a_cluster_is_not_supported)
{
        expect_error_means("MOVED 3999 127.0.0.1:6381", OUTCOME_SINK_DOWN, false);
        expect_error_means("ASK 3999 127.0.0.1:6381", OUTCOME_SINK_DOWN, false);
        cr_expect(strstr(judge_error("MOVED 1 a:1").outcome.reason, "not supported") != NULL);
}

Test(redis_replies, retries_after_any_other_error)
{
        expect_error_means(
            "ERR The ID specified in XADD is equal or smaller than the target stream "
            "top item",
            OUTCOME_RETRY, false);
        expect_error_means(
            "ERR The stream has exhausted the last possible ID", OUTCOME_RETRY, false);
        expect_error_means("ERR something new", OUTCOME_RETRY, false);
        expect_error_means("", OUTCOME_RETRY, false);
}

Test(redis_replies, matches_whole_words_only)
{
        expect_error_means("BUSYGROUP Consumer Group name already exists", OUTCOME_RETRY, false);
        expect_error_means("ASKED for it", OUTCOME_RETRY, false);
        expect_error_means("my OOM error", OUTCOME_RETRY, false);
}

Test(redis_replies, blames_a_wrong_type_on_whoever_named_the_stream)
{
        char text[] = "WRONGTYPE Operation against a key holding the wrong kind of value";
        const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = sizeof text - 1};

        cr_expect(redis_reply_judge(&reply, false).outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect(redis_reply_judge(&reply, true).outcome.kind == OUTCOME_REJECTED);
}

Test(redis_replies, repeats_no_arguments_that_redis_quotes)
{
        struct redis_verdict verdict =
            judge_error("ERR unknown command 'XADD', with args beginning with: 's' '*' 'secret' ");

        cr_expect(strcmp(verdict.outcome.reason, "ERR unknown command 'XADD'") == 0, "%s",
            verdict.outcome.reason);
}

#include "sinks/redis/redis_replies.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static struct redis_verdict judge_error(const char *text, bool is_stream_per_event)
{
        redisReply reply = {.type = REDIS_REPLY_ERROR};

        reply.str = (char *)(uintptr_t)text;
        reply.len = strlen(text);
        return redis_reply_judge(&reply, is_stream_per_event);
}

enum { NEEDS_OPERATOR = 1, LEAVES = 2, ENDS = 4 };

struct expectation {
        const char *text;
        enum outcome_kind kind;
        int marks;
};

static void expect(const struct expectation *row, bool is_stream_per_event)
{
        struct redis_verdict verdict = judge_error(row->text, is_stream_per_event);
        int marks = (verdict.outcome.needs_operator ? NEEDS_OPERATOR : 0) |
                    (verdict.leaves_server ? LEAVES : 0) | (verdict.ends_connection ? ENDS : 0);

        cr_expect(verdict.outcome.kind == row->kind, "'%s' is %s", row->text,
            outcome_name(verdict.outcome.kind));
        cr_expect(marks == row->marks, "'%s' has %d", row->text, marks);
        cr_expect(strstr(verdict.outcome.reason, row->text) != NULL, "'%s' became '%s'", row->text,
            verdict.outcome.reason);
        cr_expect(verdict.outcome.delay_ms == OUTCOME_NO_DELAY);
        cr_expect(verdict.outcome.max_attempts == 0);
        cr_expect(!verdict.outcome.is_unanswered);
}

/* The table of the sinks' manual, written here a second time. */
static const struct expectation expectations[] = {
    {"LOADING Redis is loading the dataset in memory", OUTCOME_SINK_DOWN, 0},
    {"MASTERDOWN Link with MASTER is down", OUTCOME_SINK_DOWN, LEAVES},
    {"BUSY Redis is busy running a script.", OUTCOME_SINK_DOWN, 0},
    {"TRYAGAIN Multiple keys request during rehashing", OUTCOME_SINK_DOWN, 0},
    {"CLUSTERDOWN The cluster is down", OUTCOME_SINK_DOWN, 0},
    {"NOREPLICAS Not enough good replicas to write.", OUTCOME_SINK_DOWN, 0},
    {"OOM command not allowed when used memory > 'maxmemory'", OUTCOME_SINK_DOWN, 0},
    {"MISCONF Redis is configured to save RDB snapshots", OUTCOME_SINK_DOWN, 0},
    {"READONLY You can't write against a read only replica.", OUTCOME_SINK_DOWN, LEAVES},
    {"ERR max number of clients reached", OUTCOME_SINK_DOWN, LEAVES},
    {"ERR max number of clients + cluster connections reached", OUTCOME_SINK_DOWN, LEAVES},
    {"NOAUTH Authentication required.", OUTCOME_SINK_DOWN, NEEDS_OPERATOR | LEAVES},
    {"DENIED Redis is running in protected mode", OUTCOME_SINK_DOWN, NEEDS_OPERATOR | LEAVES},
    {"ERR Protocol error: unauthenticated bulk length", OUTCOME_SINK_DOWN, NEEDS_OPERATOR | LEAVES},
    {"WRONGPASS invalid username-password pair", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"NOPERM this user has no permissions to run 'xadd'", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"ERR unknown command 'XADD'", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"ERR syntax error", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"MOVED 3999 127.0.0.1:6381", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"ASK 3999 127.0.0.1:6381", OUTCOME_SINK_DOWN, NEEDS_OPERATOR},
    {"ERR Elements are too large to be stored", OUTCOME_REJECTED, 0},
    {"ERR Protocol error: invalid bulk length", OUTCOME_REJECTED, ENDS},
    {"ERR Protocol error: invalid multibulk length", OUTCOME_REJECTED, ENDS},
    {"EXECABORT Transaction discarded because of: OOM command not allowed", OUTCOME_SINK_DOWN, 0},
    {"EXECABORT Transaction discarded because of: READONLY You can't", OUTCOME_SINK_DOWN, LEAVES},
    {"EXECABORT Transaction discarded because of previous errors.", OUTCOME_RETRY, 0},
    {"NOSCRIPT No matching script", OUTCOME_RETRY, 0},
    {"ERR something new", OUTCOME_RETRY, 0},
    {"", OUTCOME_RETRY, 0},
    /* whole words only */
    {"BUSYGROUP Consumer Group name already exists", OUTCOME_RETRY, 0},
    {"ASKED for it", OUTCOME_RETRY, 0},
    {"my OOM error", OUTCOME_RETRY, 0},
};

Test(redis_replies, means_what_the_manual_says)
{
        for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++) {
                expect(&expectations[i], false);
                expect(&expectations[i], true);
        }
}

Test(redis_replies, blames_the_event_or_the_sink_for_the_name_of_a_useless_stream)
{
        static const char *const texts[] = {
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
            "ERR The stream has exhausted the last possible ID, unable to add more items"};

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                const struct expectation of_the_sink = {
                    texts[i], OUTCOME_SINK_DOWN, NEEDS_OPERATOR};
                const struct expectation of_the_event = {texts[i], OUTCOME_REJECTED, 0};

                expect(&of_the_sink, false);
                expect(&of_the_event, true);
        }
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
        const int types[] = {REDIS_REPLY_NIL, REDIS_REPLY_ARRAY};

        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
                const redisReply reply = {.type = types[i]};
                struct redis_verdict verdict = redis_reply_judge(&reply, false);
                cr_expect(verdict.outcome.kind == OUTCOME_RETRY);
                cr_expect(verdict.outcome.reason[0] != '\0');
        }
}

Test(redis_replies, says_how_a_cluster_is_configured)
{
        cr_expect(strstr(judge_error("MOVED 1 a:1", false).outcome.reason, "`cluster`") != NULL);
}

Test(redis_replies, reads_where_a_cluster_redirects)
{
        static const struct {
                const char *text;
                enum redis_redirect_kind kind;
                unsigned slot;
                const char *host;
                uint16_t port;
        } rows[] = {
            {"MOVED 3999 127.0.0.1:6381", REDIRECT_MOVED, 3999, "127.0.0.1", 6381},
            {"ASK 16383 redis-3.example:7000", REDIRECT_ASK, 16383, "redis-3.example", 7000},
            {"MOVED 0 2001:db8::1:6379", REDIRECT_MOVED, 0, "2001:db8::1", 6379},
            {"MOVED 7 :6379", REDIRECT_MOVED, 7, "", 6379},
            {"MOVED 16384 a:1", REDIRECT_NONE, 0, "", 0},
            {"MOVED 1 a", REDIRECT_NONE, 0, "", 0},
            {"MOVED 1 a:0", REDIRECT_NONE, 0, "", 0},
            {"MOVED 1", REDIRECT_NONE, 0, "", 0},
            {"ASK one a:1", REDIRECT_NONE, 0, "", 0},
            {"READONLY 1 a:1", REDIRECT_NONE, 0, "", 0},
        };

        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                const struct redis_redirect redirect = judge_error(rows[i].text, true).redirect;
                cr_expect(redirect.kind == rows[i].kind, "%s", rows[i].text);
                cr_expect(redirect.slot == rows[i].slot, "%s", rows[i].text);
                cr_expect(strcmp(redirect.host, rows[i].host) == 0, "%s", rows[i].text);
                cr_expect(redirect.port == rows[i].port, "%s", rows[i].text);
        }
}

Test(redis_replies, repeats_no_arguments_that_redis_quotes)
{
        struct redis_verdict verdict = judge_error(
            "ERR unknown command 'XADD', with args beginning with: 's' '*' 'secret' ", false);

        cr_expect(strcmp(verdict.outcome.reason, "ERR unknown command 'XADD'") == 0, "%s",
            verdict.outcome.reason);
}

Test(redis_replies, gives_a_reason_for_an_error_without_words)
{
        cr_expect_str_eq(judge_error("", false).outcome.reason, "(an error without words)");
        cr_expect_str_eq(judge_error(", with args beginning with: 'secret'", false).outcome.reason,
            "(an error without words)");
}

Test(redis_replies, say_what_was_at_fault)
{
        const redisReply odd = {.type = REDIS_REPLY_NIL};

        cr_expect_eq(judge_error("NOAUTH Authentication required.", false).outcome.fault,
            OUTCOME_FAULT_AUTH);
        cr_expect_eq(judge_error("NOPERM no permissions", false).outcome.fault, OUTCOME_FAULT_AUTH);
        cr_expect_eq(
            judge_error("OOM command not allowed", false).outcome.fault, OUTCOME_FAULT_REDIS);
        cr_expect_eq(judge_error("ERR what", false).outcome.fault, OUTCOME_FAULT_REDIS);
        cr_expect_eq(judge_error("ERR Elements are too large to be stored", false).outcome.fault,
            OUTCOME_FAULT_TOO_LARGE);
        cr_expect_eq(redis_reply_judge(&odd, false).outcome.fault, OUTCOME_FAULT_PROTOCOL);
}

Test(redis_replies, puts_no_hint_behind_a_full_stop)
{
        struct redis_verdict verdict =
            judge_error("OOM command not allowed when used memory > 'maxmemory'.", false);

        cr_assert_not_null(strstr(verdict.outcome.reason, "> 'maxmemory' (raise its maxmemory, "),
            "%s", verdict.outcome.reason);
}

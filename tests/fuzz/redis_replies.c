/*
 * A byte of switches, a number of requests, then bytes as they come from Redis:
 * hiredis cuts them into replies, which answer one burst after another. Those that are read without
 * hiredis must come out the same.
 */
#include "sinks/redis/redis_burst.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "fuzz.h"
#include "sinks/redis/redis_handshake.h"
#include "sinks/redis/redis_replies.h"
#include "sinks/redis/resp_read.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS ", with args beginning"

static void check_verdict(const struct redis_verdict *verdict, const redisReply *reply)
{
        fuzz_require_outcome(&verdict->outcome);
        fuzz_require(verdict->outcome.kind != OUTCOME_DELIVERED ||
                         (reply->type != REDIS_REPLY_ERROR && reply->type != REDIS_REPLY_NIL),
            "an error delivers nothing", "");
        /* Compared with what Redis wrote: a tab in its place is no phrase of Redis'. */
        if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, ARGUMENTS) != NULL)
                fuzz_require(strstr(verdict->outcome.reason, ARGUMENTS) == NULL,
                    "no argument is repeated", verdict->outcome.reason);
        fuzz_require(!verdict->outcome.needs_operator || verdict->outcome.kind == OUTCOME_SINK_DOWN,
            "an operator is asked for when the sink is down", verdict->outcome.reason);
}

/* The answer to any of the commands that a new connection to any kind of peer begins with. */
static void check_handshake(const redisReply *reply, unsigned switches)
{
        static char password[] = "swordfish-27";
        const struct redis_config config = {
            .password = password, .sentinel_password = password, .db = 1};
        struct redis_handshake handshake;
        struct bytes commands = {0};
        char refusal[256] = "";
        bool needs_operator = false;

        redis_handshake_start(&handshake, &config, switches % 4, &commands);
        bytes_deinit(&commands);
        handshake.n_answers = switches / 4 % handshake.n_steps;
        if (redis_handshake_judge(&handshake, reply, refusal, sizeof refusal, &needs_operator) !=
            HANDSHAKE_REFUSED)
                return;
        fuzz_require(reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_ARRAY,
            "only an error refuses, or the role of a replica", refusal);
        fuzz_require(strstr(refusal, password) == NULL, "no password is repeated", refusal);
}

static bool is_taken_answer(const struct redis_burst *burst, const redisReply *reply, size_t i)
{
        if (burst->is_refused || reply->type != REDIS_REPLY_ARRAY || i >= reply->elements)
                return false;
        return reply->element[i]->type == REDIS_REPLY_STRING ||
               reply->element[i]->type == REDIS_REPLY_STATUS ||
               reply->element[i]->type == REDIS_REPLY_INTEGER;
}

static void check_answers(
    const struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        for (size_t i = 0; i < burst->n; i++) {
                struct redis_verdict verdict =
                    redis_burst_verdict(burst, reply, i, is_stream_per_event);

                fuzz_require_outcome(&verdict.outcome);
                fuzz_require(
                    (verdict.outcome.kind == OUTCOME_DELIVERED) == is_taken_answer(burst, reply, i),
                    "delivered is what EXEC or the script has an id for", verdict.outcome.reason);
                fuzz_require(verdict.outcome.kind == OUTCOME_DELIVERED ||
                                 !redis_burst_is_delivered(burst, reply, i),
                    "the quick answer is the full one", verdict.outcome.reason);
        }
}

static void take(struct redis_burst *burst, const redisReply *reply, bool is_stream_per_event)
{
        const enum redis_burst_stage stage = burst->stage;
        size_t place = burst->n_replies;
        struct redis_verdict verdict;

        switch (redis_burst_take(burst, reply, is_stream_per_event)) {
        case BURST_GOES_ON:
                fuzz_require(redis_burst_is_open(burst), "a burst goes on", "");
                break;
        case BURST_ANSWERS_ONE:
                verdict = redis_reply_judge(reply, is_stream_per_event);
                check_verdict(&verdict, reply);
                break;
        case BURST_ANSWERS_ALL:
        case BURST_EXECUTED:
                check_answers(burst, reply, is_stream_per_event);
                break;
        case BURST_WAITED:
                fuzz_require(!redis_burst_is_open(burst), "WAIT comes last", "");
                if (!burst->is_refused)
                        fuzz_require(reply->type == REDIS_REPLY_INTEGER &&
                                         reply->integer >= burst->wait_replicas,
                            "only enough replicas will do", "");
                break;
        case BURST_LOST_MULTI:
                fuzz_require(!redis_burst_is_open(burst) && stage == STAGE_UNPROTECTED,
                    "MULTI was lost", "");
                break;
        case BURST_CLAIMED:
        case BURST_PURGED:
                fuzz_require(false, "a claim and a purge have no requests", "");
                break;
        }
        fuzz_require(burst->n_replies == place + 1, "each reply counts once", "");
        fuzz_require(burst->n_replies <= burst->n + 3, "a burst ends", "");
}

/* What is read without hiredis is what hiredis reads. */
static void check_simple(const uint8_t *data, size_t size)
{
        redisReader *reader = redisReaderCreate();
        char *rest = malloc(size + 1);
        redisReply reply;
        size_t n;

        memcpy(rest, data, size);
        for (size_t at = 0; (n = resp_fast_read(rest + at, size - at, &reply)) > 0; at += n) {
                redisReply *full = NULL;

                redisReaderFeed(reader, (const char *)data + at, n);
                fuzz_require(
                    redisReaderGetReply(reader, (void **)&full) == REDIS_OK && full != NULL,
                    "a simple answer is one", "");
                fuzz_require(full->type == reply.type && full->len == reply.len &&
                                 full->integer == reply.integer,
                    "a simple answer is of its kind", "");
                fuzz_require(full->str == NULL || memcmp(full->str, reply.str, reply.len + 1) == 0,
                    "a simple answer has its text", "");
                freeReplyObject(full);
        }
        free(rest);
        redisReaderFree(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        const struct redis_burst planned = {.n = fuzz_take_byte(&input) % 8 + 1,
            .kind = (switches & 1) != 0   ? BURST_TRANSACTION
                    : (switches & 2) != 0 ? BURST_SCRIPT
                    : (switches & 4) != 0 ? BURST_TRANSACTION
                                          : BURST_PLAIN,
            .stage = STAGE_SENT,
            .wait_replicas = (switches & 4) != 0 ? 1 + (switches >> 6) : 0};
        struct redis_burst burst = planned;
        bool is_stream_per_event = (switches & 8) != 0;
        redisReader *reader = redisReaderCreate();
        void *reply = NULL;

        check_simple(input.data, input.size);
        redisReaderFeed(reader, (const char *)input.data, input.size);
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
                struct redis_verdict verdict = redis_reply_judge(reply, is_stream_per_event);

                check_verdict(&verdict, reply);
                check_handshake(reply, switches >> 4);
                take(&burst, reply, is_stream_per_event);
                if (!redis_burst_is_open(&burst))
                        burst = planned;
                freeReplyObject(reply);
                reply = NULL;
        }
        redisReaderFree(reader);
        return 0;
}

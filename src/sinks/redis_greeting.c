#include "sinks/redis_greeting.h"

#include "config/config.h"
#include "loop/redis_driver.h"
#include "sinks/redis_replies.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_NAME, GREETING_MULTI, GREETING_EXEC };

static void say(redisAsyncContext *context, redisCallbackFn *on_answer, enum greeting greeting,
    int n_words, const char **words)
{
        const redisCallback *last = context->replies.tail;

        (void)redisAsyncCommandArgv(
            context, on_answer, (void *)(uintptr_t)greeting, n_words, words, NULL);
        redis_driver_expect_command(context, last);
}

void redis_greeting_send(
    redisAsyncContext *context, const struct redis_config *config, redisCallbackFn *on_answer)
{
        const char *auth[3] = {"AUTH"};
        char db[16];
        const char *select[] = {"SELECT", db};
        const char *name[] = {"CLIENT", "SETNAME", "pgcourier"};
        const char *multi[] = {"MULTI"};
        const char *exec[] = {"EXEC"};

        if (config->password != NULL) {
                int n_words = 1;
                if (config->user != NULL && config->user[0] != '\0')
                        auth[n_words++] = config->user;
                auth[n_words++] = config->password;
                say(context, on_answer, GREETING_AUTH, n_words, auth);
        }
        if (config->db != 0) {
                snprintf(db, sizeof db, "%" PRIu32, config->db);
                say(context, on_answer, GREETING_SELECT, 2, select);
        }
        say(context, on_answer, GREETING_NAME, 3, name);
        say(context, on_answer, GREETING_MULTI, 1, multi);
        say(context, on_answer, GREETING_EXEC, 1, exec);
}

static enum redis_greeting_progress refuse(const struct redis_config *config,
    const redisReply *reply, const char *what, char *refusal, size_t size, bool *out_needs_operator)
{
        const struct outcome outcome = redis_reply_judge(reply, false).outcome;
        char words[200];

        *out_needs_operator = outcome.kind != OUTCOME_SINK_DOWN || outcome.needs_operator;

        redis_reply_words(reply, words, sizeof words);
        /* No Redis is known to quote it here; a proxy might. */
        if (config->password != NULL && config->password[0] != '\0' &&
            strstr(words, config->password) != NULL)
                snprintf(words, sizeof words, "(the answer quotes the password)");
        snprintf(refusal, size, "%s: %s", what, words);
        return GREETING_REFUSED;
}

enum redis_greeting_progress redis_greeting_judge(const struct redis_config *config,
    const redisReply *reply, void *privdata, char *refusal, size_t size, bool *out_needs_operator)
{
        static const char *const names[] = {[GREETING_AUTH] = "AUTH",
            [GREETING_SELECT] = "SELECT",
            [GREETING_NAME] = "the connection",
            [GREETING_MULTI] = "MULTI",
            [GREETING_EXEC] = "EXEC"};
        enum greeting greeting = (enum greeting)(uintptr_t)privdata;
        bool is_error = reply->type == REDIS_REPLY_ERROR;

        /* The name is a courtesy: only what refuses the whole session counts. */
        if (greeting == GREETING_NAME)
                is_error = is_error && redis_reply_judge(reply, false).leaves_server;
        if (is_error)
                return refuse(config, reply, names[greeting], refusal, size, out_needs_operator);
        return greeting == GREETING_EXEC ? GREETING_ACCEPTED : GREETING_GOES_ON;
}

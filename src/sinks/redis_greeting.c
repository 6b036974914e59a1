#include "sinks/redis_greeting.h"

#include "config/config.h"
#include "sinks/redis_replies.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_NAME };

static void say(redisAsyncContext *context, redisCallbackFn *on_answer, enum greeting greeting,
    int n_words, const char **words)
{
        redisAsyncCommandArgv(
            context, on_answer, (void *)(uintptr_t)greeting, n_words, words, NULL);
}

void redis_greeting_send(
    redisAsyncContext *context, const struct redis_config *config, redisCallbackFn *on_answer)
{
        const char *auth[3] = {"AUTH"};
        char db[16];
        const char *select[] = {"SELECT", db};
        const char *name[] = {"CLIENT", "SETNAME", "pgcourier"};

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
}

static enum redis_greeting_progress refuse(const struct redis_config *config,
    const redisReply *reply, const char *what, char *refusal, size_t size)
{
        char words[200];

        redis_reply_words(reply, words, sizeof words);
        /* No Redis is known to quote it here; a proxy might. */
        if (config->password != NULL && config->password[0] != '\0' &&
            strstr(words, config->password) != NULL)
                snprintf(words, sizeof words, "(the answer quotes the password)");
        snprintf(refusal, size, "%s: %s", what, words);
        return GREETING_REFUSED;
}

enum redis_greeting_progress redis_greeting_judge(const struct redis_config *config,
    const redisReply *reply, void *privdata, char *refusal, size_t size)
{
        bool is_error = reply->type == REDIS_REPLY_ERROR;

        switch ((enum greeting)(uintptr_t)privdata) {
        case GREETING_AUTH:
                return is_error ? refuse(config, reply, "AUTH", refusal, size) : GREETING_GOES_ON;
        case GREETING_SELECT:
                return is_error ? refuse(config, reply, "SELECT", refusal, size) : GREETING_GOES_ON;
        case GREETING_NAME:
                /* The name is a courtesy: only what refuses the whole session counts. */
                if (is_error && redis_reply_judge(reply, false).leaves_server)
                        return refuse(config, reply, "the connection", refusal, size);
                return GREETING_ACCEPTED;
        }
        return GREETING_REFUSED;
}

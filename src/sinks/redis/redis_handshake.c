#include "sinks/redis/redis_handshake.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/redis/redis_replies.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum step {
        GREETING_AUTH,
        GREETING_SELECT,
        GREETING_NAME,
        GREETING_ROLE,
        GREETING_MULTI,
        GREETING_EXEC,
        GREETING_PING,
};

static void say(struct redis_handshake *greeting, struct bytes *out, enum step step, int n_words,
    const char **words)
{
        char *command = NULL;
        int length = redisFormatCommandArgv(&command, n_words, words, NULL);

        if (length < 0)
                out_of_memory();
        bytes_append(out, command, (size_t)length);
        redisFreeCommand(command);
        greeting->steps[greeting->n_steps++] = step;
}

static void say_word(
    struct redis_handshake *greeting, struct bytes *out, enum step step, const char *word)
{
        say(greeting, out, step, 1, &word);
}

static const char *password_of(const struct redis_handshake *greeting)
{
        return greeting->peer == REDIS_PEER_SENTINEL ? greeting->config->sentinel_password
                                                     : greeting->config->password;
}

static void authenticate(struct redis_handshake *greeting, struct bytes *out)
{
        const char *user = greeting->peer == REDIS_PEER_SENTINEL ? greeting->config->sentinel_user
                                                                 : greeting->config->user;
        const char *words[3] = {"AUTH"};
        int n_words = 1;

        if (password_of(greeting) == NULL)
                return;
        if (user != NULL && user[0] != '\0')
                words[n_words++] = user;
        words[n_words++] = password_of(greeting);
        say(greeting, out, GREETING_AUTH, n_words, words);
}

void redis_handshake_start(struct redis_handshake *greeting, const struct redis_config *config,
    enum redis_peer peer, struct bytes *out)
{
        char db[16];
        const char *select[] = {"SELECT", db};
        const char *name[] = {"CLIENT", "SETNAME", "pgcourier"};

        *greeting = (struct redis_handshake){.config = config, .peer = peer};
        authenticate(greeting, out);
        if (peer == REDIS_PEER_SINGLE && config->db != 0) {
                snprintf(db, sizeof db, "%" PRIu32, config->db);
                say(greeting, out, GREETING_SELECT, 2, select);
        }
        say(greeting, out, GREETING_NAME, 3, name);
        if (peer == REDIS_PEER_SINGLE)
                say_word(greeting, out, GREETING_ROLE, "ROLE");
        if (peer == REDIS_PEER_SINGLE || peer == REDIS_PEER_NODE) {
                say_word(greeting, out, GREETING_MULTI, "MULTI");
                say_word(greeting, out, GREETING_EXEC, "EXEC");
        } else {
                say_word(greeting, out, GREETING_PING, "PING");
        }
}

static enum redis_handshake_progress refuse(const struct redis_handshake *greeting,
    const redisReply *reply, const char *what, char *refusal, size_t size, bool *out_needs_operator)
{
        const struct outcome outcome = redis_reply_judge(reply, false).outcome;
        const char *password = password_of(greeting);
        char words[200];

        *out_needs_operator = outcome.kind != OUTCOME_SINK_DOWN || outcome.needs_operator;

        redis_reply_words(reply, words, sizeof words);
        /* No Redis is known to quote it here; a proxy might. */
        if (password != NULL && password[0] != '\0' && strstr(words, password) != NULL)
                snprintf(words, sizeof words, "(the answer quotes the password)");
        snprintf(refusal, size, "%s: %s", what, words);
        return GREETING_REFUSED;
}

/* What does not answer like a Redis (a proxy) is taken for a master: READONLY would tell. */
static bool is_replica(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
               reply->element[0]->type == REDIS_REPLY_STRING &&
               strcmp(reply->element[0]->str, "master") != 0;
}

enum redis_handshake_progress redis_handshake_judge(struct redis_handshake *greeting,
    const redisReply *reply, char *refusal, size_t size, bool *out_needs_operator)
{
        static const char *const names[] = {[GREETING_AUTH] = "AUTH",
            [GREETING_SELECT] = "SELECT",
            [GREETING_NAME] = "the connection",
            [GREETING_ROLE] = "the connection",
            [GREETING_MULTI] = "MULTI",
            [GREETING_EXEC] = "EXEC",
            [GREETING_PING] = "PING"};
        enum step step = greeting->steps[greeting->n_answers++];
        bool is_error = reply->type == REDIS_REPLY_ERROR;

        /* The name is a courtesy, and so is to say one's role: only what refuses the whole session
         * counts. */
        if (step == GREETING_NAME || step == GREETING_ROLE)
                is_error = is_error && redis_reply_judge(reply, false).leaves_server;
        if (is_error)
                return refuse(greeting, reply, names[step], refusal, size, out_needs_operator);
        if (step == GREETING_ROLE && is_replica(reply)) {
                *out_needs_operator = false;
                snprintf(refusal, size, "events: its role is %s, not master",
                    strcmp(reply->element[0]->str, "slave") == 0 ? "replica" : "sentinel");
                return GREETING_REFUSED;
        }
        return greeting->n_answers == greeting->n_steps ? GREETING_ACCEPTED : GREETING_GOES_ON;
}

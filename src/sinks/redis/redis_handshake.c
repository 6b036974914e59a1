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
        STEP_AUTH,
        STEP_SELECT,
        STEP_NAME,
        STEP_ROLE,
        STEP_MULTI,
        STEP_EXEC,
        STEP_PING,
};

static void say(struct redis_handshake *handshake, struct bytes *out, enum step step, int n_words,
    const char **words)
{
        char *command = NULL;
        int length = (int)redisFormatCommandArgv(&command, n_words, words, NULL);

        if (length < 0)
                out_of_memory();
        bytes_append(out, command, (size_t)length);
        redisFreeCommand(command);
        handshake->steps[handshake->n_steps++] = step;
}

static void say_word(
    struct redis_handshake *handshake, struct bytes *out, enum step step, const char *word)
{
        say(handshake, out, step, 1, &word);
}

static const char *password_of(const struct redis_handshake *handshake)
{
        return handshake->peer == REDIS_PEER_SENTINEL ? handshake->config->sentinel_password
                                                      : handshake->config->password;
}

static void authenticate(struct redis_handshake *handshake, struct bytes *out)
{
        const char *user = handshake->peer == REDIS_PEER_SENTINEL ? handshake->config->sentinel_user
                                                                  : handshake->config->user;
        const char *words[3] = {"AUTH"};
        int n_words = 1;

        if (password_of(handshake) == NULL)
                return;
        if (user != NULL && user[0] != '\0')
                words[n_words++] = user;
        words[n_words++] = password_of(handshake);
        say(handshake, out, STEP_AUTH, n_words, words);
}

void redis_handshake_start(struct redis_handshake *handshake, const struct redis_config *config,
    enum redis_peer peer, struct bytes *out)
{
        char db[16];
        const char *select[] = {"SELECT", db};
        const char *name[] = {"CLIENT", "SETNAME", "pgcourier"};

        *handshake = (struct redis_handshake){.config = config, .peer = peer};
        authenticate(handshake, out);
        if (peer == REDIS_PEER_SINGLE && config->db != 0) {
                snprintf(db, sizeof db, "%" PRIu32, config->db);
                say(handshake, out, STEP_SELECT, 2, select);
        }
        say(handshake, out, STEP_NAME, 3, name);
        if (peer == REDIS_PEER_SINGLE)
                say_word(handshake, out, STEP_ROLE, "ROLE");
        if (peer == REDIS_PEER_SINGLE || peer == REDIS_PEER_NODE) {
                say_word(handshake, out, STEP_MULTI, "MULTI");
                say_word(handshake, out, STEP_EXEC, "EXEC");
        } else {
                say_word(handshake, out, STEP_PING, "PING");
        }
}

static enum redis_handshake_progress refuse(const struct redis_handshake *handshake,
    const redisReply *reply, const char *what, char *refusal, size_t size, bool *out_needs_operator)
{
        const struct outcome outcome = redis_reply_judge(reply, false).outcome;
        const char *password = password_of(handshake);
        char words[200];

        *out_needs_operator = outcome.kind != OUTCOME_SINK_DOWN || outcome.needs_operator;

        redis_reply_words(reply, words, sizeof words);
        /* No Redis is known to quote it here; a proxy might. */
        if (password != NULL && password[0] != '\0' && strstr(words, password) != NULL)
                snprintf(words, sizeof words, "(the answer quotes the password)");
        snprintf(refusal, size, "%s: %s", what, words);
        return HANDSHAKE_REFUSED;
}

/* A peer that does not answer like Redis (a proxy) is taken for a master: READONLY would tell. */
static bool is_replica(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
               reply->element[0]->type == REDIS_REPLY_STRING &&
               strcmp(reply->element[0]->str, "master") != 0;
}

enum redis_handshake_progress redis_handshake_judge(struct redis_handshake *handshake,
    const redisReply *reply, char *refusal, size_t size, bool *out_needs_operator)
{
        static const char *const names[] = {[STEP_AUTH] = "AUTH",
            [STEP_SELECT] = "SELECT",
            [STEP_NAME] = "the connection",
            [STEP_ROLE] = "the connection",
            [STEP_MULTI] = "MULTI",
            [STEP_EXEC] = "EXEC",
            [STEP_PING] = "PING"};
        enum step step = handshake->steps[handshake->n_answers++];
        bool is_error = reply->type == REDIS_REPLY_ERROR;

        /* The name is a courtesy, and so is the question for the role: only an answer that refuses
         * the whole session counts. */
        if (step == STEP_NAME || step == STEP_ROLE)
                is_error = is_error && redis_reply_judge(reply, false).leaves_server;
        if (is_error)
                return refuse(handshake, reply, names[step], refusal, size, out_needs_operator);
        if (step == STEP_ROLE && is_replica(reply)) {
                *out_needs_operator = false;
                snprintf(refusal, size, "events: its role is %s, not master",
                    strcmp(reply->element[0]->str, "slave") == 0 ? "replica" : "sentinel");
                return HANDSHAKE_REFUSED;
        }
        return handshake->n_answers == handshake->n_steps ? HANDSHAKE_ACCEPTED : HANDSHAKE_GOES_ON;
}

/*
 * The attempts that a sink holds, and how each one is sent and ends: by its acknowledgement, by
 * what comes instead (nats_answers.h), or because nothing comes.
 */
#pragma once

#include "sinks/nats/nats_message.h"
#include "sinks/nats/nats_pending.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct nats_config;
struct nats_connection;
struct nats_error;
struct nats_frame;
struct nats_subject;
struct outcome;

struct nats_attempts {
        uv_loop_t *loop;                    /* borrowed */
        const struct nats_config *config;   /* borrowed */
        struct nats_connection *connection; /* borrowed */
        struct nats_subject *subject;       /* borrowed */
        struct nats_message message;
        struct nats_pending pending; /* the owner adds to it, and takes what is answered */
        bool has_acknowledgement;
        uint64_t acknowledged_ms; /* the last one */
};

/* Sends all that wait. The connection is READY. */
void nats_attempts_send(struct nats_attempts *attempts);

/* What the answer to one means for it. */
struct outcome nats_attempts_judge(struct nats_attempts *attempts, const struct nats_frame *answer);

/* We may not publish to that subject: ends all that were sent there. */
void nats_attempts_forbid(struct nats_attempts *attempts, const struct nats_error *error);

/* Ends those that the server has worked off, and that have had no answer for `timeout`. A server
 * that is slow but moves is left alone with the others. */
void nats_attempts_expire(struct nats_attempts *attempts);

/* Ends all of them. */
void nats_attempts_give_back(struct nats_attempts *attempts, const struct outcome *outcome);

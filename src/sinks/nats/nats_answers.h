/* What an answer of a NATS server means for the events that it concerns. Pure. */
#pragma once

#include "config/config.h"
#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>

struct nats_frame;

/* What has to be known besides the answer. */
struct nats_answer_rules {
        enum nats_duplicates duplicates;
        bool is_transient; /* the server is about to stop, or a stream took events a moment ago:
                            * that none takes them now will pass */
};

/* Stored, by a stream that says so. Cheap for what a server usually says. */
bool nats_answer_is_ack(const struct nats_frame *answer);

/* The answer to one event; DELIVERED if it is an acknowledgement. */
struct outcome nats_answer_judge(
    const struct nats_frame *answer, const struct nats_answer_rules *rules);

/* No answer came in time, though the server answers. */
struct outcome nats_answer_missing(int64_t timeout_ms);

/* What an -ERR is about. */
enum nats_error_kind {
        NATS_ERROR_OF_PUBLICATION,  /* we may not publish to the subject */
        NATS_ERROR_OF_SUBSCRIPTION, /* we may not read our answers */
        NATS_ERROR_OF_LOGIN,        /* we are not let in */
        NATS_ERROR_OF_SERVER,       /* this server does not want us now; another may */
        NATS_ERROR_OTHER
};

struct nats_error {
        enum nats_error_kind kind;
        char subject[1100]; /* OF_PUBLICATION */
        char words[200];    /* the server's, safe to print */
};

struct nats_error nats_error_read(const char *text, size_t length);

/* We may not publish to the subject of these events. */
struct outcome nats_answer_forbidden(const char *words);

/* An error of JetStream's API, in a JSON answer; 0: it is none. `out_words` may be NULL. */
int nats_api_error(const char *json, size_t length, char *out_words, size_t size);

enum { NATS_API_STREAM_NOT_FOUND = 10059, NATS_API_STREAM_EXISTS = 10058 };

/*
 * The one table of what NATS and JetStream may answer. JetStream's numbers are those of the
 * server's errors.json; what is not listed is judged by its class: 4xx concerns the event, 5xx does
 * not.
 */
#include "sinks/nats/nats_answers.h"

#include "base/utf8.h"
#include "sinks/nats/nats_protocol.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { TRIES_OF_WHAT_SEEMS_PERMANENT = 5, BEING_STORED_DELAY_MS = 100 };
enum { STATUS_NO_RESPONDERS = 503, MAX_DIGITS = 18 };

struct reader {
        const char *at;
        const char *end;
};

static bool skip(struct reader *reader, const char *text, size_t length)
{
        if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, text, length) != 0)
                return false;
        reader->at += length;
        return true;
}

static void skip_blank(struct reader *reader)
{
        if (reader->at < reader->end && *reader->at == ' ')
                reader->at++;
}

#define SKIP(reader, text) skip(reader, text, sizeof(text) - 1)

/* As the server writes it: {"stream":"S", "seq":22}, perhaps with "domain" and "duplicate". False:
 * it is something else, or written otherwise. */
static bool is_usual_ack(const char *json, size_t length)
{
        struct reader reader = {json, json + length};
        const char *name;
        const char *digits;

        if (!SKIP(&reader, "{\"stream\":\""))
                return false;
        name = reader.at;
        while (reader.at<reader.end && * reader.at> ' ' && *reader.at < 0x7f && *reader.at != '"' &&
               *reader.at != '\\')
                reader.at++;
        if (reader.at == name || !SKIP(&reader, "\","))
                return false;
        skip_blank(&reader);
        if (!SKIP(&reader, "\"seq\":"))
                return false;
        skip_blank(&reader);
        digits = reader.at;
        while (reader.at < reader.end && *reader.at >= '0' && *reader.at <= '9')
                reader.at++;
        if (reader.at == digits || *digits == '0' || reader.at - digits > MAX_DIGITS)
                return false;
        if (SKIP(&reader, ",\"duplicate\":")) {
                skip_blank(&reader);
                if (!SKIP(&reader, "true"))
                        return false;
        }
        return reader.end - reader.at == 1 && *reader.at == '}';
}

static bool is_ack(const json_t *object)
{
        const json_t *stream = json_object_get(object, "stream");
        const json_t *sequence = json_object_get(object, "seq");

        return json_object_get(object, "error") == NULL && json_is_string(stream) &&
               json_string_length(stream) > 0 && json_is_integer(sequence) &&
               json_integer_value(sequence) > 0;
}

bool nats_answer_is_ack(const struct nats_frame *answer)
{
        json_t *object;
        bool is_stored;

        if (answer->status != 0)
                return false;
        if (is_usual_ack(answer->payload, answer->payload_bytes))
                return true;
        object = json_loadb(answer->payload, answer->payload_bytes, 0, NULL);
        is_stored = is_ack(object);
        json_decref(object);
        return is_stored;
}

static struct outcome make(enum outcome_kind kind, enum outcome_fault fault, const char *words)
{
        struct outcome outcome = outcome_make(kind, "%s", words);

        outcome.fault = fault;
        return outcome;
}

static struct outcome for_operator(struct outcome outcome)
{
        outcome.needs_operator = true;
        return outcome;
}

static struct outcome likely_permanent(struct outcome outcome)
{
        outcome.max_attempts = TRIES_OF_WHAT_SEEMS_PERMANENT;
        return outcome;
}

/* No stream takes the subject, or none that has a leader, as in a cluster without a majority. */
static struct outcome judge_no_responders(const struct nats_answer_rules *rules)
{
        struct outcome outcome = make(OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS,
            rules->is_transient
                ? "no stream takes the subject at the moment (no responders)"
                : "no stream takes the subject (no responders): create one, or enable JetStream");

        outcome.needs_operator = !rules->is_transient;
        return likely_permanent(outcome);
}

/* 10077, which has many meanings. */
static struct outcome judge_store_failed(const char *words, const struct nats_answer_rules *rules)
{
        if (rules->duplicates == NATS_DUPLICATES_BY_SUBJECT &&
            strstr(words, "maximum messages per subject exceeded") != NULL)
                return outcome_delivered; /* it has this event */
        return make(OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, words);
}

static struct outcome judge_code(
    int code, int class_, const char *words, const struct nats_answer_rules *rules)
{
        struct outcome outcome;

        switch (code) {
        case 10054: /* message size exceeds maximum allowed */
        case 10097: /* header size exceeds maximum allowed of 64k */
                return make(OUTCOME_REJECTED, OUTCOME_FAULT_TOO_LARGE, words);
        case 10077: /* the store failed */
                return judge_store_failed(words, rules);
        case 10002: /* resource limits exceeded for account */
        case 10023: /* insufficient resources */
        case 10028: /* memory resources exceeded for account */
        case 10047: /* storage resources exceeded for account */
        case 10008: /* JetStream system temporarily unavailable */
        case 10009: /* JetStream cluster can not handle request */
        case 10118: /* stream is offline */
        case 10194: /* stream is offline, and why */
        case 10163:
        case 10167:
                return make(OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, words);
        case 10158: /* this id is just being stored */
                outcome = make(OUTCOME_RETRY, OUTCOME_FAULT_NATS, words);
                outcome.delay_ms = BEING_STORED_DELAY_MS;
                return outcome;
        case 10039: /* JetStream not enabled for account */
        case 10076: /* JetStream not enabled */
        case 10060: /* expected stream does not match */
        case 10109: /* invalid operation on sealed stream */
                return for_operator(make(OUTCOME_SINK_DOWN, OUTCOME_FAULT_NATS, words));
        default:
                outcome = make(OUTCOME_RETRY, OUTCOME_FAULT_NATS, words);
                return class_ >= 400 && class_ < 500 ? likely_permanent(outcome) : outcome;
        }
}

/* {"error":{"code":503,"err_code":10077,"description":"…"}} */
static bool read_api_error(
    const json_t *object, int *out_code, int *out_class, char *out_words, size_t size)
{
        const json_t *error = json_object_get(object, "error");
        const json_t *code = json_object_get(error, "err_code");
        const json_t *class_ = json_object_get(error, "code");
        const json_t *description = json_object_get(error, "description");
        char words[180];

        if (!json_is_object(error))
                return false;
        *out_code = (int)json_integer_value(code);
        *out_class = (int)json_integer_value(class_);
        utf8_copy(words, sizeof words,
            json_is_string(description) ? json_string_value(description) : "an error");
        if (out_words != NULL)
                snprintf(out_words, size, "JetStream: %s (%d)", words, *out_code);
        return true;
}

int nats_api_error(const char *json, size_t length, char *out_words, size_t size)
{
        json_t *object = json_loadb(json, length, 0, NULL);
        int code = 0;
        int class_ = 0;
        bool is_error = read_api_error(object, &code, &class_, out_words, size);

        json_decref(object);
        if (!is_error)
                return 0;
        return code != 0 ? code : -1;
}

static struct outcome judge_json(
    const struct nats_frame *answer, const struct nats_answer_rules *rules)
{
        json_t *object = json_loadb(answer->payload, answer->payload_bytes, 0, NULL);
        int code;
        int class_;
        char words[256];
        struct outcome outcome = make(OUTCOME_RETRY, OUTCOME_FAULT_PROTOCOL,
            "the answer is not one of JetStream's: perhaps another client answers on the subject");

        if (read_api_error(object, &code, &class_, words, sizeof words))
                outcome = judge_code(code, class_, words, rules);
        else if (is_ack(object))
                outcome = outcome_delivered;
        json_decref(object);
        return outcome;
}

struct outcome nats_answer_judge(
    const struct nats_frame *answer, const struct nats_answer_rules *rules)
{
        struct outcome outcome;

        if (answer->status == 0)
                return judge_json(answer, rules);
        if (answer->status == STATUS_NO_RESPONDERS)
                return judge_no_responders(rules);
        outcome = outcome_make(OUTCOME_RETRY, "the server answered with status %u", answer->status);
        outcome.fault = OUTCOME_FAULT_PROTOCOL;
        return outcome;
}

struct outcome nats_answer_missing(int64_t timeout_ms)
{
        struct outcome outcome = outcome_make(OUTCOME_RETRY,
            "no acknowledgement within %" PRId64 " ms: unknown whether it was stored", timeout_ms);

        outcome.fault = OUTCOME_FAULT_TIMEOUT;
        outcome.is_unanswered = true;
        return outcome;
}

struct outcome nats_answer_forbidden(const char *words)
{
        return for_operator(make(OUTCOME_SINK_DOWN, OUTCOME_FAULT_AUTH, words));
}

/* The text between quotes, as Go's %q writes it; a character that it escapes by number is left as
 * it is written. */
static void unquote(const char *text, char *out, size_t size)
{
        size_t n = 0;

        for (; *text != '\0' && *text != '"' && n + 1 < size; text++) {
                if (*text == '\\' && (text[1] == '"' || text[1] == '\\'))
                        text++;
                out[n++] = *text;
        }
        out[n] = '\0';
}

static bool begins(const char *text, const char *with)
{
        return strncasecmp(text, with, strlen(with)) == 0;
}

struct known_error {
        const char *words; /* what it begins with */
        enum nats_error_kind kind;
};

static enum nats_error_kind kind_of(const char *text)
{
        static const struct known_error known[] = {
            {"Permissions Violation for Publish to", NATS_ERROR_OF_PUBLICATION},
            {"Permissions Violation for Subscription", NATS_ERROR_OF_SUBSCRIPTION},
            {"Permissions Violation for Publish with Reply", NATS_ERROR_OF_SUBSCRIPTION},
            {"Authorization Violation", NATS_ERROR_OF_LOGIN},
            {"User Authentication Expired", NATS_ERROR_OF_LOGIN},
            {"User Authentication Revoked", NATS_ERROR_OF_LOGIN},
            {"Account Authentication Expired", NATS_ERROR_OF_LOGIN},
            {"Account Authentication Revoked", NATS_ERROR_OF_LOGIN},
            {"Secure Connection - TLS Required", NATS_ERROR_OF_LOGIN},
            {"Credentials have been revoked", NATS_ERROR_OF_LOGIN},
            {"Stale Connection", NATS_ERROR_OF_SERVER},
            {"Maximum Connections Exceeded", NATS_ERROR_OF_SERVER},
            {"Maximum Account Active Connections Exceeded", NATS_ERROR_OF_SERVER},
            {"Server Shutdown", NATS_ERROR_OF_SERVER},
            {"Failed Account Registration", NATS_ERROR_OF_SERVER},
            {"Authentication Timeout", NATS_ERROR_OF_SERVER},
        };

        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (begins(text, known[i].words))
                        return known[i].kind;
        return NATS_ERROR_OTHER;
}

struct nats_error nats_error_read(const char *text, size_t length)
{
        struct nats_error error = {.kind = NATS_ERROR_OTHER};
        char copy[1300];
        const char *quote;

        snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1),
            text);
        utf8_copy(error.words, sizeof error.words, copy);
        error.kind = kind_of(copy);
        quote = strchr(copy, '"');
        if (error.kind == NATS_ERROR_OF_PUBLICATION) {
                if (quote == NULL)
                        error.kind = NATS_ERROR_OTHER;
                else
                        unquote(quote + 1, error.subject, sizeof error.subject);
        }
        return error;
}

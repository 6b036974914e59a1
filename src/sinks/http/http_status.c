/*
 * One table for what the receiver says and one for what libcurl says. Two
 * questions decide: is it about this event or about the destination as a whole,
 * and may trying again help? Where a request went out and no status came back,
 * it may have arrived: RETRY.
 */
#include "sinks/http/http_status.h"

#include "config/config.h"
#include "sinks/curl_fault.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define RETRY_AFTER_MAX_S (24 * 60 * 60)
#define FEW_TRIES         5

enum meaning {
        TAKEN,
        WAIT,      /* the destination takes nothing now */
        PAUSE,     /* nor will it, until a person changes something */
        GONE,      /* it says that it wants no more, ever */
        KNOWN,     /* there is something like it already */
        TRY_AGAIN, /* temporary, and perhaps only for this event */
        TRY_A_FEW, /* it does not want this event, or it has a bug that is being mended */
        DEPENDS,   /* on whether the request went out; the destination said nothing */
        NONSENSE,  /* likewise, but it said something */
};

struct status_row {
        long first;
        long last;
        enum meaning meaning;
        const char *phrase;
};

/* The first row that holds the status decides. */
static const struct status_row status_rows[] = {
    {200, 299, TAKEN, "Success"},
    /* Redirects are never followed, and a wrong URL is wrong for all events. */
    {300, 300, PAUSE, "Multiple Choices"},
    {301, 301, PAUSE, "Moved Permanently"},
    {302, 302, PAUSE, "Found"},
    {303, 303, PAUSE, "See Other"},
    {304, 304, PAUSE, "Not Modified"},
    {307, 307, PAUSE, "Temporary Redirect"},
    {308, 308, PAUSE, "Permanent Redirect"},
    {300, 399, PAUSE, "Redirect"},
    /* We are not let in, or there is nothing at this address. */
    {401, 401, PAUSE, "Unauthorized"},
    {403, 403, PAUSE, "Forbidden"},
    {404, 404, PAUSE, "Not Found"},
    {407, 407, PAUSE, "Proxy Authentication Required"},
    {410, 410, GONE, "Gone"},
    /* Overloaded, or a gateway without anything behind it. */
    {429, 429, WAIT, "Too Many Requests"},
    {502, 502, WAIT, "Bad Gateway"},
    {503, 503, WAIT, "Service Unavailable"},
    {504, 504, WAIT, "Gateway Timeout"},
    {408, 408, TRY_AGAIN, "Request Timeout"},
    {425, 425, TRY_AGAIN, "Too Early"},
    {500, 500, TRY_AGAIN, "Internal Server Error"},
    {400, 400, TRY_A_FEW, "Bad Request"},
    {405, 405, TRY_A_FEW, "Method Not Allowed"},
    {406, 406, TRY_A_FEW, "Not Acceptable"},
    {409, 409, KNOWN, "Conflict"},
    {411, 411, TRY_A_FEW, "Length Required"},
    {413, 413, TRY_A_FEW, "Content Too Large"},
    {414, 414, TRY_A_FEW, "URI Too Long"},
    {415, 415, TRY_A_FEW, "Unsupported Media Type"},
    {422, 422, TRY_A_FEW, "Unprocessable Content"},
    {431, 431, TRY_A_FEW, "Request Header Fields Too Large"},
    {451, 451, TRY_A_FEW, "Unavailable For Legal Reasons"},
    {501, 501, TRY_A_FEW, "Not Implemented"},
    {400, 499, TRY_A_FEW, "Client Error"},
    {500, 599, TRY_AGAIN, "Server Error"},
    {0, 999, TRY_AGAIN, "(not a status of HTTP)"},
};

struct code_row {
        CURLcode code;
        enum meaning meaning;
};

/* A code that is not here DEPENDS. */
static const struct code_row code_rows[] = {
    /* no server there */
    {CURLE_COULDNT_RESOLVE_HOST, WAIT},
    {CURLE_COULDNT_CONNECT, WAIT},
    /* another server there, or one that does not trust us */
    {CURLE_SSL_CONNECT_ERROR, WAIT},
    {CURLE_PEER_FAILED_VERIFICATION, WAIT},
    {CURLE_SSL_ISSUER_ERROR, WAIT},
    {CURLE_SSL_INVALIDCERTSTATUS, WAIT},
    {CURLE_SSL_PINNEDPUBKEYNOTMATCH, WAIT},
    {CURLE_SSL_CLIENTCERT, WAIT},
    /* our own configuration or files */
    {CURLE_SSL_CERTPROBLEM, PAUSE},
    {CURLE_SSL_CIPHER, PAUSE},
    {CURLE_SSL_CACERT_BADFILE, PAUSE},
    {CURLE_SSL_CRL_BADFILE, PAUSE},
    {CURLE_URL_MALFORMAT, PAUSE},
    /* an answer that is not HTTP, or without end; the first also a URL that libcurl cannot serve,
     * with which nothing is ever sent */
    {CURLE_UNSUPPORTED_PROTOCOL, NONSENSE},
    {CURLE_WEIRD_SERVER_REPLY, NONSENSE},
    {CURLE_WRITE_ERROR, NONSENSE},
};

static const struct status_row *find_status(long status)
{
        const struct status_row *row = status_rows;

        while (status < row->first || status > row->last)
                row++;
        return row;
}

static enum meaning meaning_of_code(CURLcode code)
{
        for (size_t i = 0; i < sizeof code_rows / sizeof code_rows[0]; i++)
                if (code_rows[i].code == code)
                        return code_rows[i].meaning;
        return DEPENDS;
}

int64_t http_retry_after_ms(const char *value, int64_t now_s)
{
        int64_t delay_s = 0;
        time_t date;

        if (isdigit((unsigned char)value[0])) {
                for (; isdigit((unsigned char)*value); value++)
                        if (delay_s <= RETRY_AFTER_MAX_S) /* more digits cannot change the answer */
                                delay_s = delay_s * 10 + (*value - '0');
                if (*value != '\0')
                        return OUTCOME_NO_DELAY;
        } else {
                /* All three forms of a date in HTTP begin with the name of a day. */
                date = isalpha((unsigned char)value[0]) ? curl_getdate(value, NULL) : -1;
                if (date == -1)
                        return OUTCOME_NO_DELAY;
                delay_s = (int64_t)date - now_s;
        }
        if (delay_s < 0)
                delay_s = 0;
        if (delay_s > RETRY_AFTER_MAX_S)
                delay_s = RETRY_AFTER_MAX_S;
        return delay_s * 1000;
}

static enum outcome_fault fault_of_status(long status)
{
        switch (status) {
        case 401:
        case 403:
        case 407:
                return OUTCOME_FAULT_AUTH;
        case 413:
                return OUTCOME_FAULT_TOO_LARGE;
        case 429:
                return OUTCOME_FAULT_HTTP_429;
        default:
                break;
        }
        if (status >= 400 && status <= 499)
                return OUTCOME_FAULT_HTTP_4XX;
        if (status >= 500 && status <= 599)
                return OUTCOME_FAULT_HTTP_5XX;
        return OUTCOME_FAULT_PROTOCOL;
}

struct filter_result {
        enum outcome_kind kind;
        bool needs_operator;
        bool is_gone;
        uint32_t max_attempts;
};

static const struct filter_result gone = {
    .kind = OUTCOME_SINK_DOWN, .needs_operator = true, .is_gone = true};

static struct filter_result judge_gone(const struct http_config *config)
{
        switch (config->on_410) {
        case HTTP_ON_410_PAUSE:
                break;
        case HTTP_ON_410_DEAD:
                return (struct filter_result){.kind = OUTCOME_REJECTED};
        case HTTP_ON_410_RETRY:
                return (struct filter_result){.kind = OUTCOME_RETRY};
        }
        return gone;
}

static struct filter_result judge_status(
    const struct http_result *result, const struct http_config *config, enum meaning meaning)
{
        bool is_taken = meaning == TAKEN || (meaning == KNOWN && config->accept_409);

        /* Of a 2xx only counts that it has the event. */
        if (!is_taken && result->is_disabled)
                return gone;
        if (!is_taken && result->is_aborted)
                return (struct filter_result){.kind = OUTCOME_REJECTED};
        if (is_taken)
                return (struct filter_result){.kind = OUTCOME_DELIVERED};
        switch (meaning) {
        case GONE:
                return judge_gone(config);
        case WAIT:
                return (struct filter_result){.kind = OUTCOME_SINK_DOWN};
        case PAUSE:
                return (struct filter_result){.kind = OUTCOME_SINK_DOWN, .needs_operator = true};
        case KNOWN:
        case TRY_A_FEW:
                return (struct filter_result){.kind = OUTCOME_RETRY, .max_attempts = FEW_TRIES};
        case TAKEN:
        case TRY_AGAIN:
        case DEPENDS:
        case NONSENSE:
                break;
        }
        return (struct filter_result){.kind = OUTCOME_RETRY};
}

static struct outcome describe_status(
    const struct http_result *result, enum outcome_kind kind, const char *phrase)
{
        const char *said = result->is_disabled  ? ", webhook-delivery: disable"
                           : result->is_aborted ? ", webhook-delivery: abort-message"
                                                : "";

        if (result->location != NULL && result->status >= 300 && result->status <= 399)
                return outcome_make(kind,
                    "%ld %s%s: points to %.120s; redirects are not followed, change the sink's url",
                    result->status, phrase, said, result->location);
        if (result->body[0] != '\0')
                return outcome_make(
                    kind, "%ld %s%s: %.150s", result->status, phrase, said, result->body);
        return outcome_make(kind, "%ld %s%s", result->status, phrase, said);
}

static struct outcome classify_status(
    const struct http_result *result, const struct http_config *config)
{
        const struct status_row *row = find_status(result->status);
        const struct filter_result judged = judge_status(result, config, row->meaning);
        struct outcome outcome;

        if (judged.kind == OUTCOME_DELIVERED) {
                outcome = result->body[0] != '\0'
                              ? outcome_make(judged.kind, "%.150s", result->body)
                              : outcome_delivered;
                outcome.status = (uint16_t)result->status;
                return outcome;
        }
        outcome = describe_status(result, judged.kind, row->phrase);
        outcome.status = (uint16_t)result->status;
        outcome.fault = fault_of_status(result->status);
        outcome.needs_operator = judged.needs_operator;
        outcome.is_gone = outcome.concerns_all = judged.is_gone; /* it says so of itself */
        outcome.max_attempts = judged.max_attempts;
        if (judged.kind != OUTCOME_REJECTED)
                outcome.delay_ms = result->retry_after_ms;
        return outcome;
}

static struct outcome classify_transport(const struct http_result *result)
{
        const char *failure =
            result->failure[0] != '\0' ? result->failure : curl_easy_strerror(result->code);
        enum meaning meaning = meaning_of_code(result->code);
        struct outcome outcome;

        if (result->refusal != NULL)
                return outcome_down(OUTCOME_FAULT_REFUSED, true, "%s", result->refusal);
        if (result->is_sent && result->is_endless) {
                outcome = outcome_make(OUTCOME_RETRY, "the answer has more than 64 KiB of headers, "
                                                      "so it is unknown whether the event "
                                                      "arrived");
                outcome.fault = OUTCOME_FAULT_PROTOCOL;
                return outcome;
        }
        if (result->is_sent && (meaning == DEPENDS || meaning == NONSENSE)) {
                outcome = outcome_make(OUTCOME_RETRY,
                    "no answer, so it is unknown whether the event arrived: %s", failure);
                outcome.fault = curl_fault(result->code, true);
                outcome.is_unanswered = meaning == DEPENDS;
                return outcome;
        }
        return outcome_down(curl_fault(result->code, false),
            meaning == PAUSE || result->code == CURLE_UNSUPPORTED_PROTOCOL, "%s", failure);
}

struct outcome http_result_classify(
    const struct http_result *result, const struct http_config *config)
{
        /* Whatever happened after the final headers, the receiver has given its answer. */
        return result->status != 0 ? classify_status(result, config) : classify_transport(result);
}

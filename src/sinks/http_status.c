/*
 * Two questions decide. Is it about this event (RETRY, REJECTED) or about the
 * destination as a whole (SINK_DOWN)? And may trying again help? Where a
 * request went out and no status came back, it may have arrived: RETRY.
 */
#include "sinks/http_status.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define RETRY_AFTER_MAX_S (24 * 60 * 60)

struct status_row {
        long status;
        enum outcome_kind kind;
        const char *phrase;
};

/* Statuses that deserve their own line; find_status() has the rest. */
static const struct status_row status_rows[] = {
    /* Redirects are never followed, and a wrong URL is wrong for all events. */
    {300, OUTCOME_SINK_DOWN, "Multiple Choices"},
    {301, OUTCOME_SINK_DOWN, "Moved Permanently"},
    {302, OUTCOME_SINK_DOWN, "Found"},
    {303, OUTCOME_SINK_DOWN, "See Other"},
    {304, OUTCOME_SINK_DOWN, "Not Modified"},
    {307, OUTCOME_SINK_DOWN, "Temporary Redirect"},
    {308, OUTCOME_SINK_DOWN, "Permanent Redirect"},
    /* We are not let in, or there is nothing at this address. */
    {401, OUTCOME_SINK_DOWN, "Unauthorized"},
    {403, OUTCOME_SINK_DOWN, "Forbidden"},
    {404, OUTCOME_SINK_DOWN, "Not Found"},
    {407, OUTCOME_SINK_DOWN, "Proxy Authentication Required"},
    {410, OUTCOME_SINK_DOWN, "Gone"},
    /* Overloaded, or a gateway without anything behind it. */
    {429, OUTCOME_SINK_DOWN, "Too Many Requests"},
    {502, OUTCOME_SINK_DOWN, "Bad Gateway"},
    {503, OUTCOME_SINK_DOWN, "Service Unavailable"},
    {504, OUTCOME_SINK_DOWN, "Gateway Timeout"},
    /* Temporary, and perhaps only for this event. */
    {408, OUTCOME_RETRY, "Request Timeout"},
    {425, OUTCOME_RETRY, "Too Early"},
    {500, OUTCOME_RETRY, "Internal Server Error"},
    /* The receiver does not want this event as it is. */
    {400, OUTCOME_REJECTED, "Bad Request"},
    {405, OUTCOME_REJECTED, "Method Not Allowed"},
    {406, OUTCOME_REJECTED, "Not Acceptable"},
    {409, OUTCOME_REJECTED, "Conflict"},
    {411, OUTCOME_REJECTED, "Length Required"},
    {413, OUTCOME_REJECTED, "Content Too Large"},
    {414, OUTCOME_REJECTED, "URI Too Long"},
    {415, OUTCOME_REJECTED, "Unsupported Media Type"},
    {422, OUTCOME_REJECTED, "Unprocessable Content"},
    {431, OUTCOME_REJECTED, "Request Header Fields Too Large"},
    {451, OUTCOME_REJECTED, "Unavailable For Legal Reasons"},
    {501, OUTCOME_REJECTED, "Not Implemented"},
};

static struct status_row find_status(long status)
{
        for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++)
                if (status_rows[i].status == status)
                        return status_rows[i];
        if (status >= 200 && status <= 299)
                return (struct status_row){status, OUTCOME_DELIVERED, "Success"};
        if (status >= 300 && status <= 399)
                return (struct status_row){status, OUTCOME_SINK_DOWN, "Redirect"};
        if (status >= 400 && status <= 499)
                return (struct status_row){status, OUTCOME_REJECTED, "Client Error"};
        if (status >= 500 && status <= 599)
                return (struct status_row){status, OUTCOME_RETRY, "Server Error"};
        return (struct status_row){status, OUTCOME_RETRY, "(not a status of HTTP)"};
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

static struct outcome classify_status(const struct http_result *result)
{
        const struct status_row row = find_status(result->status);
        struct outcome outcome;

        if (row.kind == OUTCOME_DELIVERED)
                return outcome_delivered;
        if (result->location != NULL && result->status >= 300 && result->status <= 399)
                outcome = outcome_make(row.kind,
                    "%ld %s: points to %.120s; redirects are not followed, change the sink's url",
                    row.status, row.phrase, result->location);
        else if (result->body[0] != '\0')
                outcome =
                    outcome_make(row.kind, "%ld %s: %.150s", row.status, row.phrase, result->body);
        else
                outcome = outcome_make(row.kind, "%ld %s", row.status, row.phrase);
        if (row.kind != OUTCOME_REJECTED && result->retry_after != NULL)
                outcome.delay_ms = http_retry_after_ms(result->retry_after, result->now_s);
        return outcome;
}

/* Never about the event, whether or not something was sent. */
static const CURLcode destination_codes[] = {
    /* nobody there */
    CURLE_COULDNT_RESOLVE_HOST,
    CURLE_COULDNT_CONNECT,
    /* somebody else there, or it does not trust us */
    CURLE_SSL_CONNECT_ERROR,
    CURLE_PEER_FAILED_VERIFICATION,
    CURLE_SSL_ISSUER_ERROR,
    CURLE_SSL_INVALIDCERTSTATUS,
    CURLE_SSL_PINNEDPUBKEYNOTMATCH,
    CURLE_SSL_CLIENTCERT,
    /* our own configuration or files */
    CURLE_SSL_CERTPROBLEM,
    CURLE_SSL_CIPHER,
    CURLE_SSL_CACERT_BADFILE,
    CURLE_SSL_CRL_BADFILE,
};

static bool is_about_destination(CURLcode code)
{
        for (size_t i = 0; i < sizeof destination_codes / sizeof destination_codes[0]; i++)
                if (destination_codes[i] == code)
                        return true;
        return false;
}

static struct outcome classify_transport(const struct http_result *result)
{
        const char *failure =
            result->failure[0] != '\0' ? result->failure : curl_easy_strerror(result->code);

        /* A timeout, a reset or nonsense counts by how far the request had come. So does
         * CURLE_UNSUPPORTED_PROTOCOL, libcurl's word both for a URL it cannot serve, with which
         * nothing is ever sent, and for an answer that is not HTTP. */
        if (result->is_sent && !is_about_destination(result->code))
                return outcome_make(OUTCOME_RETRY,
                    "no answer, so it is unknown whether the event arrived: %s", failure);
        return outcome_make(OUTCOME_SINK_DOWN, "%s", failure);
}

struct outcome http_result_classify(const struct http_result *result)
{
        /* Whatever happened after the final headers, the receiver has given its answer. */
        return result->status != 0 ? classify_status(result) : classify_transport(result);
}

#include "sinks/http/http_status.h"

#include "config/config.h"

#include <criterion/criterion.h>
#include <string.h>

#define NOW_S 1700000000 /* Tue, 14 Nov 2023 22:13:20 GMT */

static const struct http_config config; /* the defaults of what matters here */

static struct http_result answer(long status)
{
        return (struct http_result){.status = status,
            .is_sent = true,
            .failure = "",
            .body = "",
            .retry_after_ms = OUTCOME_NO_DELAY};
}

static struct http_result no_answer(CURLcode code, bool is_sent)
{
        return (struct http_result){.code = code,
            .is_sent = is_sent,
            .failure = "",
            .body = "",
            .retry_after_ms = OUTCOME_NO_DELAY};
}

static void expect_status(
    long status, enum outcome_kind kind, bool needs_operator, uint32_t max_attempts)
{
        const struct http_result result = answer(status);
        const struct outcome outcome = http_result_classify(&result, &config);
        char number[24];

        cr_expect_eq(outcome.kind, kind, "%ld is %s", status, outcome_name(outcome.kind));
        cr_expect_eq(outcome.delay_ms, OUTCOME_NO_DELAY);
        cr_expect_eq(outcome.needs_operator, needs_operator, "%ld", status);
        cr_expect_eq(outcome.max_attempts, max_attempts, "%ld", status);
        cr_expect_not(outcome.is_unanswered);
        snprintf(number, sizeof number, "%ld ", status);
        if (kind == OUTCOME_DELIVERED)
                cr_expect_str_eq(outcome.reason, "");
        else
                cr_expect_eq(
                    strncmp(outcome.reason, number, strlen(number)), 0, "%s", outcome.reason);
}

static void expect_code(CURLcode code, bool is_sent, enum outcome_kind kind, bool has_mark)
{
        const struct http_result result = no_answer(code, is_sent);
        const struct outcome outcome = http_result_classify(&result, &config);

        cr_expect_eq(outcome.kind, kind, "%s, %s sent, is %s", curl_easy_strerror(code),
            is_sent ? "partly" : "not", outcome_name(outcome.kind));
        cr_expect_eq(outcome.is_unanswered, kind == OUTCOME_RETRY && has_mark, "%d", code);
        cr_expect_eq(outcome.needs_operator, kind == OUTCOME_SINK_DOWN && has_mark, "%d", code);
        cr_expect(strstr(outcome.reason, curl_easy_strerror(code)) != NULL, "%s", outcome.reason);
        cr_expect_eq(strstr(outcome.reason, "unknown whether") != NULL, kind == OUTCOME_RETRY);
}

static bool is_one_of(long status, const long *list)
{
        for (; *list != 0; list++)
                if (*list == status)
                        return true;
        return false;
}

/* Every status there is, against the table of the sinks' manual, written here a second time. */
Test(http_status, knows_every_status)
{
        static const long down[] = {429, 502, 503, 504, 0};
        static const long paused[] = {401, 403, 404, 407, 410, 0};
        static const long retry[] = {408, 425, 500, 0};

        for (long status = 100; status < 700; status++) {
                if (status >= 200 && status < 300)
                        expect_status(status, OUTCOME_DELIVERED, false, 0);
                else if ((status >= 300 && status < 400) || is_one_of(status, paused))
                        expect_status(status, OUTCOME_SINK_DOWN, true, 0);
                else if (is_one_of(status, down))
                        expect_status(status, OUTCOME_SINK_DOWN, false, 0);
                else if (is_one_of(status, retry))
                        expect_status(status, OUTCOME_RETRY, false, 0);
                else if ((status >= 400 && status < 500) || status == 501)
                        expect_status(status, OUTCOME_RETRY, false, 5);
                else
                        expect_status(status, OUTCOME_RETRY, false, 0);
        }
}

Test(http_status, lets_a_receiver_refuse_the_event_or_the_whole_sink)
{
        struct http_result result = answer(500);
        struct outcome outcome;

        result.is_disabled = true;
        outcome = http_result_classify(&result, &config);
        cr_expect_eq(outcome.kind, OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator);
        cr_expect_str_eq(outcome.reason, "500 Internal Server Error, webhook-delivery: disable");

        result.is_disabled = false;
        result.is_aborted = true;
        outcome = http_result_classify(&result, &config);
        cr_expect_eq(outcome.kind, OUTCOME_REJECTED);
        cr_expect_str_eq(
            outcome.reason, "500 Internal Server Error, webhook-delivery: abort-message");

        result.status = 200;
        cr_expect_eq(http_result_classify(&result, &config).kind, OUTCOME_DELIVERED);
}

Test(http_status, lets_an_answer_stand_when_the_connection_fails_after_it)
{
        static const CURLcode codes[] = {CURLE_PARTIAL_FILE, CURLE_OPERATION_TIMEDOUT,
            CURLE_RECV_ERROR, CURLE_WRITE_ERROR, CURLE_SEND_ERROR};

        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
                struct http_result result = answer(204);

                result.code = codes[i];
                cr_expect_eq(http_result_classify(&result, &config).kind, OUTCOME_DELIVERED);
                result.status = 422;
                cr_expect_eq(http_result_classify(&result, &config).max_attempts, 5);
        }
}

Test(http_status, asks_the_operator_about_a_refused_address)
{
        struct http_result result = {.code = CURLE_COULDNT_CONNECT,
            .failure = "Couldn't connect to server",
            .refusal = "refused: 127.0.0.1 lies in 127.0.0.0/8",
            .body = ""};
        struct outcome outcome = http_result_classify(&result, &config);

        cr_expect_eq(outcome.kind, OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator);
        cr_expect_str_eq(outcome.reason, "refused: 127.0.0.1 lies in 127.0.0.0/8");
        result.refusal = NULL;
        cr_expect_not(http_result_classify(&result, &config).needs_operator);
}

Test(http_status, quotes_the_peer)
{
        struct http_result result = answer(500);
        char long_body[400];

        result.body = "database is\r\n\x1b[31m down";
        cr_expect_str_eq(http_result_classify(&result, &config).reason,
            "500 Internal Server Error: database is  ?[31m down");

        memset(long_body, 'x', sizeof long_body - 1);
        long_body[sizeof long_body - 1] = '\0';
        result.body = long_body;
        cr_expect_eq(strspn(strchr(http_result_classify(&result, &config).reason, 'x'), "x"), 150);
}

Test(http_status, names_the_target_of_a_redirect)
{
        struct http_result result = answer(301);

        result.location = "https://example.net/new";
        result.body = "moved";

        cr_expect_str_eq(http_result_classify(&result, &config).reason,
            "301 Moved Permanently: points to https://example.net/new; redirects are not followed, "
            "change the sink's url");
}

Test(http_status, tells_a_dead_destination_from_an_unknown_arrival)
{
        static const CURLcode destination[] = {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
            CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION};
        static const CURLcode ours[] = {
            CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_URL_MALFORMAT};
        static const CURLcode silence[] = {CURLE_OPERATION_TIMEDOUT, CURLE_SEND_ERROR,
            CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE};
        static const CURLcode nonsense[] = {
            CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_WRITE_ERROR};

        for (size_t i = 0; i < sizeof destination / sizeof destination[0]; i++) {
                expect_code(destination[i], false, OUTCOME_SINK_DOWN, false);
                expect_code(destination[i], true, OUTCOME_SINK_DOWN, false);
        }
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
                expect_code(ours[i], false, OUTCOME_SINK_DOWN, true);
        for (size_t i = 0; i < sizeof silence / sizeof silence[0]; i++) {
                expect_code(silence[i], false, OUTCOME_SINK_DOWN, false);
                expect_code(silence[i], true, OUTCOME_RETRY, true);
        }
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++)
                expect_code(nonsense[i], true, OUTCOME_RETRY, false);
        expect_code(CURLE_UNSUPPORTED_PROTOCOL, false, OUTCOME_SINK_DOWN, true);
}

Test(http_status, prefers_the_words_of_the_failure)
{
        struct http_result result = no_answer(CURLE_COULDNT_CONNECT, false);

        result.failure = "Failed to connect to 127.0.0.1 port 9";

        cr_expect_str_eq(
            http_result_classify(&result, &config).reason, "Failed to connect to 127.0.0.1 port 9");
}

Test(http_status, reads_retry_after_in_seconds)
{
        cr_expect_eq(http_retry_after_ms("0", NOW_S), 0);
        cr_expect_eq(http_retry_after_ms("120", NOW_S), 120000);
        cr_expect_eq(http_retry_after_ms("86400", NOW_S), 86400000);
        cr_expect_eq(http_retry_after_ms("86401", NOW_S), 86400000);
        cr_expect_eq(http_retry_after_ms("99999999999999999999999999999999", NOW_S), 86400000);
}

Test(http_status, reads_retry_after_as_a_date_in_all_forms_of_http)
{
        cr_expect_eq(http_retry_after_ms("Tue, 14 Nov 2023 22:14:20 GMT", NOW_S), 60000);
        cr_expect_eq(http_retry_after_ms("Tuesday, 14-Nov-23 22:14:20 GMT", NOW_S), 60000);
        cr_expect_eq(http_retry_after_ms("Tue Nov 14 22:14:20 2023", NOW_S), 60000);
        cr_expect_eq(http_retry_after_ms("Tue, 14 Nov 2023 22:13:19 GMT", NOW_S), 0);
        cr_expect_eq(http_retry_after_ms("Thu, 01 Jan 1970 00:00:00 GMT", NOW_S), 0);
        cr_expect_eq(http_retry_after_ms("Tue, 14 Nov 2034 22:13:20 GMT", NOW_S), 86400000);
}

Test(http_status, ignores_a_retry_after_that_is_neither)
{
        static const char *const garbage[] = {
            "", "soon", "-1", "+5", "1.5", "10 s", "1e9", "Tuesday", " 5", "5 5", "\xff"};

        for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
                cr_expect_eq(
                    http_retry_after_ms(garbage[i], NOW_S), OUTCOME_NO_DELAY, "\"%s\"", garbage[i]);
}

Test(http_status, passes_the_delay_on_where_another_try_follows)
{
        static const long statuses[] = {429, 503, 500, 422, 404};
        struct http_result result = answer(200);

        result.retry_after_ms = 7000;
        cr_expect_eq(http_result_classify(&result, &config).delay_ms, OUTCOME_NO_DELAY);
        for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
                result.status = statuses[i];
                cr_expect_eq(
                    http_result_classify(&result, &config).delay_ms, 7000, "%ld", statuses[i]);
        }
        result.is_aborted = true;
        cr_expect_eq(http_result_classify(&result, &config).delay_ms, OUTCOME_NO_DELAY);
}

static struct outcome outcome_with(long status, const struct http_config *how, bool is_disabled)
{
        struct http_result result = answer(status);

        result.is_disabled = is_disabled;
        return http_result_classify(&result, how);
}

Test(http_status, knows_a_receiver_that_is_gone)
{
        struct outcome outcome = outcome_with(410, &config, false);

        cr_expect_eq(outcome.kind, OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator && outcome.is_gone);
        outcome = outcome_with(500, &config, true);
        cr_expect(outcome.needs_operator && outcome.is_gone);
        cr_expect_not(outcome_with(404, &config, false).is_gone);
        cr_expect_not(outcome_with(503, &config, false).is_gone);
}

Test(http_status, lets_the_config_say_what_410_and_409_mean)
{
        const struct http_config dead = {.on_410 = HTTP_ON_410_DEAD};
        const struct http_config retry = {.on_410 = HTTP_ON_410_RETRY};
        const struct http_config known = {.accept_409 = true};

        cr_expect_eq(outcome_with(410, &dead, false).kind, OUTCOME_REJECTED);
        cr_expect_eq(outcome_with(410, &retry, false).kind, OUTCOME_RETRY);
        cr_expect_eq(outcome_with(410, &retry, false).max_attempts, 0);
        cr_expect(outcome_with(410, &dead, true).is_gone, "the header is plainer than the status");
        cr_expect_eq(outcome_with(409, &config, false).max_attempts, 5);
        cr_expect_eq(outcome_with(409, &known, false).kind, OUTCOME_DELIVERED);
        cr_expect_eq(outcome_with(409, &known, true).kind, OUTCOME_DELIVERED);
        cr_expect_eq(outcome_with(422, &known, false).max_attempts, 5);
}

static enum outcome_fault fault_of_status(long status)
{
        const struct http_result result = answer(status);

        return http_result_classify(&result, &config).fault;
}

static enum outcome_fault fault_of_code(CURLcode code, bool is_sent)
{
        const struct http_result result = no_answer(code, is_sent);

        return http_result_classify(&result, &config).fault;
}

Test(http_status, says_what_was_at_fault)
{
        struct http_result guarded = no_answer(CURLE_COULDNT_CONNECT, false);

        cr_expect_eq(fault_of_status(302), OUTCOME_FAULT_PROTOCOL);
        cr_expect_eq(fault_of_status(400), OUTCOME_FAULT_HTTP_4XX);
        cr_expect_eq(fault_of_status(401), OUTCOME_FAULT_AUTH);
        cr_expect_eq(fault_of_status(403), OUTCOME_FAULT_AUTH);
        cr_expect_eq(fault_of_status(404), OUTCOME_FAULT_HTTP_4XX);
        cr_expect_eq(fault_of_status(413), OUTCOME_FAULT_TOO_LARGE);
        cr_expect_eq(fault_of_status(429), OUTCOME_FAULT_HTTP_429);
        cr_expect_eq(fault_of_status(503), OUTCOME_FAULT_HTTP_5XX);

        cr_expect_eq(fault_of_code(CURLE_COULDNT_RESOLVE_HOST, false), OUTCOME_FAULT_DNS);
        cr_expect_eq(fault_of_code(CURLE_COULDNT_CONNECT, false), OUTCOME_FAULT_REFUSED);
        cr_expect_eq(fault_of_code(CURLE_PEER_FAILED_VERIFICATION, false), OUTCOME_FAULT_TLS);
        cr_expect_eq(fault_of_code(CURLE_OPERATION_TIMEDOUT, true), OUTCOME_FAULT_TIMEOUT);
        cr_expect_eq(fault_of_code(CURLE_OPERATION_TIMEDOUT, false), OUTCOME_FAULT_REFUSED,
            "it cannot have arrived");
        cr_expect_eq(fault_of_code(CURLE_RECV_ERROR, true), OUTCOME_FAULT_LOST);
        cr_expect_eq(fault_of_code(CURLE_WEIRD_SERVER_REPLY, true), OUTCOME_FAULT_PROTOCOL);
        guarded.refusal = "not allowed";
        cr_expect_eq(http_result_classify(&guarded, &config).fault, OUTCOME_FAULT_REFUSED);
}

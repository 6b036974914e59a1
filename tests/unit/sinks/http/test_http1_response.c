#include "pgcourier/outcome.h"
#include "sinks/http/client/http1_response.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* All of it at once; returns how much was used. */
static size_t read_whole(struct http1_response *response, const char *text)
{
        http1_response_init(response);
        return http1_response_feed(response, text, strlen(text));
}

static void expect_kept(const char *text, int status)
{
        struct http1_response response;

        cr_expect_eq(read_whole(&response, text), strlen(text), "%s", text);
        cr_expect_eq(response.step, HTTP1_COMPLETE, "%s", text);
        cr_expect(response.may_go_on, "%s", text);
        cr_expect_eq(response.status, status, "%s", text);
}

/* The status stands, whatever the connection is good for. */
static void expect_not_kept(const char *text, int status)
{
        struct http1_response response;

        read_whole(&response, text);
        cr_expect(response.has_status, "%s", text);
        cr_expect_eq(response.status, status, "%s", text);
        cr_expect_not(response.may_go_on, "%s", text);
        if (response.step == HTTP1_BODY_TO_THE_END)
                cr_expect(http1_response_end(&response), "%s", text);
        cr_expect_not(response.may_go_on, "%s", text);
}

static void expect_nonsense(const char *text)
{
        struct http1_response response;

        read_whole(&response, text);
        cr_expect_eq(response.step, HTTP1_FAILED, "%s", text);
        cr_expect_not_null(response.nonsense, "%s", text);
        cr_expect_not(response.has_status, "%s", text);
}

Test(http1_response, ends_where_its_head_says)
{
        expect_kept("HTTP/1.1 204 No Content\r\n\r\n", 204);
        expect_kept("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304);
        expect_kept("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200);
        expect_kept("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200);
        expect_kept("HTTP/1.1 200 OK\nContent-Length: \t2 \n\nok", 200);
        expect_kept("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200);
        expect_kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                    "5;name=value\r\nhello\r\nA\r\n, my world\r\n0\r\nTrailer: x\r\n\r\n",
            200);
        expect_kept("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", 200);
        expect_kept("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
                    "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            201);
}

Test(http1_response, trusts_no_connection_whose_answer_has_no_clear_end)
{
        expect_not_kept("HTTP/1.1 200 OK\r\n\r\nall that comes", 200);
        expect_not_kept("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200);
        expect_not_kept(
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
                        "0\r\n\r\n",
            200);
        expect_not_kept(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 200);
        expect_not_kept(
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n"
            "\r\n0\r\n\r\n",
            200);
        expect_not_kept("HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 200);
        expect_not_kept("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", 200);
}

Test(http1_response, takes_no_noise_for_an_answer)
{
        expect_nonsense("SSH-2.0-OpenSSH_9.2\r\n");
        expect_nonsense("HTTP/2 200 OK\r\n\r\n");
        expect_nonsense("HTTP/1.1 20 OK\r\n\r\n");
        expect_nonsense("HTTP/1.1 2000 OK\r\n\r\n");
        expect_nonsense("HTTP/1.1 099 OK\r\n\r\n");
        expect_nonsense("HTTP/1.1  200 OK\r\n\r\n");
        expect_nonsense("\r\nHTTP/1.1 200 OK\r\n\r\n");
        expect_nonsense("HTTP/1.1 200 OK\r\nno colon\r\n\r\n");
        expect_nonsense("HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n");
        expect_nonsense("HTTP/1.1 200 OK\r\n: x\r\n\r\n");
        expect_nonsense("HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n");
        expect_nonsense("HTTP/1.1 101 Switching Protocols\r\n\r\n");
}

Test(http1_response, leaves_what_follows_it)
{
        struct http1_response response;
        const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500";

        cr_expect_eq(read_whole(&response, text), strlen(text) - strlen("HTTP/1.1 500"));
        cr_expect_eq(response.step, HTTP1_COMPLETE);
}

Test(http1_response, comes_to_the_same_byte_by_byte)
{
        static const char text[] = "HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nRetry-After: 9\r\n"
                                   "Location: /elsewhere\r\nKeep-Alive: timeout=5, max=9\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n3\r\nwai\r\n1\r\nt\r\n"
                                   "1A;a=b\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n";
        struct http1_response response;
        size_t n_used = 0;

        http1_response_init(&response);
        for (size_t n_come = 1; n_come <= strlen(text); n_come++)
                n_used += http1_response_feed(&response, text + n_used, n_come - n_used);

        cr_expect_eq(n_used, strlen(text));
        cr_expect_eq(response.step, HTTP1_COMPLETE);
        cr_expect(response.may_go_on);
        cr_expect_eq(response.retry_after_ms, 9000);
        cr_expect_eq(response.keep_alive_ms, 5000);
        cr_expect_str_eq(response.location, "/elsewhere");
        cr_expect_str_eq(response.body, "waitabcdefghijklmnopqrstuvwxyz");
}

Test(http1_response, hears_what_standard_webhooks_says)
{
        struct http1_response response;

        read_whole(&response, "HTTP/1.1 400 No\r\nWebhook-Delivery: Disable\r\n"
                              "webhook-delivery: abort-message\r\nContent-Length: 0\r\n\r\n");
        cr_expect(response.is_disabled);
        cr_expect_not(response.is_aborted, "the first one counts");
}

static void expect_bounded(const char *start, const char *more, bool has_status)
{
        struct http1_response response;
        size_t n_fed = 0;

        read_whole(&response, start);
        while (response.step != HTTP1_FAILED && n_fed < 200000)
                n_fed += http1_response_feed(&response, more, strlen(more));
        cr_expect_eq(response.step, HTTP1_FAILED);
        cr_expect_leq(n_fed, HTTP1_HEADERS_MAX);
        cr_expect_eq(response.has_status, has_status);
        cr_expect_eq(response.is_endless, !has_status);
        cr_expect_eq(response.is_overlong, has_status);
}

Test(http1_response, is_bounded)
{
        char *line = malloc(HTTP1_HEADERS_MAX + 2);
        struct http1_response response;

        expect_bounded("HTTP/1.1 200 OK\r\n", "X: again and again\r\n", false);
        expect_bounded("HTTP/1.1 200 OK\r\n\r\n", "a body without end", true);
        expect_bounded("HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", "as it said", true);

        memset(line, 'x', HTTP1_HEADERS_MAX + 1);
        line[HTTP1_HEADERS_MAX + 1] = '\0';
        cr_expect_eq(read_whole(&response, line), 0);
        cr_expect(response.is_endless);
        free(line);
}

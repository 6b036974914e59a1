/*
 * The HTTP listener by itself: what a client may do to it. The loop runs in the
 * test's thread, the client in another, which is what ends the test.
 */
#include "base/alloc.h"
#include "loop/http/http_listener.h"
#include "loop/http/listen_socket.h"
#include "loop/timer.h"
#include "support/http_client.h"
#include "support/process.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEVER_MS 600000

struct rig {
        uv_loop_t loop;
        uv_async_t client_done;
        char address[64];
        struct listen_socket socket;
        struct http_listener *listener;
        struct http_call *kept; /* of /later and /kept, until it is answered */
        struct timer *later;
        struct http_stream *stream;
        struct timer *flood;
        size_t n_written;
        unsigned n_requests, n_ended;
        bool keeps_listening; /* when the client is done */
};

static const struct http_header all_headers[] = {{"X-All", "yes"}, {NULL, NULL}};

static void answer(struct http_call *request, unsigned status, const char *body)
{
        http_call_answer(request, &(struct http_answer){.status = status,
                                      .content_type = "text/plain",
                                      .body = body,
                                      .body_length = strlen(body)});
}

static void on_later(void *owner)
{
        struct rig *rig = owner;

        answer(rig->kept, 200, "later");
        rig->kept = NULL;
}

static void on_ended(void *owner)
{
        struct rig *rig = owner;

        rig->n_ended++;
        rig->stream = NULL;
        timer_disarm(rig->flood);
}

static void on_flood(void *owner)
{
        static char block[16 * 1024];
        struct rig *rig = owner;

        memset(block, 'x', sizeof block);
        http_stream_write(rig->stream, block, sizeof block);
        rig->n_written += sizeof block;
        timer_arm(rig->flood, 0);
}

static void open_stream(struct rig *rig, struct http_call *request)
{
        rig->stream = http_call_stream(request,
            &(struct http_answer){.status = 200, .content_type = "text/event-stream"}, 64 * 1024,
            on_ended, rig);
        http_stream_write(rig->stream, "first\n", 6);
}

static void on_request(void *owner, struct http_call *request)
{
        struct rig *rig = owner;
        const char *path = http_call_path(request);
        const char *argument = http_call_argument(request, "a");
        const char *header = http_call_header(request, "x-h");
        size_t length;
        const char *body = http_call_body(request, &length);
        char text[256];

        rig->n_requests++;
        if (http_call_is_too_large(request)) {
                answer(request, 413, "too large");
        } else if (strcmp(path, "/later") == 0) {
                rig->kept = request;
                timer_arm(rig->later, 1);
        } else if (strcmp(path, "/kept") == 0) {
                rig->kept = request;
        } else if (strcmp(path, "/stream") == 0) {
                open_stream(rig, request);
        } else if (strcmp(path, "/flood") == 0) {
                open_stream(rig, request);
                timer_arm(rig->flood, 0);
        } else {
                snprintf(text, sizeof text, "%s %s a=%s h=%s body=%.*s", http_call_method(request),
                    path, argument != NULL ? argument : "-", header != NULL ? header : "-",
                    (int)length, body);
                answer(request, 200, text);
        }
}

static void end_rig(struct rig *rig)
{
        http_listener_destroy(rig->listener);
        rig->listener = NULL;
        listen_socket_remove(&rig->socket);
        timer_destroy(rig->later);
        timer_destroy(rig->flood);
        uv_close((uv_handle_t *)&rig->client_done, NULL);
}

static void on_client_done(uv_async_t *async)
{
        end_rig(async->data);
}

static struct rig *rig_create(unsigned max_connections, uint64_t request_timeout_ms)
{
        const struct http_listener_options options = {.max_connections = max_connections,
            .max_head_bytes = 8 * 1024,
            .max_body_bytes = 1000,
            .request_timeout_ms = request_timeout_ms,
            .answer_timeout_ms = NEVER_MS,
            .headers = all_headers};
        struct rig *rig = xcalloc(1, sizeof *rig);
        struct listen_address address;
        struct error error = {0};

        snprintf(rig->address, sizeof rig->address, "127.0.0.1:%u", free_port());
        cr_assert_null(listen_address_parse(rig->address, &address));
        cr_assert(listen_socket_open(&rig->socket, &address, &error), "%s", error.text);
        uv_loop_init(&rig->loop);
        uv_async_init(&rig->loop, &rig->client_done, on_client_done);
        rig->client_done.data = rig;
        rig->later = timer_create_on(&rig->loop, on_later, rig);
        rig->flood = timer_create_on(&rig->loop, on_flood, rig);
        rig->listener =
            http_listener_create(&rig->loop, rig->socket.file, &options, on_request, rig);
        cr_assert_not_null(rig->listener);
        return rig;
}

struct client {
        struct rig *rig;
        void (*act)(struct rig *rig);
};

static void *run_client(void *context)
{
        struct client *client = context;

        client->act(client->rig);
        uv_async_send(&client->rig->client_done);
        return NULL;
}

/* Until the client is done and everything is closed. */
static void rig_run(struct rig *rig, void (*act)(struct rig *rig))
{
        struct client client = {rig, act};
        pthread_t thread;

        cr_assert_eq(pthread_create(&thread, NULL, run_client, &client), 0);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        pthread_join(thread, NULL);
        cr_expect_eq(uv_loop_close(&rig->loop), 0, "a handle is still open");
}

static void expect(struct rig *rig, const char *method, const char *path, const char *headers,
    const char *body, unsigned status, const char *expected)
{
        struct http_reply reply = http_ask(rig->address, method, path, headers, body);

        cr_expect_eq(reply.status, status, "%s %s: %s", method, path, reply.head);
        cr_expect_str_eq(reply.body, expected);
        http_reply_free(&reply);
}

static void ask_all_kinds(struct rig *rig)
{
        struct http_reply reply;

        expect(rig, "GET", "/x%20y?a=1%202", "X-H: v\r\n", NULL, 200, "GET /x y a=1 2 h=v body=");
        expect(rig, "POST", "/p", NULL, "text", 200, "POST /p a=- h=- body=text");
        expect(rig, "GET", "/later", NULL, NULL, 200, "later");
        expect(rig, "HEAD", "/h", NULL, NULL, 200, "");
        reply = http_ask(rig->address, "GET", "/", NULL, NULL);
        cr_expect_not_null(strstr(reply.head, "X-All: yes\r\n"), "%s", reply.head);
        http_reply_free(&reply);
}

Test(http_listener, answers_at_once_and_later)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, ask_all_kinds);
        free(rig);
}

static void ask_twice_on_one_connection(struct rig *rig)
{
        int socket = http_connect(rig->address);

        for (int i = 0; i < 2; i++) {
                http_send(socket, "GET /again HTTP/1.1\r\nHost: x\r\n\r\n");
                free(http_read_until(socket, "GET /again a=- h=- body="));
        }
        close(socket);
}

Test(http_listener, keeps_a_connection_for_the_next_request)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, ask_twice_on_one_connection);
        cr_expect_eq(rig->n_requests, 2);
        free(rig);
}

static void send_too_much(struct rig *rig)
{
        char body[1002];
        char *text;
        int socket;

        memset(body, 'b', sizeof body - 1);
        body[sizeof body - 1] = '\0';
        expect(rig, "POST", "/big", NULL, body, 413, "too large");

        /* How much this will be is not known beforehand. */
        socket = http_connect(rig->address);
        http_send(socket, "POST /big HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < 3; i++)
                http_send(socket, "190\r\n"), http_send(socket, body + 601),
                    http_send(socket, "\r\n");
        text = http_read_until(socket, NULL);
        cr_expect_str_empty(text);
        free(text);
        close(socket);
}

Test(http_listener, takes_no_body_beyond_the_limit)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, send_too_much);
        cr_expect_eq(rig->n_requests, 1);
        free(rig);
}

static void send_a_huge_head(struct rig *rig)
{
        char header[10 * 1024];
        struct http_reply reply;

        memset(header, 'h', sizeof header);
        memcpy(header, "X-H: ", 5);
        memcpy(header + sizeof header - 3, "\r\n", 3);
        reply = http_ask(rig->address, "GET", "/", header, NULL);
        cr_expect(reply.status == 431 || reply.status == 413, "%s", reply.head);
        http_reply_free(&reply);
}

static void send_nonsense(struct rig *rig)
{
        int socket = http_connect(rig->address);
        char *text;

        http_send(socket, "\x16\x03\x01 no http\r\n\r\n");
        text = http_read_until(socket, NULL);
        cr_expect(strncmp(text, "HTTP/1.1 4", 10) == 0 || *text == '\0', "%s", text);
        free(text);
        close(socket);
        socket = http_connect(rig->address);
        http_send(socket, "GET / HTTP/1.1\r\n\r\n"); /* without Host */
        text = http_read_until(socket, NULL);
        cr_expect(strncmp(text, "HTTP/1.1 400", 12) == 0, "%s", text);
        free(text);
        close(socket);
        send_a_huge_head(rig);
}

Test(http_listener, refuses_what_is_no_request)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, send_nonsense);
        cr_expect_eq(rig->n_requests, 0);
        free(rig);
}

/* A byte now and then does not buy more time. */
static void drip(struct rig *rig)
{
        const struct timeval pause = {.tv_usec = 5000};
        int socket = http_connect(rig->address);
        ssize_t n = -1;
        char byte;

        setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
        http_send(socket, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
        for (int i = 0; i < 2000 && n < 0; i++) {
                http_send(socket, "a");
                n = recv(socket, &byte, 1, 0);
                if (n < 0 && errno == ECONNRESET)
                        n = 0;
        }
        cr_expect_eq(n, 0, "the connection goes on for ever");
        close(socket);
}

Test(http_listener, closes_a_request_that_drips)
{
        struct rig *rig = rig_create(4, 100);

        rig_run(rig, drip);
        cr_expect_eq(rig->n_requests, 0);
        free(rig);
}

static void occupy_and_ask(struct rig *rig)
{
        int sockets[2] = {http_connect(rig->address), http_connect(rig->address)};

        /* Waits in the kernel until one of the others has been idle for too long. */
        expect(rig, "GET", "/", NULL, NULL, 200, "GET / a=- h=- body=");
        close(sockets[0]);
        close(sockets[1]);
}

Test(http_listener, serves_others_after_silent_connections_have_had_their_time)
{
        struct rig *rig = rig_create(2, 100);

        rig_run(rig, occupy_and_ask);
        free(rig);
}

static void *keep_listening(void *context)
{
        struct rig *rig = context;
        char *text;
        int socket = http_connect(rig->address);

        http_send(socket, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
        text = http_read_until(socket, "first");
        uv_async_send(&rig->client_done);
        free(text);
        text = http_read_until(socket, NULL);
        cr_expect_not_null(strstr(text, "0\r\n\r\n"), "the stream did not end well: %s", text);
        free(text);
        close(socket);
        return NULL;
}

Test(http_listener, ends_streams_when_it_is_destroyed)
{
        struct rig *rig = rig_create(4, NEVER_MS);
        pthread_t thread;

        cr_assert_eq(pthread_create(&thread, NULL, keep_listening, rig), 0);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        pthread_join(thread, NULL);
        cr_expect_eq(uv_loop_close(&rig->loop), 0, "a handle is still open");
        cr_expect_eq(rig->n_ended, 0, "told of the end of what it destroyed itself");
        free(rig);
}

/* Says that it wants the stream, and reads no more than its beginning. */
static void follow_without_reading(struct rig *rig)
{
        int socket = http_connect(rig->address);
        char *text;

        http_send(socket, "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n");
        text = http_read_until(socket, "first");
        free(text);
        while (__atomic_load_n(&rig->n_ended, __ATOMIC_ACQUIRE) == 0)
                usleep(1000);
        /* The others are served as before. */
        expect(rig, "GET", "/", NULL, NULL, 200, "GET / a=- h=- body=");
        close(socket);
}

Test(http_listener, drops_a_client_that_does_not_read_its_stream)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, follow_without_reading);
        cr_expect_eq(rig->n_ended, 1);
        /* The kernel's buffers of both sides, and ours of 64 KiB. */
        cr_expect_lt(rig->n_written, 16 * 1024 * 1024, "%zu bytes", rig->n_written);
        free(rig);
}

static void leave_before_the_answer(struct rig *rig)
{
        int socket = http_connect(rig->address);

        http_send(socket, "GET /kept HTTP/1.1\r\nHost: x\r\n\r\n");
        while (__atomic_load_n(&rig->kept, __ATOMIC_ACQUIRE) == NULL)
                usleep(1000);
        close(socket);
}

Test(http_listener, may_be_answered_after_the_listener_has_gone)
{
        struct rig *rig = rig_create(4, NEVER_MS);

        rig_run(rig, leave_before_the_answer);
        cr_assert_not_null(rig->kept);
        answer(rig->kept, 200, "too late");
        free(rig);
}

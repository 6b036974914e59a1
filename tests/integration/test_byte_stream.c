/* The stream below the protocols: what the sinks' own tests do not reach. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "loop/byte_stream.h"
#include "loop/connector.h"
#include "loop/tls_session.h"
#include "support/certificate.h"
#include "support/smtp_receiver.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Notes what a stream says, and uses what comes line by line. */
struct client {
        uv_loop_t loop;
        struct byte_stream *stream;
        struct bytes lines;
        unsigned n_connected;
        unsigned n_failures;
        enum outcome_fault fault;
        char reason[300];
        const char *secure_at; /* becomes TLS behind this line */
        const char *close_at;  /* is destroyed behind this line */
};

static void on_connected(void *owner)
{
        struct client *client = owner;

        client->n_connected++;
}

static size_t on_data(void *owner, char *data, size_t size)
{
        struct client *client = owner;
        char *end = memchr(data, '\n', size);
        size_t length = end != NULL ? (size_t)(end - data) + 1 : 0;

        bytes_append(&client->lines, data, length);
        if (length == 0)
                return 0;
        if (client->close_at != NULL && memcmp(data, client->close_at, 3) == 0) {
                byte_stream_destroy(client->stream);
                client->stream = NULL;
                return length;
        }
        if (client->secure_at != NULL && memcmp(data, client->secure_at, 3) == 0) {
                client->secure_at = NULL;
                byte_stream_secure(client->stream);
                return length;
        }
        return length < size ? length + on_data(owner, data + length, size - length) : length;
}

static void on_failed(void *owner, enum outcome_fault fault, const char *reason)
{
        struct client *client = owner;

        client->n_failures++;
        client->fault = fault;
        snprintf(client->reason, sizeof client->reason, "%s", reason);
}

static void client_open_to(struct client *client, const struct byte_stream_target *target)
{
        static const struct byte_stream_events events = {
            .on_connected = on_connected, .on_data = on_data, .on_failed = on_failed};

        uv_loop_init(&client->loop);
        bytes_append_text(&client->lines, "");
        client->stream = byte_stream_open(&client->loop, target, &events, client);
}

static void client_open(struct client *client, uint16_t port, struct tls_context *tls)
{
        const struct byte_stream_target target = {.host = "localhost",
            .port = port,
            .tls = tls,
            .begins_plain = tls != NULL,
            .connect_timeout_ms = 20000};

        client_open_to(client, &target);
}

static void client_close(struct client *client)
{
        byte_stream_destroy(client->stream);
        uv_run(&client->loop, UV_RUN_DEFAULT);
        uv_loop_close(&client->loop);
        bytes_deinit(&client->lines);
}

/* Until that line has come, or it has failed. */
static void run_until(struct client *client, const char *text)
{
        while (strstr(client->lines.data, text) == NULL && client->n_failures == 0)
                uv_run(&client->loop, UV_RUN_ONCE);
}

static struct tls_context *trust(const char *ca_file)
{
        struct error error = {0};
        struct tls_context *context =
            tls_context_create(&(struct tls_files){.ca_file = ca_file}, &error);

        cr_assert_not_null(context, "%s", error.text);
        return context;
}

/* One who listens on the loopback, and accepts the client. */
struct server {
        int listener;
        int peer;
        uint16_t port;
};

static struct server server_listen(void)
{
        struct server server = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;

        cr_assert_eq(bind(server.listener, (struct sockaddr *)&address, sizeof address), 0);
        cr_assert_eq(listen(server.listener, 1), 0);
        cr_assert_eq(getsockname(server.listener, (struct sockaddr *)&address, &length), 0);
        server.port = ntohs(address.sin_port);
        return server;
}

static void server_accept(struct server *server, struct client *client)
{
        while (client->n_connected == 0 && client->n_failures == 0)
                uv_run(&client->loop, UV_RUN_ONCE);
        cr_assert_eq(client->n_connected, 1, "%s", client->reason);
        server->peer = accept(server->listener, NULL, NULL);
        cr_assert(server->peer >= 0);
}

static void server_say(struct server *server, const char *text)
{
        cr_assert_eq(write(server->peer, text, strlen(text)), (ssize_t)strlen(text));
}

static void server_close(struct server *server)
{
        close(server->peer);
        close(server->listener);
}

Test(byte_stream, keeps_what_its_owner_cannot_use_yet)
{
        struct client client = {0};
        struct server server = server_listen();

        client_open(&client, server.port, NULL);
        server_accept(&server, &client);
        server_say(&server, "one\ntw");
        run_until(&client, "one\n");
        cr_expect_str_eq(client.lines.data, "one\n");
        server_say(&server, "o\nthr");
        run_until(&client, "two\n");
        cr_expect_str_eq(client.lines.data, "one\ntwo\n");
        server_say(&server, "ee\n");
        run_until(&client, "three\n");
        cr_expect_str_eq(client.lines.data, "one\ntwo\nthree\n");
        client_close(&client);
        server_close(&server);
}

Test(byte_stream, may_be_destroyed_while_it_hands_out_what_it_kept)
{
        struct client client = {.close_at = "two"};
        struct server server = server_listen();

        client_open(&client, server.port, NULL);
        server_accept(&server, &client);
        server_say(&server, "one\ntw");
        run_until(&client, "one\n");
        server_say(&server, "o\nthree\n");
        run_until(&client, "two\n");
        cr_expect_null(client.stream);
        client_close(&client);
        server_close(&server);
}

Test(byte_stream, says_whether_the_greeting_was_over_when_it_broke)
{
        for (int is_greeted = 0; is_greeted < 2; is_greeted++) {
                struct client client = {0};
                struct server server = server_listen();

                client_open(&client, server.port, NULL);
                server_accept(&server, &client);
                if (is_greeted)
                        byte_stream_greeted(client.stream);
                server_close(&server);
                run_until(&client, "nothing");
                cr_expect_eq(client.fault, is_greeted ? OUTCOME_FAULT_LOST : OUTCOME_FAULT_REFUSED);
                cr_expect_eq(client.n_failures, 1);
                client_close(&client);
        }
}

/* Becomes the peer's side of TLS, inside the test. */
static SSL *server_secure(
    struct server *server, struct client *client, const struct certificate *made)
{
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());
        SSL *tls;

        cr_assert_eq(SSL_CTX_use_certificate_chain_file(context, made->path), 1);
        cr_assert_eq(SSL_CTX_use_PrivateKey_file(context, made->key_path, SSL_FILETYPE_PEM), 1);
        tls = SSL_new(context);
        SSL_CTX_free(context);
        cr_assert_eq(fcntl(server->peer, F_SETFL, O_NONBLOCK), 0);
        SSL_set_fd(tls, server->peer);
        SSL_set_accept_state(tls);
        byte_stream_secure(client->stream);
        while (client->n_connected < 2 && client->n_failures == 0) {
                uv_run(&client->loop, UV_RUN_NOWAIT);
                (void)SSL_do_handshake(tls);
        }
        return tls;
}

/* The system's buffers hold less than that, and the peer reads what there is and says nothing. */
static void expect_long_write(const struct certificate *made)
{
        enum { N = 16 * 1024 * 1024 };
        struct client client = {0};
        struct server server = server_listen();
        struct tls_context *trusted = made != NULL ? trust(made->path) : NULL;
        SSL *tls = NULL;
        char *sent = xcalloc(1, N);
        char *received = xcalloc(1, N);
        size_t n_received = 0;

        for (size_t i = 0; i < N; i++)
                sent[i] = (char)(i % 251);
        client_open(&client, server.port, trusted);
        server_accept(&server, &client);
        if (made != NULL)
                tls = server_secure(&server, &client, made);
        byte_stream_send(client.stream, sent, N);
        while (byte_stream_unwritten(client.stream) == N && client.n_failures == 0)
                uv_run(&client.loop, UV_RUN_NOWAIT);
        cr_assert_gt(byte_stream_unwritten(client.stream), 0);
        while (n_received < N && client.n_failures == 0) {
                char *at = received + n_received;
                ssize_t n;

                uv_run(&client.loop, UV_RUN_NOWAIT);
                n = tls != NULL ? SSL_read(tls, at, (int)(N - n_received))
                                : recv(server.peer, at, N - n_received, MSG_DONTWAIT);
                n_received += n > 0 ? (size_t)n : 0;
        }
        cr_expect_eq(client.n_failures, 0, "%s", client.reason);
        cr_expect_eq(memcmp(received, sent, N), 0);
        client_close(&client);
        SSL_free(tls);
        tls_context_destroy(trusted);
        server_close(&server);
        free(received);
        free(sent);
}

Test(byte_stream, goes_on_with_a_write_that_was_cut_short)
{
        expect_long_write(NULL);
}

Test(byte_stream, goes_on_with_a_write_by_tls_that_was_cut_short)
{
        struct certificate made;

        certificate_make(&made, "DNS:localhost");
        expect_long_write(&made);
        free(made.folder);
}

/* Carries what there is between two sockets. */
static void carry(int from, int to)
{
        char data[4096];
        ssize_t n = recv(from, data, sizeof data, MSG_DONTWAIT);

        if (n > 0)
                cr_assert_eq(write(to, data, (size_t)n), n);
}

/* A real TLS server, which returns each line reversed. */
static int connect_to_openssl(const struct certificate *made, struct process *process)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
            .sin_port = htons(free_port())};
        char port[8];
        int tls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(port, sizeof port, "%u", ntohs(address.sin_port));
        process_start(process,
            (const char *const[]){"openssl", "s_server", "-quiet", "-rev", "-accept", port, "-cert",
                made->path, "-key", made->key_path, NULL},
            NULL, true);
        while (connect(tls, (struct sockaddr *)&address, sizeof address) != 0)
                cr_assert(process_is_running(process));
        return tls;
}

/* Otherwise an attacker on the way could put words into the mouth of the server that TLS names. */
Test(byte_stream, drops_what_came_in_the_clear_behind_the_line_that_begins_tls)
{
        struct certificate made;
        struct process openssl;
        struct client client = {.secure_at = "go\n"};
        struct server server = server_listen();
        struct tls_context *tls;
        int behind;

        certificate_make(&made, "DNS:localhost");
        tls = trust(made.path);
        behind = connect_to_openssl(&made, &openssl);
        client_open(&client, server.port, tls);
        server_accept(&server, &client);
        server_say(&server, "hello\ngo\ninjected\n");
        while (strstr(client.lines.data, "olleh\n") == NULL && client.n_failures == 0) {
                if (client.n_connected == 2) {
                        byte_stream_send(client.stream, "hello\n", 6);
                        client.n_connected++;
                }
                uv_run(&client.loop, UV_RUN_NOWAIT);
                carry(server.peer, behind);
                carry(behind, server.peer);
        }
        cr_expect_eq(client.n_failures, 0, "%s", client.reason);
        cr_expect_str_eq(client.lines.data, "hello\ngo\nolleh\n");
        client_close(&client);
        tls_context_destroy(tls);
        server_close(&server);
        close(behind);
        process_stop(&openssl);
        free(made.folder);
}

/* A mail server, for it does as NATS does: greets in the clear, and then begins TLS. */
Test(byte_stream, begins_tls_behind_the_greeting_and_goes_on)
{
        struct certificate made;
        struct client client = {0};
        struct smtp_receiver server;
        struct tls_context *tls;

        certificate_make(&made, "DNS:localhost");
        tls = trust(made.path);
        smtp_receiver_init(&server);
        smtp_receiver_start(
            &server, (const char *[]){"--tls-cert", made.path, "--tls-key", made.key_path, NULL});
        client_open(&client, server.port, tls);
        run_until(&client, "\n"); /* "220 …" */
        byte_stream_send(client.stream, "EHLO client\r\n", 13);
        run_until(&client, "250 ");
        client.secure_at = "220";
        byte_stream_send(client.stream, "STARTTLS\r\n", 10);
        while (client.n_connected < 2 && client.n_failures == 0)
                uv_run(&client.loop, UV_RUN_ONCE);
        cr_assert_eq(client.n_failures, 0, "%s", client.reason);
        byte_stream_send(client.stream, "EHLO client\r\nQUIT\r\n", 19);
        run_until(&client, "221 ");
        cr_expect_eq(smtp_receiver_count_commands(&server, "QUIT"), 1);
        client_close(&client);
        tls_context_destroy(tls);
        smtp_receiver_deinit(&server);
        free(made.folder);
}

static struct socket_address loopback(uint16_t port)
{
        struct socket_address address = {.length = sizeof(struct sockaddr_in)};

        *(struct sockaddr_in *)(void *)&address.data = (struct sockaddr_in){.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        return address;
}

enum { N_FILLERS = 4 };

/* Its queue is full: to connect to it lasts for ever. */
static struct server server_listen_without_room(int *fillers)
{
        struct server server = server_listen();
        struct socket_address address = loopback(server.port);

        cr_assert_eq(listen(server.listener, 0), 0);
        for (int i = 0; i < N_FILLERS; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                (void)!connect(fillers[i], (const struct sockaddr *)&address.data, address.length);
        }
        return server;
}

Test(byte_stream, does_not_wait_for_an_address_that_never_answers)
{
        int fillers[N_FILLERS];
        struct server silent = server_listen_without_room(fillers);
        struct server server = server_listen();
        const struct socket_address addresses[] = {loopback(silent.port), loopback(server.port)};
        const struct byte_stream_target target = {.host = "localhost",
            .port = server.port,
            .addresses = addresses,
            .n_addresses = 2,
            .connect_timeout_ms = 20000};
        struct client client = {0};

        client_open_to(&client, &target);
        server_accept(&server, &client);
        server_say(&server, "hello\n");
        run_until(&client, "hello");
        cr_expect_eq(client.n_failures, 0, "%s", client.reason);

        client_close(&client);
        server_close(&server);
        close(silent.listener);
        for (int i = 0; i < N_FILLERS; i++)
                close(fillers[i]);
}

/* A unix socket stands for the other family, since not each machine has IPv6. One after another, it
 * would be begun after the deadline. */
Test(byte_stream, tries_the_other_family_next)
{
        enum { N_SILENT = 7, EACH_MS = 250 };
        int fillers[N_FILLERS];
        struct server silent = server_listen_without_room(fillers);
        struct server server = {.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        struct socket_address addresses[N_SILENT + 1];
        struct sockaddr_un *other = (struct sockaddr_un *)(void *)&addresses[N_SILENT].data;
        const struct byte_stream_target target = {.host = "localhost",
            .addresses = addresses,
            .n_addresses = N_SILENT + 1,
            .connect_timeout_ms = N_SILENT * EACH_MS - 50};
        struct client client = {0};

        for (int i = 0; i < N_SILENT; i++)
                addresses[i] = loopback(silent.port);
        *other = (struct sockaddr_un){.sun_family = AF_UNIX};
        /* In the abstract name space, behind a NUL. */
        snprintf(other->sun_path + 1, sizeof other->sun_path - 1, "byte_stream_%d", getpid());
        addresses[N_SILENT].length = sizeof *other;
        cr_assert_eq(bind(server.listener, (struct sockaddr *)other, sizeof *other), 0);
        cr_assert_eq(listen(server.listener, 1), 0);

        client_open_to(&client, &target);
        server_accept(&server, &client);

        client_close(&client);
        server_close(&server);
        close(silent.listener);
        for (int i = 0; i < N_FILLERS; i++)
                close(fillers[i]);
}

Test(byte_stream, says_why_no_address_was_of_use)
{
        struct server refusing = server_listen();
        const struct socket_address addresses[] = {
            loopback(refusing.port), loopback(refusing.port)};
        const struct byte_stream_target target = {.host = "some.test",
            .port = refusing.port,
            .addresses = addresses,
            .n_addresses = 2,
            .connect_timeout_ms = 20000};
        struct client client = {0};

        close(refusing.listener);
        client_open_to(&client, &target);
        while (client.n_failures == 0)
                uv_run(&client.loop, UV_RUN_ONCE);
        cr_expect_eq(client.n_failures, 1);
        cr_expect_eq(client.fault, OUTCOME_FAULT_REFUSED);
        cr_expect(strstr(client.reason, "cannot connect to some.test:") != NULL);
        cr_expect(strstr(client.reason, "refused") != NULL, "%s", client.reason);
        client_close(&client);
}

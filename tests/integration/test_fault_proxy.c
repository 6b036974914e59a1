/* The fault proxy: what the chaos runs rely on when they ask for a fault. */
#include "base/clock.h"
#include "chaos/fault_proxy.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct rig {
        struct fault_proxy *proxy;
        struct fault_link *link;
        int listener; /* of the server behind the proxy */
};

#define LOOP_CLOCK_MS 1 /* the proxy's loop counts whole milliseconds */

static struct sockaddr_in address_of(uint16_t port)
{
        return (struct sockaddr_in){.sin_family = AF_INET,
            .sin_port = htons(port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static struct rig rig_begin(void)
{
        uint16_t port = free_port();
        struct sockaddr_in address = address_of(port);
        struct rig rig = {.listener = socket(AF_INET, SOCK_STREAM, 0)};
        const int reuse = 1; /* also after a process whose connections linger */

        setsockopt(rig.listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
        cr_assert_eq(bind(rig.listener, (struct sockaddr *)&address, sizeof address), 0);
        cr_assert_eq(listen(rig.listener, 8), 0);
        rig.proxy = fault_proxy_start();
        rig.link = fault_proxy_add(rig.proxy, port);
        return rig;
}

static void rig_end(struct rig *rig)
{
        fault_proxy_destroy(rig->proxy);
        close(rig->listener);
}

/* -1 if it is refused. */
static int try_to_connect(const struct rig *rig)
{
        struct sockaddr_in address = address_of(fault_link_port(rig->link));
        const struct timeval limit = {.tv_sec = 20};
        int client = socket(AF_INET, SOCK_STREAM, 0);

        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(client, (struct sockaddr *)&address, sizeof address) == 0)
                return client;
        close(client);
        return -1;
}

struct pair {
        int client;
        int server;
};

static struct pair connect_through(const struct rig *rig)
{
        const struct timeval limit = {.tv_sec = 20};
        struct pair pair = {.client = try_to_connect(rig)};

        cr_assert_geq(pair.client, 0);
        pair.server = accept(rig->listener, NULL, NULL);
        cr_assert_geq(pair.server, 0);
        setsockopt(pair.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        return pair;
}

static void close_pair(const struct pair *pair)
{
        close(pair->client);
        close(pair->server);
}

static bool has_accepted_two(void *context)
{
        return fault_link_n_connections(context) == 2;
}

static void send_text(int socket, const char *text)
{
        cr_assert_eq(send(socket, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect_text(int socket, const char *text)
{
        char said[256] = "";

        cr_assert_eq(recv(socket, said, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
        cr_expect_str_eq(said, text);
}

static void expect_end(int socket)
{
        char byte;

        cr_expect_eq(recv(socket, &byte, 1, 0), 0, "no orderly end");
}

static void expect_reset(int socket)
{
        char byte;

        cr_expect_eq(recv(socket, &byte, 1, 0), -1);
        cr_expect_eq(errno, ECONNRESET, "%s", strerror(errno));
}

static bool is_silent(int socket, int for_ms)
{
        struct pollfd watched = {.fd = socket, .events = POLLIN};

        return poll(&watched, 1, for_ms) == 0;
}

Test(fault_proxy, passes_everything_on_in_both_directions_and_the_end_too)
{
        enum { N_BYTES = 3 * 1000 * 1000 };
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);
        char *sent = malloc(N_BYTES);
        char *received = malloc(N_BYTES);

        for (int i = 0; i < N_BYTES; i++)
                sent[i] = (char)(i * 7 + i / 1000);
        if (fork() == 0) { /* both sides at once: more than any buffer holds */
                send(pair.client, sent, N_BYTES, 0);
                _exit(0);
        }
        cr_assert_eq(recv(pair.server, received, N_BYTES, MSG_WAITALL), N_BYTES);
        cr_expect_eq(memcmp(sent, received, N_BYTES), 0);
        send_text(pair.server, "answer");
        expect_text(pair.client, "answer");
        shutdown(pair.server, SHUT_WR);
        expect_end(pair.client);

        cr_expect_eq(fault_link_n_connections(rig.link), 1);
        close_pair(&pair);
        free(sent);
        free(received);
        rig_end(&rig);
}

Test(fault_proxy, delays_without_changing_the_order)
{
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);
        int64_t begin_us = clock_monotonic_us();
        char expected[64] = "";

        fault_link_set(
            rig.link, &(struct fault){.kind = FAULT_DELAY, .delay_ms = 60, .jitter_ms = 50});
        for (int i = 0; i < 10; i++) {
                char piece[3] = {(char)('a' + i), (char)('0' + i), '\0'};
                strcat(expected, piece);
                send_text(pair.client, piece);
                is_silent(pair.client, 5); /* so that they travel apart */
        }
        expect_text(pair.server, expected);
        cr_expect_geq(clock_monotonic_us() - begin_us, (60 - LOOP_CLOCK_MS) * 1000);
        close_pair(&pair);
        rig_end(&rig);
}

Test(fault_proxy, throttles)
{
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);
        int64_t begin_us = clock_monotonic_us();
        char text[201] = "";

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_THROTTLE, .bytes_per_s = 1000});
        memset(text, 'x', 200);
        send_text(pair.server, text);
        expect_text(pair.client, text);
        cr_expect_geq(clock_monotonic_us() - begin_us, (200 - LOOP_CLOCK_MS) * 1000);
        close_pair(&pair);
        rig_end(&rig);
}

Test(fault_proxy, cuts_an_answer_in_its_middle)
{
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_CUT, .after_bytes = 8});
        send_text(pair.client, "a question of any length");
        expect_text(pair.server, "a question of any length");
        send_text(pair.server, "01234");
        expect_text(pair.client, "01234");
        send_text(pair.server, "56789");
        expect_text(pair.client, "567");
        expect_end(pair.client);
        close_pair(&pair);
        rig_end(&rig);
}

Test(fault_proxy, leaves_connections_half_open_for_good)
{
        struct rig rig = rig_begin();
        struct pair before = connect_through(&rig);
        struct pair after;
        int dead;

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_HALF_OPEN});
        expect_reset(before.client);
        dead = try_to_connect(&rig);
        cr_assert_geq(dead, 0);
        wait_until(has_accepted_two, rig.link, 20000, "the proxy accepts it under the fault");
        send_text(dead, "hello?");
        fault_link_set(rig.link, &(struct fault){.kind = FAULT_NONE});
        after = connect_through(&rig);
        send_text(after.server, "here");
        expect_text(after.client, "here");
        cr_expect(is_silent(dead, 50));
        cr_expect(is_silent(rig.listener, 0), "the server never sees it");
        close_pair(&before);
        close_pair(&after);
        close(dead);
        rig_end(&rig);
}

Test(fault_proxy, resets_present_and_new_connections)
{
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);
        int next;

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_RESET});
        expect_reset(pair.client);
        expect_reset(pair.server);
        next = try_to_connect(&rig);
        if (next >= 0) /* else the reset was faster than connect() */
                expect_reset(next);
        close(next);
        close_pair(&pair);
        rig_end(&rig);
}

Test(fault_proxy, holds_everything_back_in_a_blackhole_and_lets_it_go_afterwards)
{
        struct rig rig = rig_begin();
        struct pair pair = connect_through(&rig);
        int next;

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_BLACKHOLE});
        send_text(pair.client, "stuck");
        next = try_to_connect(&rig);
        cr_assert_geq(next, 0);
        wait_until(has_accepted_two, rig.link, 20000, "the proxy accepts it under the fault");
        cr_expect(is_silent(pair.server, 50));
        cr_expect(is_silent(rig.listener, 0), "no new connection arrives");
        fault_link_set(rig.link, &(struct fault){.kind = FAULT_NONE});
        expect_text(pair.server, "stuck");
        cr_expect(!is_silent(rig.listener, 20000), "the new connection arrives afterwards");
        close(next);
        close_pair(&pair);
        rig_end(&rig);
}

Test(fault_proxy, refuses_and_listens_again)
{
        struct rig rig = rig_begin();
        struct pair before = connect_through(&rig);
        struct pair after;

        fault_link_set(rig.link, &(struct fault){.kind = FAULT_REFUSE});
        cr_expect_lt(try_to_connect(&rig), 0);
        send_text(before.client, "still here");
        expect_text(before.server, "still here");
        fault_link_set(rig.link, &(struct fault){.kind = FAULT_NONE});
        after = connect_through(&rig);
        close_pair(&before);
        close_pair(&after);
        rig_end(&rig);
}

static bool has_none_open(void *context)
{
        return fault_link_n_open(context) == 0;
}

Test(fault_proxy, ends_a_connection_whose_server_is_not_there)
{
        struct rig rig = rig_begin();
        int client;

        close(rig.listener);
        client = try_to_connect(&rig);
        expect_reset(client);
        wait_until(has_none_open, rig.link, 20000, "the proxy forgets it");
        close(client);
        rig.listener = -1;
        rig_end(&rig);
}

#include "support/dns_server.h"

#include "base/alloc.h"
#include "loop/resolve.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER_BYTES = 12, TYPE_A = 1, TYPE_AAAA = 28, NO_SUCH_NAME = 3 };

struct dns_server {
        int socket;
        char address[32];
        pthread_t thread;
        pthread_mutex_t lock;
        char *addresses;  /* NULL: there is no such name */
        char *afterwards; /* instead, after the next answer; NULL: the same */
        bool is_mute;
        bool is_ending;
        unsigned n_asked;
};

/* The end of the question after the header, or 0. */
static size_t find_question_end(const unsigned char *packet, size_t length)
{
        size_t at = HEADER_BYTES;

        while (at < length && packet[at] != 0)
                at += 1u + packet[at];
        return at + 5 <= length ? at + 5 : 0;
}

static size_t append_record(unsigned char *packet, size_t at, int type, const char *address)
{
        const unsigned char head[] = {0xc0, HEADER_BYTES, 0, (unsigned char)type, 0, 1, 0, 0, 0, 0,
            0, type == TYPE_A ? 4 : 16};

        if (inet_pton(type == TYPE_A ? AF_INET : AF_INET6, address, packet + at + sizeof head) != 1)
                return at;
        memcpy(packet + at, head, sizeof head);
        packet[7]++; /* answers */
        return at + sizeof head + head[11];
}

/* Turns the question into its answer; returns its length. */
static size_t answer(unsigned char *packet, size_t question_end, int type, const char *addresses)
{
        char *list = addresses != NULL ? xstrdup(addresses) : NULL;
        char *rest = NULL;
        size_t length = question_end;

        packet[2] |= 0x84; /* a response, with authority */
        packet[3] = addresses != NULL ? 0x80 : 0x80 | NO_SUCH_NAME;
        memset(packet + 6, 0, 6); /* no records yet */
        for (char *address = list != NULL ? strtok_r(list, " ", &rest) : NULL; address != NULL;
             address = strtok_r(NULL, " ", &rest))
                if (type == TYPE_A || type == TYPE_AAAA)
                        length = append_record(packet, length, type, address);
        free(list);
        return length;
}

/* What to answer, to be freed; false: nothing at all. */
static bool decide(
    struct dns_server *server, const unsigned char *packet, int type, char **out_addresses)
{
        bool is_answered;

        pthread_mutex_lock(&server->lock);
        is_answered = !server->is_mute && memcmp(packet + HEADER_BYTES + 1, "mute", 4) != 0;
        *out_addresses = server->addresses != NULL ? xstrdup(server->addresses) : NULL;
        if (type == TYPE_A) {
                server->n_asked++;
                if (is_answered && server->afterwards != NULL) {
                        free(server->addresses);
                        server->addresses = server->afterwards;
                        server->afterwards = NULL;
                }
        }
        pthread_mutex_unlock(&server->lock);
        return is_answered;
}

static bool is_ending(struct dns_server *server)
{
        bool is_ending;

        pthread_mutex_lock(&server->lock);
        is_ending = server->is_ending;
        pthread_mutex_unlock(&server->lock);
        return is_ending;
}

static void *serve(void *context)
{
        struct dns_server *server = context;

        for (;;) {
                unsigned char packet[1500] = {0};
                struct sockaddr_in client;
                socklen_t client_bytes = sizeof client;
                ssize_t length = recvfrom(
                    server->socket, packet, 512, 0, (struct sockaddr *)&client, &client_bytes);
                size_t end = length > 0 ? find_question_end(packet, (size_t)length) : 0;
                char *addresses = NULL;

                if (is_ending(server))
                        return NULL;
                if (end == 0)
                        continue;
                if (decide(server, packet, packet[end - 3], &addresses))
                        sendto(server->socket, packet,
                            answer(packet, end, packet[end - 3], addresses), 0,
                            (struct sockaddr *)&client, client_bytes);
                free(addresses);
        }
}

struct dns_server *dns_server_start(void)
{
        struct dns_server *server = xcalloc(1, sizeof *server);
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        socklen_t address_bytes = sizeof address;

        pthread_mutex_init(&server->lock, NULL);
        server->socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (server->socket < 0 ||
            bind(server->socket, (struct sockaddr *)&address, address_bytes) != 0 ||
            getsockname(server->socket, (struct sockaddr *)&address, &address_bytes) != 0)
                test_abort("cannot open a socket for DNS");
        snprintf(server->address, sizeof server->address, "127.0.0.1:%u", ntohs(address.sin_port));
        pthread_create(&server->thread, NULL, serve, server);
        return server;
}

void dns_server_destroy(struct dns_server *server)
{
        pthread_mutex_lock(&server->lock);
        server->is_ending = true;
        pthread_mutex_unlock(&server->lock);
        shutdown(server->socket, SHUT_RDWR); /* wakes the thread */
        pthread_join(server->thread, NULL);
        close(server->socket);
        pthread_mutex_destroy(&server->lock);
        free(server->addresses);
        free(server->afterwards);
        free(server);
}

const char *dns_server_address(const struct dns_server *server)
{
        return server->address;
}

void dns_server_use(const struct dns_server *server)
{
        const char *servers[] = {server->address};

        resolve_use_servers(servers, 1);
}

static void set(struct dns_server *server, const char *addresses, const char *afterwards)
{
        pthread_mutex_lock(&server->lock);
        free(server->addresses);
        free(server->afterwards);
        server->addresses = addresses != NULL ? xstrdup(addresses) : NULL;
        server->afterwards = afterwards != NULL ? xstrdup(afterwards) : NULL;
        server->is_mute = false;
        pthread_mutex_unlock(&server->lock);
}

void dns_server_answer(struct dns_server *server, const char *addresses)
{
        set(server, addresses, NULL);
}

void dns_server_rebind(struct dns_server *server, const char *first, const char *second)
{
        set(server, first, second);
}

void dns_server_mute(struct dns_server *server)
{
        pthread_mutex_lock(&server->lock);
        server->is_mute = true;
        pthread_mutex_unlock(&server->lock);
}

unsigned dns_server_n_asked(struct dns_server *server)
{
        unsigned n;

        pthread_mutex_lock(&server->lock);
        n = server->n_asked;
        pthread_mutex_unlock(&server->lock);
        return n;
}

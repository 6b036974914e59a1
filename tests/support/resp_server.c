#include "support/resp_server.h"

#include "support/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One command: the first word is kept, the rest only read. False at the connection's end. */
static bool read_command(FILE *peer, char *word, size_t size)
{
        int n_words;
        int length;

        if (fscanf(peer, "*%d\r\n", &n_words) != 1)
                return false;
        for (int i = 0; i < n_words; i++) {
                if (fscanf(peer, "$%d", &length) != 1)
                        return false;
                if (fgetc(peer) != '\r' || fgetc(peer) != '\n')
                        return false;
                for (int at = 0; at < length; at++) {
                        int byte = fgetc(peer);
                        if (i == 0 && (size_t)at + 1 < size) {
                                word[at] = (char)byte;
                                word[at + 1] = '\0';
                        }
                }
                if (fgetc(peer) != '\r' || fgetc(peer) != '\n')
                        return false;
        }
        return true;
}

static void serve(const struct resp_server *server, FILE *in, FILE *out)
{
        bool is_refused = false;
        char word[32] = "";

        while (read_command(in, word, sizeof word)) {
                if (strcmp(word, "XADD") == 0) {
                        fprintf(out, "-%s\r\n", server->error);
                        is_refused = true;
                } else if (strcmp(word, "EXEC") == 0) {
                        fprintf(out, is_refused ? "-EXECABORT Transaction discarded because of "
                                                  "previous errors.\r\n"
                                                : "*0\r\n");
                        is_refused = false;
                } else {
                        fprintf(out, "+OK\r\n");
                }
                fflush(out);
        }
}

static void *accept_all(void *owner)
{
        const struct resp_server *server = owner;
        int peer;

        while ((peer = accept(server->listener, NULL, NULL)) >= 0) {
                FILE *in = fdopen(peer, "r");
                FILE *out = fdopen(dup(peer), "w");
                serve(server, in, out);
                fclose(in);
                fclose(out);
        }
        return NULL;
}

void resp_server_start(struct resp_server *server, const char *error)
{
        struct sockaddr_in address = {.sin_family = AF_INET};
        int on = 1;

        *server = (struct resp_server){.port = free_port(), .error = error};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(server->port);
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(server->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
            listen(server->listener, 16) != 0)
                test_abort("cannot listen on port %u", server->port);
        pthread_create(&server->thread, NULL, accept_all, server);
}

/* The peers have hung up by now, or the thread would go on serving. */
void resp_server_stop(struct resp_server *server)
{
        shutdown(server->listener, SHUT_RDWR);
        pthread_join(server->thread, NULL);
        close(server->listener);
}

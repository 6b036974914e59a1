#include "support/http_client.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/process.h"
#include "text/network.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int http_connect(const char *address)
{
        struct listen_address parsed;
        struct sockaddr_storage to;
        socklen_t length;
        const struct timeval patience = {.tv_sec = 10};
        int file;

        if (listen_address_parse(address, &parsed) != NULL)
                test_abort("no address: %s", address);
        length = listen_address_socket(&parsed, &to);
        file = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (file < 0 || connect(file, (struct sockaddr *)&to, length) != 0)
                test_abort("cannot connect to %s: %s", address, strerror(errno));
        setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        return file;
}

void http_send(int socket, const char *text)
{
        size_t length = strlen(text);

        while (length > 0) {
                ssize_t n = send(socket, text, length, MSG_NOSIGNAL);
                if (n < 0)
                        return;
                text += n;
                length -= (size_t)n;
        }
}

char *http_read_until(int socket, const char *text)
{
        struct bytes all = {0};
        char chunk[4096];
        ssize_t n;

        bytes_append_text(&all, "");
        while (text == NULL || strstr(all.data, text) == NULL) {
                n = recv(socket, chunk, sizeof chunk, 0);
                if (n < 0 && errno == EAGAIN)
                        test_abort("the server says nothing more after: %s", all.data);
                if (n <= 0)
                        break;
                bytes_append(&all, chunk, (size_t)n);
        }
        return all.data;
}

struct http_reply http_ask(const char *address, const char *method, const char *path,
    const char *headers, const char *body)
{
        bool has_host = headers != NULL && strstr(headers, "Host:") != NULL;
        struct http_reply reply = {0};
        struct bytes request = {0};
        int socket = http_connect(address);
        char *text;
        char *end;

        bytes_printf(&request, "%s %s HTTP/1.1\r\n%sConnection: close\r\n%s", method, path,
            has_host ? "" : "Host: localhost\r\n", headers != NULL ? headers : "");
        if (body != NULL)
                bytes_printf(&request, "Content-Length: %zu\r\n", strlen(body));
        bytes_printf(&request, "\r\n%s", body != NULL ? body : "");
        http_send(socket, request.data);
        bytes_deinit(&request);
        text = http_read_until(socket, NULL);
        close(socket);
        end = strstr(text, "\r\n\r\n");
        reply.head = xstrndup(text, end != NULL ? (size_t)(end - text) + 2 : strlen(text));
        reply.body = xstrdup(end != NULL ? end + 4 : "");
        if (strncmp(text, "HTTP/1.1 ", 9) == 0)
                reply.status = (unsigned)strtoul(text + 9, NULL, 10);
        free(text);
        return reply;
}

void http_reply_free(struct http_reply *reply)
{
        free(reply->head);
        free(reply->body);
}

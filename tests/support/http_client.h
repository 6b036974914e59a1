/*
 * A client that says exactly what the test wants, for servers of ours. `address`
 * is "127.0.0.1:8477" or "unix:/path". Blocking, 10 s at most for each wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_reply {
        unsigned status; /* 0: closed without an answer */
        char *head;      /* owned; the status line and the headers */
        char *body;      /* owned; of a chunked answer with its chunk lines */
};

/* Sends the request with "Host: localhost" and "Connection: close" unless `headers` (lines that end
 * with CR LF, or NULL) has a Host; reads until the server closes. `body` may be NULL. */
struct http_reply http_ask(const char *address, const char *method, const char *path,
    const char *headers, const char *body);
void http_reply_free(struct http_reply *reply);

/* A socket of one's own. */
int http_connect(const char *address);
void http_send(int socket, const char *text); /* what the server no longer reads is lost */

/* Everything until the server closes, or until `text` was in it (NULL: not before the end). Free
 * it. */
char *http_read_until(int socket, const char *text);

/*
 * TLS as a client on a socket that the caller opens, watches and closes. The peer's certificate
 * is always verified, and so is the name in it. TLS 1.2 or newer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct tls_context;
struct tls_session;
struct tls_ticket;

struct tls_files {
        const char *ca_file;   /* whom to trust (PEM); NULL: the system's */
        const char *cert_file; /* our own certificate and those between it and its root (PEM), or
                                * NULL */
        const char *key_file;  /* its key (PEM), without a passphrase */
        const char *protocol;  /* what is spoken, as ALPN names it; NULL: the peer is not told */
};

/* Reads the files, now and never again. On failure returns NULL and sets *error to a reason that
 * names the file. */
struct tls_context *tls_context_create(const struct tls_files *files, struct error *error);

/* One more owner, who calls tls_context_destroy() as well. Returns its argument; NULL is
 * allowed. */
struct tls_context *tls_context_ref(struct tls_context *context);

/* NULL is allowed. Sessions made with it may live on. */
void tls_context_destroy(struct tls_context *context);

/* What a peer gave us to show at the next handshake, which is then a short one. A ticket is for one
 * context and one peer, and outlives the sessions that are made with it. */
struct tls_ticket *tls_ticket_create(void);
void tls_ticket_destroy(struct tls_ticket *ticket); /* NULL is allowed */

enum { TLS_AGAIN = -1, TLS_FAILED = -2 };

/* `host` is the name, or literal address, that the peer's certificate must bear. `ticket` is
 * borrowed while the session lives; NULL: none. */
struct tls_session *tls_session_create(
    struct tls_context *context, int socket, const char *host, struct tls_ticket *ticket);
void tls_session_destroy(struct tls_session *session); /* NULL is allowed */

/* 1: it is done; TLS_AGAIN: when the socket is ready for tls_session_events(); TLS_FAILED. */
int tls_session_shake_hands(struct tls_session *session);

/* As read() and write(): what was read or written; 0 (of a read) when the peer has ended the
 * session; TLS_AGAIN, TLS_FAILED. A write that said TLS_AGAIN must come again with the same bytes
 * first. */
ssize_t tls_session_read(struct tls_session *session, void *data, size_t size);
ssize_t tls_session_write(struct tls_session *session, const void *data, size_t size);

/* After a read: there is more to read, though the socket may be silent. */
bool tls_session_has_more(const struct tls_session *session);

/* After TLS_AGAIN: what the session waits for, as a set of SOCKET_*. */
int tls_session_events(const struct tls_session *session);

/* After TLS_FAILED: why. */
const char *tls_session_failure(const struct tls_session *session);

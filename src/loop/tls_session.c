#include "loop/tls_session.h"

#include "base/alloc.h"
#include "base/error.h"
#include "loop/socket_watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tls_context {
        SSL_CTX *ssl_context;
        unsigned n_owners;
};

struct tls_ticket {
        SSL_SESSION *latest; /* NULL: none yet */
};

struct tls_session {
        SSL *ssl;
        int events;
        char failure[200];
};

/* The oldest of OpenSSL's errors is the one that says what happened. */
static void take_error(char *text, size_t size, const char *otherwise)
{
        unsigned long code = ERR_get_error();
        const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

        if (code != 0 && ERR_SYSTEM_ERROR(code))
                reason = strerror(ERR_GET_REASON(code));
        snprintf(text, size, "%s", reason != NULL ? reason : otherwise);
        ERR_clear_error();
}

static bool refuse_file(struct error *error, const char *what, const char *path)
{
        char reason[160];

        take_error(reason, sizeof reason, "it cannot be read");
        return error_set(error, ERROR_CONFIG, "%s '%s' cannot be used: %s", what, path, reason);
}

/* A key with a passphrase is refused: OpenSSL would ask for it on the terminal. */
static int refuse_passphrase(char *text, int size, int is_writing, void *owner)
{
        (void)text;
        (void)size;
        (void)is_writing;
        (void)owner;
        return -1;
}

static bool read_files(SSL_CTX *ssl_context, const struct tls_files *files, struct error *error)
{
        if (files->ca_file == NULL) {
                if (SSL_CTX_set_default_verify_paths(ssl_context) != 1)
                        return error_set(
                            error, ERROR_SYSTEM, "the system's certificates cannot be read");
        } else if (SSL_CTX_load_verify_locations(ssl_context, files->ca_file, NULL) != 1) {
                return refuse_file(error, "ca_file", files->ca_file);
        }
        if (files->cert_file == NULL)
                return true;
        if (SSL_CTX_use_certificate_chain_file(ssl_context, files->cert_file) != 1)
                return refuse_file(error, "cert_file", files->cert_file);
        if (SSL_CTX_use_PrivateKey_file(ssl_context, files->key_file, SSL_FILETYPE_PEM) != 1)
                return refuse_file(error, "key_file", files->key_file);
        return true;
}

/* OpenSSL spoils what a connection was given, or made with, when that ends without farewell. */
static SSL_SESSION *copy_of(const SSL_SESSION *given)
{
        SSL_SESSION *copy = SSL_SESSION_dup(given);

        if (copy == NULL)
                out_of_memory();
        return copy;
}

/* The peer may send tickets at any time, of which the last is kept. 0: OpenSSL frees its own
 * reference. */
static int on_ticket(SSL *ssl, SSL_SESSION *latest)
{
        struct tls_ticket *ticket = SSL_get_app_data(ssl);

        if (ticket == NULL)
                return 0;
        SSL_SESSION_free(ticket->latest);
        ticket->latest = copy_of(latest);
        return 0;
}

static void name_protocol(SSL_CTX *ssl_context, const char *protocol)
{
        unsigned char list[32];
        size_t length = strlen(protocol);

        list[0] = (unsigned char)length;
        memcpy(list + 1, protocol, length);
        if (SSL_CTX_set_alpn_protos(ssl_context, list, (unsigned)length + 1) != 0)
                out_of_memory();
}

struct tls_context *tls_context_create(const struct tls_files *files, struct error *error)
{
        struct tls_context *context = xcalloc(1, sizeof *context);

        context->n_owners = 1;
        ERR_clear_error();
        context->ssl_context = SSL_CTX_new(TLS_client_method());
        if (context->ssl_context == NULL)
                out_of_memory();
        SSL_CTX_set_min_proto_version(context->ssl_context, TLS1_2_VERSION);
        SSL_CTX_set_verify(context->ssl_context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_default_passwd_cb(context->ssl_context, refuse_passphrase);
        SSL_CTX_set_mode(context->ssl_context,
            SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                SSL_MODE_RELEASE_BUFFERS);               /* a session at rest needs none */
        SSL_CTX_set_read_ahead(context->ssl_context, 1); /* one read(2) for a record, not two */
        SSL_CTX_set_session_cache_mode(
            context->ssl_context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(context->ssl_context, on_ticket);
        if (files->protocol != NULL)
                name_protocol(context->ssl_context, files->protocol);
        if (read_files(context->ssl_context, files, error))
                return context;
        tls_context_destroy(context);
        return NULL;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
        if (context != NULL)
                context->n_owners++;
        return context;
}

void tls_context_destroy(struct tls_context *context)
{
        if (context == NULL || --context->n_owners > 0)
                return;
        SSL_CTX_free(context->ssl_context);
        free(context);
}

static bool is_literal_address(const char *host)
{
        unsigned char address[sizeof(struct in6_addr)];

        return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool expect_host(SSL *ssl, const char *host)
{
        X509_VERIFY_PARAM *expected = SSL_get0_param(ssl);

        if (is_literal_address(host))
                return X509_VERIFY_PARAM_set1_ip_asc(expected, host) == 1;
        X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return X509_VERIFY_PARAM_set1_host(expected, host, 0) == 1 &&
               SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct tls_ticket *tls_ticket_create(void)
{
        return xcalloc(1, sizeof(struct tls_ticket));
}

void tls_ticket_destroy(struct tls_ticket *ticket)
{
        if (ticket == NULL)
                return;
        SSL_SESSION_free(ticket->latest);
        free(ticket);
}

struct tls_session *tls_session_create(
    struct tls_context *context, int socket, const char *host, struct tls_ticket *ticket)
{
        struct tls_session *session = xcalloc(1, sizeof *session);

        session->ssl = SSL_new(context->ssl_context);
        if (session->ssl == NULL || !expect_host(session->ssl, host) ||
            SSL_set_fd(session->ssl, socket) != 1 || SSL_set_app_data(session->ssl, ticket) != 1)
                out_of_memory();
        if (ticket != NULL && ticket->latest != NULL) {
                SSL_SESSION *shown = copy_of(ticket->latest);

                SSL_set_session(session->ssl, shown); /* if it is of use, to OpenSSL */
                SSL_SESSION_free(shown);
        }
        SSL_set_connect_state(session->ssl);
        return session;
}

void tls_session_destroy(struct tls_session *session)
{
        if (session == NULL)
                return;
        SSL_free(session->ssl);
        free(session);
}

static int fail(struct tls_session *session, int system_error)
{
        long verified = SSL_get_verify_result(session->ssl);
        char reason[120];

        take_error(reason, sizeof reason,
            system_error != 0 ? strerror(system_error) : "the connection was closed");
        if (verified != X509_V_OK) {
                snprintf(session->failure, sizeof session->failure,
                    "TLS: the certificate is not accepted: %s",
                    X509_verify_cert_error_string(verified));
        } else {
                snprintf(session->failure, sizeof session->failure, "TLS: %s", reason);
        }
        return TLS_FAILED;
}

/* What a call that returned no bytes comes to. */
static int judge(struct tls_session *session, int result)
{
        int system_error = errno;

        switch (SSL_get_error(session->ssl, result)) {
        case SSL_ERROR_WANT_READ:
                session->events = SOCKET_READABLE;
                return TLS_AGAIN;
        case SSL_ERROR_WANT_WRITE:
                session->events = SOCKET_WRITABLE;
                return TLS_AGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return 0;
        case SSL_ERROR_SYSCALL:
                return fail(session, system_error);
        default: /* OpenSSL's numbers, of which there may be more */
                return fail(session, 0);
        }
}

int tls_session_shake_hands(struct tls_session *session)
{
        int result;

        ERR_clear_error();
        errno = 0;
        result = SSL_do_handshake(session->ssl);
        if (result == 1)
                return 1;
        result = judge(session, result);
        return result == 0 ? fail(session, 0) : result;
}

ssize_t tls_session_read(struct tls_session *session, void *data, size_t size)
{
        int result;

        ERR_clear_error();
        errno = 0;
        result = SSL_read(session->ssl, data, size < INT_MAX ? (int)size : INT_MAX);
        return result > 0 ? result : judge(session, result);
}

ssize_t tls_session_write(struct tls_session *session, const void *data, size_t size)
{
        int result;

        ERR_clear_error();
        errno = 0;
        result = SSL_write(session->ssl, data, size < INT_MAX ? (int)size : INT_MAX);
        if (result > 0)
                return result;
        result = judge(session, result);
        return result == 0 ? fail(session, 0) : result;
}

bool tls_session_has_more(const struct tls_session *session)
{
        return SSL_has_pending(session->ssl) == 1;
}

int tls_session_events(const struct tls_session *session)
{
        return session->events;
}

const char *tls_session_failure(const struct tls_session *session)
{
        return session->failure;
}

#include "cli/doctor/certificate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static bool note(const X509 *certificate, struct certificate_seen *out_seen)
{
        struct tm tm;

        *out_seen = (struct certificate_seen){0};
        if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
                return false;
        out_seen->ends_at = timegm(&tm);
        return true;
}

bool certificate_look_at(void *session, struct certificate_seen *out_seen)
{
        return note(SSL_get0_peer_certificate(session), out_seen);
}

bool certificate_look_in(const char *path, struct certificate_seen *out_seen)
{
        FILE *file = fopen(path, "re");
        X509 *certificate = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
        bool ok = note(certificate, out_seen);

        X509_free(certificate);
        if (file != NULL)
                fclose(file);
        return ok;
}

/* A connected socket that blocks, but not for longer than the timeout; or -1. */
static int connect_to(const struct addrinfo *address, int64_t timeout_ms)
{
        const struct timeval timeout = {
            .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
        int file = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct pollfd poll_file = {.fd = file, .events = POLLOUT};
        int failure = 0;
        socklen_t size = sizeof failure;

        if (file < 0)
                return -1;
        if ((connect(file, address->ai_addr, address->ai_addrlen) == 0 ||
                (errno == EINPROGRESS && poll(&poll_file, 1, (int)timeout_ms) == 1)) &&
            getsockopt(file, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0 &&
            fcntl(file, F_SETFL, 0) == 0 &&
            setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0 &&
            setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0)
                return file;
        close(file);
        return -1;
}

static int open_socket(const struct certificate_place *place)
{
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        struct addrinfo *addresses;
        char port[8];
        int file = -1;

        snprintf(port, sizeof port, "%u", place->port);
        if (getaddrinfo(place->host, port, &hints, &addresses) != 0)
                return -1;
        for (const struct addrinfo *at = addresses; at != NULL && file < 0; at = at->ai_next)
                file = connect_to(at, place->timeout_ms);
        freeaddrinfo(addresses);
        return file;
}

/* An answer of one or more lines, of which the last has a blank behind its code. */
static bool smtp_expect(int file, const char *code)
{
        char line[1024];
        size_t length = 0;

        for (;;) {
                if (length == sizeof line - 1 || read(file, line + length, 1) != 1)
                        return false;
                if (line[length++] != '\n')
                        continue;
                if (length < 5 || strncmp(line, code, 3) != 0)
                        return false;
                if (line[3] != '-')
                        return true;
                length = 0;
        }
}

static bool smtp_say(int file, const char *line)
{
        return send(file, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line);
}

static bool start_smtp(int file)
{
        return smtp_expect(file, "220") && smtp_say(file, "EHLO pgcourier\r\n") &&
               smtp_expect(file, "250") && smtp_say(file, "STARTTLS\r\n") &&
               smtp_expect(file, "220");
}

static bool set_name(SSL *session, const char *host)
{
        unsigned char address[16];
        bool is_address =
            inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;

        if (is_address)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
        return SSL_set_tlsext_host_name(session, host) == 1 && SSL_set1_host(session, host) == 1;
}

static bool shake_hands(
    SSL_CTX *context, int file, const char *host, struct certificate_seen *out_seen)
{
        SSL *session = SSL_new(context);
        bool ok = session != NULL && set_name(session, host) && SSL_set_fd(session, file) == 1 &&
                  SSL_connect(session) == 1 && certificate_look_at(session, out_seen);

        if (ok && SSL_get_verify_result(session) != X509_V_OK)
                snprintf(out_seen->fault, sizeof out_seen->fault, "%s",
                    X509_verify_cert_error_string(SSL_get_verify_result(session)));
        SSL_free(session);
        return ok;
}

bool certificate_look(const struct certificate_place *place, struct certificate_seen *out_seen)
{
        SSL_CTX *context = SSL_CTX_new(TLS_client_method());
        bool ok = context != NULL;
        int file = -1;

        if (ok && place->ca_file != NULL)
                ok = SSL_CTX_load_verify_locations(context, place->ca_file, NULL) == 1;
        else if (ok)
                ok = SSL_CTX_set_default_verify_paths(context) == 1;
        if (ok)
                file = open_socket(place);
        /* SSL_VERIFY_NONE, which is a client's default, still verifies, and remembers the result. */
        ok = file >= 0 && (!place->is_smtp || start_smtp(file)) &&
             shake_hands(context, file, place->host, out_seen);
        if (file >= 0)
                close(file);
        SSL_CTX_free(context);
        return ok;
}

/* The certificates of PostgreSQL, of the sinks and our own: how long they last. */
#include "cli/doctor/cmd_doctor.h"

#include "base/alloc.h"
#include "cli/doctor/report.h"
#include "config/config.h"
#include "config/server_address.h"
#include "config/url.h"
#include "pg/blocking_conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_INFO_BYTES = 64 * 1024 /* as the sink allows */ };

/*
 * How long a server's certificate lasts, and whether it would pass: one TLS handshake that goes
 * through whatever the certificate is, and tells what a strict one would have said. Blocks, within
 * its timeout.
 */
struct certificate_place {
        const char *host;
        uint16_t port;
        bool (*begin)(int file); /* what is said before TLS; NULL: nothing */
        const char *ca_file;     /* whom to trust; NULL: the system's */
        int64_t timeout_ms;      /* for each wait */
};

struct certificate_seen {
        int64_t ends_at; /* seconds since 1970 */
        char fault[128]; /* why it does not pass; "" if it does */
};

static bool note(const X509 *certificate, struct certificate_seen *out_seen)
{
        struct tm tm;

        *out_seen = (struct certificate_seen){0};
        if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
                return false;
        out_seen->ends_at = timegm(&tm);
        return true;
}

/* That of an open session (an SSL *), which was verified or not when it was opened. */
static bool certificate_look_at(void *session, struct certificate_seen *out_seen)
{
        return note(SSL_get0_peer_certificate(session), out_seen);
}

/* The first certificate in a file (PEM); `fault` stays empty. */
static bool certificate_look_in(const char *path, struct certificate_seen *out_seen)
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

/* The server's first line: INFO and an object. */
static bool start_nats(int file)
{
        char byte;

        for (unsigned n = 0; n < MAX_INFO_BYTES && read(file, &byte, 1) == 1; n++)
                if (byte == '\n')
                        return true;
        return false;
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

/* False if there was no handshake: then nothing is known. */
static bool certificate_look(
    const struct certificate_place *place, struct certificate_seen *out_seen)
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
        /* SSL_VERIFY_NONE, which is a client's default, still verifies, and remembers the
         * result. */
        ok = file >= 0 && (place->begin == NULL || place->begin(file)) &&
             shake_hands(context, file, place->host, out_seen);
        if (file >= 0)
                close(file);
        SSL_CTX_free(context);
        return ok;
}

#define SOON_DAYS   21
#define DAY_SECONDS (24 * 60 * 60)

static const char *plural(int64_t n)
{
        return n == 1 ? "" : "s";
}

static void report_seen(
    struct report *report, const char *whose, const struct certificate_seen *seen)
{
        int64_t left_s = seen->ends_at - (int64_t)time(NULL);
        int64_t left_days = left_s / DAY_SECONDS;

        if (left_s <= 0)
                report_fail(report, ERROR_SINK, "certificates", "Renew it on that server",
                    "that of %s has ended %" PRId64 " day%s ago", whose, -left_days,
                    plural(-left_days));
        else if (*seen->fault != '\0')
                report_fail(report, ERROR_SINK, "certificates",
                    "Correct its name or chain on that server, or trust its authority with ca_file",
                    "that of %s does not pass: %s", whose, seen->fault);
        else if (left_days < SOON_DAYS)
                report_warn(report, "certificates", "Renew it in time",
                    "that of %s ends in %" PRId64 " day%s", whose, left_days, plural(left_days));
        else
                report_ok(report, "certificates", "that of %s ends in %" PRId64 " day%s", whose,
                    left_days, plural(left_days));
}

/* A server that does not answer is told of with the sinks. */
static void look(struct report *report, const char *sink, const struct certificate_place *place)
{
        struct certificate_seen seen;
        char *whose;

        if (!certificate_look(place, &seen))
                return;
        whose = xasprintf("sink %s (%s:%u)", sink, place->host, place->port);
        report_seen(report, whose, &seen);
        free(whose);
}

static void look_in(struct report *report, const char *sink, const char *path)
{
        struct certificate_seen seen;
        char *whose;

        if (path == NULL || !certificate_look_in(path, &seen))
                return;
        whose = xasprintf("ours for sink %s (%s)", sink, path);
        report_seen(report, whose, &seen);
        free(whose);
}

static void look_at_redis_host(struct report *report, const char *sink,
    const struct redis_config *redis, const char *host, uint16_t default_port)
{
        struct certificate_place place = {
            .ca_file = redis->ca_file, .timeout_ms = redis->connect_timeout_ms};
        char *name = NULL;

        if (redis_host_split(host, &name, &place.port) != NULL)
                return;
        place.host = name;
        if (place.port == 0)
                place.port = default_port;
        look(report, sink, &place);
        free(name);
}

static void look_at_redis(struct report *report, const char *sink, const struct redis_config *redis)
{
        look_in(report, sink, redis->cert_file);
        if (!redis->tls)
                return;
        if (redis->host != NULL)
                look(report, sink,
                    &(struct certificate_place){.host = redis->host,
                        .port = redis->port,
                        .ca_file = redis->ca_file,
                        .timeout_ms = redis->connect_timeout_ms});
        for (unsigned i = 0; i < redis->n_sentinels; i++)
                look_at_redis_host(report, sink, redis, redis->sentinels[i], 26379);
        for (unsigned i = 0; i < redis->n_cluster; i++)
                look_at_redis_host(report, sink, redis, redis->cluster[i], 6379);
}

static void look_at_url(struct report *report, const char *sink, const char *text,
    const char *scheme, uint16_t default_port, struct certificate_place place)
{
        struct url url;

        if (text == NULL || url_split(text, &url) != NULL)
                return;
        place.host = url.host;
        place.port = url.port != 0 ? url.port : default_port;
        if (strcmp(url.scheme, scheme) == 0)
                look(report, sink, &place);
        url_deinit(&url);
}

static void look_at_http(struct report *report, const char *sink, const struct http_config *http)
{
        look_in(report, sink, http->cert_file);
        if (http->proxy == NULL)
                look_at_url(report, sink, http->url, "https", 443,
                    (struct certificate_place){
                        .ca_file = http->ca_file, .timeout_ms = http->connect_timeout_ms});
}

/* One that offers no STARTTLS makes no handshake, and the sink says what that means. */
static void look_at_mail_server(
    struct report *report, const char *sink, const struct email_config *email, const char *url)
{
        struct certificate_place place = {
            .ca_file = email->ca_file, .timeout_ms = email->connect_timeout_ms};

        look_at_url(report, sink, url, "smtps", 465, place);
        place.begin = start_smtp;
        if (email->tls == TLS_REQUIRED || email->tls == TLS_AUTO)
                look_at_url(report, sink, url, "smtp", 25, place);
}

static void look_at_email(struct report *report, const char *sink, const struct email_config *email)
{
        look_in(report, sink, email->cert_file);
        look_at_mail_server(report, sink, email, email->url);
        for (unsigned i = 0; i < email->n_relays; i++)
                look_at_mail_server(report, sink, email, email->relays[i].url);
}

static void look_at_servers(struct report *report, const char *sink, enum server_protocol protocol,
    char *const *servers, unsigned n, bool tls, struct certificate_place place)
{
        for (unsigned i = 0; i < n; i++) {
                struct server_address address;

                if (server_address_split(protocol, servers[i], tls, &address) != NULL)
                        continue;
                place.host = address.host;
                place.port = address.port;
                if (address.is_tls)
                        look(report, sink, &place);
                server_address_deinit(&address);
        }
}

static void look_at_nats(struct report *report, const char *sink, const struct nats_config *nats)
{
        look_in(report, sink, nats->cert_file);
        look_at_servers(report, sink, SERVER_NATS, nats->servers, nats->n_servers, nats->tls,
            (struct certificate_place){.ca_file = nats->ca_file,
                .timeout_ms = nats->connect_timeout_ms,
                .begin = nats->tls_first ? NULL : start_nats});
}

static void look_at_rabbitmq(
    struct report *report, const char *sink, const struct rabbitmq_config *rabbitmq)
{
        look_in(report, sink, rabbitmq->cert_file);
        look_at_servers(report, sink, SERVER_AMQP, rabbitmq->servers, rabbitmq->n_servers,
            rabbitmq->tls,
            (struct certificate_place){
                .ca_file = rabbitmq->ca_file, .timeout_ms = rabbitmq->connect_timeout_ms});
}

static void look_at_kafka(struct report *report, const char *sink, const struct kafka_config *kafka)
{
        look_in(report, sink, kafka->cert_file);
        look_at_servers(report, sink, SERVER_KAFKA, kafka->brokers, kafka->n_brokers, kafka->tls,
            (struct certificate_place){
                .ca_file = kafka->ca_file, .timeout_ms = kafka->connect_timeout_ms});
}

void doctor_check_session_certificate(struct blocking_conn *conn, struct report *report)
{
        void *session = blocking_conn_tls(conn);
        struct certificate_seen seen;

        if (session != NULL && certificate_look_at(session, &seen))
                report_seen(report, "PostgreSQL", &seen);
}

void doctor_check_certificates(const struct config *config, struct report *report)
{
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];

                if (sink->redis != NULL)
                        look_at_redis(report, sink->name, sink->redis);
                if (sink->http != NULL)
                        look_at_http(report, sink->name, sink->http);
                if (sink->email != NULL)
                        look_at_email(report, sink->name, sink->email);
                if (sink->nats != NULL)
                        look_at_nats(report, sink->name, sink->nats);
                if (sink->rabbitmq != NULL)
                        look_at_rabbitmq(report, sink->name, sink->rabbitmq);
                if (sink->kafka != NULL)
                        look_at_kafka(report, sink->name, sink->kafka);
        }
}

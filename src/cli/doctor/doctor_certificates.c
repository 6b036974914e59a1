/* The certificates of PostgreSQL, of the sinks and our own: how long they last. */
#include "base/alloc.h"
#include "cli/doctor/certificate.h"
#include "cli/doctor/cmd_doctor.h"
#include "cli/doctor/report.h"
#include "config/config.h"
#include "config/url.h"
#include "pg/blocking_conn.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
        place.is_smtp = true;
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
        }
}

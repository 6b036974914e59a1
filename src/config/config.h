/*
 * The configuration as the program uses it: one struct per block of the YAML
 * file, every value checked, defaults filled in, secrets read from their
 * files. The keys, their defaults, ranges and help are the table rows in
 * config_keys.c. Durations are milliseconds, sizes bytes.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wakeup { WAKEUP_NOTIFY, WAKEUP_POLL };
enum start { START_NOW, START_BEGINNING };
enum order { ORDER_KEY, ORDER_NONE };

struct postgres_config {
        char *dsn;      /* libpq conninfo or URI; never logged */
        char *password; /* from password or password_file; NULL: libpq's own ways */
        int64_t connect_timeout_ms;
        int64_t query_timeout_ms; /* a statement unanswered for so long breaks the connection */
};

struct relay_config {
        enum wakeup wakeup;
        int64_t sweep_ms;         /* the look at the backlog that needs no notification */
        int64_t poll_interval_ms; /* the same with wakeup: poll */
        int64_t standby_ms;       /* how often a standby tries for a lane that another relay owns */
        int64_t drain_ms;         /* how long SIGTERM waits for what is in flight */
};

struct retry_config {
        int64_t first_ms;
        double factor;
        int64_t max_ms;
        int64_t *delays_ms; /* instead of the three above; NULL: none */
        unsigned n_delays;
        uint32_t attempts;  /* 0: any number */
        int64_t max_age_ms; /* of the delays' sum; 0: any */
};

struct redis_config {
        char *url;  /* redis://[user[:password]@]host[:port][/db] or unix:///path[?db=N] */
        char *host; /* from url; NULL for a unix socket */
        uint16_t port;
        char *socket_path; /* from url; NULL for TCP */
        char *user;        /* NULL: the default user */
        char *password;    /* from url, password or password_file; NULL: no AUTH */
        uint32_t db;
        char *stream;    /* template on {{topic}} */
        uint64_t maxlen; /* 0: never trim; else XADD … MAXLEN ~ n */
        int64_t connect_timeout_ms;
        int64_t timeout_ms; /* the oldest command unanswered for so long breaks the connection */
};

struct http_config {
        char *url;
        char *secret;   /* Standard Webhooks: whsec_… ; NULL: unsigned */
        char **headers; /* names of event headers that are passed on */
        unsigned n_headers;
        uint32_t concurrency;
        int64_t connect_timeout_ms;
        int64_t timeout_ms;
        char *ca_file; /* NULL: the system's */
};

struct email_config {
        char *url;  /* smtp://host[:port] or smtps://host[:port] */
        char *from; /* address, or "Name <address>" */
        char *user;
        char *password;          /* from password or password_file */
        char *message_id_domain; /* right side of Message-ID; default: the domain of `from` */
        enum {
                TLS_AUTO,
                TLS_REQUIRED,
                TLS_NONE
        } tls; /* auto: required unless the host is loopback */
        uint32_t concurrency;
        int64_t connect_timeout_ms;
        int64_t timeout_ms;
        char *ca_file;
};

struct stdout_config {
        bool payload; /* print payloads; false leaves only the event's name and identity */
};

struct sink_config {
        char *name;
        char **topics; /* patterns: '*' stands for any run of characters */
        unsigned n_topics;
        enum start start;
        enum order order;
        uint32_t max_in_flight;
        uint64_t max_in_flight_bytes;
        struct retry_config retry;
        int64_t park_after_ms;    /* under way for so long, a delivery no longer holds up others */
        uint64_t max_parked;      /* with so many parked, nothing is read */
        uint64_t max_event_bytes; /* a larger payload is a dead letter; 0: any size */
        /* Exactly one is set: the sink's kind. */
        struct redis_config *redis;
        struct http_config *http;
        struct email_config *email;
        struct stdout_config *stdout_; /* `stdout` is a macro in <stdio.h> */
};

struct config {
        struct postgres_config postgres;
        struct relay_config relay;
        char *log_level;
        struct sink_config *sinks;
        unsigned n_sinks;
};

/*
 * Reads and checks a file. On failure returns NULL and sets *error to
 * "FILE:LINE:COLUMN: key path: what is wrong, what is allowed" (ERROR_CONFIG,
 * or ERROR_PERMISSION if the file cannot be read).
 */
struct config *config_load(const char *path, struct error *error);

void config_free(struct config *config); /* NULL is allowed; clears secrets first */

/* The kind of a sink ("redis") and its block. */
const char *sink_config_kind(const struct sink_config *sink);
const void *sink_config_options(const struct sink_config *sink);

/*
 * How long a server's certificate lasts, and whether it would pass: one TLS
 * handshake that goes through whatever the certificate is, and tells what a
 * strict one would have said. Blocks, within its timeout.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct certificate_place {
        const char *host;
        uint16_t port;
        bool is_smtp;        /* STARTTLS first */
        const char *ca_file; /* whom to trust; NULL: the system's */
        int64_t timeout_ms;  /* for each wait */
};

struct certificate_seen {
        int64_t ends_at; /* seconds since 1970 */
        char fault[128]; /* why it does not pass; "" if it does */
};

/* False if there was no handshake: then nothing is known. */
bool certificate_look(const struct certificate_place *place, struct certificate_seen *out_seen);

/* The same of an open session (an SSL *), which was verified or not when it was opened. */
bool certificate_look_at(void *session, struct certificate_seen *out_seen);

/* Of the first certificate in a file (PEM); `fault` stays empty. */
bool certificate_look_in(const char *path, struct certificate_seen *out_seen);

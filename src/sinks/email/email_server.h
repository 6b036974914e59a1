/*
 * How to reach one mail server (a relay, in the words of SMTP), from the
 * configuration: its URL, when TLS is a must, and whose name and password are
 * for it. A password is sent within TLS, or to this machine itself; which of
 * the two is decided here and nowhere else.
 */
#pragma once

#include "base/error.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct email_config;

/* Shared by all mailers of a sink and never changed. */
struct email_server {
        const struct email_config *config; /* borrowed: what all relays have in common */
        char *url;                         /* owned; with the name for EHLO, if one is given */
        char *place;                       /* owned: "host:port", for people */
        const char *user;                  /* borrowed; NULL: no login */
        const char *password;              /* borrowed */
        curl_usessl starttls;              /* with smtp:// */
};

#define EMAIL_MAX_RELAYS 8

struct email_servers {
        unsigned n;
        struct email_server server[EMAIL_MAX_RELAYS]; /* in the order in which they are tried */
};

/* Checks each url, tls and user; *error names the key, and there is nothing to deinit. */
bool email_servers_init(
    struct email_servers *servers, const struct email_config *config, struct error *error);
void email_servers_deinit(struct email_servers *servers);

/*
 * Which of several mail servers is tried next: the first that is not left out.
 * Pure: no I/O, no clock, no randomness.
 *
 * A relay that failed is left out for a while, which doubles with each failure
 * in a row, up to sixty times the first. When the while is over, one mail is
 * its trial and the others go on without it: where connecting takes ten
 * seconds to fail, only one mail pays for finding that out. If all are left
 * out, a mail is tried at each of them, in order, all the same: how often that
 * happens is the relay's own business (its breaker), and nothing would be won
 * by answering without having asked.
 */
struct email_relays {
        int64_t backoff_ms; /* the first */
        unsigned n;
        struct {
                uint32_t n_failures; /* in a row; 0: it is well */
                int64_t out_until_ms;
                bool is_on_trial;
        } relay[EMAIL_MAX_RELAYS];
};

/* Of one mail: where it has already been tried. */
struct email_tour {
        uint32_t tried; /* one bit for each */
        bool is_last_resort;
};

void email_relays_init(struct email_relays *relays, unsigned n, int64_t backoff_ms);

/* The next relay to try this mail at; false if none is left. Each one that is given out is answered
 * by exactly one of the three calls below. */
bool email_relays_next(
    struct email_relays *relays, struct email_tour *tour, int64_t now_ms, unsigned *out_relay);

void email_relays_worked(struct email_relays *relays, unsigned relay);
void email_relays_failed(struct email_relays *relays, unsigned relay, int64_t now_ms);
void email_relays_unknown(
    struct email_relays *relays, unsigned relay); /* given up before an answer */

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

struct email_config;

/* Shared by all mailers of a sink and never changed. */
struct email_route {
        const struct email_config *config; /* borrowed: what all relays have in common */
        char *url;                         /* owned; with the name for EHLO, if one is given */
        char *place;                       /* owned: "host:port", for people */
        const char *user;                  /* borrowed; NULL: no login */
        const char *password;              /* borrowed */
        curl_usessl starttls;              /* with smtp:// */
};

#define EMAIL_MAX_RELAYS 8

struct email_routes {
        unsigned n;
        struct email_route route[EMAIL_MAX_RELAYS]; /* in the order in which they are tried */
};

/* Checks each url, tls and user; *error names the key, and there is nothing to deinit. */
bool email_routes_init(
    struct email_routes *routes, const struct email_config *config, struct error *error);
void email_routes_deinit(struct email_routes *routes);

/*
 * Splits a URL into its parts and checks each. Stricter than RFC 3986 where
 * leniency lets two readers disagree about the host: no spaces, control
 * characters, backslashes or bytes beyond ASCII anywhere.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct url {
        char *scheme;   /* lower case */
        char *user;     /* percent-decoded; NULL: none */
        char *password; /* percent-decoded; NULL: none */
        char *host;     /* without the brackets of an IPv6 address; "" if there is none */
        uint16_t port;  /* 0: none */
        char *path;     /* as written, from its slash on; "" if there is none */
        char *query;    /* as written, without its question mark; NULL: none */
        bool has_fragment;
};

/* NULL if `text` is a URL, with *out_url filled (release it with url_deinit()); else a reason that
 * quotes nothing of it: it may hold a secret. */
const char *url_split(const char *text, struct url *out_url);
void url_deinit(struct url *url);

/* Percent-decoded, to be freed by the caller; NULL if that is malformed or makes a control
 * character. */
char *url_decode(const char *text);

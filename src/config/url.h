/*
 * URLs of sinks. libcurl's own parser reads them, so that what is checked when the configuration is
 * loaded and what is connected to later are the same host. The reasons returned quote nothing of a
 * URL: it may hold a secret.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct url {
        char *scheme;   /* lower case */
        char *user;     /* percent-decoded; NULL: none */
        char *password; /* percent-decoded; NULL: none */
        char *host;     /* IPv6 addresses without brackets; "" if there is none */
        uint16_t port;  /* 0: none */
        char *rest;     /* path, query and fragment as written; "" if there is nothing */
};

/*
 * Stricter than libcurl where it would guess what was meant: no spaces, control characters,
 * backslashes or bytes beyond ASCII anywhere, no second @, no percent-encoded host, no odd port.
 * NULL, with *out_url filled (release it with url_deinit()), or a reason.
 */
const char *url_split(const char *text, struct url *out_url);
void url_deinit(struct url *url);

/* Percent-decoded, to be freed by the caller; NULL if that is malformed or makes a control
 * character. */
char *url_decode(const char *text);

/* redis[s]://[user[:password]@]host[:port][/db] or unix:///path/to.sock[?db=N] */
struct redis_url {
        char *host; /* NULL for a unix socket */
        uint16_t port;
        char *socket_path; /* NULL for TCP */
        char *user;        /* NULL: none */
        char *password;    /* NULL: none */
        uint32_t db;
        bool is_tls;
};

/* As url_split(). */
const char *redis_url_split(const char *text, struct redis_url *out_url);
void redis_url_deinit(struct redis_url *url);

/* A host alone: a name, an IPv4 address or an [IPv6 address], and perhaps a :port, else *out_port
 * is 0. NULL, with *out_host to be freed by the caller, or a reason. */
const char *redis_host_split(const char *text, char **out_host, uint16_t *out_port);

/* Everything that libcurl takes for an http or https URL, as a row of courier.receiver may hold it.
 * False, with *error set (ERROR_CONFIG), for anything else; `name` says which URL it is, for
 * people. The two strings are freed with curl_free(); *out_host has the brackets of an IPv6
 * address. */
bool http_url_parse(
    const char *name, const char *url, char **out_host, char **out_port, struct error *error);

/* Whether a name or a password stands before its host. */
bool http_url_has_userinfo(const char *url);

/* A URL that http_url_parse() accepts, without user, password and query, which may be secret. Free
 * it. */
char *http_url_describe(const char *url);

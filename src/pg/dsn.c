#include "pg/dsn.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/regular_file.h"
#include "config/suggest.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const schemes[] = {"postgresql://", "postgres://"};

/* Behind the scheme; NULL: it consists of options. */
static const char *find_authority(const char *dsn)
{
        for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
                if (strncmp(dsn, schemes[i], strlen(schemes[i])) == 0)
                        return dsn + strlen(schemes[i]);
        return NULL;
}

#define FORMS                                                                                      \
        "Write postgresql://USER@HOST:PORT/DATABASE or host=HOST port=PORT dbname=DATABASE "       \
        "user=USER"

static bool refuse(struct error *error, const char *what)
{
        return error_set(error, ERROR_CONFIG,
            "the dsn is not valid: %s. No part of it is shown, as that may be a part of a "
            "password. " FORMS,
            what);
}

/* The usual cause of what libpq finds in the wrong place of a URI. */
static bool refuse_uri(struct error *error, const char *what)
{
        return error_set(error, ERROR_CONFIG,
            "the dsn is not valid: %s. In a URI a password must be percent-encoded: write / as "
            "%%2F, @ as %%40, : as %%3A, ? as %%3F, # as %%23, %% as %%25; or leave it out, and "
            "give postgres.password_file. No part of the dsn is shown",
            what);
}

/* The known option that one which libpq does not know was probably meant to be. */
static const char *suggest_option(const char *reason)
{
        static const char before[] = "invalid connection option \"";
        PQconninfoOption *known = PQconndefaults();
        const char *nearest = NULL;
        char *word;

        if (known == NULL)
                out_of_memory();
        if (strncmp(reason, before, strlen(before)) == 0) {
                word = xstrndup(reason + strlen(before), strcspn(reason + strlen(before), "\"\n"));
                for (const PQconninfoOption *option = known; option->keyword != NULL; option++)
                        nearest = suggest_nearer(word, nearest, option->keyword);
                free(word);
        }
        PQconninfoFree(known); /* their names are constants of libpq */
        return nearest;
}

static bool refuse_syntax(const char *dsn, const char *reason, struct error *error)
{
        const char *meant;

        if (find_authority(dsn) != NULL)
                return refuse_uri(error, "libpq does not understand this URI");
        if (strchr(dsn, '=') == NULL)
                return refuse(error,
                    "it is neither a URI nor a list of options. If it is a password alone, it "
                    "belongs to postgres.password or password_file");
        meant = suggest_option(reason);
        if (meant == NULL)
                return refuse(error,
                    "libpq does not understand its options. A value with blanks, quotes or "
                    "backslashes stands in single quotes, and \\ before each of ' and \\ in it");
        return error_set(error, ERROR_CONFIG,
            "the dsn is not valid: libpq does not know one of its options; did you mean \"%s\"? "
            "No part of the dsn is shown, as that may be a part of a password",
            meant);
}

typedef bool piece_is_right_fn(const char *piece);

/* Of an option that may have several values, with commas between them. */
static bool all_are_right(const char *values, piece_is_right_fn *is_right)
{
        for (const char *at = values;; at++) {
                size_t length = strcspn(at, ",");
                char *piece = xstrndup(at, length);
                bool ok = length == 0 || is_right(piece);

                explicit_bzero(piece, length);
                free(piece);
                if (!ok || at[length] == '\0')
                        return ok;
                at += length;
        }
}

static bool is_host(const char *host)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789-._:%";

        if (host[0] == '/' || host[0] == '@') /* a socket, in the file system or abstract */
                return strchr(host + 1, '@') == NULL;
        for (const char *at = host; *at != '\0'; at++)
                if ((unsigned char)*at < 0x80 && strchr(letters, *at) == NULL)
                        return false;
        return true;
}

static bool is_port(const char *port)
{
        return strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5 &&
               strtol(port, NULL, 10) >= 1 && strtol(port, NULL, 10) <= 65535;
}

static bool is_address(const char *address)
{
        unsigned char binary[sizeof(struct in6_addr)];
        char *plain = xstrndup(address, strcspn(address, "%")); /* without a zone */
        bool is = inet_pton(AF_INET, plain, binary) == 1 || inet_pton(AF_INET6, plain, binary) == 1;

        free(plain);
        return is;
}

static bool check_options(const PQconninfoOption *options, bool is_uri, struct error *error)
{
        static const struct {
                const char *keyword;
                piece_is_right_fn *is_right;
                const char *wrong;
        } rules[] = {
            {"host", is_host, "the host is not a name, an address or the folder of a socket"},
            {"hostaddr", is_address, "hostaddr is not an IP address"},
            {"port", is_port, "the port is not a number from 1 to 65535"}};

        for (const PQconninfoOption *option = options; option->keyword != NULL; option++)
                for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
                        if (option->val != NULL && strcmp(option->keyword, rules[i].keyword) == 0 &&
                            !all_are_right(option->val, rules[i].is_right))
                                return is_uri ? refuse_uri(error, rules[i].wrong)
                                              : refuse(error, rules[i].wrong);
        return true;
}

/* A database's name may hold it, but not as it is: a password that holds / cuts the URI short. */
static bool has_at_sign_in_path(const char *authority)
{
        const char *path = strchr(authority, '/');

        return path != NULL && memchr(path, '@', strcspn(path, "?")) != NULL;
}

/* libpq opens them in the loop. */
static bool check_files(const PQconninfoOption *options, struct error *error)
{
        static const char *const keywords[] = {
            "sslrootcert", "sslcert", "sslkey", "sslcrl"}; /* it looks at passfile itself */
        struct error why;

        for (; options->keyword != NULL; options++)
                for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
                        if (options->val != NULL && strcmp(options->keyword, keywords[i]) == 0 &&
                            !regular_file_check(options->val, &why))
                                return error_set(error, why.kind, "the dsn: %s: '%.400s' %s",
                                    keywords[i], options->val, why.text);
        return true;
}

bool dsn_check(const char *dsn, struct error *error)
{
        const char *authority = find_authority(dsn);
        char *reason = NULL;
        PQconninfoOption *options = PQconninfoParse(dsn, &reason);
        bool ok;

        if (options == NULL) {
                if (reason == NULL ||
                    strncmp(reason, "out of memory", strlen("out of memory")) == 0)
                        out_of_memory();
                ok = refuse_syntax(dsn, reason, error);
                PQfreemem(reason);
                return ok;
        }
        if (!check_options(options, authority != NULL, error))
                ok = false;
        else if (authority != NULL && has_at_sign_in_path(authority))
                ok = refuse_uri(error, "there is an @ after the host");
        else
                ok = check_files(options, error); /* the last, as it names what the dsn says */
        PQconninfoFree(options);
        return ok;
}

static void append_option(struct bytes *rest, const char *keyword, const char *value)
{
        const bool is_plain = *value != '\0' && strpbrk(value, " '\\") == NULL;

        bytes_printf(rest, "%s%s=%s", rest->length > 0 ? " " : "", keyword, is_plain ? "" : "'");
        for (const char *at = value; *at != '\0'; at++)
                bytes_printf(rest, "%s%c", *at == '\'' || *at == '\\' ? "\\" : "", *at);
        bytes_append_text(rest, is_plain ? "" : "'");
}

bool dsn_split(const char *dsn, char **out_rest, char **out_password, struct error *error)
{
        PQconninfoOption *options;
        struct bytes rest = {0};

        if (!dsn_check(dsn, error))
                return false;
        options = PQconninfoParse(dsn, NULL);
        if (options == NULL)
                out_of_memory();
        *out_password = NULL;
        bytes_append_text(&rest, "");
        for (const PQconninfoOption *option = options; option->keyword != NULL; option++) {
                if (option->val == NULL)
                        continue;
                if (strcmp(option->keyword, "password") == 0)
                        *out_password = xstrdup(option->val);
                else
                        append_option(&rest, option->keyword, option->val);
        }
        PQconninfoFree(options);
        *out_rest = rest.data;
        return true;
}

/* libpq marks what is to be hidden when it is typed. */
static char *rewrite(const char *dsn, const char *role, const char *database)
{
        PQconninfoOption *options = dsn != NULL ? PQconninfoParse(dsn, NULL) : NULL;
        struct bytes text = {0};
        bool has_database = false;

        bytes_append_text(&text, "");
        for (const PQconninfoOption *at = options; at != NULL && at->keyword != NULL; at++) {
                if (at->val == NULL || *at->dispchar == '*' ||
                    (role != NULL && strcmp(at->keyword, "user") == 0))
                        continue;
                has_database |= strcmp(at->keyword, "dbname") == 0;
                append_option(&text, at->keyword, at->val);
        }
        PQconninfoFree(options);
        if (database != NULL && !has_database)
                append_option(&text, "dbname", database);
        if (role != NULL)
                append_option(&text, "user", role);
        return text.data;
}

char *dsn_without_secrets(const char *dsn)
{
        return rewrite(dsn, NULL, NULL);
}

char *dsn_of_role(const char *dsn, const char *role, const char *database)
{
        return rewrite(dsn, role, database);
}

bool tls_host_is_local(const char *host)
{
        return host[0] == '\0' || host[0] == '/' || host[0] == '@' ||
               strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
               strcmp(host, "::1") == 0;
}

/* libpq takes several hosts, with commas between them. */
static bool all_are_local(const char *hosts)
{
        char host[256];
        const char *at = hosts;

        for (;;) {
                size_t length = strcspn(at, ",");
                if (length >= sizeof host)
                        return false;
                memcpy(host, at, length);
                host[length] = '\0';
                if (!tls_host_is_local(host))
                        return false;
                if (at[length] == '\0')
                        return true;
                at += length + 1;
        }
}

/* What the dsn says of it, else the environment; NULL: neither does. */
static const char *find(const PQconninfoOption *options, const char *keyword)
{
        for (const PQconninfoOption *option = options; option->keyword != NULL; option++)
                if (strcmp(option->keyword, keyword) == 0) {
                        if (option->val != NULL && option->val[0] != '\0')
                                return option->val;
                        return option->envvar != NULL ? getenv(option->envvar) : NULL;
                }
        return NULL;
}

static bool is_elsewhere(const PQconninfoOption *options)
{
        const char *address = find(options, "hostaddr"); /* where it connects to, if it is there */
        const char *host = find(options, "host");

        if (address != NULL)
                return !all_are_local(address);
        return host != NULL && !all_are_local(host);
}

bool dsn_names_several_hosts(const char *dsn)
{
        PQconninfoOption *options = PQconninfoParse(dsn != NULL ? dsn : "", NULL);
        const char *host, *address;
        bool are_several;

        if (options == NULL)
                return false;
        host = find(options, "host");
        address = find(options, "hostaddr");
        are_several = (host != NULL && strchr(host, ',') != NULL) ||
                      (address != NULL && strchr(address, ',') != NULL);
        PQconninfoFree(options);
        return are_several;
}

static bool has_own_root_certificate(void)
{
        const char *home = getenv("HOME");
        char path[4096];
        int length;

        if (home == NULL)
                return false;
        length = snprintf(path, sizeof path, "%s/.postgresql/root.crt", home);
        return length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0;
}

/* libpq before 16 does not know where the system keeps its authorities. */
static const char *find_system_authorities(void)
{
        static const char *const files[] = {
            "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Alpine, Arch */
            "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
            "/etc/ssl/ca-bundle.pem",             /* SUSE */
            "/etc/ssl/cert.pem",                  /* BSD, macOS */
        };

        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
                if (access(files[i], R_OK) == 0)
                        return files[i];
        return NULL;
}

struct tls_default tls_default_choose(const char *dsn)
{
        struct tls_default chosen = {NULL, NULL};
        PQconninfoOption *options = PQconninfoParse(dsn != NULL ? dsn : "", NULL);

        if (options == NULL)
                return chosen;
        /* A service file may say something of TLS, and would be overridden by what we say. */
        if (is_elsewhere(options) && find(options, "sslmode") == NULL &&
            find(options, "service") == NULL) {
                chosen.sslmode = "verify-full";
                if (find(options, "sslrootcert") == NULL && !has_own_root_certificate())
                        chosen.sslrootcert = find_system_authorities();
        }
        PQconninfoFree(options);
        return chosen;
}

void tls_default_explain(const struct tls_default *chosen, struct error *error)
{
        static const char hint[] =
            ". The dsn does not say sslmode: for a server that is not on this machine pgcourier "
            "takes verify-full. Add sslrootcert=FILE for a private authority, or another sslmode";
        size_t length = strlen(error->text);

        if (chosen->sslmode == NULL ||
            (strcasestr(error->text, "ssl") == NULL && strcasestr(error->text, "certif") == NULL))
                return;
        snprintf(error->text + length, sizeof error->text - length, "%s", hint);
}

#include "pg/tls_default.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
            "takes "
            "verify-full. Add sslrootcert=FILE for a private authority, or another sslmode";
        size_t length = strlen(error->text);

        if (chosen->sslmode == NULL ||
            (strcasestr(error->text, "ssl") == NULL && strcasestr(error->text, "certif") == NULL))
                return;
        snprintf(error->text + length, sizeof error->text - length, "%s", hint);
}

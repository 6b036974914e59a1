#include "config/redis_url.h"

#include "base/alloc.h"
#include "config/secret.h"
#include "config/units.h"
#include "config/url.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define FORMS                                                                                      \
        "redis://[user[:password]@]host[:port][/db], the same with rediss:// for TLS, or "         \
        "unix:///path/to.sock[?db=N]"

static bool parse_db(const char *text, uint32_t *out_db)
{
        uint64_t db;

        if (!units_parse_integer(text, &db) || db > INT_MAX)
                return false;
        *out_db = (uint32_t)db;
        return true;
}

static char *take_if_given(char **text)
{
        char *taken = *text;

        if (taken == NULL || *taken == '\0')
                return NULL;
        *text = NULL;
        return taken;
}

static const char *fill_tcp(struct url *url, struct redis_url *out)
{
        if (*url->host == '\0')
                return "has no host; allowed: " FORMS;
        if (url->query != NULL)
                return "has a ?query, which only unix:// knows; allowed: " FORMS;
        if (strlen(url->path) > 1 && !parse_db(url->path + 1, &out->db))
                return "has a path that is not the number of a database; allowed: " FORMS;
        out->port = url->port > 0 ? url->port : 6379;
        out->host = take_if_given(&url->host);
        out->user = take_if_given(&url->user);
        out->password = take_if_given(&url->password);
        return NULL;
}

static const char *fill_unix(struct url *url, struct redis_url *out)
{
        if (*url->host != '\0' || url->user != NULL || url->port > 0)
                return "has something between unix:// and its path; use the keys user and "
                       "password; "
                       "allowed: " FORMS;
        if (url->query != NULL &&
            (strncmp(url->query, "db=", 3) != 0 || !parse_db(url->query + 3, &out->db)))
                return "has a ?query other than db=N; allowed: " FORMS;
        if (strlen(url->path) < 2)
                return "has no path; allowed: " FORMS;
        out->socket_path = url_decode(url->path);
        if (out->socket_path == NULL)
                return "has a malformed %XX, or a control character, in its path";
        if (strlen(out->socket_path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
                return "has a path longer than a unix socket's may be (107 bytes)";
        return NULL;
}

static const char *fill(struct url *url, struct redis_url *out)
{
        if (url->has_fragment)
                return "has a #fragment; percent-encode a # as %23";
        out->is_tls = strcmp(url->scheme, "rediss") == 0;
        if (out->is_tls || strcmp(url->scheme, "redis") == 0)
                return fill_tcp(url, out);
        if (strcmp(url->scheme, "unix") == 0)
                return fill_unix(url, out);
        return "has an unknown scheme; allowed: " FORMS;
}

const char *redis_url_split(const char *text, struct redis_url *out_url)
{
        struct url url;
        const char *wrong = url_split(text, &url);

        *out_url = (struct redis_url){0};
        if (wrong != NULL)
                return wrong;
        wrong = fill(&url, out_url);
        url_deinit(&url);
        if (wrong != NULL)
                redis_url_deinit(out_url);
        return wrong;
}

const char *redis_host_split(const char *text, char **out_host, uint16_t *out_port)
{
        char *whole = xasprintf("redis://%s", text);
        struct url url;
        const char *wrong = url_split(whole, &url);

        free(whole);
        if (wrong != NULL)
                return wrong;
        if (url.user != NULL || url.path[0] != '\0' || url.query != NULL || url.has_fragment ||
            url.host[0] == '\0')
                wrong = "is not of the form host[:port]";
        else
                *out_host = xstrdup(url.host);
        *out_port = url.port;
        url_deinit(&url);
        return wrong;
}

void redis_url_deinit(struct redis_url *url)
{
        free(url->host);
        free(url->socket_path);
        secret_free(url->user);
        secret_free(url->password);
        *url = (struct redis_url){0};
}

#include "sinks/http/http_url.h"

#include "base/alloc.h"
#include "base/error.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

static bool is_ascii(const char *text)
{
        for (; *text != '\0'; text++)
                if ((unsigned char)*text > '~')
                        return false;
        return true;
}

/* libcurl's parser makes http://host/ of http:/host and of http:///host: a slip is no host. */
static bool has_host_after_slashes(const char *url)
{
        const char *slashes = strstr(url, "://");

        return slashes != NULL && slashes[3] != '/';
}

bool http_url_parse(
    const char *name, const char *url, char **out_host, char **out_port, struct error *error)
{
        CURLU *parsed = curl_url();
        CURLUcode code = has_host_after_slashes(url) ? curl_url_set(parsed, CURLUPART_URL, url, 0)
                                                     : CURLUE_NO_HOST;
        char *scheme = NULL;
        char *host = NULL;
        char *port = NULL;

        if (code == CURLUE_OK)
                code = curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0);
        if (code == CURLUE_OK)
                code = curl_url_get(parsed, CURLUPART_HOST, &host, 0);
        if (code == CURLUE_OK)
                code = curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
        curl_url_cleanup(parsed);

        /* The URL itself may hold a password and is not repeated. */
        if (code != CURLUE_OK)
                error_set(error, ERROR_CONFIG,
                    "%s is not a URL (%s): write http://host[:port]/path or https://…", name,
                    curl_url_strerror(code));
        else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
                error_set(error, ERROR_CONFIG,
                    "%s begins with %.20s:// where only http:// and https:// are allowed", name,
                    scheme);
        else if (!is_ascii(host))
                error_set(error, ERROR_CONFIG,
                    "%s names a host with letters beyond ASCII: write its xn-- form", name);
        else {
                *out_host = host;
                *out_port = port;
                curl_free(scheme);
                return true;
        }
        curl_free(scheme);
        curl_free(host);
        curl_free(port);
        return false;
}

bool http_url_has_userinfo(const char *url)
{
        CURLU *parsed = curl_url();
        char *user = NULL;
        char *password = NULL;
        bool has_userinfo =
            curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
            (curl_url_get(parsed, CURLUPART_USER, &user, 0) == CURLUE_OK ||
                curl_url_get(parsed, CURLUPART_PASSWORD, &password, 0) == CURLUE_OK);

        curl_free(user);
        curl_free(password);
        curl_url_cleanup(parsed);
        return has_userinfo;
}

char *http_url_describe(const char *url)
{
        CURLU *parsed = curl_url();
        char *text = NULL;
        char *target;

        if (parsed == NULL || curl_url_set(parsed, CURLUPART_URL, url, 0) != CURLUE_OK ||
            curl_url_set(parsed, CURLUPART_USER, NULL, 0) != CURLUE_OK ||
            curl_url_set(parsed, CURLUPART_PASSWORD, NULL, 0) != CURLUE_OK ||
            curl_url_set(parsed, CURLUPART_QUERY, NULL, 0) != CURLUE_OK ||
            curl_url_set(parsed, CURLUPART_FRAGMENT, NULL, 0) != CURLUE_OK ||
            curl_url_get(parsed, CURLUPART_URL, &text, 0) != CURLUE_OK)
                abort(); /* out of memory, as in xcalloc() */
        target = xstrdup(text);
        curl_free(text);
        curl_url_cleanup(parsed);
        return target;
}

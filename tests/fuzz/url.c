/*
 * One text as a URL of a sink, checked strictly as for the configuration and taken as for a row of
 * courier.receiver, as the URL of a Redis, and as the server of a broker. Where the first two accept it, they must find the
 * same host and port in it.
 */
#include "config/url.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/server_address.h"
#include "fuzz.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void check_same_host(const struct url *url, const char *host, const char *port)
{
        char *bracketed =
            strchr(url->host, ':') != NULL ? xasprintf("[%s]", url->host) : xstrdup(url->host);

        fuzz_require(strcmp(bracketed, host) == 0, "one URL, one host", host);
        if (url->port != 0)
                fuzz_require(strtoul(port, NULL, 10) == url->port, "one URL, one port", port);
        free(bracketed);
}

/* Behind its scheme a description does not repeat a secret; short ones may occur anywhere. */
static void check_hides(const char *description, const char *secret)
{
        const char *behind_scheme = strstr(description, "://") + 3;

        if (secret != NULL && strlen(secret) > 4)
                fuzz_require(strstr(behind_scheme, secret) == NULL || strchr(secret, '%') != NULL,
                    "a description holds no secret", description);
}

static void check_http(const char *text, const struct url *url)
{
        struct error error = {.kind = ERROR_NONE};
        char *host;
        char *port;
        char *description;

        if (!http_url_parse("http.url", text, &host, &port, &error)) {
                fuzz_require(fuzz_is_one_line(error.text, false) && error.text[0] != '\0',
                    "an error is one line", error.text);
                return;
        }
        fuzz_require(*host != '\0' && host[strcspn(host, " /\\@?#\r\n\t")] == '\0',
            "a host ends where a host ends", host);
        fuzz_require(strtoul(port, NULL, 10) <= 65535, "a port is one", port);
        description = http_url_describe(text);
        fuzz_require(strchr(description, '?') == NULL && strchr(description, '#') == NULL,
            "a description has no query", description);
        if (url != NULL) {
                check_same_host(url, host, port);
                fuzz_require(http_url_has_userinfo(text) || url->user == NULL ||
                                 (*url->user == '\0' && url->password == NULL),
                    "a name before the host is seen", text);
                if (url->rest != NULL && url->host != NULL && url->password != NULL &&
                    strstr(url->rest, url->password) == NULL &&
                    strstr(url->host, url->password) == NULL)
                        check_hides(description, url->password);
        }
        free(description);
        curl_free(host);
        curl_free(port);
}

static void check_redis(const char *text)
{
        struct redis_url url;
        const char *problem = redis_url_split(text, &url);

        if (problem != NULL) {
                fuzz_require(fuzz_is_one_line(problem, false), "a problem is one line", problem);
                return;
        }
        fuzz_require((url.host == NULL) != (url.socket_path == NULL), "a host or a socket", text);
        fuzz_require(url.host == NULL || url.port > 0, "a host has a port", text);
        fuzz_require(url.socket_path == NULL ||
                         (url.socket_path[0] == '/' && strlen(url.socket_path) <= 107),
            "a socket's path fits", text);
        fuzz_require(fuzz_is_one_line(url.user != NULL ? url.user : "", false) &&
                         fuzz_is_one_line(url.password != NULL ? url.password : "", false),
            "no control characters in what Redis is told", text);
        redis_url_deinit(&url);
}

static void check_server(enum server_protocol protocol, const char *text)
{
        struct server_address address;
        const char *problem = server_address_split(protocol, text, false, &address);

        if (problem != NULL) {
                fuzz_require(fuzz_is_one_line(problem, false), "a problem is one line", problem);
                fuzz_require(address.host == NULL, "no host with a problem", text);
                return;
        }
        fuzz_require(address.port > 0 && *address.host != '\0' &&
                         address.host[strcspn(address.host, " /\\@?#[]\r\n\t")] == '\0',
            "a server is a host and a port", text);
        fuzz_require(strchr(text, '@') == NULL, "a server has no user", text);
        server_address_deinit(&address);
}

static void check_parts(const struct url *url, const char *text)
{
        fuzz_require(url->scheme != NULL && url->host != NULL && url->rest != NULL, "parts", text);
        fuzz_require(fuzz_is_one_line(url->host, false) && strlen(url->host) <= 253, "host", text);
        fuzz_require(*url->rest == '\0' || strchr("/?#", *url->rest) != NULL, "a host ends", text);
        fuzz_require(url->user != NULL || url->password == NULL, "no password without user", text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        char *text = fuzz_take_text(&input);
        struct url url;
        const char *problem = url_split(text, &url);
        char *decoded = url_decode(text);

        if (decoded != NULL)
                fuzz_require(fuzz_is_one_line(decoded, false) && strlen(decoded) <= strlen(text),
                    "decoding adds nothing", decoded);
        free(decoded);
        if (problem == NULL)
                check_parts(&url, text);
        else
                fuzz_require(fuzz_is_one_line(problem, false), "a problem is one line", problem);
        check_http(text, problem == NULL ? &url : NULL);
        check_redis(text);
        check_server(SERVER_NATS, text);
        check_server(SERVER_AMQP, text);
        check_server(SERVER_KAFKA, text);
        if (problem == NULL)
                url_deinit(&url);
        free(text);
        return 0;
}

/*
 * A URL of courier.receiver. If a target is made of it and its host is an address, libcurl is asked
 * as well where it leads: a request is begun with sockets that never connect. What we and what
 * libcurl would connect to must be the same, and public or be refused, however the address is
 * written: 0x7f.1, 2130706433, [::ffff:7f00:1], 127.0.0.1%2f, 017700000001.
 *
 * Names are not looked up: every host is pinned to nothing but itself.
 */
#include "sinks/http/http_target.h"

#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "config/url.h"
#include "fuzz.h"
#include "loop/connector.h"
#include "public_address.h"
#include "sinks/address_guard.h"

#include <curl/curl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the request to `url` was about to connect to. */
struct seen {
        const struct address_guard *guard;
        const char *url;
        const struct http_host *host;
};

static bool is_same(const struct sockaddr *a, const struct socket_address *b)
{
        if (a->sa_family != b->data.ss_family)
                return false;
        return a->sa_family == AF_INET
                   ? memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
                         &((const struct sockaddr_in *)(const void *)&b->data)->sin_addr,
                         sizeof(struct in_addr)) == 0
                   : memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                         &((const struct sockaddr_in6 *)(const void *)&b->data)->sin6_addr,
                         sizeof(struct in6_addr)) == 0;
}

static void check_same(const struct seen *seen, const struct sockaddr *address)
{
        unsigned n;
        const struct socket_address *ours = http_host_addresses(seen->host, &n);

        for (unsigned i = 0; i < n; i++)
                if (is_same(address, &ours[i]))
                        return;
        fuzz_require(n == 0, "libcurl and we read the same address", seen->url);
}

static curl_socket_t on_open_socket(
    void *owner, curlsocktype purpose, struct curl_sockaddr *address)
{
        struct seen *seen = owner;
        char words[200];

        (void)purpose;
        check_same(seen, &address->addr);
        if (address_guard_permits(seen->guard, &address->addr, words, sizeof words)) {
                fuzz_require(is_public_address(&address->addr),
                    "no url of the table leads to an address that is not public", seen->url);
        } else {
                fuzz_require(fuzz_is_one_line(words, false), "a refusal is one line", words);
        }
        return CURL_SOCKET_BAD;
}

static bool is_name(const char *host)
{
        const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
        size_t length = strlen(host);
        char *bare = xstrndup(host + (host[0] == '['), length - 2 * (host[0] == '['));
        struct addrinfo *found = NULL;
        bool is_known = getaddrinfo(bare, NULL, &hints, &found) == 0;

        if (is_known)
                freeaddrinfo(found);
        /* Nor does libcurl look this one up. */
        is_known |= strcasecmp(bare, "localhost") == 0;
        free(bare);
        return !is_known;
}

static void connect_to(
    const struct address_guard *guard, const char *url, const struct http_host *host)
{
        struct seen seen = {.guard = guard, .url = url, .host = host};
        CURL *easy = curl_easy_init();

        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &seen);
        curl_easy_perform(easy);
        curl_easy_cleanup(easy);
}

static void on_settled(void *owner, const char *failure)
{
        (void)owner;
        (void)failure;
        abort(); /* nothing is looked up */
}

static void check(
    const char *url, const struct address_guard *guard, const struct http_config *config)
{
        const struct target_settings settings = {.name = "one", .url = url};
        struct sink sink = {.name = "hooks"};
        struct error error = {.kind = ERROR_NONE};
        struct http_target *target =
            http_target_create(&sink, config, &settings, guard, on_settled, &error);
        char *host;
        char *port;

        if (target == NULL) {
                fuzz_require(error.kind == ERROR_CONFIG && error.text[0] != '\0' &&
                                 fuzz_is_one_line(error.text, false),
                    "an error is one line", error.text);
                return;
        }
        fuzz_require(fuzz_is_one_line(target->description, false), "a description is one line",
            target->description);
        fuzz_require(http_url_parse("url", url, &host, &port, &error), "it is a URL", url);
        fuzz_require(strcmp(port, "80") == 0 || strcmp(port, "443") == 0, "a usual port", url);
        fuzz_require(!http_url_has_userinfo(url), "without a name or password", url);
        fuzz_require(strncasecmp(url, "https:", 6) == 0 || !config->https_only, "https only", url);
        /* A name would be looked up; the relay does that itself, and pins what is permitted. */
        if (!is_name(host))
                connect_to(guard, url, target->host);
        curl_free(host);
        curl_free(port);
        http_target_destroy(target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        bool https_only = fuzz_take_byte(&input) == 's';
        const struct http_config config = {.receivers = HTTP_RECEIVERS_TABLE,
            .signing = HTTP_SIGNING_NONE,
            .block_metadata = true,
            .https_only = https_only,
            .connect_timeout_ms = 1000};
        struct address_guard *guard = address_guard_create(&config, URL_OF_TABLE);
        char *url = fuzz_take_text(&input);

        check(url, guard, &config);
        free(url);
        address_guard_destroy(guard);
        return 0;
}

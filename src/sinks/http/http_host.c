/*
 * LITERAL                                     the URL names an address: nothing to look up
 * UNKNOWN -use-> ASKING -found-> KNOWN        failure: back to UNKNOWN, users are told
 * KNOWN -use, when old or expired-> REFRESHING -found or failed-> KNOWN
 *
 * While refreshing, the old addresses serve: only a first look-up makes requests
 * wait, and only as long as a connection might take.
 *
 * Of the addresses found, those that the guard permits are kept. If it permits
 * none, all are: it will refuse them again when they are connected to, and then
 * the attempt's outcome says why.
 */
#include "sinks/http/http_host.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "loop/connector.h"
#include "loop/resolve.h"
#include "sinks/address_guard.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES_MAX_AGE_MS 60000
#define ADDRESSES_MAX        8

enum host_state { HOST_LITERAL, HOST_UNKNOWN, HOST_ASKING, HOST_KNOWN, HOST_REFRESHING };

struct http_host {
        enum host_state state;
        uv_loop_t *loop; /* borrowed */
        char *name;
        char *port;
        int64_t timeout_ms;
        const struct address_guard *guard; /* borrowed */
        http_host_settled_fn *on_settled;
        void *owner; /* borrowed */

        struct socket_address *addresses; /* owned; ADDRESSES_MAX */
        unsigned n_addresses;
        uint64_t known_since_ms;
        bool is_expired;
        struct resolve *lookup; /* in ASKING and REFRESHING */
};

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure);

/* The only place that assigns host->state. */
static void enter(struct http_host *host, enum host_state next)
{
        host->state = next;

        switch (next) {
        case HOST_ASKING:
        case HOST_REFRESHING:
                host->lookup = resolve_start(
                    host->loop, host->name, host->port, host->timeout_ms, on_resolved, host);
                break;
        case HOST_KNOWN:
                host->known_since_ms = uv_now(host->loop);
                host->is_expired = false;
                break;
        case HOST_UNKNOWN:
        case HOST_LITERAL:
                break;
        }
}

static bool is_permitted(const struct http_host *host, const struct addrinfo *address)
{
        char refusal[200];

        return address_guard_permits(host->guard, address->ai_addr, refusal, sizeof refusal);
}

static void keep_addresses(struct http_host *host, const struct addrinfo *addresses)
{
        bool has_permitted = false;

        for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next)
                has_permitted |= is_permitted(host, at);
        if (host->addresses == NULL)
                host->addresses = xcalloc(ADDRESSES_MAX, sizeof *host->addresses);
        host->n_addresses = 0;
        for (const struct addrinfo *at = addresses; at != NULL && host->n_addresses < ADDRESSES_MAX;
             at = at->ai_next) {
                struct socket_address *kept = &host->addresses[host->n_addresses];

                if (has_permitted && !is_permitted(host, at))
                        continue;
                memcpy(&kept->data, at->ai_addr, at->ai_addrlen);
                kept->length = at->ai_addrlen;
                host->n_addresses++;
        }
}

static void on_resolved(void *owner, const struct addrinfo *addresses, const char *failure)
{
        struct http_host *host = owner;
        bool was_first = host->state == HOST_ASKING;

        host->lookup = NULL;
        if (addresses != NULL)
                keep_addresses(host, addresses);
        /* A failed refresh keeps what is known: if that is wrong, connecting will say so. */
        enter(host, addresses != NULL || !was_first ? HOST_KNOWN : HOST_UNKNOWN);
        if (was_first)
                host->on_settled(host->owner, failure);
}

/* False: it is a name. */
static bool keep_literal(struct http_host *host)
{
        const struct addrinfo hints = {
            .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
        bool is_bracketed = host->name[0] == '[';
        char *text = xstrndup(host->name + is_bracketed, strcspn(host->name + is_bracketed, "]"));
        struct in_addr address;
        struct addrinfo *found = NULL;

        /* Not what getaddrinfo() takes for an IPv4 address as well: 127.1 and 0x7f000001. libcurl's
         * parser has made dotted ones of those. */
        if ((is_bracketed || inet_pton(AF_INET, text, &address) == 1) &&
            getaddrinfo(text, host->port, &hints, &found) == 0)
                keep_addresses(host, found);
        if (found != NULL)
                freeaddrinfo(found);
        free(text);
        return host->n_addresses > 0 || is_bracketed;
}

struct http_host *http_host_create(uv_loop_t *loop, const char *name, const char *port,
    int64_t timeout_ms, const struct address_guard *guard, http_host_settled_fn *on_settled,
    void *owner)
{
        struct http_host *host = xcalloc(1, sizeof *host);

        host->loop = loop;
        host->name = xstrdup(name);
        host->port = xstrdup(port);
        host->timeout_ms = timeout_ms;
        host->guard = guard;
        host->on_settled = on_settled;
        host->owner = owner;
        enter(host, keep_literal(host) ? HOST_LITERAL : HOST_UNKNOWN);
        return host;
}

void http_host_destroy(struct http_host *host)
{
        if (host == NULL)
                return;
        resolve_cancel(host->lookup);
        free(host->addresses);
        free(host->name);
        free(host->port);
        free(host);
}

bool http_host_is_ready(struct http_host *host)
{
        switch (host->state) {
        case HOST_LITERAL:
        case HOST_REFRESHING:
                return true;
        case HOST_KNOWN:
                if (host->is_expired ||
                    uv_now(host->loop) - host->known_since_ms > ADDRESSES_MAX_AGE_MS)
                        enter(host, HOST_REFRESHING);
                return true;
        case HOST_UNKNOWN:
                enter(host, HOST_ASKING);
                break;
        case HOST_ASKING:
                break;
        }
        return false;
}

void http_host_expire(struct http_host *host)
{
        host->is_expired = true;
}

const struct socket_address *http_host_addresses(const struct http_host *host, unsigned *out_n)
{
        *out_n = host->n_addresses;
        return host->addresses;
}

static void append_address(struct bytes *out, const struct socket_address *address, bool is_first)
{
        char text[NI_MAXHOST];

        if (getnameinfo((const struct sockaddr *)&address->data, address->length, text, sizeof text,
                NULL, 0, NI_NUMERICHOST) == 0)
                bytes_printf(out, address->data.ss_family == AF_INET6 ? "%s[%s]" : "%s%s",
                    is_first ? "" : ",", text);
}

struct curl_slist *http_host_pin(const struct http_host *host)
{
        struct bytes entry = {0};
        struct curl_slist *pin;

        if (host->state == HOST_LITERAL)
                return NULL;
        bytes_printf(&entry, "%s:%s:", host->name, host->port);
        for (unsigned i = 0; i < host->n_addresses; i++)
                append_address(&entry, &host->addresses[i], i == 0);
        pin = curl_slist_append(NULL, entry.data);
        if (pin == NULL)
                out_of_memory();
        bytes_deinit(&entry);
        return pin;
}

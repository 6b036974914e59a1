/*
 * A look-up: ASKING -answer-> ANSWERED -next turn-> told, gone
 *            ASKING -deadline, cancelled-> UNHEARD -c-ares lets go of it-> gone
 *
 * c-ares 1.18 cannot end one question, only all of a channel. So each loop has
 * a channel for as long as an answer is waited for: when the last look-up is
 * served, the channel goes, and with it the questions that were given up. Names
 * asked for later get a new one, which reads resolv.conf anew; that is also why
 * a channel that is kept busy takes no new questions after a while.
 *
 * No callback comes from inside c-ares: each look-up's own timer makes it.
 */
#include "loop/resolve.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/list.h"
#include "loop/socket_watch.h"
#include "loop/timer.h"

#include <ares.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A question is sent at 0, 1, 3 and 7 seconds, to the name servers in turn. */
#define FIRST_TIMEOUT_MS 1000
#define N_TRIES          4
#define CHANNEL_TAKES_MS 10000

/* A channel on the loop, with its sockets and its clock, and how many wait for it. */
struct resolver {
        struct list link; /* in `resolvers` */
        uv_loop_t *loop;  /* borrowed */
        uint64_t created_ms;
        unsigned n_asking;
        ares_channel channel;
        struct timer *timer;
        struct list sockets; /* watched_socket::link */
};

/* One socket of c-ares's, for as long as c-ares wants to hear of it. */
struct watched_socket {
        struct list link;
        struct resolver *resolver;
        ares_socket_t socket;
        struct socket_watch *watch;
        int events;
};

enum resolve_state { RESOLVE_ASKING, RESOLVE_ANSWERED, RESOLVE_UNHEARD };

struct resolve {
        enum resolve_state state;
        struct resolver *resolver; /* borrowed; in ASKING */
        struct timer *timer;       /* the deadline in ASKING, the turn to tell in ANSWERED */
        int64_t timeout_ms;
        int status;                   /* once ANSWERED, of c-ares */
        struct ares_addrinfo *result; /* owned; NULL: none */
        resolved_fn *on_resolved;
        void *owner; /* borrowed */
};

static struct list resolvers = {&resolvers, &resolvers};
static char *use_servers; /* as c-ares has it; NULL: the system's */

static void free_resolve(struct resolve *resolve)
{
        timer_destroy(resolve->timer);
        if (resolve->result != NULL)
                ares_freeaddrinfo(resolve->result);
        free(resolve);
}

/* The only place that assigns resolve->state after its creation. */
static void leave_asking(struct resolve *resolve, enum resolve_state next)
{
        assert(resolve->state == RESOLVE_ASKING && next != RESOLVE_ASKING);
        resolve->state = next;
        if (resolve->resolver != NULL)
                resolve->resolver->n_asking--;
        resolve->resolver = NULL;
        if (next == RESOLVE_ANSWERED)
                timer_arm(resolve->timer, 0);
        else
                timer_disarm(resolve->timer);
}

/* Not from inside c-ares. */
static void end_if_idle(struct resolver *resolver)
{
        if (resolver->n_asking > 0)
                return;
        list_remove(&resolver->link);
        ares_destroy(resolver->channel); /* frees what is UNHEARD, and calls on_socket_wanted() */
        timer_destroy(resolver->timer);
        free(resolver);
}

static void rearm(struct resolver *resolver)
{
        struct timeval left;

        if (ares_timeout(resolver->channel, NULL, &left) == NULL)
                timer_disarm(resolver->timer);
        else /* rounded up: a moment too early finds nothing to do and comes again at once */
                timer_arm(resolver->timer,
                    (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1);
}

static void work(struct resolver *resolver, ares_socket_t readable, ares_socket_t writable)
{
        ares_process_fd(resolver->channel, readable, writable);
        rearm(resolver);
        end_if_idle(resolver);
}

static void on_time_due(void *owner)
{
        work(owner, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

static void on_socket_ready(void *owner, int events)
{
        struct watched_socket *watched = owner;
        ares_socket_t socket = watched->socket;
        ares_socket_t readable = ARES_SOCKET_BAD;
        ares_socket_t writable = ARES_SOCKET_BAD;

        if (events & SOCKET_FAILED) /* the watch rests now; c-ares finds the error by reading */
                socket_watch_set(watched->watch, watched->events);
        if (events & (SOCKET_READABLE | SOCKET_FAILED))
                readable = socket;
        if (events & SOCKET_WRITABLE)
                writable = socket;
        work(watched->resolver, readable, writable);
}

static struct watched_socket *find_watched(struct resolver *resolver, ares_socket_t socket)
{
        list_for_each (link, &resolver->sockets) {
                struct watched_socket *watched = list_owner(link, struct watched_socket, link);
                if (watched->socket == socket)
                        return watched;
        }
        return NULL;
}

static struct watched_socket *watch_socket(struct resolver *resolver, ares_socket_t socket)
{
        struct watched_socket *watched = xcalloc(1, sizeof *watched);

        watched->resolver = resolver;
        watched->socket = socket;
        watched->watch = socket_watch_create(resolver->loop, socket, on_socket_ready, watched);
        if (watched->watch == NULL) { /* the question ends by its timeout, others live */
                free(watched);
                return NULL;
        }
        list_init(&watched->link);
        list_push_back(&resolver->sockets, &watched->link);
        return watched;
}

/* Comes with neither of the two before c-ares closes the socket. */
static void on_socket_wanted(void *owner, ares_socket_t socket, int readable, int writable)
{
        struct resolver *resolver = owner;
        struct watched_socket *watched = find_watched(resolver, socket);

        if (!readable && !writable) {
                if (watched == NULL)
                        return;
                list_remove(&watched->link);
                socket_watch_destroy(watched->watch);
                free(watched);
                return;
        }
        if (watched == NULL)
                watched = watch_socket(resolver, socket);
        if (watched != NULL) {
                watched->events =
                    (readable ? SOCKET_READABLE : 0) | (writable ? SOCKET_WRITABLE : 0);
                socket_watch_set(watched->watch, watched->events);
        }
}

static void on_answer(void *argument, int status, int n_timeouts, struct ares_addrinfo *result)
{
        struct resolve *resolve = argument;

        (void)n_timeouts;
        resolve->status = status;
        resolve->result = result;
        if (resolve->state == RESOLVE_UNHEARD)
                free_resolve(resolve);
        else
                leave_asking(resolve, RESOLVE_ANSWERED);
}

/* c-ares has a type of its own for what <netdb.h> calls addrinfo. NULL: no address. To be freed. */
static struct addrinfo *copy_addresses(const struct ares_addrinfo *result)
{
        struct addrinfo *addresses;
        size_t n = 0;

        if (result == NULL || result->nodes == NULL)
                return NULL;
        for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next)
                n++;
        addresses = xcalloc(n, sizeof *addresses);
        n = 0;
        for (const struct ares_addrinfo_node *node = result->nodes; node; node = node->ai_next) {
                addresses[n] = (struct addrinfo){.ai_family = node->ai_family,
                    .ai_socktype = SOCK_STREAM,
                    .ai_addrlen = (socklen_t)node->ai_addrlen,
                    .ai_addr = node->ai_addr};
                if (n > 0)
                        addresses[n - 1].ai_next = &addresses[n];
                n++;
        }
        return addresses;
}

static void tell_answer(struct resolve *resolve)
{
        struct addrinfo *addresses = copy_addresses(resolve->result);
        const char *failure =
            resolve->status != ARES_SUCCESS ? ares_strerror(resolve->status) : "it has no address";

        resolve->on_resolved(resolve->owner, addresses, addresses == NULL ? failure : NULL);
        free(addresses);
        free_resolve(resolve);
}

static void tell_too_late(struct resolve *resolve)
{
        struct resolver *resolver = resolve->resolver;
        resolved_fn *on_resolved = resolve->on_resolved;
        void *owner = resolve->owner;
        char failure[80];

        snprintf(failure, sizeof failure,
            "the name servers did not answer in time (%" PRId64 " ms)", resolve->timeout_ms);
        leave_asking(resolve, RESOLVE_UNHEARD);
        end_if_idle(resolver);
        on_resolved(owner, NULL, failure);
}

static void on_due(void *owner)
{
        struct resolve *resolve = owner;

        if (resolve->state == RESOLVE_ANSWERED)
                tell_answer(resolve);
        else
                tell_too_late(resolve);
}

static struct resolver *find_resolver(uv_loop_t *loop)
{
        list_for_each (link, &resolvers) {
                struct resolver *resolver = list_owner(link, struct resolver, link);
                if (resolver->loop == loop &&
                    uv_now(loop) - resolver->created_ms < CHANNEL_TAKES_MS)
                        return resolver;
        }
        return NULL;
}

/* NULL if c-ares fails. */
static struct resolver *create_resolver(uv_loop_t *loop, int *out_status)
{
        struct resolver *resolver = xcalloc(1, sizeof *resolver);
        struct ares_options options = {.timeout = FIRST_TIMEOUT_MS,
            .tries = N_TRIES,
            .sock_state_cb = on_socket_wanted,
            .sock_state_cb_data = resolver};

        list_init(&resolver->sockets);
        resolver->loop = loop;
        *out_status = ares_init_options(&resolver->channel, &options,
            ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
        if (*out_status != ARES_SUCCESS) {
                free(resolver);
                return NULL;
        }
        if (use_servers != NULL)
                *out_status = ares_set_servers_ports_csv(resolver->channel, use_servers);
        if (*out_status != ARES_SUCCESS) {
                ares_destroy(resolver->channel);
                free(resolver);
                return NULL;
        }
        resolver->timer = timer_create_on(loop, on_time_due, resolver);
        resolver->created_ms = uv_now(loop);
        list_init(&resolver->link);
        list_push_back(&resolvers, &resolver->link);
        return resolver;
}

/* on_answer() comes exactly once, perhaps inside the call. */
static void ask(
    struct resolver *resolver, const char *host, const char *service, struct resolve *resolve)
{
        struct in_addr literal;
        /* Asked for both families, c-ares 1.18 takes an IPv4 literal for a name. */
        bool is_ipv4 = ares_inet_pton(AF_INET, host, &literal) == 1;
        const struct ares_addrinfo_hints hints = {.ai_flags = ARES_AI_NUMERICSERV,
            .ai_family = is_ipv4 ? AF_INET : AF_UNSPEC,
            .ai_socktype = SOCK_STREAM};

        ares_getaddrinfo(resolver->channel, host, service, &hints, on_answer, resolve);
        rearm(resolver);
}

static bool is_bare_ipv6(const char *server)
{
        const char *colon = strchr(server, ':');

        return server[0] != '[' && colon != NULL && strchr(colon + 1, ':') != NULL;
}

void resolve_use_servers(const char *const *servers, size_t n_servers)
{
        struct bytes list = {0};

        for (size_t i = 0; i < n_servers; i++)
                bytes_printf(&list, is_bare_ipv6(servers[i]) ? "%s[%s]" : "%s%s", i > 0 ? "," : "",
                    servers[i]);
        free(use_servers);
        use_servers = list.data;
}

struct resolve *resolve_start(uv_loop_t *loop, const char *host, const char *service,
    int64_t timeout_ms, resolved_fn *on_resolved, void *owner)
{
        struct resolve *resolve = xcalloc(1, sizeof *resolve);
        struct resolver *resolver = find_resolver(loop);

        resolve->state = RESOLVE_ASKING;
        resolve->timer = timer_create_on(loop, on_due, resolve);
        resolve->timeout_ms = timeout_ms;
        resolve->on_resolved = on_resolved;
        resolve->owner = owner;
        if (resolver == NULL)
                resolver = create_resolver(loop, &resolve->status);
        if (resolver == NULL) {
                leave_asking(resolve, RESOLVE_ANSWERED);
                return resolve;
        }
        resolve->resolver = resolver;
        resolver->n_asking++;
        timer_arm(resolve->timer, (uint64_t)timeout_ms);
        ask(resolver, host, service, resolve);
        end_if_idle(resolver);
        return resolve;
}

void resolve_cancel(struct resolve *resolve)
{
        struct resolver *resolver;

        if (resolve == NULL)
                return;
        if (resolve->state == RESOLVE_ANSWERED) {
                free_resolve(resolve);
                return;
        }
        resolver = resolve->resolver;
        leave_asking(resolve, RESOLVE_UNHEARD);
        end_if_idle(resolver);
}

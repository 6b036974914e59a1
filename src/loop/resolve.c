/*
 * A look-up: ASKING -answer-> ANSWERED -next turn-> told, gone
 *            ASKING -deadline, cancelled-> UNHEARD -c-ares lets go of it-> gone
 *
 * c-ares 1.18 cannot end one question, only all of a channel. So each loop has
 * a channel for as long as somebody waits for an answer: when the last of them
 * is served, it goes, and with it whatever nobody waits for any more. Names
 * asked for later get a new one, which reads resolv.conf anew; that is also why
 * a channel that is kept busy takes no new questions after a while.
 *
 * Nobody is told from inside c-ares: each look-up's own timer does it.
 */
#include "loop/resolve.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/list.h"
#include "loop/ares_driver.h"
#include "loop/timer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL_TAKES_MS 10000

/* A channel and who waits for it. */
struct resolver {
        struct list link; /* in `resolvers` */
        uv_loop_t *loop;  /* borrowed */
        uint64_t created_ms;
        struct ares_driver *driver;
        unsigned n_asking;
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
        ares_driver_destroy(resolver->driver); /* frees what is UNHEARD */
        free(resolver);
}

static void on_worked(void *owner)
{
        end_if_idle(owner);
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

        resolver->driver = ares_driver_create(loop, use_servers, on_worked, resolver, out_status);
        if (resolver->driver == NULL) {
                free(resolver);
                return NULL;
        }
        resolver->loop = loop;
        resolver->created_ms = uv_now(loop);
        list_init(&resolver->link);
        list_push_back(&resolvers, &resolver->link);
        return resolver;
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
        ares_driver_ask(resolver->driver, host, service, on_answer, resolve);
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

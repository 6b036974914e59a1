/*
 * The map is read from any node that answers (CLUSTER SLOTS), when there is none yet and when it
 * may be out of date; until then queues wait. MOVED corrects it by one slot. ASK does not touch it:
 * it holds for one burst of one stream, which the node that is receiving the slot takes behind
 * ASKING.
 *
 * A queue for each stream rather than for each slot is what makes ASK simple: while a slot moves,
 * its streams move one by one, and a burst that held two of them could belong to neither node.
 */
#include "sinks/redis/redis_cluster.h"

#include "base/alloc.h"
#include "config/config.h"
#include "sinks/redis/redis_discovery.h"
#include "sinks/redis/redis_internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_PORT = 6379 };

struct redis_cluster {
        struct redis_sink *sink;
        struct redis_endpoints seeds;
        struct redis_discovery *discovery;
        bool is_known; /* the map, as far as we know */
        struct redis_node **nodes;
        size_t n_nodes;
        struct redis_node *map[REDIS_SLOTS];     /* NULL: no node has it */
        struct redis_queue *queues[REDIS_SLOTS]; /* of the streams in the slot */
        struct list all;                         /* all queues */
        struct list waiting;                     /* those that wait for the map */
};

static struct redis_node *find_node(struct redis_cluster *cluster, const char *host, uint16_t port)
{
        struct redis_endpoint endpoint = {.port = port};

        for (size_t i = 0; i < cluster->n_nodes; i++) {
                struct redis_node *node = cluster->nodes[i];
                if (node->endpoint.port == port && strcmp(node->endpoint.host, host) == 0)
                        return node;
        }
        cluster->nodes =
            xrealloc(cluster->nodes, (cluster->n_nodes + 1) * sizeof(struct redis_node *));
        endpoint.host = xstrdup(host);
        cluster->nodes[cluster->n_nodes] = redis_node_create(cluster->sink, &endpoint);
        free(endpoint.host);
        return cluster->nodes[cluster->n_nodes++];
}

/* [first, last, [host, port, ...], replica...]. The host is "" or nil for the one that was
 * asked, and "?" if the node does not know its own name. */
static bool read_range(struct redis_cluster *cluster, const redisReply *range, const char *asked)
{
        const redisReply *master;
        const char *host;

        if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
            range->element[0]->type != REDIS_REPLY_INTEGER ||
            range->element[1]->type != REDIS_REPLY_INTEGER)
                return false;
        master = range->element[2];
        if (master->type != REDIS_REPLY_ARRAY || master->elements < 2 ||
            master->element[1]->type != REDIS_REPLY_INTEGER || master->element[1]->integer < 1 ||
            master->element[1]->integer > UINT16_MAX || range->element[0]->integer < 0 ||
            range->element[1]->integer >= REDIS_SLOTS)
                return false;
        host = master->element[0]->str;
        if (host == NULL || host[0] == '\0' || strcmp(host, "?") == 0)
                host = asked;
        for (long long slot = range->element[0]->integer; slot <= range->element[1]->integer;
             slot++)
                cluster->map[slot] =
                    find_node(cluster, host, (uint16_t)master->element[1]->integer);
        return true;
}

static bool has_slots(const struct redis_cluster *cluster, const struct redis_node *node)
{
        for (size_t slot = 0; slot < REDIS_SLOTS; slot++)
                if (cluster->map[slot] == node)
                        return true;
        return false;
}

/* Connections to nodes that have gone are not kept. */
static void leave_the_rest(struct redis_cluster *cluster)
{
        for (size_t i = 0; i < cluster->n_nodes; i++)
                if (!has_slots(cluster, cluster->nodes[i]))
                        redis_node_leave(cluster->nodes[i]);
}

/* The nodes that are known come after the seeds: those may have gone since. */
static void read_map(struct redis_cluster *cluster)
{
        struct redis_endpoints endpoints = {0};

        for (size_t i = 0; i < cluster->seeds.n; i++)
                redis_endpoints_add(
                    &endpoints, cluster->seeds.items[i].host, cluster->seeds.items[i].port);
        for (size_t i = 0; i < cluster->n_nodes; i++)
                redis_endpoints_add(
                    &endpoints, cluster->nodes[i]->endpoint.host, cluster->nodes[i]->endpoint.port);
        redis_discovery_start(cluster->discovery, endpoints.items, endpoints.n, 0);
        redis_endpoints_deinit(&endpoints);
}

/* Leads the queue to the node that has its slot, once that is known. */
static void route(struct redis_cluster *cluster, struct redis_queue *queue)
{
        struct redis_node *node = queue->asked != NULL ? queue->asked : cluster->map[queue->slot];

        if (queue->asked == NULL && !cluster->is_known) {
                list_push_back(&cluster->waiting, &queue->link);
                if (!redis_discovery_is_running(cluster->discovery))
                        read_map(cluster);
                return;
        }
        if (node == NULL) {
                const struct outcome down = outcome_make(
                    OUTCOME_SINK_DOWN, "no node of the cluster has slot %u", queue->slot);
                cluster->is_known = false;
                redis_queue_give_back(queue, &down);
                return;
        }
        redis_node_serve(node, queue);
}

static void route_waiting(struct redis_cluster *cluster)
{
        struct list waiting;

        /* Those whose slot no node has must not come round again. */
        list_init(&waiting);
        while (!list_is_empty(&cluster->waiting)) {
                struct list *first = cluster->waiting.next;
                list_remove(first);
                list_push_back(&waiting, first);
        }
        while (!list_is_empty(&waiting)) {
                struct redis_queue *queue = list_owner(waiting.next, struct redis_queue, link);
                list_remove(&queue->link);
                route(cluster, queue);
        }
}

static bool on_answer(void *owner, const redisReply *reply, const struct redis_endpoint *asked,
    char *refusal, size_t size)
{
        struct redis_cluster *cluster = owner;
        bool is_read = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;

        if (reply->type == REDIS_REPLY_ERROR) {
                snprintf(refusal, size, "refused CLUSTER SLOTS: %s", reply->str);
                return false;
        }
        memset(cluster->map, 0, sizeof cluster->map);
        for (size_t i = 0; is_read && i < reply->elements; i++)
                is_read = read_range(cluster, reply->element[i], asked->host);
        if (!is_read) {
                snprintf(refusal, size, "knows of no node with slots");
                return false;
        }
        cluster->is_known = true;
        leave_the_rest(cluster);
        route_waiting(cluster);
        return true;
}

static void on_failed(void *owner, bool needs_operator, const char *reason)
{
        struct redis_cluster *cluster = owner;
        char text[640];

        snprintf(text, sizeof text, "no node of the cluster could be asked: %s", reason);
        while (!list_is_empty(&cluster->waiting))
                redis_queue_lose(list_owner(cluster->waiting.next, struct redis_queue, link),
                    OUTCOME_FAULT_REFUSED, needs_operator, text);
}

struct redis_cluster *redis_cluster_create(struct redis_sink *sink, struct error *error)
{
        static const struct redis_discovery_events events = {
            .on_answer = on_answer, .on_failed = on_failed};
        const struct redis_session session = {
            .config = sink->config, .tls = sink->tls, .peer = REDIS_PEER_DIRECTORY};
        struct redis_cluster *cluster = xcalloc(1, sizeof *cluster);

        list_init(&cluster->all);
        list_init(&cluster->waiting);
        cluster->sink = sink;
        if (!redis_endpoints_read(&cluster->seeds, sink->config->cluster, sink->config->n_cluster,
                CLUSTER_PORT, error)) {
                redis_cluster_destroy(cluster);
                return NULL;
        }
        cluster->discovery = redis_discovery_create(
            sink->base.loop, &session, "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n", &events, cluster);
        return cluster;
}

void redis_cluster_destroy(struct redis_cluster *cluster)
{
        if (cluster == NULL)
                return;
        redis_discovery_destroy(cluster->discovery);
        while (!list_is_empty(&cluster->all)) /* they may be in lists of the nodes */
                redis_queue_destroy(list_owner(cluster->all.next, struct redis_queue, all_link));
        for (size_t i = 0; i < cluster->n_nodes; i++)
                redis_node_destroy(cluster->nodes[i]);
        free(cluster->nodes);
        redis_endpoints_deinit(&cluster->seeds);
        free(cluster);
}

struct redis_queue *redis_cluster_queue(
    struct redis_cluster *cluster, const char *stream, size_t length)
{
        unsigned slot = redis_slot_of(stream, length);
        struct redis_queue *queue = cluster->queues[slot];

        for (; queue != NULL; queue = queue->next)
                if (queue->stream.length == length &&
                    memcmp(queue->stream.data, stream, length) == 0)
                        return queue;
        queue = redis_queue_create(cluster->sink);
        bytes_append(&queue->stream, stream, length);
        queue->slot = slot;
        queue->next = cluster->queues[slot];
        cluster->queues[slot] = queue;
        list_push_back(&cluster->all, &queue->all_link);
        return queue;
}

static void forget_queue(struct redis_cluster *cluster, struct redis_queue *queue)
{
        struct redis_queue **place = &cluster->queues[queue->slot];

        while (*place != queue)
                place = &(*place)->next;
        *place = queue->next;
        redis_queue_destroy(queue);
}

static void serve(struct redis_sink *sink, struct redis_queue *queue)
{
        if (redis_queue_has_work(queue))
                route(sink->cluster, queue);
        else if (queue->n_alone == 0)
                forget_queue(sink->cluster, queue);
}

static void redirect(
    struct redis_sink *sink, struct redis_queue *queue, const struct redis_redirect *redirect)
{
        struct redis_cluster *cluster = sink->cluster;
        const char *host = redirect->host[0] != '\0' && strcmp(redirect->host, "?") != 0
                               ? redirect->host
                               : queue->node->endpoint.host;
        struct redis_node *node = find_node(cluster, host, redirect->port);

        if (redirect->kind == REDIRECT_ASK)
                queue->asked = node;
        else
                cluster->map[redirect->slot] = node;
}

/* The map is read anew before it is next used. */
static void rediscover(struct redis_sink *sink)
{
        sink->cluster->is_known = false;
}

const struct redis_router redis_cluster_router = {
    .serve = serve, .redirect = redirect, .rediscover = rediscover};

void redis_cluster_flush(struct redis_cluster *cluster)
{
        list_for_each (link, &cluster->all)
                redis_node_advance(list_owner(link, struct redis_queue, all_link));
        for (size_t i = 0; i < cluster->n_nodes; i++)
                redis_node_flush(cluster->nodes[i]);
}

void redis_cluster_cancel(struct redis_cluster *cluster)
{
        redis_discovery_stop(cluster->discovery);
        for (size_t i = 0; i < cluster->n_nodes; i++)
                redis_connection_close(cluster->nodes[i]->connection);
        list_for_each (link, &cluster->all)
                redis_queue_give_back(
                    list_owner(link, struct redis_queue, all_link), &outcome_cancelled);
}

/* CRC-16/XMODEM. */
static uint16_t crc16(const char *data, size_t length)
{
        uint16_t crc = 0;

        for (size_t i = 0; i < length; i++) {
                crc = (uint16_t)(crc ^ (uint16_t)((unsigned char)data[i] << 8));
                for (int bit = 0; bit < 8; bit++)
                        crc = (uint16_t)(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
        }
        return crc;
}

unsigned redis_slot_of(const char *key, size_t length)
{
        const char *open = memchr(key, '{', length);

        if (open != NULL) {
                const char *tag = open + 1;
                size_t rest = length - (size_t)(tag - key);
                const char *end = memchr(tag, '}', rest);
                if (end != NULL && end > tag)
                        return crc16(tag, (size_t)(end - tag)) % REDIS_SLOTS;
        }
        return crc16(key, length) % REDIS_SLOTS;
}

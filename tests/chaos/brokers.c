#include "chaos/brokers.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "chaos/rabbit_watch.h"

#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS = 60000, AGAIN_MS = 120000 };

unsigned brokers_available(void)
{
        return kafka_server_is_available() ? ALL_BROKERS : ALL_BROKERS & ~(1u << BROKER_KAFKA);
}

bool brokers_have(const struct brokers *brokers, enum broker broker)
{
        return (brokers->present >> broker & 1u) != 0;
}

void broker_set_link(struct brokers *brokers, enum broker broker, const struct fault *fault)
{
        if (broker != BROKER_NATS)
                fault_link_set(brokers->links[broker], fault);
        for (unsigned i = 0; broker == BROKER_NATS && i < brokers->n_nats; i++)
                fault_link_set(brokers->nats_links[i], fault);
}

const char *broker_name(enum broker broker)
{
        static const char *const names[N_BROKERS] = {"nats", "rabbitmq", "kafka"};

        return names[broker];
}

/* ---- Kafka ----------------------------------------------------------------------------------- */

static void start_kafka(struct brokers *brokers)
{
        /* The broker says when a record arrived. */
        static const char *const config[] = {"message.timestamp.type", "LogAppendTime", NULL};

        if (brokers->keeper.is_made) {
                kafka_node_restart(&brokers->kafka, &brokers->kafka.nodes[0]);
                return;
        }
        kafka_server_launch(&brokers->kafka);
        kafka_server_topic(&brokers->kafka, BROKERS_TOPIC, KAFKA_PARTITIONS, config);
        brokers->keeper.is_made = true;
}

static void *keep(void *brokers_)
{
        struct brokers *brokers = brokers_;
        struct keeper *keeper = &brokers->keeper;

        pthread_mutex_lock(&keeper->lock);
        while (!keeper->is_over) {
                if (!keeper->wants_start) {
                        pthread_cond_wait(&keeper->wish, &keeper->lock);
                        continue;
                }
                keeper->wants_start = false;
                pthread_mutex_unlock(&keeper->lock);
                start_kafka(brokers);
                atomic_store(&keeper->is_ready, true);
                pthread_mutex_lock(&keeper->lock);
        }
        pthread_mutex_unlock(&keeper->lock);
        return NULL;
}

static void ask_keeper(struct keeper *keeper, bool for_start)
{
        pthread_mutex_lock(&keeper->lock);
        *(for_start ? &keeper->wants_start : &keeper->is_over) = true;
        pthread_cond_signal(&keeper->wish);
        pthread_mutex_unlock(&keeper->lock);
}

static void begin_kafka(struct brokers *brokers, struct fault_proxy *proxy)
{
        struct keeper *keeper = &brokers->keeper;

        kafka_server_prepare(
            &brokers->kafka, &(struct kafka_server_options){.advertised = brokers->kafka_ports});
        brokers->links[BROKER_KAFKA] = fault_proxy_add(proxy, brokers->kafka.nodes[0].port);
        brokers->kafka_ports[0] = fault_link_port(brokers->links[BROKER_KAFKA]);
        pthread_mutex_init(&keeper->lock, NULL);
        pthread_cond_init(&keeper->wish, NULL);
        if (pthread_create(&keeper->thread, NULL, keep, brokers) != 0)
                test_abort("cannot start a thread");
        ask_keeper(keeper, true);
}

void brokers_set_kafka_short(struct brokers *brokers, bool is_short)
{
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        char reason[256];
        rd_kafka_t *client;
        rd_kafka_queue_t *queue;
        rd_kafka_ConfigResource_t *topic =
            rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, BROKERS_TOPIC);
        rd_kafka_event_t *answer;

        rd_kafka_conf_set(conf, "bootstrap.servers", brokers->kafka.brokers, reason, sizeof reason);
        rd_kafka_conf_set(conf, "log_level", "0", reason, sizeof reason);
        client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
        queue = rd_kafka_queue_new(client);
        /* What is not named goes back to its default. */
        rd_kafka_ConfigResource_set_config(topic, "message.timestamp.type", "LogAppendTime");
        rd_kafka_ConfigResource_set_config(topic, "min.insync.replicas", is_short ? "2" : "1");
        rd_kafka_AlterConfigs(client, &topic, 1, NULL, queue);
        answer = rd_kafka_queue_poll(queue, ASK_MS);
        if (answer == NULL || rd_kafka_event_error(answer) != 0)
                test_abort("Kafka's topic cannot be changed: %s",
                    answer != NULL ? rd_kafka_event_error_string(answer) : "no answer");
        rd_kafka_event_destroy(answer);
        rd_kafka_ConfigResource_destroy(topic);
        rd_kafka_queue_destroy(queue);
        rd_kafka_destroy(client);
}

/* ---- RabbitMQ -------------------------------------------------------------------------------- */

#define RABBIT_RESOURCE(kind) "rabbit_misc:r(<<\"/\">>, " kind ", <<\"" BROKERS_QUEUE "\">>)"
#define RABBIT_BINDING                                                                             \
        "{binding, " RABBIT_RESOURCE("exchange") ", <<\"" BROKERS_QUEUE                            \
                                                 "\">>, " RABBIT_RESOURCE("queue") ", []}"

void brokers_set_rabbit_bound(struct brokers *brokers, bool is_bound)
{
        rabbitmq_do(&brokers->rabbit,
            "ok = rabbit_binding:%s(" RABBIT_BINDING ", fun(_, _) -> ok end, <<\"chaos\">>)",
            is_bound ? "add" : "remove");
}

void brokers_set_rabbit_full(struct brokers *brokers, bool is_full)
{
        if (is_full)
                rabbitmq_do(&brokers->rabbit,
                    "ok = rabbit_policy:set(<<\"/\">>, <<\"full\">>, <<\"" BROKERS_QUEUE "\">>, "
                    "[{<<\"max-length\">>, 1}, {<<\"overflow\">>, <<\"reject-publish\">>}], 0, "
                    "<<\"queues\">>, <<\"chaos\">>)");
        else
                rabbitmq_do(&brokers->rabbit,
                    "ok = rabbit_policy:delete(<<\"/\">>, <<\"full\">>, <<\"chaos\">>)");
}

void brokers_set_rabbit_alarm(struct brokers *brokers, bool is_of_disk, bool is_raised)
{
        const char *of = is_of_disk ? "disk" : "memory";

        if (is_raised)
                rabbitmq_do(&brokers->rabbit,
                    "rabbit_alarm:set_alarm({{resource_limit, %s, node()}, []})", of);
        else
                rabbitmq_do(
                    &brokers->rabbit, "rabbit_alarm:clear_alarm({resource_limit, %s, node()})", of);
}

void brokers_close_rabbit_connections(struct brokers *brokers)
{
        rabbitmq_do(&brokers->rabbit, "ok = rabbit_networking:close_all_connections(\"chaos\")");
}

static bool rabbit_accepts(struct brokers *brokers)
{
        if (!process_is_running(&brokers->rabbit.process))
                test_abort("RabbitMQ has ended; see %s/log.txt", brokers->rabbit.folder);
        return port_accepts(brokers->rabbit.port);
}

/* ---- NATS ------------------------------------------------------------------------------------ */

struct nats_server *brokers_sound_nats(struct brokers *brokers)
{
        return &brokers->nats[(brokers->nats_hit + 1) % brokers->n_nats];
}

/* The next one, if they have no leader just now. */
static struct nats_server *choose_nats(struct brokers *brokers)
{
        json_t *answer = NULL;
        const char *leader = NULL;
        char name[16];

        if (brokers->n_nats > 1) {
                answer =
                    nats_server_ask(brokers_sound_nats(brokers), "STREAM.INFO." BROKERS_STREAM, "");
                leader = json_string_value(
                    json_object_get(json_object_get(answer, "cluster"), "leader"));
        }
        brokers->nats_hit = (brokers->nats_hit + 1) % brokers->n_nats;
        for (unsigned i = 0; i < brokers->n_nats && leader != NULL; i++) {
                snprintf(name, sizeof name, "n%u", brokers->nats[i].port);
                if (strcmp(leader, name) == 0)
                        brokers->nats_hit = i;
        }
        json_decref(answer);
        return &brokers->nats[brokers->nats_hit];
}

void brokers_retire_nats(struct brokers *brokers)
{
        nats_server_retire(choose_nats(brokers));
        brokers->is_retired = true;
}

char *brokers_nats_servers(const struct brokers *brokers)
{
        struct bytes servers = {0};

        for (unsigned i = 0; i < brokers->n_nats; i++)
                bytes_printf(&servers, "%s\"127.0.0.1:%u\"", i > 0 ? ", " : "",
                    fault_link_port(brokers->nats_links[i]));
        return servers.data;
}

/* What the servers of a cluster tell of each other leads past the links. */
static void begin_nats(struct brokers *brokers, bool has_clusters, struct fault_proxy *proxy)
{
        brokers->n_nats = has_clusters ? NATS_CLUSTER_NODES : 1;
        if (has_clusters)
                nats_cluster_start(brokers->nats, NULL);
        else
                nats_server_start(&brokers->nats[0], NULL);
        for (unsigned i = 0; i < brokers->n_nats; i++)
                brokers->nats_links[i] = fault_proxy_add(proxy, brokers->nats[i].port);
        brokers->links[BROKER_NATS] = brokers->nats_links[0];
}

/* A limit of none is -1. */
bool brokers_set_nats_full(struct brokers *brokers, bool is_full)
{
        struct nats_server *server = brokers_sound_nats(brokers);
        json_t *answer = nats_server_ask(server, "STREAM.INFO." BROKERS_STREAM, "");
        json_t *config = json_object_get(answer, "config");
        json_t *changed;
        char *body;

        if (config == NULL || brokers->n_nats > 1) {
                json_decref(answer);
                return false;
        }
        json_object_set_new(config, "discard", json_string(is_full ? "new" : "old"));
        json_object_set_new(config, "max_msgs",
            is_full ? json_incref(json_object_get(json_object_get(answer, "state"), "messages"))
                    : json_integer(-1));
        body = json_dumps(config, JSON_COMPACT);
        changed = nats_server_ask(server, "STREAM.UPDATE." BROKERS_STREAM, body);
        if (json_object_get(changed, "error") != NULL)
                test_abort("%s: %s", body, json_dumps(changed, 0));
        json_decref(changed);
        json_decref(answer);
        free(body);
        return true;
}

/* ---- each ------------------------------------------------------------------------------------ */

void brokers_begin(
    struct brokers *brokers, unsigned present, bool has_clusters, struct fault_proxy *proxy)
{
        *brokers = (struct brokers){.present = present};
        if (brokers_have(brokers, BROKER_KAFKA))
                begin_kafka(brokers, proxy);
        if (brokers_have(brokers, BROKER_RABBIT)) {
                rabbitmq_server_start_soon(&brokers->rabbit);
                brokers->links[BROKER_RABBIT] = fault_proxy_add(proxy, brokers->rabbit.port);
        }
        if (brokers_have(brokers, BROKER_NATS))
                begin_nats(brokers, has_clusters, proxy);
}

static bool has_kafka(void *brokers_)
{
        struct brokers *brokers = brokers_;

        return atomic_load(&brokers->keeper.is_ready);
}

void brokers_await(struct brokers *brokers, struct arrivals *of_rabbit)
{
        if (brokers_have(brokers, BROKER_RABBIT)) {
                rabbitmq_server_wait(&brokers->rabbit);
                rabbitmq_make_exchange(&brokers->rabbit, "/", BROKERS_QUEUE, "direct");
                rabbitmq_make_queue(&brokers->rabbit, "/", BROKERS_QUEUE,
                    "{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}");
                brokers_set_rabbit_bound(brokers, true);
                brokers->watch = rabbit_watch_start(brokers->rabbit.port, BROKERS_QUEUE, of_rabbit);
        }
        if (brokers_have(brokers, BROKER_KAFKA))
                wait_until(has_kafka, brokers, AGAIN_MS, "Kafka does not start");
}

void brokers_end(struct brokers *brokers)
{
        rabbit_watch_stop(brokers->watch);
        for (unsigned i = 0; i < brokers->n_nats; i++)
                nats_server_destroy(&brokers->nats[i]);
        if (brokers_have(brokers, BROKER_RABBIT))
                rabbitmq_server_destroy(&brokers->rabbit);
        if (!brokers_have(brokers, BROKER_KAFKA))
                return;
        ask_keeper(&brokers->keeper, false); /* it may be waiting for a start */
        pthread_join(brokers->keeper.thread, NULL);
        kafka_server_destroy(&brokers->kafka);
}

bool broker_is_ready(struct brokers *brokers, enum broker broker)
{
        if (brokers->is_down[broker])
                return false;
        if (broker == BROKER_KAFKA)
                return has_kafka(brokers);
        if (broker == BROKER_RABBIT && brokers->is_rabbit_starting)
                brokers->is_rabbit_starting = !rabbit_accepts(brokers);
        return broker != BROKER_RABBIT || !brokers->is_rabbit_starting;
}

static struct process *process_of(struct brokers *brokers, enum broker broker)
{
        struct process *const processes[N_BROKERS] = {&brokers->nats[brokers->nats_hit].process,
            &brokers->rabbit.process, &brokers->kafka.nodes[0].process};

        return processes[broker];
}

void broker_kill(struct brokers *brokers, enum broker broker)
{
        if (broker == BROKER_NATS && !brokers->is_retired)
                choose_nats(brokers);
        process_kill(process_of(brokers, broker));
        brokers->is_down[broker] = true;
        if (broker == BROKER_KAFKA)
                atomic_store(&brokers->keeper.is_ready, false);
}

void broker_start_again(struct brokers *brokers, enum broker broker)
{
        brokers->is_down[broker] = false;
        switch (broker) {
        case BROKER_NATS:
                nats_server_restart(&brokers->nats[brokers->nats_hit]);
                brokers->is_retired = false;
                return;
        case BROKER_RABBIT:
                rabbitmq_server_restart_soon(&brokers->rabbit);
                brokers->is_rabbit_starting = true;
                return;
        case BROKER_KAFKA:
                ask_keeper(&brokers->keeper, true);
                return;
        case N_BROKERS:
                break;
        }
        abort();
}

void broker_freeze(struct brokers *brokers, enum broker broker)
{
        if (broker == BROKER_NATS)
                choose_nats(brokers);
        process_signal(process_of(brokers, broker), SIGSTOP);
}

void broker_thaw(struct brokers *brokers, enum broker broker)
{
        process_signal(process_of(brokers, broker), SIGCONT);
}

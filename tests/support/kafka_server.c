#include "support/kafka_server.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLUSTER_ID "MkU3OEVBNTcwNTJENDM2Qg"
enum { START_MS = 240000 /* a machine with little to spare */, ASK_MS = 5000 };

const char *kafka_server_version(void)
{
        const char *wanted = getenv("PGCOURIER_KAFKA");

        return wanted != NULL ? wanted : "4.1";
}

static char *class_path(void)
{
        return xasprintf("%s/.cache/kafka-%s/*", PGCOURIER_SOURCE_FOLDER, kafka_server_version());
}

bool kafka_server_is_available(void)
{
        char *jars =
            xasprintf("%s/.cache/kafka-%s/list", PGCOURIER_SOURCE_FOLDER, kafka_server_version());
        const char *const java[] = {"java", "-version", NULL};
        bool is_there = access(jars, R_OK) == 0 && process_run(java, NULL, false) == 0;

        free(jars);
        return is_there;
}

void kafka_server_require(void)
{
        if (kafka_server_is_available())
                return;
        /* Criterion shows the reason only if it is asked to; ctest looks for it. */
        fprintf(stderr, "no Kafka %s here: scripts/deps --kafka gets it\n", kafka_server_version());
        cr_skip_test();
}

/* What stands in server.properties */

static void append_listeners(struct bytes *text, const struct kafka_server *server, unsigned i)
{
        const struct kafka_node *node = &server->nodes[i];
        const uint16_t *advertised = server->options.advertised;

        bytes_printf(text, "listeners=TEST://127.0.0.1:%u,CONTROLLER://127.0.0.1:%u", node->port,
            node->controller_port);
        if (server->options.has_logins)
                bytes_printf(text, ",LOGIN://127.0.0.1:%u,CERT://127.0.0.1:%u", node->sasl_port,
                    node->certificate_port);
        bytes_printf(text, "\nadvertised.listeners=TEST://127.0.0.1:%u",
            advertised != NULL ? advertised[i] : node->port);
        if (server->options.has_logins)
                bytes_printf(text, ",LOGIN://127.0.0.1:%u,CERT://127.0.0.1:%u", node->sasl_port,
                    node->certificate_port);
        bytes_append_text(text,
            "\nlistener.security.protocol.map=TEST:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,"
            "CERT:SSL\ninter.broker.listener.name=TEST\ncontroller.listener.names=CONTROLLER\n");
}

static void append_logins(struct bytes *text, const struct kafka_node *node)
{
        static const char modules[] = "org.apache.kafka.common.security";

        bytes_printf(text,
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n"
            "listener.name.login.plain.sasl.jaas.config=%s.plain.PlainLoginModule required "
            "user_relay=\"" KAFKA_PASSWORD "\";\n"
            "listener.name.login.scram-sha-256.sasl.jaas.config=%s.scram.ScramLoginModule required;"
            "\nlistener.name.login.scram-sha-512.sasl.jaas.config=%s.scram.ScramLoginModule "
            "required;\nlistener.name.login.oauthbearer.sasl.jaas.config=%s.oauthbearer."
            "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";\n",
            modules, modules, modules, modules);
        bytes_printf(text,
            "ssl.keystore.type=PEM\nssl.keystore.location=%s/server.pem\nssl.truststore.type=PEM\n"
            "ssl.truststore.location=%s/client.pem\n"
            "listener.name.cert.ssl.client.auth=required\n"
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
            "super.users=User:ANONYMOUS\n",
            node->folder, node->folder);
}

static void append_voters(struct bytes *text, const struct kafka_server *server)
{
        bytes_append_text(text, "controller.quorum.voters=");
        for (unsigned i = 0; i < server->n_nodes; i++)
                bytes_printf(text, "%s%u@127.0.0.1:%u", i > 0 ? "," : "", i + 1,
                    server->nodes[i].controller_port);
        bytes_append_text(text, "\n");
}

static void write_properties(struct kafka_server *server, unsigned i)
{
        const struct kafka_node *node = &server->nodes[i];
        unsigned replicas = server->n_nodes;
        char *path = xasprintf("%s/server.properties", node->folder);
        struct bytes text = {0};

        bytes_printf(&text, "process.roles=broker,controller\nnode.id=%u\nlog.dirs=%s/data\n",
            i + 1, node->folder);
        append_listeners(&text, server, i);
        append_voters(&text, server);
        bytes_printf(&text,
            "auto.create.topics.enable=false\ndefault.replication.factor=%u\n"
            "offsets.topic.replication.factor=%u\noffsets.topic.num.partitions=1\n"
            "transaction.state.log.replication.factor=%u\ntransaction.state.log.min.isr=1\n"
            "transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
            "log.retention.ms=-1\nbroker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms="
            "500\n%s\n",
            replicas, replicas, replicas,
            server->options.properties != NULL ? server->options.properties : "");
        if (server->options.has_logins) {
                kafka_server_make_certificates(node->folder);
                append_logins(&text, node);
        }
        replace_file(path, text.data);
        bytes_deinit(&text);
        free(path);
}

static void run_in(const char *folder, const char *command)
{
        char *line = xasprintf("cd '%s' && %s", folder, command);
        const char *const argv[] = {"sh", "-c", line, NULL};

        if (process_run(argv, NULL, false) != 0)
                test_abort("this fails: %s", line);
        free(line);
}

void kafka_server_make_certificates(const char *folder)
{
        run_in(folder, "for who in server client; do openssl req -x509 -newkey ec -pkeyopt "
                       "ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=$who -addext "
                       "subjectAltName=IP:127.0.0.1,DNS:127.0.0.1 -keyout $who-key.pem -out "
                       "$who-cert.pem || exit; done; "
                       "cat server-key.pem server-cert.pem >server.pem; cp server-cert.pem ca.pem; "
                       "cp client-cert.pem client.pem; chmod a+r *.pem");
}

/* Processes */

static void format(struct kafka_server *server, const struct kafka_node *node)
{
        char *classes = class_path();
        char *properties = xasprintf("%s/server.properties", node->folder);
        char *log = xasprintf("%s/log.txt", node->folder);
        const char *argv[24] = {"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
            classes, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties};
        char *users[2] = {NULL, NULL};
        size_t n = 11;

        for (unsigned i = 0; server->options.has_logins && i < 2; i++) {
                users[i] = xasprintf("SCRAM-SHA-%s=[name=relay,password=" KAFKA_PASSWORD "]",
                    i == 0 ? "256" : "512");
                argv[n++] = "--add-scram";
                argv[n++] = users[i];
        }
        if (process_run(argv, log, false) != 0)
                test_abort("Kafka cannot format its folder: %s", read_file(log));
        free(users[0]);
        free(users[1]);
        free(log);
        free(properties);
        free(classes);
}

/* As if it were formatted, without another start of Java. */
static void copy_format(const struct kafka_server *server, unsigned i)
{
        char *command = xasprintf("mkdir data && cp -r %s/data/. data && sed -i 's/^node.id=.*/"
                                  "node.id=%u/; s/^directory.id=..../directory.id=nod%u/' "
                                  "data/meta.properties",
            server->nodes[0].folder, i + 1, i + 1);

        run_in(server->nodes[i].folder, command);
        free(command);
}

static void launch(struct kafka_node *node)
{
        char *classes = class_path();
        char *properties = xasprintf("%s/server.properties", node->folder);
        char *log = xasprintf("%s/log.txt", node->folder);
        const char *const argv[] = {"java", "-Xmx384m", "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC", "-cp", classes, "kafka.Kafka", properties, NULL};

        process_start(&node->process, argv, log, false);
        free(log);
        free(properties);
        free(classes);
}

/* Asking */

static rd_kafka_t *connect_to(const char *brokers)
{
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        char reason[256];
        rd_kafka_t *client;

        rd_kafka_conf_set(conf, "bootstrap.servers", brokers, reason, sizeof reason);
        rd_kafka_conf_set(conf, "log_level", "0", reason, sizeof reason);
        client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
        if (client == NULL)
                test_abort("librdkafka: %s", reason);
        return client;
}

struct question {
        struct kafka_server *server;
        rd_kafka_t *client;
        const char *topic; /* NULL: all nodes have to be there */
        int leader;        /* of partition 0 */
};

static void check_alive(struct kafka_server *server)
{
        for (unsigned i = 0; i < server->n_nodes; i++) {
                struct kafka_node *node = &server->nodes[i];
                char *log = xasprintf("%s/log.txt", node->folder);
                if (!server->is_shared && node->process.pid != 0 &&
                    !process_is_running(&node->process))
                        test_abort("node %u of Kafka ended at once: %s", i + 1, read_file(log));
                free(log);
        }
}

static bool leads_everywhere(struct question *question, const struct rd_kafka_metadata *metadata)
{
        if (question->topic == NULL)
                return metadata->broker_cnt == (int)question->server->n_nodes;
        if (metadata->topics[0].err != 0 || metadata->topics[0].partition_cnt == 0)
                return false;
        for (int i = 0; i < metadata->topics[0].partition_cnt; i++) {
                if (metadata->topics[0].partitions[i].leader < 0)
                        return false;
                if (metadata->topics[0].partitions[i].id == 0)
                        question->leader = metadata->topics[0].partitions[i].leader;
        }
        return true;
}

static bool is_there(void *question_)
{
        struct question *question = question_;
        const struct rd_kafka_metadata *metadata;
        rd_kafka_topic_t *topic = NULL;
        bool is_so = false;

        check_alive(question->server);
        if (question->topic != NULL)
                topic = rd_kafka_topic_new(question->client, question->topic, NULL);
        if (rd_kafka_metadata(question->client, 0, topic, &metadata, 1000) == 0) {
                is_so = leads_everywhere(question, metadata);
                rd_kafka_metadata_destroy(metadata);
        }
        if (topic != NULL)
                rd_kafka_topic_destroy(topic);
        return is_so;
}

static void await(struct kafka_server *server, struct question question)
{
        question.server = server;
        question.client = connect_to(server->brokers);
        wait_until(is_there, &question, START_MS, "Kafka does not answer");
        rd_kafka_destroy(question.client);
}

/* Writing to topics of such names. */
static void allow(struct kafka_server *server, const char *user)
{
        rd_kafka_t *client = connect_to(server->brokers);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
        char reason[256];
        rd_kafka_AclBinding_t *rule = rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, "open",
            RD_KAFKA_RESOURCE_PATTERN_PREFIXED, user, "*", RD_KAFKA_ACL_OPERATION_WRITE,
            RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, reason, sizeof reason);
        rd_kafka_event_t *answer;

        if (rule == NULL)
                test_abort("a rule for %s: %s", user, reason);
        rd_kafka_CreateAcls(client, &rule, 1, NULL, queue);
        answer = rd_kafka_queue_poll(queue, START_MS);
        if (answer == NULL || rd_kafka_event_error(answer) != 0)
                test_abort("no rule for %s can be made", user);
        rd_kafka_event_destroy(answer);
        rd_kafka_AclBinding_destroy(rule);
        rd_kafka_queue_destroy(queue);
        rd_kafka_destroy(client);
}

static char *own_address(const struct kafka_node *node)
{
        return xasprintf("127.0.0.1:%u", node->port);
}

void kafka_server_prepare(struct kafka_server *server, const struct kafka_server_options *options)
{
        *server = (struct kafka_server){.n_nodes = 1, .version = kafka_server_version()};
        if (options != NULL)
                server->options = *options;
        if (server->options.n_nodes > 0)
                server->n_nodes = server->options.n_nodes;
        for (unsigned i = 0; i < server->n_nodes; i++) {
                struct kafka_node *node = &server->nodes[i];
                char *address;
                node->folder = temp_folder();
                node->port = free_port();
                node->sasl_port = free_port();
                node->certificate_port = free_port();
                node->controller_port = free_port();
                address = own_address(node);
                snprintf(server->brokers + strlen(server->brokers),
                    sizeof server->brokers - strlen(server->brokers), "%s%s", i > 0 ? "," : "",
                    address);
                free(address);
        }
}

void kafka_server_launch(struct kafka_server *server)
{
        for (unsigned i = 0; i < server->n_nodes; i++) {
                write_properties(server, i);
                if (i == 0)
                        format(server, &server->nodes[0]);
                else
                        copy_format(server, i);
        }
        for (unsigned i = 0; i < server->n_nodes; i++)
                launch(&server->nodes[i]);
        await(server, (struct question){0});
        if (server->options.has_logins) {
                allow(server, "User:relay");
                allow(server, "User:CN=client");
        }
}

void kafka_server_start(struct kafka_server *server, const struct kafka_server_options *options)
{
        kafka_server_prepare(server, options);
        kafka_server_launch(server);
}

void kafka_server_destroy(struct kafka_server *server)
{
        for (unsigned i = 0; i < server->n_nodes; i++) {
                process_kill(&server->nodes[i].process);
                free(server->nodes[i].folder);
        }
}

void kafka_node_kill(struct kafka_node *node)
{
        process_kill(&node->process);
}

void kafka_node_pause(struct kafka_node *node)
{
        process_signal(&node->process, SIGSTOP);
}

void kafka_node_resume(struct kafka_node *node)
{
        process_signal(&node->process, SIGCONT);
}

void kafka_node_restart(struct kafka_server *server, struct kafka_node *node)
{
        launch(node);
        await(server, (struct question){0});
}

/* Topics */

static void check_made(rd_kafka_event_t *answer, const char *name)
{
        const rd_kafka_topic_result_t **results;
        size_t n;

        if (answer == NULL)
                test_abort("no answer to the creation of topic %s", name);
        if (rd_kafka_event_error(answer) != 0)
                test_abort(
                    "topic %s cannot be created: %s", name, rd_kafka_event_error_string(answer));
        results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer), &n);
        if (n != 1 || rd_kafka_topic_result_error(results[0]) != 0)
                test_abort("topic %s cannot be created: %s", name,
                    rd_kafka_topic_result_error_string(results[0]));
}

void kafka_server_topic(
    struct kafka_server *server, const char *name, int partitions, const char *const *config)
{
        rd_kafka_t *client = connect_to(server->brokers);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
        rd_kafka_NewTopic_t *topic =
            rd_kafka_NewTopic_new(name, partitions, (int)server->n_nodes, NULL, 0);
        rd_kafka_event_t *answer;

        for (; config != NULL && *config != NULL; config += 2)
                rd_kafka_NewTopic_set_config(topic, config[0], config[1]);
        rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
        answer = rd_kafka_queue_poll(queue, START_MS);
        check_made(answer, name);
        rd_kafka_event_destroy(answer);
        rd_kafka_NewTopic_destroy(topic);
        rd_kafka_queue_destroy(queue);
        rd_kafka_destroy(client);
        await(server, (struct question){.topic = name});
}

void kafka_server_delete_topic(struct kafka_server *server, const char *name)
{
        rd_kafka_t *client = connect_to(server->brokers);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
        rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(name);
        rd_kafka_event_t *answer;

        rd_kafka_DeleteTopics(client, &topic, 1, NULL, queue);
        answer = rd_kafka_queue_poll(queue, START_MS);
        if (answer == NULL || rd_kafka_event_error(answer) != 0)
                test_abort("topic %s cannot be deleted", name);
        rd_kafka_event_destroy(answer);
        rd_kafka_DeleteTopic_destroy(topic);
        rd_kafka_queue_destroy(queue);
        rd_kafka_destroy(client);
}

struct kafka_node *kafka_server_leader(struct kafka_server *server, const char *topic)
{
        struct question question = {.server = server, .topic = topic};

        question.client = connect_to(server->brokers);
        wait_until(is_there, &question, START_MS, "the topic has no leader");
        rd_kafka_destroy(question.client);
        return &server->nodes[question.leader - 1];
}

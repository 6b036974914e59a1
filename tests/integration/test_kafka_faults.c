/*
 * The kafka sink and nodes of a real Kafka that come to harm: killed, stopped, cut off in the
 * middle of an answer, and another one leads.
 */
#include "kafka_rig.h"

#include "base/alloc.h"
#include "chaos/fault_proxy.h"
#include "support/kafka_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_KEYS = 40 };

/* Event i is of key i % N_KEYS, and its payload is its number. */
static void give_keys(struct rig *rig, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                snprintf(rig->keys[i], sizeof rig->keys[i], "k%u", i % N_KEYS);
}

/* In the relay's place: one of a key in flight, and what comes back goes again. */
struct course {
        struct rig *rig;
        unsigned n;            /* events in all */
        unsigned next[N_KEYS]; /* of this key */
        unsigned n_done;       /* delivered */
        unsigned n_again;      /* started more than once */
        size_t of_attempt[SINK_DRIVER_MAX_ATTEMPTS];
        size_t seen;
};

static void start(struct course *course, unsigned event)
{
        course->of_attempt[course->rig->driver.n_started] = event;
        sink_driver_start(&course->rig->driver, &course->rig->events[event]);
}

static void take_answers(struct course *course)
{
        struct sink_driver *driver = &course->rig->driver;

        for (; course->seen < driver->n_started; course->seen++) {
                size_t event = course->of_attempt[course->seen];
                if (!driver->attempts[course->seen].is_finished)
                        return;
                if (driver->attempts[course->seen].outcome.kind != OUTCOME_DELIVERED) {
                        course->n_again++;
                        start(course, (unsigned)event);
                } else {
                        course->n_done++;
                        if (event + N_KEYS < course->n)
                                start(course, (unsigned)event + N_KEYS);
                }
        }
}

struct goal {
        struct course *course;
        unsigned n_done;
};

static bool is_reached(void *goal_)
{
        struct goal *goal = goal_;

        take_answers(goal->course);
        sink_driver_flush(&goal->course->rig->driver);
        return goal->course->n_done >= goal->n_done;
}

static void run_to(struct course *course, unsigned n_done)
{
        struct goal goal = {course, n_done};

        sink_driver_run_until(&course->rig->driver, is_reached, &goal, "the events");
}

struct cut {
        struct course *course;
        const struct fault_link *link;
        unsigned n_connections;
};

static bool has_connected_again(void *cut_)
{
        struct cut *cut = cut_;

        take_answers(cut->course);
        sink_driver_flush(&cut->course->rig->driver);
        return fault_link_n_connections(cut->link) >= cut->n_connections ||
               cut->course->n_done == cut->course->n;
}

static void begin(struct course *course, struct rig *rig, unsigned n)
{
        *course = (struct course){.rig = rig, .n = n};
        give_keys(rig, n);
        for (unsigned i = 0; i < N_KEYS; i++)
                start(course, i);
        sink_driver_flush(&rig->driver);
}

static int compare(const void *a, const void *b)
{
        const struct kafka_record *left = a;
        const struct kafka_record *right = b;

        if (left->partition != right->partition)
                return left->partition < right->partition ? -1 : 1;
        return left->offset < right->offset ? -1 : left->offset > right->offset;
}

/* All are there, and of each key the first copies are in order. Returns how many are there twice. */
static unsigned check_stored(const struct course *course, const char *brokers)
{
        struct kafka_records records = kafka_read(brokers, course->rig->config.topic);
        unsigned next[N_KEYS];
        unsigned n_copies;

        for (unsigned i = 0; i < N_KEYS; i++)
                next[i] = i;
        qsort(records.items, records.n, sizeof *records.items, compare);
        for (size_t i = 0; i < records.n; i++) {
                unsigned event = (unsigned)strtoul(records.items[i].value, NULL, 10);
                cr_expect(event <= next[event % N_KEYS], "event %u before %u", event,
                    next[event % N_KEYS]);
                if (event == next[event % N_KEYS])
                        next[event % N_KEYS] += N_KEYS;
        }
        for (unsigned i = 0; i < N_KEYS; i++)
                cr_expect(next[i] >= course->n, "event %u is missing", next[i]);
        n_copies = (unsigned)records.n - course->n;
        kafka_records_deinit(&records);
        return n_copies;
}

/* The connection ends in the middle of the answers, again and again: what was stored without an
 * answer is sent once more by the client, and stored once. */
Test(kafka_faults, stores_nothing_twice_when_answers_are_lost)
{
        enum { N = 2000, TIMES = 8 };
        static struct course course;
        static const struct fault none = {.kind = FAULT_NONE};
        struct fault_proxy *proxy;
        struct fault_link *link;
        struct kafka_server server;
        struct rig rig;
        uint16_t port;
        char *brokers;

        kafka_server_require();
        proxy = fault_proxy_start();
        port = free_port();
        link = fault_proxy_add(proxy, port);
        kafka_server_prepare(&server,
            &(struct kafka_server_options){.advertised = &(uint16_t){fault_link_port(link)}});
        server.nodes[0].port = port;
        snprintf(server.brokers, sizeof server.brokers, "127.0.0.1:%u", port);
        kafka_server_launch(&server);
        kafka_server_topic(&server, "events", 4, NULL);
        brokers = xasprintf("127.0.0.1:%u", fault_link_port(link));
        rig_init(&rig, brokers, N);
        rig.config.connect_timeout_ms =
            25000; /* so long the client is left to find out by itself */
        rig_open(&rig);
        begin(&course, &rig, N);
        run_to(&course, N_KEYS);
        for (unsigned i = 1; i <= TIMES; i++) {
                struct cut cut = {&course, link, fault_link_n_connections(link) + 1};
                fault_link_set(link, &(struct fault){.kind = FAULT_CUT, .after_bytes = 7 * i});
                sink_driver_run_until(&rig.driver, has_connected_again, &cut, "another connection");
                fault_link_set(link, &none);
                run_to(&course, N_KEYS + i * N / (TIMES + 2));
        }
        run_to(&course, N);

        cr_expect(fault_link_n_connections(link) > TIMES);
        cr_expect(course.n_again == 0, "%u came back", course.n_again);
        cr_expect(check_stored(&course, server.brokers) == 0);
        rig_destroy(&rig);
        kafka_server_destroy(&server);
        fault_proxy_destroy(proxy);
        free(brokers);
}

static bool all_came_back(void *course_)
{
        struct course *course = course_;
        const struct sink_driver *driver = &course->rig->driver;

        return driver->n_finished == driver->n_started;
}

/* It takes connections and says nothing: that shows within timeout + 2 s; as much again is for a
 * busy machine. */
static void see_it_stopped(struct course *course, struct kafka_node *node)
{
        struct sink_driver *driver = &course->rig->driver;
        uint64_t begun = uv_hrtime();
        uint64_t took_ms;

        kafka_node_pause(node);
        sink_driver_run_until(driver, all_came_back, course, "what was under way to come back");
        took_ms = (uv_hrtime() - begun) / 1000000;
        cr_expect(took_ms < 10000, "%" PRIu64 " ms", took_ms);
        for (size_t i = course->seen; i < driver->n_started; i++) {
                const struct outcome *outcome = &driver->attempts[i].outcome;
                cr_expect(outcome->kind == OUTCOME_SINK_DOWN || outcome->is_unanswered ||
                              outcome->kind == OUTCOME_DELIVERED,
                    "%s", outcome->reason);
        }
        kafka_node_resume(node);
}

Test(kafka_faults, goes_on_after_the_broker_was_stopped_and_killed_under_load)
{
        enum { N = 4000, TIMES = 2 };
        static struct course course;
        struct kafka_server server;
        struct rig rig;

        kafka_server_require();
        kafka_server_start(&server, NULL);
        kafka_server_topic(&server, "events", 4, NULL);
        rig_init(&rig, server.brokers, N);
        rig.config.timeout_ms = 3000;
        rig_open(&rig);
        begin(&course, &rig, N);
        run_to(&course, 500);
        see_it_stopped(&course, &server.nodes[0]);
        for (unsigned i = 1; i <= TIMES; i++) {
                run_to(&course, i * 1200);
                kafka_node_kill(&server.nodes[0]);
                kafka_node_restart(&server, &server.nodes[0]);
        }
        run_to(&course, N);

        cr_expect(check_stored(&course, server.brokers) <= (TIMES + 1) * N_KEYS);
        cr_expect(rig_count(&rig, OUTCOME_REJECTED) == 0);
        rig_destroy(&rig);
        kafka_server_destroy(&server);
}

/* What the probe warns of at a topic with this min.insync.replicas; NULL: that of the brokers. */
static void expect_probed(struct kafka_server *server, const char *n_needed,
    enum outcome_kind expected, const char *words)
{
        static const char *const name = "min.insync.replicas";
        char topic[32] = "{{topic}}";
        struct outcome outcome;
        struct rig rig;

        rig_init(&rig, server->brokers, 1);
        if (n_needed != NULL) {
                snprintf(topic, sizeof topic, "copies-%s", n_needed);
                kafka_server_topic(server, topic, 1, (const char *const[]){name, n_needed, NULL});
        }
        rig.config.topic = topic;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == expected, "%s: %s", n_needed, outcome.reason);
        cr_expect(strstr(outcome.reason, words != NULL ? words : "replicas: 3") != NULL, "%s: %s",
            n_needed, outcome.reason);
        cr_expect(outcome.needs_operator == (words != NULL));
        if (n_needed != NULL)
                cr_expect(sink_driver_deliver(&rig.driver, &rig.events[0]).kind == expected);
        rig_destroy(&rig);
}

/* Three nodes, all replicas in step: what one stored and answered survives it. */
Test(kafka_faults, follows_the_leader_of_a_partition)
{
        enum { N = 2000 };
        static struct course course;
        static const char *const config[] = {"min.insync.replicas", "2", NULL};
        struct kafka_server server;
        struct rig rig;
        struct kafka_node *leader;

        kafka_server_require();
        kafka_server_start(&server, &(struct kafka_server_options){.n_nodes = 3});
        expect_probed(&server, "2", OUTCOME_DELIVERED, NULL);
        expect_probed(&server, "1", OUTCOME_DELIVERED,
            "topic copies-1 has replicas: 3, min.insync.replicas: 1: what");
        expect_probed(&server, NULL, OUTCOME_DELIVERED, "min.insync.replicas of the brokers is 1");
        expect_probed(&server, "4", OUTCOME_DELIVERED,
            "replicas: 3, min.insync.replicas: 4: brokers take no event, or only while");
        kafka_server_topic(&server, "events", 4, config);
        rig_init(&rig, server.brokers, N);
        rig_open(&rig);
        begin(&course, &rig, N);
        run_to(&course, N / 4);
        leader = kafka_server_leader(&server, "events");
        kafka_node_kill(leader);
        run_to(&course, N / 2);
        kafka_node_restart(&server, leader);
        run_to(&course, N);

        cr_expect(course.n_again == 0, "%u came back", course.n_again);
        cr_expect(check_stored(&course, server.brokers) == 0);
        rig_destroy(&rig);
        kafka_server_destroy(&server);
}

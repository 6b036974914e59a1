/*
 * The redis sink keeps the order of a key while a real Redis changes its mind in the middle: what
 * was refused comes again, as the relay does it, and must not find a later event of its key there.
 */
#include "redis_rig.h"

#include "base/alloc.h"
#include "sinks/sink_contract.h"
#include "support/process.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
        N_EVENTS = 6000,
        N_FEW_KEYS = 7,
        WINDOW = 100,
        N_MANY_KEYS = WINDOW, /* each comes once in a burst, unless some came back */
        N_MIN_REFUSED = 100,
        PAYLOAD_BYTES = 1000,
};

/* Runs two commands in turn: a moment of "off", a while of "on", in which whole bursts pass. */
struct toggle {
        const struct redis_server *server;
        const char *off;
        const char *on;
        atomic_bool has_begun;
        atomic_bool is_over;
        pthread_t thread;
};

static void run(redisContext *context, const char *command)
{
        redisReply *reply = redisCommand(context, command);

        if (reply == NULL)
                test_abort("redis is gone: %s", context->errstr);
        freeReplyObject(reply);
}

static void *run_toggle(void *owner)
{
        struct toggle *toggle = owner;
        redisContext *context = redisConnect("127.0.0.1", toggle->server->port);

        while (!atomic_load(&toggle->is_over)) {
                run(context, toggle->off);
                atomic_store(&toggle->has_begun, true);
                for (int i = 0; i < 2; i++)
                        run(context, "PING");
                run(context, toggle->on);
                for (int i = 0; i < 40; i++)
                        run(context, "PING");
        }
        redisFree(context);
        return NULL;
}

/* The next ones that are not delivered yet, in order, in bursts of so many deliver() calls. */
static void deliver_window(struct rig *rig, unsigned n_at_once, bool *is_delivered)
{
        size_t first = rig->driver.n_started;
        unsigned event_of[WINDOW];
        unsigned n = 0;

        for (unsigned i = 0; i < N_EVENTS && n < WINDOW; i++)
                if (!is_delivered[i])
                        event_of[n++] = i;
        for (unsigned i = 0; i < n; i++) {
                sink_driver_start(&rig->driver, &rig->events[event_of[i]]);
                if ((i + 1) % n_at_once == 0)
                        sink_driver_flush(&rig->driver);
        }
        sink_driver_flush(&rig->driver);
        sink_driver_finish(&rig->driver);
        for (unsigned i = 0; i < n; i++)
                if (rig->driver.attempts[first + i].outcome.kind == OUTCOME_DELIVERED)
                        is_delivered[event_of[i]] = true;
}

static unsigned count_refused(const struct rig *rig)
{
        return rig_count(rig, OUTCOME_SINK_DOWN) + rig_count(rig, OUTCOME_CANCELLED);
}

static unsigned count(const bool *flags)
{
        unsigned n = 0;

        for (unsigned i = 0; i < N_EVENTS; i++)
                n += flags[i];
        return n;
}

/* The payload is the event's number, and its key the remainder by n_keys. */
static void expect_order_per_key(struct redis_server *server, int n_keys)
{
        redisReply *reply = redis_server_run(server, "XRANGE events - +");
        bool *has_come = xcalloc(N_EVENTS, sizeof *has_come);
        int last[N_MANY_KEYS];

        memset(last, -1, sizeof last);
        for (size_t i = 0; i < reply->elements; i++) {
                int number = atoi(reply->element[i]->element[1]->element[9]->str);
                if (has_come[number])
                        continue; /* a repetition */
                has_come[number] = true;
                cr_assert(number > last[number % n_keys], "%d came after %d", number,
                    last[number % n_keys]);
                last[number % n_keys] = number;
        }
        cr_expect(count(has_come) == N_EVENTS, "%u of %d arrived", count(has_come), N_EVENTS);
        free(has_come);
        freeReplyObject(reply);
}

static void keep_order_while(unsigned n_keys, const char *off, const char *on)
{
        struct redis_server server;
        struct toggle toggle = {.server = &server, .off = off, .on = on};
        struct rig rig;
        bool *is_delivered = xcalloc(N_EVENTS, sizeof *is_delivered);
        char **payloads = xcalloc(N_EVENTS, sizeof *payloads);
        /* Those that seldom come twice: so that bursts follow each other without an answer. */
        unsigned n_at_once = n_keys == N_FEW_KEYS ? WINDOW : WINDOW / 4;
        char keys[N_MANY_KEYS][8];

        redis_server_start(&server, NULL);
        rig_init(&rig, &server, N_EVENTS);
        /* Redis reads 16 KiB at a time, and others come in between: so a burst is much longer. */
        for (unsigned i = 0; i < N_EVENTS; i++) {
                payloads[i] = xasprintf("%-*u", PAYLOAD_BYTES, i);
                rig.events[i].payload = payloads[i];
                rig.events[i].payload_bytes = PAYLOAD_BYTES;
                snprintf(keys[i % n_keys], sizeof keys[0], "%u", i % n_keys);
                rig.events[i].key = keys[i % n_keys];
        }
        rig_open(&rig);
        pthread_create(&toggle.thread, NULL, run_toggle, &toggle);
        while (!atomic_load(&toggle.has_begun))
                sched_yield();
        while (count(is_delivered) < N_EVENTS && rig.driver.n_started < 15000 &&
               count_refused(&rig) < 30 * N_MIN_REFUSED)
                deliver_window(&rig, n_at_once, is_delivered);
        atomic_store(&toggle.is_over, true);
        pthread_join(toggle.thread, NULL);
        while (count(is_delivered) < N_EVENTS)
                deliver_window(&rig, n_at_once, is_delivered);

        cr_expect(
            count_refused(&rig) >= N_MIN_REFUSED, "only %u were refused", count_refused(&rig));
        expect_order_per_key(&server, (int)n_keys);
        rig_destroy(&rig);
        for (unsigned i = 0; i < N_EVENTS; i++)
                free(payloads[i]);
        free(payloads);
        free(is_delivered);
        redis_server_destroy(&server);
}

Test(redis_order, keeps_the_order_of_a_key_while_memory_runs_out_and_comes_back)
{
        keep_order_while(N_FEW_KEYS, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

/* Here Redis does refuse some of a burst and take others. */
Test(redis_order, keeps_the_order_of_keys_that_seldom_come_twice)
{
        keep_order_while(N_MANY_KEYS, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0");
}

Test(redis_order, keeps_the_order_of_a_key_while_replicas_come_and_go)
{
        keep_order_while(
            N_FEW_KEYS, "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0");
}

Test(redis_order, keeps_the_order_of_a_key_while_the_server_changes_its_role)
{
        keep_order_while(N_FEW_KEYS, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE");
}

Test(redis_order, keeps_the_order_of_a_key_while_permissions_change)
{
        keep_order_while(N_FEW_KEYS, "ACL SETUSER default -xadd", "ACL SETUSER default +xadd");
}

/* Its user may no longer say MULTI: what was sent is executed one by one, and none of it twice. */
Test(redis_order, delivers_events_that_were_sent_while_transactions_were_forbidden)
{
        struct rig rig;

        rig_start(&rig, 12);
        for (unsigned i = 0; i < 12; i++)
                rig.events[i].key = "k";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "ACL SETUSER default -multi -exec");
        rig_deliver_all(&rig, 5);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "ACL SETUSER default +multi +exec");
        rig_deliver_all(&rig, 5);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 11);
        expect_outcome(&rig, 6, OUTCOME_SINK_DOWN, "refused MULTI");
        cr_expect(redis_server_count(&rig.server, "XLEN events") == 11);
        rig_stop(&rig);
}

/* How often Redis has executed the command since the last CONFIG RESETSTAT. */
static int n_calls(struct redis_server *server, const char *command)
{
        redisReply *reply = redis_server_run(server, "INFO commandstats");
        char *line = xasprintf("cmdstat_%s:calls=", command);
        const char *found = strstr(reply->str, line);
        int n = found != NULL ? atoi(found + strlen(line)) : 0;

        free(line);
        freeReplyObject(reply);
        return n;
}

Test(redis_order, needs_a_transaction_only_where_a_key_comes_twice)
{
        enum { N = 100 };
        char keys[N][8];
        struct rig rig;

        rig_start(&rig, 1 + 2 * N);
        for (unsigned i = 0; i < N; i++) {
                snprintf(keys[i], sizeof keys[i], "%u", i);
                rig.events[1 + i].key = keys[i];
                rig.events[1 + N + i].key = keys[i > 0 ? i - 1 : 0]; /* one comes twice */
        }
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "CONFIG RESETSTAT");
        rig_deliver_all(&rig, N);
        cr_expect(n_calls(&rig.server, "xadd") == N);
        cr_expect(n_calls(&rig.server, "multi") == 0);
        rig_deliver_all(&rig, N);
        cr_expect(n_calls(&rig.server, "xadd") == 2 * N);
        cr_expect(n_calls(&rig.server, "multi") == 1);
        cr_expect(n_calls(&rig.server, "exec") == 1);
        expect_stream_in_order(&rig.server, &rig);
        rig_stop(&rig);
}

/* While one of a transaction is refused for good, its followers are delivered all the same. */
Test(redis_order, lets_a_key_go_on_after_a_rejected_event)
{
        struct redis_server server;
        struct rig rig;
        char stream[] = "{{topic}}";

        redis_server_start(&server, NULL);
        redis_server_do(&server, "SET taken x");
        rig_init(&rig, &server, 4);
        rig.config.stream = stream;
        for (unsigned i = 0; i < 4; i++)
                rig.events[i].key = "k";
        rig.events[1].topic = "taken";
        rig_open(&rig);
        rig_deliver_all(&rig, 4);

        expect_outcome(&rig, 1, OUTCOME_REJECTED, "WRONGTYPE");
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 3);
        cr_expect(redis_server_count(&server, "XLEN orders") == 3);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

/* What waits for the answer to a burst would be accepted, but the one before it was not. */
Test(redis_order, gives_back_events_behind_a_refused_event)
{
        struct rig rig;
        char stream[] = "{{topic}}";

        rig_start(&rig, 3);
        rig.config.stream = stream;
        for (unsigned i = 0; i < 3; i++)
                rig.events[i].key = "k";
        rig.events[1].topic = "forbidden";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "ACL SETUSER default resetkeys ~orders");
        rig_deliver(&rig, 1); /* goes out alone */
        rig_deliver(&rig, 1); /* waits for its answer */
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "NOPERM");
        expect_outcome(&rig, 2, OUTCOME_CANCELLED, "");
        cr_expect(redis_server_count(&rig.server, "XLEN orders") == 1);
        rig_stop(&rig);
}

/* Plain commands: those behind the refused one, of other keys, are taken. */
Test(redis_order, gives_back_events_behind_a_burst_with_a_refused_event)
{
        static const char *const keys[] = {"a", "a", "b", "c", "b", "a"};
        struct rig rig;
        char stream[] = "{{topic}}";

        rig_start(&rig, 6);
        rig.config.stream = stream;
        for (unsigned i = 0; i < 6; i++)
                rig.events[i].key = keys[i];
        rig.events[2].topic = "forbidden";
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "ACL SETUSER default resetkeys ~orders");
        rig_deliver(&rig, 3);
        rig_deliver(&rig, 2); /* wait for the answer */
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "NOPERM");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 4, OUTCOME_CANCELLED, "");
        expect_outcome(&rig, 5, OUTCOME_CANCELLED, "");
        cr_expect(redis_server_count(&rig.server, "XLEN orders") == 3);
        rig_stop(&rig);
}

/* Redis stands still, and then finds what was sent meanwhile on a connection that is closed. */
static long long count_sent_together(const char *first, const char *second, const char *third)
{
        const char *const keys[] = {NULL, first, second, third};
        struct rig rig;
        long long n;

        rig_start(&rig, 4);
        for (unsigned i = 0; i < 4; i++)
                rig.events[i].key = keys[i];
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_pause(&rig.server);
        for (unsigned i = 1; i < 4; i++)
                rig_deliver(&rig, 1);
        sink_cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 3);
        redis_server_resume(&rig.server);
        n = redis_server_count(&rig.server, "XLEN events") - 1;
        rig_stop(&rig);
        return n;
}

Test(redis_order, waits_only_for_answers_about_the_same_key)
{
        cr_expect(count_sent_together("a", "b", "c") == 2); /* and the last one waits its turn */
        cr_expect(count_sent_together("a", "b", "a") == 2);
        cr_expect(count_sent_together("a", "a", "b") == 1);
        cr_expect(count_sent_together(NULL, NULL, NULL) == 2);
}

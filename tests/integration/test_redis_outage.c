/* The redis sink: a real Redis that is away, goes away, or falls silent. */
#include "redis_rig.h"

#include "support/dns_server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

Test(redis_outage, is_down_while_nothing_listens_and_works_once_it_does)
{
        struct redis_server server;
        struct rig rig;
        char localhost[] = "localhost";

        redis_server_start(&server, NULL);
        redis_server_stop(&server);
        rig_init(&rig, &server, 5);
        rig.config.host = localhost;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);
        rig_deliver_all(&rig, 1);
        redis_server_restart(&server);
        rig_deliver_all(&rig, 2);

        for (unsigned i = 0; i < 3; i++)
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "Connection refused");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 4, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_outage, is_down_while_the_host_has_no_address)
{
        struct redis_server server = {0};
        struct rig rig;
        char host[] = "nowhere.invalid";

        rig_init(&rig, &server, 1);
        rig.config.host = host;
        rig.config.port = 6379;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot resolve nowhere.invalid");
        rig_destroy(&rig);
}

static bool has_left(void *context)
{
        struct redis_server *server = context;
        redisReply *reply = redis_server_run(server, "CLIENT LIST");
        bool is_gone = strstr(reply->str, "name=pgcourier") == NULL;

        freeReplyObject(reply);
        return is_gone;
}

Test(redis_outage, leaves_a_server_that_became_a_replica)
{
        struct rig rig;

        rig_start(&rig, 22);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "REPLICAOF 127.0.0.1 1");
        /* Ten arrive before the answer that makes it leave, ten more while it leaves. */
        rig.restart_below = 21;
        rig_deliver(&rig, 10);
        sink_driver_finish(&rig.driver);

        /* What came while it gave others back was not sent at all. */
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) + rig_count(&rig, OUTCOME_CANCELLED) == 20);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1);
        for (unsigned i = 1; i <= 10; i++)
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "READONLY");
        wait_until(has_left, &rig.server, 10000, "the sink does not leave the replica");

        redis_server_do(&rig.server, "REPLICAOF NO ONE");
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 21, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/* A path stands for the name here, as a test can lead it elsewhere: it, too, is looked up by
 * each new connection. */
static void point(const char *name, const struct redis_server *server)
{
        unlink(name);
        cr_assert(symlink(server->socket_path, name) == 0);
}

Test(redis_outage, finds_the_new_master_behind_the_same_name)
{
        struct redis_server servers[2];
        struct rig rig;
        char name[128];

        redis_server_start(&servers[0], NULL);
        redis_server_start(&servers[1], NULL);
        snprintf(name, sizeof name, "%s/master", servers[0].folder);
        point(name, &servers[0]);
        rig_init(&rig, &servers[0], 14);
        rig.config.host = NULL;
        rig.config.socket_path = name;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&servers[0], "REPLICAOF 127.0.0.1 %u", servers[1].port);
        /* On the living connection; then at a greeting, before the name has followed. */
        rig_deliver_all(&rig, 3);
        rig_deliver_all(&rig, 1);
        point(name, &servers[1]);
        rig_deliver_all(&rig, 9);

        for (unsigned i = 1; i < 4; i++)
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "READONLY");
        expect_outcome(&rig, 4, OUTCOME_SINK_DOWN, "its role is replica, not master");
        cr_expect(!rig.driver.attempts[4].outcome.needs_operator);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 10);
        cr_expect(redis_server_count(&servers[1], "XLEN events") == 9);
        rig_destroy(&rig);
        redis_server_destroy(&servers[0]);
        redis_server_destroy(&servers[1]);
}

Test(redis_outage, looks_its_host_up_for_each_connection)
{
        struct dns_server *names = dns_server_start();
        struct redis_server server;
        struct rig rig;
        char host[] = "master.test";

        redis_server_start(&server, NULL);
        dns_server_use(names);
        dns_server_answer(names, "127.0.0.3");
        rig_init(&rig, &server, 2);
        rig.config.host = host;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        dns_server_answer(names, "127.0.0.1");
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "Connection refused");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
        dns_server_destroy(names);
}

Test(redis_outage, gives_up_on_a_server_whose_clients_are_paused)
{
        struct rig rig;

        rig_start(&rig, 3);
        rig.config.timeout_ms = 200;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "CLIENT PAUSE 100000 WRITE");
        rig_deliver_all(&rig, 1);
        redis_server_do(&rig.server, "CLIENT UNPAUSE");
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "has not answered for 200 ms");
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/* Some were executed, perhaps; none is charged, and none that was answered comes again. */
Test(redis_outage, charges_no_event_when_the_server_dies_with_commands_in_flight)
{
        enum { N = 20000, SIZE = 1000 };
        static char payload[SIZE];
        struct rig rig;

        rig_start(&rig, N + 1);
        for (unsigned i = 0; i <= N; i++) {
                rig.events[i].payload = payload;
                rig.events[i].payload_bytes = SIZE;
        }
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        /* A stopped server answers nothing. */
        redis_server_pause(&rig.server);
        rig_deliver(&rig, N);
        for (unsigned i = 0; i < 20; i++)
                uv_run(&rig.driver.loop, UV_RUN_NOWAIT);
        redis_server_kill(&rig.server);
        sink_driver_finish(&rig.driver);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1);
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) == N);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "lost");
        expect_outcome(&rig, N, OUTCOME_SINK_DOWN, "lost");
        cr_expect(!rig.driver.attempts[1].outcome.needs_operator);
        rig_stop(&rig);
}

/* Without waiting, the loop stops between the loss and the news of it; but since libuv 1.45 it runs
 * timers behind sockets, and does both. */
static bool has_lost(void *context)
{
        struct rig *rig = context;

        uv_run(&rig->driver.loop, UV_RUN_NOWAIT);
        return sink_owes_answers(rig->driver.sink) ||
               (uv_version() >= 0x012d00 && rig->driver.n_finished == rig->driver.n_started);
}

/* Between the loss and the news of it: what goes now would overtake what comes back. */
Test(redis_outage, sends_nothing_ahead_of_attempts_that_it_has_yet_to_give_back)
{
        struct rig rig;

        rig_start(&rig, 3);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_pause(&rig.server);
        rig_deliver(&rig, 1);
        redis_server_kill(&rig.server);
        wait_until(has_lost, &rig, 10000, "the connection to be lost");
        if (!sink_owes_answers(rig.driver.sink)) {
                printf(
                    "no moment between a loss and its news here: libuv %s\n", uv_version_string());
                rig_stop(&rig);
                return;
        }
        redis_server_restart(&rig.server);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "lost");
        expect_outcome(&rig, 2, OUTCOME_CANCELLED, "");
        rig_stop(&rig);
}

Test(redis_outage, may_find_a_dead_connection_while_it_flushes)
{
        struct rig rig;

        rig_start(&rig, 4);
        rig.config.host = NULL;
        rig.config.socket_path = rig.server.socket_path;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_kill(&rig.server);
        /* The loop has not run since, so the write is the first to find out. */
        rig_deliver(&rig, 2);
        cr_expect(rig.driver.n_finished == 1, "finished from inside flush()");
        sink_driver_finish(&rig.driver);
        redis_server_restart(&rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "lost");
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "lost");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

static bool has_two_entries(void *context)
{
        return redis_server_count(context, "XLEN events") == 2;
}

Test(redis_outage, may_find_a_dead_connection_while_an_attempt_finishes)
{
        struct rig rig;

        rig_start(&rig, 4);
        rig.config.host = NULL;
        rig.config.socket_path = rig.server.socket_path;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 1);
        wait_until(has_two_entries, &rig.server, 10000, "the second event does not arrive");
        redis_server_kill(&rig.server);
        /* The answer is still there to be read; what its finish starts cannot be written. */
        rig.restart_below = 4;
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "lost");
        expect_outcome(&rig, 3, OUTCOME_SINK_DOWN, "Connection refused");
        rig_stop(&rig);
}

Test(redis_outage, gives_up_on_a_server_that_does_not_answer)
{
        struct rig rig;

        rig_start(&rig, 4);
        rig.config.timeout_ms = 200;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        redis_server_pause(&rig.server);
        rig_deliver_all(&rig, 2);
        redis_server_resume(&rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "has not answered for 200 ms");
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "has not answered for 200 ms");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(redis_outage, gives_up_on_a_greeting_that_is_not_answered)
{
        struct rig rig;

        rig_start(&rig, 2);
        rig.config.connect_timeout_ms = 200;
        rig_open(&rig);
        redis_server_pause(&rig.server);
        rig_deliver_all(&rig, 1);
        redis_server_resume(&rig.server);
        rig.config.connect_timeout_ms = 20000;
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "greeting within 200 ms");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(redis_outage, finds_the_answers_that_came_while_the_process_stood_still)
{
        struct rig rig;
        struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};

        rig_start(&rig, 2);
        rig.config.timeout_ms = 100;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 1);
        nanosleep(&pause, NULL); /* the pause is what is tested */
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(redis_outage, connects_again_after_an_idle_connection_was_closed)
{
        struct rig rig;

        rig_start(&rig, 1200);
        rig_open(&rig);
        rig_deliver_all(&rig, 200);
        redis_server_do(&rig.server, "CLIENT KILL TYPE normal");
        /* The connection is all that keeps the loop alive. */
        uv_run(&rig.driver.loop, UV_RUN_DEFAULT);
        /* These wait for the connection while the ring grows, from a place in its middle on. */
        rig_deliver_all(&rig, 1000);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1200);
        expect_stream_in_order(&rig.server, &rig);
        rig_stop(&rig);
}

/* The rabbitmq sink when RabbitMQ is short of memory, stands still, goes away or does not confirm. */
#include "rabbitmq_rig.h"

#include <stdio.h>
#include <stdlib.h>

#define NUMBER_OF_CONNECTIONS                                                                      \
        "length([1 || P <- rabbit_networking:connections(), [{vhost, <<\"%s\">>}] =:= "            \
        "(catch rabbit_networking:connection_info(P, [vhost]))])"

static void start(struct rig *rig, unsigned n_events)
{
        rig_start(rig, n_events);
        rig_add_queue(rig, "q", "#");
}

static bool is_to_be_blocked(void *context)
{
        const struct rig *rig = context;
        char *states = rabbitmq_eval(rig->server,
            "[S || P <- rabbit_networking:connections(), [{vhost, <<\"%s\">>}, {state, S}] <- "
            "[catch rabbit_networking:connection_info(P, [vhost, state])]]",
            rig->vhost);
        bool is_blocking = strcmp(states, "[blocking]") == 0;

        free(states);
        return is_blocking;
}

/* The connection, which is idle, has heard of the alarm: the next message is not read. */
static void raise_alarm(struct rig *rig)
{
        rabbitmq_set_alarm(rig->server, true);
        wait_until(is_to_be_blocked, rig, 10000, "the connection knows of the alarm");
}

/* Hands over one after the other; those before the news of the alarm are in flight. */
static bool has_refused_one(void *context)
{
        struct rig *rig = context;

        if (rig_count(rig, OUTCOME_SINK_DOWN) > 0)
                return true;
        rig_deliver(rig, 1);
        return false;
}

static bool is_last_finished(void *context)
{
        const struct rig *rig = context;

        return rig->driver.attempts[rig->driver.n_started - 1].is_finished;
}

/* What was sent stays with RabbitMQ and is confirmed after the alarm; what comes meanwhile is not
 * sent, and comes again. */
Test(rabbitmq_outage, waits_out_an_alarm)
{
        struct rig rig;
        size_t n, n_refused;

        start(&rig, 20000);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        raise_alarm(&rig);
        rig_deliver(&rig, 1);
        sink_driver_run_until(&rig.driver, has_refused_one, &rig, "RabbitMQ to block us");
        cr_expect_not(rig.driver.attempts[1].is_finished);
        n = rig.driver.n_started;
        rig_deliver(&rig, 1);
        sink_driver_run_until(&rig.driver, is_last_finished, &rig, "another refusal");
        expect_outcome(&rig, n, OUTCOME_SINK_DOWN, "RabbitMQ blocks us: low on memory");
        cr_expect_not(rig.driver.attempts[n].outcome.needs_operator);

        n_refused = rig_count(&rig, OUTCOME_SINK_DOWN);
        rabbitmq_set_alarm(rig.server, false);
        sink_driver_finish(&rig.driver);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, n + 1, OUTCOME_DELIVERED, "");
        json_decref(rig_drain(&rig, "q", (unsigned)(n + 2 - n_refused)));
        rig_stop(&rig);
}

/* A blocked message is not overdue; a blocked connection is given up. */
Test(rabbitmq_outage, gives_up_on_a_rabbitmq_that_blocks_too_long)
{
        struct rig rig;

        start(&rig, 20);
        rig.config.timeout_ms = 1000;
        rig.config.blocked_timeout_ms = 2500;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        raise_alarm(&rig);
        rig_deliver_all(&rig, 1);
        rabbitmq_set_alarm(rig.server, false);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "has blocked us for 2500 ms: low on memory");
        rig.config.timeout_ms = 20000;
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(rabbitmq_outage, gives_up_on_a_rabbitmq_that_stands_still)
{
        struct rig rig;

        start(&rig, 4);
        rig.config.timeout_ms = 300;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rabbitmq_server_pause(rig.server);
        rig_deliver_all(&rig, 2);
        rabbitmq_server_resume(rig.server);
        rig.config.timeout_ms = 20000;
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "has not answered for 300 ms");
        cr_expect(rig.driver.attempts[1].outcome.fault == OUTCOME_FAULT_TIMEOUT);
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "has not answered for 300 ms");
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(rabbitmq_outage, gives_up_on_a_greeting_that_is_not_answered)
{
        struct rig rig;

        start(&rig, 2);
        rig.config.connect_timeout_ms = 300;
        rig_open(&rig);
        rabbitmq_server_pause(rig.server);
        rig_deliver_all(&rig, 1);
        rabbitmq_server_resume(rig.server);
        rig.config.connect_timeout_ms = 20000;
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "greeting within 300 ms");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

static bool has_no_connection(void *context)
{
        struct rig *rig = context;
        char *n = rabbitmq_eval(rig->server, NUMBER_OF_CONNECTIONS, rig->vhost);
        bool has_none = strcmp(n, "0") == 0;

        free(n);
        return has_none;
}

static bool has_one_connection(void *context)
{
        return !has_no_connection(context);
}

/* An idle sink notices a dead RabbitMQ by its heartbeats, and RabbitMQ an idle sink by ours. */
Test(rabbitmq_outage, finds_a_dead_rabbitmq_by_its_heartbeats)
{
        struct rig rig;

        start(&rig, 2);
        rig.config.heartbeat_ms = 1000;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rabbitmq_server_pause(rig.server);
        uv_run(&rig.driver.loop, UV_RUN_DEFAULT); /* ends with the connection */
        rabbitmq_server_resume(rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

struct until {
        struct rig *rig;
        uint64_t end_ms;
};

static bool is_time(void *context)
{
        const struct until *until = context;

        return uv_now(&until->rig->driver.loop) >= until->end_ms;
}

/* Three intervals, of which RabbitMQ allows two without a word. */
Test(rabbitmq_outage, keeps_an_idle_connection_alive)
{
        struct rig rig;
        struct until until = {&rig, 0};

        start(&rig, 2);
        rig.config.heartbeat_ms = 1000;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        until.end_ms = uv_now(&rig.driver.loop) + 3500; /* the pause is what is tested */
        sink_driver_run_until(&rig.driver, is_time, &until, "idle seconds");
        cr_expect(has_one_connection(&rig));
        rig_stop(&rig);
}

Test(rabbitmq_outage, loses_what_is_in_flight_with_the_connection)
{
        struct rig rig;

        start(&rig, 11);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        raise_alarm(&rig); /* so that none is confirmed before */
        rig_deliver(&rig, 10);
        rabbitmq_do(rig.server,
            "[rabbit_networking:close_connection(P, \"on purpose\") || P <- "
            "rabbit_networking:connections(), [{vhost, <<\"%s\">>}] =:= "
            "(catch rabbit_networking:connection_info(P, [vhost]))]",
            rig.vhost);
        sink_driver_finish(&rig.driver);
        rabbitmq_set_alarm(rig.server, false);

        for (unsigned i = 1; i < 11; i++) {
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "closed the connection (320)");
                cr_expect_not(rig.driver.attempts[i].outcome.needs_operator);
        }
        rig_stop(&rig);
}

Test(rabbitmq_outage, connects_again_after_an_idle_connection_was_closed)
{
        struct rig rig;

        start(&rig, 20);
        rig_open(&rig);
        rig_deliver_all(&rig, 10);
        rabbitmq_do(rig.server,
            "[rabbit_networking:close_connection(P, \"on purpose\") || P <- "
            "rabbit_networking:connections(), [{vhost, <<\"%s\">>}] =:= "
            "(catch rabbit_networking:connection_info(P, [vhost]))]",
            rig.vhost);
        uv_run(&rig.driver.loop, UV_RUN_DEFAULT); /* ends with the connection */
        rig_deliver_all(&rig, 10);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 20);
        expect_events(&rig, "q", 0, 20);
        rig_stop(&rig);
}

Test(rabbitmq_outage, cancels_what_is_in_flight_and_goes_on)
{
        struct rig rig;

        start(&rig, 20);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rabbitmq_server_pause(rig.server);
        rig_deliver(&rig, 9);
        rabbitmq_sink_ops.cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 9);
        rabbitmq_server_resume(rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 10, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

static void on_first_finished(struct sink_driver *driver)
{
        if (driver->n_finished == 1)
                rabbitmq_sink_ops.cancel(driver->sink);
}

/* What is confirmed in the same turn is known, and stays so. */
Test(rabbitmq_outage, may_be_cancelled_while_an_attempt_finishes)
{
        struct rig rig;

        start(&rig, 20);
        rig_open(&rig);
        rig.driver.on_finished = on_first_finished;
        rig_deliver_all(&rig, 10);

        cr_expect(rig.driver.n_finished == 10);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) >= 1);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) + rig_count(&rig, OUTCOME_CANCELLED) == 10);
        rig_stop(&rig);
}

/* RabbitMQ's log warns of clients that just hang up. */
Test(rabbitmq_outage, says_goodbye)
{
        struct rig rig;
        char path[160];
        char *log;

        start(&rig, 1);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        sink_driver_close(&rig.driver);
        wait_until(has_no_connection, &rig, 10000, "the connection stays");
        snprintf(path, sizeof path, "%s/log/%s.log", rig.server->folder, rig.server->name);
        log = read_file(path);
        cr_expect(strstr(log, "pgcourier, sink driven") != NULL, "RabbitMQ knows our name");
        for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n"))
                cr_expect(
                    strstr(line, "unexpectedly closed") == NULL || strstr(line, rig.vhost) == NULL,
                    "%s", line);
        free(log);
        rig_stop(&rig);
}

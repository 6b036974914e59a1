/* The nats sink: a real server, or a cluster, that is away, goes away, or falls silent. */
#include "nats_rig.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Test(nats_outage, is_down_while_nothing_listens_and_works_once_it_does)
{
        struct rig rig;

        rig_start(&rig, 5, NULL);
        nats_server_kill(&rig.server);
        rig_open(&rig);
        rig_deliver_all(&rig, 2);
        rig_deliver_all(&rig, 1);
        nats_server_restart(&rig.server);
        rig_deliver_all(&rig, 2);

        for (unsigned i = 0; i < 3; i++) {
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "Connection refused");
                cr_expect(!rig.driver.attempts[i].outcome.needs_operator);
        }
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 4, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outage, is_down_while_the_host_has_no_address)
{
        struct nats_server server = {.port = 1};
        struct rig rig;

        rig_init(&rig, &server, 1);
        free(rig.servers[0]);
        rig.servers[0] = xstrdup("nowhere.invalid:4222");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot resolve nowhere.invalid");
        rig_destroy(&rig);
}

/* What was stored without an answer comes again, and the stream knows it. */
Test(nats_outage, loses_and_repeats_nothing_while_the_server_is_killed_again_and_again)
{
        enum { ROUNDS = 20, BURST = 200 };
        struct rig rig;
        unsigned n_delivered = 0;

        rig_start(&rig, ROUNDS * BURST * 2, NULL);
        rig_open(&rig);
        for (unsigned round = 0; round < ROUNDS; round++) {
                size_t first = rig.driver.n_started;

                rig_deliver(&rig, BURST);
                for (unsigned turn = 0; turn < round % 7; turn++)
                        uv_run(&rig.driver.loop, UV_RUN_NOWAIT);
                nats_server_kill(&rig.server);
                sink_driver_finish(&rig.driver);
                nats_server_restart(&rig.server);
                /* The relay's part: those that were not delivered come again, as they are. */
                for (size_t i = first; i < first + BURST; i++) {
                        enum outcome_kind kind = rig.driver.attempts[i].outcome.kind;
                        cr_assert(kind == OUTCOME_DELIVERED || kind == OUTCOME_SINK_DOWN, "%s",
                            rig.driver.attempts[i].outcome.reason);
                        n_delivered += kind == OUTCOME_DELIVERED;
                        if (kind == OUTCOME_SINK_DOWN)
                                sink_driver_start(&rig.driver, &rig.events[i]);
                }
                sink_driver_flush(&rig.driver);
                sink_driver_finish(&rig.driver);
                for (size_t i = first + BURST; i < rig.driver.n_started; i++)
                        n_delivered += rig.driver.attempts[i].outcome.kind == OUTCOME_DELIVERED;
        }

        cr_expect(n_delivered == ROUNDS * BURST, "%u", n_delivered);
        cr_expect(nats_server_count(&rig.server, "S") == ROUNDS * BURST, "%lld",
            nats_server_count(&rig.server, "S"));
        rig_stop(&rig);
}

Test(nats_outage, gives_up_on_a_server_that_does_not_answer)
{
        struct rig rig;

        rig_start(&rig, 4, NULL);
        rig.config.timeout_ms = 200;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        nats_server_pause(&rig.server);
        rig_deliver_all(&rig, 2);
        nats_server_resume(&rig.server);
        rig_deliver_all(&rig, 1);

        for (unsigned i = 1; i < 3; i++) {
                expect_outcome(&rig, i, OUTCOME_SINK_DOWN, "has not answered for 200 ms");
                cr_expect(rig.driver.attempts[i].outcome.fault == OUTCOME_FAULT_TIMEOUT);
        }
        expect_outcome(&rig, 3, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outage, gives_up_on_a_greeting_that_does_not_come)
{
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.config.connect_timeout_ms = 200;
        rig_open(&rig);
        nats_server_pause(&rig.server);
        rig_deliver_all(&rig, 1);
        nats_server_resume(&rig.server);
        rig.config.connect_timeout_ms = 20000;
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "within 200 ms");
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

/* An idle connection, on which nothing else would show that the server is gone. */
Test(nats_outage, leaves_a_server_that_does_not_answer_pings, .timeout = 60)
{
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.config.ping_ms = 100;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        nats_server_pause(&rig.server);
        /* The connection is all that keeps the loop alive. */
        uv_run(&rig.driver.loop, UV_RUN_DEFAULT);
        nats_server_resume(&rig.server);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

Test(nats_outage, finds_the_answers_that_came_while_the_process_stood_still)
{
        struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
        struct rig rig;

        rig_start(&rig, 2, NULL);
        rig.config.timeout_ms = 100;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 1);
        nanosleep(&pause, NULL); /* the pause is what is tested */
        sink_driver_finish(&rig.driver);

        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        rig_stop(&rig);
}

struct reader {
        struct process process;
        char *output;
};

static bool is_reading(void *context)
{
        char *text = read_file(((const struct reader *)context)->output);
        bool is_ready = strstr(text, "reading") != NULL;

        free(text);
        return is_ready;
}

static void start_reader(struct reader *reader, const struct nats_server *server)
{
        char port[8];

        snprintf(port, sizeof port, "%u", server->port);
        reader->output = xasprintf("%s/reader.txt", server->folder);
        process_start(&reader->process,
            (const char *const[]){"/usr/bin/python3",
                PGCOURIER_TESTS_FOLDER "/support/nats_reader.py", "subscribe", port, "unheard.>",
                NULL},
            reader->output, false);
        wait_until(is_reading, reader, 10000, "nats_reader.py does not read");
}

static void stop_reader(struct reader *reader)
{
        process_kill(&reader->process);
        free(reader->output);
}

/* A subject that somebody reads, but no stream: nobody answers. */
Test(nats_outage, asks_for_another_try_where_only_the_acknowledgement_is_missing)
{
        static char subject[] = "unheard.orders";
        struct reader reader;
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig.config.subject = subject;
        rig.config.timeout_ms = 300;
        start_reader(&reader, &rig.server);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_RETRY, "no acknowledgement within 300 ms");
        cr_expect(rig.driver.attempts[0].outcome.is_unanswered);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_TIMEOUT);
        stop_reader(&reader);
        rig_stop(&rig);
}

Test(nats_outage, goes_on_with_the_next_server_of_the_list)
{
        struct nats_server away = {.port = free_port()};
        struct rig rig;

        rig_start(&rig, 1, NULL);
        rig_add_server(&rig, &away);
        for (unsigned i = 0; i < 8; i++) { /* whichever is first */
                rig_open(&rig);
                rig_deliver_all(&rig, 1);
                expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
                sink_driver_deinit(&rig.driver);
        }
        rig_open(&rig);
        rig_stop(&rig);
}

Test(nats_outage, names_what_each_server_said)
{
        struct nats_server away = {.port = free_port()};
        struct nats_server closed;
        struct rig rig;

        nats_server_start(&closed, "authorization { token: x }\n");
        rig_init(&rig, &closed, 1);
        rig_add_server(&rig, &away);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "Connection refused");
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "Authorization Violation");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&rig);
        nats_server_destroy(&closed);
}

Test(nats_outage, goes_elsewhere_where_a_server_has_too_many_connections)
{
        struct nats_server full;
        struct reader reader;
        struct rig rig;

        nats_server_start(&full, "max_connections: 1\n");
        start_reader(&reader, &full);
        rig_start(&rig, 1, NULL);
        rig_add_server(&rig, &full);
        for (unsigned i = 0; i < 8; i++) { /* whichever is first */
                rig_open(&rig);
                rig_deliver_all(&rig, 1);
                expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
                sink_driver_deinit(&rig.driver);
        }
        rig_open(&rig);
        rig_stop(&rig);
        stop_reader(&reader);
        nats_server_destroy(&full);
}

/* The rabbitmq sink and a server that says what a real one cannot be brought to say. */
#include "rabbitmq_rig.h"

#include <stdio.h>

/* Frames of channel 1: basic.ack of the first message; a method that does not exist, 0.0. */
#define ACK     "0100010000000d003c0050000000000000000100ce"
#define NO_SUCH "0100010000000400000000ce"

struct liar {
        struct process process;
        uint16_t port;
        struct rig rig;
        uint64_t later_ms; /* of uv_now() */
};

static bool listens(void *context)
{
        return port_accepts(((const struct liar *)context)->port);
}

static void start(struct liar *liar, unsigned n_events, const char *answer)
{
        char port[8];

        *liar = (struct liar){.port = free_port()};
        snprintf(port, sizeof port, "%u", liar->port);
        process_start(&liar->process,
            (const char *const[]){"/usr/bin/python3",
                PGCOURIER_TESTS_FOLDER "/support/rabbitmq_liar.py", port, "500", answer, NULL},
            NULL, false);
        wait_until(listens, liar, 10000, "rabbitmq_liar.py does not listen");
        rig_init(&liar->rig, liar->port, n_events);
}

static void stop(struct liar *liar)
{
        rig_stop(&liar->rig);
        process_kill(&liar->process);
}

/* Or the tests below would mean nothing. */
Test(rabbitmq_liar, is_believed_when_it_is_honest)
{
        struct liar liar;

        start(&liar, 1, ACK);
        rig_open(&liar.rig);
        rig_deliver_all(&liar.rig, 1);
        expect_outcome(&liar.rig, 0, OUTCOME_DELIVERED, "");
        stop(&liar);
}

Test(rabbitmq_liar, ends_a_connection_that_makes_no_sense)
{
        static const struct {
                const char *answer;
                const char *words;
        } lies[] = {{NO_SUCH, "method 0.0 out of turn"},
            {"0100010000000d003c0050000000000000000200ce", "confirms a message that was not sent"},
            {"01000100ffffff", "larger than agreed on"},
            {"0100010000000400140029ce", "it sent method 20.41 out of turn"}};

        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
                struct liar liar;

                start(&liar, 1, lies[i].answer);
                rig_open(&liar.rig);
                rig_deliver_all(&liar.rig, 1);
                expect_outcome(&liar.rig, 0, OUTCOME_SINK_DOWN, lies[i].words);
                cr_expect(liar.rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_PROTOCOL);
                stop(&liar);
        }
}

static bool is_later(void *context)
{
        const struct liar *liar = context;

        return uv_now(&liar->rig.driver.loop) >= liar->later_ms;
}

/* It lives, and confirms nothing: each event has its own limit, also the one sent last. */
Test(rabbitmq_liar, gives_each_event_its_own_limit)
{
        struct liar liar;

        start(&liar, 2, "");
        liar.rig.config.timeout_ms = 600;
        rig_open(&liar.rig);
        rig_deliver(&liar.rig, 1);
        liar.later_ms = uv_now(&liar.rig.driver.loop) + 800; /* the distance is what is tested */
        sink_driver_run_until(&liar.rig.driver, is_later, &liar, "some time to pass");
        rig_deliver_all(&liar.rig, 1);
        expect_outcome(&liar.rig, 0, OUTCOME_RETRY, "no confirm within 600 ms");
        expect_outcome(&liar.rig, 1, OUTCOME_RETRY, "no confirm within 600 ms");
        stop(&liar);
}

/* The nats sink and a server that says what a real one cannot be brought to say. */
#include "nats_rig.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HONEST "{\"headers\":true,\"max_payload\":1048576}"
#define ACK    "MSG REPLY 1 22\\r\\n{\"stream\":\"S\",\"seq\":1}\\r\\n"

struct liar {
        struct process process;
        struct rig rig;
};

static bool listens(void *context)
{
        return port_accepts(((const struct liar *)context)->rig.server.port);
}

/* `answers` ends with NULL. */
static void start_with(
    struct liar *liar, unsigned n_events, const char *info, const char *const *answers)
{
        const struct nats_server server = {.port = free_port()};
        char port[8];
        const char *words[10] = {
            "/usr/bin/python3", PGCOURIER_TESTS_FOLDER "/support/nats_liar.py", port, info};

        for (size_t i = 0; answers[i] != NULL; i++)
                words[4 + i] = answers[i];
        rig_init(&liar->rig, &server, n_events);
        liar->rig.server = server;
        snprintf(port, sizeof port, "%u", server.port);
        process_start(&liar->process, words, NULL, false);
        wait_until(listens, liar, 10000, "nats_liar.py does not listen");
}

static void start(struct liar *liar, unsigned n_events, const char *info, const char *reply)
{
        start_with(liar, n_events, info, (const char *const[]){reply, NULL});
        rig_open(&liar->rig);
}

static void stop(struct liar *liar)
{
        rig_destroy(&liar->rig);
        process_kill(&liar->process);
}

/* Or the tests below would mean nothing. */
Test(nats_liar, is_believed_when_it_is_honest)
{
        struct liar liar;

        start(&liar, 3, HONEST, ACK);
        rig_deliver_all(&liar.rig, 3);
        cr_expect(rig_count(&liar.rig, OUTCOME_DELIVERED) == 3);
        stop(&liar);
}

struct lie {
        const char *reply;
        enum outcome_kind kind;
        enum outcome_fault fault;
        const char *words;
};

static void expect_seen_through(const struct lie *lies, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                struct liar liar;
                const struct outcome *outcome;

                start(&liar, 1, HONEST, lies[i].reply);
                liar.rig.config.timeout_ms = 300;
                rig_deliver_all(&liar.rig, 1);
                outcome = &liar.rig.driver.attempts[0].outcome;
                expect_outcome(&liar.rig, 0, lies[i].kind, lies[i].words);
                cr_expect(
                    outcome->fault == lies[i].fault, "%s: fault %d", lies[i].reply, outcome->fault);
                cr_expect(!outcome->needs_operator, "%s", outcome->reason);
                stop(&liar);
        }
}

#define IN_TIME "no acknowledgement within 300 ms"

Test(nats_liar, settles_nothing_by_an_answer_that_is_none)
{
        static const struct lie lies[] = {
            {"MSG REPLY 1 3\\r\\n+OK\\r\\n", OUTCOME_RETRY, OUTCOME_FAULT_PROTOCOL, "not one of"},
            {"MSG REPLY 1 0\\r\\n\\r\\n", OUTCOME_RETRY, OUTCOME_FAULT_PROTOCOL, "not one of"},
            {"MSG REPLY 1 22\\r\\n{\"stream\":\"S\",\"seq\":0}\\r\\n", OUTCOME_RETRY,
                OUTCOME_FAULT_PROTOCOL, "not one of"},
            {"HMSG REPLY 1 16 38\\r\\nNATS/1.0 408\\r\\n\\r\\n{\"stream\":\"S\",\"seq\":1}\\r\\n",
                OUTCOME_RETRY, OUTCOME_FAULT_PROTOCOL, "status 408"},
            {"MSG REPLYx 1 22\\r\\n{\"stream\":\"S\",\"seq\":1}\\r\\n", OUTCOME_RETRY,
                OUTCOME_FAULT_TIMEOUT, IN_TIME},
            {"MSG x 1 22\\r\\n{\"stream\":\"S\",\"seq\":1}\\r\\n", OUTCOME_RETRY,
                OUTCOME_FAULT_TIMEOUT, IN_TIME},
            {"+OK\\r\\n-ERR 'Invalid Subject'\\r\\n", OUTCOME_RETRY, OUTCOME_FAULT_TIMEOUT,
                IN_TIME}};

        expect_seen_through(lies, sizeof lies / sizeof *lies);
}

Test(nats_liar, ends_a_connection_that_makes_no_sense)
{
        static const struct lie lies[] = {
            {"HELLO\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_PROTOCOL, "not of NATS' protocol"},
            {"MSG REPLY 1 99999999\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_PROTOCOL, "too long"},
            {"MSG REPLY 1 1\\r\\nabcd\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_PROTOCOL,
                "longer or shorter"},
            {"INFO []\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_PROTOCOL, "makes no sense"}};

        expect_seen_through(lies, sizeof lies / sizeof *lies);
}

/* Credentials that were renewed may help at once, so nobody is called before they are tried. */
Test(nats_liar, connects_again_when_credentials_expire_on_the_way)
{
        static const struct lie lies[] = {
            {"-ERR 'User Authentication Expired'\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_AUTH,
                "User Authentication Expired"},
            {"-ERR 'Stale Connection'\\r\\n", OUTCOME_SINK_DOWN, OUTCOME_FAULT_LOST,
                "Stale Connection"}};

        expect_seen_through(lies, sizeof lies / sizeof *lies);
}

Test(nats_liar, loses_its_right_to_read_answers_on_the_way)
{
        struct liar liar;

        start(&liar, 1, HONEST,
            "-ERR 'Permissions Violation for Subscription to \"_INBOX.a.*\"'\\r\\n");
        rig_deliver_all(&liar.rig, 1);
        expect_outcome(&liar.rig, 0, OUTCOME_SINK_DOWN, "no acknowledgement reaches us");
        cr_expect(liar.rig.driver.attempts[0].outcome.needs_operator);
        stop(&liar);
}

Test(nats_liar, is_refused_when_it_is_too_old)
{
        struct liar liar;

        start(&liar, 1, "{\"max_payload\":1048576}", ACK);
        rig_deliver_all(&liar.rig, 1);
        expect_outcome(&liar.rig, 0, OUTCOME_SINK_DOWN, "older than NATS 2.2");
        cr_expect(liar.rig.driver.attempts[0].outcome.needs_operator);
        stop(&liar);
}

#define NO_STREAM "HMSG REPLY 1 16 16\\r\\nNATS/1.0 503\\r\\n\\r\\n\\r\\n"

/* One event finds no stream, and JetStream does not say whether there is one: the other, which was
 * sent with it, has no connection left to be answered by. */
Test(nats_liar, leaves_nothing_behind_on_a_connection_that_is_given_up)
{
        static char name[] = "S";
        static char subject[] = "events.>";
        static char *subjects[] = {subject};
        static const char *const answers[] = {
            "MSG REPLY 1 23\\r\\n{\"config\":{\"name\":\"S\"}}\\r\\n", NO_STREAM, "SILENCE",
            NO_STREAM, NULL};
        struct nats_stream_config stream = {.subjects = subjects, .n_subjects = 1, .replicas = 1};
        struct liar liar;

        start_with(&liar, 2, HONEST, answers);
        liar.rig.config.stream = name;
        liar.rig.config.create_stream = &stream;
        liar.rig.config.timeout_ms = 300;
        rig_open(&liar.rig);
        rig_deliver_all(&liar.rig, 2);
        expect_outcome(&liar.rig, 0, OUTCOME_SINK_DOWN, "no stream takes");
        expect_outcome(&liar.rig, 1, OUTCOME_SINK_DOWN, "JetStream does not answer");
        stop(&liar);
}

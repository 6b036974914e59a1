/* How the sink finds its host: a name server of our own that answers as told, and counts. */
#include "http_fixture.h"

#include "base/list.h"
#include "sinks/sink_contract.h"
#include "support/dns_server.h"

#include <stdlib.h>

#define HOST "receiver.test"

static struct dns_server *names;

static void start_names(void)
{
        names = dns_server_start();
        dns_server_answer(names, "127.0.0.1");
        dns_server_use(names);
}

static void end_names(void)
{
        dns_server_destroy(names);
}

TestSuite(http_sink_names, .init = start_names, .fini = end_names);

static void begin(struct http_fixture *fixture)
{
        http_fixture_init(fixture);
        snprintf(fixture->url, sizeof fixture->url, "http://" HOST ":%u/",
            http_receiver_port(fixture->receiver));
        fixture->config.connect_timeout_ms = 400;
        http_fixture_open(fixture);
}

HTTP_TEST(http_sink_names, asks_once_for_all_that_wait_and_never_inside_libcurl)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture);
        for (unsigned i = 0; i < 5; i++)
                sink_driver_start(&fixture.driver, &event);
        sink_driver_finish(&fixture.driver);
        for (unsigned i = 0; i < 5; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        expect_outcome(sink_driver_probe(&fixture.driver), OUTCOME_DELIVERED);

        cr_expect_eq(dns_server_n_asked(names), 1);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_names, recovers_when_the_name_appears)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        dns_server_answer(names, NULL);
        begin(&fixture);
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "no address");

        dns_server_answer(names, "127.0.0.1");
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_names, gives_up_on_name_servers_that_do_not_answer)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        dns_server_mute(names);
        begin(&fixture);
        for (int i = 0; i < 2; i++) {
                outcome = sink_driver_deliver(&fixture.driver, &event);
                expect_outcome(outcome, OUTCOME_SINK_DOWN);
                expect_reason(outcome, "did not answer in time");
        }

        dns_server_answer(names, "127.0.0.1");
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

static bool is_delivered(void *context)
{
        struct http_fixture *fixture = context;
        const struct event event = json_event("{}");

        return sink_driver_deliver(&fixture->driver, &event).kind == OUTCOME_DELIVERED;
}

/* The old address serves until the new one is known: a few more attempts may fail. */
HTTP_TEST(http_sink_names, finds_a_receiver_that_has_moved)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        dns_server_answer(names, "127.0.0.2"); /* nothing listens there */
        begin(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_SINK_DOWN);

        dns_server_answer(names, "127.0.0.1");
        while (!is_delivered(&fixture))
                ;
        http_fixture_end(&fixture);
}

static bool was_asked_again(void *context)
{
        (void)context;
        return dns_server_n_asked(names) >= 2;
}

HTTP_TEST(http_sink_names, keeps_old_addresses_when_asking_again_fails)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_receiver_stop(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_SINK_DOWN);

        dns_server_answer(names, NULL);
        http_receiver_restart(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        sink_driver_run_until(&fixture.driver, was_asked_again, NULL, "a second look-up");
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_sink_names, closes_while_a_look_up_is_stuck)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        dns_server_mute(names);
        begin(&fixture);
        sink_driver_start(&fixture.driver, &event);
        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[0].outcome, OUTCOME_CANCELLED);

        sink_driver_close(&fixture.driver);
        dns_server_answer(names, "127.0.0.1");
        http_fixture_end(&fixture);
}

struct hanging_sink {
        struct sink *sink;
        struct http_config config;
        struct event event;
        struct attempt attempt;
        unsigned n_finished;
        bool is_closed;
};

static void on_hanging_finished(struct attempt *attempt, const struct outcome *outcome)
{
        struct hanging_sink *hanging = attempt->owner;

        cr_expect_eq(outcome->kind, OUTCOME_CANCELLED, "%s", outcome->reason);
        hanging->n_finished++;
}

static void on_hanging_closed(void *owner)
{
        ((struct hanging_sink *)owner)->is_closed = true;
}

static void hanging_sink_open(struct hanging_sink *hanging, uv_loop_t *loop, char *url)
{
        const struct sink_settings settings = {
            .name = "hanging", .options = &hanging->config, .loop = loop, .concurrency = 20};
        struct error error;

        *hanging = (struct hanging_sink){
            .config = {.url = url, .connect_timeout_ms = 600000, .timeout_ms = 600000},
            .event = json_event("{}")};
        hanging->sink = http_sink_ops.open(&settings, &error);
        cr_assert(hanging->sink != NULL, "%s", error.text);
        hanging->attempt = (struct attempt){.event = &hanging->event,
            .number = 1,
            .on_finished = on_hanging_finished,
            .owner = hanging};
        sink_deliver(hanging->sink, &hanging->attempt);
}

static bool is_hanging_finished(void *context)
{
        return ((struct hanging_sink *)context)->n_finished == 1;
}

static bool is_hanging_closed(void *context)
{
        return ((struct hanging_sink *)context)->is_closed;
}

/* Far more than there are threads in any pool. */
HTTP_TEST(http_sink_names, hang_for_one_sink_and_delay_no_other)
{
        enum { N_HANGING = 100 };
        static struct hanging_sink hanging[N_HANGING];
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        char url[] = "http://mute.test/";

        begin(&fixture);
        for (int i = 0; i < N_HANGING; i++)
                hanging_sink_open(&hanging[i], &fixture.driver.loop, url);
        for (int i = 0; i < 20; i++)
                expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        for (int i = 0; i < N_HANGING; i++) {
                cr_expect_eq(hanging[i].n_finished, 0);
                sink_cancel(hanging[i].sink);
        }
        for (int i = 0; i < N_HANGING; i++) {
                sink_driver_run_until(
                    &fixture.driver, is_hanging_finished, &hanging[i], "a cancelled attempt");
                sink_close(hanging[i].sink, on_hanging_closed, &hanging[i]);
                sink_driver_run_until(&fixture.driver, is_hanging_closed, &hanging[i], "a close");
        }
        http_fixture_end(&fixture);
}

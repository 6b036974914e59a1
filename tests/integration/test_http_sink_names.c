/*
 * How the sink finds its host. The name service is scripted: this program's own getaddrinfo()
 * stands before the C library's, for libuv and libcurl alike, and counts who asks.
 */
#include "http_fixture.h"

#include "sinks/sink.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>

#define HOST "receiver.test"

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        const char *address; /* NULL: there is no such name */
        bool is_mute;        /* answers only when this has been cleared */
        unsigned n_asked;
} names = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, "127.0.0.1", false, 0};

/* NOLINTNEXTLINE: the C library's own name */
int getaddrinfo(const char *restrict name, const char *restrict service,
    const struct addrinfo *restrict hints, struct addrinfo **restrict out_addresses)
{
        getaddrinfo_fn *real;
        const char *address;

        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        if (strcmp(name, HOST) != 0)
                return real(name, service, hints, out_addresses);
        pthread_mutex_lock(&names.lock);
        names.n_asked++;
        while (names.is_mute)
                pthread_cond_wait(&names.changed, &names.lock);
        address = names.address;
        pthread_mutex_unlock(&names.lock);
        return address != NULL ? real(address, service, hints, out_addresses) : EAI_NONAME;
}

static void names_answer(const char *address)
{
        pthread_mutex_lock(&names.lock);
        names.address = address;
        names.is_mute = false;
        pthread_cond_broadcast(&names.changed);
        pthread_mutex_unlock(&names.lock);
}

static unsigned n_asked(void)
{
        unsigned n;

        pthread_mutex_lock(&names.lock);
        n = names.n_asked;
        pthread_mutex_unlock(&names.lock);
        return n;
}

static void begin(struct http_fixture *fixture)
{
        http_fixture_init(fixture);
        snprintf(fixture->url, sizeof fixture->url, "http://" HOST ":%u/",
            http_receiver_port(fixture->receiver));
        fixture->config.connect_timeout_ms = 400;
        http_fixture_open(fixture);
}

Test(http_sink_names, asks_once_for_all_that_wait_and_never_inside_libcurl)
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

        cr_expect_eq(n_asked(), 1, "asked %u times", n_asked());
        http_fixture_end(&fixture);
}

Test(http_sink_names, recovers_when_the_name_appears)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        names_answer(NULL);
        begin(&fixture);
        outcome = sink_driver_deliver(&fixture.driver, &event);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        expect_reason(outcome, "no address");

        names_answer("127.0.0.1");
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

Test(http_sink_names, gives_up_on_name_servers_that_do_not_answer)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");
        struct outcome outcome;

        names.is_mute = true;
        begin(&fixture);
        for (int i = 0; i < 2; i++) {
                outcome = sink_driver_deliver(&fixture.driver, &event);
                expect_outcome(outcome, OUTCOME_SINK_DOWN);
                expect_reason(outcome, "did not answer in time");
        }
        cr_expect_eq(n_asked(), 1, "the thread pool would fill with stuck look-ups");

        names_answer("127.0.0.1");
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
Test(http_sink_names, finds_a_receiver_that_has_moved)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        names_answer("127.0.0.2"); /* nothing listens there */
        begin(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_SINK_DOWN);

        names_answer("127.0.0.1");
        while (!is_delivered(&fixture))
                ;
        http_fixture_end(&fixture);
}

static bool was_asked_again(void *context)
{
        (void)context;
        return n_asked() >= 2;
}

Test(http_sink_names, keeps_old_addresses_when_asking_again_fails)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        begin(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_receiver_stop(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_SINK_DOWN);

        names_answer(NULL);
        http_receiver_restart(fixture.receiver);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        sink_driver_run_until(&fixture.driver, was_asked_again, NULL, "a second look-up");
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
}

Test(http_sink_names, closes_while_a_look_up_is_stuck)
{
        struct http_fixture fixture;
        const struct event event = json_event("{}");

        names.is_mute = true;
        begin(&fixture);
        sink_driver_start(&fixture.driver, &event);
        sink_cancel(fixture.driver.sink);
        sink_driver_finish(&fixture.driver);
        expect_outcome(fixture.driver.attempts[0].outcome, OUTCOME_CANCELLED);

        sink_driver_close(&fixture.driver);
        names_answer("127.0.0.1");
        http_fixture_end(&fixture);
}

/* receivers: table: receivers that come and go while the sink runs, each with what is its own. */
#include "http_fixture.h"
#include "http_verify.h"

#include "base/alloc.h"
#include "base/error.h"
#include "sinks/sink_contract.h"

#include <sys/resource.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OTHER  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define OWN    "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"

static void allow_port(struct http_fixture *fixture, unsigned port)
{
        static char texts[4][8];
        static char *ports[4];
        unsigned n = fixture->config.n_allow_ports;

        snprintf(texts[n], sizeof texts[n], "%u", port);
        ports[n] = texts[n];
        fixture->config.allow_ports = ports;
        fixture->config.n_allow_ports++;
}

/* Receivers of a table may not be on this machine, unless the configuration says so. */
static void begin_table(struct http_fixture *fixture)
{
        static char loopback[] = "127.0.0.0/8";
        static char *networks[] = {loopback};

        http_fixture_init(fixture);
        fixture->concurrency = 0;
        fixture->config.allow_networks = networks;
        fixture->config.n_allow_networks = 1;
        allow_port(fixture, http_receiver_port(fixture->receiver));
        fixture->config.url = NULL;
        fixture->config.receivers = HTTP_RECEIVERS_TABLE;
}

static void *open_target(struct http_fixture *fixture, const struct target_settings *settings)
{
        struct error error = {.kind = ERROR_NONE};
        void *target = http_sink_ops.open_target(fixture->driver.sink, settings, &error);

        cr_assert_not_null(target, "%s", error.text);
        return target;
}

static void *open_url(struct http_fixture *fixture, const char *url)
{
        const struct target_settings settings = {.name = "one", .url = url};

        return open_target(fixture, &settings);
}

static void close_target(struct http_fixture *fixture, void *target)
{
        http_sink_ops.close_target(fixture->driver.sink, target);
}

static char *url_at(const struct http_receiver *receiver, const char *path)
{
        return xasprintf("http://127.0.0.1:%u%s", http_receiver_port(receiver), path);
}

static struct outcome deliver_to(
    struct http_fixture *fixture, void *target, const struct event *event)
{
        fixture->driver.target = target;
        return sink_driver_deliver(&fixture->driver, event);
}

HTTP_TEST(http_targets, gives_each_receiver_its_own_secrets_and_headers)
{
        struct http_fixture fixture;
        const struct event event = json_event("{\"n\": 1}");
        char name[] = "X-Common";
        char common[] = "all";
        char replaced[] = "X-Team";
        struct http_set_header set[] = {{name, common}, {replaced, common}};
        const char *const secrets[] = {OTHER, SECRET};
        const char *const own[] = {OWN};
        const struct event_header header = {"x-team", "red"};
        void *first;
        void *second;
        char *first_url;
        char *second_url;

        begin_table(&fixture);
        fixture.config.set_headers = set;
        fixture.config.n_set_headers = 2;
        http_fixture_open(&fixture);
        first_url = url_at(fixture.receiver, "/first?token=s3cret");
        second_url = url_at(fixture.receiver, "/second");
        first = open_target(&fixture,
            &(struct target_settings){.url = first_url, .secrets = secrets, .n_secrets = 2});
        second = open_target(&fixture, &(struct target_settings){.url = second_url,
                                           .secrets = own,
                                           .n_secrets = 1,
                                           .headers = &header,
                                           .n_headers = 1});

        expect_outcome(deliver_to(&fixture, first, &event), OUTCOME_DELIVERED);
        expect_outcome(deliver_to(&fixture, second, &event), OUTCOME_DELIVERED);

        const struct http_request *to_first = http_receiver_request(fixture.receiver, 0);
        const struct http_request *to_second = http_receiver_request(fixture.receiver, 1);
        char described[64];

        cr_expect_str_eq(to_first->target, "/first?token=s3cret");
        expect_signature_verified(to_first, "standard", SECRET);
        expect_signature_verified(to_first, "standard", OTHER);
        cr_expect_not(is_signature_verified(to_first, "standard", OWN));
        expect_header(to_first, "x-common", "all");
        expect_header(to_first, "x-team", "all");
        cr_expect_str_eq(to_second->target, "/second");
        expect_signature_verified(to_second, "standard", OWN);
        cr_expect_not(is_signature_verified(to_second, "standard", SECRET));
        expect_header(to_second, "x-common", "all");
        expect_header(to_second, "x-team", "red");
        http_sink_ops.describe_target(
            fixture.driver.sink, &event, first, described, sizeof described);
        cr_expect(strstr(described, "/first") != NULL, "%s", described);
        cr_expect(strstr(described, "s3cret") == NULL, "%s", described);

        close_target(&fixture, first);
        close_target(&fixture, second);
        http_fixture_end(&fixture);
        free(first_url);
        free(second_url);
}

static void expect_no_target(struct http_fixture *fixture, const char *url, const char *secret,
    const struct event_header *header, const char *words)
{
        const struct target_settings settings = {.name = "bad",
            .url = url,
            .secrets = &secret,
            .n_secrets = secret != NULL,
            .headers = header,
            .n_headers = header != NULL};
        struct error error = {.kind = ERROR_NONE};

        cr_expect_null(http_sink_ops.open_target(fixture->driver.sink, &settings, &error),
            "accepted: %s", words);
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect(strstr(error.text, words) != NULL, "%s", error.text);
        cr_expect(strstr(error.text, "hunter2") == NULL, "%s", error.text);
}

HTTP_TEST(http_targets, refuses_receivers_it_could_never_serve)
{
        static const char good[] = "https://example.net/hook";
        struct http_fixture fixture;

        begin_table(&fixture);
        http_fixture_open(&fixture);
        expect_no_target(&fixture, "example.net", NULL, NULL, "the receiver's url is not a URL");
        expect_no_target(&fixture, "", NULL, NULL, "is not a URL");
        expect_no_target(&fixture, "ftp://example.net/", NULL, NULL, "ftp://");
        expect_no_target(&fixture, "file:///etc/passwd", NULL, NULL, "is not a URL");
        expect_no_target(&fixture, "https:///hook", NULL, NULL, "is not a URL");
        expect_no_target(&fixture, "https://example.net/a\r\nb", NULL, NULL, "is not a URL");
        expect_no_target(
            &fixture, "https://me:hunter2@example.net/", NULL, NULL, "before its host");
        expect_no_target(&fixture, good, "hunter2", NULL, "whsec_");
        expect_no_target(&fixture, good, NULL, &(struct event_header){"Host", "x"}, "Host");
        expect_no_target(
            &fixture, good, NULL, &(struct event_header){"webhook-id", "x"}, "webhook-id");
        expect_no_target(&fixture, good, NULL, &(struct event_header){"a b", "x"}, "a b");
        expect_no_target(
            &fixture, good, NULL, &(struct event_header){"X-A", "hunter2\r\nX-B: y"}, "line break");
        expect_no_target(
            &fixture, good, NULL, &(struct event_header){"X-A", "hunter2 "}, "a space");
        http_fixture_end(&fixture);
}

static bool are_the_others_finished(void *context)
{
        const struct sink_driver *driver = context;

        return driver->n_finished >= 21;
}

HTTP_TEST(http_targets, lets_no_receiver_wait_for_another)
{
        struct http_fixture fixture;
        struct http_receiver *slow;
        const struct event event = json_event("{}");
        char *slow_url;
        char *fast_url;
        void *slow_target;
        void *fast_target;
        void *dead_target;

        begin_table(&fixture);
        slow = http_receiver_start(NULL, NULL);
        allow_port(&fixture, http_receiver_port(slow));
        allow_port(&fixture, 1);
        http_fixture_open(&fixture);
        http_receiver_answer(slow, &(struct http_answer){.is_held = true});
        slow_url = url_at(slow, "/");
        fast_url = url_at(fixture.receiver, "/");
        slow_target = open_url(&fixture, slow_url);
        fast_target = open_url(&fixture, fast_url);
        dead_target = open_url(&fixture, "http://127.0.0.1:1/");

        fixture.driver.target = slow_target;
        for (int i = 0; i < 20; i++)
                sink_driver_start(&fixture.driver, &event);
        fixture.driver.target = dead_target;
        sink_driver_start(&fixture.driver, &event);
        fixture.driver.target = fast_target;
        for (int i = 0; i < 20; i++)
                sink_driver_start(&fixture.driver, &event);
        sink_driver_run_until(
            &fixture.driver, are_the_others_finished, &fixture.driver, "answers to 21 attempts");

        for (int i = 0; i < 20; i++)
                cr_expect_not(fixture.driver.attempts[i].is_finished);
        expect_outcome(fixture.driver.attempts[20].outcome, OUTCOME_SINK_DOWN);
        for (int i = 21; i < 41; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        /* A receiver that has nothing under way may go while others have. */
        close_target(&fixture, fast_target);
        close_target(&fixture, dead_target);
        http_receiver_release(slow);
        sink_driver_finish(&fixture.driver);
        for (int i = 0; i < 20; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);

        close_target(&fixture, slow_target);
        http_fixture_end(&fixture);
        http_receiver_destroy(slow);
        free(slow_url);
        free(fast_url);
}

HTTP_TEST(http_targets, leaves_a_quarter_of_the_files_for_all_else)
{
        const struct rlimit files = {.rlim_cur = 400, .rlim_max = 400};
        struct http_fixture fixture;

        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
        begin_table(&fixture);
        http_fixture_open(&fixture);
        cr_expect_eq(fixture.driver.sink->max_concurrent, 300);
        http_fixture_end(&fixture);
}

HTTP_TEST(http_targets, serves_a_thousand_receivers_and_keeps_their_connections)
{
        enum { N_TARGETS = 1000, AT_ONCE = 50 };
        struct http_fixture fixture;
        void *targets[N_TARGETS];
        const struct event event = json_event("{}");
        struct rlimit files;

        /* As the program does: by these the sink knows how many connections it may keep. */
        cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = files.rlim_max;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
        begin_table(&fixture);
        http_fixture_open(&fixture);
        for (int i = 0; i < N_TARGETS; i++) {
                char *path = xasprintf("/%d", i);
                char *url = url_at(fixture.receiver, path);

                targets[i] = open_url(&fixture, url);
                free(path);
                free(url);
        }
        for (int round = 0; round < 2; round++)
                for (int i = 0; i < N_TARGETS; i++) {
                        fixture.driver.target = targets[i];
                        sink_driver_start(&fixture.driver, &event);
                        if (i % AT_ONCE == AT_ONCE - 1)
                                sink_driver_finish(&fixture.driver);
                }

        for (size_t i = 0; i < fixture.driver.n_started; i++)
                expect_outcome(fixture.driver.attempts[i].outcome, OUTCOME_DELIVERED);
        cr_expect_eq(http_receiver_n_requests(fixture.receiver), 2 * N_TARGETS);
        cr_expect_leq(http_receiver_n_connections(fixture.receiver), AT_ONCE);
        for (int i = 0; i < N_TARGETS; i++)
                close_target(&fixture, targets[i]);
        http_fixture_end(&fixture);
}

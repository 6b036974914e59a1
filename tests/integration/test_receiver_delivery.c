/* What `pgcourier receiver add` and `test` ask the sink itself. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/http_receiver.h"

#include <stdlib.h>

static struct failures_rig rig;
static struct http_receiver *receiver;
static char *config_path;

static void start(void)
{
        char *text;

        failures_rig_start(&rig);
        receiver = http_receiver_start(NULL, NULL);
        text = xasprintf("postgres:\n"
                         "  dsn: %s\n"
                         "sinks:\n"
                         "  - {name: fixed, topics: [a], http: {url: 'http://127.0.0.1:%u'}}\n"
                         "  - {name: web, topics: [a], http: {receivers: table,\n"
                         "     allow_networks: [127.0.0.1], allow_ports: [%u]}}\n",
            rig.dsn, http_receiver_port(receiver), http_receiver_port(receiver));
        config_path = program_file("pgcourier.yaml", text, strlen(text));
        free(text);
}

static void stop(void)
{
        free(config_path);
        http_receiver_destroy(receiver);
        failures_rig_stop(&rig);
}

TestSuite(receiver_delivery, .init = start, .fini = stop);

#define RECEIVER(...) program_run(NULL, "receiver", __VA_ARGS__, "-c", config_path, NULL)

#define SECRET "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

static void add_acme(void)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, secret, headers)"
                              " VALUES ('web', 'acme', 'http://127.0.0.1:%u/hook?token=t',"
                              " '" SECRET "', '{\"Authorization\": \"Bearer b\"}')",
            http_receiver_port(receiver));

        database_exec(rig.owner, sql);
        free(sql);
}

Test(receiver_delivery, add_takes_the_only_sink_that_fans_out_and_asks_it)
{
        struct program_run run;

        expect_refusal(RECEIVER("add", "a", "--url", "https://x/", "--sink", "fixed"), 2,
            "the configuration has no sink \"fixed\" that delivers to receivers. Those that do: "
            "web");
        expect_refusal(RECEIVER("add", "a", "--url", "https://x/", "--header", "Content-Length: 3"),
            2, "Content-Length cannot be given");
        run = RECEIVER("add", "a", "--url", "https://x/");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_null(strstr(run.err, "no relay has run"), "%s", run.err);
        program_run_free(&run);
        cr_expect_eq(
            database_integer(rig.owner, "SELECT count(*) FROM courier.receiver WHERE sink = 'web'"),
            1);
}

Test(receiver_delivery, test_posts_one_signed_event_and_stores_nothing)
{
        struct program_run run;
        const struct http_request *request;

        add_acme();
        database_exec(rig.owner, "SELECT courier.rotate_secret('acme')");
        database_exec(rig.owner, "UPDATE courier.receiver SET state = 'paused'");
        run = RECEIVER("test", "acme", "--payload", "{\"n\": 1}", "--topic", "orders.made");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, "acme took the test event "), "%s", run.out);
        program_run_free(&run);
        cr_assert_eq(http_receiver_n_requests(receiver), 1);
        request = http_receiver_request(receiver, 0);
        cr_expect_str_eq(request->target, "/hook?token=t");
        cr_expect_str_eq(request->body, "{\"n\": 1}");
        cr_expect_not_null(strstr(request->header_lines, "Authorization: Bearer b"));
        cr_expect_not_null(strstr(request->header_lines, "orders.made"));
        /* By both secrets. */
        cr_expect_not_null(strstr(request->header_lines, "webhook-signature: v1,"));
        cr_expect_not_null(strstr(strstr(request->header_lines, "v1,") + 1, " v1,"));
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.outbox"), 0);
}

Test(receiver_delivery, test_says_what_the_receiver_answered)
{
        const struct http_answer locked = {.status = 500, .body = "database is locked"};

        add_acme();
        http_receiver_answer(receiver, &locked);
        expect_refusal(RECEIVER("test", "acme"), 5, "acme did not take the test event after ");
        expect_refusal(RECEIVER("test", "acme"), 5, "database is locked");
        http_receiver_stop(receiver);
        expect_refusal(RECEIVER("test", "acme"), 5, "sink_down: ");
}

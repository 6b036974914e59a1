/*
 * Whom the http sink refuses to connect to. URLs of a table are tried with the parts that a target
 * is made of: its host, the client that connects and the guard between them. Here 127.0.0.0/8 stands for all
 * that is not public; where a test needs a public address, it allows one of these.
 */
#include "http_fixture.h"

#include "loop/connector.h"
#include "sinks/address_guard.h"
#include "sinks/http/client/curl_client.h"
#include "sinks/http/client/http1_client.h"
#include "sinks/http/client/http_client.h"
#include "sinks/http/http_target.h"
#include "support/dns_server.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <stdlib.h>

#define N_NETWORKS 2

struct rig {
        uv_loop_t loop;
        struct http_receiver *receiver;
        struct http_config config;
        char *networks[N_NETWORKS];
        char port[8];
        char *ports[1];
        char url[200];

        /* From rig_open() on. */
        struct address_guard *guard;
        struct sink sink;
        struct http_target *target;
        struct http_client *client;
        bool is_settled;
        bool is_done;
        struct outcome outcome;
};

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){.config = {.connect_timeout_ms = 5000, .timeout_ms = 5000}};
        uv_loop_init(&rig->loop);
        rig->receiver = http_receiver_start(NULL, NULL);
        snprintf(rig->port, sizeof rig->port, "%u", http_receiver_port(rig->receiver));
        rig->ports[0] = rig->port;
        rig->config.allow_ports = rig->ports;
        rig->config.n_allow_ports = 1;
        rig->config.allow_networks = rig->networks;
        rig->config.url = rig->url;
}

static void rig_allow(struct rig *rig, char *network)
{
        rig->networks[rig->config.n_allow_networks++] = network;
}

static struct rig *rig_of_target; /* the owner that is told is the target */

static void on_settled(void *owner, const char *failure)
{
        struct rig *rig = rig_of_target;

        cr_assert_eq(owner, rig->target);
        cr_assert(failure == NULL, "%s", failure);
        rig->is_settled = true;
}

static void on_done(void *owner, const struct http_result *result)
{
        struct rig *rig = owner;

        rig->outcome = result->code == CURLE_OK ? outcome_delivered
                                                : http_result_classify(result, &rig->config);
        rig->is_done = true;
}

static void rig_connect_by(struct rig *rig, const struct address_guard *guard)
{
        rig->client = is_by_libcurl ? curl_client_create(&rig->loop, &rig->config, guard, 4)
                                    : http1_client_create(&rig->loop, &rig->config, guard, 4);
}

static void rig_open(struct rig *rig, const char *host_of_url)
{
        const struct target_settings settings = {.name = "one", .url = rig->url};
        struct error error;

        snprintf(rig->url, sizeof rig->url, "http://%s:%s/", host_of_url, rig->port);
        rig->guard = address_guard_create(&rig->config, URL_OF_TABLE);
        rig->sink = (struct sink){.name = "hooks", .loop = &rig->loop};
        rig_of_target = rig;
        rig->target =
            http_target_create(&rig->sink, &rig->config, &settings, rig->guard, on_settled, &error);
        cr_assert_not_null(rig->target, "%s: %s", rig->url, error.text);
        rig_connect_by(rig, rig->guard);
}

static struct outcome reach(struct rig *rig)
{
        struct error error;

        rig->is_settled = http_host_is_ready(rig->target->host);
        while (!rig->is_settled)
                uv_run(&rig->loop, UV_RUN_ONCE);
        rig->is_done = false;
        cr_assert_not_null(
            http_client_connect(rig->client, rig->target, on_done, rig, &error), "%s", error.text);
        while (!rig->is_done)
                uv_run(&rig->loop, UV_RUN_ONCE);
        return rig->outcome;
}

static void rig_close(struct rig *rig)
{
        http_client_destroy(rig->client);
        http_target_destroy(rig->target);
        address_guard_destroy(rig->guard);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
}

static void rig_deinit(struct rig *rig)
{
        cr_expect_eq(uv_loop_close(&rig->loop), 0);
        http_receiver_destroy(rig->receiver);
}

static void expect_refused(struct outcome outcome, const char *words)
{
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator, "%s", outcome.reason);
        expect_reason(outcome, "refused: ");
        expect_reason(outcome, words);
}

HTTP_TEST(http_sink_guard, refuses_this_machine_however_it_is_written)
{
        static const char *const hosts[] = {"127.0.0.1", "127.1", "127.0.1", "0x7f000001",
            "2130706433", "017700000001", "0x7f.0.0.1", "0177.0.0.1", "0x7f.1", "0", "0.0.0.0",
            "localhost", "LOCALHOST", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]",
            "[64:ff9b::7f00:1]", "[2002:7f00:1::]"};
        struct rig rig;

        rig_init(&rig);
        for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
                rig_open(&rig, hosts[i]);
                expect_refused(reach(&rig), "http.allow_networks can allow it");
                rig_close(&rig);
        }
        cr_expect_eq(http_receiver_n_connections(rig.receiver), 0);
        rig_deinit(&rig);
}

/* The second line of defence by itself: no pinned address, libcurl looks the name up. */
Test(http_sink_guard, refuses_what_libcurl_finds_by_itself)
{
        const struct http_config config = {.connect_timeout_ms = 5000};
        struct address_guard *guard = address_guard_create(&config, URL_OF_TABLE);
        struct guarded_socket sockets = {.guard = guard};
        CURL *easy = curl_easy_init();

        curl_easy_setopt(easy, CURLOPT_URL, "http://localhost/");
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, guarded_socket_open);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &sockets);
        cr_expect_eq(curl_easy_perform(easy), CURLE_COULDNT_CONNECT);
        cr_assert_not_null(guarded_socket_refusal(&sockets));
        cr_expect(strstr(guarded_socket_refusal(&sockets), "this machine") != NULL);
        curl_easy_cleanup(easy);
        address_guard_destroy(guard);
}

HTTP_TEST(http_sink_guard, is_not_deceived_by_a_name_that_changes)
{
        struct dns_server *names = dns_server_start();
        char public[] = "127.0.0.2"; /* nothing listens there */
        struct outcome outcome;
        struct rig rig;

        dns_server_use(names);
        dns_server_rebind(names, "127.0.0.2", "127.0.0.1");
        rig_init(&rig);
        rig_allow(&rig, public);
        rig_open(&rig, "rebinding.test");

        outcome = reach(&rig);
        expect_outcome(outcome, OUTCOME_SINK_DOWN);
        cr_expect_not(outcome.needs_operator, "%s", outcome.reason);
        cr_expect_eq(dns_server_n_asked(names), 1, "what was judged is not what was used");
        rig_close(&rig);

        rig_open(&rig, "rebinding.test"); /* found anew: now it means 127.0.0.1 */
        expect_refused(reach(&rig), "127.0.0.1 lies in 127.0.0.0/8");
        cr_expect_eq(dns_server_n_asked(names), 2);
        cr_expect_eq(http_receiver_n_connections(rig.receiver), 0);
        rig_close(&rig);
        rig_deinit(&rig);
        dns_server_destroy(names);
}

HTTP_TEST(http_sink_guard, keeps_only_the_permitted_addresses_of_a_name)
{
        struct dns_server *names = dns_server_start();
        char allowed[] = "127.0.0.1";
        const struct socket_address *found;
        unsigned n_found;
        struct rig rig;

        dns_server_use(names);
        dns_server_answer(names, "127.0.0.66 127.0.0.1 ::1");
        rig_init(&rig);
        rig_allow(&rig, allowed);
        rig_open(&rig, "mixed.test");
        expect_outcome(reach(&rig), OUTCOME_DELIVERED);
        found = http_host_addresses(rig.target->host, &n_found);
        cr_assert_eq(n_found, 1);
        cr_expect_eq(((const struct sockaddr_in *)(const void *)&found->data)->sin_addr.s_addr,
            htonl(INADDR_LOOPBACK));
        rig_close(&rig);
        rig_deinit(&rig);
        dns_server_destroy(names);
}

HTTP_TEST(http_sink_guard, lets_allowed_networks_and_ports_through)
{
        char loopback[] = "127.0.0.0/8";
        struct address_guard *strict;
        struct rig rig;

        rig_init(&rig);
        rig_allow(&rig, loopback);
        rig_open(&rig, "127.0.0.1");
        expect_outcome(reach(&rig), OUTCOME_DELIVERED);
        rig_close(&rig);

        rig_open(&rig, "[::ffff:127.0.0.1]");
        expect_outcome(reach(&rig), OUTCOME_DELIVERED);
        rig_close(&rig);

        /* Beyond what the url says: where the socket leads is judged by itself. */
        rig_open(&rig, "127.0.0.1");
        rig.config.n_allow_ports = 0;
        strict = address_guard_create(&rig.config, URL_OF_TABLE);
        http_client_destroy(rig.client);
        rig_connect_by(&rig, strict);
        expect_refused(reach(&rig), "http.allow_ports can allow it");
        rig_close(&rig);
        address_guard_destroy(strict);
        rig_deinit(&rig);
}

/* What the config file names is trusted, but for the addresses that hand out credentials. */
HTTP_TEST(http_sink_guard, refuses_metadata_to_the_url_of_the_config)
{
        struct dns_server *names = dns_server_start();
        const struct event event = json_event("{}");
        struct http_fixture fixture;
        static const char *const urls[] = {"http://169.254.169.254/latest/", "http://0xa9fea9fe/",
            "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://metadata.test/"};

        dns_server_use(names);
        dns_server_answer(names, "169.254.169.254");
        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
                http_fixture_init(&fixture);
                fixture.config.block_metadata = true;
                strcpy(fixture.url, urls[i]);
                http_fixture_open(&fixture);
                expect_refused(
                    sink_driver_deliver(&fixture.driver, &event), "http.block_metadata: false");
                expect_refused(sink_driver_probe(&fixture.driver), "http.allow_networks");
                http_fixture_end(&fixture);
        }

        http_fixture_init(&fixture);
        fixture.config.block_metadata = true;
        http_fixture_open(&fixture);
        expect_outcome(sink_driver_deliver(&fixture.driver, &event), OUTCOME_DELIVERED);
        http_fixture_end(&fixture);
        dns_server_destroy(names);
}

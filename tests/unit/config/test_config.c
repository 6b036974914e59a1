/*
 * The config file, from text to struct: everything a good file may say, the
 * defaults, and a table of what a bad one may say, each with the place and the
 * words of its error. No error may ever hold CANARY, which stands for a secret.
 */
#include "base/bytes.h"
#include "config/interpolate.h"
#include "config/units.h"
#include "support/config_steps.h"

#include <errno.h>
#include <sys/stat.h>

#define LOGIN "user: me, password: " CANARY

/* Rows of keys: of a sink, and of each kind of sink besides those that it needs. */
#define OF_SINK(keys)             PG SINK "    " keys "\n" STDOUT
#define OF_DEBEZIUM(layout, keys) OF_REDIS("layout: debezium-" layout ", debezium: {" keys "}")
#define OF_REDIS(keys)            PG SINK "    redis: {url: redis://h, " keys "}\n"
#define OF_HTTP(keys)             PG SINK "    http: {url: http://h, " keys "}\n"
#define OF_EMAIL(keys)            PG SINK "    email: {url: smtp://h, " keys "}\n"

static char host_name[256] = "h"; /* the machine's */

int gethostname(char *name, size_t size)
{
        return snprintf(name, size, "%s", host_name) < (int)size ? 0 : -1;
}

TestSuite(config, .init = make_path, .fini = remove_path);

static const char full[] =
    "postgres:\n"
    "  dsn: host=db dbname=shop\n"
    "  password: p1\n"
    "  connect_timeout: 7s\n"
    "  query_timeout: 2m\n"
    "relay:\n"
    "  name: eu-1.web_2\n"
    "  weight: 3\n"
    "  sinks: [\"*o*\", \"!out\"]\n"
    "  wakeup: poll\n"
    "  sweep: 11s\n"
    "  poll_interval: 30ms\n"
    "  standby: 3s\n"
    "  drain: 0\n"
    "log: {level: debug}\n"
    "sinks:\n"
    "  - name: orders-stream\n"
    "    topics: [\"orders.*\", 'users']\n"
    "    types: [\"order.*\", '!order.test']\n"
    "    match_headers: [region=eu, trace]\n"
    "    filter: '$.amount > 100 && $.country == \"DE\"'\n"
    "    rate: {per_second: 2.5, burst: 10}\n"
    "    concurrency: 9\n"
    "    start: beginning\n"
    "    order: none\n"
    "    shards: 256\n"
    "    max_in_flight: 17\n"
    "    max_in_flight_bytes: 66kB\n"
    "    retry: {first: 20ms, factor: 2.5, max: 1d, attempts: 7, max_age: 2h}\n"
    "    park_after: 300ms\n"
    "    max_parked: 5000000\n"
    "    max_event_bytes: 64kB\n"
    "    redis:\n"
    "      url: redis://us%20er:p%40ss@cache:6390/3\n"
    "      stream: \"x:{{topic}}:{{topic}}\"\n"
    "      maxlen: 5000000000\n"
    "      connect_timeout: 1s\n"
    "      timeout: 2s\n"
    "  - name: hooks\n"
    "    concurrency: 1024\n"
    "    topics:\n"
    "      - \"**\"\n"
    "    http:\n"
    "      url: https://[::1]:8443/in?x=1\n"
    "      secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n"
    "      headers: [x-tenant, traceparent]\n"
    "      connect_timeout: 4s\n"
    "      timeout: 6s\n"
    "      ca_file: /etc/passwd\n"
    "  - name: mail\n"
    "    topics: [mail]\n"
    "    email:\n"
    "      url: smtps://mx.example.com:465\n"
    "      from: Shop <shop@example.com>\n"
    "      user: u\n"
    "      password: p2\n"
    "      message_id_domain: id.example.com\n"
    "      tls: required\n"
    "      connect_timeout: 8s\n"
    "      timeout: 9s\n"
    "      ca_file: /etc/passwd\n"
    "      relay_backoff: 1s\n"
    "      cert_file: /etc/passwd\n"
    "      key_file: /etc/group\n"
    "      ehlo: courier.example.com\n"
    "      max_mails_per_connection: 7\n"
    "      idle: 11s\n"
    "      domain_rate: 0.5\n"
    "      domain_concurrency: 3\n"
    "      domain_backoff: 12s\n"
    "      on_unknown: reject\n"
    "  - {name: out, topics: [a], stdout: {payload: false}}\n";

Test(config, reads_every_block_of_a_full_file)
{
        struct config *config = load("%s", full);
        const struct sink_config *sink = &config->sinks[0];

        cr_expect_str_eq(config->postgres.dsn, "host=db dbname=shop");
        cr_expect_str_eq(config->postgres.password, "p1");
        cr_expect_eq(config->postgres.connect_timeout_ms, 7000);
        cr_expect_eq(config->postgres.query_timeout_ms, 120000);
        cr_expect_str_eq(config->relay.name, "eu-1.web_2");
        cr_expect_eq(config->relay.weight, 3);
        cr_expect_eq(config->relay.n_sinks, 2);
        cr_expect_eq(config->relay.wakeup, WAKEUP_POLL);
        cr_expect_eq(config->relay.sweep_ms, 11000);
        cr_expect_eq(config->relay.poll_interval_ms, 30);
        cr_expect_eq(config->relay.standby_ms, 3000);
        cr_expect_eq(config->relay.drain_ms, 0);
        cr_expect_str_eq(config->log_level, "debug");
        cr_expect_eq(config->n_sinks, 4);

        cr_expect_str_eq(sink->name, "orders-stream");
        cr_expect_eq(sink->n_topics, 2);
        cr_expect_str_eq(sink->topics[0], "orders.*");
        cr_expect_str_eq(sink->topics[1], "users");
        cr_expect_eq(sink->n_types, 2);
        cr_expect_str_eq(sink->types[1], "!order.test");
        cr_expect_eq(sink->n_match_headers, 2);
        cr_expect_str_eq(sink->match_headers[0], "region=eu");
        cr_expect_str_eq(sink->filter, "$.amount > 100 && $.country == \"DE\"");
        cr_expect_eq(sink->rate.per_second, 2.5);
        cr_expect_eq(sink->rate.burst, 10);
        cr_expect_eq(sink->concurrency, 9);
        cr_expect_eq(sink->start, START_BEGINNING);
        cr_expect_eq(sink->order, ORDER_NONE);
        cr_expect_eq(sink->shards, 256);
        cr_expect_eq(sink->max_in_flight, 17);
        cr_expect_eq(sink->max_in_flight_bytes, 66000);
        cr_expect_eq(sink->retry.first_ms, 20);
        cr_expect_eq(sink->retry.factor, 2.5);
        cr_expect_eq(sink->retry.max_ms, 24 * 3600 * 1000);
        cr_expect_eq(sink->retry.attempts, 7);
        cr_expect_eq(sink->retry.max_age_ms, 7200000);
        cr_expect_null(sink->retry.delays_ms);
        cr_expect_eq(sink->park_after_ms, 300);
        cr_expect_eq(sink->max_parked, 5000000);
        cr_expect_eq(sink->max_event_bytes, 64000);
        config_free(config);
}

Test(config, reads_every_key_of_a_redis_sink)
{
        struct config *config = load("%s", full);
        const struct sink_config *sink = &config->sinks[0];

        cr_expect_str_eq(sink_config_kind(sink), "redis");
        cr_expect_eq(sink_config_options(sink), sink->redis);
        cr_expect_str_eq(sink->redis->url, "redis://us%20er:p%40ss@cache:6390/3");
        cr_expect_str_eq(sink->redis->host, "cache");
        cr_expect_eq(sink->redis->port, 6390);
        cr_expect_null(sink->redis->socket_path);
        cr_expect_str_eq(sink->redis->user, "us er");
        cr_expect_str_eq(sink->redis->password, "p@ss");
        cr_expect_eq(sink->redis->db, 3);
        cr_expect_str_eq(sink->redis->stream, "x:{{topic}}:{{topic}}");
        cr_expect_eq(sink->redis->maxlen, 5000000000u);
        cr_expect_eq(sink->redis->connect_timeout_ms, 1000);
        cr_expect_eq(sink->redis->timeout_ms, 2000);
        config_free(config);
}

Test(config, reads_every_key_of_an_http_sink)
{
        struct config *config = load("%s", full);
        const struct sink_config *sink = &config->sinks[1];

        cr_expect_str_eq(sink_config_kind(sink), "http");
        cr_expect_eq(sink_config_options(sink), sink->http);
        cr_expect_str_eq(sink->http->url, "https://[::1]:8443/in?x=1");
        cr_expect_str_eq(sink->http->secret, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz");
        cr_expect_eq(sink->http->n_headers, 2);
        cr_expect_str_eq(sink->http->headers[0], "x-tenant");
        cr_expect_str_eq(sink->http->headers[1], "traceparent");
        cr_expect_eq(sink->concurrency, 1024);
        cr_expect_eq(sink->http->connect_timeout_ms, 4000);
        cr_expect_eq(sink->http->timeout_ms, 6000);
        cr_expect_str_eq(sink->http->ca_file, "/etc/passwd");
        config_free(config);
}

Test(config, reads_relays_in_their_order_each_with_its_own_login)
{
        struct config *config = load(
            PG SINK "    email: {from: a@b, relays: [{url: smtp://one}, {url: \"smtps://two\", "
                    "user: u2, password: p2}]}\n");
        const struct email_config *email = config->sinks[0].email;

        cr_expect_null(email->url);
        cr_assert_eq(email->n_relays, 2);
        cr_expect_str_eq(email->relays[0].url, "smtp://one");
        cr_expect_null(email->relays[0].user);
        cr_expect_str_eq(email->relays[1].url, "smtps://two");
        cr_expect_str_eq(email->relays[1].user, "u2");
        cr_expect_str_eq(email->relays[1].password, "p2");
        config_free(config);
}

Test(config, reads_every_key_of_an_email_and_a_stdout_sink)
{
        struct config *config = load("%s", full);
        const struct email_config *email = config->sinks[2].email;

        cr_expect_str_eq(sink_config_kind(&config->sinks[2]), "email");
        cr_expect_eq(sink_config_options(&config->sinks[2]), email);
        cr_expect_str_eq(email->url, "smtps://mx.example.com:465");
        cr_expect_str_eq(email->from, "Shop <shop@example.com>");
        cr_expect_str_eq(email->user, "u");
        cr_expect_str_eq(email->password, "p2");
        cr_expect_str_eq(email->message_id_domain, "id.example.com");
        cr_expect_eq(email->tls, TLS_REQUIRED);
        cr_expect_eq(email->connect_timeout_ms, 8000);
        cr_expect_eq(email->timeout_ms, 9000);
        cr_expect_str_eq(email->ca_file, "/etc/passwd");
        cr_expect_eq(email->n_relays, 0);
        cr_expect_eq(email->relay_backoff_ms, 1000);
        cr_expect_str_eq(email->cert_file, "/etc/passwd");
        cr_expect_str_eq(email->key_file, "/etc/group");
        cr_expect_str_eq(email->ehlo, "courier.example.com");
        cr_expect_eq(email->max_mails_per_connection, 7);
        cr_expect_eq(email->idle_ms, 11000);
        cr_expect_float_eq(email->domain_rate, 0.5, 1e-9);
        cr_expect_eq(email->domain_concurrency, 3);
        cr_expect_eq(email->domain_backoff_ms, 12000);
        cr_expect_eq(email->on_unknown, UNKNOWN_REJECT);
        cr_expect_str_eq(sink_config_kind(&config->sinks[3]), "stdout");
        cr_expect_eq(sink_config_options(&config->sinks[3]), config->sinks[3].stdout_);
        cr_expect_not(config->sinks[3].stdout_->payload);
        config_free(config);
}

Test(config, fills_in_the_defaults_of_what_is_left_out)
{
        struct config *config =
            load(PG "sinks:\n"
                    "  - {name: a, topics: [t], redis: {url: redis://r}}\n"
                    "  - {name: b, topics: [t], http: {url: http://h}}\n"
                    "  - {name: c, topics: [t], email: {url: smtp://m, from: a@b.org}}\n"
                    "  - {name: d, topics: [t], stdout: {}}\n");
        const struct sink_config *sink = &config->sinks[0];
        const struct http_config *http = config->sinks[1].http;
        const struct email_config *email = config->sinks[2].email;

        cr_expect_null(config->postgres.password);
        cr_expect_eq(config->postgres.connect_timeout_ms, 5000);
        cr_expect_eq(config->postgres.query_timeout_ms, 30000);
        cr_expect_eq(config->relay.weight, 1);
        cr_expect_eq(config->relay.n_sinks, 0);
        cr_expect_eq(config->relay.wakeup, WAKEUP_NOTIFY);
        cr_expect_eq(config->relay.sweep_ms, 5000);
        cr_expect_eq(config->relay.poll_interval_ms, 250);
        cr_expect_eq(config->relay.standby_ms, 200);
        cr_expect_eq(config->relay.drain_ms, 10000);
        cr_expect_str_eq(config->log_level, "info");

        cr_expect_eq(sink->n_types, 0);
        cr_expect_eq(sink->n_match_headers, 0);
        cr_expect_null(sink->filter);
        cr_expect_eq(sink->rate.per_second, 0);
        cr_expect_eq(sink->rate.burst, 0);
        cr_expect_eq(sink->concurrency, 0);
        cr_expect_eq(sink->start, START_NOW);
        cr_expect_eq(sink->order, ORDER_KEY);
        cr_expect_eq(sink->shards, 1);
        cr_expect_eq(sink->max_in_flight, 1000);
        cr_expect_eq(sink->max_in_flight_bytes, 16 * 1024 * 1024);
        cr_expect_eq(sink->retry.first_ms, 1000);
        cr_expect_eq(sink->retry.factor, 3);
        cr_expect_eq(sink->retry.max_ms, 3600000);
        cr_expect_eq(sink->retry.attempts, 20);
        cr_expect_eq(sink->retry.max_age_ms, 3 * 24 * 3600 * 1000);
        cr_expect_null(sink->retry.delays_ms);
        cr_expect_eq(sink->retry.n_delays, 0);
        cr_expect_eq(sink->park_after_ms, 1000);
        cr_expect_eq(sink->max_parked, 100000);
        cr_expect_eq(sink->max_event_bytes, 1024 * 1024);
        cr_expect_eq(sink->redis->port, 6379);
        cr_expect_eq(sink->redis->db, 0);
        cr_expect_null(sink->redis->user);
        cr_expect_null(sink->redis->password);
        cr_expect_str_eq(sink->redis->stream, "events:{{topic}}");
        cr_expect_eq(sink->redis->maxlen, 0);
        cr_expect_eq(sink->redis->debezium.key, DEBEZIUM_JSON_SCHEMA);
        cr_expect_eq(sink->redis->debezium.value, DEBEZIUM_JSON_SCHEMA);
        cr_expect_eq(sink->redis->debezium.headers, DEBEZIUM_JSON_SCHEMA);
        cr_expect_null(sink->redis->debezium.context);
        cr_expect_str_eq(sink->redis->debezium.null_key, "default");
        cr_expect_str_eq(sink->redis->debezium.null_value, "default");
        cr_expect_not(sink->redis->debezium.tombstone);
        cr_expect_eq(sink->redis->connect_timeout_ms, 5000);
        cr_expect_eq(sink->redis->timeout_ms, 5000);

        cr_expect_null(http->secret);
        cr_expect_null(http->ca_file);
        cr_expect_eq(http->n_headers, 0);
        cr_expect_eq(http->connect_timeout_ms, 5000);
        cr_expect_eq(http->timeout_ms, 15000);
        cr_expect_null(email->user);
        cr_expect_str_eq(email->message_id_domain, "b.org");
        cr_expect_eq(email->tls, TLS_AUTO);
        cr_expect_eq(email->connect_timeout_ms, 10000);
        cr_expect_eq(email->timeout_ms, 120000);
        cr_expect_eq(email->relay_backoff_ms, 5000);
        cr_expect_null(email->cert_file);
        cr_expect_null(email->ehlo);
        cr_expect_eq(email->max_mails_per_connection, 100);
        cr_expect_eq(email->idle_ms, 30000);
        cr_expect_float_eq(email->domain_rate, 0, 1e-9);
        cr_expect_eq(email->domain_concurrency, 0);
        cr_expect_eq(email->domain_backoff_ms, 10000);
        cr_expect_eq(email->on_unknown, UNKNOWN_RETRY);
        cr_expect(config->sinks[3].stdout_->payload);
        config_free(config);
}

Test(config, names_a_relay_after_its_host)
{
        static const struct {
                const char *host, *name;
        } cases[] = {
            {"Web-1.Example.com", "web-1.example.com"},
            {"box_7", "box_7"},
            {"Caf\xc3\xa9 1", "caf---1"},
            {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggghhhh",
                "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg"},
            {"", "relay"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config;

                snprintf(host_name, sizeof host_name, "%s", cases[i].host);
                config = load(GOOD);
                cr_expect_str_eq(config->relay.name, cases[i].name);
                config_free(config);
        }
}

Test(config, knows_which_sinks_a_relay_serves)
{
        static const struct {
                const char *patterns;
                bool serves[3]; /* orders, orders-eu, mail */
        } cases[] = {
            {"", {true, true, true}},
            {"relay: {sinks: [orders]}\n", {true, false, false}},
            {"relay: {sinks: [\"orders*\"]}\n", {true, true, false}},
            {"relay: {sinks: [\"*-eu\", mail]}\n", {false, true, true}},
            {"relay: {sinks: [\"*\", \"!mail\"]}\n", {true, true, false}},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load(PG "%ssinks:\n"
                                                "  - {name: orders, topics: [t], stdout: {}}\n"
                                                "  - {name: orders-eu, topics: [t], stdout: {}}\n"
                                                "  - {name: mail, topics: [t], stdout: {}}\n",
                    cases[i].patterns);

                for (unsigned j = 0; j < 3; j++)
                        cr_expect_eq(relay_config_serves(&config->relay, config->sinks[j].name),
                            cases[i].serves[j], "%s: %s", cases[i].patterns, config->sinks[j].name);
                config_free(config);
        }
}

Test(config, keeps_the_sinks_of_other_relays_apart)
{
        struct config *config = load(PG "relay: {sinks: [b, d]}\nsinks:\n"
                                        "  - {name: a, topics: [t], redis: {url: redis://h}}\n"
                                        "  - {name: b, topics: [t], stdout: {}}\n"
                                        "  - {name: c, topics: [t], redis: {url: redis://h}}\n"
                                        "  - {name: d, topics: [t], stdout: {}}\n");

        config_keep_served(config);
        cr_assert_eq(config->n_sinks, 2);
        cr_assert_eq(config->n_unserved, 2);
        cr_expect_str_eq(config->sinks[0].name, "b");
        cr_expect_str_eq(config->sinks[1].name, "d");
        config_free(config);
}

static struct config *load_retry(const char *kind, const char *retry)
{
        return load(PG SINK "    %s\n%s%s\n", kind, retry != NULL ? "    retry: " : "",
            retry != NULL ? retry : "");
}

static void expect_delays(
    const struct retry_config *retry, const int64_t *expected_ms, unsigned n_expected)
{
        cr_assert_eq(retry->n_delays, n_expected);
        for (unsigned i = 0; i < n_expected; i++)
                cr_expect_eq(retry->delays_ms[i], expected_ms[i], "delay %u is %jd ms", i,
                    (intmax_t)retry->delays_ms[i]);
}

Test(config, reads_a_list_of_delays_which_alone_decides_when_to_give_up)
{
        static const int64_t expected_ms[] = {5000, 1, 2592000000};
        struct config *config = load_retry("stdout: {}", "{delays: [5s, 1ms, 30d]}");
        const struct retry_config *retry = &config->sinks[0].retry;

        expect_delays(retry, expected_ms, 3);
        cr_expect_eq(retry->attempts, 0);
        cr_expect_eq(retry->max_age_ms, 0);
        config_free(config);
}

Test(config, keeps_the_limits_that_are_written_along_with_delays)
{
        static const int64_t expected_ms[] = {5000};
        struct config *config =
            load_retry("stdout: {}", "{attempts: 20, max_age: 1h, delays: [\"${D:-5s}\"]}");
        const struct retry_config *retry = &config->sinks[0].retry;

        expect_delays(retry, expected_ms, 1);
        cr_expect_eq(retry->attempts, 20);
        cr_expect_eq(retry->max_age_ms, 3600000);
        config_free(config);
}

Test(config, accepts_zero_for_no_limit)
{
        struct config *config =
            load(PG SINK STDOUT "    retry: {attempts: 0, max_age: 0}\n    max_event_bytes: 0\n");

        cr_expect_eq(config->sinks[0].retry.attempts, 0);
        cr_expect_eq(config->sinks[0].retry.max_age_ms, 0);
        cr_expect_eq(config->sinks[0].max_event_bytes, 0);
        config_free(config);
}

#define MAIL "email: {url: smtp://m, from: a@b.org}"

Test(config, gives_mail_delays_as_long_as_mail_takes)
{
        static const int64_t expected_ms[] = {60000, 300000, 900000, 1800000, 3600000, 7200000,
            14400000, 28800000, 57600000, 86400000};
        struct config *config = load_retry(MAIL, NULL);

        expect_delays(&config->sinks[0].retry, expected_ms, 10);
        cr_expect_eq(config->sinks[0].retry.attempts, 0);
        cr_expect_eq(config->sinks[0].retry.max_age_ms, 0);
        config_free(config);

        config = load_retry(MAIL, "{attempts: 3}");
        expect_delays(&config->sinks[0].retry, expected_ms, 10);
        cr_expect_eq(config->sinks[0].retry.attempts, 3);
        config_free(config);
}

Test(config, gives_mail_a_backoff_if_any_of_it_is_written)
{
        static const char *const written[] = {"{first: 2s}", "{factor: 2}", "{max: 2h}"};

        for (size_t i = 0; i < 3; i++) {
                struct config *config = load_retry(MAIL, written[i]);
                const struct retry_config *retry = &config->sinks[0].retry;
                cr_expect_null(retry->delays_ms);
                cr_expect_eq(retry->first_ms, i == 0 ? 2000 : 1000);
                cr_expect_eq(retry->attempts, 20);
                cr_expect_eq(retry->max_age_ms, 3 * 24 * 3600 * 1000);
                config_free(config);
        }
}

Test(config, limits_how_many_delays_there_may_be)
{
        struct bytes text = {0};
        struct config *config;

        bytes_printf(&text, PG SINK STDOUT "    retry:\n      delays:\n");
        for (int i = 0; i < 100; i++)
                bytes_printf(&text, "        - %ds\n", i + 1);
        config = load("%s", text.data);
        cr_assert_eq(config->sinks[0].retry.n_delays, 100);
        cr_expect_eq(config->sinks[0].retry.delays_ms[99], 100000);
        config_free(config);

        bytes_printf(&text, "        - 1s\n");
        refuse(
            "7:7", "sinks[0].retry.delays: has 101 entries; allowed: up to 100", "%s", text.data);
        bytes_deinit(&text);
}

Test(config, refuses_portals_whose_links_would_be_read_by_others)
{
        static const struct bad cases[] = {
            {GOOD "portal: {}\n", "6:1", "portal.base_url: is required"},
            {GOOD "portal: {base_url: \"http://hooks.example.com/\"}\n", "6:10",
                "everyone on the way could read the links"},
            {GOOD "portal: {base_url: \"https://hooks.example.com/?a\"}\n", "6:10", "has a query"},
            {GOOD "portal: {base_url: \"ftp://a/\"}\n", "6:10", "unknown scheme"},
            {GOOD "portal: {base_url: \"https://a/\", manage: []}\n", "6:34", "is empty"},
            {GOOD "portal: {base_url: \"https://a/\", manage: [delete]}\n", "6:43",
                "is none of resend, pause, url, secret"},
        };
        static const char *const good[] = {"https://hooks.example.com", "https://a/portal/",
            "http://localhost:9188/", "http://127.0.0.1:9188/", "http://[::1]/"};

        REFUSE_ALL(cases);
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
                config_free(load(GOOD "portal: {base_url: \"%s\"}\n", good[i]));
}

Test(config, refuses_what_is_not_a_mapping_of_known_keys)
{
        static const struct bad cases[] = {
            {"", "1:1", "the file is empty"},
            {"# only a comment\n", "1:1", "the file is empty"},
            {"postgres\n", "1:1", "not a mapping"},
            {"- postgres\n", "1:1", "not a mapping"},
            {"null\n", "1:1", "not a mapping"},
            {GOOD "redis: {}\n", "6:1",
                "redis: is not a known key; allowed: postgres, relay, admin, portal, outbox, "
                "marks, log, "
                "sinks"},
            {"postgers: {dsn: " CANARY "}\n", "1:1", "did you mean postgres?"},
            {GOOD "relay:\n  sweeep: 5s\n", "7:3",
                "relay.sweeep: is not a known key; did you mean sweep?"},
            {GOOD "relay:\n  wakeup: poll\n  Drain: 5s\n", "8:3", "did you mean drain?"},
            {PG SINK "    pulsar: {}\n", "5:5",
                "sinks[0].pulsar: is not a known key; allowed: name, topics"},
            {PG SINK "    http:\n      url: http://h\n      passwort: " CANARY "\n", "7:7",
                "sinks[0].http.passwort: is not a known key"},
            {OF_SINK("retry: {frist: 1s}"), "5:13", "did you mean first?"},
            {GOOD "log: {\"a.b\": 1}\n", "6:7", "log.a.b: is not a known key"},
            {GOOD "log: {\"\": 1}\n", "6:7", "is not a known key"},
            {GOOD "log: {\"\\e[31m\": 1}\n", "6:7", "log.?[31m: is not a known key"},
            {GOOD "log: {1: 1}\n", "6:7", "log.1: is not a known key"},
            {PG "<<: {log: {}}\n", "2:1", "<<: is not a known key"},
            {GOOD "log: {level: info}\nlog: {level: warn}\n", "7:1",
                "log: is given twice, first in line 6"},
            {"postgres:\n  dsn: " CANARY "\n  dsn: " CANARY "\n" SINK STDOUT, "3:3",
                "postgres.dsn: is given twice, first in line 2"},
            {OF_SINK("name: b"), "5:5", "sinks[0].name: is given twice"},
            {GOOD "? [log]\n: {}\n", "6:3", "as a key"},
            {GOOD "? {log: 1}\n: {}\n", "6:3", "as a key"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_yaml_that_is_malformed_or_too_clever)
{
        static const struct bad cases[] = {
            {"postgres: {dsn: x\n", "2:1", "is not valid YAML"},
            {"postgres:\n\tdsn: x\n", "2:1", "is not valid YAML"},
            {"postgres:\n  dsn: \"" CANARY "\n", "3:1", "is not valid YAML"},
            {"postgres:\n  dsn: \"" CANARY "\\q\"\n", "2:24", "is not valid YAML"},
            {"postgres:\n   dsn: x\n  password: " CANARY "\n", "3:3", "is not valid YAML"},
            {PG "# \xc3\xa4\nlog: {level: \xff}\n", "3:14", "is not valid YAML"},
            {"postgres: {dsn: x}\nrelay: *a\n", "2:8", "relay: uses a YAML alias"},
            {"a: [x]\nb: [*a, *a]\n", "2:5", "b: uses a YAML alias"},
            {"postgres: {*a : x}\n", "1:12", "postgres: uses a YAML alias"},
            {"postgres: &a {dsn: x}\nrelay: *a\n", "1:11", "postgres: has a YAML anchor"},
            {"postgres: {dsn: &x y}\n", "1:17", "postgres.dsn: has a YAML anchor (&name); remove"},
            {"postgres: {&x dsn: y}\n", "1:12", "postgres: has a YAML anchor"},
            {"a: &a [x, x]\n", "1:4", "a: has a YAML anchor"},
            {"&a\na: [x]\n", "1:1", "has a YAML anchor"},
            {"postgres: !foo {dsn: x}\n", "1:11", "postgres: has a YAML tag (!name); remove it"},
            {"postgres:\n  dsn: !!str " CANARY "\n", "2:8", "postgres.dsn: has a YAML tag"},
            {"postgres: {!!str dsn: x}\n", "1:12", "postgres: has a YAML tag"},
            {"sinks: !<tag:a,2026:b> [x]\n", "1:8", "sinks: has a YAML tag"},
            {"sinks:\n  - ! x\n", "2:5", "sinks: has a YAML tag"},
            {PG SINK "    stdout: !!python/object:os.system {}\n", "5:13",
                "sinks[0].stdout: has a YAML tag"},
            {GOOD "---\n" GOOD, "6:1", "a second document"},
            {"postgres: {dsn: \"a\\0b\"}\n", "1:17", "postgres.dsn: holds a NUL"},
            {"a: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", "1:19", "nested too deep"},
        };

        REFUSE_ALL(cases);
}

Test(config, limits_how_many_keys_a_mapping_may_have)
{
        struct bytes text = {0};

        bytes_printf(&text, PG SINK "    module:\n      file: m.so\n      options:\n");
        for (int i = 0; i < 1000; i++)
                bytes_printf(&text, "        o%d: 1\n", i);
        config_free(load("%s", text.data));
        bytes_printf(&text, "        more: 1\n");
        refuse("1008:9",
            "sinks[0].module.options: has more than 1000 keys, the limit for a mapping", "%s",
            text.data);
        bytes_deinit(&text);
}

Test(config, refuses_values_of_another_shape)
{
        static const struct bad cases[] = {
            {"postgres: " CANARY "\n", "1:1", "postgres: must be a mapping of keys to values"},
            {"postgres: [" CANARY "]\n", "1:1", "found a list"},
            {"postgres: {dsn: [" CANARY "]}\n", "1:12",
                "postgres.dsn: must be a single value; found a list"},
            {"postgres: {dsn: {a: " CANARY "}}\n", "1:12", "found a mapping"},
            {PG "sinks: none\n", "2:1", "sinks: must be a list of mappings"},
            {PG "sinks: {name: a}\n", "2:1", "found a mapping"},
            {PG "sinks: [a]\n", "2:9", "sinks[0]: must be a mapping"},
            {PG "sinks:\n  -\n", "3:4",
                "sinks[0]: must be a mapping of keys to values; found nothing"},
            {PG "sinks:\n  - name: a\n    topics: t\n", "4:5", "sinks[0].topics: must be a list"},
            {PG "sinks:\n  - name: a\n    topics: {t: 1}\n", "4:5",
                "sinks[0].topics: must be a list"},
            {PG "sinks:\n  - name: a\n    topics: [t, [u]]\n", "4:17",
                "sinks[0].topics[1]: must be a single"},
            {PG SINK "    stdout:\n", "5:5",
                "sinks[0].stdout: must be a mapping of keys to values ({} for"},
            {PG SINK "    stdout: true\n", "5:5", "found a single value"},
            {PG SINK "    module: {file: m.so, options: [" CANARY "]}\n", "5:26",
                "sinks[0].module.options: must be a mapping of names to single values, as in"},
            {PG SINK "    module: {file: m.so, options: {a: [" CANARY "]}}\n", "5:36",
                "sinks[0].module.options.a: must be a single value; found a list"},
            {PG SINK "    module: {file: m.so, options: {a: }}\n", "5:36",
                "sinks[0].module.options.a: is empty"},
            {PG SINK "    module: {file: m.so, options: {a.b: 1}}\n", "5:36",
                "sinks[0].module.options.a.b: is not the name of an option"},
            {PG SINK "    module: {file: m.so, options: {a: 1, a: 2}}\n", "5:42", "is given twice"},
            {"postgres: {dsn: \"${UNSET_VARIABLE}\"}\nlog: {level: [" CANARY "]}\n", "2:7",
                "log.level: must be a single value; found a list"},
            {GOOD "log: {level: }\n", "6:7", "log.level: is empty"},
            {GOOD "log: {level: ~}\n", "6:7", "log.level: is empty"},
            {"postgres: {dsn: x, password: null}\n", "1:20", "postgres.password: is empty"},
            {"postgres: {dsn: \"\"}\n", "1:12", "postgres.dsn: is empty"},
            {"postgres: {dsn_file: \"\"}\n", "1:12", "postgres.dsn_file: is empty"},
            {"postgres: {dsn: \"a\\nb\"}\n", "1:12", "postgres.dsn: holds a line break"},
            {"postgres: {dsn: |\n  " CANARY "\n}\n", "1:17", "is not valid YAML"},
            {"postgres:\n  dsn: |\n    " CANARY "\n", "2:3", "postgres.dsn: holds a line break"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_what_lacks_a_required_key)
{
        static const struct bad cases[] = {
            {"log: {}\n", "1:1", "postgres.dsn: is required, or dsn_file"},
            {"postgres: {password: " CANARY "}\n" SINK STDOUT, "1:1", "postgres.dsn: is required"},
            {PG, "1:1", "sinks: is required, with at least one entry"},
            {PG "sinks: []\n", "2:1", "sinks: is required, with at least one entry"},
            {PG "sinks:\n  - topics: [t]\n" STDOUT, "3:5", "sinks[0].name: is required"},
            {PG "sinks:\n  - name: a\n" STDOUT, "3:5",
                "sinks[0].topics: is required, with at least one"},
            {PG "sinks:\n  - name: a\n    topics: []\n" STDOUT, "4:5",
                "sinks[0].topics: is required"},
            {PG SINK "    redis: {}\n", "5:5",
                "sinks[0].redis: needs exactly one of url, sentinels and cluster"},
            {PG SINK "    http: {}\n", "5:5", "sinks[0].http.url: is required: write"},
            {PG SINK "    email: {from: a@b}\n", "5:5", "sinks[0].email.url: is required"},
            {PG SINK "    email: {url: smtp://h}\n", "5:5", "sinks[0].email.from: is required"},
            {PG SINK, "3:5",
                "sinks[0]: has no destination; exactly one of these is needed: redis, http"},
            {PG SINK STDOUT "    http: {url: http://h}\n", "3:5",
                "sinks[0]: has more than one destination"},
            {GOOD "  - name: b\n    topics: [t]\n    stdout: {}\n  - name: a\n    topics: [t]\n    "
                  "stdout: {}\n",
                "9:5", "sinks[2].name: is the name of sinks[0] too"},
            {OF_REDIS("user: me"), "5:29", "given without a password"},
            {PG SINK "    redis: {url: redis://me@h}\n", "5:5", "given without a password"},
            {PG SINK "    redis: {url: \"redis://:" CANARY "@h\", password: " CANARY "}\n", "5:48",
                "sinks[0].redis.password: is given here and in url"},
            {PG SINK "    redis: {url: \"redis://me:" CANARY "@h\", user: you}\n", "5:50",
                "sinks[0].redis.user: is given here and in url"},
            {OF_EMAIL("from: a@b, user: me"), "5:39", "given without password"},
            {OF_EMAIL("from: a@b, password: " CANARY), "5:39", "given without user"},
            {OF_EMAIL("from: a@b, relays: [{url: smtp://i}]"), "5:39",
                "sinks[0].email.relays: is given together with url"},
            {PG SINK "    email: {from: a@b, relays: []}\n", "5:5",
                "sinks[0].email.url: is required, or relays"},
            {PG SINK "    email: {from: a@b, user: me, relays: [{url: smtp://i}]}\n", "5:24",
                "sinks[0].email.user: is given together with relays"},
            {PG SINK "    email: {from: a@b, relays: [{url: smtp://i}, {user: me}]}\n", "5:50",
                "sinks[0].email.relays[1].url: is required"},
            {PG SINK "    email: {from: a@b, relays: [{url: smtp://i, " LOGIN
                     "}, {url: smtp://j, password: " CANARY "}]}\n",
                "5:103", "sinks[0].email.relays[1].password: is given without user"},
            {PG SINK "    email: {from: a@b, relays: [{url: \"smtp://me:" CANARY "@h\"}]}\n",
                "5:34", "sinks[0].email.relays[0].url: has a user name or password"},
            {PG SINK "    email: {from: a@b, relays: [{url: smtp://1}, {url: smtp://2}, {url: "
                     "smtp://3}, {url: smtp://4}, {url: smtp://5}, {url: smtp://6}, {url: "
                     "smtp://7}, {url: smtp://8}, {url: smtp://9}]}\n",
                "5:24", "sinks[0].email.relays: has 9 entries; allowed: up to 8"},
            {OF_EMAIL("from: a@b, key_file: /etc/passwd"), "5:39",
                "sinks[0].email.key_file: is given without cert_file"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_choices_numbers_durations_and_sizes)
{
        static const struct bad cases[] = {
            {GOOD "log: {level: verbose}\n", "6:7",
                "'verbose' is not allowed here; allowed: debug, info, warn, error"},
            {GOOD "log: {level: Info}\n", "6:7", "allowed: debug, info, warn, error"},
            {GOOD "relay: {wakeup: \"notify, poll\"}\n", "6:9", "allowed: notify, poll"},
            {GOOD "relay: {wakeup: }\n", "6:9", "is empty"},
            {OF_SINK("start: end"), "5:5",
                "sinks[0].start: 'end' is not allowed here; allowed: now, beginning"},
            {OF_SINK("order: no"), "5:5", "allowed: key, none"},
            {OF_EMAIL("from: a@b, tls: yes"), "5:39", "allowed: auto, required, none"},
            {PG SINK "    stdout: {payload: yes}\n", "5:14",
                "'yes' is not allowed here; allowed: true, false"},
            {GOOD "relay: {sweep: 5}\n", "6:9",
                "relay.sweep: '5' has no unit; allowed: a whole number with a unit: 250ms"},
            {GOOD "relay: {sweep: 0}\n", "6:9", "'0' is out of range; allowed: 10ms to 1h"},
            {GOOD "relay: {sweep: 5sec}\n", "6:9",
                "allowed: a whole number with a unit: 250ms, 5s, 1m, 2h or 3d"},
            {GOOD "relay: {sweep: 1.5s}\n", "6:9", "'1.5s' is not allowed"},
            {GOOD "relay: {sweep: -5s}\n", "6:9", "'-5s' is not allowed"},
            {GOOD "relay: {sweep: 99999999999999999999s}\n", "6:9", "is not allowed"},
            {GOOD "relay: {drain: 2h}\n", "6:9", "'2h' is out of range; allowed: 0 to 1h"},
            {OF_SINK("retry: {first: 0}"), "5:13",
                "sinks[0].retry.first: '0' is out of range; allowed: 1ms to 1h"},
            {OF_SINK("retry: {first: 2h}"), "5:13", "allowed: 1ms to 1h"},
            {OF_SINK("retry: {factor: 0.9}"), "5:13", "'0.9' is out of range; allowed: 1 to 10"},
            {OF_SINK("retry: {factor: 11}"), "5:13", "out of range"},
            {OF_SINK("retry: {factor: 1e1}"), "5:13", "a number such as 3 or 1.5"},
            {OF_SINK("retry: {factor: nan}"), "5:13", "a number such as 3 or 1.5"},
            {OF_SINK("retry: {factor: \"3,5\"}"), "5:13", "a number such as 3 or 1.5"},
            {OF_SINK("retry: {first: 5s, max: 4s}"), "5:24",
                "sinks[0].retry.max: is below retry.first"},
            {OF_SINK("retry: {attempts: 1000001}"), "5:13",
                "sinks[0].retry.attempts: '1000001' is out of range; allowed: 0 to 1000000"},
            {OF_SINK("retry: {attempts: -1}"), "5:13", "a whole number"},
            {OF_SINK("retry: {max_age: 3}"), "5:13", "'3' has no unit"},
            {OF_SINK("retry: {max_age: 366d}"), "5:13", "allowed: 0 to 365d"},
            {OF_SINK("park_after: 0"), "5:5", "allowed: 1ms to 1h"},
            {OF_SINK("park_after: 61m"), "5:5", "allowed: 1ms to 1h"},
            {OF_SINK("max_parked: 0"), "5:5", "allowed: 1 to 1000000000"},
            {OF_SINK("max_parked: 10k"), "5:5", "a whole number"},
            {OF_SINK("max_event_bytes: 2GiB"), "5:5", "allowed: 0 to 1GiB"},
            {OF_SINK("max_event_bytes: 1mib"), "5:5", "16MiB"},
            {OF_SINK("max_in_flight: 0"), "5:5",
                "sinks[0].max_in_flight: '0' is out of range; allowed: 2 to 100000"},
            {OF_SINK("max_in_flight: 1"), "5:5", "allowed: 2 to 100000"},
            {OF_SINK("max_in_flight: 100001"), "5:5", "out of range"},
            {OF_SINK("max_in_flight: 4294967297"), "5:5", "out of range"},
            {OF_SINK("max_in_flight: 18446744073709551617"), "5:5", "a whole number"},
            {OF_SINK("max_in_flight: 010"), "5:5",
                "'010' is not allowed here; allowed: a whole number"},
            {OF_SINK("max_in_flight: 0x10"), "5:5", "a whole number"},
            {OF_SINK("max_in_flight: -1"), "5:5", "a whole number"},
            {OF_SINK("max_in_flight: many"), "5:5", "a whole number"},
            {OF_SINK("max_in_flight_bytes: 16mb"), "5:5", "16MiB"},
            {OF_SINK("max_in_flight_bytes: 63KiB"), "5:5", "allowed: 64KiB to 1GiB"},
            {OF_SINK("max_in_flight_bytes: 2GiB"), "5:5", "allowed: 64KiB to 1GiB"},
            {OF_SINK("concurrency: 16385"), "5:5", "allowed: 0 to 16384"},
            {PG SINK "    concurrency: 17\n    email: {url: smtp://h, from: a@b}\n", "5:5",
                "sinks[0].concurrency: '17' is out of range; allowed for email: 1 to 16"},
            {OF_SINK("rate: {per_second: -1}"), "5:12", "a number"},
            {OF_SINK("rate: {per_second: 1000001}"), "5:12", "allowed: 0 to 1000000"},
            {OF_SINK("rate: {per_second: 1, burst: 1000001}"), "5:27", "allowed: 0 to 1000000"},
            {OF_SINK("rate: {burst: 5}"), "5:12",
                "sinks[0].rate.burst: is given without per_second"},
            {OF_REDIS("maxlen: 9999999999999999999"), "5:29", "out of range"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_relays)
{
#define RELAY(keys) PG "relay: {" keys "}\n" SINK STDOUT
        static const struct bad cases[] = {
            {RELAY("name: Web1"), "2:9",
                "relay.name: is not a relay's name; allowed: 1 to 63 of a-z, 0-9, -, _ and ."},
            {RELAY("name: web/2"), "2:9", "is not a relay's name"},
            {RELAY("name: "
                   "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggh"),
                "2:9", "is not a relay's name"},
            {RELAY("name: \"\""), "2:9", "relay.name: is empty"},
            {RELAY("weight: 0"), "2:9", "'0' is out of range; allowed: 1 to 1000"},
            {RELAY("weight: 1001"), "2:9", "'1001' is out of range; allowed: 1 to 1000"},
            {RELAY("weight: 1.5"), "2:9", "allowed: a whole number"},
            {RELAY("sinks: a"), "2:9", "relay.sinks: must be a list of single values"},
            {RELAY("sinks: []"), "2:9", "relay.sinks: is empty; list the sinks"},
            {RELAY("sinks: [a, b]"), "2:20",
                "relay.sinks[1]: matches the name of no sink in this file"},
            {RELAY("sinks: [\"*\", \"!b*\"]"), "2:22",
                "relay.sinks[1]: matches the name of no sink"},
            {RELAY("sinks: [\"a?\"]"), "2:17",
                "relay.sinks[0]: is not a pattern of sinks' names; allowed: a-z"},
            {RELAY("sinks: [\"\"]"), "2:17", "relay.sinks[0]: is empty"},
            {RELAY("sinks: [\"!a\"]"), "2:9", "relay.sinks: only excludes; begin with"},
            {RELAY("sinks: [\"*\", \"!a\"]"), "2:9",
                "relay.sinks: leaves no sink for this relay to serve"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_shards_that_would_break_a_promise)
{
        static const struct bad cases[] = {
            {OF_SINK("shards: 0"), "5:5",
                "sinks[0].shards: '0' is out of range; allowed: 1 to 256"},
            {OF_SINK("shards: 257"), "5:5", "'257' is out of range; allowed: 1 to 256"},
            {PG SINK "    shards: 2\n"
                     "    redis: {url: redis://h, stream: s, exactly_once: true}\n",
                "5:5",
                "sinks[0].shards: is above 1, but redis.exactly_once writes with one epoch for a "
                "whole stream; use shards: 1"},
        };
        struct config *config =
            load(PG SINK "    shards: 1\n"
                         "    redis: {url: redis://h, stream: s, exactly_once: true}\n");

        config_free(config);
        REFUSE_ALL(cases);
}

#define TOPICS PG "sinks:\n  - name: a\n    topics: "

Test(config, refuses_bad_routing)
{
        static const struct bad cases[] = {
            {TOPICS "[\"!a\", \"!b\"]\n" STDOUT, "4:5",
                "sinks[0].topics: only excludes; begin with a pattern that includes, as in "
                "[\"**\", \"!a.*\"]"},
            {TOPICS "[a, \"!\"]\n" STDOUT, "4:17", "sinks[0].topics[1]: is empty; ** matches"},
            {TOPICS "[\"a.***\"]\n" STDOUT, "4:14", "more than two * in a row"},
            {TOPICS "[\"!!a\"]\n" STDOUT, "4:14", "begins with two !"},
            {OF_SINK("types: [\"!a\"]"), "5:5", "sinks[0].types: only excludes"},
            {OF_SINK("match_headers: [\"=x\"]"), "5:21",
                "sinks[0].match_headers[0]: has no header name; allowed: name=value, or name"},
            {OF_SINK("filter: \" \""), "5:5", "is empty; allowed: a jsonpath predicate"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_lists_of_delays)
{
        static const struct bad cases[] = {
            {OF_SINK("retry: {delays: 5s}"), "5:13",
                "sinks[0].retry.delays: must be a list of single values"},
            {OF_SINK("retry: {delays: [1s, [2s]]}"), "5:26",
                "sinks[0].retry.delays[1]: must be a single value"},
            {OF_SINK("retry: {delays: [1s, 5, 2s]}"), "5:26",
                "sinks[0].retry.delays[1]: '5' has no unit; allowed: a whole number with a unit"},
            {PG SINK "    retry:\n      delays:\n        - 1s\n        - 31d\n" STDOUT, "8:11",
                "sinks[0].retry.delays[1]: '31d' is out of range; allowed: 1ms to 30d"},
            {OF_SINK("retry: {delays: [0]}"), "5:22", "out of range"},
            {OF_SINK("retry: {delays: [soon]}"), "5:22", "'soon' is not allowed here"},
            {OF_SINK("retry: {delays: [1s, ~]}"), "5:26", "sinks[0].retry.delays[1]: is empty"},
            {OF_SINK("retry: {delays: []}"), "5:13",
                "sinks[0].retry.delays: is empty; give at least one delay"},
            {PG SINK "    retry:\n      first: 1s\n      delays: [1s]\n" STDOUT, "6:7",
                "sinks[0].retry.first: is given together with delays; keep one of the two"},
            {OF_SINK("retry: {delays: [1s], factor: 2}"), "5:27",
                "sinks[0].retry.factor: is given together with delays"},
            {OF_SINK("retry: {delays: [1s], max: 2s}"), "5:27",
                "sinks[0].retry.max: is given together with delays"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_names_patterns_and_templates)
{
        static const struct bad cases[] = {
            {PG "sinks:\n  - {name: A, topics: [t], stdout: {}}\n", "3:6",
                "sinks[0].name: is not a sink's name; allowed:"},
            {PG "sinks:\n  - {name: -a, topics: [t], stdout: {}}\n", "3:6", "is not a sink's name"},
            {PG "sinks:\n  - {name: a b, topics: [t], stdout: {}}\n", "3:6",
                "is not a sink's name"},
            {PG "sinks:\n  - {name: "
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, topics: [t], "
                "stdout: {}}\n",
                "3:6", "is not a sink's name"},
            {PG "sinks:\n  - {name: a, topics: [t, \"\"], stdout: {}}\n", "3:27",
                "sinks[0].topics[1]: is empty"},
            {PG "sinks:\n  - {name: a, topics: [~], stdout: {}}\n", "3:24",
                "sinks[0].topics[0]: is empty"},
            {PG "sinks:\n  - {name: a, topics: [\"a\\tb\"], stdout: {}}\n", "3:24",
                "a control character"},
            {OF_HTTP("headers: [a, \"b: c\"]"), "5:40",
                "sinks[0].http.headers[1]: is not the name of an HTTP header"},
            {PG SINK "    http: {url: http://h, headers: [\"a\\r\\nb\"]}\n", "5:37", "line break"},
            {OF_REDIS("stream: \"\""), "5:29", "sinks[0].redis.stream: is empty"},
            {OF_REDIS("stream: \"x{{payload}}\""), "5:29",
                "the only variables are {{topic}}, {{type}} and {{key}}"},
            {OF_REDIS("stream: \"{{topic}}\""), "5:29",
                "begins with a variable, so an event could name any Redis key"},
            {OF_REDIS("stream: \"a\\tb\""), "5:29", "holds a control character"},
            {OF_REDIS("maxlen: 5, minid: 1h"), "5:40", "minid: is given together with maxlen"},
            {OF_REDIS("channel: c"), "5:29", "is only for mode: pubsub"},
            {OF_REDIS("mode: pubsub, maxlen: 5"), "5:43", "maxlen: is only for mode: stream"},
            {OF_REDIS("mode: pubsub, exactly_once: true"), "5:43",
                "exactly_once: is only for mode: stream"},
            {OF_REDIS("source: /x"), "5:29", "source: is only for format: cloudevents"},
            {OF_REDIS("format: cloudevents, source: a b"), "5:50", "is not a URI"},
            {OF_REDIS("debezium: {key: json}"), "5:29",
                "redis.debezium: is only for layout: debezium-extended and debezium-compact"},
            {OF_REDIS("mode: pubsub, debezium: {}"), "5:43", "debezium: is only for mode: stream"},
            {OF_DEBEZIUM("extended", "key: expanded"), "5:67",
                "redis.debezium.key: 'expanded' is not allowed here; allowed: string, json, "
                "json-schema"},
            {OF_DEBEZIUM("extended", "value: avro"), "5:67",
                "allowed: string, json, json-schema, expanded"},
            {OF_DEBEZIUM("extended", "headers: expanded"), "5:67", "allowed: string, json, json-"},
            {OF_DEBEZIUM("extended", "schema: true"), "5:67", "is not a known key"},
            {OF_DEBEZIUM("extended", "context: \"\""), "5:67", "context: is empty"},
            {OF_DEBEZIUM("extended", "null_key: none"), "5:67",
                "null_key: is only for key: string"},
            {OF_DEBEZIUM("extended", "value: expanded, null_value: none"), "5:84",
                "null_value: is only for value: string and for tombstone: true"},
            {OF_DEBEZIUM("compact", "headers: json"), "5:66",
                "headers: is only for layout: debezium-extended"},
            {OF_DEBEZIUM("compact", "context: shop"), "5:66", "compact has no headers"},
            {OF_DEBEZIUM("compact", "type_header: t"), "5:66", "compact has no headers"},
            {OF_REDIS("layout: debezium-compact, format: cloudevents, debezium: {value: json}"),
                "5:87", "value: is given together with format: cloudevents"},
            {OF_REDIS("wait_timeout: 1s"), "5:29", "is only for wait_replicas above 0"},
            {OF_REDIS("wait_replicas: 1, wait_timeout: 5s"), "5:47", "is not shorter than timeout"},
            {OF_REDIS("exactly_once: true"), "5:29", "exactly_once: needs a fixed stream"},
            {OF_REDIS("exactly_once: true, stream: \"x:{{key}}\""), "5:29",
                "exactly_once: needs a fixed stream"},
            {OF_REDIS("exactly_once: true, stream: \"x}y\""), "5:49",
                "has braces that are not a hash tag"},
            {OF_REDIS("exactly_once: true, stream: \"x{}y\""), "5:49",
                "has braces that are not a hash tag"},
            {OF_REDIS("stream: \"x{{topic\""), "5:29", "each {{ needs a }}"},
            {OF_REDIS("stream: \"topic}}\""), "5:29", "each {{ needs a }}"},
            {OF_EMAIL("from: nobody"), "5:28", "sinks[0].email.from: is not one e-mail address"},
            {OF_EMAIL("from: \"a@b, c@d\""), "5:28", "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: \"a@b\\r\\nBcc: c@d\"}\n", "5:28",
                "line break"},
            {OF_EMAIL("from: \"A, B <a@b>\""), "5:28", "is not one e-mail address"},
            {OF_EMAIL("from: \"A <a@b> <c@d>\""), "5:28", "is not one e-mail address"},
            {OF_EMAIL("from: a@b@c"), "5:28", "is not one e-mail address"},
            {OF_EMAIL("from: a@b..c"), "5:28", "is not one e-mail address"},
            {OF_EMAIL("from: a@b, message_id_domain: \"x>\""), "5:39", "is not a domain"},
            {OF_HTTP("ca_file: /nonexistent/ca.pem"), "5:27", "names a file that does not exist"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_urls_and_secrets_without_quoting_them)
{
#define REDIS(url) PG SINK "    redis: {url: \"" url "\"}\n", "5:13"
#define HTTP(rest) PG SINK "    http: {url: \"" rest "}\n"
#define EMAIL(url) PG SINK "    email: {from: a@b, url: \"" url "\"}\n", "5:24"
        static const struct bad cases[] = {
            {REDIS("rediss://:" CANARY "@h/x"), "is not the number of a database"},
            {REDIS("http://" CANARY), "unknown scheme; allowed: redis://"},
            {REDIS(CANARY), "is not a URL"},
            {REDIS("redis://:" CANARY "@"), "has no host"},
            {REDIS("redis://h:0"), "malformed host or port"},
            {REDIS("redis://h:65536"), "malformed host or port"},
            {REDIS("redis://h:"), "malformed host or port"},
            {REDIS("redis://h:080"), "malformed host or port"},
            {REDIS("redis://[fe80::1%25eth0]"), "malformed host or port"},
            {REDIS("redis://[::g]"), "malformed host or port"},
            {REDIS("redis://h:63x"), "malformed host or port"},
            {REDIS("redis://[::1"), "malformed host or port"},
            {REDIS("redis://h_%41"), "malformed host or port"},
            {REDIS("redis://h/x"), "number of a database"},
            {REDIS("redis://h/99999999999"), "number of a database"},
            {REDIS("redis://h?db=1"), "has a ?query"},
            {REDIS("redis://:" CANARY "%zz@h"), "malformed %XX"},
            {REDIS("redis://:" CANARY "%0a@h"), "malformed %XX, or a control character"},
            {REDIS("redis://:" CANARY "@x@h"), "write %40"},
            {REDIS("redis://:" CANARY "#x@h"), "malformed host or port"},
            {REDIS("unix://" CANARY "/x"), "between unix:// and its path"},
            {REDIS("unix://"), "has no path"},
            {REDIS("unix:///x?database=1"), "other than db=N"},
            {REDIS("unix:///x%0"), "malformed %XX"},
            {HTTP("ftp://h\""), "5:12", "allowed: http://host… or https://host…"},
            {HTTP("http://me:" CANARY "@h\""), "5:12", "use the keys secret or headers"},
            {HTTP("http://\""), "5:12", "has no host"},
            {HTTP("https:///" CANARY "\""), "5:12", "has no host"},
            {HTTP("http://h/ " CANARY "\""), "5:12", "a space"},
            {HTTP("http://h\\\\@" CANARY "\""), "5:12", "a backslash"},
            {HTTP("http://h/\\u00e9\""), "5:12", "beyond ASCII"},
            {HTTP("http://h/" CANARY "#x\""), "5:12", "#fragment"},
            {HTTP("http://h/\\r\\nX: y\""), "5:12", "line break"},
            {HTTP("http://h\", secret: " CANARY), "5:29",
                "is not a signing secret; allowed: whsec_"},
            {HTTP("http://h\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="), "5:29",
                "24 to 64"},
            {HTTP("http://h\", secret: whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI-"), "5:29",
                "standard alphabet"},
            {HTTP("http://h\", secret: whsk_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"), "5:29",
                "is not a signing"},
            {EMAIL("http://h"), "allowed: smtp://host[:port]"},
            {EMAIL("smtp://h/x"), "text after its host"},
            {EMAIL("smtp://"), "has no host"},
            {EMAIL("smtp://me:" CANARY "@h"), "use the keys user and password"},
        };

        REFUSE_ALL(cases);
}

/* Either may be NULL. */
static void expect_text(const char *text, const char *expected)
{
        cr_expect_str_eq(text != NULL ? text : "NULL", expected != NULL ? expected : "NULL");
}

Test(config, takes_apart_the_urls_of_redis)
{
        static const struct {
                const char *url, *host, *socket_path, *user, *password;
                unsigned port, db;
        } cases[] = {
            {"redis://localhost", "localhost", NULL, NULL, NULL, 6379, 0},
            {"REDIS://localhost/", "localhost", NULL, NULL, NULL, 6379, 0},
            {"redis://10.0.0.1:7000/15", "10.0.0.1", NULL, NULL, NULL, 7000, 15},
            {"redis://[::1]:7000", "::1", NULL, NULL, NULL, 7000, 0},
            {"redis://:p%3A%2f@h", "h", NULL, NULL, "p:/", 6379, 0},
            {"redis://u:a:b@h", "h", NULL, "u", "a:b", 6379, 0},
            {"unix:///run/redis.sock", NULL, "/run/redis.sock", NULL, NULL, 0, 0},
            {"unix:///run/a%20b.sock?db=7", NULL, "/run/a b.sock", NULL, NULL, 0, 7},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load(PG SINK "    redis: {url: \"%s\"}\n", cases[i].url);
                const struct redis_config *redis = config->sinks[0].redis;

                expect_text(redis->host, cases[i].host);
                expect_text(redis->socket_path, cases[i].socket_path);
                expect_text(redis->user, cases[i].user);
                expect_text(redis->password, cases[i].password);
                cr_expect_eq(redis->port, cases[i].port, "%s", cases[i].url);
                cr_expect_eq(redis->db, cases[i].db, "%s", cases[i].url);
                config_free(config);
        }
}

Test(config, reads_where_sentinels_and_clusters_are)
{
        struct config *config = load(
            PG SINK "    redis: {sentinels: [a, \"[::1]:26380\"], master: m, db: 2, tls: true,\n"
                    "      user: u, password: p, sentinel_user: su, sentinel_password: sp}\n"
                    "  - name: b\n    topics: [t]\n"
                    "    redis: {cluster: [\"c:7000\"]}\n"
                    "  - name: c\n    topics: [t]\n"
                    "    redis: {url: \"rediss://h:1/2\"}\n");
        const struct redis_config *redis = config->sinks[0].redis;

        cr_expect_eq(redis->n_sentinels, 2);
        cr_expect_str_eq(redis->sentinels[1], "[::1]:26380");
        cr_expect_str_eq(redis->master, "m");
        cr_expect_str_eq(redis->user, "u");
        cr_expect_str_eq(redis->sentinel_user, "su");
        cr_expect_str_eq(redis->sentinel_password, "sp");
        cr_expect_eq(redis->db, 2);
        cr_expect(redis->tls);
        cr_expect_null(redis->host);
        cr_expect_eq(config->sinks[1].redis->n_cluster, 1);
        cr_expect(!config->sinks[1].redis->tls);
        cr_expect(config->sinks[2].redis->tls);
        cr_expect_eq(config->sinks[2].redis->db, 2);
        config_free(config);
}

Test(config, refuses_redis_keys_that_contradict_each_other)
{
        static const struct bad cases[] = {
            {OF_REDIS("cluster: [h]"), "5:5", "needs exactly one of url"},
            {PG SINK "    redis: {sentinels: [h]}\n", "5:5", "has sentinels but no master"},
            {OF_REDIS("master: m"), "5:29", "sinks[0].redis.master: is given without sentinels"},
            {OF_REDIS("sentinel_user: m"), "5:29",
                "sinks[0].redis.sentinel_user: is given without a password; add sentinel_password"},
            {OF_REDIS("sentinel_password: " CANARY), "5:29", "is given without sentinels"},
            {PG SINK "    redis: {cluster: [h], db: 1}\n", "5:27",
                "a Redis Cluster has no other database"},
            {PG SINK "    redis: {url: redis://h/1, db: 1}\n", "5:31", "is given here and in url"},
            {OF_REDIS("tls: true"), "5:29", "url is not rediss://"},
            {OF_REDIS("ca_file: /etc/passwd"), "5:29", "is given without TLS"},
            {PG SINK "    redis: {url: rediss://h, cert_file: /etc/passwd}\n", "5:30",
                "is given without key_file"},
            {PG SINK "    redis: {cluster: [\"h:0\"]}\n", "5:23", "malformed host or port"},
            {PG SINK "    redis: {cluster: [\"me@h\"]}\n", "5:23",
                "is not of the form host[:port]"},
            {PG SINK "    redis: {cluster: [\"h/1\"]}\n", "5:23", "is not of the form host[:port]"},
            {PG SINK "    redis: {sentinels: [\"h\\r\\n\"], master: m}\n", "5:25", ""},
        };

        REFUSE_ALL(cases);
}

Test(config, takes_names_and_domains_from_sender_addresses)
{
        static const struct {
                const char *from, *domain;
        } cases[] = {
            {"a@b", "b"},
            {"first.last+x@mail.example.com", "mail.example.com"},
            {"<a@b.c>", "b.c"},
            {"Shop Team <a@b.c>", "b.c"},
            {"\\\"Shop, Inc.\\\" <a@b.c>", "b.c"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load(OF_EMAIL("from: \"%s\""), cases[i].from);

                cr_expect_str_eq(config->sinks[0].email->message_id_domain, cases[i].domain);
                config_free(config);
        }
}

Test(config, says_where_a_sink_delivers_to_without_secrets)
{
        static const struct {
                const char *kind;
                const char *target;
        } cases[] = {
            {"redis: {url: \"redis://u:" CANARY "@h:7/2\", stream: s}",
                "redis://h:7, database 2, stream s"},
            {"http: {url: \"https://h/" CANARY "?t=" CANARY "\"}", "https://h"},
            {"http: {receivers: table}", "the receivers in courier.receiver"},
            {"email: {url: \"smtp://[::1]:25\", from: a@b}", "smtp://[::1]:25"},
            {"stdout: {}", "standard output"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load(PG SINK "    %s\n", cases[i].kind);
                char *target = sink_config_target(&config->sinks[0]);

                cr_expect_str_eq(target, cases[i].target);
                free(target);
                config_free(config);
        }
}

Test(config, names_the_file_that_cannot_be_read)
{
        struct error error = {0};

        cr_expect_null(config_load("/nonexistent/pgcourier.yaml", &error));
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect_str_eq(
            error.text, "/nonexistent/pgcourier.yaml: cannot be read: No such file or directory");

        cr_expect_null(config_load("/tmp", &error));
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect_str_eq(error.text, "/tmp: is a folder; it must be a regular file");

        cr_expect_null(config_load("/dev/zero", &error));
        cr_expect_eq(error.kind, ERROR_CONFIG);
        cr_expect_str_eq(error.text, "/dev/zero: is a device; it must be a regular file");
}

/* Root may read everything, so the kernel must see an ordinary user; for a while only, as the leak
 * checker could not look into this process at its end. */
static void set_user(uid_t user)
{
        if (getuid() == 0)
                cr_assert_eq(seteuid(user), 0);
}

static void refuse_for_permission(const char *what)
{
        struct error error = {0};
        struct config *config;

        set_user(65534);
        config = config_load(path, &error);
        set_user(0);
        cr_expect_null(config);
        cr_expect_eq(error.kind, ERROR_PERMISSION);
        cr_expect(strstr(error.text, what) != NULL, "%s", error.text);
        cr_expect(
            strstr(error.text, "cannot be read: Permission denied") != NULL, "%s", error.text);
}

Test(config, names_a_missing_permission_to_read_a_file)
{
        char *file = make_file("x", 1);
        char *text = xasprintf("postgres: {dsn_file: %s}\n", file);

        cr_assert_eq(chmod(file, 0), 0);
        write_file(path, text, strlen(text));
        cr_assert_eq(chmod(path, 0644), 0);
        refuse_for_permission(file);
        refuse_for_permission(":1:12: postgres.dsn_file: the file '");

        cr_assert_eq(chmod(path, 0), 0);
        refuse_for_permission(path);
        free(text);
        remove_file(file);
}

/* To open one waits for its writer. */
Test(config, refuses_a_named_pipe_without_waiting)
{
        char *pipe = xasprintf("%s.pipe", path);
        struct error error = {0};

        cr_assert_eq(mkfifo(pipe, 0600), 0);
        refuse(
            NULL, "is a named pipe; it must be a regular file", "postgres: {dsn_file: %s}\n", pipe);
        refuse(NULL, "is a named pipe; it must be a regular file",
            "postgres: {dsn: \"${file:%s}\"}\n", pipe);
        refuse(NULL, "is a named pipe; it must be a regular file", PG "admin: {token_file: %s}\n",
            pipe);
        refuse(NULL, "is a named pipe", OF_HTTP("secret_file: %s"), pipe);
        refuse(NULL, "is a named pipe", OF_HTTP("secrets_file: %s"), pipe);
        refuse(NULL, "is not a regular file", OF_HTTP("ca_file: %s"), pipe);
        refuse(NULL, "is not a regular file", PG SINK "    redis: {url: rediss://h, ca_file: %s}\n",
            pipe);
        refuse(NULL, "is not a regular file", OF_EMAIL("from: a@b, cert_file: %s"), pipe);
        refuse(NULL, "is not a folder", OF_EMAIL("from: a@b, templates: %s"), pipe);
        cr_expect_null(config_load(pipe, &error));
        cr_expect(strstr(error.text, "is a named pipe") != NULL, "%s", error.text);
        unlink(pipe);
        free(pipe);
}

Test(config, reads_secrets_from_files_without_one_trailing_newline)
{
        char *file = make_file("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0\n", 43);
        struct config *config = load("postgres: {dsn_file: %s, password_file: %s}\n" SINK
                                     "    http: {url: http://h, secret_file: %s}\n",
            file, file, file);

        cr_expect_str_eq(config->postgres.dsn, "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0");
        cr_expect_str_eq(config->postgres.password, config->postgres.dsn);
        cr_expect_str_eq(config->sinks[0].http->secret, config->postgres.dsn);
        config_free(config);
        remove_file(file);
}

Test(config, refuses_files_that_hold_no_single_line_of_text)
{
        static const struct {
                const char *content;
                size_t length;
                const char *words;
        } cases[] = {
            {"", 0, "is empty"},
            {"\n", 1, "is empty"},
            {CANARY "\r\n", 17, "line break (LF or CR)"},
            {CANARY "\n\n", 17, "line break (LF or CR)"},
            {CANARY "\nx", 17, "line break (LF or CR)"},
            {CANARY "\0x", 17, "NUL byte"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *file = make_file(cases[i].content, cases[i].length);

                refuse("1:20", cases[i].words, "postgres: {dsn: x, password_file: %s}\n", file);
                refuse("1:12", cases[i].words, "postgres: {dsn: \"x ${file:%s}\"}\n", file);
                remove_file(file);
        }
}

Test(config, refuses_bad_secret_files_and_a_secret_given_twice)
{
        char *file = make_file(CANARY, strlen(CANARY));

        refuse("1:34", "postgres.dsn_file: is given together with dsn; keep one of the two",
            "postgres: {dsn: %s, dsn_file: %s}\n", CANARY, file);
        refuse("5:12", "sinks[0].http.url_file: is not a URL", PG SINK "    http: {url_file: %s}\n",
            file);
        refuse("5:27", "sinks[0].http.secret_file: is not a signing secret",
            OF_HTTP("secret_file: %s"), file);
        refuse("1:12",
            "postgres.dsn_file: the file '/nonexistent' cannot be read: No such file or directory",
            "postgres: {dsn_file: /nonexistent}\n");
        refuse("1:12",
            "postgres.dsn: the file of ${file:/nonexistent} cannot be read: No such file",
            "postgres: {dsn: \"${file:/nonexistent}\"}\n");
        remove_file(file);
}

Test(config, fills_in_variables_and_files)
{
        char *file = make_file("from file\n", 10);
        char *expected = xasprintf("from file|a value|a value|other||$|${HOME}|$|$HOME|${SET}");
        char *text =
            xasprintf("${file:%s}|${SET}|${SET:-other}|${UNSET:-other}|${UNSET:-}|$$|$${HOME}|$|"
                      "$HOME|${RAW}",
                file);
        struct error error = {0};

        setenv("SET", "a value", 1);
        setenv("RAW", "${SET}", 1);
        char *filled = interpolate(text, &error);
        cr_assert_not_null(filled, "%s", error.text);
        cr_expect_str_eq(filled, expected);
        free(filled);
        free(expected);
        free(text);
        remove_file(file);
}

Test(config, fills_in_every_kind_of_value_but_never_structure)
{
        setenv("LEVEL", "warn", 1);
        setenv("SWEEP", "7", 1);
        setenv("N", "21", 1);
        setenv("TOPIC", "a], stdout: {payload: false}, x: [", 1);
        struct config *config = load(PG "log: {level: \"${LEVEL}\"}\n"
                                        "relay: {sweep: \"${SWEEP}s\"}\n"
                                        "sinks:\n"
                                        "  - name: a\n"
                                        "    topics: [\"${TOPIC}\"]\n"
                                        "    max_in_flight: ${N}\n"
                                        "    max_in_flight_bytes: ${SIZE:-1MiB}\n"
                                        "    stdout: {}\n");

        cr_expect_str_eq(config->log_level, "warn");
        cr_expect_eq(config->relay.sweep_ms, 7000);
        cr_expect_eq(config->sinks[0].n_topics, 1);
        cr_expect_str_eq(config->sinks[0].topics[0], "a], stdout: {payload: false}, x: [");
        cr_expect_eq(config->sinks[0].max_in_flight, 21);
        cr_expect_eq(config->sinks[0].max_in_flight_bytes, 1024 * 1024);
        cr_expect(config->sinks[0].stdout_->payload);
        config_free(config);
}

Test(config, refuses_references_that_lead_nowhere)
{
        static const struct bad cases[] = {
            {"postgres:\n  dsn: ${UNSET}\n", "2:3",
                "postgres.dsn: the environment variable UNSET is not set"},
            {"postgres:\n  dsn: ${UNSET:?ask the DBA}\n", "2:3", "UNSET is not set: ask the DBA"},
            {"postgres:\n  dsn: ${EMPTY:?ask the DBA}\n", "2:3", "EMPTY is not set: ask the DBA"},
            {"postgres:\n  dsn: ${EMPTY}\n", "2:3", "postgres.dsn: is empty"},
            {"postgres:\n  dsn: ${UNSET:-}\n", "2:3", "postgres.dsn: is empty"},
            {"postgres:\n  dsn: " CANARY "${UNSET\n", "2:3", "holds a ${ without its }"},
            {"postgres:\n  dsn: ${" CANARY " x}\n", "2:3",
                "of unknown form; allowed: ${VAR}, ${VAR:-default}"},
            {"postgres:\n  dsn: \"${}\"\n", "2:3", "of unknown form"},
            {"postgres:\n  dsn: ${1A}\n", "2:3", "of unknown form"},
            {"postgres:\n  dsn: ${UNSET-x}\n", "2:3", "of unknown form"},
            {"postgres:\n  dsn: ${UNSET:-${EMPTY}}\n", "2:3", "inside another"},
            {"postgres:\n  dsn: ${LINES_}\n", "2:3", "LINES_ contains a line break"},
            {"postgres:\n  dsn: ${RETURNS}\n", "2:3", "RETURNS contains a line break"},
            {GOOD "relay: {sweep: \"${SECRET}\"}\n", "6:9",
                "'${SECRET}' (once filled in) is not allowed here"},
            {GOOD "log: {level: \"${SECRET}\"}\n", "6:7",
                "'${SECRET}' (once filled in) is not allowed here"},
            {OF_SINK("max_in_flight: ${SECRET}"), "5:5", "'${SECRET}' (once filled in)"},
            {PG SINK "    http: {url: \"${SECRET}\"}\n", "5:12", "is not a URL"},
            {OF_HTTP("ca_file: \"${SECRET}\""), "5:27", "does not exist"},
            {"postgres: {dsn_file: \"${SECRET}\"}\n", "1:12",
                "the file '${SECRET}' cannot be read"},
        };

        setenv("EMPTY", "", 1);
        setenv("LINES_", CANARY "\nb", 1);
        setenv("RETURNS", CANARY "\rb", 1);
        setenv("SECRET", CANARY, 1);
        unsetenv("UNSET");
        REFUSE_ALL(cases);
}

Test(config, understands_units)
{
        int64_t ms = -1;
        uint64_t bytes = 0;
        double number = 0;

        cr_expect(units_parse_duration("250ms", &ms) && ms == 250);
        cr_expect(units_parse_duration("5s", &ms) && ms == 5000);
        cr_expect(units_parse_duration("1m", &ms) && ms == 60000);
        cr_expect(units_parse_duration("2h", &ms) && ms == 7200000);
        cr_expect(units_parse_duration("3d", &ms) && ms == 259200000);
        cr_expect(units_parse_duration("0", &ms) && ms == 0);
        cr_expect(units_parse_duration("106751991167d", &ms) && ms == 106751991167 * 86400000);
        cr_expect_not(units_parse_duration("106751991168d", &ms));
        cr_expect_not(units_parse_duration("1", &ms));
        cr_expect_not(units_parse_duration("", &ms));
        cr_expect_not(units_parse_duration("s", &ms));
        cr_expect_not(units_parse_duration("5 s", &ms));
        cr_expect_not(units_parse_duration("5S", &ms));
        cr_expect(units_parse_size("64kB", &bytes) && bytes == 64000);
        cr_expect(units_parse_size("64KiB", &bytes) && bytes == 65536);
        cr_expect(units_parse_size("4096", &bytes) && bytes == 4096);
        cr_expect(units_parse_size("7B", &bytes) && bytes == 7);
        cr_expect(units_parse_size("2MB", &bytes) && bytes == 2000000);
        cr_expect(units_parse_size("16MiB", &bytes) && bytes == 16777216);
        cr_expect(units_parse_size("1GB", &bytes) && bytes == 1000000000);
        cr_expect(units_parse_size("1GiB", &bytes) && bytes == 1073741824);
        cr_expect_not(units_parse_size("1KB", &bytes));
        cr_expect_not(units_parse_size("99999999999GiB", &bytes));
        cr_expect(units_parse_number("2.25", &number) && number == 2.25);
        cr_expect_not(units_parse_number("2.", &number));
        cr_expect_not(units_parse_number(".5", &number));
}

Test(config, may_be_loaded_again_and_again)
{
        for (int i = 0; i < 3; i++) {
                config_free(load("%s", full));
                refuse("1:1", "is not a known key", "nonsense: 1\n");
        }
        config_free(NULL);
}

Test(config, survives_every_prefix_of_a_good_file)
{
        struct error error;

        for (size_t length = 0; length < strlen(full); length++)
                config_free(load_bytes(full, length, &error));
}

/* Each byte left out, and each replaced by characters that mean something to YAML or to us. */
Test(config, survives_every_small_mutation_of_a_good_file, .timeout = 50)
{
        static const char replacements[] = {'\0', '\n', '{', '[', ':', '$', '"', '\xff'};
        size_t length = strlen(full);
        char *text = xstrdup(full);
        struct error error;

        for (size_t i = 0; i < length; i++) {
                memmove(text + i, full + i + 1, length - i);
                config_free(load_bytes(text, length - 1, &error));
                memcpy(text + i, full + i, length - i);
                text[i] = replacements[i % sizeof replacements];
                config_free(load_bytes(text, length, &error));
                memcpy(text, full, length);
        }
        free(text);
}

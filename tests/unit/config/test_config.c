/*
 * The config file, from text to struct: everything a good file may say, the
 * defaults, and a table of what a bad one may say, each with the place and the
 * words of its error. No error may ever hold CANARY, which stands for a secret.
 */
#include "config/config.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "config/interpolate.h"
#include "config/units.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANARY "hunter2-hunter2"

#define PG     "postgres: {dsn: x}\n"
#define SINK   "sinks:\n  - name: a\n    topics: [t]\n"
#define STDOUT "    stdout: {}\n"
#define GOOD   PG SINK STDOUT
#define LOGIN  "user: me, password: " CANARY

static char path[64];

static void write_file(const char *name, const void *data, size_t length)
{
        FILE *file = fopen(name, "w");

        cr_assert(file != NULL && fwrite(data, 1, length, file) == length && fclose(file) == 0);
}

static void make_path(void)
{
        strcpy(path, "/tmp/pgcourier-config-XXXXXX");
        close(mkstemp(path));
}

static void remove_path(void)
{
        unlink(path);
}

TestSuite(config, .init = make_path, .fini = remove_path);

static struct config *load_bytes(const char *text, size_t length, struct error *error)
{
        write_file(path, text, length);
        return config_load(path, error);
}

static struct config *load(const char *text)
{
        struct error error = {0};
        struct config *config = load_bytes(text, strlen(text), &error);

        cr_assert(config != NULL, "%s\n%s", error.text, text);
        return config;
}

/* Loads a bad text; the error must be at LINE:COLUMN of the file and hold `words`. */
static void refuse_bytes(const char *text, size_t length, const char *place, const char *words)
{
        struct error error = {0};
        struct config *config = load_bytes(text, length, &error);
        char *prefix = xasprintf("%s:%s: ", path, place);

        cr_expect(config == NULL, "accepted: %s", text);
        if (config == NULL) {
                cr_expect(error.kind == ERROR_CONFIG, "wrong kind: %s", error.text);
                cr_expect(strncmp(error.text, prefix, strlen(prefix)) == 0, "not at %s: %s\n%s",
                    place, error.text, text);
                cr_expect(strstr(error.text, words) != NULL, "no '%s': %s", words, error.text);
                cr_expect(strstr(error.text, CANARY) == NULL, "a secret in: %s", error.text);
                cr_expect(
                    strpbrk(error.text, "\r\n\033") == NULL, "more than a line: %s", error.text);
        }
        config_free(config);
        free(prefix);
}

static void refuse(const char *text, const char *place, const char *words)
{
        refuse_bytes(text, strlen(text), place, words);
}

static const char full[] =
    "postgres:\n"
    "  dsn: host=db dbname=shop\n"
    "  password: p1\n"
    "  connect_timeout: 7s\n"
    "  query_timeout: 2m\n"
    "relay:\n"
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
        struct config *config = load(full);
        const struct sink_config *sink = &config->sinks[0];

        cr_expect_str_eq(config->postgres.dsn, "host=db dbname=shop");
        cr_expect_str_eq(config->postgres.password, "p1");
        cr_expect_eq(config->postgres.connect_timeout_ms, 7000);
        cr_expect_eq(config->postgres.query_timeout_ms, 120000);
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
        struct config *config = load(full);
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
        struct config *config = load(full);
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
        struct config *config = load(full);
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
        cr_expect_eq(config->relay.wakeup, WAKEUP_NOTIFY);
        cr_expect_eq(config->relay.sweep_ms, 5000);
        cr_expect_eq(config->relay.poll_interval_ms, 250);
        cr_expect_eq(config->relay.standby_ms, 1000);
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

static struct config *load_retry(const char *kind, const char *retry)
{
        char *text = xasprintf(PG SINK "    %s\n%s%s\n", kind, retry != NULL ? "    retry: " : "",
            retry != NULL ? retry : "");
        struct config *config = load(text);

        free(text);
        return config;
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
        config = load(text.data);
        cr_assert_eq(config->sinks[0].retry.n_delays, 100);
        cr_expect_eq(config->sinks[0].retry.delays_ms[99], 100000);
        config_free(config);

        bytes_printf(&text, "        - 1s\n");
        refuse(text.data, "7:7", "sinks[0].retry.delays: has 101 entries; allowed: up to 100");
        bytes_deinit(&text);
}

struct bad {
        const char *text;
        const char *place;
        const char *words;
};

static void refuse_all(const struct bad *cases, size_t n)
{
        for (size_t i = 0; i < n; i++)
                refuse(cases[i].text, cases[i].place, cases[i].words);
}

#define REFUSE_ALL(cases) refuse_all((cases), sizeof(cases) / sizeof *(cases))

Test(config, refuses_what_is_not_a_mapping_of_known_keys)
{
        static const struct bad cases[] = {
            {"", "1:1", "the file is empty"},
            {"# only a comment\n", "1:1", "the file is empty"},
            {"postgres\n", "1:1", "not a mapping"},
            {"- postgres\n", "1:1", "not a mapping"},
            {"null\n", "1:1", "not a mapping"},
            {GOOD "redis: {}\n", "6:1",
                "redis: is not a known key; allowed: postgres, relay, admin, outbox, log, sinks"},
            {"postgers: {dsn: " CANARY "}\n", "1:1", "did you mean postgres?"},
            {GOOD "relay:\n  sweeep: 5s\n", "7:3",
                "relay.sweeep: is not a known key; did you mean sweep?"},
            {GOOD "relay:\n  wakeup: poll\n  Drain: 5s\n", "8:3", "did you mean drain?"},
            {PG SINK "    kafka: {}\n", "5:5",
                "sinks[0].kafka: is not a known key; allowed: name, topics"},
            {PG SINK "    http:\n      url: http://h\n      passwort: " CANARY "\n", "7:7",
                "sinks[0].http.passwort: is not a known key"},
            {PG SINK "    retry: {frist: 1s}\n" STDOUT, "5:13", "did you mean first?"},
            {GOOD "log: {\"a.b\": 1}\n", "6:7", "log.a.b: is not a known key"},
            {GOOD "log: {\"\": 1}\n", "6:7", "is not a known key"},
            {GOOD "log: {\"\\e[31m\": 1}\n", "6:7", "log.?[31m: is not a known key"},
            {GOOD "log: {1: 1}\n", "6:7", "log.1: is not a known key"},
            {PG "<<: {log: {}}\n", "2:1", "<<: is not a known key"},
            {GOOD "log: {level: info}\nlog: {level: warn}\n", "7:1",
                "log: is given twice, first in line 6"},
            {"postgres:\n  dsn: " CANARY "\n  dsn: " CANARY "\n" SINK STDOUT, "3:3",
                "postgres.dsn: is given twice, first in line 2"},
            {PG SINK "    name: b\n" STDOUT, "5:5", "sinks[0].name: is given twice"},
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
        config_free(load(text.data));
        bytes_printf(&text, "        more: 1\n");
        refuse(text.data, "1008:9",
            "sinks[0].module.options: has more than 1000 keys, the limit for a mapping");
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
            {PG SINK "    redis: {url: redis://h, user: me}\n", "5:29", "given without a password"},
            {PG SINK "    redis: {url: redis://me@h}\n", "5:5", "given without a password"},
            {PG SINK "    redis: {url: \"redis://:" CANARY "@h\", password: " CANARY "}\n", "5:48",
                "sinks[0].redis.password: is given here and in url"},
            {PG SINK "    redis: {url: \"redis://me:" CANARY "@h\", user: you}\n", "5:50",
                "sinks[0].redis.user: is given here and in url"},
            {PG SINK "    email: {url: smtp://h, from: a@b, user: me}\n", "5:39",
                "given without password"},
            {PG SINK "    email: {url: smtp://h, from: a@b, password: " CANARY "}\n", "5:39",
                "given without user"},
            {PG SINK "    email: {url: smtp://h, from: a@b, relays: [{url: smtp://i}]}\n", "5:39",
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
            {PG SINK "    email: {url: smtp://h, from: a@b, key_file: /etc/passwd}\n", "5:39",
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
            {PG SINK "    start: end\n" STDOUT, "5:5",
                "sinks[0].start: 'end' is not allowed here; allowed: now, beginning"},
            {PG SINK "    order: no\n" STDOUT, "5:5", "allowed: key, none"},
            {PG SINK "    email: {url: smtp://h, from: a@b, tls: yes}\n", "5:39",
                "allowed: auto, required, none"},
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
            {PG SINK "    retry: {first: 0}\n" STDOUT, "5:13",
                "sinks[0].retry.first: '0' is out of range; allowed: 1ms to 1h"},
            {PG SINK "    retry: {first: 2h}\n" STDOUT, "5:13", "allowed: 1ms to 1h"},
            {PG SINK "    retry: {factor: 0.9}\n" STDOUT, "5:13",
                "'0.9' is out of range; allowed: 1 to 10"},
            {PG SINK "    retry: {factor: 11}\n" STDOUT, "5:13", "out of range"},
            {PG SINK "    retry: {factor: 1e1}\n" STDOUT, "5:13", "a number such as 3 or 1.5"},
            {PG SINK "    retry: {factor: nan}\n" STDOUT, "5:13", "a number such as 3 or 1.5"},
            {PG SINK "    retry: {factor: \"3,5\"}\n" STDOUT, "5:13", "a number such as 3 or 1.5"},
            {PG SINK "    retry: {first: 5s, max: 4s}\n" STDOUT, "5:24",
                "sinks[0].retry.max: is below retry.first"},
            {PG SINK "    retry: {attempts: 1000001}\n" STDOUT, "5:13",
                "sinks[0].retry.attempts: '1000001' is out of range; allowed: 0 to 1000000"},
            {PG SINK "    retry: {attempts: -1}\n" STDOUT, "5:13", "a whole number"},
            {PG SINK "    retry: {max_age: 3}\n" STDOUT, "5:13", "'3' has no unit"},
            {PG SINK "    retry: {max_age: 366d}\n" STDOUT, "5:13", "allowed: 0 to 365d"},
            {PG SINK "    park_after: 0\n" STDOUT, "5:5", "allowed: 1ms to 1h"},
            {PG SINK "    park_after: 61m\n" STDOUT, "5:5", "allowed: 1ms to 1h"},
            {PG SINK "    max_parked: 0\n" STDOUT, "5:5", "allowed: 1 to 1000000000"},
            {PG SINK "    max_parked: 10k\n" STDOUT, "5:5", "a whole number"},
            {PG SINK "    max_event_bytes: 2GiB\n" STDOUT, "5:5", "allowed: 0 to 1GiB"},
            {PG SINK "    max_event_bytes: 1mib\n" STDOUT, "5:5", "16MiB"},
            {PG SINK "    max_in_flight: 0\n" STDOUT, "5:5",
                "sinks[0].max_in_flight: '0' is out of range; allowed: 2 to 100000"},
            {PG SINK "    max_in_flight: 1\n" STDOUT, "5:5", "allowed: 2 to 100000"},
            {PG SINK "    max_in_flight: 100001\n" STDOUT, "5:5", "out of range"},
            {PG SINK "    max_in_flight: 4294967297\n" STDOUT, "5:5", "out of range"},
            {PG SINK "    max_in_flight: 18446744073709551617\n" STDOUT, "5:5", "a whole number"},
            {PG SINK "    max_in_flight: 010\n" STDOUT, "5:5",
                "'010' is not allowed here; allowed: a whole number"},
            {PG SINK "    max_in_flight: 0x10\n" STDOUT, "5:5", "a whole number"},
            {PG SINK "    max_in_flight: -1\n" STDOUT, "5:5", "a whole number"},
            {PG SINK "    max_in_flight: many\n" STDOUT, "5:5", "a whole number"},
            {PG SINK "    max_in_flight_bytes: 16mb\n" STDOUT, "5:5", "16MiB"},
            {PG SINK "    max_in_flight_bytes: 63KiB\n" STDOUT, "5:5", "allowed: 64KiB to 1GiB"},
            {PG SINK "    max_in_flight_bytes: 2GiB\n" STDOUT, "5:5", "allowed: 64KiB to 1GiB"},
            {PG SINK "    concurrency: 1025\n" STDOUT, "5:5", "allowed: 0 to 1024"},
            {PG SINK "    concurrency: 17\n    email: {url: smtp://h, from: a@b}\n", "5:5",
                "sinks[0].concurrency: '17' is out of range; allowed for email: 1 to 16"},
            {PG SINK "    rate: {per_second: -1}\n" STDOUT, "5:12", "a number"},
            {PG SINK "    rate: {per_second: 1000001}\n" STDOUT, "5:12", "allowed: 0 to 1000000"},
            {PG SINK "    rate: {per_second: 1, burst: 1000001}\n" STDOUT, "5:27",
                "allowed: 0 to 1000000"},
            {PG SINK "    rate: {burst: 5}\n" STDOUT, "5:12",
                "sinks[0].rate.burst: is given without per_second"},
            {PG SINK "    redis: {url: redis://h, maxlen: 9999999999999999999}\n", "5:29",
                "out of range"},
        };

        REFUSE_ALL(cases);
}

#define TOPICS PG "sinks:\n  - name: a\n    topics: "

Test(config, refuses_bad_routing)
{
        static const struct bad cases[] = {
            {TOPICS "[\"!a\", \"!b\"]\n" STDOUT, "4:5",
                "sinks[0].topics: only excludes; begin with a pattern that includes, as in "
                "[\"**\", "
                "\"!a.*\"]"},
            {TOPICS "[a, \"!\"]\n" STDOUT, "4:17", "sinks[0].topics[1]: is empty; ** matches"},
            {TOPICS "[\"a.***\"]\n" STDOUT, "4:14", "more than two * in a row"},
            {TOPICS "[\"!!a\"]\n" STDOUT, "4:14", "begins with two !"},
            {PG SINK "    types: [\"!a\"]\n" STDOUT, "5:5", "sinks[0].types: only excludes"},
            {PG SINK "    match_headers: [\"=x\"]\n" STDOUT, "5:21",
                "sinks[0].match_headers[0]: has no header name; allowed: name=value, or name"},
            {PG SINK "    filter: \" \"\n" STDOUT, "5:5",
                "is empty; allowed: a jsonpath predicate"},
        };

        REFUSE_ALL(cases);
}

Test(config, refuses_bad_lists_of_delays)
{
        static const struct bad cases[] = {
            {PG SINK "    retry: {delays: 5s}\n" STDOUT, "5:13",
                "sinks[0].retry.delays: must be a list of single values"},
            {PG SINK "    retry: {delays: [1s, [2s]]}\n" STDOUT, "5:26",
                "sinks[0].retry.delays[1]: must be a single value"},
            {PG SINK "    retry: {delays: [1s, 5, 2s]}\n" STDOUT, "5:26",
                "sinks[0].retry.delays[1]: '5' has no unit; allowed: a whole number with a unit"},
            {PG SINK "    retry:\n      delays:\n        - 1s\n        - 31d\n" STDOUT, "8:11",
                "sinks[0].retry.delays[1]: '31d' is out of range; allowed: 1ms to 30d"},
            {PG SINK "    retry: {delays: [0]}\n" STDOUT, "5:22", "out of range"},
            {PG SINK "    retry: {delays: [soon]}\n" STDOUT, "5:22", "'soon' is not allowed here"},
            {PG SINK "    retry: {delays: [1s, ~]}\n" STDOUT, "5:26",
                "sinks[0].retry.delays[1]: is empty"},
            {PG SINK "    retry: {delays: []}\n" STDOUT, "5:13",
                "sinks[0].retry.delays: is empty; give at least one delay"},
            {PG SINK "    retry:\n      first: 1s\n      delays: [1s]\n" STDOUT, "6:7",
                "sinks[0].retry.first: is given together with delays; keep one of the two"},
            {PG SINK "    retry: {delays: [1s], factor: 2}\n" STDOUT, "5:27",
                "sinks[0].retry.factor: is given together with delays"},
            {PG SINK "    retry: {delays: [1s], max: 2s}\n" STDOUT, "5:27",
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
            {PG SINK "    http: {url: http://h, headers: [a, \"b: c\"]}\n", "5:40",
                "sinks[0].http.headers[1]: is not the name of an HTTP header"},
            {PG SINK "    http: {url: http://h, headers: [\"a\\r\\nb\"]}\n", "5:37", "line break"},
            {PG SINK "    redis: {url: redis://h, stream: \"\"}\n", "5:29",
                "sinks[0].redis.stream: is empty"},
            {PG SINK "    redis: {url: redis://h, stream: \"x{{payload}}\"}\n", "5:29",
                "the only variables are {{topic}}, {{type}} and {{key}}"},
            {PG SINK "    redis: {url: redis://h, stream: \"{{topic}}\"}\n", "5:29",
                "begins with a variable, so an event could name any Redis key"},
            {PG SINK "    redis: {url: redis://h, stream: \"a\\tb\"}\n", "5:29",
                "holds a control character"},
            {PG SINK "    redis: {url: redis://h, maxlen: 5, minid: 1h}\n", "5:40",
                "minid: is given together with maxlen"},
            {PG SINK "    redis: {url: redis://h, channel: c}\n", "5:29",
                "is only for mode: pubsub"},
            {PG SINK "    redis: {url: redis://h, mode: pubsub, maxlen: 5}\n", "5:43",
                "maxlen: is only for mode: stream"},
            {PG SINK "    redis: {url: redis://h, mode: pubsub, exactly_once: true}\n", "5:43",
                "exactly_once: is only for mode: stream"},
            {PG SINK "    redis: {url: redis://h, source: /x}\n", "5:29",
                "source: is only for format: cloudevents"},
            {PG SINK "    redis: {url: redis://h, format: cloudevents, source: a b}\n", "5:50",
                "is not a URI"},
            {PG SINK "    redis: {url: redis://h, wait_timeout: 1s}\n", "5:29",
                "is only for wait_replicas above 0"},
            {PG SINK "    redis: {url: redis://h, wait_replicas: 1, wait_timeout: 5s}\n", "5:47",
                "is not shorter than timeout"},
            {PG SINK "    redis: {url: redis://h, exactly_once: true}\n", "5:29",
                "exactly_once: needs a fixed stream"},
            {PG SINK "    redis: {url: redis://h, exactly_once: true, stream: \"x:{{key}}\"}\n",
                "5:29", "exactly_once: needs a fixed stream"},
            {PG SINK "    redis: {url: redis://h, exactly_once: true, stream: \"x}y\"}\n", "5:49",
                "has braces that are not a hash tag"},
            {PG SINK "    redis: {url: redis://h, exactly_once: true, stream: \"x{}y\"}\n", "5:49",
                "has braces that are not a hash tag"},
            {PG SINK "    redis: {url: redis://h, stream: \"x{{topic\"}\n", "5:29",
                "each {{ needs a }}"},
            {PG SINK "    redis: {url: redis://h, stream: \"topic}}\"}\n", "5:29",
                "each {{ needs a }}"},
            {PG SINK "    email: {url: smtp://h, from: nobody}\n", "5:28",
                "sinks[0].email.from: is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: \"a@b, c@d\"}\n", "5:28",
                "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: \"a@b\\r\\nBcc: c@d\"}\n", "5:28",
                "line break"},
            {PG SINK "    email: {url: smtp://h, from: \"A, B <a@b>\"}\n", "5:28",
                "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: \"A <a@b> <c@d>\"}\n", "5:28",
                "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: a@b@c}\n", "5:28",
                "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: a@b..c}\n", "5:28",
                "is not one e-mail address"},
            {PG SINK "    email: {url: smtp://h, from: a@b, message_id_domain: \"x>\"}\n", "5:39",
                "is not a domain"},
            {PG SINK "    http: {url: http://h, ca_file: /nonexistent/ca.pem}\n", "5:27",
                "names a file that does not exist"},
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
                char *text = xasprintf(PG SINK "    redis: {url: \"%s\"}\n", cases[i].url);
                struct config *config = load(text);
                const struct redis_config *redis = config->sinks[0].redis;

                cr_expect((redis->host == NULL) == (cases[i].host == NULL));
                cr_expect(cases[i].host == NULL || strcmp(redis->host, cases[i].host) == 0);
                cr_expect((redis->socket_path == NULL) == (cases[i].socket_path == NULL));
                cr_expect(cases[i].socket_path == NULL ||
                          strcmp(redis->socket_path, cases[i].socket_path) == 0);
                cr_expect((redis->user == NULL) == (cases[i].user == NULL));
                cr_expect(cases[i].user == NULL || strcmp(redis->user, cases[i].user) == 0);
                cr_expect((redis->password == NULL) == (cases[i].password == NULL));
                cr_expect(
                    cases[i].password == NULL || strcmp(redis->password, cases[i].password) == 0);
                cr_expect_eq(redis->port, cases[i].port, "%s", cases[i].url);
                cr_expect_eq(redis->db, cases[i].db, "%s", cases[i].url);
                config_free(config);
                free(text);
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
            {PG SINK "    redis: {url: redis://h, cluster: [h]}\n", "5:5",
                "needs exactly one of url"},
            {PG SINK "    redis: {sentinels: [h]}\n", "5:5", "has sentinels but no master"},
            {PG SINK "    redis: {url: redis://h, master: m}\n", "5:29",
                "sinks[0].redis.master: is given without sentinels"},
            {PG SINK "    redis: {url: redis://h, sentinel_user: m}\n", "5:29",
                "sinks[0].redis.sentinel_user: is given without a password; add sentinel_password"},
            {PG SINK "    redis: {url: redis://h, sentinel_password: " CANARY "}\n", "5:29",
                "is given without sentinels"},
            {PG SINK "    redis: {cluster: [h], db: 1}\n", "5:27",
                "a Redis Cluster has no other database"},
            {PG SINK "    redis: {url: redis://h/1, db: 1}\n", "5:31", "is given here and in url"},
            {PG SINK "    redis: {url: redis://h, tls: true}\n", "5:29", "url is not rediss://"},
            {PG SINK "    redis: {url: redis://h, ca_file: /etc/passwd}\n", "5:29",
                "is given without TLS"},
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
                char *text =
                    xasprintf(PG SINK "    email: {url: smtp://h, from: \"%s\"}\n", cases[i].from);
                struct config *config = load(text);

                cr_expect_str_eq(config->sinks[0].email->message_id_domain, cases[i].domain);
                config_free(config);
                free(text);
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
            {"http: {endpoints: table}", "the receivers in courier.endpoint"},
            {"email: {url: \"smtp://[::1]:25\", from: a@b}", "smtp://[::1]:25"},
            {"stdout: {}", "standard output"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *text = xasprintf(PG SINK "    %s\n", cases[i].kind);
                struct config *config = load(text);
                char *target = sink_config_target(&config->sinks[0]);

                cr_expect_str_eq(target, cases[i].target);
                free(target);
                config_free(config);
                free(text);
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

/* A secret file beside the config file, its content as given. */
static char *secret_file(const char *content, size_t length)
{
        char *name = xasprintf("%s.secret", path);

        write_file(name, content, length);
        return name;
}

static void remove_secret_file(char *name)
{
        unlink(name);
        free(name);
}

Test(config, calls_a_forbidden_file_a_matter_of_permission)
{
        char *file = secret_file("x", 1);
        char *text = xasprintf("postgres: {dsn_file: %s}\n", file);

        cr_assert_eq(chmod(file, 0), 0);
        write_file(path, text, strlen(text));
        cr_assert_eq(chmod(path, 0644), 0);
        refuse_for_permission(file);
        refuse_for_permission(":1:12: postgres.dsn_file: the file '");

        cr_assert_eq(chmod(path, 0), 0);
        refuse_for_permission(path);
        free(text);
        remove_secret_file(file);
}

static char *replace_path(const char *text, const char *name)
{
        const char *at = strstr(text, "%s");

        return xasprintf("%.*s%s%s", (int)(at - text), text, name, at + 2);
}

/* To open one waits for its writer. */
Test(config, waits_for_no_named_pipe)
{
        static const struct {
                const char *format;
                const char *complaint;
        } cases[] = {
            {"postgres: {dsn_file: %s}\n", "is a named pipe; it must be a regular file"},
            {"postgres: {dsn: \"${file:%s}\"}\n", "is a named pipe; it must be a regular file"},
            {PG "admin: {token_file: %s}\n", "is a named pipe; it must be a regular file"},
            {PG SINK "    http: {url: http://h, secret_file: %s}\n", "is a named pipe"},
            {PG SINK "    http: {url: http://h, secrets_file: %s}\n", "is a named pipe"},
            {PG SINK "    http: {url: http://h, ca_file: %s}\n", "is not a regular file"},
            {PG SINK "    redis: {url: rediss://h, ca_file: %s}\n", "is not a regular file"},
            {PG SINK "    email: {url: smtp://h, from: a@b, cert_file: %s}\n",
                "is not a regular file"},
            {PG SINK "    email: {url: smtp://h, from: a@b, templates: %s}\n", "is not a folder"},
        };
        char *pipe = xasprintf("%s.pipe", path);
        struct error error = {0};

        cr_assert_eq(mkfifo(pipe, 0600), 0);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                char *text = replace_path(cases[i].format, pipe);

                write_file(path, text, strlen(text));
                cr_expect_null(config_load(path, &error), "%s", text);
                cr_expect(strstr(error.text, cases[i].complaint) != NULL, "%s", error.text);
                free(text);
        }
        cr_expect_null(config_load(pipe, &error));
        cr_expect(strstr(error.text, "is a named pipe") != NULL, "%s", error.text);
        unlink(pipe);
        free(pipe);
}

Test(config, reads_secrets_from_files_without_one_trailing_newline)
{
        char *file = secret_file("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0\n", 43);
        char *text = xasprintf("postgres: {dsn_file: %s, password_file: %s}\n" SINK
                               "    http: {url: http://h, secret_file: %s}\n",
            file, file, file);
        struct config *config = load(text);

        cr_expect_str_eq(config->postgres.dsn, "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0");
        cr_expect_str_eq(config->postgres.password, config->postgres.dsn);
        cr_expect_str_eq(config->sinks[0].http->secret, config->postgres.dsn);
        config_free(config);
        free(text);
        remove_secret_file(file);
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
                char *file = secret_file(cases[i].content, cases[i].length);
                char *twin = xasprintf("postgres: {dsn: x, password_file: %s}\n", file);
                char *reference = xasprintf("postgres: {dsn: \"x ${file:%s}\"}\n", file);

                refuse(twin, "1:20", cases[i].words);
                refuse(reference, "1:12", cases[i].words);
                free(twin);
                free(reference);
                remove_secret_file(file);
        }
}

Test(config, refuses_bad_twins_of_secrets)
{
        char *file = secret_file(CANARY, strlen(CANARY));
        char *both = xasprintf("postgres: {dsn: %s, dsn_file: %s}\n", CANARY, file);
        char *url = xasprintf(PG SINK "    http: {url_file: %s}\n", file);
        char *secret = xasprintf(PG SINK "    http: {url: http://h, secret_file: %s}\n", file);

        refuse(both, "1:34", "postgres.dsn_file: is given together with dsn; keep one of the two");
        refuse(url, "5:12", "sinks[0].http.url_file: is not a URL");
        refuse(secret, "5:27", "sinks[0].http.secret_file: is not a signing secret");
        refuse("postgres: {dsn_file: /nonexistent}\n", "1:12",
            "postgres.dsn_file: the file '/nonexistent' cannot be read: No such file or directory");
        refuse("postgres: {dsn: \"${file:/nonexistent}\"}\n", "1:12",
            "postgres.dsn: the file of ${file:/nonexistent} cannot be read: No such file");
        free(both);
        free(url);
        free(secret);
        remove_secret_file(file);
}

Test(config, fills_in_variables_and_files)
{
        char *file = secret_file("from file\n", 10);
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
        remove_secret_file(file);
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
            {PG SINK "    max_in_flight: ${SECRET}\n" STDOUT, "5:5",
                "'${SECRET}' (once filled in)"},
            {PG SINK "    http: {url: \"${SECRET}\"}\n", "5:12", "is not a URL"},
            {PG SINK "    http: {url: http://h, ca_file: \"${SECRET}\"}\n", "5:27",
                "does not exist"},
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
                config_free(load(full));
                refuse("nonsense: 1\n", "1:1", "is not a known key");
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

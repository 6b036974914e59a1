/* The rules between the keys of an http sink. */
#include "support/config_steps.h"

#define SECRET "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define OTHER  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

#define HTTP(keys) PG SINK "    http:\n      {" keys "}\n"

static void refuse_http(const char *keys, const char *words)
{
        refuse(NULL, words, HTTP("%s"), keys);
}

TestSuite(config_http, .init = make_path, .fini = remove_path);

Test(config_http, reads_every_key_of_requests)
{
        static const char secrets[] = SECRET "\n\n" OTHER "\n";
        char *file = make_file(secrets, strlen(secrets));
        struct config *config =
            load(HTTP("url: http://h, secrets_file: %s, signing: standard,"
                      "set_headers: [{name: a, value: b}], auth: {user: u, password: p},"
                      "body: cloudevents-structured, source: /shop, batch: {events: 7, linger: 0},"
                      "on_410: dead, accept_409: true, http_version: 2, gzip: true,"
                      "proxy: \"http://u:p@proxy:3128\","
                      "cert_file: /etc/passwd, key_file: /etc/passwd"),
                file);
        const struct http_config *http = config->sinks[0].http;

        cr_expect_eq(http->n_secrets, 2);
        cr_expect_str_eq(http->secrets[0], SECRET);
        cr_expect_str_eq(http->secrets[1], OTHER);
        cr_expect_eq(http->n_set_headers, 1);
        cr_expect_str_eq(http->set_headers[0].value, "b");
        cr_expect_str_eq(http->auth.user, "u");
        cr_expect_eq(http->body, HTTP_BODY_CLOUDEVENTS_STRUCTURED);
        cr_expect_str_eq(http->source, "/shop");
        cr_expect_eq(http->batch->events, 7);
        cr_expect_eq(http->batch->bytes, 262144);
        cr_expect_eq(http->batch->linger_ms, 0);
        cr_expect_eq(http->on_410, HTTP_ON_410_DEAD);
        cr_expect(http->accept_409);
        cr_expect_eq(http->http_version, HTTP_VERSION_2);
        cr_expect(http->gzip);
        cr_expect_not(http->fresh_connections);
        config_free(config);
        remove_file(file);
}

Test(config_http, takes_one_url_or_the_table)
{
        struct config *config = load(HTTP("receivers: table, signing: stripe"));

        cr_expect_eq(config->sinks[0].http->receivers, HTTP_RECEIVERS_TABLE);
        cr_expect_null(config->sinks[0].http->url);
        config_free(config);

        refuse_http("gzip: true", "http.url: is required: write https://HOST/PATH");
        refuse_http(
            "url: http://h, receivers: table", "http.receivers: is table, but url is given");
        refuse_http(
            "receivers: table, secret: " SECRET, "http.secret: is given with receivers: table");
        refuse_http(
            "receivers: table, secrets: [" SECRET "]", "http.secrets: is given with receivers");
        refuse_http(
            "receivers: table, auth: {bearer: hunter2}", "http.auth: is given with receivers");
}

Test(config_http, refuses_secrets_that_could_not_sign)
{
        static const char secrets[] = SECRET "\n" CANARY "\n";
        char *file = make_file(secrets, strlen(secrets));
        char *empty = make_file("", 0);

        config_free(load(HTTP("url: http://h, signing: github, secrets_file: %s"), file));
        refuse(NULL, "http.secrets_file[1]: is not a signing secret",
            HTTP("url: http://h, secrets_file: %s"), file);
        refuse(NULL, "http.secrets_file: is given together with secrets",
            HTTP("url: http://h, secrets: [" SECRET "], secrets_file: %s"), file);
        refuse(NULL, "names an empty file", HTTP("url: http://h, secrets_file: %s"), empty);
        refuse_http("url: http://h, secrets_file: /nonexistent", "cannot be read: No such file");
        refuse_http("url: http://h, secret: hunter2", "http.secret: is not a signing secret");
        refuse_http(
            "url: http://h, secrets: [" SECRET ", hunter2]", "http.secrets[1]: is not a signing");
        refuse_http(
            "url: http://h, secret: " SECRET ", secrets: [" SECRET "]", "together with secret");
        refuse_http(
            "url: http://h, signing: none, secret: " SECRET, "is none, but a secret is given");
        refuse_http("url: http://h, signing: github", "http.signing: is given without a secret");
        remove_file(file);
        remove_file(empty);
}

Test(config_http, refuses_what_does_not_go_together)
{
        refuse_http("url: http://h, auth: {user: u}", "http.auth.user: is given without password");
        refuse_http("url: http://h, auth: {password: hunter2}",
            "http.auth.password: is given without user");
        refuse_http("url: http://h, auth: {user: u, password: hunter2, bearer: hunter2}",
            "http.auth.bearer: is given together");
        refuse_http("url: http://h, auth: {user: \"a:b\", password: hunter2}", "contains a colon");
        refuse_http("url: http://h, auth: {bearer: \"hunter2 x\"}", "is not a bearer token");
        refuse_http(
            "url: http://h, cert_file: /etc/passwd", "http.cert_file: is given without key_file");
        refuse_http(
            "url: http://h, key_file: /etc/passwd", "http.key_file: is given without cert_file");
        refuse_http("url: http://h, http_version: 2, fresh_connections: true", "http_version: 2");
        refuse_http("url: http://h, http_version: 3", "1.1, 2");
        refuse_http(
            "url: http://h, body: cloudevents, batch: {}", "http.batch: cannot be used with body");
        refuse_http(
            "url: http://h, set_headers: [{name: \"a b\", value: x}]", "not the name of an HTTP");
        refuse_http(
            "url: http://h, set_headers: [{name: a, value: \"hunter2 \"}]", "ends with a space");
        refuse_http("url: http://h, set_headers: [{name: a}]", "value: is required, or value_file");
        refuse_http("url: http://h, source: \"a b\"", "is not a URI reference");
        refuse_http("url: http://h, proxy: \"http://me:hunter2@h\"", "has no host or no port");
        refuse_http("url: http://h, proxy: \"socks5://me:hunter2@h:1\"", "unknown scheme");
        refuse_http("url: http://h, proxy: \"http://me:hunter2@h:1/x\"", "after its port");
}

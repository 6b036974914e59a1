/* The rules between the keys of an http sink. */
#include "base/alloc.h"
#include "config/config.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
#define OTHER  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static char *file_of(const char *text)
{
        char *path = xstrdup("/tmp/pgcourier-http-config-XXXXXX");
        int file = mkstemp(path);

        cr_assert(file >= 0);
        cr_assert_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
        close(file);
        return path;
}

static struct config *load(const char *http, struct error *error)
{
        char *text =
            xasprintf("postgres: {dsn: x}\nsinks:\n  - name: a\n    topics: [t]\n    http:\n"
                      "      {%s}\n",
                http);
        char *path = file_of(text);
        struct config *config = config_load(path, error);

        unlink(path);
        free(path);
        free(text);
        return config;
}

static void refuse(const char *http, const char *words)
{
        struct error error = {.kind = ERROR_NONE};
        struct config *config = load(http, &error);

        cr_expect_null(config, "accepted: %s", http);
        cr_expect(strstr(error.text, words) != NULL, "%s: %s", http, error.text);
        cr_expect(strstr(error.text, "hunter2") == NULL, "%s", error.text);
        config_free(config);
}

Test(config_http, reads_every_key_of_requests)
{
        char *file = file_of(SECRET "\n\n" OTHER "\n");
        char *text = xasprintf(
            "url: http://h, secrets_file: %s, signing: standard, set_headers: [{name: a, value: "
            "b}],"
            "auth: {user: u, password: p}, body: cloudevents-structured, source: /shop,"
            "batch: {events: 7, linger: 0}, on_410: dead, accept_409: true, http_version: 2,"
            "gzip: true, proxy: \"http://u:p@proxy:3128\", cert_file: /etc/passwd, key_file: "
            "/etc/passwd",
            file);
        struct error error = {.kind = ERROR_NONE};
        struct config *config = load(text, &error);
        const struct http_config *http;

        cr_assert_not_null(config, "%s", error.text);
        http = config->sinks[0].http;
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
        unlink(file);
        free(file);
        free(text);
}

Test(config_http, takes_one_url_or_the_table)
{
        struct error error = {.kind = ERROR_NONE};
        struct config *config = load("endpoints: table, signing: stripe", &error);

        cr_assert_not_null(config, "%s", error.text);
        cr_expect_eq(config->sinks[0].http->endpoints, HTTP_ENDPOINTS_TABLE);
        cr_expect_null(config->sinks[0].http->url);
        config_free(config);

        refuse("gzip: true", "http.url: is required: write https://HOST/PATH");
        refuse("url: http://h, endpoints: table", "http.endpoints: is table, but url is given");
        refuse("endpoints: table, secret: " SECRET, "http.secret: is given with endpoints: table");
        refuse("endpoints: table, secrets: [" SECRET "]", "http.secrets: is given with endpoints");
        refuse("endpoints: table, auth: {bearer: hunter2}", "http.auth: is given with endpoints");
}

Test(config_http, refuses_secrets_that_could_not_sign)
{
        char *file = file_of(SECRET "\nhunter2\n");
        char *empty = file_of("");
        char *none = xasprintf("url: http://h, secrets_file: %s", empty);
        char *text = xasprintf("url: http://h, secrets_file: %s", file);
        char *both = xasprintf("url: http://h, secrets: [" SECRET "], secrets_file: %s", file);
        char *github = xasprintf("url: http://h, signing: github, secrets_file: %s", file);
        struct error error = {.kind = ERROR_NONE};
        struct config *config = load(github, &error);

        cr_expect_not_null(config, "%s", error.text);
        config_free(config);
        refuse(text, "http.secrets_file[1]: is not a signing secret");
        refuse(both, "http.secrets_file: is given together with secrets");
        refuse(none, "names an empty file");
        refuse("url: http://h, secrets_file: /nonexistent", "cannot be read: No such file");
        refuse("url: http://h, secret: hunter2", "http.secret: is not a signing secret");
        refuse(
            "url: http://h, secrets: [" SECRET ", hunter2]", "http.secrets[1]: is not a signing");
        refuse("url: http://h, secret: " SECRET ", secrets: [" SECRET "]", "together with secret");
        refuse("url: http://h, signing: none, secret: " SECRET, "is none, but a secret is given");
        refuse("url: http://h, signing: github", "http.signing: is given without a secret");
        unlink(file);
        unlink(empty);
        free(file);
        free(empty);
        free(none);
        free(text);
        free(both);
        free(github);
}

Test(config_http, refuses_what_does_not_go_together)
{
        refuse("url: http://h, auth: {user: u}", "http.auth.user: is given without password");
        refuse("url: http://h, auth: {password: hunter2}",
            "http.auth.password: is given without user");
        refuse("url: http://h, auth: {user: u, password: hunter2, bearer: hunter2}",
            "http.auth.bearer: is given together");
        refuse("url: http://h, auth: {user: \"a:b\", password: hunter2}", "contains a colon");
        refuse("url: http://h, auth: {bearer: \"hunter2 x\"}", "is not a bearer token");
        refuse(
            "url: http://h, cert_file: /etc/passwd", "http.cert_file: is given without key_file");
        refuse("url: http://h, key_file: /etc/passwd", "http.key_file: is given without cert_file");
        refuse("url: http://h, http_version: 2, fresh_connections: true", "http_version: 2");
        refuse("url: http://h, http_version: 3", "1.1, 2");
        refuse(
            "url: http://h, body: cloudevents, batch: {}", "http.batch: cannot be used with body");
        refuse(
            "url: http://h, set_headers: [{name: \"a b\", value: x}]", "not the name of an HTTP");
        refuse("url: http://h, set_headers: [{name: a, value: \"hunter2 \"}]", "ends with a space");
        refuse("url: http://h, set_headers: [{name: a}]", "value: is required, or value_file");
        refuse("url: http://h, source: \"a b\"", "is not a URI reference");
        refuse("url: http://h, proxy: \"http://me:hunter2@h\"", "has no host or no port");
        refuse("url: http://h, proxy: \"socks5://me:hunter2@h:1\"", "unknown scheme");
        refuse("url: http://h, proxy: \"http://me:hunter2@h:1/x\"", "after its port");
}

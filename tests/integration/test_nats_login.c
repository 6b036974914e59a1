/* The nats sink: all ways to log in, each right and wrong, and TLS. */
#include "nats_keys.h"
#include "nats_rig.h"

#include "base/alloc.h"
#include "base/error.h"
#include "support/certificate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char stream[] = "S";
static char events[] = "events.>";
static char *subjects[] = {events};
static struct nats_stream_config made = {
    .subjects = subjects, .n_subjects = 1, .replicas = 1, .duplicates_ms = 120000};

/* The sink itself makes the stream: so the rig needs no login of its own. */
static void start(struct rig *rig, unsigned n, const char *config)
{
        struct nats_server server = {.folder = NULL};

        nats_server_start_as(&server, config, NULL);
        rig_init(rig, &server, n);
        rig->server = server;
        rig->config.stream = stream;
        rig->config.create_stream = &made;
}

static void expect_accepted(struct rig *rig)
{
        rig_open(rig);
        rig_deliver_all(rig, 1);
        expect_outcome(rig, 0, OUTCOME_DELIVERED, "");
        rig_stop(rig);
}

static void expect_refused(struct rig *rig, const char *words, const char *secret)
{
        const struct outcome *outcome;

        rig_open(rig);
        rig_deliver_all(rig, 1);
        outcome = &rig->driver.attempts[0].outcome;
        expect_outcome(rig, 0, OUTCOME_SINK_DOWN, words);
        cr_expect(outcome->needs_operator);
        cr_expect(outcome->fault == OUTCOME_FAULT_AUTH);
        cr_expect(secret == NULL || strstr(outcome->reason, secret) == NULL, "%s", outcome->reason);
        rig_stop(rig);
}

static char *write_file(struct rig *rig, const char *text)
{
        char *path = xasprintf("%s/credentials", rig->server.folder);

        replace_file(path, text);
        return path;
}

#define USERS "authorization { users: [ { user: app, password: \"s3cret\" } ] }\n"

Test(nats_login, lets_a_user_in)
{
        static char user[] = "app";
        static char password[] = "s3cret";
        struct rig rig;

        start(&rig, 1, USERS);
        rig.config.user = user;
        rig.config.password = password;
        expect_accepted(&rig);
}

Test(nats_login, refuses_a_wrong_password)
{
        static char user[] = "app";
        static char password[] = "wr0ng";
        struct rig rig;

        start(&rig, 1, USERS);
        rig.config.user = user;
        rig.config.password = password;
        expect_refused(&rig, "Authorization Violation", password);
}

Test(nats_login, refuses_one_who_names_nobody)
{
        struct rig rig;

        start(&rig, 1, USERS);
        expect_refused(&rig, "Authorization Violation", NULL);
}

Test(nats_login, lets_a_token_in)
{
        static char token[] = "t0ken";
        struct rig rig;

        start(&rig, 1, "authorization { token: t0ken }\n");
        rig.config.token = token;
        expect_accepted(&rig);
}

Test(nats_login, refuses_a_wrong_token)
{
        static char token[] = "0ther";
        struct rig rig;

        start(&rig, 1, "authorization { token: t0ken }\n");
        rig.config.token = token;
        expect_refused(&rig, "Authorization Violation", token);
}

#define NKEYS "authorization { users: [ { nkey: " USER_KEY " } ] }\n"

Test(nats_login, lets_an_nkey_in)
{
        struct rig rig;

        start(&rig, 1, NKEYS);
        rig.config.nkey_file = write_file(&rig, USER_SEED "\n");
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        free(rig.config.nkey_file);
        rig_stop(&rig);
}

Test(nats_login, refuses_another_nkey)
{
        struct rig rig;

        start(&rig, 1, NKEYS);
        rig.config.nkey_file = write_file(&rig, EXPIRED_SEED);
        expect_refused(&rig, "Authorization Violation", EXPIRED_SEED);
        free(rig.config.nkey_file);
}

Test(nats_login, names_the_file_with_a_seed_that_is_none)
{
        struct rig rig;

        start(&rig, 1, NKEYS);
        rig.config.nkey_file = write_file(&rig, "SUSECRET");
        expect_refused(&rig, "credentials: its seed does not have 58 characters", "SUSECRET");
        free(rig.config.nkey_file);
}

Test(nats_login, names_the_file_that_is_not_there)
{
        static char path[] = "/nonexistent/seed";
        struct rig rig;

        start(&rig, 1, NKEYS);
        rig.config.nkey_file = path;
        expect_refused(&rig, "/nonexistent/seed cannot be read: No such file", NULL);
}

#define OPERATOR                                                                                   \
        "operator: " OPERATOR_JWT "\nsystem_account: " SYSTEM_ACCOUNT                              \
        "\nresolver: MEMORY\nresolver_preload: { " SYSTEM_ACCOUNT ": " SYSTEM_JWT ", " ACCOUNT     \
        ": " ACCOUNT_JWT " }\n"

#define CREDS(jwt, seed)                                                                           \
        "-----BEGIN NATS USER JWT-----\n" jwt "\n------END NATS USER JWT------\n\n"                \
        "************************* IMPORTANT *************************\n"                          \
        "NKEY Seed printed below can be used to sign and prove identity.\n\n"                      \
        "-----BEGIN USER NKEY SEED-----\n" seed "\n------END USER NKEY SEED------\n"

Test(nats_login, lets_credentials_in)
{
        struct rig rig;

        start(&rig, 1, OPERATOR);
        rig.config.creds_file = write_file(&rig, CREDS(USER_JWT, USER_SEED));
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        free(rig.config.creds_file);
        rig_stop(&rig);
}

Test(nats_login, refuses_credentials_that_have_expired_until_they_are_renewed)
{
        struct rig rig;

        start(&rig, 2, OPERATOR);
        rig.config.creds_file = write_file(&rig, CREDS(EXPIRED_JWT, EXPIRED_SEED));
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "refused us");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);

        /* The file is read at each connect. */
        free(rig.config.creds_file);
        rig.config.creds_file = write_file(&rig, CREDS(USER_JWT, USER_SEED));
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 1, OUTCOME_DELIVERED, "");
        free(rig.config.creds_file);
        rig_stop(&rig);
}

Test(nats_login, refuses_a_jwt_with_the_seed_of_another)
{
        struct rig rig;

        start(&rig, 1, OPERATOR);
        rig.config.creds_file = write_file(&rig, CREDS(USER_JWT, EXPIRED_SEED));
        expect_refused(&rig, "Authorization Violation", EXPIRED_SEED);
        free(rig.config.creds_file);
}

/* TLS. */

static struct certificate server_certificate;

static char *tls_config(const char *names, const char *days, const char *more)
{
        certificate_make_for(&server_certificate, names, days);
        return xasprintf("tls { cert_file: \"%s\", key_file: \"%s\" %s }\n",
            server_certificate.path, server_certificate.key_path, more);
}

static void start_tls(struct rig *rig, const char *names, const char *days, const char *more)
{
        char *config = tls_config(names, days, more);

        start(rig, 1, config);
        rig->config.tls = true;
        rig->config.ca_file = server_certificate.path;
        free(config);
}

Test(nats_login, speaks_tls_after_the_first_line)
{
        struct rig rig;

        start_tls(&rig, "IP:127.0.0.1", "2", "");
        expect_accepted(&rig);
}

Test(nats_login, speaks_tls_where_the_server_says_so)
{
        struct rig rig;

        start_tls(&rig, "IP:127.0.0.1", "2", "");
        free(rig.servers[0]);
        rig.servers[0] = xasprintf("tls://127.0.0.1:%u", rig.server.port);
        rig.config.tls = false;
        expect_accepted(&rig);
}

static void expect_tls_failure(struct rig *rig, const char *words, bool needs_operator)
{
        rig_open(rig);
        rig_deliver_all(rig, 1);
        expect_outcome(rig, 0, OUTCOME_SINK_DOWN, words);
        cr_expect(rig->driver.attempts[0].outcome.fault == OUTCOME_FAULT_TLS, "fault %d",
            rig->driver.attempts[0].outcome.fault);
        cr_expect(rig->driver.attempts[0].outcome.needs_operator == needs_operator);
        rig_stop(rig);
}

Test(nats_login, trusts_no_stranger)
{
        struct rig rig;

        start_tls(&rig, "IP:127.0.0.1", "2", "");
        rig.config.ca_file = NULL;
        expect_tls_failure(&rig, "certificate", false);
}

Test(nats_login, trusts_no_server_with_another_name)
{
        struct rig rig;

        start_tls(&rig, "DNS:other.test", "2", "");
        expect_tls_failure(&rig, "certificate", false);
}

Test(nats_login, trusts_no_certificate_that_has_expired)
{
        struct rig rig;

        start_tls(&rig, "IP:127.0.0.1", "-1", "");
        expect_tls_failure(&rig, "certificate", false);
}

/* Neither login nor event goes on in the clear, whatever the server says. */
Test(nats_login, never_falls_back_to_the_clear)
{
        struct rig rig;

        start(&rig, 1, NULL);
        rig.config.tls = true;
        expect_tls_failure(&rig, "does not offer TLS", true);
}

Test(nats_login, says_that_the_server_requires_tls)
{
        struct rig rig;

        start_tls(&rig, "IP:127.0.0.1", "2", "");
        rig.config.tls = false;
        expect_tls_failure(&rig, "requires TLS: write it as tls://", true);
}

Test(nats_login, shows_a_certificate_to_a_server_that_asks)
{
        static struct certificate own;
        char more[200];
        struct rig rig;

        certificate_make(&own, "DNS:client.test");
        snprintf(more, sizeof more, ", ca_file: \"%s\", verify: true", own.path);
        start_tls(&rig, "IP:127.0.0.1", "2", more);
        rig.config.cert_file = own.path;
        rig.config.key_file = own.key_path;
        expect_accepted(&rig);
}

Test(nats_login, is_refused_without_a_certificate_that_the_server_wants)
{
        static struct certificate own;
        char more[200];
        struct rig rig;

        certificate_make(&own, "DNS:client.test");
        snprintf(more, sizeof more, ", ca_file: \"%s\", verify: true", own.path);
        start_tls(&rig, "IP:127.0.0.1", "2", more);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        cr_expect(rig.driver.attempts[0].outcome.kind == OUTCOME_SINK_DOWN);
        rig_stop(&rig);
}

Test(nats_login, says_which_file_for_tls_is_wrong)
{
        static char missing[] = "/nonexistent/ca.pem";
        struct sink_settings settings = {.name = "bus"};
        struct error error = {.kind = ERROR_NONE};
        struct nats_server server = {.port = 1};
        uv_loop_t loop;
        struct rig rig;

        uv_loop_init(&loop);
        rig_init(&rig, &server, 0);
        rig.config.servers = rig.servers;
        rig.config.tls = true;
        rig.config.ca_file = missing;
        settings.options = &rig.config;
        settings.loop = &loop;
        cr_expect(nats_sink_ops.open(&settings, &error) == NULL);
        cr_expect(strstr(error.text, "sink 'bus': nats: ") == error.text, "%s", error.text);
        cr_expect(strstr(error.text, missing) != NULL, "%s", error.text);
        uv_run(&loop, UV_RUN_DEFAULT);
        cr_expect(uv_loop_close(&loop) == 0);
        free(rig.servers[0]);
        free(rig.events);
        free(rig.payloads);
}

static bool accepts(void *port)
{
        return port_accepts((uint16_t)strtoul(port, NULL, 10));
}

/* The server behind it speaks in the clear; what stands before it speaks TLS first. */
Test(nats_login, speaks_tls_first)
{
        static struct certificate made_;
        struct process front;
        char listen[32];
        char target[32];
        struct rig rig;

        certificate_make(&made_, "IP:127.0.0.1");
        start(&rig, 2, NULL);
        snprintf(listen, sizeof listen, "%u", free_port());
        snprintf(target, sizeof target, "%u", rig.server.port);
        process_start(&front,
            (const char *const[]){"/usr/bin/python3",
                PGCOURIER_TESTS_FOLDER "/support/tls_front.py", listen, target, made_.path,
                made_.key_path, NULL},
            NULL, false);
        free(rig.servers[0]);
        rig.servers[0] = xasprintf("tls://127.0.0.1:%s", listen);
        rig.config.ca_file = made_.path;
        rig.config.tls_first = true;
        wait_until(accepts, listen, 10000, "tls_front.py does not listen");
        expect_accepted(&rig);
        process_stop(&front);
}

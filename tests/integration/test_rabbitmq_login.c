/* Who the rabbitmq sink logs in as, what a refusal says, and what it keeps to itself. */
#include "rabbitmq_rig.h"

#include "support/certificate.h"

#include <stdio.h>
#include <stdlib.h>

#define ANY "<<\".*\">>"

static char user[] = "writer", password[] = "swordfish-27";

/* Without any right, but to the exchange that `writes` says. */
static void make_user(const struct rig *rig, const char *name, const char *writes)
{
        rabbitmq_do(rig->server,
            "_ = (catch rabbit_auth_backend_internal:delete_user(<<\"%s\">>, <<\"test\">>)), "
            "ok = rabbit_auth_backend_internal:add_user(<<\"%s\">>, <<\"swordfish-27\">>, "
            "<<\"test\">>), "
            "ok = rabbit_auth_backend_internal:set_permissions(<<\"%s\">>, <<\"%s\">>, "
            "<<\"\">>, <<\"%s\">>, <<\"\">>, <<\"test\">>)",
            name, name, name, rig->vhost, writes);
}

static void start(struct rig *rig)
{
        rig_start(rig, 4);
        rig_add_queue(rig, "q", "#");
}

static void expect_operator(const struct rig *rig, unsigned number)
{
        const struct outcome *outcome = &rig->driver.attempts[number].outcome;

        cr_expect(outcome->needs_operator);
        cr_expect(strstr(outcome->reason, password) == NULL);
}

/* The right to write, and no other. */
Test(rabbitmq_login, needs_the_right_to_write_to_the_exchange)
{
        struct rig rig;

        start(&rig);
        make_user(&rig, user, "^events$");
        rig.config.user = user;
        rig.config.password = password;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&rig);
}

Test(rabbitmq_login, asks_for_an_operator_after_a_wrong_password)
{
        static char wrong[] = "perch-28";
        struct rig rig;

        start(&rig);
        make_user(&rig, user, "");
        rig.config.user = user;
        rig.config.password = wrong;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "ACCESS_REFUSED - Login was refused");
        expect_operator(&rig, 0);
        cr_expect(strstr(rig.driver.attempts[0].outcome.reason, wrong) == NULL);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_AUTH);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "Login was refused");
        rig_stop(&rig);
}

Test(rabbitmq_login, asks_for_an_operator_without_the_right_to_write)
{
        struct rig rig;

        start(&rig);
        make_user(&rig, user, "^other$");
        rig.config.user = user;
        rig.config.password = password;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "access to exchange 'events'");
        expect_operator(&rig, 0);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "access to exchange 'events'");
        rig_stop(&rig);
}

/* It is one event's key that is refused: the others go on. */
Test(rabbitmq_login, tries_a_few_times_if_only_some_routing_keys_are_refused)
{
        struct rig rig;

        start(&rig);
        make_user(&rig, user, "^events$");
        rabbitmq_do(rig.server,
            "ok = rabbit_auth_backend_internal:set_topic_permissions(<<\"%s\">>, <<\"%s\">>, "
            "<<\"events\">>, <<\"^orders$\">>, " ANY ", <<\"test\">>)",
            user, rig.vhost);
        rig.config.user = user;
        rig.config.password = password;
        rig.events[1].topic = "bills";
        rig_open(&rig);
        rig_deliver_all(&rig, 4);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 3);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "access to topic 'bills'");
        cr_expect(!rig.driver.attempts[1].outcome.concerns_all);
        rig_stop(&rig);
}

Test(rabbitmq_login, asks_for_an_operator_if_the_virtual_host_is_missing)
{
        static char nowhere[] = "nowhere";
        struct rig rig;

        start(&rig);
        rig.config.vhost = nowhere;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "vhost nowhere not found");
        expect_operator(&rig, 0);
        rig_stop(&rig);
}

Test(rabbitmq_login, goes_to_the_next_server_if_one_cannot_be_reached)
{
        char dead[32];
        struct rig rig;

        start(&rig);
        snprintf(dead, sizeof dead, "amqp://127.0.0.1:%u", free_port());
        rig.addresses[1] = rig.addresses[0];
        rig.addresses[0] = dead;
        rig.config.n_servers = 2;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&rig);
}

Test(rabbitmq_login, is_down_if_no_server_can_be_reached)
{
        char dead[32], dead_too[32];
        struct rig rig;

        start(&rig);
        snprintf(dead, sizeof dead, "127.0.0.1:%u", free_port());
        snprintf(dead_too, sizeof dead_too, "127.0.0.1:%u", free_port());
        rig.addresses[0] = dead;
        rig.addresses[1] = dead_too;
        rig.config.n_servers = 2;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "refused");
        cr_expect_not(rig.driver.attempts[0].outcome.needs_operator);
        cr_expect(rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_REFUSED);
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "refused");
        rig_stop(&rig);
}

Test(rabbitmq_login, probes_the_exchange)
{
        static char missing[] = "missing";
        struct rig rig;
        struct outcome outcome;

        start(&rig);
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%s", outcome.reason);
        rig_deliver_all(&rig, 1);
        outcome = sink_driver_probe(&rig.driver); /* connected */
        cr_expect(outcome.kind == OUTCOME_DELIVERED);
        sink_driver_deinit(&rig.driver);

        rig.config.exchange = missing;
        rig_open(&rig);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN);
        cr_expect(outcome.needs_operator);
        cr_expect(
            strstr(outcome.reason, "no exchange 'missing' in vhost") != NULL, "%s", outcome.reason);
        rig_stop(&rig);
}

struct secured {
        struct rig rig;
        char address[48];
        char ca[160], cert[160], key[160];
};

/* `host` is a name or address of this machine. */
static void secure(struct secured *secured, const char *host)
{
        struct rig *rig = &secured->rig;
        const char *folder;

        start(rig);
        folder = rig->server->certificates;
        snprintf(secured->address, sizeof secured->address, "amqps://%s:%u", host,
            rig->server->tls_port);
        snprintf(secured->ca, sizeof secured->ca, "%s/ca.pem", folder);
        snprintf(secured->cert, sizeof secured->cert, "%s/client.pem", folder);
        snprintf(secured->key, sizeof secured->key, "%s/client-key.pem", folder);
        rig->addresses[0] = secured->address;
        rig->config.ca_file = secured->ca;
}

Test(rabbitmq_login, speaks_tls)
{
        struct secured secured;

        secure(&secured, "localhost");
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 4);

        cr_expect(rig_count(&secured.rig, OUTCOME_DELIVERED) == 4);
        expect_events(&secured.rig, "q", 0, 4);
        rig_stop(&secured.rig);
}

Test(rabbitmq_login, speaks_tls_if_the_key_says_so)
{
        struct secured secured;

        secure(&secured, "localhost");
        secured.rig.addresses[0] = secured.address + strlen("amqps://");
        secured.rig.config.tls = true;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);

        expect_outcome(&secured.rig, 0, OUTCOME_DELIVERED, "");
        rig_stop(&secured.rig);
}

Test(rabbitmq_login, refuses_a_certificate_that_no_one_it_trusts_has_signed)
{
        struct secured secured;
        struct certificate other;

        secure(&secured, "localhost");
        certificate_make(&other, "DNS:localhost");
        secured.rig.config.ca_file = other.path;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);

        expect_outcome(&secured.rig, 0, OUTCOME_SINK_DOWN, "certificate");
        cr_expect(secured.rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_TLS);
        free(other.folder);
        rig_stop(&secured.rig);
}

Test(rabbitmq_login, refuses_a_certificate_for_another_name)
{
        struct secured secured;

        secure(&secured, "127.0.0.1"); /* it is for localhost */
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);

        expect_outcome(&secured.rig, 0, OUTCOME_SINK_DOWN, "mismatch");
        cr_expect(secured.rig.driver.attempts[0].outcome.fault == OUTCOME_FAULT_TLS);
        rig_stop(&secured.rig);
}

Test(rabbitmq_login, logs_in_by_certificate)
{
        struct secured secured;

        secure(&secured, "localhost");
        make_user(&secured.rig, "client", "^events$");
        secured.rig.config.auth = RABBITMQ_EXTERNAL;
        secured.rig.config.cert_file = secured.cert;
        secured.rig.config.key_file = secured.key;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 2);

        cr_expect(rig_count(&secured.rig, OUTCOME_DELIVERED) == 2);
        rig_stop(&secured.rig);
}

Test(rabbitmq_login, asks_for_an_operator_if_the_certificate_names_no_user)
{
        struct secured secured;

        secure(&secured, "localhost");
        rabbitmq_do(secured.rig.server,
            "catch rabbit_auth_backend_internal:delete_user(<<\"client\">>, <<\"test\">>)");
        secured.rig.config.auth = RABBITMQ_EXTERNAL;
        secured.rig.config.cert_file = secured.cert;
        secured.rig.config.key_file = secured.key;
        rig_open(&secured.rig);
        rig_deliver_all(&secured.rig, 1);

        expect_outcome(&secured.rig, 0, OUTCOME_SINK_DOWN, "EXTERNAL");
        expect_operator(&secured.rig, 0);
        rig_stop(&secured.rig);
}

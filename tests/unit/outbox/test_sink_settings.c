/* What two relays are compared by, for the sinks whose settings no running test compares. */
#include "outbox/sink_settings.h"

#include "support/config_steps.h"

TestSuite(sink_settings, .init = make_path, .fini = remove_path);

Test(sink_settings, name_where_a_broker_takes_events)
{
        static const struct {
                const char *kind;
                const char *destination;
        } cases[] = {
            {"nats: {servers: [\"tls://b\", a], stream: S, token: " CANARY "}",
                "\"nats a, tls://b, subject events.{{topic}}, stream S\""},
            {"rabbitmq: {servers: [h], vhost: v, exchange: \"\", user: u, password: " CANARY "}",
                "\"rabbitmq h, vhost v, exchange \\\"\\\", routing key {{topic}}\""},
            {"kafka: {brokers: [b, a], topic: t, sasl: plain, user: u, password: " CANARY "}",
                "\"kafka a, b, topic t\""},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct config *config = load(PG SINK "    %s\n", cases[i].kind);
                char *settings = sink_settings(&config->sinks[0]);

                cr_expect(strstr(settings, cases[i].destination) != NULL, "%s", settings);
                cr_expect(strstr(settings, SECRET_WORD) == NULL, "%s", settings);
                free(settings);
                config_free(config);
        }
}

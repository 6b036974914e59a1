/* The block postgres of a sink. */
#include "support/config_steps.h"

TestSuite(config_postgres, .init = make_path, .fini = remove_path);

#define JOBS(keys) PG SINK "    postgres: {" keys "}\n"
#define CALL(keys) JOBS("call: app.run" keys)

Test(config_postgres, has_defaults)
{
        struct config *config = load("%s", CALL(""));
        const struct postgres_sink_config *postgres = config->sinks[0].postgres;

        cr_expect_str_eq(postgres->call, "app.run");
        cr_expect(postgres->insert == NULL && postgres->role == NULL && postgres->dsn == NULL);
        cr_expect_eq(postgres->timeout_ms, 60000);
        cr_expect_eq(postgres->connect_timeout_ms, 5000);
        cr_expect_eq(postgres->idle_ms, 60000);
        cr_expect_eq(postgres->batch, 1000);
        config_free(config);
}

Test(config_postgres, logs_in_as_the_relay_unless_it_has_a_dsn)
{
        struct config *config =
            load("postgres: {dsn: own, password: p}\n" SINK "    postgres: {call: a.b}\n");

        cr_expect_str_eq(config->sinks[0].postgres->server.dsn, "own");
        cr_expect_str_eq(config->sinks[0].postgres->server.password, "p");
        config_free(config);
        config = load("postgres: {dsn: own, password: p}\n" SINK
                      "    postgres: {call: a.b, dsn: other, connect_timeout: 2s}\n");
        cr_expect_str_eq(config->sinks[0].postgres->server.dsn, "other");
        cr_expect(config->sinks[0].postgres->server.password == NULL);
        cr_expect_eq(config->sinks[0].postgres->server.connect_timeout_ms, 2000);
        config_free(config);
}

Test(config_postgres, refuses_what_cannot_be)
{
        static const struct bad cases[] = {
            {JOBS(""), "5:5", "sinks[0].postgres.call: is required, or insert"},
            {JOBS("call: a.b, insert: a.c"), "5:27", "is given together with call"},
            {CALL(", batch: 5"), "5:31", "is only for insert"},
            {CALL(", password: " CANARY), "5:31", "is given without dsn"},
            {JOBS("call: run"), "5:16", "is not of the form schema.name"},
            {JOBS("call: app."), "5:16", "is not of the form schema.name"},
            {JOBS("call: .run"), "5:16", "is not of the form schema.name"},
            {JOBS("call: a.b.c"), "5:16", "is not of the form schema.name"},
            {JOBS("call: \"a.b(x)\""), "5:16", "is not of the form schema.name"},
            {JOBS("insert: 'a.\"b\"'"), "5:16", "is not of the form schema.name"},
            {JOBS("call: a.b123456789b123456789b123456789b123456789b123456789b123456789b123456789"),
                "5:16", "more than 63 bytes"},
            {CALL(", settings: [work_mem]"), NULL, "is not of the form name=value"},
            {CALL(", settings: [\"a b=c\"]"), NULL, "has no name of a setting"},
            {CALL(", settings: [\"Statement_Timeout=5\"]"), NULL, "use role, search_path or"},
            {CALL(", consumer: \"a\\tb\""), "5:31", "holds a control character"},
            {PG SINK "    concurrency: 1001\n    postgres: {call: a.b}\n", "5:5",
                "allowed for postgres.call: 1 to 1000"},
        };

        REFUSE_ALL(cases);
}

Test(config_postgres, says_where_it_delivers_to)
{
        struct config *config = load("%s", CALL(""));
        char *target = sink_config_target(&config->sinks[0]);

        cr_expect_str_eq(target, "function app.run in the outbox's database");
        free(target);
        config_free(config);
        config = load("%s", JOBS("insert: app.t, dsn: x"));
        target = sink_config_target(&config->sinks[0]);
        cr_expect_str_eq(target, "table app.t in another database");
        free(target);
        config_free(config);
}

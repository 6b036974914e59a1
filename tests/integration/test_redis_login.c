/* The redis sink: what a real Redis says before it lets us in. */
#include "redis_rig.h"

#include <criterion/criterion.h>
#include <string.h>

Test(redis_login, authenticates_as_a_user_and_selects_a_database)
{
        const char *const options[] = {"--requirepass", "other", "--user", "app", "on", ">s3cret",
            "~events", "+xadd", "+select", "+ping", "+multi", "+exec", NULL};
        struct redis_server server;
        struct rig rig;
        char user[] = "app";
        char password[] = "s3cret";

        redis_server_start(&server, options);
        rig_init(&rig, &server, 1);
        rig.config.user = user;
        rig.config.password = password;
        rig.config.db = 3;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        cr_expect(redis_server_count(&server, "EXISTS events") == 0);
        {
                redisReply *reply = redis_server_run(&server, "INFO keyspace");
                cr_expect(strstr(reply->str, "db3:keys=1") != NULL, "%s", reply->str);
                freeReplyObject(reply);
        }
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, needs_no_more_than_the_documented_permissions)
{
        const char *const options[] = {"--user", "app", "on", ">s3cret", "~events", "+xadd",
            "+multi", "+exec", "+ping", "+role", "+client|setname", "+select", "+info", NULL};
        struct redis_server server;
        struct rig rig;
        char user[] = "app";
        char password[] = "s3cret";
        redisReply *log;

        redis_server_start(&server, options);
        rig_init(&rig, &server, 100);
        for (unsigned i = 0; i < 100; i++)
                rig.events[i].key = "k";
        rig.config.user = user;
        rig.config.password = password;
        rig.config.db = 1;
        rig_open(&rig);
        cr_expect(sink_driver_probe(&rig.driver).kind == OUTCOME_DELIVERED);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 99);

        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 100);
        log = redis_server_run(&server, "ACL LOG");
        cr_expect(log->elements == 0, "something was denied");
        freeReplyObject(log);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, authenticates_with_a_password_alone)
{
        const char *const options[] = {"--requirepass", "s3cret", NULL};
        struct redis_server server;
        struct rig rig;
        char password[] = "s3cret";

        redis_server_start(&server, options);
        rig_init(&rig, &server, 1);
        rig.config.password = password;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, is_down_with_the_wrong_password_and_keeps_it_secret)
{
        const char *const options[] = {"--requirepass", "s3cret", NULL};
        struct redis_server server;
        struct rig rig;
        char password[] = "hunter2";

        redis_server_start(&server, options);
        rig_init(&rig, &server, 3);
        rig.config.password = password;
        rig_open(&rig);
        rig_deliver_all(&rig, 2);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "WRONGPASS");
        expect_outcome(&rig, 1, OUTCOME_SINK_DOWN, "WRONGPASS");
        cr_expect(rig.driver.attempts[1].outcome.needs_operator);
        cr_expect(strstr(rig.driver.attempts[0].outcome.reason, password) == NULL);

        redis_server_do(&server, "CONFIG SET requirepass %s", password);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, keeps_the_password_secret_even_if_redis_quotes_it)
{
        const char *const options[] = {"--rename-command", "AUTH", "", NULL};
        struct redis_server server;
        struct rig rig;
        char password[] = "hunter2";

        redis_server_start(&server, options);
        rig_init(&rig, &server, 1);
        rig.config.password = password;
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "AUTH: ERR unknown command");
        cr_expect(strstr(rig.driver.attempts[0].outcome.reason, password) == NULL);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, is_down_where_a_password_is_needed_and_none_is_configured)
{
        const char *const options[] = {"--requirepass", "s3cret", NULL};
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, options);
        rig_init(&rig, &server, 1);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "NOAUTH");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_login, is_down_where_the_database_or_the_permission_is_missing)
{
        const char *const options[] = {
            "--user", "default", "on", "nopass", "resetkeys", "~else", "+@all", NULL};
        struct redis_server server;
        struct rig no_key;
        struct rig no_db;

        redis_server_start(&server, options);
        rig_init(&no_key, &server, 1);
        rig_open(&no_key);
        rig_deliver_all(&no_key, 1);
        rig_init(&no_db, &server, 1);
        no_db.config.db = 99;
        rig_open(&no_db);
        rig_deliver_all(&no_db, 1);

        expect_outcome(&no_key, 0, OUTCOME_SINK_DOWN, "NOPERM");
        expect_outcome(&no_db, 0, OUTCOME_SINK_DOWN, "SELECT");
        cr_expect(no_key.driver.attempts[0].outcome.needs_operator);
        cr_expect(no_db.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&no_key);
        rig_destroy(&no_db);
        redis_server_destroy(&server);
}

/* Without a transaction a key's order cannot be kept, so nothing is sent. */
Test(redis_login, is_paused_where_transactions_are_not_allowed)
{
        const char *const options[] = {
            "--user", "default", "on", "nopass", "~*", "+@all", "-multi", NULL};
        struct redis_server server;
        struct rig rig;
        struct outcome outcome;

        redis_server_start(&server, options);
        rig_init(&rig, &server, 1);
        rig_open(&rig);
        rig_deliver_all(&rig, 1);
        outcome = sink_driver_probe(&rig.driver);

        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "refused MULTI: NOPERM");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        cr_expect(outcome.kind == OUTCOME_SINK_DOWN, "%s", outcome.reason);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

/* Delivers the rig's first event until the server is not down. */
static struct outcome await_admission(struct rig *rig)
{
        struct outcome outcome;

        do
                outcome = sink_driver_deliver(&rig->driver, &rig->events[0]);
        while (outcome.kind == OUTCOME_SINK_DOWN);
        return outcome;
}

Test(redis_login, is_down_when_redis_has_too_many_clients)
{
        const char *const options[] = {"--maxclients", "1", NULL};
        struct redis_server server;
        struct rig first;
        struct rig second;

        redis_server_start(&server, options);
        rig_init(&first, &server, 1);
        rig_init(&second, &server, 1);
        rig_open(&first);
        rig_open(&second);
        /* The connection that asked whether the server is up may still count for a moment. */
        await_admission(&first);
        rig_deliver_all(&second, 1);

        expect_outcome(&second, 0, OUTCOME_SINK_DOWN, "max number of clients");
        cr_expect(!second.driver.attempts[0].outcome.needs_operator);

        rig_destroy(&first);
        cr_expect(await_admission(&second).kind == OUTCOME_DELIVERED);
        rig_destroy(&second);
        redis_server_destroy(&server);
}

#include "failover_rig.h"

#include "base/alloc.h"

#include <stdlib.h>

void stage_begin(struct stage *stage, bool is_synchronous)
{
        struct relay_fixture *fixture = &stage->fixture;

        *stage = (struct stage){.primary = postgres_start_replicated()};
        relay_fixture_begin(fixture, stage->primary);
        stage->database = xstrdup(PQdb(fixture->admin));
        stage->standby = postgres_start_standby(stage->primary);
        if (is_synchronous)
                postgres_wait_for_standby(stage->primary);
        free(fixture->app);
        free(fixture->relay);
        fixture->app = postgres_dsn_of_two(stage->primary, stage->standby, stage->database, "app");
        fixture->relay =
            postgres_dsn_of_two(stage->primary, stage->standby, stage->database, "relay");
}

PGconn *stage_connect(const struct stage *stage, const struct postgres *postgres)
{
        char *dsn = postgres_dsn(postgres, stage->database, "postgres");
        PGconn *connection = database_connect(dsn);

        free(dsn);
        return connection;
}

void stage_fail_over(struct stage *stage)
{
        struct postgres *old = stage->primary;

        postgres_kill(old);
        postgres_promote(stage->standby);
        stage->primary = stage->standby;
        stage->standby = old;
        PQfinish(stage->fixture.admin);
        stage->fixture.admin = stage_connect(stage, stage->primary);
}

void stage_end(struct stage *stage, struct relay_process *relay)
{
        relay_destroy(relay);
        relay_fixture_end(&stage->fixture);
        free(stage->database);
}

void stage_await_settled(PGconn *connection, int n_deliveries)
{
        char *sql = xasprintf("SELECT count(*) = %d FROM courier.outbox AS event,"
                              " courier.cursor AS lane WHERE NOT is_owner_lane"
                              " AND courier.has_passed(lane.from_snapshot, lane.until_snapshot,"
                              " lane.last_id, event.id, event.txid)",
            n_deliveries);

        await_in_database(connection, sql, "the settle is there");
        free(sql);
}

struct relay_process *stage_start_relay(const struct stage *stage, const char *redis_settings)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms, sweep: 1h}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    max_in_flight: %d\n"
                           "    redis: {url: \"unix://%s\", stream: events%s}\n",
            stage->fixture.relay, WINDOW, stage->fixture.redis.socket_path, redis_settings);
}

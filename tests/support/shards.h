/* Sinks with shards for tests without a relay: their lanes are moved by SQL. */
#pragma once

#include "support/postgres.h"

/*
 * shard_pass(): the lane has everything behind it that is committed. shard_go(): it has opened a
 * difference, and come up to that id in it. The view shard_event says of each event in which lane
 * of each sink it is, and whether it is behind it.
 */
static const char shards_sql[] =
    "CREATE FUNCTION shard_pass(of_sink text, of_lane integer) RETURNS void LANGUAGE sql AS $$"
    "  UPDATE courier.cursor SET from_snapshot = pg_current_snapshot(),"
    "    from_floor = courier.outbox_floor(), from_xid = pg_current_xact_id(),"
    "    until_snapshot = NULL, until_floor = NULL, until_xid = NULL, last_id = 0"
    "  WHERE sink = of_sink AND lane = of_lane $$;"
    "CREATE FUNCTION shard_go(of_sink text, of_lane integer, id bigint) RETURNS void"
    "  LANGUAGE sql AS $$"
    "  UPDATE courier.cursor SET until_snapshot = pg_current_snapshot(),"
    "    until_floor = courier.outbox_floor(), until_xid = pg_current_xact_id(), last_id = id"
    "  WHERE sink = of_sink AND lane = of_lane $$;"
    "CREATE VIEW shard_event AS"
    "  SELECT s.name AS sink, o.id, o.key, c.lane,"
    "    courier.has_passed(c.from_snapshot, c.until_snapshot, c.last_id, o.id, o.txid)"
    "      OR courier.had_passed(s.name, o.key, o.id, o.txid) AS is_passed"
    "  FROM courier.sink AS s CROSS JOIN courier.outbox AS o"
    "  LEFT JOIN courier.cursor AS c ON c.sink = s.name"
    "    AND c.lane = courier.shard_lane(courier.shard_of(o.key, s.shards, o.id), s.shards);"
    "GRANT SELECT ON shard_event TO courier_relay;";

/*
 * Sink bus in the middle of a division. It had two shards, of which the first had events 1 to 40
 * behind it, and the second 1 to 20; now it has three, which begin at 20. Event n has the key
 * 'k' || n % 7, 41 to 60 are new, and all are of topic t.
 */
static inline void shards_divide(PGconn *admin)
{
        static const char publish[] =
            "SELECT count(courier.publish('t', to_json(i), 'k' || i %% 7))"
            " FROM generate_series(%d, %d) AS i";
        char sql[160];

        database_exec(admin, shards_sql);
        database_exec(admin, "SELECT courier.agree_shards('bus', 2, false, false, 'test')");
        for (int i = 0; i < 3; i++) {
                snprintf(sql, sizeof sql, publish, i * 20 + 1, i * 20 + 20);
                database_exec(admin, sql);
                database_exec(admin, i < 2 ? "SELECT shard_pass('bus', -1)" : "SELECT 1");
                database_exec(admin, i < 1 ? "SELECT shard_pass('bus', -2)" : "SELECT 1");
        }
        database_exec(admin, "SELECT courier.agree_shards('bus', 3, false, false, 'test')");
}

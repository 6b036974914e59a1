/*
 * The state of everything, as the database knows it: one statement that returns
 * one JSON document (status_query.sql). The relay asks it on its operators' connection
 * (operator_session.h), `pgcourier status` on one of its own.
 *
 *   {"now",
 *    "source": {"database", "server", "address" | null: a unix socket, "port", "server_version",
 *      "schema", "notify_queue_usage",
 *      "sequence": {"trouble", "remedy"} | null: all is well,
 *      "oldest_xmin": {"age_xids", "age", "pid", "what"} | null,
 *      "outbox_bytes", "outbox_dead_tuples", "outbox_partitions",
 *      "retention": {"held_partitions", "held_bytes", "held_for", "held_by": [at most 8
 *        of] "holders", "lost_events" in a day, "default_bytes"}, "owner_pid",
 *        "foreign_locks": [{"pid", "user", "application_name", "since", "locks", "sinks": […],
 *        "maintenance", "doorbell"}]},
 *    "sinks": {NAME: {"topics": […] | null, "owner": {"pid", "application_name", "client"} | null,
 *      "shards": {"total", "wanted" | null: no change is under way, "owners": [{"relay" | null,
 *        "pid", "application_name", "client", "shards": [numbers], "overdue_age"}], "unowned":
 *        [numbers],
 *        "otherwise": [{"relay", "shards"}: how many its configuration names]} | null: one,
 *      "backlog": {"events", "is_exact", "oldest_age", "overdue_age"},
 *      "retrying", "unfinished": parked without having failed, "blocked", "delayed", "dead",
 *      "counts_are_exact", "next_retry_at", "next_retry_id", "next_retry_error",
 *      "pauses": [{"by", "reason", "since"}],
 *      "settings_differ": words | null,
 *      "receivers": {"total", "troubled": [at most 4 names of the next two] "failing", "disabled",
 *        "paused"} | null, "holds_outbox",
 *      "settled_at", "settled_age"}},
 *    "blocked_keys": [{"sink", "lane", "key", "waiting", "behind_id", "since",
 *      "next_retry_at", "error"}],
 *    "orphans": [{"sink", "lanes", "behind", "settled_at"}],
 *    "unserved": [{"sink", "receivers", "first"}],
 *    "relays": [at most 100 that live: {"name", "host", "version", "since", "weight", "is_leaving",
 *      "is_drained", "sinks": {NAME: {"shards", "owns": how many of these}}}],
 *    "taps": {"states": {STATE: how many}, "first": [at most 200, those in trouble first:
 *      {"id", "name", "kind", "table", "layout", "done", "done_when", "state", "detail" | null,
 *      "remedy": SQL | null, "unmarked": {"events", "is_exact", "oldest_age"} | null: the relay
 *      marks none of its rows}]},
 *    "marks": {"attachments", "waiting": of these "behind", "parked", "retrying",
 *      "counts_are_exact", "dead", "oldest_age", "is_behind_lanes", "unread_age",
 *      "waits_for": [{"sink", "receiver", "events", "is_there", "since"}],
 *      "failing": [{"attachment", "table", "rows", "since", "error"}]} | null: no table has marks}
 *
 * Durations are seconds, times RFC 3339 in UTC. What takes long to count is
 * counted up to a bound: a backlog is exact up to some thousand events, else an
 * estimate (is_exact false); the four counts stop at 10000 of each sink
 * (counts_are_exact false). A backlog of a sink with receivers is the sum of what
 * those that are not paused have not got. overdue_age is for how long something
 * has waited for no reason that is to be seen here: neither for another attempt nor
 * for a receiver that fails.
 */
#pragma once

#include <jansson.h>

struct blocking_conn;
struct config;
struct error;

/* To be run first: the statement is right in any session, but quick in such a one. */
extern const char look_session_sql[];

/* Its only parameter is that of look_sinks(), or NULL for all sinks that the database knows, as if
 * each took every event. One row with one column. */
extern const char status_query_sql[];

/* The sinks of a configuration with what they take. The caller's to free. */
char *look_sinks(const struct config *config);

/* Asks on a connection that has run look_session_sql. `config` may be NULL: all sinks. A new
 * reference; NULL and *error if there is no answer. */
json_t *status_query_ask(
    struct blocking_conn *conn, const struct config *config, struct error *error);

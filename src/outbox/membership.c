/*
 * The relay as a member of those that share the sinks of a database, as long as its session holds
 * the lock of its row (courier.member); and what it sees of the others: who they are, and who has
 * which shard. While nobody comes or goes, a look costs a sum over pg_locks.
 */
#include "base/alloc.h"
#include "outbox/schema.h"
#include "outbox/session.h"
#include "pgcourier/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN, LEAVE, READ_LOCKS, READ_MEMBERS };

/* Of the locks of lanes and members: a number that is another one when one of them is. */
#define DIGEST "coalesce(sum(hashtextextended(lock_id || ':' || pid, 0)), 0)::text"

const struct pg_statement membership_statements[] = {
    [JOIN] = {.name = "join_relays",
        .n_params = 5,
        .sql = "SELECT courier.join_relays($1, $2, $3, $4::integer, $5::jsonb)"},
    [LEAVE] = {.name = "leave_relays",
        .n_params = 1,
        .sql = "WITH leaving AS (UPDATE courier.member SET is_leaving = true WHERE name = $1)"
               " SELECT pg_notify('courier_members', '')"},
    /* As courier.relay_lock, without the roles of sessions. */
    [READ_LOCKS] = {.name = "read_locks",
        .sql = "SELECT " DIGEST " FROM (SELECT objid::bigint AS lock_id, pid FROM pg_locks"
               " WHERE locktype = 'advisory' AND classid = " LOCK_CLASS " AND objsubid = 2"
               " AND granted AND objid NOT IN (0, 4294967295)"
               " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
               " AS locks"},
    /* A relay may own shards of a sink if its configuration has their number in force. Members and
     * sinks come in the order of their bytes, as view_find_member() and view_find_sink() want. */
    [READ_MEMBERS] = {.name = "read_members",
        .sql =
            "WITH locks AS MATERIALIZED (SELECT lock_id, pid, is_relay FROM courier.relay_lock"
            " WHERE lock_id NOT IN (0, 4294967295)), members AS MATERIALIZED ("
            " SELECT member.*, pid FROM courier.member JOIN locks"
            " ON locks.lock_id = (member.lock_id::bigint & 4294967295) WHERE is_relay), sinks AS ("
            " SELECT name, shards, shards_wanted FROM courier.sink WHERE EXISTS"
            " (SELECT FROM courier.cursor WHERE sink = name AND lane <= 0))"
            " SELECT * FROM (SELECT 0, " DIGEST ", NULL, NULL FROM locks"
            " UNION ALL SELECT 1, name, weight::text, (is_leaving OR is_drained)::text FROM members"
            " UNION ALL SELECT 2, name, shards::text, NULL FROM sinks"
            " UNION ALL SELECT 3, sinks.name, NULL, members.name FROM sinks JOIN members"
            " ON members.shards ->> sinks.name = sinks.shards::text WHERE shards_wanted IS NULL"
            " UNION ALL SELECT 4, sink, greatest(-1 - lane, 0)::text, coalesce(members.name, '')"
            " FROM courier.cursor JOIN sinks ON sinks.name = sink"
            " JOIN locks ON locks.lock_id = cursor.lock_id"
            " LEFT JOIN members ON members.pid = locks.pid WHERE lane <= 0)"
            " AS found (kind, name, number, detail) ORDER BY kind, name COLLATE \"C\""},
};
const unsigned n_membership_statements =
    sizeof membership_statements / sizeof *membership_statements;

static void execute(
    struct outbox *outbox, int statement, const char *const *values, pg_result_fn *on_result)
{
        pg_conn_execute(
            outbox->conn, &membership_statements[statement], values, false, on_result, outbox);
}

static void on_joined(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;

        snprintf(outbox->member, sizeof outbox->member, "%s", PQgetvalue(result, 0, 0));
        PQclear(result);
}

void session_join(struct outbox *outbox)
{
        const struct membership *ours = &outbox->membership;
        char weight[16];
        const char *const values[] = {
            ours->name, ours->host, PGCOURIER_VERSION, weight, ours->shards};

        if (ours->name == NULL)
                return;
        snprintf(weight, sizeof weight, "%" PRIu32, ours->weight);
        execute(outbox, JOIN, values, on_joined);
}

/* The texts are its own. */
static void forget(struct membership *membership)
{
        free((void *)(uintptr_t)membership->name);
        free((void *)(uintptr_t)membership->host);
        free((void *)(uintptr_t)membership->shards);
}

void session_forget_membership(struct outbox *outbox)
{
        forget(&outbox->membership);
}

void outbox_join(struct outbox *outbox, const struct membership *membership)
{
        forget(&outbox->membership);
        outbox->membership = (struct membership){.name = xstrdup(membership->name),
            .host = xstrdup(membership->host),
            .weight = membership->weight,
            .shards = xstrdup(membership->shards)};
        if (pg_conn_is_ready(outbox->conn))
                session_join(outbox);
}

const char *outbox_member(const struct outbox *outbox)
{
        return outbox->member;
}

void outbox_leave(struct outbox *outbox)
{
        const char *const values[] = {outbox->member};

        if (pg_conn_is_ready(outbox->conn))
                execute(outbox, LEAVE, values, NULL);
}

/* Rows of one kind, which stand together. */
struct rows {
        const PGresult *result;
        int first, end;
};

static struct rows rows_of(const PGresult *result, char kind)
{
        struct rows rows = {.result = result};

        while (rows.first < PQntuples(result) && PQgetvalue(result, rows.first, 0)[0] < kind)
                rows.first++;
        rows.end = rows.first;
        while (rows.end < PQntuples(result) && PQgetvalue(result, rows.end, 0)[0] == kind)
                rows.end++;
        return rows;
}

static char *text_at(const PGresult *result, int row, int column)
{
        return PQgetvalue(result, row, column);
}

/* A session that is no member's has no name. */
static int find_owner(const struct view *view, const char *name)
{
        return *name != '\0' ? view_find_member(view, name) : STRANGER;
}

static void read_members(struct view *view, const PGresult *result)
{
        struct rows rows = rows_of(result, '1');

        view->n_members = (size_t)(rows.end - rows.first);
        view->members = xcalloc(view->n_members + 1, sizeof *view->members);
        for (int row = rows.first; row < rows.end; row++)
                view->members[row - rows.first] = (struct member){.name = text_at(result, row, 1),
                    .weight = (uint32_t)strtoul(text_at(result, row, 2), NULL, 10),
                    .is_draining = text_at(result, row, 3)[0] == 't'};
}

static void read_sinks(struct view *view, const PGresult *result)
{
        struct rows rows = rows_of(result, '2');

        view->n_sinks = (size_t)(rows.end - rows.first);
        view->sinks = xcalloc(view->n_sinks + 1, sizeof *view->sinks);
        for (int row = rows.first; row < rows.end; row++) {
                struct sharded_sink *sink = &view->sinks[row - rows.first];
                sink->name = text_at(result, row, 1);
                sink->n_shards = (uint32_t)strtoul(text_at(result, row, 2), NULL, 10);
                view->n_shards += sink->n_shards;
        }
}

static void read_who_serves(struct view *view, const PGresult *result)
{
        struct rows rows = rows_of(result, '3');

        view->serves = xcalloc(view->n_members * view->n_sinks + 1, sizeof *view->serves);
        for (int row = rows.first; row < rows.end; row++) {
                int sink = view_find_sink(view, text_at(result, row, 1));
                int member = view_find_member(view, text_at(result, row, 3));
                if (sink >= 0 && member >= 0)
                        view->serves[(size_t)member * view->n_sinks + (size_t)sink] = true;
        }
}

static void read_owners(struct view *view, const PGresult *result)
{
        struct rows rows = rows_of(result, '4');

        view->owners = xcalloc(view->n_shards + 1, sizeof *view->owners);
        for (size_t i = 0; i < view->n_shards; i++)
                view->owners[i] = NOBODY;
        for (int row = rows.first; row < rows.end; row++) {
                int sink = view_find_sink(view, text_at(result, row, 1));
                uint32_t number = (uint32_t)strtoul(text_at(result, row, 2), NULL, 10);
                if (sink >= 0 && number < view->sinks[sink].n_shards)
                        view->owners[view_first_shard(view, (size_t)sink) + number] =
                            find_owner(view, text_at(result, row, 3));
        }
}

static void on_members_read(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        struct view view = {0};

        outbox->is_reading_members = false;
        snprintf(outbox->locks, sizeof outbox->locks, "%s", text_at(result, 0, 1));
        read_members(&view, result);
        read_sinks(&view, result);
        read_who_serves(&view, result);
        read_owners(&view, result);
        outbox->events.on_members(outbox->owner, &view);
        free(view.members);
        free(view.sinks);
        free(view.serves);
        free(view.owners);
        PQclear(result);
        if (outbox->reads_members_again)
                outbox_read_members(outbox);
}

static void on_locks_read(void *owner, PGresult *result)
{
        struct outbox *outbox = owner;
        bool is_same = strcmp(outbox->locks, text_at(result, 0, 0)) == 0;

        PQclear(result);
        outbox->is_reading_members = false;
        if (is_same && !outbox->reads_members_again)
                outbox->events.on_members(outbox->owner, NULL);
        else
                outbox_read_members(outbox);
}

void outbox_read_members(struct outbox *outbox)
{
        outbox->reads_members_again = outbox->is_reading_members;
        if (outbox->is_reading_members || !pg_conn_is_ready(outbox->conn))
                return;
        outbox->is_reading_members = true;
        execute(outbox, READ_MEMBERS, NULL, on_members_read);
}

void outbox_look_at_members(struct outbox *outbox)
{
        if (outbox->is_reading_members || !pg_conn_is_ready(outbox->conn))
                return;
        outbox->is_reading_members = true;
        execute(outbox, READ_LOCKS, NULL, on_locks_read);
}

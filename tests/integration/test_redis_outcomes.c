/*
 * The redis sink: every answer in the table of the sinks' manual, given by a real Redis where one
 * can be brought to give it. What concerns logging in is in test_redis_login.c, what concerns
 * connections in test_redis_outage.c, WRONGTYPE of one event's stream in test_redis_sink.c.
 */
#include "redis_rig.h"

#include "base/alloc.h"
#include "support/resp_server.h"

#include <stdlib.h>
#include <sys/stat.h>

/* A command that has no answer for a long time, on a connection of its own. */
static redisContext *begin(struct redis_server *server, const char *command, const char *argument)
{
        redisContext *context = redisConnect("127.0.0.1", server->port);
        int is_done = 0;

        redisAppendCommand(context, command, argument);
        while (!is_done)
                redisBufferWrite(context, &is_done);
        return context;
}

struct awaited {
        struct redis_server *server;
        const char *answer;
};

static bool is_answered_so(void *context)
{
        struct awaited *awaited = context;
        redisReply *reply = redis_server_run(awaited->server, "PING");
        bool is_so = strncmp(reply->str, awaited->answer, strlen(awaited->answer)) == 0;

        freeReplyObject(reply);
        return is_so;
}

static void await_ping(struct redis_server *server, const char *answer)
{
        wait_until(is_answered_so, &(struct awaited){server, answer}, 20000, answer);
}

static void run_out_of_memory(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET maxmemory 1");
}

static void get_memory(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET maxmemory 0");
}

static void become_replica(struct redis_server *server)
{
        redis_server_do(server, "REPLICAOF 127.0.0.1 1");
}

static void become_master(struct redis_server *server)
{
        redis_server_do(server, "REPLICAOF NO ONE");
}

static void want_replicas(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET min-replicas-to-write 1");
}

static void want_no_replicas(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET min-replicas-to-write 0");
}

static bool has_failed_to_save(void *context)
{
        redisReply *reply = redis_server_run(context, "INFO persistence");
        bool has_failed = strstr(reply->str, "rdb_last_bgsave_status:err") != NULL;

        freeReplyObject(reply);
        return has_failed;
}

static void fail_to_save(struct redis_server *server)
{
        char *path = xasprintf("%s/dump.rdb", server->folder);

        mkdir(path, 0700); /* where the file should go */
        redis_server_do(server, "BGSAVE");
        wait_until(has_failed_to_save, server, 20000, "the failure to save");
        free(path);
}

static void write_without_saving(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET stop-writes-on-bgsave-error no");
}

static redisContext *script;

static void run_script(struct redis_server *server)
{
        script = begin(server, "EVAL %s 0", "while true do end");
        await_ping(server, "BUSY");
}

static void kill_script(struct redis_server *server)
{
        redis_server_do(server, "SCRIPT KILL");
        await_ping(server, "PONG");
        redisFree(script);
}

static void load(struct redis_server *server)
{
        redis_server_do(server, "DEBUG POPULATE 2000");
        redis_server_do(server, "CONFIG SET key-load-delay 10000");
        script = begin(server, "DEBUG %s", "RELOAD");
        await_ping(server, "LOADING");
}

static void end_loading(struct redis_server *server)
{
        redis_server_do(server, "CONFIG SET key-load-delay 0");
        await_ping(server, "PONG");
        redisFree(script);
}

static void forbid_xadd(struct redis_server *server)
{
        redis_server_do(server, "ACL SETUSER default -xadd");
}

static void allow_xadd(struct redis_server *server)
{
        redis_server_do(server, "ACL SETUSER default +xadd");
}

static void take_stream_for_string(struct redis_server *server)
{
        redis_server_do(server, "SET events x");
}

static void exhaust_stream(struct redis_server *server)
{
        redis_server_do(server, "XADD events 18446744073709551615-18446744073709551615 f v");
}

static void delete_stream(struct redis_server *server)
{
        redis_server_do(server, "DEL events");
}

static const char *const no_options[] = {NULL};
static const char *const stale_options[] = {
    "--replica-read-only", "no", "--replica-serve-stale-data", "no", NULL};
static const char *const saving_options[] = {"--save", "3600", "100000", NULL};
static const char *const script_options[] = {"--busy-reply-threshold", "1", NULL};
static const char *const loading_options[] = {
    "--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024", NULL};

static const struct row {
        const char *words;
        const char *const *options;
        void (*provoke)(struct redis_server *server);
        void (*relieve)(struct redis_server *server);
        bool needs_operator;
} rows[] = {
    {"OOM", no_options, run_out_of_memory, get_memory, false},
    {"its role is replica", no_options, become_replica, become_master, false},
    {"its role is replica", stale_options, become_replica, become_master, false},
    {"NOREPLICAS", no_options, want_replicas, want_no_replicas, false},
    {"MISCONF", saving_options, fail_to_save, write_without_saving, false},
    {"BUSY", script_options, run_script, kill_script, false},
    {"LOADING", loading_options, load, end_loading, false},
    {"NOPERM", no_options, forbid_xadd, allow_xadd, true},
    {"WRONGTYPE", no_options, take_stream_for_string, delete_stream, true},
    {"ERR The stream has exhausted", no_options, exhaust_stream, delete_stream, true},
};

static void expect_down(const struct rig *rig, unsigned number, const struct row *row)
{
        const struct outcome *outcome = &rig->driver.attempts[number].outcome;

        expect_outcome(rig, number, OUTCOME_SINK_DOWN, row->words);
        cr_expect(outcome->needs_operator == row->needs_operator, "%s", outcome->reason);
}

/* On a connection that works, to an event alone and to several of one key. */
static void check_row(const struct row *row)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, row->options);
        rig_init(&rig, &server, 8);
        for (unsigned i = 0; i < 8; i++)
                rig.events[i].key = "k";
        rig_open(&rig);
        row->provoke(&server);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 3);
        row->relieve(&server);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 3);

        expect_down(&rig, 0, row);
        for (unsigned i = 1; i < 4; i++) /* or each is to be sent alone */
                if (rig.driver.attempts[i].outcome.kind != OUTCOME_CANCELLED)
                        expect_down(&rig, i, row);
        for (unsigned i = 4; i < 8; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        cr_expect(redis_server_count(&server, "XLEN events") == 4, "%s", row->words);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_outcomes, is_down_while_redis_reports_a_condition_of_its_own)
{
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                check_row(&rows[i]);
}

static struct outcome outcome_at(struct redis_server *server)
{
        struct rig rig;
        struct outcome outcome;

        rig_init(&rig, server, 1);
        rig_open(&rig);
        outcome = sink_driver_deliver(&rig.driver, &rig.events[0]);
        rig_destroy(&rig);
        return outcome;
}

static void expect_at(struct redis_server *server, bool needs_operator, const char *words)
{
        struct outcome outcome = outcome_at(server);

        cr_expect(outcome.kind == OUTCOME_SINK_DOWN, "%s", outcome.reason);
        cr_expect(outcome.needs_operator == needs_operator, "%s", outcome.reason);
        cr_expect(strstr(outcome.reason, words) != NULL, "no '%s' in '%s'", words, outcome.reason);
}

Test(redis_outcomes, is_paused_where_there_is_no_xadd)
{
        struct redis_server server;

        redis_server_start(&server, (const char *[]){"--rename-command", "XADD", "", NULL});
        expect_at(&server, true, "ERR unknown command");
        redis_server_destroy(&server);
}

static bool knows_another(void *context)
{
        redisReply *reply = redis_server_run(context, "CLUSTER INFO");
        bool is_so = strstr(reply->str, "cluster_state:ok") != NULL &&
                     strstr(reply->str, "cluster_known_nodes:2") != NULL;

        freeReplyObject(reply);
        return is_so;
}

/* Two nodes of a cluster; the slot of "events" is 9295. */
Test(redis_outcomes, is_paused_by_a_cluster_that_sends_it_elsewhere)
{
        /* By itself it would take a port of the ephemeral range for its bus. */
        uint16_t owner_bus = free_port();
        char *buses[] = {xasprintf("%u", free_port()), xasprintf("%u", owner_bus)};
        const char *const stranger_options[] = {
            "--cluster-enabled", "yes", "--cluster-port", buses[0], NULL};
        const char *const owner_options[] = {
            "--cluster-enabled", "yes", "--cluster-port", buses[1], NULL};
        struct redis_server stranger;
        struct redis_server owner;
        redisReply *id;

        redis_server_start(&stranger, stranger_options);
        redis_server_start(&owner, owner_options);
        expect_at(&owner, false, "CLUSTERDOWN");

        redis_server_do(&owner, "CLUSTER ADDSLOTSRANGE 0 16383");
        redis_server_do(&stranger, "CLUSTER MEET 127.0.0.1 %d %d", owner.port, owner_bus);
        wait_until(knows_another, &stranger, 25000, "the stranger to know the owner");
        wait_until(knows_another, &owner, 25000, "the owner to know the stranger");
        expect_at(&stranger, true, "MOVED");

        id = redis_server_run(&stranger, "CLUSTER MYID");
        redis_server_do(&owner, "CLUSTER SETSLOT %lld MIGRATING %s",
            redis_server_count(&owner, "CLUSTER KEYSLOT events"), id->str);
        freeReplyObject(id);
        expect_at(&owner, true, "ASK");
        redis_server_destroy(&stranger);
        redis_server_destroy(&owner);
        free(buses[0]);
        free(buses[1]);
}

static const struct {
        const char *error;
        enum outcome_kind kind;
        bool needs_operator;
} scripted_rows[] = {
    {"TRYAGAIN Multiple keys request during rehashing of slot", OUTCOME_SINK_DOWN, false},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        OUTCOME_SINK_DOWN, false},
    {"ERR syntax error", OUTCOME_SINK_DOWN, true},
    {"DENIED Redis is running in protected mode", OUTCOME_SINK_DOWN, true},
    {"ERR The ID specified in XADD is equal or smaller than the target stream top item",
        OUTCOME_SINK_DOWN, true},
    {"ERR The stream has exhausted the last possible ID, unable to add more items",
        OUTCOME_SINK_DOWN, true},
    {"ERR Elements are too large to be stored", OUTCOME_REJECTED, false},
    {"EXECABORT Transaction discarded because of: OOM command not allowed", OUTCOME_SINK_DOWN,
        false},
    {"NOSCRIPT No matching script. Please use EVAL.", OUTCOME_RETRY, false},
    {"ERR something new", OUTCOME_RETRY, false},
};

Test(redis_outcomes, judges_errors_that_a_scripted_server_sends)
{
        for (size_t i = 0; i < sizeof scripted_rows / sizeof *scripted_rows; i++) {
                struct resp_server scripted;
                struct redis_server server = {0};
                struct outcome outcome;

                resp_server_start(&scripted, scripted_rows[i].error);
                server.port = scripted.port;
                outcome = outcome_at(&server);
                resp_server_stop(&scripted);

                cr_expect(outcome.kind == scripted_rows[i].kind, "%s", outcome.reason);
                cr_expect(outcome.needs_operator == scripted_rows[i].needs_operator, "%s",
                    outcome.reason);
        }
}

/* Which of several was meant, a refused transaction does not tell. */
Test(redis_outcomes, sends_each_event_alone_after_they_were_refused_together)
{
        struct resp_server scripted;
        struct redis_server server = {0};
        struct rig rig;

        resp_server_start(&scripted, "ERR something new");
        server.port = scripted.port;
        rig_init(&rig, &server, 6);
        for (unsigned i = 0; i < 6; i++)
                rig.events[i].key = "k";
        rig_open(&rig);
        rig_deliver_all(&rig, 3);
        rig_deliver_all(&rig, 1);
        rig_deliver_all(&rig, 2);

        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 4);
        expect_outcome(&rig, 3, OUTCOME_RETRY, "ERR something new");
        expect_outcome(&rig, 4, OUTCOME_RETRY, "ERR something new");
        expect_outcome(&rig, 5, OUTCOME_CANCELLED, "");
        rig_destroy(&rig);
        resp_server_stop(&scripted);
}

Test(redis_outcomes, rejects_only_the_event_that_is_too_large_for_this_redis)
{
        enum { LIMIT = 1024 * 1024, SIZE = 40 * 1024 * 1024 };
        struct redis_server server;
        struct rig rig;
        char *payload = xcalloc(1, SIZE);

        memset(payload, 'x', SIZE);
        redis_server_start(&server, (const char *[]){"--proto-max-bulk-len", "1mb", NULL});
        rig_init(&rig, &server, 20);
        for (unsigned i = 0; i < 20; i++)
                rig.events[i].key = "k";
        rig.events[1].payload = payload;
        rig.events[1].payload_bytes = LIMIT + 1;
        rig.events[3].payload = payload;
        rig.events[3].payload_bytes = SIZE;
        rig.events[4].payload = payload;
        rig.events[4].payload_bytes = LIMIT;
        rig_open(&rig);
        for (unsigned i = 0; i < 5; i++)
                rig_deliver_all(&rig, 1);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_REJECTED, "proto-max-bulk-len");
        expect_outcome(&rig, 2, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 3, OUTCOME_REJECTED, "proto-max-bulk-len");
        expect_outcome(&rig, 4, OUTCOME_DELIVERED, "");

        /* In company: those that wait come again, and nothing is taken for an outage. */
        for (unsigned i = 5; i < 15; i++)
                rig.events[i] = rig.events[i % 2];
        rig_deliver_all(&rig, 10);
        cr_expect(rig_count(&rig, OUTCOME_SINK_DOWN) == 0);
        expect_outcome(&rig, 5, OUTCOME_REJECTED, "proto-max-bulk-len");
        expect_outcome(&rig, 6, OUTCOME_CANCELLED, "");
        rig_destroy(&rig);
        free(payload);
        redis_server_destroy(&server);
}

/* Redis hangs up without a word; it may be the event's fault or not. */
Test(redis_outcomes, suspects_a_large_event_when_redis_hangs_up)
{
        enum { SIZE = 3 * 1024 * 1024 };
        struct redis_server server;
        struct rig rig;
        char *payload = xcalloc(1, SIZE);

        memset(payload, 'x', SIZE);
        redis_server_start(&server, (const char *[]){"--client-query-buffer-limit", "1mb", NULL});
        rig_init(&rig, &server, 3);
        rig.events[1].payload = payload;
        rig.events[1].payload_bytes = SIZE;
        rig_open(&rig);
        rig_deliver_all(&rig, 3);

        expect_outcome(&rig, 0, OUTCOME_DELIVERED, "");
        expect_outcome(&rig, 1, OUTCOME_RETRY, "unknown whether it arrived");
        cr_expect(rig.driver.attempts[1].outcome.is_unanswered);
        expect_outcome(&rig, 2, OUTCOME_SINK_DOWN, "");
        rig_destroy(&rig);
        free(payload);
        redis_server_destroy(&server);
}

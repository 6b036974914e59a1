/* `pgcourier doctor`: each ill is found, named and remedied. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/certificate.h"
#include "support/http_receiver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct failures_rig rig;
static char *owner_dsn;
static char *path;

static void write_config(const char *rest)
{
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "sinks: [{name: mail, topics: ['**'], stdout: {}}]\n%s",
            rig.dsn, rest);

        free(path);
        path = program_file("config.yaml", text, strlen(text));
        free(text);
}

static void start(void)
{
        failures_rig_start(&rig);
        owner_dsn = dsn_as_user(rig.dsn, "postgres");
        write_config("");
}

static void stop(void)
{
        free(path);
        free(owner_dsn);
        failures_rig_stop(&rig);
}

TestSuite(doctor, .init = start, .fini = stop);

#define DOCTOR() program_run(NULL, "doctor", "-c", path, NULL)

/* A cursor of that sink as a relay would make it here; the session that owns its lane. */
static PGconn *own_lane(const char *sink)
{
        PGconn *relay = database_connect(rig.dsn);
        char *sql = xasprintf(
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor, "
            "from_xid)"
            " SELECT '%s', system_identifier, pg_current_snapshot(), 0, pg_current_xact_id()"
            " FROM pg_control_system();"
            "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor WHERE sink = '%s'",
            sink, sink);

        database_exec(relay, sql);
        free(sql);
        return relay;
}

/* A backend notices the end of its session a moment after the client has gone. */
static bool is_left_alone(void *context)
{
        (void)context;
        return database_integer(rig.owner, "SELECT count(*) FROM pg_locks JOIN courier.cursor"
                                           " ON objid = lock_id::oid AND locktype = 'advisory'"
                                           " WHERE sink = 'old'") == 0;
}

Test(doctor, reports_no_problem_where_there_is_none)
{
        static const char *const findings[] = {"ok    schema: version ",
            "ok    cluster: ", "ok    clock: the server's and ours differ by ",
            "ok    connections: ", "ok    excess rights: relay has no rights beyond its task\n",
            "ok    notifications: 0.0 % of the notification queue are full\n",
            "  snapshots: ", "ok    other sinks: nothing is stuck\n",
            "ok    paused receivers: none\n", "ok    taps: none\n",
            "ok    partitions: 2, 5000000 ids ahead, the oldest not begun\n",
            "ok    tables: outbox: ", "ok    status: the query for `status` and the page took ",
            "ok    sinks: 1, nothing needs attention\n",
            "ok    files: no secret is in a file that every user may read\n",
            "ok    sink mail: stdout: can be reached\n"};
        PGconn *relay = own_lane("mail");
        struct program_run run = DOCTOR();

        cr_expect_eq(run.code, 0, "%s%s", run.out, run.err);
        cr_expect_str_empty(run.err);
        for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
                cr_expect_not_null(
                    strstr(run.out, findings[i]), "%s not in:\n%s", findings[i], run.out);
        program_run_free(&run);
        PQfinish(relay);
}

Test(doctor, finds_sinks_without_a_relay_and_cursors_without_a_sink)
{
        PGconn *relay;

        expect_texts(DOCTOR(), 0,
            "warn  unowned: No relay delivers mail. Nothing waits.\n"
            "      Start a relay whose configuration names this sink. `pgcourier run -c /");
        relay = own_lane("mail");
        PQfinish(own_lane("old"));
        database_exec(rig.owner, "INSERT INTO courier.outbox (topic, payload) SELECT 't', '1' FROM "
                                 "generate_series(1, 9)");
        wait_until(is_left_alone, NULL, 10000, "the session that owned the lane has ended");
        expect_texts(DOCTOR(), 0,
            "warn  orphan: The cursor of old holds the log. No configuration of a running relay "
            "has that sink, so the outbox keeps all events for it: its cursor is 9 ids behind. ",
            "      Configure the sink again, or drop its cursor. `pgcourier cursor drop old -c /");
        PQfinish(relay);
}

Test(doctor, finds_failed_deliveries_and_sinks_that_stand_still)
{
        PGconn *relay = own_lane("mail");

        insert_dead_letter(&rig, NULL);
        insert_parked(&rig, "first_failed_at = now()");
        insert_parked(&rig, "state = 'blocked'");
        insert_receiver(&rig, 7, "hooks", "acme");
        database_exec(rig.owner,
            "INSERT INTO courier.pause (sink, by, reason) VALUES ('mail', 'operator', 'deploy'),"
            " ('mail', 'relay', 'its filter takes too long: x');"
            "UPDATE courier.receiver SET state = 'disabled', state_reason = '410 Gone'");
        expect_texts(DOCTOR(), 0,
            "warn  dead: 1 dead letter of mail. Given up: refused for good, or failed too often.\n"
            "      Remove the cause, then redrive them; or drop what is not needed. "
            "`pgcourier dead list --sink mail -c /",
            "warn  retrying: 1 delivery of mail failed. ", "`pgcourier trace 1 -c /",
            "warn  paused: mail is paused. By an operator: deploy. The relay paused it, too: its "
            "filter takes too long: x. ",
            "      Resume it when it may go on. `pgcourier resume mail -c /",
            "warn  other sinks: sink hooks, which is in no configuration here, has 1 receiver that "
            "fails or is disabled\n",
            "warn  unserved: 1 receiver of hooks gets nothing. ");
        PQfinish(relay);
}

/* Parked while they are under way, they have not failed yet. */
Test(doctor, calls_no_slow_delivery_failed)
{
        struct program_run run;

        insert_parked(&rig, "key = 'a'");
        insert_parked(&rig, "key = 'a', state = 'blocked'");
        run = DOCTOR();
        cr_expect_null(strstr(run.out, "warn  retrying: "), "%s", run.out);
        expect_texts(run, 0, "ok    other sinks: ");
}

/* Of a relay that answers this about its source. */
static struct program_run examine_relay(const char *source)
{
        struct http_receiver *receiver = http_receiver_start(NULL, NULL);
        char *status = xasprintf("{\"instance\": \"host/7\", \"source\": {%s}}", source);
        char *admin = xasprintf("admin: {listen: '127.0.0.1:%u'}\n", http_receiver_port(receiver));
        struct program_run run;

        http_receiver_answer(receiver, &(struct http_answer){.status = 200, .body = status});
        write_config(admin);
        run = DOCTOR();
        http_receiver_destroy(receiver);
        free(admin);
        free(status);
        return run;
}

Test(doctor, says_what_helps_a_relay_that_is_not_connected)
{
        expect_texts(examine_relay("\"up\": false, \"error\": \"cannot connect: refused\""), 1,
            "fail  relay: the relay host/7 is not connected to PostgreSQL, but this command is: "
            "cannot connect: refused\n      Compare what it reads ",
            ", and reload it: `pgcourier reload -c /");
        expect_texts(
            examine_relay("\"up\": false, \"error\": \"was altered\","
                          "\"sequence\": {\"trouble\": \"was altered\", \"remedy\": \"ALTER it\"}"),
            1,
            "fail  relay: the relay host/7 is not connected to PostgreSQL: was altered\n"
            "      ALTER it\n");
}

Test(doctor, finds_other_settings_of_the_relay_that_delivers)
{
        PGconn *relay = own_lane("mail");

        database_exec(rig.owner,
            "INSERT INTO courier.sink (name, fans_out, settings) VALUES ('mail',"
            " false, '{\"destination\": \"standard output\", \"topics\": \"**\","
            " \"order\": \"key\"}')");
        expect_texts(
            DOCTOR(), 0, "ok    settings: the relays that deliver have the same settings\n");
        database_exec(rig.owner,
            "UPDATE courier.sink SET settings = settings || '{\"topics\": \"orders.*\"}'");
        expect_texts(DOCTOR(), 0,
            "warn  settings: the relay that delivers mail has other settings for it: topics: "
            "orders.* there, ** here\n      If the settings here are newer, ");
        expect_texts(
            program_run(NULL, "check", "-c", path, "--connect", NULL), 0, "warn  settings: ");
        PQfinish(relay);
}

Test(doctor, finds_sinks_that_hold_partitions)
{
        PGconn *relay = own_lane("mail");

        database_exec(rig.owner,
            "UPDATE courier.outbox_partition SET held_by = '{old,mail}',"
            " held_since = now() - interval '1 hour' WHERE lower = 1;"
            "INSERT INTO courier.outbox_loss VALUES ('mail', 0, 'p', 1, 9, 5), ('mail', 0, 'q', 9, "
            "10, 1);"
            "INSERT INTO courier.outbox (id, topic, payload) OVERRIDING SYSTEM VALUE"
            " VALUES (1000000000000, 't', '1');"
            "SELECT setval('courier.outbox_id_seq', 1000000000000)");
        expect_texts(DOCTOR(), 1,
            "warn  held: The outbox keeps expired events. 1 partition (0.0 MB), needed by old, "
            "mail.\n",
            "fail  lost: 6 events lost. ", " was so far behind. `psql ",
            " -c 'SELECT * FROM courier.outbox_loss ORDER BY lost_at'`\n",
            "warn  default: Events are in the outbox's default partition. ",
            "`pgcourier maintain -c /",
            "warn  partitions: none is ahead: no relay maintains the outbox\n");
        database_exec(rig.owner, "UPDATE courier.outbox_partition SET held_by = '{mail}' WHERE "
                                 "lower = 1;"
                                 "DELETE FROM courier.outbox_loss");
        expect_texts(DOCTOR(), 0,
            "needed by mail.\n      The relay drops it when they have read it: find out what stops "
            "them.\n");
        database_exec(
            rig.owner, "INSERT INTO courier.pause (sink, by) VALUES ('mail', 'operator')");
        expect_texts(DOCTOR(), 0,
            "needed by mail.\n      Resume mail when it may go on. `pgcourier resume mail -c /");
        database_exec(rig.owner, "UPDATE courier.outbox_partition SET held_by = '{hooks/7}' WHERE "
                                 "lower = 1");
        expect_texts(DOCTOR(), 0, "`pgcourier receiver list --sink hooks -c /");
        database_exec(rig.owner,
            "UPDATE courier.outbox_partition SET held_by = '{a transaction that has not ended}'"
            " WHERE lower = 1");
        expect_texts(DOCTOR(), 0,
            "needed by a transaction that has not ended.\n      Have its owner commit or roll "
            "back, or end it. `psql ");
        PQfinish(relay);
}

/* Whatever other tests of this cluster were in the middle of when we began. */
static bool is_oldest(void *since)
{
        char *sql = xasprintf("SELECT count(*) FROM pg_stat_activity"
                              " WHERE datname <> current_database() AND xact_start < '%s'",
            (const char *)since);
        int64_t n = database_integer(rig.owner, sql);

        free(sql);
        return n == 0;
}

static void await_oldest(void)
{
        char *since = database_value(rig.owner, "SELECT clock_timestamp()");

        wait_until(is_oldest, since, 10000, "the transactions of other tests have ended");
        free(since);
}

Test(doctor, names_the_holder_of_the_oldest_snapshot)
{
        PGconn *holder = database_connect(owner_dsn);
        PGconn *younger = database_connect(owner_dsn);
        char *words = NULL;

        database_exec(holder, "SET application_name = 'forgetful';"
                              "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        database_exec(rig.owner, "SELECT pg_current_xact_id()");
        database_exec(younger, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        words = xasprintf("snapshots: the oldest is held by pid %d (forgetful, user postgres, ",
            PQbackendPID(holder));
        await_oldest();
        expect_texts(DOCTOR(), 0, words);
        PQfinish(younger);
        database_exec(holder, "COMMIT; BEGIN; SELECT pg_current_xact_id();"
                              "PREPARE TRANSACTION 'left over'");
        await_oldest();
        expect_texts(DOCTOR(), 0,
            "snapshots: the oldest is held by the prepared transaction 'left over' of ");
        database_exec(holder, "ROLLBACK PREPARED 'left over'");
        free(words);
        PQfinish(holder);
}

Test(doctor, finds_rights_that_are_not_needed)
{
        struct program_run run = program_run(NULL, "doctor", "--dsn", owner_dsn, NULL);

        cr_expect_not_null(strstr(run.out, "excess rights: postgres owns tables of schema courier"),
            "%s", run.out);
        expect_texts(
            run, 0, "warn  excess rights: postgres is a superuser, which the relay does not");
        database_exec(rig.owner, "ALTER ROLE relay CREATEROLE");
        expect_texts(DOCTOR(), 0, "warn  excess rights: relay may create roles");
        database_exec(rig.owner, "ALTER ROLE relay NOCREATEROLE");
}

/* As the relay looks: in time, or not. */
Test(doctor, warns_when_the_query_of_status_fails)
{
        database_exec(rig.owner, "REVOKE SELECT ON courier.sink FROM courier_relay");
        expect_texts(DOCTOR(), 1, "warn  status: the query for `status` and the page failed: ",
            "permission denied for table sink", "      Deliveries do not depend on it. ");
}

Test(doctor, finds_settings_that_hurt)
{
        database_exec(rig.owner, "ALTER ROLE relay SET statement_timeout = '5s';"
                                 "ALTER ROLE relay SET synchronous_commit = off;"
                                 "ALTER ROLE relay SET idle_session_timeout = '1h'");
        expect_texts(DOCTOR(), 0, "warn  timeouts: statement_timeout is 5000 ms here",
            "      ALTER ROLE relay SET idle_session_timeout = 0\n",
            "warn  durability: synchronous_commit is off",
            "warn  durability: fsync is off: after a power cut the whole cluster may be lost, not "
            "just "
            "events\n      As a superuser: psql -c \"ALTER SYSTEM SET fsync = on\" -c \"SELECT "
            "pg_reload_conf()\"\n");
        database_exec(rig.owner, "ALTER ROLE relay RESET ALL");
}

Test(doctor, finds_taps_that_are_not_as_they_were_made)
{
        static const struct {
                const char *sql;
                int code;
                const char *says;
        } cases[] = {
            {"ALTER TABLE t DISABLE TRIGGER USER", 1,
                "fail  taps: t: disabled: on public.t this trigger does not fire: "
                "courier_t_insert\n"
                "      ALTER TABLE public.t ENABLE TRIGGER "},
            {"DROP TRIGGER courier_t_insert ON t", 1,
                "fail  taps: t: trigger_missing: public.t has no trigger courier_t_insert\n"
                "      SELECT courier.recompile('t')\n"},
            {"CREATE TABLE parent (LIKE t) PARTITION BY LIST (kind);"
             "ALTER TABLE parent ATTACH PARTITION t DEFAULT",
                1,
                "fail  taps: t: now_a_partition: public.t has become a partition, and its trigger "
                "is silent when its parent is written\n      SELECT courier.recompile('t')\n"},
            {"CREATE OR REPLACE FUNCTION courier_tap.t_insert() RETURNS trigger LANGUAGE plpgsql"
             " SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN RETURN NULL; END'",
                0,
                "warn  taps: t: edited: the functions or triggers of t are not as they were made\n"
                "      SELECT courier.recompile('t')\n"},
            {"ALTER TABLE t DROP body", 1,
                "fail  taps: t: does_not_compile: writes to public.t fail: column \"body\" does "
                "not "
                "exist\n      In one transaction: SELECT courier.detach('t'), and attach"},
            {"DROP TABLE t", 0,
                "warn  taps: t: table_gone: the table public.t was dropped\n"
                "      SELECT courier.detach('t')\n"},
        };

        database_exec(rig.owner,
            "CREATE TABLE other (kind text, body text);"
            "SELECT courier.attach('other', topic => 'kind', payload => 'body')");
        expect_texts(DOCTOR(), 0, "ok    taps: 1, as they were made\n");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                database_exec(rig.owner,
                    "CREATE TABLE t (kind text, body text);"
                    "SELECT courier.attach('t', topic => 'kind', payload => 'body')");
                database_exec(rig.owner, cases[i].sql);
                expect_texts(DOCTOR(), cases[i].code, cases[i].says);
                database_exec(
                    rig.owner, "SELECT courier.detach('t'); DROP TABLE IF EXISTS t, parent");
        }
}

Test(doctor, finds_files_that_every_user_may_read)
{
        char *secret = program_file("password", "hunter2\n", 8);
        char *words = xasprintf("%s holds a secret, and every user may read it\n", secret);
        char *text = xasprintf("postgres: {dsn: \"%s\", password_file: %s}\n"
                               "sinks: [{name: mail, topics: ['**'], stdout: {}}]\n",
            rig.dsn, secret);

        free(path);
        path = program_file("config.yaml", text, strlen(text));
        chmod(path, 0644);
        chmod(secret, 0604);
        expect_texts(DOCTOR(), 0, words);
        chmod(secret, 0640);
        expect_texts(DOCTOR(), 0, "ok    files: ");
        write_config("# password: hunter2\n");
        chmod(path, 0644);
        expect_texts(DOCTOR(), 0,
            "config.yaml holds a secret, and every user may read it\n      chmod o= '");
        chmod(path, 0642);
        expect_texts(DOCTOR(), 0, "warn  files: every user may change ");
        free(text);
        free(words);
        free(secret);
}

static struct program_run examine_https(struct certificate *certificate, const char *trust)
{
        struct http_receiver *receiver =
            http_receiver_start(certificate->path, certificate->key_path);
        struct program_run run;
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "sinks: [{name: hook, topics: ['**'], http: {url: "
                               "'https://localhost:%u/', signing: none%s}}]\n",
            rig.dsn, http_receiver_port(receiver), trust);

        free(path);
        path = program_file("config.yaml", text, strlen(text));
        run = DOCTOR();
        http_receiver_destroy(receiver);
        free(text);
        return run;
}

static bool listens(void *port)
{
        return port_accepts(*(const uint16_t *)port);
}

/* The examination ends although the server's first line does not. */
Test(doctor, does_not_wait_for_a_line_without_an_end)
{
        static const char endless[] =
            "import socket, sys\n"
            "server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
            "while True:\n"
            "    client, _ = server.accept()\n"
            "    try:\n"
            "        while True: client.sendall(b'INFO' * 4096)\n"
            "    except OSError: pass\n";
        const uint16_t number = free_port();
        char *port = xasprintf("%u", number);
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "sinks: [{name: bus, topics: ['**'], nats: {servers: "
                               "['tls://127.0.0.1:%s']}}]\n",
            rig.dsn, port);
        struct process process;

        process_start(&process,
            (const char *const[]){"/usr/bin/python3", "-c", endless, port, NULL}, NULL, true);
        wait_until(listens, (void *)(uintptr_t)&number, 10000, "the server does not listen");
        free(path);
        path = program_file("config.yaml", text, strlen(text));
        expect_texts(DOCTOR(), 1, "fail  sink bus: nats: ");
        process_kill(&process);
        free(text);
        free(port);
}

Test(doctor, says_when_certificates_end_and_whether_they_pass)
{
        struct certificate good, other;
        char *trust;

        certificate_make(&good, "DNS:localhost"); /* for two days */
        certificate_make(&other, "DNS:elsewhere");
        trust = xasprintf(
            ", ca_file: %s, cert_file: %s, key_file: %s", good.path, good.path, good.key_path);
        expect_texts(examine_https(&good, trust), 0,
            "warn  certificates: that of sink hook (localhost:", "\n      Renew it in time\n",
            "warn  certificates: that of ours for sink hook (");
        expect_texts(examine_https(&good, ""), 1,
            "fail  certificates: that of sink hook (localhost:",
            ") does not pass: self-signed certificate\n");
        free(trust);
        trust = xasprintf(", ca_file: %s", other.path);
        expect_texts(examine_https(&other, trust), 1, ") does not pass: hostname mismatch\n");
        free(trust);
        free(good.folder);
        free(other.folder);
}

Test(doctor, fails_with_one_code_and_speaks_json)
{
        struct program_run run = program_run(NULL, "doctor", "--dsn", "host=/nonexistent", NULL);

        cr_expect_str_eq(run.err, "pgcourier: 1 of 1 checks failed\n");
        expect_texts(run, 1, "fail  postgres: cannot connect to PostgreSQL: ");
        database_exec(rig.owner, "REVOKE SELECT ON courier.pause FROM courier_relay");
        expect_texts(DOCTOR(), 1, "fail  rights: the role lacks SELECT on courier.pause\n");
        database_exec(rig.owner, "REVOKE UPDATE ON courier.member FROM courier_relay");
        expect_texts(DOCTOR(), 1, "fail  rights: the role lacks all on courier.member\n");
        expect_texts(program_run(NULL, "doctor", "-c", path, "--json", NULL), 1,
            "{\"ok\":false,\"exit_code\":7,\"checks\":[");
        expect_refusal(program_run(NULL, "doctor", "-c", path, "--dsn", "x", NULL), 2, "give one");
}

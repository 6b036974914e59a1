/*
 * A relay's machine vanishes without a word: what is sent to it or by it is lost, so no FIN and no
 * RST ever come, nor does an error of the network.
 * Promised is that its locks are free within 10 s, idle or busy, and that a standby has the lane
 * within `relay.standby` (1 s) after that. The tests wait for longer, as machines that run tests
 * are slow, and print what it took. Without the settings of pg/pg_conn.h it takes two hours idle,
 * and a quarter of one busy.
 *
 * The machine is a network namespace of its own, in a network of the test's own, which needs root
 * and a kernel that lets us. Elsewhere the test says so, and looks at the timers of the server's
 * sockets, which are what ends the sessions.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "support/pgbouncer.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HERE   "10.77.0.1" /* the server */
#define THERE  "10.77.0.2" /* the machine that vanishes */
#define NOBODY "02:00:00:00:00:01"

enum { PROMISE_MS = 10000, ROOM_MS = 10000, DEADLINE_MS = 30000 };

static int here = -1, there = -1; /* network namespaces; -1: we may not make any */
static struct postgres *postgres;
static struct relay_fixture fixture;
static struct relay_process *owner, *standby;

static void ip(const char *arguments)
{
        char *command = xasprintf("ip %s", arguments);

        cr_assert_eq(process_run((const char *const[]){"sh", "-c", command, NULL}, NULL, false), 0,
            "%s", command);
        free(command);
}

static int own_network(void)
{
        int namespace = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

        cr_assert_neq(namespace, -1);
        return namespace;
}

static void enter(int namespace)
{
        cr_assert_eq(setns(namespace, CLONE_NEWNET), 0);
}

/* Both end with the test. False: we may not. */
static bool make_networks(void)
{
        char *link;

        if (unshare(CLONE_NEWNET) != 0) {
                perror("no network can be cut here, only the timers of the sockets are looked at");
                return false;
        }
        here = own_network();
        cr_assert_eq(unshare(CLONE_NEWNET), 0);
        there = own_network();
        enter(here);
        ip("link set lo up");
        link = xasprintf("link add outside type veth peer name cable netns /proc/%d/fd/%d",
            (int)getpid(), there);
        ip(link);
        ip("address add " HERE "/24 dev outside");
        ip("link set outside up");
        enter(there);
        ip("address add " THERE "/24 dev cable");
        ip("link set cable up");
        enter(here);
        free(link);
        return true;
}

static void listen_to_the_machine(void)
{
        char *path = xasprintf("%s/data/pg_hba.conf", postgres->folder);
        char *rules = read_file(path);
        char *more = xasprintf("%s\nhost all all " THERE "/32 trust\n", rules);

        postgres_stop(postgres);
        replace_file(path, more);
        postgres->address = HERE;
        postgres_start_again(postgres);
        free(more);
        free(rules);
        free(path);
}

static struct relay_process *start_relay(const char *host, unsigned port)
{
        return relay_start("postgres: {dsn: \"%s host=%s port=%u sslmode=disable\",\n"
                           "  query_timeout: 10m}\n"
                           "sinks:\n"
                           "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                           "     max_in_flight: 50,\n"
                           "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, host, port, fixture.redis.socket_path);
}

static struct relay_process *start_on_machine(unsigned port)
{
        struct relay_process *relay;

        if (here == -1)
                return start_relay("127.0.0.1", port);
        enter(there);
        relay = start_relay(HERE, port);
        enter(here);
        return relay;
}

static void prepare(void)
{
        bool has_networks = make_networks();

        postgres = postgres_start();
        if (has_networks)
                listen_to_the_machine();
        relay_fixture_begin(&fixture, postgres);
        owner = start_on_machine(postgres->port);
        relay_wait_for_log(owner, "event=lane_owned ", DEADLINE_MS);
        standby = start_relay(postgres->folder, postgres->port);
        relay_wait_for_log(standby, "event=lane_owned_elsewhere", DEADLINE_MS);
}

static void clean_up(void)
{
        relay_destroy(standby);
        relay_destroy(owner);
        relay_fixture_end(&fixture);
        postgres_stop(postgres);
}

TestSuite(vanished, .init = prepare, .fini = clean_up, .timeout = 120);

#define OF_OWNER " FROM pg_stat_activity WHERE usename = 'relay' AND client_addr IS NOT NULL"

/* The server's side of a connection: its timer is one that probes (2), and is due within a second
 * (in hundredths; a little more, as the kernel rounds up). */
static bool is_probed(unsigned client_port)
{
        char *sockets = read_file("/proc/net/tcp");
        bool is_probed = false;

        for (char *line = strtok(sockets, "\n"); line != NULL; line = strtok(NULL, "\n")) {
                unsigned from, to, state, timer, due;
                if (sscanf(line, "%*d: %*x:%x %*x:%x %x %*x:%*x %x:%x", &from, &to, &state, &timer,
                        &due) == 5 &&
                    from == postgres->port && to == client_port)
                        is_probed |= state == 1 && timer == 2 && due <= 110;
        }
        free(sockets);
        return is_probed;
}

static bool all_are_probed(void *context)
{
        PGresult *ports = PQexec(fixture.admin, "SELECT client_port" OF_OWNER);
        int n = PQntuples(ports);
        bool are_probed = n >= 2;

        (void)context;
        for (int i = 0; i < n; i++)
                are_probed &= is_probed((unsigned)atoi(PQgetvalue(ports, i, 0)));
        PQclear(ports);
        return are_probed;
}

/* `work`, and `doorbell`. */
static void expect_probes(void)
{
        wait_until(
            all_are_probed, NULL, DEADLINE_MS, "the server probes all of the relay's sessions");
}

/* All frames go to an address that nobody has. Returns when that began. */
static int64_t vanish(void)
{
        enter(there);
        ip("neighbour replace " HERE " lladdr " NOBODY " dev cable nud permanent");
        enter(here);
        ip("neighbour replace " THERE " lladdr " NOBODY " dev outside nud permanent");
        return clock_monotonic_us();
}

static bool has_no_session_of_owner(void *context)
{
        (void)context;
        return database_integer(fixture.admin, "SELECT count(*)" OF_OWNER) == 0;
}

static void say(const char *kind, const char *what, int64_t began_us)
{
        fprintf(stderr, "%s: %s after %.1f s\n", kind, what,
            (double)(clock_monotonic_us() - began_us) / 1e6);
}

static void await_end_of_sessions(const char *kind, int64_t began_us)
{
        wait_until(has_no_session_of_owner, NULL, PROMISE_MS + ROOM_MS,
            "the server gives up all sessions of the machine");
        say(kind, "no session of the owner's is left", began_us);
}

/* The machine is cut off, and not dead: the relay on it finds out by itself. */
static void await_loss(const char *kind, int64_t began_us)
{
        relay_wait_for_log(owner, "event=outbox_connection_lost", DEADLINE_MS);
        say(kind, "the owner gives its session up", began_us);
}

static void await_takeover(const char *kind, int64_t began_us)
{
        relay_wait_for_log(standby, "event=lane_owned ", PROMISE_MS + ROOM_MS);
        say(kind, "the standby owns the lane", began_us);
        await_end_of_sessions(kind, began_us);
}

Test(vanished, is_noticed_by_the_servers_probes)
{
        expect_probes();
}

Test(vanished, frees_the_lane_of_an_idle_relay)
{
        int64_t began_us;

        await_in_database(fixture.admin,
            "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 0"
            " AND mode = 'ExclusiveLock' AND granted",
            "the doorbell is asleep");
        if (here == -1) {
                expect_probes();
                return;
        }
        began_us = vanish();
        await_takeover("idle", began_us);
        await_loss("idle", began_us);
        publish(fixture.admin, "t", "k", "1");
        relay_fixture_await(&fixture, "events", 1);
}

Test(vanished, frees_the_lane_of_a_busy_relay_and_loses_nothing)
{
        struct filter_result verdict;
        int64_t began_us;

        if (here == -1) {
                expect_probes();
                return;
        }
        relay_fixture_write(&fixture, 14);
        relay_fixture_await_more(&fixture, 200);
        began_us = vanish();
        await_loss("busy", began_us);
        await_takeover("busy", began_us);
        relay_fixture_await_more(&fixture, 200);
        verdict = relay_fixture_check(&fixture, standby);
        cr_expect_leq(verdict.n_repeated, 50, "%zu events came twice", verdict.n_repeated);
}

/* The server's process reads nothing from the connection while it waits for a row. */
Test(vanished, frees_the_lane_of_a_relay_whose_statement_waits)
{
        PGconn *locker;

        if (here == -1) {
                expect_probes();
                return;
        }
        locker = database_connect(fixture.dsn);
        database_exec(locker, "BEGIN; SELECT FROM courier.cursor FOR UPDATE");
        publish(fixture.admin, "t", "k", "1");
        await_in_database(fixture.admin,
            "SELECT count(*) > 0" OF_OWNER " AND wait_event_type = 'Lock'"
            " AND query LIKE '%courier.cursor%'",
            "a settle waits");
        await_end_of_sessions("waiting", vanish());
        database_exec(locker, "COMMIT");
        relay_wait_for_log(standby, "event=lane_owned ", DEADLINE_MS);
        PQfinish(locker);
}

/* PgBouncer is the one that has to notice; these are the settings that docs/operations.md names. */
Test(vanished, frees_the_lane_of_a_relay_behind_pgbouncer)
{
        struct pgbouncer pgbouncer;

        if (here == -1) {
                expect_probes();
                return;
        }
        pgbouncer_start(&pgbouncer, postgres, "127.0.0.1," HERE,
            "pool_mode = session\n"
            "tcp_keepidle = 1\ntcp_keepintvl = 1\ntcp_keepcnt = 4\ntcp_user_timeout = 4500\n");
        relay_destroy(owner);
        relay_wait_for_log(standby, "event=lane_owned ", DEADLINE_MS);
        owner = start_on_machine(pgbouncer.port);
        relay_wait_for_log(owner, "event=lane_owned_elsewhere", DEADLINE_MS);
        relay_stop(standby);
        relay_wait_for_log(owner, "event=lane_owned ", DEADLINE_MS);
        relay_start_again(standby);
        relay_wait_for_log(standby, "event=lane_owned_elsewhere", DEADLINE_MS);
        await_takeover("behind PgBouncer", vanish());
        process_stop(&pgbouncer.process);
}

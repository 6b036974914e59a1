/* The whole program and a real NATS server: what another client finds in the stream, whatever has
 * been killed and cut meanwhile. */
#include "base/alloc.h"
#include "broker_stage.h"
#include "chaos/fault_proxy.h"
#include "support/nats_server.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 60000 };

struct rig {
        struct relay_fixture fixture;
        struct nats_server server;
};

static void begin(struct rig *rig, const char *config)
{
        relay_fixture_begin(&rig->fixture, postgres_shared());
        nats_server_start(&rig->server, config);
        nats_server_make_stream(&rig->server, "S", "events.>", NULL);
}

static void end(struct rig *rig)
{
        nats_server_destroy(&rig->server);
        relay_fixture_end(&rig->fixture);
}

#define SINK                                                                                       \
        "postgres: {dsn: \"%s\"}\n"                                                                \
        "relay: {standby: 50ms}\n"                                                                 \
        "sinks:\n"                                                                                 \
        "  - name: bus\n"                                                                          \
        "    topics: [\"**\"]\n"                                                                   \
        "    start: beginning\n"                                                                   \
        "    nats: {servers: [\"127.0.0.1:%u\"]%s}\n"

static struct relay_process *start(const struct rig *rig, unsigned port, const char *options)
{
        return relay_start(SINK, rig->fixture.relay, port, options);
}

/* With a reader that knows nothing of us. */
static void read_stream(void *server_, struct history *history)
{
        const struct nats_server *server = server_;
        char *path = xasprintf("%s/read", server->folder);
        char port[8];
        char *text;
        char *rest;

        snprintf(port, sizeof port, "%u", server->port);
        remove(path);
        if (process_run(
                (const char *const[]){"/usr/bin/python3",
                    PGCOURIER_TESTS_FOLDER "/support/nats_reader.py", "stream", port, "S", NULL},
                path, false) != 0)
                test_abort("nats_reader.py: %s", read_file(path));
        history_deinit(history);
        text = read_file(path);
        for (char *line = strtok_r(text, "\n", &rest); line != NULL;
             line = strtok_r(NULL, "\n", &rest)) {
                json_t *message = json_loads(line, 0, NULL);
                history_note(history, json_string_value(json_object_get(message, "payload")));
                json_decref(message);
        }
        free(text);
        free(path);
}

static bool nothing_is_missing(void *context)
{
        struct rig *rig = context;

        read_stream(&rig->server, &rig->fixture.history);
        return history_judge(&rig->fixture.history, rig->fixture.writers).n_lost == 0;
}

static void expect_each_once_and_in_order(struct rig *rig, struct relay_process *relay)
{
        struct filter_result verdict;

        writers_stop(rig->fixture.writers);
        wait_until(nothing_is_missing, rig, DEADLINE_MS, "everything that was committed arrives");
        relay_stop(relay);
        read_stream(&rig->server, &rig->fixture.history);
        verdict = history_judge(&rig->fixture.history, rig->fixture.writers);
        cr_expect(rig->fixture.history.n_arrivals > 0);
        cr_expect(verdict.n_lost == 0 && verdict.n_misordered == 0 && verdict.n_uncommitted == 0,
            "%zu lost, %zu out of order, %zu never committed: %s", verdict.n_lost,
            verdict.n_misordered, verdict.n_uncommitted, verdict.first_fault);
        cr_expect(verdict.n_repeated == 0, "%zu came twice", verdict.n_repeated);
        await_in_database(rig->fixture.admin,
            "SELECT NOT EXISTS (SELECT FROM courier.dead_letter) AND NOT EXISTS (SELECT FROM "
            "courier.parked)",
            "there is no dead letter");
}

struct awaited {
        struct rig *rig;
        long long n;
};

static bool has_so_many(void *context)
{
        const struct awaited *awaited = context;

        return nats_server_count(&awaited->rig->server, "S") >= awaited->n;
}

static void await_all(struct rig *rig, long long n)
{
        wait_until(has_so_many, &(struct awaited){rig, n}, DEADLINE_MS, "events in the stream");
}

static void await_more(struct rig *rig, long long n)
{
        await_all(rig, nats_server_count(&rig->server, "S") + n);
}

Test(nats_relay, loses_and_repeats_nothing_while_the_server_is_killed)
{
        struct relay_process *relay;
        struct rig rig;

        begin(&rig, NULL);
        relay = start(&rig, rig.server.port, "");
        relay_fixture_write(&rig.fixture, 41);
        for (unsigned i = 0; i < 20; i++) {
                await_more(&rig, 20);
                nats_server_kill(&rig.server);
                nats_server_restart(&rig.server);
        }
        await_more(&rig, 20);
        expect_each_once_and_in_order(&rig, relay);
        relay_destroy(relay);
        end(&rig);
}

Test(nats_relay, repeats_nothing_when_the_relay_is_killed)
{
        struct relay_process *relay;
        struct rig rig;

        begin(&rig, NULL);
        relay = start(&rig, rig.server.port, "");
        relay_fixture_write(&rig.fixture, 42);
        for (unsigned i = 0; i < 8; i++) {
                await_more(&rig, 20);
                relay_kill(relay);
                relay_start_again(relay);
        }
        await_more(&rig, 20);
        expect_each_once_and_in_order(&rig, relay);
        relay_destroy(relay);
        end(&rig);
}

/* Others go on coming. */
static bool has_three_dead(void *context)
{
        struct rig *rig = context;

        publish(rig->fixture.admin, "events.x", NULL, "taken");
        return database_integer(rig->fixture.admin, "SELECT count(*) FROM courier.dead_letter") >=
               3;
}

/* One stream is full; the others are not. */
Test(nats_relay, gives_up_only_what_a_full_stream_refuses)
{
        struct relay_process *relay;
        struct rig rig;

        begin(&rig, NULL);
        nats_server_make_stream(
            &rig.server, "FULL", "full.>", ", \"max_msgs\": 1, \"discard\": \"new\"");
        relay = start(&rig, rig.server.port,
            ", subject: \"{{topic}}\"}\n    retry: {first: 50ms, max: 100ms, attempts: 5");
        for (int i = 0; i < 4; i++)
                publish(rig.fixture.admin, "full.x", NULL, "refused but for the first");
        for (int i = 0; i < 20; i++)
                publish(rig.fixture.admin, "events.x", NULL, "taken");
        await_all(&rig, 20);
        wait_until(has_three_dead, &rig, DEADLINE_MS, "three dead letters");
        await_in_database(rig.fixture.admin,
            "SELECT count(*) = 3 AND min(attempts) = 5 AND max(attempts) = 5 AND min(target) = "
            "'full.x' AND max(target) = 'full.x' FROM courier.dead_letter",
            "three dead letters");
        relay_stop(relay);
        relay_destroy(relay);
        end(&rig);
}

struct cut {
        const struct fault_link *link;
        unsigned n_before;
};

static bool has_connected_again(void *context)
{
        const struct cut *cut = context;

        return fault_link_n_connections(cut->link) > cut->n_before;
}

Test(nats_relay, keeps_the_order_of_a_key_through_connections_that_break)
{
        static const struct fault faults[] = {{.kind = FAULT_RESET},
            {.kind = FAULT_CUT, .after_bytes = 2000},
            {.kind = FAULT_DELAY, .delay_ms = 5, .jitter_ms = 20}, {.kind = FAULT_HALF_OPEN},
            {.kind = FAULT_BLACKHOLE}};
        struct relay_process *relay;
        struct fault_proxy *proxy = fault_proxy_start();
        struct fault_link *link;
        struct rig rig;

        begin(&rig, NULL);
        link = fault_proxy_add(proxy, rig.server.port);
        relay = start(
            &rig, fault_link_port(link), ", timeout: 300ms, connect_timeout: 300ms, ping: 100ms");
        relay_fixture_write(&rig.fixture, 43);
        for (unsigned i = 0; i < 3 * sizeof faults / sizeof *faults; i++) {
                const struct fault *fault = &faults[i % (sizeof faults / sizeof *faults)];
                struct cut cut;

                await_more(&rig, 20);
                cut = (struct cut){link, fault_link_n_connections(link)};
                fault_link_set(link, fault);
                if (fault->kind == FAULT_DELAY)
                        await_more(&rig, 20);
                else
                        wait_until(has_connected_again, &cut, DEADLINE_MS, "another connection");
                fault_link_set(link, &(struct fault){.kind = FAULT_NONE});
        }
        await_more(&rig, 20);
        expect_each_once_and_in_order(&rig, relay);
        relay_destroy(relay);
        fault_proxy_destroy(proxy);
        end(&rig);
}

/* One that is too large for the server becomes a dead letter, and takes nothing along. */
Test(nats_relay, goes_on_behind_an_event_that_is_too_large)
{
        struct relay_process *relay;
        struct rig rig;

        begin(&rig, "max_payload: 2000\n");
        database_exec(rig.fixture.admin,
            "SELECT courier.publish('t', to_json(CASE n WHEN 500 THEN repeat('x', 3000) ELSE "
            "n::text "
            "END), key => (n % 2)::text) FROM generate_series(1, 1000) AS n ORDER BY n");
        relay = start(&rig, rig.server.port, "");
        await_all(&rig, 999);
        await_in_database(rig.fixture.admin,
            "SELECT count(*) = 1 AND bool_and(attempts = 1) FROM courier.dead_letter",
            "one dead letter");
        relay_stop(relay);
        cr_expect(nats_server_count(&rig.server, "S") == 999);
        relay_destroy(relay);
        end(&rig);
}

Test(nats_relay, starts_without_a_server_and_charges_nothing)
{
        struct relay_process *relay;
        struct rig rig;

        begin(&rig, NULL);
        nats_server_kill(&rig.server);
        for (unsigned i = 0; i < 50; i++)
                publish(rig.fixture.admin, "t", i % 2 == 0 ? "k" : NULL, "x");
        relay = start(&rig, rig.server.port, "");
        relay_wait_for_log(relay, "Connection refused", DEADLINE_MS);
        nats_server_restart(&rig.server);
        await_all(&rig, 50);
        relay_stop(relay);
        cr_expect(nats_server_count(&rig.server, "S") == 50);
        cr_expect(relay_count_in_log(relay, "event=delivery_failed") == 0);
        relay_destroy(relay);
        end(&rig);
}

Test(nats_relay, is_checked_with_the_window_of_its_stream)
{
        struct program_run run;
        char *path;
        char *text;
        struct rig rig;

        begin(&rig, NULL);
        path = xasprintf("%s/pgcourier.yaml", rig.server.folder);
        text = xasprintf(SINK, rig.fixture.relay, rig.server.port, "");
        replace_file(path, text);
        run = program_run(NULL, "check", "-c", path, "--connect", NULL);
        cr_expect(strstr(run.out, "sink bus: nats: can be reached, but stream S recognizes a "
                                  "repeated event for 2m only") != NULL,
            "%s", run.out);
        program_run_free(&run);
        free(text);
        free(path);
        end(&rig);
}

static void kill_server(void *server)
{
        nats_server_kill(server);
}

static void restart_server(void *server)
{
        nats_server_restart(server);
}

static void pause_server(void *server)
{
        nats_server_pause(server);
}

static void resume_server(void *server)
{
        nats_server_resume(server);
}

static struct broker begin_broker(struct nats_server *server)
{
        nats_server_start(server, NULL);
        nats_server_make_stream(server, "S", "events.>", ",\"duplicate_window\":3600000000000");
        return (struct broker){.relay_keys = "",
            .sink = xasprintf("nats: {servers: [\"127.0.0.1:%u\"]", server->port),
            .patient_keys = ", timeout: 60s, ping: 1h",
            .server = server,
            .kill = kill_server,
            .restart = restart_server,
            .pause = pause_server,
            .resume = resume_server,
            .read = read_stream,
            .knows_repeats = true};
}

static void end_broker(struct broker *broker)
{
        nats_server_destroy(broker->server);
        free(broker->sink);
}

Test(nats_relay, ends_in_time_and_delivers_elsewhere_while_the_server_stands_still)
{
        struct nats_server server;
        struct broker broker = begin_broker(&server);

        broker_expect_stop_while_it_stands_still(&broker);
        end_broker(&broker);
}

Test(nats_relay, loses_nothing_and_keeps_the_order_through_outages)
{
        struct nats_server server;
        struct broker broker = begin_broker(&server);

        broker_expect_outages_lose_nothing(&broker, 2, 2000);
        end_broker(&broker);
}

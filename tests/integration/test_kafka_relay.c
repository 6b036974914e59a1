/*
 * The program with a `kafka:` block: how it finds and refuses kafka.so, and a relay that delivers
 * to librdkafka's mock within the test, through outages and kills.
 */
#include "base/alloc.h"
#include "kafka_rig.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <stdlib.h>

#define MODULES PGCOURIER_BUILD_FOLDER "/modules"

/* ---- loading -------------------------------------------------------------------------------- */

/* What `check` says to this block of a sink, with modules from that folder. */
static struct program_run check(const char *modules, const char *block)
{
        char *text = xasprintf("postgres: {dsn: \"host=/nonexistent\"}\n"
                               "relay: {modules: %s}\n"
                               "sinks:\n"
                               "  - name: bus\n"
                               "    topics: [\"**\"]\n"
                               "    %s\n",
            modules, block);
        char *path = program_file("config.yaml", text, strlen(text));
        struct program_run result = program_run(NULL, "check", "-c", path, NULL);

        free(path);
        free(text);
        return result;
}

static void expect_refused(const char *modules, const char *block, const char *reason)
{
        struct program_run result = check(modules, block);

        cr_expect_eq(result.code, 3, "%s: exit code %d", reason, result.code);
        cr_expect(
            program_says(result.out, reason), "%s not in:\n%s%s", reason, result.out, result.err);
        program_run_free(&result);
}

/* A module as others write them, as `file` of the folder. */
static void build_variant(const char *folder, const char *file, const char *definitions)
{
        char *command = xasprintf("gcc -std=gnu17 -fPIC -shared -Wno-unused -I '%s/include' %s -o "
                                  "%s/%s '%s/tests/integration/modules/variant.c'",
            PGCOURIER_SOURCE_FOLDER, definitions, folder, file, PGCOURIER_SOURCE_FOLDER);
        const char *const argv[] = {"sh", "-ec", command, NULL};

        cr_assert(process_run(argv, NULL, false) == 0, "%s", command);
        free(command);
}

static char *module_folder(void)
{
        char *folder = temp_folder();
        char *command = xasprintf("mkdir -m 755 %s/modules", folder);
        const char *const argv[] = {"sh", "-ec", command, NULL};
        char *modules = xasprintf("%s/modules", folder);

        cr_assert(process_run(argv, NULL, false) == 0);
        free(command);
        free(folder);
        return modules;
}

Test(kafka_relay, needs_the_package)
{
        char *folder = module_folder();

        expect_refused(folder, "kafka: {brokers: [h]}",
            "kafka needs the package pgcourier-kafka: there is no kafka.so in");
        /* What the block says is judged without it. */
        expect_refused(folder, "kafka: {brokers: [h], properties: [acks=1]}",
            "names a property that the sink sets by itself");
        free(folder);
}

Test(kafka_relay, loads_only_what_is_of_its_own_version)
{
        char *folder = module_folder();

        build_variant(folder, "kafka.so", "-DKIND='\"kafka\"'");
        expect_refused(folder, "kafka: {brokers: [h]}", "is of pgcourier 0.0.1, this is pgcourier");
        build_variant(folder, "other.so", "-DKIND='\"kafka\"'");
        expect_refused(folder, "module: {file: other.so}",
            "calls its kind kafka, which is one of pgcourier's own");
        free(folder);
}

Test(kafka_relay, is_no_module_of_others)
{
        struct program_run result = check(MODULES, "kafka: {brokers: [h]}");

        cr_expect(
            program_says(result.out, "sink bus: kafka, topics **"), "%s%s", result.out, result.err);
        program_run_free(&result);
        expect_refused(
            MODULES, "module: {file: kafka.so}", "which is pgcourier's own: write a block kafka:");
}

Test(kafka_relay, refuses_a_property_that_librdkafka_does_not_know)
{
        expect_refused(MODULES, "kafka: {brokers: [h], properties: [bogus=1]}",
            "sinks.bus.kafka: bogus: No such configuration property");
        expect_refused(MODULES, "kafka: {brokers: [h], properties: [retry.backoff.ms=x]}",
            "sinks.bus.kafka: retry.backoff.ms: ");
}

/* ---- delivering ----------------------------------------------------------------------------- */

static struct relay_process *start_relay(const struct relay_fixture *fixture, const struct rig *rig)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {modules: " MODULES "}\n"
                           "sinks:\n"
                           "  - name: kafka\n"
                           "    topics: [\"orders.*\"]\n"
                           "    start: beginning\n"
                           "    kafka: {brokers: [\"%s\"], topic: events, timeout: 5s}\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    redis: {url: \"redis://127.0.0.1:%u\", stream: other}\n",
            fixture->relay, rig->broker, fixture->redis.port);
}

static void publish_some(PGconn *connection, int first, int n)
{
        char *sql = xasprintf("SELECT courier.publish('orders.created', to_json(n), key => (n %% "
                              "7)::text) FROM generate_series(%d, %d) AS n",
            first, first + n - 1);

        database_exec(connection, sql);
        free(sql);
}

struct stored {
        const struct rig *rig;
        int n;
};

/* How many of the numbers 1 to n are stored; of each key the first copies are in order. */
static int count_stored(const struct rig *rig, int n)
{
        struct kafka_records records = kafka_read(rig->broker, "events");
        bool *seen = xcalloc((size_t)n + 1, sizeof *seen);
        int last[7] = {0};
        int n_seen = 0;

        for (size_t i = 0; i < records.n; i++) {
                int number = (int)strtol(records.items[i].value, NULL, 10);
                if (number < 1 || number > n || seen[number])
                        continue;
                cr_expect(number > last[number % 7], "%d after %d", number, last[number % 7]);
                last[number % 7] = number;
                seen[number] = true;
                n_seen++;
        }
        kafka_records_deinit(&records);
        free(seen);
        return n_seen;
}

static bool are_stored(void *context)
{
        const struct stored *stored = context;

        return count_stored(stored->rig, stored->n) == stored->n;
}

static void await_stored(const struct rig *rig, int n)
{
        struct stored stored = {rig, n};

        wait_until(are_stored, &stored, 60000, "events in Kafka");
}

/* It starts while there is no broker, other sinks deliver meanwhile; and no outage, however it
 * comes, costs an event an attempt. */
Test(kafka_relay, starts_without_a_broker_and_outlives_outages)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 1);
        rd_kafka_mock_broker_set_down(rig.mock, 1);
        relay_fixture_begin(&fixture, postgres_shared());
        publish_some(fixture.admin, 1, 500);
        relay = start_relay(&fixture, &rig);
        relay_wait_for_log(relay, "event=module_loaded sink=kafka file=kafka.so kind=kafka", 30000);
        relay_wait_for_log(relay, "event=sink_down sink=kafka", 30000);
        relay_fixture_await(&fixture, "other", 500);
        rd_kafka_mock_broker_set_up(rig.mock, 1);
        await_stored(&rig, 500);

        rd_kafka_mock_broker_set_down(rig.mock, 1);
        publish_some(fixture.admin, 501, 2000);
        relay_wait_for_log(relay, "event=sink_up sink=kafka", 30000);
        rd_kafka_mock_broker_set_up(rig.mock, 1);
        await_stored(&rig, 2500);
        cr_expect(relay_count_in_log(relay, "event=delivery_failed") == 0);
        cr_expect(relay_count_in_log(relay, "event=dead_letter") == 0);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        rig_destroy(&rig);
}

Test(kafka_relay, loses_nothing_when_it_is_killed)
{
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct rig rig;

        rig_init_mock(&rig, 1, 1, 1);
        relay_fixture_begin(&fixture, postgres_shared());
        relay = start_relay(&fixture, &rig);
        for (int i = 0; i < 3; i++) {
                publish_some(fixture.admin, i * 1000 + 1, 1000);
                await_stored(&rig, i * 1000 + 200);
                relay_kill(relay);
                relay_start_again(relay);
        }
        await_stored(&rig, 3000);
        relay_stop(relay);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
        rig_destroy(&rig);
}

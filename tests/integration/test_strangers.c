/* Who may only connect can take the advisory locks by which relays own lanes: that is no
 * standby. */
#include "base/alloc.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_MS = 30000 };

static struct relay_fixture fixture;
static struct relay_process *relay;
static PGconn *stranger; /* an application */

static void prepare(void)
{
        char *folder = temp_folder();

        relay_fixture_begin(&fixture, postgres_shared());
        relay = relay_start("postgres: {dsn: \"%s\"}\nadmin: {listen: \"unix:%s/admin\"}\n"
                            "relay: {standby: 50ms}\nsinks:\n"
                            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, folder, fixture.redis.socket_path);
        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        stranger = database_connect(fixture.app);
        free(folder);
}

static void clean_up(void)
{
        PQfinish(stranger);
        relay_destroy(relay);
        relay_fixture_end(&fixture);
}

TestSuite(strangers, .init = prepare, .fini = clean_up, .timeout = 120);

struct wanted {
        const char *command;
        const char *words;
        bool is_absent;
};

static bool is_said(void *context)
{
        const struct wanted *wanted = context;
        struct program_run run = program_run(NULL, wanted->command, "-c", relay->config_path, NULL);
        bool is_there = program_says(run.out, wanted->words);

        program_run_free(&run);
        return is_there != wanted->is_absent;
}

static void await_words(const char *command, const char *words, bool is_absent)
{
        struct wanted wanted = {command, words, is_absent};

        wait_until(is_said, &wanted, DEADLINE_MS, words);
}

static void expect_told(const char *what)
{
        char *title = xasprintf(
            "error    Process %d of role app holds locks of the relays", PQbackendPID(stranger));
        char *command = xasprintf("SELECT pg_terminate_backend(%d)", PQbackendPID(stranger));

        await_words("status", title, false);
        await_words("status", what, false);
        await_words("status", command, false);
        await_words("doctor", "  foreign: Process ", false);
        await_words("doctor", command, false);
        relay_wait_for_log(relay, "event=foreign_locks", DEADLINE_MS);
        free(command);
        free(title);
}

Test(strangers, that_hold_lanes_are_named_and_are_no_standby)
{
        relay_stop(relay);
        database_exec(
            stranger, "SELECT pg_advisory_lock(1668248946, g) FROM generate_series(1, 1000) AS g");
        publish(fixture.admin, "a", NULL, "2");
        relay_start_again(relay);
        expect_told("It keeps every relay from delivering bus.");
        await_words("status", "stands by", true);

        database_exec(stranger, "SELECT pg_advisory_unlock_all()");
        relay_fixture_await(&fixture, "events", 2);
        await_words("status", "holds locks", true);
        await_words("doctor", "holds locks of the relays", true);
        relay_stop(relay);
}

Test(strangers, that_hold_the_maintenance_are_named)
{
        database_exec(stranger, "SELECT pg_advisory_lock(1668248946, -1)");
        expect_told("It blocks the maintenance of the outbox");
        relay_stop(relay);
}

/* Writers have it too, for a moment: shared. */
Test(strangers, that_hold_the_doorbell_are_named_only_if_they_make_writers_ring)
{
        relay_stop(relay); /* which holds it itself, while nothing is new */
        database_exec(stranger, "SELECT pg_advisory_lock_shared(1668248946, 0)");
        relay_start_again(relay);
        await_words("doctor", "holds locks of the relays", true);
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "events", 2);
        database_exec(stranger, "SELECT pg_advisory_unlock_all()");
        relay_stop(relay);
        database_exec(stranger, "SELECT pg_advisory_lock(1668248946, 0)");
        relay_start_again(relay);
        await_words("status", "It makes every writer notify", false);
        publish(fixture.admin, "a", NULL, "3");
        relay_fixture_await(&fixture, "events", 3);
        relay_stop(relay);
}

/* The session of the relay itself is one, whatever else its role may do. */
Test(strangers, are_no_relays)
{
        await_words("doctor", "holds locks of the relays", true);
        await_words("status", "holds locks", true);
        relay_stop(relay);
}

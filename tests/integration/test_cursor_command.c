/* `pgcourier cursor`: what is told of each lane, and which cursors may not be dropped. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/terminal.h"

#include <stdlib.h>

static struct failures_rig rig;
static char *config; /* with the sink mail */

static void start(void)
{
        char *text;

        failures_rig_start(&rig);
        database_exec(rig.owner,
            "INSERT INTO courier.outbox (topic, payload) SELECT 't', '1' FROM generate_series(1, "
            "50);"
            "INSERT INTO courier.cursor (sink, lane, system_identifier, from_snapshot, from_floor,"
            "  from_xid, until_snapshot, until_floor, until_xid, last_id, settled_at) VALUES"
            " ('mail', 0, 1, '10:10:', 50, '10', NULL, NULL, NULL, 0, '2026-01-02 03:04:05+00'),"
            " ('old', 0, 1, '10:10:', 20, '10', '12:12:', 45, '12', 30, '2026-01-01 00:00+00'),"
            " ('old', 7, 1, '10:10:', 10, '10', NULL, NULL, NULL, 0, '2026-01-01 00:00+00')");
        text = xasprintf("postgres: {dsn: \"%s\"}\n"
                         "sinks: [{name: mail, topics: ['**'], stdout: {}}]\n",
            rig.dsn);
        config = program_file("config.yaml", text, strlen(text));
        free(text);
}

static void stop(void)
{
        free(config);
        failures_rig_stop(&rig);
}

TestSuite(cursor_command, .init = start, .fini = stop);

#define CURSOR(...) program_run(NULL, "cursor", __VA_ARGS__, "-c", config, NULL)

static int64_t count(const char *table)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.%s WHERE sink = 'old'", table);
        int64_t n = database_integer(rig.owner, sql);

        free(sql);
        return n;
}

Test(cursor_command, lists_how_far_each_lane_is_and_names_the_orphans)
{
        insert_receiver(&rig, 7, "old", "acme");
        expect_output(CURSOR("list"),
            "SINK LANE RECEIVER REACHED BEHIND SETTLED              OWNER CONFIG\n"
            "mail    0               50      0 2026-01-02T03:04:05Z       yes\n"
            "old     0               30     20 2026-01-01T00:00:00Z       ORPHAN\n"
            "old     7 acme          10     40 2026-01-01T00:00:00Z       ORPHAN\n");
        expect_output(program_run(NULL, "cursor", "list", "--dsn", rig.dsn, NULL),
            "SINK LANE RECEIVER REACHED BEHIND SETTLED              OWNER\n"
            "mail    0               50      0 2026-01-02T03:04:05Z \n"
            "old     0               30     20 2026-01-01T00:00:00Z \n"
            "old     7 acme          10     40 2026-01-01T00:00:00Z \n");
}

Test(cursor_command, names_the_owner_of_a_sinks_lane_and_of_its_receivers_lanes)
{
        char *dsn = xasprintf("%s application_name=me", rig.dsn);
        PGconn *owner = database_connect(dsn);
        int64_t pid = PQbackendPID(owner);
        json_t *lines;

        database_exec(owner, "SELECT pg_advisory_lock(1668248946, lock_id) FROM courier.cursor"
                             " WHERE sink = 'old' AND lane = 0");
        lines = read_json_lines(CURSOR("list", "--json"));
        cr_assert_eq(json_array_size(lines), 3);
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 0), "owner")));
        cr_expect(json_is_false(json_object_get(json_array_get(lines, 0), "is_orphan")));
        for (size_t i = 1; i < 3; i++) {
                json_t *line = json_array_get(lines, i);
                json_t *wanted = json_pack(
                    "{s:I, s:s, s:n}", "pid", (json_int_t)pid, "application_name", "me", "client");
                cr_expect(json_equal(json_object_get(line, "owner"), wanted));
                cr_expect(json_is_true(json_object_get(line, "is_orphan")));
                json_decref(wanted);
        }
        json_decref(lines);
        expect_refusal(CURSOR("drop", "old", "--yes"), 75, "a running relay owns the lane");
        expect_refusal(CURSOR("drop", "old", "--lane", "7", "--yes"), 75, "a running relay owns");
        cr_expect_eq(count("cursor"), 2);
        PQfinish(owner);
        free(dsn);
}

/* It keeps the lane from being dropped all the same. */
Test(cursor_command, takes_no_session_for_an_owner_whose_role_may_not_move_cursors)
{
        char *dsn = dsn_as_user(rig.dsn, "app");
        PGconn *stranger = database_connect(dsn);
        json_t *lines;

        database_exec(
            stranger, "SELECT pg_advisory_lock(1668248946, g) FROM generate_series(1, 9) AS g");
        lines = read_json_lines(CURSOR("list", "--json"));
        cr_assert_eq(json_array_size(lines), 3);
        for (size_t i = 0; i < 3; i++)
                cr_expect(json_is_null(json_object_get(json_array_get(lines, i), "owner")));
        json_decref(lines);
        expect_refusal(CURSOR("drop", "old", "--yes"), 75, "owns the lane");
        PQfinish(stranger);
        free(dsn);
}

Test(cursor_command, drops_an_orphan_and_says_what_stays)
{
        char *resume, *all;

        database_exec(rig.owner, "INSERT INTO courier.sink (name, fans_out) VALUES ('old', true)");
        insert_dead_letter(&rig, "sink = 'old'");
        database_exec(rig.owner, "INSERT INTO courier.pause (sink, by) VALUES ('old', 'operator')");
        expect_refusal(CURSOR("drop", "old"), 2,
            "that would drop 2 cursors and 0 parked deliveries of sink old for good; add --yes");
        cr_expect_eq(count("cursor"), 2);
        resume = xasprintf("1 cursor of sink old dropped\n"
                           "the sink is still paused; end that with `pgcourier resume old -c %s`\n",
            config);
        all = xasprintf("1 cursor of sink old dropped\n"
                        "1 dead letter stays: `pgcourier dead drop --sink old -c %s`\n"
                        "the sink is still paused; end that with `pgcourier resume old -c %s`\n",
            config, config);
        expect_output(CURSOR("drop", "old", "--lane", "7", "--yes"), resume);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.sink"), 1);
        expect_output(CURSOR("drop", "old", "--yes"), all);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.sink"), 0);
        free(resume);
        free(all);
        cr_expect_eq(count("cursor"), 0);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.cursor"), 1);
        expect_refusal(CURSOR("drop", "old", "--yes"), 8, "there is no such cursor of sink old");
}

Test(cursor_command, asks_at_a_terminal)
{
        struct program_run run = terminal_run(
            "[y/N] ", "\n", "cursor", "drop", "old", "--lane", "7", "-c", config, NULL);

        cr_expect_eq(run.code, 1);
        cr_expect_not_null(strstr(run.out, "nothing was changed"), "%s", run.out);
        cr_expect_eq(count("cursor"), 2);
        program_run_free(&run);
        run = terminal_run(
            "[y/N] ", "y\n", "cursor", "drop", "old", "--lane", "7", "-c", config, NULL);
        cr_expect_eq(run.code, 0);
        cr_expect_not_null(
            strstr(run.out, "drop 1 cursor and 0 parked deliveries of sink old for good? [y/N] "),
            "%s", run.out);
        cr_expect_eq(count("cursor"), 1);
        program_run_free(&run);
}

Test(cursor_command, drops_parked_deliveries_only_when_told_to)
{
        insert_parked(&rig, "sink = 'old'");
        insert_parked(&rig, NULL);
        expect_refusal(CURSOR("drop", "old", "--yes"), 2,
            "sink old has 1 parked delivery that would never be delivered");
        cr_expect_eq(count("cursor"), 2);
        cr_expect_eq(count("parked"), 1);
        expect_output(CURSOR("drop", "old", "--yes", "--parked"),
            "2 cursors of sink old dropped, and 1 parked delivery\n");
        cr_expect_eq(count("parked"), 0);
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.parked"), 1);
}

Test(cursor_command, keeps_what_the_configuration_uses_unless_forced)
{
        expect_refusal(
            CURSOR("drop", "mail", "--yes"), 2, "sink mail is in that configuration: without its");
        expect_refusal(program_run(NULL, "cursor", "drop", "old", "--yes", "--dsn", rig.dsn, NULL),
            2, "cannot tell whether sink old is still in use; give -c FILE");
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.cursor"), 3);
        expect_output(
            CURSOR("drop", "mail", "--yes", "--force"), "1 cursor of sink mail dropped\n");
}

Test(cursor_command, says_what_is_wrong_with_the_command_line)
{
        expect_refusal(CURSOR("drop", "old", "--lane", "x"), 2, "--lane: \"x\" is not the number");
        expect_refusal(CURSOR("drop", "No!"), 2, "\"No!\" ");
        expect_refusal(CURSOR("list", "--yes"), 2, "cursor list takes no --yes");
        expect_refusal(CURSOR("drop"), 2, "cursor drop: an argument is missing");
}

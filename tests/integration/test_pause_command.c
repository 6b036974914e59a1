/* `pgcourier pause` and `resume`: durable, told to the relay, and never for a misspelt sink. */
#include "base/alloc.h"
#include "failures_rig.h"

#include <stdlib.h>

static struct failures_rig rig;

static void start(void)
{
        failures_rig_start(&rig);
        database_exec(rig.owner,
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor,"
            " from_xid) VALUES ('billing', 1, '10:10:', 0, '10')");
}

static void stop(void)
{
        failures_rig_stop(&rig);
}

TestSuite(pause_command, .init = start, .fini = stop);

#define PAUSE(...)  program_run(NULL, "pause", __VA_ARGS__, "--dsn", rig.dsn, NULL)
#define RESUME(...) program_run(NULL, "resume", __VA_ARGS__, "--dsn", rig.dsn, NULL)

static int64_t count(const char *condition)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.pause WHERE %s", condition);
        int64_t n = database_integer(rig.owner, sql);

        free(sql);
        return n;
}

/* A configuration with the sinks billing and receipts; free the path. */
static char *write_config(void)
{
        char *text = xasprintf("postgres: {dsn: \"%s\"}\n"
                               "sinks:\n"
                               "  - {name: billing, topics: ['**'], stdout: {}}\n"
                               "  - {name: receipts, topics: ['**'], stdout: {}}\n",
            rig.dsn);
        char *path = program_file("config.yaml", text, strlen(text));

        free(text);
        return path;
}

Test(pause_command, pauses_and_resumes_and_tells_the_relay)
{
        PGconn *listener = listen_to_control(&rig);

        expect_output(PAUSE("billing", "--reason", "it's 2 o'clock"), "billing is paused\n");
        cr_expect_eq(
            count("sink = 'billing' AND by = 'operator' AND reason = 'it''s 2 o''clock'"), 1);
        cr_expect_geq(count_notifications(listener), 1);
        expect_output(RESUME("billing"), "billing goes on\n");
        cr_expect_eq(count("true"), 0);
        cr_expect_geq(count_notifications(listener), 1);
        PQfinish(listener);
}

Test(pause_command, a_second_pause_may_change_the_reason_and_keeps_the_time)
{
        expect_output(PAUSE("billing"), "billing is paused\n");
        cr_expect_eq(count("reason IS NULL"), 1);
        database_exec(rig.owner, "UPDATE courier.pause SET paused_at = '2026-01-01 00:00+00'");
        expect_output(PAUSE("billing", "--reason", "deploy"), "billing was already paused\n");
        expect_output(PAUSE("billing"), "billing was already paused\n");
        cr_expect_eq(count("reason = 'deploy' AND paused_at = '2026-01-01 00:00+00'"), 1);
}

Test(pause_command, resume_ends_the_relays_pause_too_and_no_other_sinks)
{
        database_exec(rig.owner,
            "INSERT INTO courier.pause (sink, by) VALUES ('billing', 'relay'), ('other', 'relay')");
        expect_output(PAUSE("billing"), "billing is paused\n");
        expect_output(RESUME("billing"), "billing goes on\n");
        cr_expect_eq(count("sink = 'other'"), 1);
        cr_expect_eq(count("true"), 1);
}

Test(pause_command, resume_of_a_sink_that_runs_is_reported_and_an_error_only_on_demand)
{
        struct program_run run = RESUME("billing");

        cr_expect_eq(run.code, 0);
        cr_expect_str_empty(run.out);
        cr_expect_str_eq(run.err, "billing is not paused\n");
        program_run_free(&run);
        expect_refusal(RESUME("billing", "--fail-empty"), 8, "billing is not paused\n");
}

Test(pause_command, list_shows_who_paused_what_since_when_and_why)
{
        json_t *lines;
        json_t *wanted = json_pack("{s:s, s:s, s:s, s:s}", "sink", "web", "by", "relay", "reason",
            "401 \x1b[2J", "paused_at", "2026-01-02T03:04:05.678000Z");

        expect_refusal(PAUSE("--list", "--fail-empty"), 8, "nothing is paused\n");
        database_exec(rig.owner, "INSERT INTO courier.pause (sink, by, reason, paused_at) VALUES"
                                 " ('web', 'relay', E'401 \\x1b[2J', '2026-01-02 03:04:05.678+00'),"
                                 " ('billing', 'operator', NULL, '2026-01-02 04:00+01')");
        expect_output(PAUSE("--list"), "SINK    BY       SINCE                REASON\n"
                                       "billing operator 2026-01-02T03:00:00Z \n"
                                       "web     relay    2026-01-02T03:04:05Z 401 \\x1b[2J\n");
        lines = read_json_lines(PAUSE("--list", "--json"));
        cr_expect_eq(json_array_size(lines), 2);
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 0), "reason")));
        cr_expect(json_equal(json_array_get(lines, 1), wanted));
        json_decref(lines);
        lines = read_json_lines(PAUSE("--list", "web", "--json"));
        cr_expect_eq(json_array_size(lines), 1);
        json_decref(lines);
        json_decref(wanted);
}

Test(pause_command, knows_the_sinks_of_the_configuration)
{
        char *path = write_config();

        expect_refusal(program_run(NULL, "pause", "recipts", "-c", path, NULL), 2,
            "the configuration has no sink \"recipts\"; did you mean \"receipts\"? Sinks: billing, "
            "receipts\n");
        expect_refusal(program_run(NULL, "pause", "other", "-c", path, NULL), 2,
            "has no sink \"other\". Sinks: billing, receipts\n");
        expect_refusal(program_run(NULL, "resume", "recipts", "-c", path, NULL), 2,
            "did you mean \"receipts\"?");
        cr_expect_eq(count("true"), 0);
        expect_output(
            program_run(NULL, "pause", "receipts", "-c", path, NULL), "receipts is paused\n");
        expect_output(
            program_run(NULL, "resume", "receipts", "-c", path, NULL), "receipts goes on\n");
        expect_output(
            program_run(NULL, "pause", "other", "--force", "-c", path, NULL), "other is paused\n");
        /* What was taken out of the configuration can still be resumed. */
        expect_output(program_run(NULL, "resume", "other", "-c", path, NULL), "other goes on\n");
        free(path);
}

Test(pause_command, without_a_configuration_knows_the_sinks_that_have_run)
{
        expect_refusal(PAUSE("biling"), 2, "no relay has run a sink \"biling\" here so far");
        cr_expect_eq(count("true"), 0);
        expect_output(PAUSE("billing"), "billing is paused\n");
        expect_output(PAUSE("new-one", "--force"), "new-one is paused\n");
}

Test(pause_command, says_what_is_wrong_with_the_command_line)
{
        static const struct {
                const char *words[4];
                const char *error;
        } cases[] = {
            {{NULL}, "pause needs a sink: pgcourier pause SINK, or pgcourier pause --list\n"},
            {{"a", "b"}, "unexpected argument \"b\""},
            {{"Billing"}, "\"Billing\" is not a sink's name"},
            {{"x' OR '1'='1", "--force"}, "is not a sink's name"},
            {{""}, "is not a sink's name"},
            {{"billing", "--json"}, "--json and --fail-empty need --list"},
            {{"--list", "--reason", "x"}, "--list cannot be combined with"},
            {{"billing", "--reason", "a\nb"}, "--reason has a control character at byte 2"},
        };
        char *reason = xcalloc(1, 502);
        char *app_dsn = dsn_as_user(rig.dsn, "app");

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                expect_refusal(program_run(NULL, "pause", "--dsn", rig.dsn, words[0], words[1],
                                   words[2], words[3], NULL),
                    2, cases[i].error);
        }
        memset(reason, 'x', 501);
        expect_refusal(PAUSE("billing", "--reason", reason), 2, "longer than 500 bytes");
        expect_refusal(program_run(NULL, "resume", "--dsn", rig.dsn, NULL), 2,
            "resume: an argument is missing");
        expect_refusal(RESUME("B"), 2, "is not a sink's name");
        expect_refusal(program_run(NULL, "pause", "billing", "--dsn", app_dsn, NULL), 7,
            "GRANT courier_relay TO \"app\"\n");
        cr_expect_eq(count("true"), 0);
        free(app_dsn);
        free(reason);
}

/* `pgcourier parked`: what waits for what is shown, and marks are put where they are meant. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/postgres_expect.h"
#include "support/terminal.h"

#include <stdlib.h>

static struct failures_rig rig;

static void start(void)
{
        failures_rig_start(&rig);
}

static void stop(void)
{
        failures_rig_stop(&rig);
}

TestSuite(parked_command, .init = start, .fini = stop);

#define PARKED(...) program_run(NULL, "parked", __VA_ARGS__, "--dsn", rig.dsn, NULL)

#define SKIPPED " will be skipped by the relay\n"
#define RETRIED " will be tried at once by the relay\n"

static int64_t count(const char *condition)
{
        char *sql = xasprintf("SELECT count(*) FROM courier.parked WHERE %s", condition);
        int64_t n = database_integer(rig.owner, sql);

        free(sql);
        return n;
}

/* 1 fails; 2 and 3 wait behind it, 5 behind 4; 6 is for later. */
static void insert_two_keys(void)
{
        insert_parked(&rig,
            "key = 'a', topic = 'orders.paid', attempts = 3, last_error = 'HTTP 503',"
            " due_at = '2126-01-02 03:04:05.678+00'");
        insert_parked(&rig, "key = 'a', state = 'blocked', topic = 'orders.sent'");
        insert_parked(&rig, "key = 'a', state = 'blocked'");
        insert_parked(&rig, "key = 'b', last_error = 'HTTP 500', attempts = 1,"
                            " due_at = '2126-01-02 03:05:00+00'");
        insert_parked(&rig, "key = 'b', state = 'blocked'");
        insert_parked(&rig, "sink = 'web', state = 'delayed', key = 'a',"
                            " due_at = '2126-02-01 00:00+00', parked_at = now() - interval '3 h'");
}

Test(parked_command, list_is_a_table_by_sink)
{
        insert_two_keys();
        database_exec(rig.owner, "UPDATE courier.parked SET skip = true WHERE outbox_id = 3");
        expect_output(PARKED("list", "--topic", "orders.*"),
            "ID SINK TOPIC       KEY STATE   ATTEMPTS DUE                  ERROR\n"
            " 1 mail orders.paid a   retry          3 2126-01-02T03:04:05Z HTTP 503\n"
            " 2 mail orders.sent a   blocked        0                      \n");
        expect_output(PARKED("list", "3", "6"),
            "ID SINK TOPIC KEY STATE         ATTEMPTS DUE                  ERROR\n"
            " 3 mail t     a   blocked, skip        0                      \n"
            " 6 web  t     a   delayed              0 2126-02-01T00:00:00Z \n");
}

Test(parked_command, list_lets_through_what_every_filter_says)
{
        static const struct {
                const char *words[4];
                const char *ids;
        } cases[] = {
            {{NULL}, "1 2 3 4 5 6"},
            {{"--sink", "web"}, "6"},
            {{"--topic", "*.sent"}, "2"},
            {{"--topic", "%"}, ""},
            {{"--key", "a"}, "1 2 3 6"},
            {{"--key", "a' OR '1'='1"}, ""},
            {{"--state", "blocked"}, "2 3 5"},
            {{"--state", "retry", "--key", "b"}, "4"},
            {{"--older-than", "1h"}, "6"},
            {{"--newer-than", "1h"}, "1 2 3 4 5"},
            {{"--limit", "2"}, "1 2"},
            {{"4", "99"}, "4"},
        };

        insert_two_keys();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                struct program_run run = program_run(NULL, "parked", "list", "--json", "--dsn",
                    rig.dsn, words[0], words[1], words[2], words[3], NULL);
                char *ids = join_integers(read_json_lines(run), "outbox_id");
                cr_expect_str_eq(ids, cases[i].ids, "%zu: %s", i, ids);
                free(ids);
        }
}

Test(parked_command, json_has_all_fields)
{
        static const char expected[] =
            "{\"sink\": \"web\", \"lane\": 3, \"receiver\": \"#3\", \"outbox_id\": 41, \"state\": "
            "\"retry\","
            " \"due_at\": \"2126-01-02T03:04:05.678901Z\", \"attempts\": 7, \"retried_seconds\": "
            "70.5,"
            " \"first_error\": \"first\", \"first_failed_at\": \"2026-01-01T00:00:00.000000Z\","
            " \"last_error\": \"last\", \"last_failed_at\": \"2026-01-02T00:00:00.000000Z\","
            " \"is_redriven\": true, \"skip\": true, \"parked_at\": "
            "\"2026-01-01T00:00:01.000000Z\","
            " \"position\": 1, \"event_id\": \"00000000-0000-0000-0000-000000000001\","
            " \"source\": \"public.m\", \"source_key\": \"9\","
            " \"topic\": \"o\", \"key\": \"17\", \"type\": \"y\","
            " \"created_at\": \"2025-12-31T23:00:00.000000Z\"}";
        json_t *wanted = json_loads(expected, 0, NULL);
        json_t *lines;

        database_exec(rig.owner, "CREATE TABLE public.m (id integer PRIMARY KEY, topic text,"
                                 " key text, type text, payload jsonb, headers jsonb);"
                                 "SELECT courier.attach('public.m')");
        insert_parked(&rig,
            "sink = 'web', lane = 3, outbox_id = 41, due_at = '2126-01-02 03:04:05.678901+00',"
            " attempts = 7, retried_for = '00:01:10.5', first_error = 'first', last_error = 'last',"
            " first_failed_at = '2026-01-01 00:00+00', last_failed_at = '2026-01-02 00:00+00',"
            " is_redriven = true, skip = true, parked_at = '2026-01-01 00:00:01+00',"
            " event_id = '00000000-0000-0000-0000-000000000001', topic = 'o', key = '17',"
            " type = 'y', created_at = '2026-01-01 00:00+01', source = 1, source_key = '9'");
        insert_parked(&rig, "sink = 'zzz', state = 'blocked'");
        lines = read_json_lines(PARKED("list", "--json"));
        cr_expect(json_equal(json_array_get(lines, 0), wanted), "%s",
            json_dumps(json_array_get(lines, 0), 0));
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 1), "due_at")));
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 1), "source")));
        json_decref(lines);
        json_decref(wanted);
}

Test(parked_command, list_blocked_names_the_event_that_a_key_waits_for)
{
        json_t *lines;
        const json_t *line;

        insert_two_keys();
        expect_output(PARKED("list", "--blocked"),
            "SINK KEY WAITING BEHIND ATTEMPTS DUE                  ERROR\n"
            "mail a         2      1        3 2126-01-02T03:04:05Z HTTP 503\n"
            "mail b         1      4        1 2126-01-02T03:05:00Z HTTP 500\n");
        expect_output(PARKED("list", "--blocked", "--key", "b"),
            "SINK KEY WAITING BEHIND ATTEMPTS DUE                  ERROR\n"
            "mail b         1      4        1 2126-01-02T03:05:00Z HTTP 500\n");
        lines = read_json_lines(PARKED("list", "--blocked", "--json", "--limit", "1"));
        cr_expect_eq(json_array_size(lines), 1);
        line = json_array_get(lines, 0);
        cr_expect_str_eq(json_string_value(json_object_get(line, "sink")), "mail");
        cr_expect_eq(json_integer_value(json_object_get(line, "lane")), 0);
        cr_expect_str_eq(json_string_value(json_object_get(line, "key")), "a");
        cr_expect_eq(json_integer_value(json_object_get(line, "waiting")), 2);
        cr_expect(json_is_string(json_object_get(line, "waiting_since")));
        cr_expect_eq(json_integer_value(json_object_get(line, "behind_outbox_id")), 1);
        cr_expect(json_is_string(json_object_get(line, "behind_event_id")));
        cr_expect_str_eq(json_string_value(json_object_get(line, "behind_topic")), "orders.paid");
        cr_expect_eq(json_integer_value(json_object_get(line, "attempts")), 3);
        cr_expect_str_eq(
            json_string_value(json_object_get(line, "due_at")), "2126-01-02T03:04:05.678000Z");
        cr_expect_str_eq(json_string_value(json_object_get(line, "last_error")), "HTTP 503");
        cr_expect(json_is_null(json_object_get(line, "first_failed_at")));
        cr_expect(json_is_null(json_object_get(line, "receiver")));
        cr_expect_eq(json_object_size(line), 13);
        json_decref(lines);
}

Test(parked_command, list_blocked_has_keys_whose_first_event_was_just_delivered)
{
        insert_parked(&rig, "key = 'a', state = 'blocked'");
        expect_output(PARKED("list", "--blocked"), "SINK KEY WAITING BEHIND ATTEMPTS DUE ERROR\n"
                                                   "mail a         1                     \n");
}

Test(parked_command, an_receiver_says_which_of_a_sinks_receivers)
{
        insert_receiver(&rig, 3, "web", "acme");
        insert_receiver(&rig, 4, "web", "other");
        insert_parked(&rig, "sink = 'web', lane = 3, key = 'k', due_at = '2126-01-02 03:00+00'");
        insert_parked(
            &rig, "sink = 'web', lane = 4, outbox_id = 1, due_at = '2126-01-02 03:00+00'");
        insert_parked(&rig, "sink = 'web', lane = 3, outbox_id = 5, key = 'k', state = 'blocked'");
        expect_output(PARKED("list", "--receiver", "acme"),
            "ID SINK RECEIVER TOPIC KEY STATE   ATTEMPTS DUE                  ERROR\n"
            " 1 web  acme     t     k   retry          0 2126-01-02T03:00:00Z \n"
            " 5 web  acme     t     k   blocked        0                      \n");
        expect_output(PARKED("list", "--blocked"),
            "SINK RECEIVER KEY WAITING BEHIND ATTEMPTS DUE                  ERROR\n"
            "web  acme     k         1      1        0 2126-01-02T03:00:00Z \n");
        expect_output(PARKED("skip", "1", "--receiver", "other"), "1 parked delivery" SKIPPED);
        cr_expect_eq(count("skip"), 1);
        cr_expect_eq(count("skip AND lane = 4"), 1);
}

Test(parked_command, lists_of_any_length_come_page_by_page)
{
        bool is_seen[2501] = {false};
        json_t *lines;
        json_t *line;
        size_t i;

        database_exec(rig.owner,
            "INSERT INTO courier.parked"
            " (sink, lane, outbox_id, state, due_at, event_id, topic, payload, created_at)"
            "SELECT CASE WHEN i < 700 THEN 'web' ELSE 'mail' END, i % 3, i, 'retry', now(),"
            " gen_random_uuid(), 't', '{}', now() FROM generate_series(1, 2500) AS i");
        lines = read_json_lines(PARKED("list", "--json"));
        cr_expect_eq(json_array_size(lines), 2500);
        json_array_foreach(lines, i, line)
            is_seen[json_integer_value(json_object_get(line, "outbox_id"))] = true;
        for (size_t id = 1; id <= 2500; id++)
                cr_assert(is_seen[id], "%zu is missing", id);
        json_decref(lines);
        expect_output(
            PARKED("skip", "--all", "--yes", "--limit", "1200"), "1200 parked deliveries" SKIPPED);
        cr_expect_eq(count("skip"), 1200);
        expect_output(PARKED("retry", "--all", "--yes"), "1300 parked deliveries" RETRIED);
}

Test(parked_command, control_characters_reach_no_terminal)
{
        static const char *const words[] = {NULL, "--blocked", "--json"};

        insert_parked(
            &rig, "key = E'\\x1b[2J\\u009b', topic = E'\\x1b\\x07', last_error = E'\\x7f\\x1b'");
        insert_parked(&rig, "key = E'\\x1b[2J\\u009b', state = 'blocked'");
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
                struct program_run run =
                    terminal_run(NULL, NULL, "parked", "list", "--dsn", rig.dsn, words[i], NULL);
                cr_expect_eq(run.code, 0, "%s", run.out);
                cr_expect_null(strpbrk(run.out, "\x1b\x7f\a"), "%s", run.out);
                cr_expect_null(strstr(run.out, "\xc2\x9b"), "%s", run.out);
                program_run_free(&run);
        }
}

Test(parked_command, skip_marks_and_leaves_the_rest_to_the_relay)
{
        PGconn *listener = listen_to_control(&rig);

        insert_two_keys();
        expect_output(PARKED("skip", "--sink", "mail", "2"), "1 parked delivery" SKIPPED);
        cr_expect_eq(count("skip AND outbox_id = 2 AND state = 'blocked' AND due_at <= now()"), 1);
        cr_expect_eq(count("skip"), 1);
        cr_expect_geq(count_notifications(listener), 1);
        expect_output(PARKED("skip", "--sink", "mail", "2"), "1 parked delivery" SKIPPED);
        expect_output(PARKED("skip", "--key", "a", "--state", "blocked", "--yes", "--json"),
            "{\"matched\":2,\"marked\":2,\"dry_run\":false}\n");
        cr_expect_eq(count("skip AND outbox_id IN (2, 3)"), 2);
        cr_expect_eq(count("skip"), 2);
        cr_expect_eq(count("true"), 6);
        PQfinish(listener);
}

Test(parked_command, retry_makes_due_what_can_be_tried)
{
        PGconn *listener = listen_to_control(&rig);
        struct program_run run;

        insert_two_keys();
        run = PARKED("retry", "--sink", "mail", "--key", "a", "--yes");
        cr_expect_eq(run.code, 0);
        cr_expect_str_eq(run.out, "1 parked delivery" RETRIED);
        cr_expect_str_eq(
            run.err, "2 blocked: the relay delivers them when the events before them are done\n");
        program_run_free(&run);
        cr_expect_eq(count("outbox_id = 1 AND due_at <= now() AND NOT skip AND attempts = 3"), 1);
        cr_expect_eq(count("outbox_id IN (4, 6) AND due_at > now()"), 2);
        cr_expect_geq(count_notifications(listener), 1);
        insert_parked(&rig, "key = 'c', state = 'blocked', due_at = '2126-01-01'");
        insert_parked(&rig, "key = 'c'"); /* the first of its key, with a higher id */
        expect_output(PARKED("retry", "--key", "c", "-y"), "1 parked delivery" RETRIED);
        cr_expect_eq(count("outbox_id = 7 AND due_at = '2126-01-01'"), 1);
        cr_expect_eq(count("outbox_id = 8 AND due_at <= now()"), 1);
        expect_output(PARKED("retry", "--sink", "web", "6"), "1 parked delivery" RETRIED);
        cr_expect_eq(count("outbox_id = 6 AND due_at <= now() AND state = 'delayed'"), 1);
        PQfinish(listener);
}

Test(parked_command, a_mark_waits_no_longer_than_the_delivery)
{
        insert_two_keys();
        database_exec(rig.owner,
            "INSERT INTO courier.unmarked (outbox_id, source, source_key, event_id, topic,"
            "  created_at, state, sink, due_at)"
            " SELECT outbox_id, 1, outbox_id::text, event_id, topic, created_at, 'parked', sink,"
            "  due_at FROM courier.parked WHERE outbox_id IN (1, 4, 6)");
        expect_output(PARKED("retry", "--sink", "mail", "1"), "1 parked delivery" RETRIED);
        expect_output(PARKED("skip", "--sink", "web", "6"), "1 parked delivery" SKIPPED);
        expect_value(rig.owner,
            "SELECT string_agg(outbox_id::text, ' ' ORDER BY outbox_id) FROM courier.unmarked"
            " WHERE due_at <= now()",
            "1 6");
}

Test(parked_command, a_dry_run_counts_and_changes_nothing)
{
        PGconn *listener = listen_to_control(&rig);

        insert_two_keys();
        expect_output(
            PARKED("skip", "--all", "--dry-run"), "6 parked deliveries would be marked\n");
        expect_output(PARKED("retry", "--sink", "mail", "--dry-run"),
            "5 parked deliveries would be marked\n");
        cr_expect_eq(count("skip OR (due_at <= now() AND state <> 'blocked')"), 0);
        cr_expect_eq(count_notifications(listener), 0);
        PQfinish(listener);
}

Test(parked_command, many_at_once_need_a_confirmation)
{
        struct program_run run;

        insert_two_keys();
        expect_refusal(PARKED("skip", "--sink", "mail"), 2,
            "parked skip: that would skip 5 parked deliveries; add --yes, or --dry-run");
        expect_refusal(PARKED("retry", "--all"), 2, "that would retry 6 parked deliveries");
        run = terminal_run("[y/N] ", "n\n", "parked", "skip", "--all", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 1, "%s", run.out);
        cr_expect_not_null(strstr(run.out, "skip 6 parked deliveries? [y/N] "), "%s", run.out);
        program_run_free(&run);
        cr_expect_eq(count("skip"), 0);
        run = terminal_run("[y/N] ", "y\n", "parked", "skip", "--all", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.out);
        program_run_free(&run);
        cr_expect_eq(count("skip"), 6);
}

/* The owner holds row 4 and comes to 1 last: a command that waited for 4 with 1 in its hand would
 * make a deadlock of it. */
Test(parked_command, never_holds_a_row_while_it_waits_for_another)
{
        PGconn *relay;
        struct process process;

        insert_two_keys();
        relay = database_connect(rig.dsn);
        database_exec(relay, "BEGIN; UPDATE courier.parked SET attempts = 9 WHERE outbox_id = 4");
        process_start(&process,
            (const char *const[]){
                getenv("PGCOURIER"), "parked", "skip", "--all", "--yes", "--dsn", rig.dsn, NULL},
            NULL, false);
        wait_until_locked_out(&rig, 1);
        database_exec(relay, "UPDATE courier.parked SET attempts = 9 WHERE outbox_id = 1; COMMIT");
        cr_expect_eq(process_wait(&process, 60000), 0);
        cr_expect_eq(count("skip"), 6);
        cr_expect_eq(count("attempts = 9"), 2);
        PQfinish(relay);
}

Test(parked_command, says_what_is_wrong_with_the_command_line)
{
        static const struct {
                const char *words[5];
                int code;
                const char *error;
        } cases[] = {
            {{NULL}, 2, "parked needs a subcommand. Possible: list, skip, retry\n"},
            {{"skp"}, 2, "parked cannot \"skp\"; did you mean \"skip\"?"},
            {{"skip", "5"}, 2, "the same ID may be parked for several sinks: add --sink NAME"},
            {{"retry", "5", "--key", "x"}, 2, "add --sink NAME"},
            {{"skip"}, 2, "parked skip: which parked deliveries? Give IDs"},
            {{"skip", "--blocked", "--all"}, 2, "parked skip takes no --blocked; it is for: list"},
            {{"list", "--blocked", "--state", "retry"}, 2, "--blocked and --state do not go"},
            {{"list", "--state", "rety"}, 2, "is not one of retry, blocked, delayed; did you mean"},
            {{"list", "--fail-empty"}, 8, "there is no parked delivery\n"},
            {{"list", "--blocked", "--fail-empty"}, 8, "there is no blocked key\n"},
            {{"skip", "--sink", "x", "17"}, 8, "that the filters let through has the ID 17"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                expect_refusal(program_run(NULL, "parked", "--dsn", rig.dsn, words[0], words[1],
                                   words[2], words[3], words[4], NULL),
                    cases[i].code, cases[i].error);
        }
}

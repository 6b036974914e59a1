/* `pgcourier dead list` and `show`: all of it is shown, and nothing of it does anything. */
#include "base/alloc.h"
#include "failures_rig.h"
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

TestSuite(dead, .init = start, .fini = stop);

#define DEAD(...) program_run(NULL, "dead", __VA_ARGS__, "--dsn", rig.dsn, NULL)

/* What no terminal may see: ESC, DEL, and CSI in its one-character form. */
static const char *const raw_controls[] = {"\x1b", "\x7f", "\xc2\x9b", "\a"};
#define HOSTILE "E'\\x1b[2J\\u009b2J\\x7f\\x07'"

static void expect_harmless(const char *text)
{
        for (size_t i = 0; i < sizeof raw_controls / sizeof *raw_controls; i++)
                cr_expect_null(strstr(text, raw_controls[i]), "%zu: %s", i, text);
}

Test(dead, list_is_a_table_oldest_first)
{
        insert_dead_letter(&rig,
            "key = 'k-1', topic = 'orders.created', attempts = 12, reason = 'attempts',"
            " error = 'HTTP 503', died_at = '2026-01-02 03:04:05.678+00'");
        insert_dead_letter(&rig, "died_at = '2026-01-02 04:00:00+01', sink = 'web'");
        expect_output(DEAD("list"),
            "ID SINK TOPIC          KEY REASON   ATTEMPTS DIED                 ERROR\n"
            " 1 mail orders.created k-1 attempts       12 2026-01-02T03:04:05Z HTTP 503\n"
            " 2 web  t                  rejected        1 2026-01-02T03:00:00Z no\n");
}

Test(dead, list_names_the_receiver_of_a_sink_that_has_some)
{
        insert_receiver(&rig, 7, "web", "acme");
        insert_dead_letter(&rig, "died_at = '2026-01-02 03:00+00'");
        insert_dead_letter(&rig, "sink = 'web', lane = 7, died_at = '2026-01-02 03:00+00'");
        insert_dead_letter(&rig, "sink = 'web', lane = 8, died_at = '2026-01-02 03:00+00'");
        insert_dead_letter(&rig, "sink = 'mail', lane = 7, died_at = '2026-01-02 03:00+00'");
        expect_output(DEAD("list"),
            "ID SINK RECEIVER TOPIC KEY REASON   ATTEMPTS DIED                 ERROR\n"
            " 1 mail          t         rejected        1 2026-01-02T03:00:00Z no\n"
            " 2 web  acme     t         rejected        1 2026-01-02T03:00:00Z no\n"
            " 3 web  #8       t         rejected        1 2026-01-02T03:00:00Z no\n"
            " 4 mail #7       t         rejected        1 2026-01-02T03:00:00Z no\n");
        expect_output(DEAD("list", "--receiver", "acme"),
            "ID SINK RECEIVER TOPIC KEY REASON   ATTEMPTS DIED                 ERROR\n"
            " 2 web  acme     t         rejected        1 2026-01-02T03:00:00Z no\n");
        expect_output(DEAD("list", "--receiver", "#8"),
            "ID SINK RECEIVER TOPIC KEY REASON   ATTEMPTS DIED                 ERROR\n"
            " 3 web  #8       t         rejected        1 2026-01-02T03:00:00Z no\n");
        expect_refusal(
            DEAD("list", "--receiver", "nobody", "--fail-empty"), 8, "no dead letter matches");
}

Test(dead, list_lets_through_what_every_filter_says)
{
        static const struct {
                const char *words[6];
                const char *ids;
        } cases[] = {
            {{"--sink", "web"}, "2"},
            {{"--topic", "orders.created"}, "3"},
            {{"--topic", "orders.*"}, "3 4"},
            {{"--topic", "*s**c*d"}, "3"},
            {{"--topic", "*s*c*d"}, ""},
            {{"--key", "17"}, "4 5"},
            {{"--reason", "skipped"}, "6"},
            {{"--older-than", "2h"}, "1"},
            {{"--newer-than", "2h"}, "2 3 4 5 6"},
            {{"--older-than", "30m", "--newer-than", "90m"}, "2"},
            {{"--key", "17", "--topic", "orders.*"}, "4"},
            {{"--limit", "2"}, "1 2"},
            {{"--limit", "1", "--key", "17"}, "4"},
            {{"5", "3", "99"}, "3 5"},
            {{"5", "3", "--key", "17"}, "5"},
            {{"--older-than", "36500d"}, ""},
            {{"--older-than", "0"}, "1 2 3 4 5 6"},
        };

        insert_dead_letter(&rig, "died_at = now() - interval '3 hours'");
        insert_dead_letter(&rig, "sink = 'web', died_at = now() - interval '1 hour'");
        insert_dead_letter(&rig, "topic = 'orders.created'");
        insert_dead_letter(&rig, "topic = 'orders.paid', key = '17'");
        insert_dead_letter(&rig, "topic = 'ordersXpaid', key = '17'");
        insert_dead_letter(&rig, "reason = 'skipped'");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                struct program_run run = program_run(NULL, "dead", "list", "--json", "--dsn",
                    rig.dsn, words[0], words[1], words[2], words[3], words[4], words[5], NULL);
                char *ids = join_integers(read_json_lines(run), "id");
                cr_expect_str_eq(ids, cases[i].ids, "%zu: %s", i, ids);
                free(ids);
        }
}

Test(dead, filters_are_values_and_neither_sql_nor_patterns_of_sql)
{
        static const struct {
                const char *option;
                const char *value;
        } cases[] = {
            {"--sink", "mail' OR '1'='1"},
            {"--sink", "'; DROP TABLE courier.dead_letter; --"},
            {"--key", "k' OR true --"},
            {"--key", "$1"},
            {"--key", "\\x"},
            {"--topic", "%"},
            {"--topic", "_rders"},
            {"--topic", "order\\s"},
            {"--topic", "orders' OR 'a' LIKE 'a"},
        };

        insert_dead_letter(&rig, "topic = 'orders', key = 'k'");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                struct program_run run = DEAD("list", cases[i].option, cases[i].value);
                cr_expect_eq(run.code, 0, "%zu: %s", i, run.err);
                cr_expect_str_empty(run.out, "%zu: %s", i, run.out);
                cr_expect_str_eq(run.err, "no dead letter matches\n", "%zu: %s", i, run.err);
                program_run_free(&run);
                run = DEAD("drop", "--yes", cases[i].option, cases[i].value);
                cr_expect_eq(run.code, 0, "%zu: %s", i, run.err);
                program_run_free(&run);
        }
        cr_expect_eq(database_integer(rig.owner, "SELECT count(*) FROM courier.dead_letter"), 1);
}

Test(dead, a_topic_with_characters_of_patterns_is_found_by_its_name)
{
        char *ids;

        insert_dead_letter(&rig, "topic = 'a%b_c\\d'");
        insert_dead_letter(&rig, "topic = 'aXbYcZd'");
        ids = join_integers(read_json_lines(DEAD("list", "--json", "--topic", "a%b_c\\d")), "id");
        cr_expect_str_eq(ids, "1");
        free(ids);
}

Test(dead, json_has_all_fields_of_a_list)
{
        static const char expected[] =
            "{\"id\": 1, \"sink\": \"web\", \"lane\": 3, \"receiver\": \"#3\", \"target\": "
            "\"https://x/\", \"reason\": "
            "\"age\","
            " \"attempts\": 7, \"error\": \"second\", \"died_at\": \"2026-01-02T03:04:05.678901Z\","
            " \"first_error\": \"first\", \"first_failed_at\": \"2026-01-01T00:00:00.000000Z\","
            " \"is_redriven\": true, \"outbox_id\": 41,"
            " \"event_id\": \"00000000-0000-0000-0000-000000000001\", \"source\": null,"
            " \"source_key\": null, \"topic\": \"o\","
            " \"key\": \"17\", \"type\": \"y\", \"created_at\": \"2025-12-31T23:00:00.000000Z\"}";
        json_t *wanted = json_loads(expected, 0, NULL);
        json_t *lines;

        insert_dead_letter(&rig,
            "sink = 'web', lane = 3, target = 'https://x/', reason = 'age', attempts = 7,"
            " error = 'second', died_at = '2026-01-02 03:04:05.678901+00', first_error = 'first',"
            " first_failed_at = '2026-01-01 00:00+00', is_redriven = true, outbox_id = 41,"
            " event_id = '00000000-0000-0000-0000-000000000001', topic = 'o', key = '17',"
            " type = 'y', created_at = '2026-01-01 00:00+01'");
        insert_dead_letter(&rig, NULL);
        lines = read_json_lines(DEAD("list", "--json"));
        cr_expect_eq(json_array_size(lines), 2);
        cr_expect(json_equal(json_array_get(lines, 0), wanted), "%s",
            json_dumps(json_array_get(lines, 0), 0));
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 1), "key")));
        json_decref(lines);
        json_decref(wanted);
}

Test(dead, show_has_the_whole_event)
{
        struct program_run run;
        json_t *lines;
        json_t *shown;

        insert_dead_letter(&rig, "key = '17', headers = '{\"tenant\": \"a\", \"n\": 1}',"
                                 " payload = E'{\"b\": 1.50,\\r\\n  \"b\": 2}'");
        run = DEAD("show", "1");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_not_null(strstr(run.out, "\nkey            17\n"), "%s", run.out);
        cr_expect_not_null(
            strstr(run.out, "\nheaders        {\"n\": 1, \"tenant\": \"a\"}\n"), "%s", run.out);
        cr_expect_not_null(strstr(run.out, "\npayload_bytes  22\n"), "%s", run.out);
        cr_expect_not_null(
            strstr(run.out, "\npayload        {\"b\": 1.50,\\x0d\n                 \"b\": 2}\n"),
            "%s", run.out);
        cr_expect_null(strstr(run.out, "data_base64"), "%s", run.out);
        program_run_free(&run);

        run = DEAD("show", "1", "--json");
        cr_expect_not_null(
            strstr(run.out, ",\"payload\":{\"b\": 1.50,    \"b\": 2},"), "%s", run.out);
        run.out[strcspn(run.out, "\n")] = '\0';
        shown = json_loads(run.out, 0, NULL); /* members may be doubled in it, as they are here */
        cr_assert_not_null(shown, "%s", run.out);
        cr_expect_eq(json_integer_value(json_object_get(shown, "payload_bytes")), 22);
        cr_expect_str_eq(
            json_string_value(json_object_get(json_object_get(shown, "headers"), "tenant")), "a");
        cr_expect(json_is_null(json_object_get(shown, "data_base64")));
        json_decref(shown);
        program_run_free(&run);

        insert_dead_letter(&rig, "payload = NULL, data = '\\x00ff0a'");
        lines = read_json_lines(DEAD("show", "2", "--json"));
        shown = json_array_get(lines, 0);
        cr_expect_str_eq(json_string_value(json_object_get(shown, "data_base64")), "AP8K");
        cr_expect(json_is_null(json_object_get(shown, "payload")));
        cr_expect_eq(json_integer_value(json_object_get(shown, "payload_bytes")), 3);
        json_decref(lines);
        run = DEAD("show", "2");
        cr_expect_not_null(strstr(run.out, "\ndata_base64    AP8K\n"), "%s", run.out);
        program_run_free(&run);
}

Test(dead, show_names_the_table_of_an_event)
{
        struct program_run run;
        json_t *lines;

        database_exec(rig.owner, "CREATE TABLE public.m (id integer PRIMARY KEY, topic text,"
                                 " key text, type text, payload jsonb, headers jsonb);"
                                 "SELECT courier.attach('public.m')");
        insert_dead_letter(&rig, "source = 1, source_key = '9'");
        insert_dead_letter(&rig, NULL);
        run = DEAD("show", "1");
        cr_expect_not_null(
            strstr(run.out, "\nsource         public.m\nsource_key     9\n"), "%s", run.out);
        program_run_free(&run);
        run = DEAD("show", "2");
        cr_expect_null(strstr(run.out, "\nsource"), "%s", run.out);
        program_run_free(&run);

        /* A table that has another name now, one that is gone, and a tap that is. */
        database_exec(rig.owner, "ALTER TABLE m RENAME TO n");
        lines = read_json_lines(DEAD("show", "1", "--json"));
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(lines, 0), "source")), "public.n");
        json_decref(lines);
        database_exec(rig.owner, "DROP TABLE n");
        lines = read_json_lines(DEAD("list", "--json"));
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(lines, 0), "source")), "public.m");
        cr_expect(json_is_null(json_object_get(json_array_get(lines, 1), "source")));
        json_decref(lines);
        database_exec(rig.owner, "SELECT courier.detach('m')");
        lines = read_json_lines(DEAD("show", "1", "--json"));
        cr_expect_str_eq(
            json_string_value(json_object_get(json_array_get(lines, 0), "source")), "tap 1");
        json_decref(lines);
}

Test(dead, long_data_is_one_word)
{
        json_t *lines;

        insert_dead_letter(&rig, "payload = NULL, data = convert_to(repeat('x', 3000), 'UTF8')");
        lines = read_json_lines(DEAD("show", "1", "--json"));
        cr_expect_eq(
            strlen(json_string_value(json_object_get(json_array_get(lines, 0), "data_base64"))),
            4000);
        json_decref(lines);
}

Test(dead, control_characters_reach_no_terminal)
{
        struct program_run run;
        json_t *lines;
        const json_t *line;

        insert_dead_letter(&rig,
            "topic = 't', key = " HOSTILE ", error = " HOSTILE ", target = " HOSTILE
            ", type = " HOSTILE ", payload = E'\"\\u009b\\x7f\"',"
            " headers = E'{\"a\": \"\\u009b\\x7f\"}'");
        insert_dead_letter(&rig, "key = E'1\\nid 99'");

        run = terminal_run(NULL, NULL, "dead", "list", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 0, "%s", run.out);
        expect_harmless(run.out);
        program_run_free(&run);
        run = DEAD("list");
        expect_harmless(run.out);
        cr_expect_not_null(strstr(run.out, "\\x1b[2J"), "%s", run.out);
        program_run_free(&run);
        run = DEAD("show", "1");
        expect_harmless(run.out);
        cr_expect_not_null(
            strstr(run.out, "\nkey            \\x1b[2J\\x9b2J\\x7f\\x07\n"), "%s", run.out);
        program_run_free(&run);
        run = DEAD("show", "2");
        cr_expect_null(strstr(run.out, "\nid 99"), "%s", run.out);
        program_run_free(&run);

        run = DEAD("show", "1", "--json");
        expect_harmless(run.out);
        lines = read_json_lines(run);
        line = json_array_get(lines, 0);
        cr_expect_str_eq(json_string_value(json_object_get(line, "key")), "\x1b[2J\xc2\x9b"
                                                                          "2J\x7f\a");
        cr_expect_str_eq(json_string_value(json_object_get(line, "payload")), "\xc2\x9b\x7f");
        json_decref(lines);
        run = DEAD("list", "--json");
        expect_harmless(run.out);
        json_decref(read_json_lines(run));
}

Test(dead, long_words_are_cut_at_a_terminal_only)
{
        struct program_run run;

        insert_dead_letter(&rig, "error = repeat('because ', 40) || 'end'");
        run = terminal_run(NULL, NULL, "dead", "list", "--dsn", rig.dsn, NULL);
        cr_expect_eq(run.code, 0);
        cr_expect_not_null(strstr(run.out, "becaus"), "%s", run.out);
        for (char *line = strtok(run.out, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
                cr_expect_leq(strlen(line), 80, "%s", line);
        program_run_free(&run);
        run = DEAD("list");
        cr_expect_not_null(strstr(run.out, "because end\n"), "%s", run.out);
        program_run_free(&run);
}

Test(dead, lists_of_any_length_come_page_by_page)
{
        struct program_run run;
        json_t *lines;
        size_t n_lines = 0;

        database_exec(rig.owner,
            "INSERT INTO courier.dead_letter"
            " (sink, lane, outbox_id, reason, attempts, error, event_id, topic, payload, "
            "created_at)"
            "SELECT 'mail', 0, i, 'age', 1, 'no', gen_random_uuid(), 't', '{}', now()"
            " FROM generate_series(1, 2500) AS i");
        lines = read_json_lines(DEAD("list", "--json"));
        cr_expect_eq(json_array_size(lines), 2500);
        cr_expect_eq(json_integer_value(json_object_get(json_array_get(lines, 2499), "id")), 2500);
        json_decref(lines);
        lines = read_json_lines(DEAD("list", "--json", "--limit", "1200"));
        cr_expect_eq(json_array_size(lines), 1200);
        json_decref(lines);
        run = DEAD("list");
        for (const char *at = run.out; (at = strchr(at, '\n')) != NULL; at++)
                n_lines++;
        cr_expect_eq(n_lines, 2503);
        program_run_free(&run);
}

Test(dead, an_empty_list_is_reported_and_an_error_only_on_demand)
{
        struct program_run run = DEAD("list");

        cr_expect_eq(run.code, 0);
        cr_expect_str_empty(run.out);
        cr_expect_str_eq(run.err, "there is no dead letter\n");
        program_run_free(&run);
        expect_refusal(DEAD("list", "--fail-empty"), 8, "pgcourier: there is no dead letter\n");
        expect_refusal(DEAD("list", "--fail-empty", "--sink", "x"), 8, "no dead letter matches\n");
        expect_refusal(DEAD("show", "17"), 8, "no dead letter has the ID 17\n");
}

Test(dead, says_what_is_wrong_with_the_command_line)
{
        static const struct {
                const char *words[5];
                const char *error;
        } cases[] = {
            {{NULL}, "dead needs a subcommand. Possible: list, show, redrive, drop\n"},
            {{"lits"}, "dead cannot \"lits\"; did you mean \"list\"? Possible: list,"},
            {{"list", "--yes"}, "dead list takes no --yes; it is for: redrive, drop\n"},
            {{"show", "1", "--sink", "x"}, "dead show takes no --sink; it is for: list, redrive"},
            {{"show"}, "dead show: an argument is missing"},
            {{"show", "1", "2"}, "dead show: unexpected argument \"2\""},
            {{"list", "x"}, "\"x\" is not an ID"},
            {{"drop", "0"}, "\"0\" is not an ID"},
            {{"drop", "9223372036854775808"}, "is not an ID"},
            {{"drop", "1,2"}, "\"1,2\" is not an ID"},
            {{"list", "--reason", "agee"}, "--reason: \"agee\" is not one of rejected, attempts, "
                                           "age, too_large, unjudged, skipped; did you mean "
                                           "\"age\"?"},
            {{"list", "--older-than", "5"},
                "--older-than: \"5\" is not a whole number with a unit"},
            {{"list", "--newer-than", "36501d"}, "--newer-than: \"36501d\" is more than 36500d"},
            {{"list", "--limit", "0"}, "--limit: \"0\" is not a whole number above 0"},
            {{"list", "--key", ""}, "--key is empty, which matches nothing"},
            {{"list", "--sink", ""}, "--sink is empty"},
            {{"list", "--key", "\xff"}, "a value is not valid: invalid byte sequence"},
            {{"redrive"}, "dead redrive: which dead letters? Give IDs, filters such as"},
            {{"redrive", "--limit", "5"}, "dead redrive: which dead letters?"},
            {{"drop", "--yes"}, "dead drop: which dead letters?"},
            {{"drop", "--all", "1"}, "--all cannot be combined with IDs or filters"},
            {{"drop", "--all", "--sink", "x"}, "--all cannot be combined with IDs or filters"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                expect_refusal(program_run(NULL, "dead", "--dsn", rig.dsn, words[0], words[1],
                                   words[2], words[3], words[4], NULL),
                    2, cases[i].error);
        }
}

Test(dead, says_what_is_missing_in_the_database)
{
        char *app_dsn = dsn_as_user(rig.dsn, "app");
        char *empty_dsn = postgres_new_empty_database(postgres_shared());

        expect_refusal(program_run(NULL, "dead", "list", "--dsn", app_dsn, NULL), 7,
            "An administrator can allow it: GRANT courier_relay TO \"app\"\n");
        expect_refusal(
            program_run(NULL, "dead", "list", "--dsn", empty_dsn, NULL), 6, "pgcourier migrate");
        free(empty_dsn);
        free(app_dsn);
}

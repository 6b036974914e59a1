/* `pgcourier receiver`: what it makes of a command line, and that it keeps secrets. */
#include "base/alloc.h"
#include "failures_rig.h"
#include "support/postgres_expect.h"

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

TestSuite(receiver_command, .init = start, .fini = stop);

#define RECEIVER(...) program_run(NULL, "receiver", __VA_ARGS__, "--dsn", rig.dsn, NULL)
#define ADD(...)      RECEIVER("add", __VA_ARGS__, "--sink", "web")
#define SECRET        "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

/* Standard output is that, and standard error has that text. */
#define expect_both(run, expected_out, expected_err)                                               \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, 0, "exit code %d: %s", actual.code, actual.err);         \
                cr_expect_str_eq(actual.out, (expected_out), "%s", actual.out);                    \
                cr_expect_not_null(strstr(actual.err, (expected_err)), "%s", actual.err);          \
                program_run_free(&actual);                                                         \
        } while (0)

static void add_acme(void)
{
        database_exec(rig.owner,
            "INSERT INTO courier.receiver (sink, name, url, secret, headers, topics)"
            " VALUES ('web', 'acme', 'https://acme.example/hook?token=t', '" SECRET "',"
            " '{\"Authorization\": \"Bearer b\"}', '{orders.*,!orders.x}')");
}

Test(receiver_command, add_prints_the_new_secret_once)
{
        struct program_run run = ADD("acme", "--url", "https://acme.example/hook");
        char *secret = database_value(rig.owner, "SELECT secret || E'\\n' FROM courier.receiver");

        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_str_eq(run.out, secret);
        cr_expect_not_null(strstr(run.err, "added acme to web; its receiver"), "%s", run.err);
        cr_expect_not_null(
            strstr(run.err, "no relay has run a sink web here so far"), "%s", run.err);
        cr_expect_null(strstr(run.err, "whsec_"));
        program_run_free(&run);
        free(secret);
}

Test(receiver_command, add_takes_all_that_can_be_said_of_one)
{
        char *path = program_file("secret", SECRET "\n", strlen(SECRET) + 1);

        expect_both(ADD("acme", "--url", "https://acme.example/", "--topics", "orders.*, !orders.x",
                        "--topics", "a\"b", "--types=x", "--filter=$.total > 100", "--header",
                        "Authorization: Bearer b", "--header", "X-Empty:", "--concurrency=4",
                        "--rate=0.5", "--burst=3", "--description=A customer", "--start=beginning",
                        "--secret-file", path),
            "", "added acme to web\n");
        expect_value(rig.owner,
            "SELECT (topics, types, filter, headers, concurrency, rate, burst, description,"
            " start, secret)::text FROM courier.receiver",
            "(\"{orders.*,!orders.x,\"\"a\\\\\"\"b\"\"}\",{x},\"($.\"\"total\"\" > 100)\","
            "\"{\"\"X-Empty\"\": \"\"\"\", \"\"Authorization\"\": \"\"Bearer b\"\"}\","
            "4,0.5,3,\"A customer\",beginning," SECRET ")");
        free(path);
}

Test(receiver_command, add_says_what_is_wrong_and_never_shows_a_secret)
{
        static const struct {
                const char *words[5];
                const char *complaint;
        } cases[] = {
            {{"a b", "--url", "https://x/"}, "receiver a b: name must be 1 to 100 of letters"},
            {{"a"}, "receiver add needs a URL: add --url"},
            {{"a", "--url", ""}, "--url is empty"},
            {{"a", "--url", "gopher://x/"}, "receiver a: url must begin with http or https"},
            {{"a", "--url", "https://u:p@x/"}, "receiver a: url must not contain a user"},
            {{"a", "--url", "https://x/\r\nHost: y"}, "receiver a: url must be of visible ascii"},
            {{"a", "--url", "https://x/\xff"}, "a value is not valid: invalid byte"},
            {{"a", "--url", "https://x/", "--topics", "a,,b"},
                "--topics: there is an empty pattern"},
            {{"a", "--url", "https://x/", "--topics", "!a"}, "topics must not all exclude"},
            {{"a", "--url", "https://x/", "--types", ","}, "--types: there is an empty pattern"},
            {{"a", "--url", "https://x/", "--filter", "$.a >"}, "--filter: syntax error"},
            {{"a", "--url", "https://x/", "--filter", "$.a like_regex \"[\""},
                "--filter: invalid regular expression"},
            {{"a", "--url", "https://x/", "--header", "x"}, "--header: \"x\" is not 'NAME: VALUE'"},
            {{"a", "--url", "https://x/", "--header", "a b: c"},
                "--header: \"a b\" is not the name"},
            {{"a", "--url", "https://x/", "--header", "a: b\nc: d"},
                "header values must not contain"},
            {{"a", "--url", "https://x/", "--header", "a: \xff"}, "value of a is not valid UTF-8"},
            {{"a", "--url", "https://x/", "--rate", "fast"}, "--rate: \"fast\" is not a number"},
            {{"a", "--url", "https://x/", "--rate", "10000000"}, "rate must be 0 to 1000000"},
            {{"a", "--url", "https://x/", "--burst", "-1"},
                "--burst: \"-1\" is not a whole number"},
            {{"a", "--url", "https://x/", "--concurrency", "0"}, "concurrency must be 1 to 1024"},
            {{"a", "--url", "https://x/", "--concurrency", "99999999999"}, "out of range"},
            {{"a", "--url", "https://x/", "--start", "soon"}, "start must be now or beginning"},
            {{"acme", "--url", "https://x/"}, "there is a receiver \"acme\" already"},
        };

        add_acme();
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *words = cases[i].words;
                struct program_run run = program_run(NULL, "receiver", "--sink", "web", "--dsn",
                    rig.dsn, "add", words[0], words[1], words[2], words[3], words[4], NULL);
                cr_expect_null(strstr(run.err, "whsec_"), "%zu: %s", i, run.err);
                expect_refusal(run, 2, cases[i].complaint);
        }
        expect_value(rig.owner, "SELECT count(*) FROM courier.receiver", "1");
}

Test(receiver_command, add_reads_a_secret_only_if_it_is_one)
{
        char *path = program_file("secret", "hunter2\n", 8);

        expect_refusal(ADD("a", "--url", "https://x/", "--secret-file", path), 2,
            "receiver a: secret must be whsec and 24 to 64 bytes in base64");
        expect_refusal(
            ADD("a", "--url", "https://x/", "--secret-file", "/nowhere"), 3, "--secret-file: /now");
        free(path);
}

static char *config_file(const char *sinks)
{
        char *text = xasprintf("postgres:\n  dsn: %s\nsinks:\n%s", rig.dsn, sinks);
        char *path = program_file("pgcourier.yaml", text, strlen(text));

        free(text);
        return path;
}

#define REDIS_SINK "  - {name: cache, topics: [a], redis: {url: 'redis://127.0.0.1'}}\n"

Test(receiver_command, add_finds_the_sink_in_the_configuration)
{
        char *without = config_file(REDIS_SINK);

        expect_refusal(program_run(NULL, "receiver", "add", "a", "--url", "https://x/", "--dsn",
                           rig.dsn, NULL),
            2, "receiver add needs a sink: add --sink NAME, or -c FILE");
        expect_refusal(
            program_run(NULL, "receiver", "add", "a", "--url", "https://x/", "-c", without, NULL),
            2, "the configuration has no sink with receivers: table");
        expect_refusal(RECEIVER("add", "a", "--url", "https://x/", "--sink", "Web"), 2,
            "\"Web\" is not a sink's name");
        free(without);
}

Test(receiver_command, add_refuses_a_receiver_that_would_never_get_an_event)
{
        char *with = config_file("  - {name: next, topics: ['**'], http: {receivers: table}}\n");
        char *path = program_file("secret", SECRET "\n", strlen(SECRET) + 1);

        expect_refusal(ADD("a", "--url", "https://x/", "--filter", "$.total"), 2,
            "receiver a: the filter is refused: it is not a predicate: compare");
        database_exec(rig.owner, "INSERT INTO courier.sink (name, fans_out) VALUES ('web', true)");
        expect_refusal(RECEIVER("add", "a", "--url", "https://x/", "--sink", "wep"), 2,
            "there is no sink wep with receivers: table; there are: web. If the relay");
        /* The file knows a sink that no relay has served yet. */
        expect_refusal(program_run(NULL, "receiver", "add", "a", "--url", "https://10.0.0.1/", "-c",
                           with, NULL),
            2, "receiver a: ");
        expect_refusal(
            program_run(NULL, "receiver", "add", "a", "--url", "https://[::1]/", "-c", with, NULL),
            2, "allow_networks");
        expect_both(program_run(NULL, "receiver", "add", "a", "--url", "https://x.example/",
                        "--secret-file", path, "-c", with, NULL),
            "", "added a to next\n");
        free(path);
        expect_value(
            rig.owner, "SELECT string_agg(name, ',' ORDER BY name) FROM courier.sink", "next,web");
        free(with);
}

Test(receiver_command, names_are_completed)
{
        char *path = config_file(REDIS_SINK);

        add_acme();
        expect_both(program_run(NULL, "completion", "receivers", "-c", path, NULL), "acme\n", "");
        free(path);
}

Test(receiver_command, list_names_receivers_that_no_relay_serves)
{
        struct program_run run;

        add_acme();
        run = RECEIVER("list");
        cr_expect_not_null(strstr(run.out, "no relay serves its sink\n"), "%s", run.out);
        program_run_free(&run);
}

Test(receiver_command, list_shows_the_state_of_each)
{
        add_acme();
        insert_receiver(&rig, 5, "mail", "zed");
        database_exec(rig.owner,
            "UPDATE courier.receiver SET failing_since = '2026-01-02 03:04:05Z',"
            " last_error = E'HTTP 500\\x1b[2J' WHERE name = 'acme';"
            "UPDATE courier.receiver SET state = 'disabled', state_reason = 'gone'"
            " WHERE name = 'zed';"
            "ALTER TABLE courier.receiver DISABLE TRIGGER keep_receiver;"
            "UPDATE courier.receiver SET state_since = '2026-01-02 03:04:05Z'");
        insert_parked(&rig, "sink = 'web', lane = 1");
        insert_dead_letter(&rig, "sink = 'mail', lane = 5");
        expect_output(RECEIVER("list"),
            "NAME SINK STATE    SINCE                DELIVERED WAITING RETRYING DEAD TOPICS"
            "             URL                           REASON\n"
            "acme web  failing  2026-01-02T03:04:05Z                 0        1    0 "
            "orders.*,!orders.x https://acme.example/hook?... HTTP 500\\x1b[2J\n"
            "zed  mail disabled 2026-01-02T03:04:05Z                 0        0    1 "
            "**,!courier.**     https://x/                    gone\n");
        expect_output(RECEIVER("list", "--search", "ZE", "--state", "disabled", "--limit", "1"),
            "NAME SINK STATE    SINCE                DELIVERED WAITING RETRYING DEAD TOPICS"
            "         URL        REASON\n"
            "zed  mail disabled 2026-01-02T03:04:05Z                 0        0    1 "
            "**,!courier.** https://x/ gone\n");
        expect_both(RECEIVER("list", "--state", "active"), "", "no receiver matches\n");
        expect_both(RECEIVER("list", "--state", "paused"), "", "no receiver matches\n");
        expect_refusal(RECEIVER("list", "--state", "paused", "--fail-empty"), 8, "no receiver");
        expect_refusal(RECEIVER("list", "--state", "pausd"), 2, "did you mean \"paused\"?");
        database_exec(rig.owner, "DELETE FROM courier.receiver");
        expect_both(RECEIVER("list"), "", "there are no receivers; `pgcourier receiver add");
}

Test(receiver_command, list_as_json_has_all_but_the_secrets)
{
        struct program_run run;
        json_t *lines;
        json_t *line;

        add_acme();
        insert_receiver(&rig, 5, "mail", "zed");
        run = RECEIVER("list", "--json", "--sink", "web");
        cr_expect_null(strstr(run.out, "+00:00"), "a time without Z: %s", run.out);
        cr_expect_null(strstr(run.out, "whsec_"));
        cr_expect_null(strstr(run.out, "token=t"));
        cr_expect_null(strstr(run.out, "Bearer"));
        lines = read_json_lines(run);
        cr_expect_eq(json_array_size(lines), 1);
        line = json_array_get(lines, 0);
        cr_expect_str_eq(json_string_value(json_object_get(line, "name")), "acme");
        cr_expect_eq(json_array_size(json_object_get(line, "topics")), 2);
        cr_expect_eq(json_integer_value(json_object_get(line, "lane")), 1);
        cr_expect_eq(json_integer_value(json_object_get(line, "retrying")), 0);
        cr_expect(json_is_null(json_object_get(line, "failing_since")));
        json_decref(lines);
}

Test(receiver_command, show_hides_secrets_unless_told_otherwise)
{
        static const char *const hidden[] = {SECRET, "token=t", "Bearer b"};
        struct program_run plain, all, json;

        add_acme();
        plain = RECEIVER("show", "acme");
        all = RECEIVER("show", "acme", "--secrets");
        json = RECEIVER("show", "acme", "--json", "--secrets");
        cr_expect_null(strstr(json.out, "+00:00"), "a time without Z: %s", json.out);
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
                cr_expect_null(strstr(plain.out, hidden[i]), "%s", plain.out);
                cr_expect_not_null(strstr(all.out, hidden[i]), "%s", all.out);
                cr_expect_not_null(strstr(json.out, hidden[i]), "%s", json.out);
        }
        cr_expect_not_null(strstr(plain.out, "\nsink         web\n"), "%s", plain.out);
        cr_expect_not_null(strstr(plain.out, "Authorization"), "%s", plain.out);
        cr_expect_eq(strchr(json.out, '\n'), json.out + strlen(json.out) - 1);
        program_run_free(&json);
        program_run_free(&all);
        program_run_free(&plain);
}

Test(receiver_command, set_changes_what_is_given)
{
        add_acme();
        expect_output(RECEIVER("set", "acme", "--url", "https://new.example/h", "--topics",
                          "stock.*, orders.**", "--filter", "$.n > 1", "--rate", "2.5", "--header",
                          "X-A: 1", "--header", "Authorization:", "--description", "moved"),
            "changed acme\n");
        expect_value(rig.owner,
            "SELECT format('%s %s %s %s %s %s', url, topics, filter, rate, headers, description)"
            " FROM courier.receiver",
            "https://new.example/h {stock.*,orders.**} ($.\"n\" > 1) 2.5 {\"X-A\": \"1\"} moved");
        expect_output(RECEIVER("set", "acme", "--filter", "", "--types", "", "--description", ""),
            "changed acme\n");
        expect_value(rig.owner,
            "SELECT filter IS NULL AND types = '{}' AND description IS NULL AND rate = 2.5"
            " FROM courier.receiver",
            "t");
        expect_refusal(RECEIVER("set", "acme"), 2, "needs something to change: --url");
        expect_refusal(RECEIVER("set", "acme", "--url", "ftp://x"), 2,
            "url must begin with http or https and a host");
        expect_refusal(RECEIVER("set", "acme", "--filter", "$.n"), 2, "it is not a predicate");
        expect_refusal(RECEIVER("set", "acne", "--rate", "1"), 8, "did you mean \"acme\"?");
        expect_refusal(RECEIVER("set", "acme", "--start", "now"), 2, "has no option --start");
}

/* Where a relay has the sink's file, the sink says what it would never deliver to. */
Test(receiver_command, set_lets_the_sink_check_the_url)
{
        char *path = config_file("  - {name: web, topics: [\"**\"], http: {receivers: table}}\n");

        add_acme();
        expect_refusal(program_run(NULL, "receiver", "set", "acme", "--url", "https://10.0.0.1/",
                           "-c", path, NULL),
            2, "allow_networks");
        expect_value(
            rig.owner, "SELECT count(*) FROM courier.receiver WHERE url LIKE '%10.0%'", "0");
        free(path);
}

Test(receiver_command, recover_sends_what_was_given_up_again)
{
        add_acme();
        insert_dead_letter(&rig, "sink = 'web', lane = 1");
        insert_dead_letter(&rig, "sink = 'web', lane = 1, outbox_id = 2");
        insert_dead_letter(&rig, "sink = 'mail', lane = 5");
        database_exec(rig.owner,
            "UPDATE courier.dead_letter SET died_at = now() - interval '3 h' WHERE outbox_id = 2");
        expect_output(
            RECEIVER("recover", "acme", "--dry-run"), "2 events would be sent to acme again\n");
        expect_output(
            RECEIVER("recover", "acme", "--since", "2h"), "1 event is on its way to acme again\n");
        expect_value(rig.owner,
            "SELECT string_agg(sink || lane, ',' ORDER BY sink) FROM courier.dead_letter",
            "mail5,web1");
        expect_value(
            rig.owner, "SELECT sink || lane || is_redriven FROM courier.parked", "web1true");
        expect_refusal(RECEIVER("recover", "acne"), 8, "did you mean \"acme\"?");
        expect_refusal(
            RECEIVER("recover", "acme", "--since", "soon"), 2, "--since: \"soon\" is not");
}

Test(receiver_command, pause_and_resume_tell_the_relay_and_print_the_former_state)
{
        PGconn *listener;

        add_acme();
        listener = listen_to_control(&rig);
        expect_output(RECEIVER("pause", "acme", "--reason", "by phone"), "acme is paused\n");
        cr_expect_eq(count_notifications(listener), 1);
        expect_output(RECEIVER("pause", "acme"), "acme was already paused\n");
        expect_value(rig.owner, "SELECT state || ' ' || state_reason FROM courier.receiver",
            "paused by phone");
        expect_output(RECEIVER("resume", "acme"), "acme goes on\n");
        expect_value(rig.owner,
            "SELECT state_reason IS NULL FROM courier.receiver WHERE state = 'active'", "t");
        expect_both(RECEIVER("resume", "acme"), "", "acme is neither paused nor disabled\n");
        database_exec(rig.owner, "SELECT courier.disable_receiver(1, 'gone')");
        expect_output(RECEIVER("resume", "acme"), "acme goes on\n");
        expect_refusal(RECEIVER("pause", "acme", "--reason", "a\nb"), 2, "state reason must not");
        PQfinish(listener);
}

Test(receiver_command, a_name_that_does_not_exist_is_told_with_the_nearest)
{
        static const char *const verbs[] = {"show", "pause", "resume", "remove", "rotate-secret"};

        add_acme();
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
                expect_refusal(RECEIVER(verbs[i], "acne"), 8,
                    "there is no receiver \"acne\"; did you mean \"acme\"?");
        expect_refusal(RECEIVER("show", "nobody"), 8, "see `pgcourier receiver list --dsn ");
}

Test(receiver_command, remove_asks_and_keeps_dead_letters)
{
        add_acme();
        insert_parked(&rig, "sink = 'web', lane = 1");
        insert_dead_letter(&rig, "sink = 'web', lane = 1");
        expect_refusal(RECEIVER("remove", "acme"), 2,
            "acme has 0 undelivered events and 1 parked delivery, which would go, and 1 dead "
            "letter, "
            "which would stay; add --yes");
        expect_value(rig.owner, "SELECT count(*) FROM courier.receiver", "1");
        expect_output(RECEIVER("remove", "acme", "--yes"),
            "removed acme; with it go 0 undelivered events and 1 parked delivery; what stays: 1 "
            "dead "
            "letter\n");
        expect_value(rig.owner, "SELECT count(*) FROM courier.receiver", "0");
        expect_value(rig.owner, "SELECT count(*) FROM courier.dead_letter", "1");
}

Test(receiver_command, rotate_secret_lets_the_old_one_sign_for_a_while)
{
        char *path = program_file("secret", SECRET "\n", strlen(SECRET) + 1);
        struct program_run run;
        char *secret;

        add_acme();
        run = RECEIVER("rotate-secret", "acme", "--overlap", "2h");
        secret = database_value(rig.owner, "SELECT secret || E'\\n' FROM courier.receiver");
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_str_eq(run.out, secret);
        cr_expect_not_null(strstr(run.err, "and with the old one until 20"), "%s", run.err);
        cr_expect_null(strstr(run.err, "whsec_"));
        expect_value(rig.owner,
            "SELECT old_secrets = '{" SECRET "}' AND old_secrets_until BETWEEN"
            " now() + interval '1 h' AND now() + interval '3 h' FROM courier.receiver",
            "t");
        expect_both(RECEIVER("rotate-secret", "acme", "--overlap", "0", "--secret-file", path), "",
            "acme: signed with the new secret only\n");
        expect_value(rig.owner,
            "SELECT secret = '" SECRET "' AND old_secrets = '{}' FROM courier.receiver", "t");
        expect_refusal(RECEIVER("rotate-secret", "acme", "--overlap", "1x"), 2,
            "--overlap: \"1x\" is not a whole number with a unit");
        expect_refusal(RECEIVER("rotate-secret", "acme", "--overlap", "366d"), 2, "more than 365d");
        program_run_free(&run);
        free(secret);
        free(path);
}

Test(receiver_command, test_wants_a_configuration_and_json)
{
        add_acme();
        expect_refusal(RECEIVER("test", "acme"), 2, "receiver test needs the sink's settings");
        expect_refusal(
            program_run(NULL, "receiver", "test", "acme", "-c", "/nowhere", "--payload", "{", NULL),
            2, "--payload is not JSON: ");
        expect_refusal(
            program_run(NULL, "receiver", "test", "acme", "-c", "/nowhere", "--topic", "", NULL), 2,
            "--topic: a topic has 1 to 255 bytes");
}

Test(receiver_command, wants_the_rights_of_a_relay)
{
        char *app = dsn_as_user(rig.dsn, "app");

        expect_refusal(program_run(NULL, "receiver", "list", "--dsn", app, NULL), 7,
            "GRANT courier_relay TO \"app\"");
        free(app);
}

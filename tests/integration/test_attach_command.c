/* `pgcourier attach`: it makes what courier.attach() makes, prints it for a migration, and finds
 * what became of it. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/postgres_expect.h"
#include "support/program_expect.h"

#include <jansson.h>

static struct test_database database;
static char *owner_dsn; /* of a role that owns the tables, and is a member of courier_attacher */
static PGconn *owner;

static void make_tables(const struct test_database *of)
{
        database_exec(of->admin,
            "DO $$ BEGIN CREATE ROLE shopkeeper LOGIN; CREATE ROLE passer_by LOGIN;"
            "  CREATE ROLE newcomer LOGIN; CREATE ROLE onlooker LOGIN;"
            " EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            "GRANT courier_attacher TO shopkeeper; CREATE SCHEMA shop AUTHORIZATION shopkeeper;"
            "ALTER ROLE shopkeeper SET search_path = shop; SET ROLE shopkeeper;"
            "CREATE TABLE shop.outbox_events (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
            " aggregate_type text, aggregate_id text, event_type text, payload jsonb,"
            " headers jsonb, created_at timestamptz DEFAULT now(), published_at timestamptz);"
            "INSERT INTO shop.outbox_events (event_type, payload, published_at)"
            " SELECT 'old', '{}', CASE WHEN i <= 7 THEN now() END FROM generate_series(1, 10) AS i;"
            "CREATE TABLE shop.list (nr serial PRIMARY KEY, kind text, body text);"
            "RESET ROLE");
}

static void start(void)
{
        database = test_database_make();
        make_tables(&database);
        owner_dsn = dsn_as_user(database.dsn, "shopkeeper");
        owner = database_connect(owner_dsn);
}

static void stop(void)
{
        PQfinish(owner);
        free(owner_dsn);
        test_database_drop(&database);
}

TestSuite(attach_command, .init = start, .fini = stop);

#define ATTACH(...) program_run(NULL, "attach", "--dsn", owner_dsn, __VA_ARGS__, NULL)

#define expect_run(run, expected_code, expected_out, expected_err)                                 \
        do {                                                                                       \
                struct program_run actual = (run);                                                 \
                cr_expect_eq(actual.code, (expected_code), "exit code %d, said: %s%s",             \
                    actual.code, actual.out, actual.err);                                          \
                cr_expect_str_eq(actual.out, (expected_out), "out: %s", actual.out);               \
                cr_expect_not_null(strstr(actual.err, (expected_err)), "err: %s", actual.err);     \
                program_run_free(&actual);                                                         \
        } while (0)

Test(attach_command, attaches_and_shows_what_the_server_noted)
{
        database_exec(database.admin,
            "INSERT INTO courier.cursor (sink, system_identifier, from_snapshot, from_floor, "
            "from_xid)"
            " SELECT 'bus', system_identifier, '1:1:', 0, '3' FROM pg_control_system()");
        expect_run(ATTACH("outbox_events", "--existing", "--after", "bus", "--after=hook,mail"), 0,
            "outbox_events is attached as outbox_events\n",
            "attach shop.outbox_events: done_after names sinks that no relay has served here yet: "
            "hook, mail\n"
            "attach shop.outbox_events: rows that were there already and are published: 3\n");
        database_exec(owner, "INSERT INTO outbox_events (event_type) VALUES ('new')");
        expect_value(database.admin,
            "SELECT string_agg(topic, ',' ORDER BY id) FROM courier.outbox", "old,old,old,new");
        expect_value(owner, "SELECT done_after::text || done || done_when FROM courier.attachment",
            "{bus,hook,mail}markdelivered");
}

Test(attach_command, gives_each_option_to_its_argument)
{
        expect_run(
            ATTACH("shop.list", "--name", "wares", "--topic", "'shop.' || kind", "--key=nr",
                "--type", "upper(kind)", "--data=body", "--headers", "'{\"a\": 1}'::jsonb",
                "--event-id=nr", "--deliver-at", "now() + interval '1 h'", "--only-if",
                "kind <> 'x'", "--each", "generate_series(1, 2) AS n", "--ops=insert",
                "--done=mark", "--done-set", "kind = 'x'", "--when=taken", "--lock-timeout=5s"),
            0, "shop.list is attached as wares\n", "");
        expect_value(owner,
            "SELECT jsonb_build_object('on', ops, 'done', done, 'when', done_when, 'name', name)"
            "  || expressions FROM courier.attachment",
            "{\"on\": [\"insert\"], \"key\": \"nr\", \"data\": \"body\", "
            "\"done\": \"mark\", \"each\": \"generate_series(1, 2) AS n\", \"name\": \"wares\", "
            "\"type\": \"upper(kind)\", \"when\": \"taken\", \"topic\": \"'shop.' || kind\", "
            "\"headers\": \"'{\\\"a\\\": 1}'::jsonb\", \"only_if\": \"kind <> 'x'\", "
            "\"done_set\": \"kind = 'x'\", \"event_id\": \"nr\", "
            "\"deliver_at\": \"now() + interval '1 h'\"}");
}

Test(attach_command, gives_the_kinds_of_change)
{
        expect_run(ATTACH("shop.list", "--topic", "kind", "--data=body", "--ops=insert, update"), 0,
            "shop.list is attached as list\n", "");
        expect_value(owner, "SELECT ops FROM courier.attachment", "{insert,update}");
}

/* As psql does it: it has variables and commands of its own, which no printed text may be. */
static void run_psql(const char *dsn, const char *sql)
{
        char *path = program_file("migration.sql", sql, strlen(sql));
        const char *const argv[] = {"psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-v", "kind=broken",
            "-d", dsn, "-f", path, NULL};

        cr_assert_eq(process_run(argv, NULL, false), 0, "psql fails with:\n%s", sql);
        free(path);
}

/* All of the catalog's row, and the generated SQL, but numbers of this database and this moment. */
#define MADE                                                                                       \
        "SELECT (to_jsonb(a) - '{relation,created_at,body_hash}'::text[])::text"                   \
        " || regexp_replace(courier.tap_source(name), '''[0-9]+''::regclass', '', 'g')"            \
        " FROM courier.attachment AS a"

/* The same words, in one database as a command, in another one as what they print. */
static void expect_same_by_psql(const char *const *words)
{
        struct test_database other = test_database_make();
        char *other_dsn = dsn_as_user(other.dsn, "shopkeeper");
        struct program_run print, run;
        char *made;

        make_tables(&other);
        print = program_run(NULL, "attach", "--print", "--dsn", other_dsn, words[0], words[1],
            words[2], words[3], words[4], words[5], words[6], words[7], words[8], words[9], NULL);
        cr_assert_eq(print.code, 0, "%s", print.err);
        expect_value(other.admin, "SELECT count(*) FROM courier.attachment", "0");
        expect_value(other.admin,
            "SELECT count(*) FROM pg_trigger WHERE tgname ~ '^courier_'"
            " AND NOT tgrelid::regclass::text ~ '^courier'",
            "0");
        run_psql(other_dsn, print.out);
        run = ATTACH(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7],
            words[8], words[9]);
        cr_assert_eq(run.code, 0, "%s", run.err);
        made = database_value(owner, MADE);
        expect_value(other.admin, MADE, made);
        expect_value(other.admin, "SELECT count(*) FROM courier.outbox",
            strstr(print.out, "'publish'") != NULL ? "3" : "0");
        database_exec(owner, "SELECT courier.detach(name) FROM courier.attachment");
        database_exec(database.admin, "ALTER TABLE courier.attachment ALTER id RESTART");
        free(made);
        program_run_free(&run);
        program_run_free(&print);
        free(other_dsn);
        test_database_drop(&other);
}

Test(attach_command, prints_what_makes_the_same_by_psql)
{
        static const char *const runs[][10] = {
            {"shop.outbox_events"},
            {"outbox_events", "--existing", "--done", "keep", "--name", "other_name"},
            {"shop.outbox_events", "--when", "taken", "--layout", "aggregate-published"},
            {"outbox_events", "--key", "$$it's$$ || aggregate_id || '\\'", "--type", "'\n:kind'"},
            {"shop.list", "--topic", "'it''s :''kind'' \\q'", "--payload", "body", "--only-if",
                "kind <> ':kind'", "--ops", "insert,update"},
            {"outbox_events", "--after", "a b,\"c\"", "--lock-timeout", "1m", "--done-set",
                "published_at = now(), headers = '{\"a\": \"\\\\\"}'"},
        };

        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
                expect_same_by_psql(runs[i]);
}

/* With what was found, in words that people can review. */
Test(attach_command, prints_for_people)
{
        expect_output(ATTACH("outbox_events", "--print", "--topic", "'shop.' || event_type"),
            "-- Rows of shop.outbox_events become events, in the transaction that inserts them.\n"
            "-- Of the layout aggregate-published:\n"
            "--   key        aggregate_id\n"
            "--   type       event_type\n"
            "--   payload    payload\n"
            "--   headers    headers\n"
            "--   event_id   id\n"
            "--   only_if    published_at IS NULL\n"
            "--   done_set   published_at = now()\n"
            "SELECT courier.attach('shop.outbox_events',\n"
            "  name      => 'outbox_events',\n"
            "  layout    => 'aggregate-published',\n"
            "  topic     => $$'shop.' || event_type$$,\n"
            "  done      => 'mark',\n"
            "  done_when => 'delivered',\n"
            "  existing  => 'skip');\n");
        expect_value(owner, "SELECT count(*) FROM courier.attachment", "0");
}

/* An expression is a mistake of the command line, whether it makes a tap or prints. */
Test(attach_command, says_what_is_wrong_with_its_arguments)
{
        static const struct {
                const char *words[6];
                int code;
                const char *error;
        } cases[] = {
            {{"shop.list", "--topic", "kindd", "--payload", "body"}, 2,
                "attach shop.list: topic does not compile: column \"kindd\" does not exist: topic: "
                "kindd. Write an SQL expression over the columns of one row"},
            {{"shop.list", "--print", "--topic", "kind", "--payload", "nix(1)"}, 2,
                "payload does not compile: function nix(integer) does not exist"},
            {{"shop.list", "--topic", "kind", "--payload", "(SELECT 1 FROM nix)"}, 2,
                "payload does not compile: relation \"nix\" does not exist"},
            {{"shop.list"}, 2,
                "its columns fit no layout, and no mapping is given: Its columns: nr, kind"},
            {{"outbox_events", "--layout", "debezium"}, 2,
                "layout debezium needs columns that the table lacks: aggregatetype, aggregateid, "
                "type"},
            {{"outbox_events", "--layout", "x"}, 2,
                "there is no layout 'x': There are: active-outbox,"},
            {{"outbox_events", "--done", "burn"}, 2,
                "done is 'burn', none of keep, mark and delete"},
            {{"outbox_events", "--ops", "delete"}, 2, "ops are '{delete}'"},
            {{"outbox_events", "--name", "A b"}, 2, "the name 'A b' is not 1 to 48 small letters"},
            {{"outbox_events", "--topic", ""}, 2, "--topic is empty"},
            {{"outbox_events", "--after", "a,,b"}, 2, "--after: a word is missing"},
            {{"outbox_events", "--lock-timeout", "soon"}, 2,
                "--lock-timeout: \"soon\" is not a whole number with a unit"},
            {{"outbox_events", "--lock-timeout", "0"}, 2, "--lock-timeout: \"0\" is not a whole"},
            {{"outbox_event"}, 8,
                "there is no table \"outbox_event\"; did you mean \"outbox_events\"?"},
            {{"shop.lsit"}, 8, "did you mean \"shop.list\"?"},
            {{"chekc"}, 8,
                "there is no table \"chekc\"; did you mean `pgcourier attach check --dsn"},
            {{"elsewhere.t"}, 8, "schema \"elsewhere\" does not exist"},
            {{"\"a"}, 2, "invalid name syntax"},
            {{"courier.outbox"}, 2, "it belongs to pgcourier itself"},
            {{"outbox_events", "--json"}, 2,
                "attach takes no --json; it is for: list, show, check"},
            {{"list"}, 0, ""}, /* the subcommand */
            {{"list", "--topic", "x"}, 2, "attach list takes no --topic; it is for: attach"},
            {{"list", "more"}, 2, "attach list: unexpected argument \"more\""},
            {{"shop.list", "more"}, 2, "attach: unexpected argument \"more\""},
            {{"show"}, 2, "attach show: an argument is missing: pgcourier attach show NAME"},
            {{"show", "x"}, 8, "there is no tap \"x\"; see `pgcourier attach list --dsn"},
            {{"remove", "x", "--lock-timeout", "x"}, 2, "--lock-timeout: \"x\" is not"},
            {{"remove", "x"}, 8, "there is no tap \"x\""},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *const *w = cases[i].words;
                expect_run(
                    ATTACH(w[0], w[1], w[2], w[3], w[4], w[5]), cases[i].code, "", cases[i].error);
        }
        expect_run(program_run(NULL, "attach", NULL), 2, "",
            "attach: an argument is missing: pgcourier attach TABLE [--layout LAYOUT]");
        expect_value(owner, "SELECT count(*) FROM courier.attachment", "0");
        expect_run(ATTACH("outbox_events"), 0, "outbox_events is attached as outbox_events\n", "");
        expect_refusal(ATTACH("outbox_events"), 2, "it is attached already, as outbox_events");
        expect_refusal(
            ATTACH("shop.list", "--topic=kind", "--payload=body", "--name=outbox_events"), 2,
            "there is a tap of the name outbox_events already");
        expect_refusal(ATTACH("show", "outbox_event"), 8, "did you mean \"outbox_events\"?");
}

#define AS(user, ...) program_run(NULL, "attach", "--dsn", (user), __VA_ARGS__, NULL)

/* Roles are those of the whole cluster, which other tests share. */
Test(attach_command, says_which_right_is_missing)
{
        char *passer_by = dsn_as_user(database.dsn, "passer_by");
        char *empty = postgres_new_empty_database(postgres_shared());

        database_exec(database.admin, "GRANT USAGE ON SCHEMA shop TO passer_by");
        expect_refusal(AS(passer_by, "shop.outbox_events"), 7,
            "permission denied for schema courier. An administrator can allow it: GRANT "
            "courier_attacher TO \"passer_by\"\n");
        database_exec(database.admin, "GRANT USAGE ON SCHEMA courier TO passer_by");
        expect_refusal(AS(passer_by, "shop.outbox_events"), 7,
            "permission denied for function attach. An administrator can allow it: GRANT "
            "courier_attacher TO \"passer_by\"\n");
        database_exec(database.admin,
            "CREATE TABLE shop.new (a text); ALTER TABLE shop.new OWNER TO newcomer");
        expect_refusal(ATTACH("shop.new", "--topic=a", "--payload=a"), 7,
            "attach shop.new: shop.new belongs to newcomer, and shopkeeper is not a member of that "
            "role. Connect as newcomer or as a superuser\n");
        expect_refusal(AS(database.dsn, "shop.new", "--topic=a", "--payload=a"), 7,
            "attach shop.new: newcomer, the owner of shop.new, may not publish by taps. As a "
            "superuser or the owner of schema courier: GRANT courier_attacher TO newcomer\n");
        expect_refusal(AS(empty, "pg_class"), 6, "See `pgcourier migrate status --dsn '");
        free(empty);
        free(passer_by);
}

Test(attach_command, gives_up_a_lock_and_changes_nothing)
{
        PGconn *writer = database_connect(owner_dsn);
        char *before = database_value(owner, "SELECT count(*)::text FROM pg_trigger");

        database_exec(writer, "BEGIN; INSERT INTO outbox_events DEFAULT VALUES");
        expect_refusal(ATTACH("outbox_events", "--lock-timeout", "50ms"), 75,
            "attach shop.outbox_events: other sessions use shop.outbox_events, so that no trigger "
            "can be made or dropped; gave up after 00:00:00.05. Nothing was changed. Try again");
        expect_value(owner, "SELECT count(*)::text FROM pg_trigger", before);
        expect_texts(ATTACH("outbox_events", "--print"), 0, "SELECT courier.attach(");
        expect_texts(ATTACH("detect", "outbox_events"), 0, "`pgcourier attach");
        database_exec(writer, "COMMIT");
        expect_run(ATTACH("outbox_events"), 0, "outbox_events is attached as outbox_events\n", "");
        database_exec(writer, "BEGIN; INSERT INTO outbox_events DEFAULT VALUES");
        expect_refusal(
            ATTACH("remove", "outbox_events", "--lock-timeout", "50ms"), 75, "Nothing was changed");
        PQfinish(writer);
        free(before);
}

Test(attach_command, lists_and_shows_and_removes)
{
        static const char list[] =
            "NAME          KIND   TABLE              LAYOUT              DONE                "
            "STATE    DETAIL\n"
            "outbox_events attach shop.outbox_events aggregate-published mark when delivered "
            "ok       \n"
            "wares         attach shop.\"Wares 2\"                                             "
            "disabled on shop.\"Wares 2\" this trigger does not fire: courier_wares_insert\n";
        char *before;
        json_t *shown;
        struct program_run run;

        expect_run(ATTACH("list", "--fail-empty"), 8, "", "there are no taps");
        expect_run(ATTACH("list", "--json"), 0, "",
            "no table is attached or captured; `pgcourier attach TABLE` does it\n");
        before = database_value(owner, "SELECT string_agg(tgname, ',') FROM pg_trigger");
        run = ATTACH("outbox_events");
        program_run_free(&run);
        database_exec(owner, "CREATE TABLE \"Wares 2\" (kind text, body text)");
        run = ATTACH("\"Wares 2\"", "--name", "wares", "--topic", "kind", "--payload", "body");
        program_run_free(&run);
        database_exec(owner, "ALTER TABLE \"Wares 2\" DISABLE TRIGGER USER");
        expect_output(ATTACH("list"), list);
        expect_texts(ATTACH("show", "outbox_events"), 0,
            "name       outbox_events\nkind       attach\ntable      shop.outbox_events\n"
            "layout     aggregate-published\ntopic      event_type\nkey        aggregate_id\n",
            "only_if    published_at IS NULL\ndone_set   published_at = now()\non         insert\n"
            "level      statement\ndone       mark\ndone_when  delivered\nrow_key    id\nsince     "
            " 2",
            "\nby         shopkeeper\nstate      ok\n\nCREATE OR REPLACE FUNCTION "
            "courier_tap.outbox_events_check()\n",
            "\nCREATE TRIGGER courier_outbox_events_insert AFTER INSERT ON shop.outbox_events ");
        run = ATTACH("show", "wares", "--json");
        shown = json_loads(run.out, 0, NULL);
        cr_assert_not_null(shown, "%s%s", run.out, run.err);
        cr_expect_str_eq(json_string_value(json_object_get(shown, "state")), "disabled");
        cr_expect_str_eq(
            json_string_value(json_object_get(json_object_get(shown, "expressions"), "topic")),
            "kind");
        cr_expect_not_null(
            strstr(json_string_value(json_object_get(shown, "source")), "CREATE TRIGGER"));
        json_decref(shown);
        program_run_free(&run);
        run = ATTACH("list", "--json");
        cr_expect_eq(strncmp(run.out, "{\"name\":\"outbox_events\",\"kind\":\"attach\",", 40), 0,
            "%s", run.out);
        program_run_free(&run);
        expect_output(ATTACH("remove", "outbox_events"), "removed outbox_events\n");
        expect_output(ATTACH("remove", "wares"), "removed wares\n");
        expect_value(owner, "SELECT string_agg(tgname, ',') FROM pg_trigger", before);
        expect_value(owner,
            "SELECT count(*) FROM pg_proc WHERE pronamespace = 'courier_tap'::regnamespace", "0");
        free(before);
}

/* One line for each tap, and 1 if any is not ok: for a pipeline, after migrations. */
Test(attach_command, check_finds_each_way_in_which_a_tap_is_broken)
{
        static const struct {
                const char *sql;
                const char *says;
        } cases[] = {
            {"ALTER TABLE shop.t RENAME body TO content",
                "fail  t: does_not_compile: writes to shop.t fail: column \"body\" does not exist\n"
                "      In one transaction: SELECT courier.detach('t'), and attach"},
            {"ALTER TABLE shop.t DISABLE TRIGGER USER",
                "fail  t: disabled: on shop.t this trigger does not fire: courier_t_insert\n"
                "      ALTER TABLE shop.t ENABLE TRIGGER "},
            {"DROP TRIGGER courier_t_insert ON shop.t",
                "fail  t: trigger_missing: shop.t has no trigger courier_t_insert\n"
                "      SELECT courier.recompile('t')\n"},
            {"CREATE TABLE shop.parent (LIKE shop.t) PARTITION BY RANGE (nr);"
             "ALTER TABLE shop.parent ATTACH PARTITION shop.t DEFAULT",
                "fail  t: now_a_partition: shop.t has become a partition, and its trigger is "
                "silent"},
            {"ALTER FUNCTION courier_tap.t_insert() SET work_mem = '1MB'",
                "fail  t: edited: the functions or triggers of t are not as they were made\n"},
            {"DROP TABLE shop.t", "fail  t: table_gone: the table shop.t was dropped\n      SELECT "
                                  "courier.detach('t')\n"},
        };
        struct program_run run;

        expect_run(ATTACH("check"), 0, "", "no table is attached or captured");
        run = ATTACH("outbox_events");
        program_run_free(&run);
        expect_run(ATTACH("check"), 0, "ok    outbox_events: shop.outbox_events\n", "");
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                database_exec(owner,
                    "CREATE TABLE shop.t (nr int NOT NULL, kind text, body text);"
                    "SELECT courier.attach('shop.t', topic => 'kind', payload => 'body')");
                database_exec(owner, cases[i].sql);
                run = ATTACH("check");
                cr_expect_eq(run.code, 1, "%s: %s", cases[i].sql, run.out);
                cr_expect_not_null(
                    strstr(run.out, cases[i].says), "%s:\n%s", cases[i].says, run.out);
                cr_expect_not_null(strstr(run.err, "1 of 2 checks failed"), "%s", run.err);
                program_run_free(&run);
                run = ATTACH("check", "--json");
                cr_expect_eq(run.code, 1);
                cr_expect_not_null(strstr(run.out, "\"ok\":false,\"exit_code\":1,"), "%s", run.out);
                program_run_free(&run);
                database_exec(owner, "SELECT courier.detach('t');"
                                     "DROP TABLE IF EXISTS shop.t, shop.parent");
        }
}

Test(attach_command, check_asks_as_the_relay_too)
{
        struct program_run run = ATTACH("outbox_events");

        program_run_free(&run);
        expect_output(AS(database.relay, "check"), "ok    outbox_events: shop.outbox_events\n");
        expect_texts(AS(database.relay, "list"), 0, "outbox_events attach shop.outbox_events");
        expect_texts(AS(database.relay, "show", "outbox_events"), 0, "CREATE TRIGGER");
}

#define COLUMNS_OF_TABLE "nr integer, kind text, body text"

Test(attach_command, detects_what_a_table_is)
{
        database_exec(owner, "ANALYZE shop.outbox_events");
        expect_texts(ATTACH("detect", "outbox_events"), 0,
            "table      shop.outbox_events, a table of shopkeeper\n"
            "layout     aggregate-published\n"
            "topic      event_type\n"
            "key        aggregate_id\n"
            "type       event_type\n"
            "payload    payload\n"
            "headers    headers\n"
            "event_id   id\n"
            "only_if    published_at IS NULL\n"
            "done       its rows are marked: published_at = now()\n"
            "rows       10; still to be published: 3\n"
            "\n"
            "  `pgcourier attach shop.outbox_events --layout aggregate-published --done mark --dsn",
            "\n  --existing: the rows that are still to be published are events, too\n"
            "  --when taken: while a relay inside the application still runs\n");
        expect_texts(ATTACH("detect", "shop.list"), 0, "layout     none fits; see courier.layout\n",
            "columns    " COLUMNS_OF_TABLE "\n",
            "\n  `pgcourier attach shop.list --topic TOPIC --payload body --dsn");
        expect_refusal(
            ATTACH("detect", "lits"), 8, "there is no table \"lits\"; did you mean \"list\"?");
        expect_refusal(ATTACH("detect", "courier.outbox"), 2, "it belongs to pgcourier itself");
        database_exec(owner, "CREATE VIEW shop.v AS SELECT 1");
        expect_refusal(ATTACH("detect", "v"), 2, "it is a view, whose rows no trigger sees");
        expect_value(owner, "SELECT count(*) FROM courier.attachment", "0");
        database_exec(owner, "SELECT courier.attach('shop.outbox_events', done => 'keep')");
        expect_texts(ATTACH("detect", "outbox_events"), 0,
            "attached   as outbox_events already: `pgcourier attach show outbox_events --dsn");
}

/* The command that it prints is one that works. */
Test(attach_command, detects_what_a_table_lacks)
{
        database_exec(owner, "CREATE TABLE shop.keyless (id int, aggregate_id text, aggregate_type "
                             "text, event_type text,"
                             " payload jsonb, processed_at timestamptz);"
                             "CREATE TABLE shop.almost (id uuid, aggregatetype text, aggregateid "
                             "text, payload jsonb)");
        expect_texts(ATTACH("detect", "keyless"), 0, "layout     aggregate-processed\n",
            "done       its rows are kept: without a primary key they cannot be marked or "
            "deleted\n",
            "rows       none\n", "--layout aggregate-processed --done keep --dsn");
        expect_run(ATTACH("shop.keyless", "--layout", "aggregate-processed", "--done", "keep"), 0,
            "shop.keyless is attached as keyless\n", "");
        expect_texts(ATTACH("detect", "shop.almost"), 0, "nearest    debezium, without: type\n");
}

Test(attach_command, detects_what_else_is_to_be_known)
{
        char *onlooker = dsn_as_user(database.dsn, "onlooker");

        database_exec(owner,
            "CREATE FUNCTION shop.notify() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RETURN NULL; END';"
            "CREATE TRIGGER tell AFTER INSERT ON outbox_events FOR EACH ROW EXECUTE FUNCTION "
            "shop.notify();"
            "ALTER TABLE outbox_events ENABLE ROW LEVEL SECURITY;"
            "CREATE TABLE shop.child () INHERITS (outbox_events);"
            "CREATE TABLE shop.parted (id int, kind text, body text) PARTITION BY RANGE (id);"
            "CREATE TABLE shop.part PARTITION OF shop.parted DEFAULT");
        database_exec(database.admin, "CREATE PUBLICATION dbz FOR TABLE shop.outbox_events");
        expect_texts(ATTACH("detect", "outbox_events"), 0,
            "note       tables inherit from it (child): their rows are no events\n",
            "note       triggers of its own (tell) go on as before\n",
            "note       row security is on: the tap sees all rows of a statement",
            "note       it is published by logical replication (dbz): if Debezium");
        expect_texts(ATTACH("detect", "parted"), 0,
            "shop.parted, a partitioned table of shopkeeper",
            "note       it is partitioned: the tap is a row trigger");
        expect_texts(
            ATTACH("detect", "part"), 0, "note       it is a partition of parted: attach that");
        database_exec(database.admin,
            "GRANT courier_attacher TO onlooker; GRANT USAGE ON SCHEMA shop TO onlooker;"
            "CREATE TABLE shop.new (LIKE shop.outbox_events); ALTER TABLE shop.new OWNER TO "
            "newcomer;"
            "GRANT SELECT ON shop.new TO onlooker");
        expect_texts(AS(onlooker, "detect", "shop.new"), 0,
            "note       shop.new belongs to newcomer, and onlooker is not a member of that role",
            "note       newcomer may not publish by taps yet. As an administrator: GRANT "
            "courier_attacher TO newcomer\n");
        free(onlooker);
}

/* A large table is not read. */
Test(attach_command, detect_takes_the_planners_word_for_a_large_table)
{
        database_exec(owner,
            "INSERT INTO outbox_events (event_type, payload, published_at)"
            " SELECT 'e', to_jsonb(repeat('x', 500)), now() FROM generate_series(1, 20000);"
            "ANALYZE outbox_events");
        expect_texts(ATTACH("detect", "outbox_events"), 0, "rows       about 20");
}

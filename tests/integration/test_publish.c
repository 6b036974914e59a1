/* `pgcourier publish`: everything arrives as it was given, and every refusal is a sentence. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/program_expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PUBLISH(...) program_run(NULL, "publish", __VA_ARGS__, NULL)

/* The one event in the outbox is what `condition` says, and its id is what was printed. */
static void expect_event(const char *dsn, struct program_run run, const char *condition)
{
        PGconn *connection = database_connect(dsn);
        char *sql = xasprintf("SELECT event_id FROM courier.outbox WHERE %s", condition);
        char *event_id;
        char *line;

        cr_assert_eq(run.code, 0, "%s", run.err);
        cr_expect_str_empty(run.err);
        event_id = database_value(connection, sql);
        line = xasprintf("%s\n", event_id);
        cr_expect_str_eq(run.out, line);
        cr_expect_eq(database_integer(connection, "SELECT count(*) FROM courier.outbox"), 1);
        PQfinish(connection);
        free(event_id);
        free(line);
        free(sql);
        program_run_free(&run);
}

Test(publish, writes_what_every_option_says)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_event(dsn,
            PUBLISH("orders.created", "--dsn", dsn, "--payload", "{\"total\":  12.50}", "--key",
                "o'17", "--type", "order; created", "--header", "trace=a=b", "--header",
                "Über=\"quoted\"", "--header", "empty="),
            "topic = 'orders.created' AND payload::text = '{\"total\":  12.50}' AND key = 'o''17'"
            " AND type = 'order; created' AND data IS NULL AND deliver_at IS NULL AND headers ="
            " '{\"trace\": \"a=b\", \"Über\": \"\\\"quoted\\\"\", \"empty\": \"\"}'");
        free(dsn);
}

Test(publish, leaves_out_what_is_not_given)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_event(dsn, PUBLISH("t", "--payload", "null", "--dsn", dsn),
            "topic = 't' AND payload::text = 'null'"
            " AND num_nonnulls(key, type, headers, data) = 0");
        free(dsn);
}

Test(publish, works_as_a_member_of_courier_publisher)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *app_dsn = dsn_as_user(dsn, "app");

        expect_event(dsn, PUBLISH("t", "--payload", "{}", "--dsn", app_dsn), "topic = 't'");
        free(app_dsn);
        free(dsn);
}

static const char bytes_with_nul[] = {'a', '\0', (char)0xff, '\n'};

Test(publish, reads_bytes_from_a_file)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("body", bytes_with_nul, sizeof bytes_with_nul);
        char *at_path = xasprintf("@%s", path);

        expect_event(dsn, PUBLISH("t", "--data", at_path, "--dsn", dsn),
            "payload IS NULL AND data = '\\x6100ff0a'");
        free(at_path);
        free(path);
        free(dsn);
}

Test(publish, reads_bytes_from_standard_input)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("body", bytes_with_nul, sizeof bytes_with_nul);

        expect_event(dsn, program_run(path, "publish", "t", "--data", "-", "--dsn", dsn, NULL),
            "data = '\\x6100ff0a'");
        free(path);
        free(dsn);
}

Test(publish, takes_no_bytes_for_empty_data)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_event(dsn, PUBLISH("t", "--data", "-", "--dsn", dsn), "data = ''");
        free(dsn);
}

Test(publish, reads_a_large_payload_from_a_file_and_from_standard_input)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *other_dsn = postgres_new_database(postgres_shared());
        const size_t n_bytes = 3 << 20;
        char *json = xcalloc(1, n_bytes);
        char *path;
        char *at_path;

        memset(json, 'x', n_bytes);
        json[0] = json[n_bytes - 1] = '"';
        path = program_file("body", json, n_bytes);
        at_path = xasprintf("@%s", path);

        expect_event(dsn, PUBLISH("t", "--payload", at_path, "--dsn", dsn),
            "octet_length(payload::text) = 3 << 20");
        expect_event(other_dsn,
            program_run(path, "publish", "t", "--payload", "-", "--dsn", other_dsn, NULL),
            "octet_length(payload::text) = 3 << 20");
        free(at_path);
        free(path);
        free(json);
        free(other_dsn);
        free(dsn);
}

Test(publish, puts_every_rule_of_the_outbox_into_words)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *long_text = xcalloc(1, 1026);
        const struct {
                const char *topic, *key, *type;
                const char *sentence;
        } cases[] = {
            {"", NULL, NULL, "pgcourier: topic must not be empty\n"},
            {long_text + 1025 - 256, NULL, NULL, "pgcourier: topic must be at most 255 bytes\n"},
            {"a\nb", NULL, NULL, "pgcourier: topic must not contain control characters\n"},
            {"t", "", NULL, "pgcourier: key must be null rather than empty\n"},
            {"t", long_text, NULL, "pgcourier: key must be at most 1024 bytes\n"},
            {"t", NULL, "", "pgcourier: type must be null rather than empty\n"},
            {"t", NULL, long_text + 1025 - 256, "pgcourier: type must be at most 255 bytes\n"},
        };

        memset(long_text, 'x', 1025);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                const char *option = cases[i].key != NULL ? "--key" : "--type";
                const char *value = cases[i].key != NULL ? cases[i].key : cases[i].type;
                expect_refusal(PUBLISH(cases[i].topic, "--payload", "{}", "--dsn", dsn,
                                   value != NULL ? option : NULL, value),
                    2, cases[i].sentence);
        }
        free(long_text);
        free(dsn);
}

Test(publish, says_why_a_payload_is_not_json)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *path = program_file("body", "{}\0", 3);
        char *at_path = xasprintf("@%s", path);

        expect_refusal(PUBLISH("t", "--payload", "{oops}", "--dsn", dsn), 2,
            "pgcourier: payload: invalid input syntax for type json: Token \"oops\" is invalid.\n");
        expect_refusal(PUBLISH("t", "--payload", "", "--dsn", dsn), 2,
            "payload: invalid input syntax for type json: The input string ended unexpectedly.\n");
        expect_refusal(PUBLISH("t", "--payload", at_path, "--dsn", dsn), 2,
            "payload: NUL byte after 2 bytes, which JSON cannot contain; publish bytes with "
            "--data\n");
        free(at_path);
        free(path);
        free(dsn);
}

Test(publish, refuses_text_that_is_not_utf8)
{
        char *dsn = postgres_new_database(postgres_shared());

        expect_refusal(PUBLISH("t", "--payload", "{}", "--key", "\xff", "--dsn", dsn), 2,
            "the event may not be published: invalid byte sequence for encoding \"UTF8\"");
        free(dsn);
}

Test(publish, says_which_grant_is_missing)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *relay_dsn = dsn_as_user(dsn, "relay");

        expect_refusal(PUBLISH("t", "--payload", "{}", "--dsn", relay_dsn), 7,
            "permission denied for function publish. An administrator can allow it: "
            "GRANT courier_publisher TO \"relay\"\n");
        free(relay_dsn);
        free(dsn);
}

Test(publish, says_that_the_schema_is_missing)
{
        char *dsn = postgres_new_empty_database(postgres_shared());

        expect_refusal(PUBLISH("t", "--payload", "{}", "--dsn", dsn), 6,
            "schema courier is missing in this database: run `pgcourier migrate --dsn '");
        free(dsn);
}

Test(publish, says_that_it_may_be_tried_again)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *impatient_dsn = xasprintf("%s options='-c lock_timeout=10'", dsn);
        PGconn *connection = database_connect(dsn);

        database_exec(connection, "BEGIN; LOCK TABLE courier.outbox IN ACCESS EXCLUSIVE MODE");

        expect_refusal(PUBLISH("t", "--payload", "{}", "--dsn", impatient_dsn), 75,
            "canceling statement due to lock timeout\n");
        PQfinish(connection);
        free(impatient_dsn);
        free(dsn);
}

static void expect_denied(PGconn *connection, const char *sql)
{
        PGresult *result = PQexec(connection, sql);
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

        cr_expect_not_null(sqlstate, "allowed: %s", sql);
        if (sqlstate != NULL)
                cr_expect_str_eq(sqlstate, "42501", "%s: %s", sql, PQerrorMessage(connection));
        PQclear(result);
}

Test(publish, is_all_that_a_publisher_may_do)
{
        char *dsn = postgres_new_database(postgres_shared());
        char *app_dsn = dsn_as_user(dsn, "app");
        PGconn *connection = database_connect(app_dsn);

        expect_denied(connection, "SELECT topic FROM courier.outbox");
        expect_denied(connection, "INSERT INTO courier.outbox (topic, payload, txid)"
                                  " VALUES ('t', '{}', '1')");
        expect_denied(connection, "INSERT INTO courier.outbox (topic, payload, id)"
                                  " OVERRIDING SYSTEM VALUE VALUES ('t', '{}', 1)");
        expect_denied(connection, "UPDATE courier.outbox SET topic = 'other'");
        expect_denied(connection, "DELETE FROM courier.outbox");
        expect_denied(connection, "SELECT nextval('courier.outbox_id_seq')");
        expect_denied(connection, "SELECT sink FROM courier.cursor");
        expect_denied(connection, "CREATE TABLE courier.mine ()");
        PQfinish(connection);
        free(app_dsn);
        free(dsn);
}

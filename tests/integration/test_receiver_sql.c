/* courier.receiver and its functions: what a row may be, who may see it, what its changes do. */
#include "base/alloc.h"
#include "support/postgres_expect.h"

#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static char *dsn;
static PGconn *relay;

static PGconn *connect_as(const char *user)
{
        char *theirs = dsn_as_user(dsn, user);
        PGconn *connection = database_connect(theirs);

        free(theirs);
        return connection;
}

static void start(void)
{
        dsn = postgres_new_database(postgres_shared());
        relay = connect_as("relay");
}

static void stop(void)
{
        PQfinish(relay);
        free(dsn);
}

TestSuite(receiver_sql, .init = start, .fini = stop);

static void add_acme(void)
{
        database_exec(relay, "INSERT INTO courier.receiver (sink, name, url)"
                             " VALUES ('web', 'acme', 'https://acme.example/hook?token=t')");
}

/* What a running relay was told since it was last asked. */
static int count_rings(PGconn *listener)
{
        PGnotify *notification;
        int n = 0;

        database_exec(listener, "SELECT 1"); /* what was committed before has arrived then */
        while ((notification = PQnotifies(listener)) != NULL) {
                n++;
                PQfreemem(notification);
        }
        return n;
}

Test(receiver_sql, a_row_has_sensible_defaults_and_a_secret_of_its_own)
{
        add_acme();
        database_exec(relay, "INSERT INTO courier.receiver (sink, name, url)"
                             " VALUES ('web', 'other', 'http://other.example')");
        expect_value(
            relay, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM courier.receiver", "1 2");
        expect_value(relay,
            "SELECT (topics, types, filter IS NULL, headers, start, concurrency, rate,"
            " burst, state, old_secrets)::text FROM courier.receiver WHERE id = 1",
            "(\"{**,!courier.**}\",{},t,{},now,8,0,0,active,{})");
        expect_value(relay,
            "SELECT count(DISTINCT secret) FROM courier.receiver"
            " WHERE length(decode(substr(secret, 7), 'base64')) = 32"
            " AND secret LIKE 'whsec_%'",
            "2");
}

Test(receiver_sql, refuses_what_no_relay_could_use_and_names_the_rule)
{
        static const struct {
                const char *column;
                const char *value;
                const char *rule;
        } cases[] = {
            {"sink", "'Web'", "sink_must_be_the_name_of_a_sink"},
            {"name", "'a b'", "name_must_be_1_to_100_of"},
            {"name", "''", "name_must_be_1_to_100_of"},
            {"name", "repeat('a', 101)", "name_must_be_1_to_100_of"},
            {"description", "E'a\\nb'", "description_must_not_contain_control_characters"},
            {"url", "'ftp://x/'", "url_must_begin_with_http_or_https_and_a_host"},
            {"url", "'https:///x'", "url_must_begin_with_http_or_https_and_a_host"},
            {"url", "'https://x/a b'", "url_must_be_of_visible_ascii_without_backslashes"},
            {"url", "E'https://x/\\r\\nHost: y'", "url_must_be_of_visible_ascii"},
            {"url", "'https://x\\y/'", "url_must_be_of_visible_ascii_without_backslashes"},
            {"url", "'https://b\u00fccher/'", "url_must_be_of_visible_ascii_without_backslashes"},
            {"url", "'https://u:p@x/'", "url_must_not_contain_a_user_or_password"},
            {"url", "'https://x/' || repeat('a', 2040)", "url_must_be_at_most_2048_bytes"},
            {"secret", "'hunter2'", "secret_must_be_whsec_and_24_to_64_bytes_in_base64"},
            {"secret", "'whsec_' || encode(repeat('a', 23)::bytea, 'base64')", "secret_must_be"},
            {"secret",
                "'whsec_' || translate(encode(repeat('a', 65)::bytea, 'base64'), E'\\n', '')",
                "secret_must_be"},
            {"secret", "'whsec_' || repeat('A', 33)", "secret_must_be"},
            {"old_secrets", "ARRAY[courier.new_secret()]", "old_secrets_need_old_secrets_until"},
            {"old_secrets", "'{x}'", "old_secrets_must_be_whsec"},
            {"old_secrets", "'{NULL}'", "old_secrets_must_be_whsec"},
            {"old_secrets", "array_fill(courier.new_secret(), ARRAY[11])", "old_secrets_must_be"},
            {"headers", "'[]'", "headers_must_be_an_object_of_texts"},
            {"headers", "'{\"a\": 1}'", "headers_must_be_an_object_of_texts"},
            {"headers", "'{\"a\": [\"b\"]}'", "headers_must_be_an_object_of_texts"},
            {"headers", "'{\"a b\": \"c\"}'", "header_names_must_be_of_letters"},
            {"headers", "'{\"\": \"c\"}'", "header_names_must_be_of_letters"},
            {"headers", "'{\"a\": \"b\\r\\nc: d\"}'", "header_values_must_not_contain_control"},
            {"headers", "jsonb_build_object('a', repeat('x', 16400))",
                "headers_must_be_at_most_16"},
            {"topics", "'{}'", "topics_must_be_1_to_100_patterns"},
            {"topics", "'{a,NULL}'", "topics_must_be_1_to_100_patterns"},
            {"topics", "'{a,\"\"}'", "topics_must_be_1_to_100_patterns"},
            {"topics", "'{a,!}'", "topics_must_be_1_to_100_patterns"},
            {"topics", "array_fill('a'::text, ARRAY[101])", "topics_must_be_1_to_100_patterns"},
            {"topics", "'{!a,!b}'", "topics_must_not_all_exclude"},
            {"types", "'{\"\"}'", "types_must_be_at_most_100_patterns"},
            {"start", "'soon'", "start_must_be_now_or_beginning"},
            {"concurrency", "0", "concurrency_must_be_1_to_1024"},
            {"concurrency", "1025", "concurrency_must_be_1_to_1024"},
            {"rate", "-1", "rate_must_be_0_to_1000000"},
            {"rate", "'NaN'", "rate_must_be_0_to_1000000"},
            {"rate", "'Infinity'", "rate_must_be_0_to_1000000"},
            {"burst", "-1", "burst_must_be_0_to_1000000"},
            {"state", "'off'", "state_must_be_active_paused_or_disabled"},
            {"state_reason", "E'a\\x1b'", "state_reason_must_not_contain_control_characters"},
        };

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                /* The sensible values of what is not the case's column. */
                char *sql = xasprintf("INSERT INTO courier.receiver (%s%s%s%s) VALUES (%s%s%s%s)",
                    cases[i].column, strcmp(cases[i].column, "sink") == 0 ? "" : ", sink",
                    strcmp(cases[i].column, "name") == 0 ? "" : ", name",
                    strcmp(cases[i].column, "url") == 0 ? "" : ", url", cases[i].value,
                    strcmp(cases[i].column, "sink") == 0 ? "" : ", 'web'",
                    strcmp(cases[i].column, "name") == 0 ? "" : ", 'acme'",
                    strcmp(cases[i].column, "url") == 0 ? "" : ", 'https://x/'");
                expect_error(relay, sql, "23514", cases[i].rule);
                free(sql);
        }
        expect_value(relay, "SELECT count(*) FROM courier.receiver", "0");
}

Test(receiver_sql, takes_what_is_at_the_edge)
{
        database_exec(relay,
            "INSERT INTO courier.receiver (sink, name, url, secret, old_secrets, old_secrets_until,"
            "  headers, topics, types, filter, concurrency, rate)"
            " VALUES ('web-1_x', 'A.b_c-9', 'http://[::1]:80/?a=b#c',"
            "  'whsec_' || translate(encode(repeat('a', 64)::bytea, 'base64'), E'\\n', ''),"
            "  ARRAY['whsec_' || encode(repeat('a', 24)::bytea, 'base64')], now(),"
            "  '{\"X-Customer\": \"Zo\\u00eb, \\\"17\\\"\", \"a\": \"\"}', '{!a.*,b}', '{!x}',"
            "  '$.total > 100', 1024, 0.5)");
        expect_value(relay, "SELECT count(*) FROM courier.receiver", "1");
        expect_error(relay,
            "INSERT INTO courier.receiver (sink, name, url)"
            " VALUES ('other', 'A.b_c-9', 'https://x')",
            "23505", "receiver_name_key");
}

Test(receiver_sql, a_publisher_sees_and_changes_nothing)
{
        static const char *const statements[] = {
            "SELECT secret FROM courier.receiver",
            "SELECT name FROM courier.receiver",
            "SELECT * FROM courier.receiver_status",
            "UPDATE courier.receiver SET url = 'https://mallory.example'",
            "DELETE FROM courier.receiver",
            "INSERT INTO courier.receiver (sink, name, url) VALUES ('web', 'm', 'https://m')",
            "SELECT courier.rotate_secret('acme')",
            "SELECT courier.note_receiver_failing(1, '1 min', 'x')",
            "SELECT courier.note_receiver_recovered(1)",
            "SELECT courier.disable_receiver(1, 'x')",
        };
        PGconn *app = connect_as("app");

        add_acme();
        for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
                expect_error(app, statements[i], "42501", "permission denied");
        PQfinish(app);
}

Test(receiver_sql, a_change_of_state_keeps_its_companions_true)
{
        add_acme();
        database_exec(relay, "UPDATE courier.receiver SET state_since = '2026-01-01Z',"
                             " failing_since = '2026-01-01Z', last_error = 'HTTP 500'");
        database_exec(relay, "UPDATE courier.receiver SET concurrency = 9");
        expect_value(relay, "SELECT state_since = '2026-01-01Z' FROM courier.receiver", "t");
        database_exec(
            relay, "UPDATE courier.receiver SET state = 'paused', state_reason = 'asked'");
        expect_value(relay,
            "SELECT state_since > '2026-01-01Z' AND state_reason = 'asked'"
            " AND failing_since IS NOT NULL FROM courier.receiver",
            "t");
        database_exec(relay, "UPDATE courier.receiver SET state = 'active'");
        expect_value(relay,
            "SELECT state_reason IS NULL AND failing_since IS NULL"
            " AND last_error = 'HTTP 500' FROM courier.receiver",
            "t");
        expect_error(relay, "UPDATE courier.receiver SET sink = 'other'", "23001",
            "it belongs to the sink web, which cannot be changed");
}

Test(receiver_sql, changes_by_hand_are_told_to_the_relay_and_its_own_notes_are_not)
{
        PGconn *listener = connect_as("relay");

        database_exec(listener, "LISTEN courier_control");
        add_acme();
        cr_expect_eq(count_rings(listener), 1);
        database_exec(relay, "UPDATE courier.receiver SET url = 'https://new.example'");
        cr_expect_eq(count_rings(listener), 1);
        database_exec(relay, "SELECT courier.rotate_secret('acme')");
        cr_expect_eq(count_rings(listener), 1);
        database_exec(relay, "SELECT courier.note_receiver_failing(1, '1 min', 'HTTP 500');"
                             "SELECT courier.note_receiver_recovered(1)");
        cr_expect_eq(count_rings(listener), 0);
        database_exec(relay, "SELECT courier.disable_receiver(1, 'gone')");
        cr_expect_eq(count_rings(listener), 1);
        database_exec(relay, "DELETE FROM courier.receiver");
        cr_expect_eq(count_rings(listener), 1);
        PQfinish(listener);
}

Test(receiver_sql, rotation_lets_the_old_secrets_sign_until_the_overlap_ends)
{
        add_acme();
        database_exec(relay, "CREATE TEMPORARY TABLE was AS SELECT secret FROM courier.receiver");
        expect_value(
            relay, "SELECT courier.rotate_secret('acme') = secret FROM courier.receiver", "f");
        expect_value(relay,
            "SELECT old_secrets = ARRAY[was.secret] AND e.secret <> was.secret"
            " AND old_secrets_until BETWEEN now() + interval '23 hours' AND now() +"
            " interval '25 hours' FROM courier.receiver AS e, was",
            "t");
        /* A second one within the overlap keeps both, the newest first. */
        database_exec(relay, "INSERT INTO was SELECT secret FROM courier.receiver;"
                             "SELECT courier.rotate_secret('acme', '1 hour')");
        expect_value(relay,
            "SELECT old_secrets = (SELECT array_agg(secret ORDER BY ctid DESC) FROM was)"
            " AND old_secrets_until < now() + interval '2 hours' FROM courier.receiver",
            "t");
        /* After it, the ones before are gone. */
        database_exec(relay, "UPDATE courier.receiver SET old_secrets_until = now()"
                             " - interval '1 second';"
                             "SELECT courier.rotate_secret('acme')");
        expect_value(relay, "SELECT cardinality(old_secrets) FROM courier.receiver", "1");
        /* And at once, if there is none. */
        database_exec(relay, "SELECT courier.rotate_secret('acme', '0')");
        expect_value(relay,
            "SELECT old_secrets = '{}' AND old_secrets_until IS NULL FROM courier.receiver", "t");
        database_exec(relay, "DO $$ BEGIN FOR i IN 1..12 LOOP"
                             " PERFORM courier.rotate_secret('acme'); END LOOP; END $$");
        expect_value(relay, "SELECT cardinality(old_secrets) FROM courier.receiver", "10");
        expect_error(relay, "SELECT courier.rotate_secret('nobody')", "P0002",
            "there is no receiver 'nobody'");
        expect_error(relay, "SELECT courier.rotate_secret('acme', '-1 s')", "22023",
            "between 0 and one year");
        expect_error(
            relay, "SELECT courier.rotate_secret('acme', '1 h', 'x')", "23514", "secret_must_be");
}

Test(receiver_sql, trouble_and_its_end_are_published_once)
{
        add_acme();
        expect_value(relay, "SELECT courier.note_receiver_failing(1, '90 s', 'HTTP 500')", "t");
        expect_value(relay, "SELECT courier.note_receiver_failing(1, '120 s', 'HTTP 502')", "f");
        expect_value(relay,
            "SELECT failing_since BETWEEN now() - interval '100 s' AND now() - interval"
            " '89 s' AND last_error = 'HTTP 502' AND last_failed_at > failing_since"
            " FROM courier.receiver",
            "t");
        expect_value(relay, "SELECT courier.note_receiver_recovered(1)", "t");
        expect_value(relay, "SELECT courier.note_receiver_recovered(1)", "f");
        expect_value(relay, "SELECT courier.disable_receiver(1, E'failed for\\n5 days')", "t");
        expect_value(relay, "SELECT courier.disable_receiver(1, 'again')", "f");
        expect_value(relay, "SELECT (state, state_reason)::text FROM courier.receiver",
            "(disabled,\"failed for 5 days\")");
        /* Nothing waits for a receiver that is disabled. */
        expect_value(relay, "SELECT courier.note_receiver_failing(1, '1 s', 'HTTP 503')", "f");
        expect_value(relay, "SELECT courier.note_receiver_failing(99, '1 s', 'HTTP 503')", "f");
        expect_value(relay,
            "SELECT string_agg(topic || ' ' || key || ' ' || (type = topic) || ' '"
            " || (payload->>'reason'), ', ' ORDER BY id) FROM courier.outbox",
            "courier.receiver.failing acme true HTTP 500, "
            "courier.receiver.recovered acme true HTTP 502, "
            "courier.receiver.disabled acme true failed for 5 days");
        expect_value(relay,
            "SELECT string_agg(DISTINCT (payload->>'url') || ' ' || (payload->>'sink')"
            " || ' ' || (payload->>'receiver'), ',') FROM courier.outbox",
            "https://acme.example/hook web acme");
        expect_value(relay,
            "SELECT count(*) FROM courier.outbox WHERE (payload->>'at')::timestamptz"
            " > now() - interval '1 min' AND payload::jsonb ? 'failing_since'",
            "3");
}

Test(receiver_sql, health_counts_what_waits_and_what_died_in_the_lane_of_each)
{
        add_acme();
        database_exec(relay,
            "INSERT INTO courier.parked"
            " (sink, lane, outbox_id, state, due_at, event_id, topic, payload, created_at)"
            " SELECT sink, lane, i, 'retry', now(), gen_random_uuid(), 't', '{}', now()"
            " FROM (VALUES ('web', 1, 1), ('web', 1, 2), ('web', 0, 3), ('other', 1, 4))"
            "  AS p (sink, lane, i);"
            "INSERT INTO courier.dead_letter"
            " (sink, lane, outbox_id, reason, attempts, error, event_id, topic, payload, "
            "created_at)"
            " SELECT sink, lane, 1, 'rejected', 1, 'no', gen_random_uuid(), 't', '{}', now()"
            " FROM (VALUES ('web', 1), ('web', 0), ('web', 2)) AS d (sink, lane)");
        expect_value(relay,
            "SELECT (name, retrying, dead, next_at IS NOT NULL)::text FROM courier.receiver_status",
            "(acme,2,1,t)");
        /* The relay cleans up behind one that was removed; its number does not come back. */
        database_exec(relay, "DELETE FROM courier.receiver; DELETE FROM courier.cursor WHERE lane"
                             " NOT IN (SELECT id FROM courier.receiver)");
        add_acme();
        expect_value(relay, "SELECT id FROM courier.receiver", "2");
}

#define INSERT_INTO(sink, name)                                                                    \
        "INSERT INTO courier.receiver (sink, name, url) VALUES ('" sink "', '" name                \
        "', 'https://a')"

/* As an application that manages receivers: with rights on the table and no others. */
Test(receiver_sql, refuses_a_filter_that_is_no_predicate)
{
        PGconn *owner = database_connect(dsn);
        PGconn *manager;

        database_exec(owner, "CREATE ROLE receiver_manager LOGIN;"
                             "GRANT USAGE ON SCHEMA courier TO receiver_manager;"
                             "GRANT SELECT, INSERT, UPDATE ON courier.receiver TO receiver_manager;"
                             "GRANT SELECT ON SEQUENCE courier.outbox_id_seq TO receiver_manager");
        manager = connect_as("receiver_manager");
        expect_error(manager,
            "INSERT INTO courier.receiver (sink, name, url, filter)"
            " VALUES ('web', 'a', 'https://a', '$.total')",
            "23514", "receiver a: the filter is refused: it is not a predicate: compare");
        database_exec(manager, "INSERT INTO courier.receiver (sink, name, url, filter)"
                               " VALUES ('web', 'a', 'https://a', '$.total > 1')");
        expect_error(manager, "UPDATE courier.receiver SET filter = '$.total'", "23514",
            "filter_must_be_a_predicate");
        /* This one would take for ever, and all memory, before it is known to be a predicate. */
        expect_error(manager,
            "UPDATE courier.receiver SET filter = ('exists($.type()' || repeat('[0, 0]', 40) ||"
            " ' ? (@ == 1))')::jsonpath",
            "23514", "it has too many subscripts in lists");
        database_exec(manager,
            "UPDATE courier.receiver SET filter = '$.a[0, 1, 2, 3, 4, 5, 6, 7, 8]"
            " == \"1,2\\\",3,4,5,6,7,8,9,10,11\"'");
        database_exec(manager, "UPDATE courier.receiver SET filter = NULL");
        PQfinish(manager);
        database_exec(owner, "DROP OWNED BY receiver_manager; DROP ROLE receiver_manager");
        PQfinish(owner);
}

Test(receiver_sql, refuses_sinks_that_do_not_exist_as_soon_as_any_is_known)
{
        database_exec(relay, INSERT_INTO("new", "early")); /* nothing is known yet */
        database_exec(relay, "SELECT courier.note_sink('bus', false, '{}')");
        expect_error(relay, INSERT_INTO("bus", "b"), "23503",
            "receiver b: sink bus has one destination and takes no receivers");
        database_exec(relay, INSERT_INTO("new", "also_early"));
        database_exec(relay, "SELECT courier.note_sink('webhooks', true, '{}')");
        expect_error(relay, INSERT_INTO("webhoks", "c"), "23503",
            "receiver c: there is no sink webhoks with receivers: table; there are: webhooks");
        expect_error(relay, INSERT_INTO("webhoks", "c"), "23503",
            "INSERT INTO courier.sink (name, fans_out) VALUES ('webhoks', true)");
        expect_error(relay, INSERT_INTO("bus", "c"), "23503",
            "receiver c: sink bus has one destination and takes no receivers");
        database_exec(relay, INSERT_INTO("webhooks", "d"));
        /* A receiver of a sink that is gone can still be changed, and a migration may be first. */
        database_exec(relay, "UPDATE courier.receiver SET url = 'https://b', filter = '$.a == 1'"
                             " WHERE name = 'early'");
        database_exec(
            relay, "INSERT INTO courier.sink (name, fans_out) VALUES ('next', true);" INSERT_INTO(
                       "next", "e"));
}

/* By the same networks as the relay's own guard, once a relay has said which ones are allowed. */
Test(receiver_sql, refuses_an_address_that_is_not_public)
{
        static const char *const refused[] = {"http://10.0.0.1/", "https://127.0.0.1:443/x",
            "http://169.254.169.254?a", "http://192.168.7.1#a", "http://[::1]:80/",
            "http://[fd00:ec2::254]", "http://[2001:db8::1]/"};
        static const char *const taken[] = {"http://10.1.0.1/", "http://[fd12::1]/",
            "https://8.8.8.8/", "https://[2606:4700::1]/", "http://10.0.0.1.example/",
            "http://10.0.0.256/", "http://[::1", "http://example.org/10.0.0.1"};
        char sql[300];

        database_exec(relay, "SELECT courier.note_sink('early', true, '{}')");
        database_exec(relay, "INSERT INTO courier.receiver (sink, name, url)"
                             " VALUES ('early', 'early', 'http://10.0.0.1/')");
        database_exec(relay,
            "SELECT courier.note_sink('web', true, '{\"networks\": \"10.1.0.0/16, fd12::/16\"}')");
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
                snprintf(sql, sizeof sql,
                    "INSERT INTO courier.receiver (sink, name, url) VALUES ('web', 'a', '%s')",
                    refused[i]);
                expect_error(relay, sql, "23514", "receiver a: the url is refused: ");
        }
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
                snprintf(sql, sizeof sql,
                    "INSERT INTO courier.receiver (sink, name, url) VALUES ('web', 'r%zu', '%s')",
                    i, taken[i]);
                database_exec(relay, sql);
        }
        expect_error(relay,
            "UPDATE courier.receiver SET url = 'http://10.0.0.1/'"
            " WHERE name = 'r0'",
            "23514", "10.0.0.1 lies in 10.0.0.0/8 (private)");
        database_exec(relay, "UPDATE courier.receiver SET rate = 5 WHERE name = 'early'");
}

/* A session that announces a sink in an open transaction does not stop a relay that takes its
 * lane. */
Test(receiver_sql, notes_no_sink_that_another_session_is_noting)
{
        PGconn *other = database_connect(dsn);

        database_exec(
            other, "BEGIN; INSERT INTO courier.sink (name, fans_out) VALUES ('web', true)");
        expect_value(relay, "SELECT courier.note_sink('web', true, '{}')::text", "false");
        database_exec(other, "COMMIT");
        expect_value(relay, "SELECT courier.note_sink('web', true, '{}')::text", "true");
        PQfinish(other);
}

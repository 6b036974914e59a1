/*
 * Four outbox tables as people have them, with the statements of their applications, word for word.
 * Each application must see the same with its table attached as without, and each row must arrive.
 */
#include "attach_rig.h"
#include "support/program.h"
#include "support/relay_fixture.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>

static struct attach_rig rig;
static struct redis_server redis;

TestSuite(attach_tables, .timeout = 120);

static struct relay_process *start_relay(void)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "    redis: {url: \"unix://%s\", stream: events}\n",
            rig.database.relay, redis.socket_path);
}

static bool has_entries(void *context)
{
        return redis_server_count(&redis, "XLEN events") >= *(const long long *)context;
}

/* A line for each entry: topic, key, type, payload, and the headers, as far as they are there. */
static void expect_arrived(long long n_entries, const char *expected)
{
        struct relay_process *relay = start_relay();
        struct bytes lines = {0};
        redisReply *reply;

        wait_until(has_entries, &n_entries, 30000, "the events arrive in Redis");
        relay_stop(relay);
        reply = redis_server_run(&redis, "XRANGE events - +");
        for (size_t i = 0; i < reply->elements; i++) {
                const redisReply *fields = reply->element[i]->element[1];
                for (size_t f = 0; f < fields->elements; f += 2)
                        if (strcmp(fields->element[f]->str, "id") != 0 &&
                            strcmp(fields->element[f]->str, "time") != 0)
                                bytes_printf(&lines, "%s=%s ", fields->element[f]->str,
                                    fields->element[f + 1]->str);
                bytes_append_text(&lines, "\n");
        }
        cr_expect_str_eq(lines.data, expected, "%s", lines.data);
        bytes_deinit(&lines);
        freeReplyObject(reply);
        relay_destroy(relay);
}

static void begin(const char *ddl, const char *attach)
{
        redis_server_start(&redis, NULL);
        attach_rig_begin(&rig, ddl);
        database_exec(rig.owner, attach);
}

static void end(void)
{
        attach_rig_end(&rig);
        redis_server_destroy(&redis);
}

Test(attach_tables, an_aggregate_with_a_sequence_that_the_application_counts)
{
        begin("CREATE TABLE orders (id text PRIMARY KEY, total numeric);"
              "CREATE TABLE outbox (id serial PRIMARY KEY, aggregate_id text, aggregate_type text,"
              " payload jsonb, sequence_number int, created_at timestamp DEFAULT now(),"
              " processed_at timestamp, UNIQUE (aggregate_id, sequence_number))",
            "SELECT courier.attach('outbox')");

        attach_rig_compare(
            &rig, (const char *const[]){"INSERT INTO orders VALUES ('17', 12.50)", "BEGIN",
                      "SELECT 1 FROM orders WHERE id = '17' FOR UPDATE",
                      "SELECT COALESCE(MAX(sequence_number), 0) + 1 AS next FROM outbox WHERE "
                      "aggregate_id = '17'",
                      "INSERT INTO outbox (aggregate_id, aggregate_type, payload, sequence_number)"
                      " VALUES ('17', 'order', '{\"total\": 12.50, \"b\": 1}', 1)"
                      " RETURNING id, aggregate_id, aggregate_type, payload, sequence_number,"
                      " created_at IS NULL AS no_time, processed_at",
                      "COMMIT", "BEGIN", "SELECT 1 FROM orders WHERE id = '17' FOR UPDATE",
                      "SELECT COALESCE(MAX(sequence_number), 0) + 1 AS next FROM outbox WHERE "
                      "aggregate_id = '17'",
                      "INSERT INTO outbox (aggregate_id, aggregate_type, payload, sequence_number)"
                      " VALUES ('17', 'order', '{}', 2) RETURNING id",
                      "COMMIT",
                      "INSERT INTO outbox (aggregate_id, aggregate_type, payload, sequence_number)"
                      " VALUES ('17', 'order', '{}', 2)",
                      "SELECT * FROM outbox WHERE processed_at IS NULL AND false", NULL});
        expect_arrived(2,
            "topic=order key=17 payload={\"b\": 1, \"total\": 12.50} header:source-id=1 "
            "header:sequence-number=1 \n"
            "topic=order key=17 payload={} header:source-id=2 header:sequence-number=2 \n");
        end();
}

Test(attach_tables, messages_with_topic_key_and_headers)
{
        begin("CREATE TABLE outbox_messages (id int GENERATED ALWAYS AS IDENTITY, topic varchar,"
              " key varchar, type varchar, payload jsonb, headers jsonb,"
              " created_at timestamptz DEFAULT now());"
              "CREATE TABLE outbox_leases (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
              " topic varchar, key varchar, type varchar, payload jsonb, headers jsonb,"
              " created_at timestamptz DEFAULT now(), available_after timestamptz DEFAULT now());"
              "CREATE TABLE outbox_log (id int GENERATED ALWAYS AS IDENTITY, topic varchar,"
              " key varchar, type varchar, payload jsonb, headers jsonb,"
              " created_at timestamptz DEFAULT now(), partition int,"
              " transaction_id xid8 DEFAULT pg_current_xact_id())",
            "SELECT courier.attach('outbox_messages'), courier.attach('outbox_leases'),"
            " courier.attach('outbox_log')");

        attach_rig_compare(&rig,
            (const char *const[]){
                "INSERT INTO outbox_messages (topic, key, type, payload, headers) VALUES"
                " ('orders', '17', 'OrderCreated', '{\"id\": 17}', '{\"trace\": \"t1\"}')"
                " RETURNING id",
                "INSERT INTO outbox_leases (topic, key, type, payload, headers) VALUES"
                " ('orders', '17', 'OrderPaid', '{\"id\": 17}', NULL) RETURNING id, topic",
                "BEGIN", "SELECT pg_advisory_xact_lock(4711)",
                "INSERT INTO outbox_log (topic, key, type, payload, headers, partition) VALUES"
                " ('orders', '17', 'OrderShipped', '{\"id\": 17}', '{}', 3)"
                " RETURNING id, partition, transaction_id = pg_current_xact_id() AS is_ours",
                "COMMIT", "INSERT INTO outbox_messages (id, topic) VALUES (1, 'orders')",
                "DELETE FROM outbox_messages WHERE id = 1",
                "UPDATE outbox_leases SET available_after = now() + interval '1 minute'", NULL});
        expect_arrived(3,
            "topic=orders key=17 type=OrderCreated payload={\"id\": 17} header:trace=t1 \n"
            "topic=orders key=17 type=OrderPaid payload={\"id\": 17} \n"
            "topic=orders key=17 type=OrderShipped payload={\"id\": 17} \n");
        end();
}

Test(attach_tables, events_that_are_deduplicated_by_a_unique_key)
{
        begin("CREATE TABLE outbox_events (id uuid PRIMARY KEY, aggregate_type text,"
              " aggregate_id text, event_type text, payload jsonb, headers jsonb,"
              " dedup_key text UNIQUE, created_at timestamptz DEFAULT now(),"
              " published_at timestamptz, attempt smallint DEFAULT 0)",
            "SELECT courier.attach('outbox_events')");

        attach_rig_compare(&rig,
            (const char *const[]){
                "CREATE UNIQUE INDEX IF NOT EXISTS outbox_events_dedup_key_key ON outbox_events "
                "(dedup_key)",
                "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload,"
                " headers, dedup_key) VALUES ('11111111-1111-4111-8111-111111111111', 'order',"
                " '17', 'order.created', '{\"n\": 1}', '{\"a\": \"b\"}', 'order-17:v1')"
                " ON CONFLICT (dedup_key) DO NOTHING RETURNING id, attempt, published_at",
                "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload,"
                " headers, dedup_key) VALUES ('22222222-2222-4222-8222-222222222222', 'order',"
                " '17', 'order.created', '{\"n\": 2}', '{}', 'order-17:v1')"
                " ON CONFLICT (dedup_key) DO NOTHING RETURNING id",
                "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload,"
                " headers, dedup_key) VALUES ('33333333-3333-4333-8333-333333333333', 'order',"
                " '17', 'order.created', '{\"n\": 3}', '{}', 'order-17:v1')"
                " ON CONFLICT (dedup_key) DO UPDATE SET attempt = outbox_events.attempt + 1"
                " RETURNING id, attempt",
                "INSERT INTO outbox_events (id, dedup_key) VALUES"
                " ('44444444-4444-4444-8444-444444444444', 'order-17:v1')",
                "UPDATE outbox_events SET published_at = now(), attempt = attempt + 1", NULL});
        expect_arrived(1,
            "topic=order.created key=17 type=order.created payload={\"n\": 1} header:a=b "
            "header:dedup-key=order-17:v1 \n");
        expect_value(rig.database.admin, "SELECT event_id FROM courier.outbox",
            "11111111-1111-4111-8111-111111111111");
        end();
}

/* Those that the application's trigger has sent, to a session that listens. */
static int count_notifications(PGconn *connection)
{
        PGnotify *notification;
        int n = 0;

        database_exec(connection, "SELECT 1"); /* what was sent before has come */
        for (; (notification = PQnotifies(connection)) != NULL; n++)
                PQfreemem(notification);
        return n;
}

static struct smtp_receiver smtp;

static char *make_templates(void)
{
        char *folder = temp_folder();
        static const char *const files[][2] = {
            {"order_confirmation.subject", "Order {{order_id}}\n"},
            {"order_confirmation.txt", "Thank you, {{name}}!\n"}};

        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
                char *path = xasprintf("%s/%s", folder, files[i][0]);
                replace_file(path, files[i][1]);
                free(path);
        }
        return folder;
}

Test(attach_tables, an_order_and_its_mail_beside_a_trigger_of_the_applications_own)
{
        char *templates = make_templates();
        struct relay_process *relay;
        json_t *mails;

        begin("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
              " aggregate_type varchar(100), aggregate_id varchar(100), event_type varchar(100),"
              " payload jsonb, created_at timestamptz DEFAULT now(), processed_at timestamptz,"
              " retry_count int DEFAULT 0, last_error text);"
              "CREATE FUNCTION notify_outbox() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
              "  PERFORM pg_notify('outbox_events', NEW.id::text); RETURN NEW; END $$;"
              "CREATE TRIGGER outbox_notify AFTER INSERT ON outbox FOR EACH ROW"
              " EXECUTE FUNCTION notify_outbox()",
            "SELECT courier.attach('outbox')");
        smtp_receiver_init(&smtp);
        smtp_receiver_start(&smtp, NULL);
        database_exec(rig.app, "LISTEN outbox_events");

        attach_rig_compare(&rig,
            (const char *const[]){"BEGIN",
                "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES"
                " ('order', '17', 'order.created', '{\"total\": 12.50}')"
                " RETURNING aggregate_type, retry_count, last_error, id IS NULL AS no_id",
                "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES"
                " ('order', '17', 'notification.send', '{\"type\": \"email\","
                " \"to\": \"ann@example.com\", \"template\": \"order_confirmation\","
                " \"data\": {\"order_id\": 17, \"name\": \"Ann\"}}')",
                "COMMIT", NULL});
        cr_expect_eq(count_notifications(rig.app), 4, "two for each schema");
        relay = relay_start(
            "postgres: {dsn: \"%s\"}\n"
            "sinks:\n"
            "  - {name: orders, topics: [\"order.*\"], start: beginning,\n"
            "     redis: {url: \"unix://%s\", stream: orders}}\n"
            "  - {name: mail, topics: [\"notification.send\"], start: beginning,\n"
            "     email: {url: \"smtp://127.0.0.1:%u\", from: shop@example.org, templates: %s}}\n",
            rig.database.relay, redis.socket_path, smtp.port, templates);

        mails = smtp_receiver_wait_for(&smtp, 1);
        cr_expect_eq(json_array_size(mails), 1);
        cr_expect_str_eq(smtp_mail_header(json_array_get(mails, 0), "Subject"), "Order 17");
        json_decref(mails);
        await_in_database(rig.database.admin,
            "SELECT count(*) = 2 FROM shop.outbox WHERE processed_at IS NOT NULL",
            "both rows are marked");
        cr_expect_eq(redis_server_count(&redis, "XLEN orders"), 1);
        expect_value(rig.database.admin,
            "SELECT count(*) FROM shop.outbox WHERE retry_count = 0 AND last_error IS NULL", "2");
        relay_stop(relay);
        relay_destroy(relay);
        smtp_receiver_deinit(&smtp);
        free(templates);
        end();
}

/*
 * The programs of docs/consumers, behind a real relay: however often an event comes, its change is
 * made once. ctest runs those in Python and Node; scripts/test-consumers gets what the others need,
 * and runs them.
 */
#include "consumers/node_packages.h"
#include "support/http_client.h"
#include "support/postgres_expect.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef PGCOURIER_CRASH_POINTS

enum { N_ORDERS = 40, DEADLINE_MS = 60000 };

#define SECRET     "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define NEW_SECRET "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

/* Commands run in the language's folder. */
struct snippet {
        const char *command;
        int ends_with; /* after SIGTERM */
};

struct language {
        const char *name;
        struct snippet stream_consumer;
        struct snippet webhook_receiver;
};

#define BY_SIGTERM (128 + 15)
#define KEPT       PGCOURIER_SOURCE_FOLDER "/.cache/consumers"

static const struct language languages[] = {
    {"python", {"/usr/bin/python3 stream_consumer.py", 0},
        {"/usr/bin/python3 webhook_receiver.py", 0}},
    {"node", {PGCOURIER_NODE " stream_consumer.mjs", 0},
        {PGCOURIER_NODE " webhook_receiver.mjs", 0}},
    {"go", {"'" KEPT "/go/stream_consumer'", 0}, {"'" KEPT "/go/webhook_receiver'", 0}},
    {"java", {"java -cp '" KEPT "/java/*' StreamConsumer.java", BY_SIGTERM},
        {"java -cp '" KEPT "/java/*' WebhookReceiver.java", BY_SIGTERM}},
    {"php", {"php stream_consumer.php", 0},
        {"php -S 127.0.0.1:$PORT webhook_receiver.php", BY_SIGTERM}},
    {"ruby", {"ruby stream_consumer.rb", 0}, {"ruby webhook_receiver.rb", 0}},
};

struct consumer {
        struct relay_fixture fixture; /* the sender's database, and Redis */
        PGconn *admin;                /* of the consumer's database */
        char *dsn;
        char *folder; /* of the programs */
        const struct snippet *snippet;
        char *log_path;
        uint16_t port; /* of a receiver of webhooks */
        struct process process;
};

static const struct language *find_language(const char *name)
{
        const size_t n_languages = sizeof languages / sizeof languages[0];

        for (size_t i = 0; i < n_languages; i++) {
                if (strcmp(languages[i].name, name) == 0)
                        return &languages[i];
        }
        test_abort("no such language: %s", name);
}

/* Node looks for packages beside the program. */
static char *copy_with_packages(const char *from)
{
        const char *packages = node_packages();
        char *folder = temp_folder();
        char *modules = xasprintf("%s/node_modules", folder);
        char *command = xasprintf("cp '%s'/*.mjs %s", from, folder);
        const char *argv[] = {"sh", "-c", command, NULL};

        cr_assert_eq(process_run(argv, NULL, false), 0, "%s", command);
        cr_assert_eq(symlink(packages, modules), 0);
        free(command);
        free(modules);
        return folder;
}

static char *folder_of_programs(const struct language *language)
{
        char *folder = xasprintf(PGCOURIER_SOURCE_FOLDER "/docs/consumers/%s", language->name);
        char *copy;

        if (strcmp(language->name, "node") != 0)
                return folder;
        copy = copy_with_packages(folder);
        free(folder);
        return copy;
}

static void make_database(struct consumer *consumer)
{
        struct program_run run;
        char *url;

        consumer->dsn = postgres_new_empty_database(postgres_shared());
        run = program_run(NULL, "migrate", "--inbox", "--dsn", consumer->dsn, NULL);
        cr_assert_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        consumer->admin = database_connect(consumer->dsn);
        database_exec(consumer->admin,
            "CREATE TABLE booking (order_id bigint NOT NULL, cents bigint NOT NULL,"
            " CONSTRAINT not_yet CHECK (order_id <> 7));"
            "DO $$ BEGIN IF to_regrole('billing_app') IS NULL THEN"
            " CREATE ROLE billing_app LOGIN; END IF; END $$;"
            "GRANT courier_consumer TO billing_app; GRANT INSERT ON booking TO billing_app");
        url = xasprintf("postgresql://billing_app@127.0.0.1:%u/%s", postgres_shared()->port,
            PQdb(consumer->admin));
        setenv("DATABASE_URL", url, 1);
        free(url);
}

static void set_number(const char *name, unsigned number)
{
        char *text = xasprintf("%u", number);

        setenv(name, text, 1);
        free(text);
}

static void begin(
    struct consumer *consumer, const struct language *language, const struct snippet *snippet)
{
        char *url;
        char *folder = temp_folder();

        *consumer = (struct consumer){
            .folder = folder_of_programs(language), .snippet = snippet, .port = free_port()};
        consumer->log_path = xasprintf("%s/log", folder);
        relay_fixture_begin(&consumer->fixture, postgres_shared());
        make_database(consumer);
        url = xasprintf("redis://127.0.0.1:%u", consumer->fixture.redis.port);
        setenv("REDIS_URL", url, 1);
        setenv("STREAM", "events", 1);
        setenv("CLAIM_AFTER_MS", "100", 1);
        setenv("WEBHOOK_SECRET", SECRET, 1);
        setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
        set_number("PORT", consumer->port);
        free(url);
        free(folder);
}

static void end(struct consumer *consumer)
{
        process_kill(&consumer->process);
        PQfinish(consumer->admin);
        relay_fixture_end(&consumer->fixture);
        free(consumer->dsn);
        free(consumer->folder);
        free(consumer->log_path);
}

static void start(struct consumer *consumer)
{
        char *command =
            xasprintf("cd '%s' && exec %s", consumer->folder, consumer->snippet->command);
        const char *argv[] = {"sh", "-c", command, NULL};

        process_start(&consumer->process, argv, consumer->log_path, false);
        free(command);
}

static unsigned count_in_log(const struct consumer *consumer, const char *words)
{
        char *log = read_file(consumer->log_path);
        unsigned n = 0;

        for (const char *at = log; (at = strstr(at, words)) != NULL; at++)
                n++;
        free(log);
        return n;
}

static void stop(struct consumer *consumer)
{
        cr_expect_eq(process_stop(&consumer->process), consumer->snippet->ends_with, "%s",
            read_file(consumer->log_path));
}

static void publish_orders(const struct consumer *consumer)
{
        char *sql = xasprintf("SELECT courier.publish('orders.created', json_build_object("
                              "'order', n, 'cents', n * 100), key => n::text)"
                              " FROM generate_series(1, %d) AS n",
            N_ORDERS);

        database_exec(consumer->fixture.admin, sql);
        free(sql);
}

/* A relay that dies when the first events are delivered and not settled: the next delivers them
 * again. */
static void deliver_twice(struct relay_process *relay)
{
        cr_expect_eq(process_wait(&relay->process, DEADLINE_MS), 128 + 9);
        unsetenv("PGCOURIER_CRASH_AT");
        relay_start_again(relay);
}

static bool has_booked(struct consumer *consumer, int64_t n_orders)
{
        if (!process_is_running(&consumer->process))
                test_abort("the consumer ended: %s", read_file(consumer->log_path));
        return database_integer(consumer->admin, "SELECT count(DISTINCT order_id) FROM booking") ==
               n_orders;
}

static bool has_booked_all_but_one(void *context)
{
        return has_booked(context, N_ORDERS - 1) && count_in_log(context, "not_yet") > 0;
}

static bool has_booked_all(void *context)
{
        return has_booked(context, N_ORDERS);
}

/* One change fails at first: then the event must not count as accepted. */
static void await_bookings(struct consumer *consumer)
{
        wait_until(has_booked_all_but_one, consumer, DEADLINE_MS, "all orders but one are booked");
        database_exec(consumer->admin, "ALTER TABLE booking DROP CONSTRAINT not_yet");
        wait_until(has_booked_all, consumer, DEADLINE_MS, "all orders are booked");
}

static void expect_each_order_once(struct consumer *consumer)
{
        char *said = database_value(consumer->admin,
            "SELECT format('%s bookings of %s orders, %s cents', count(*),"
            " count(DISTINCT order_id), sum(cents)) FROM booking");

        cr_expect_str_eq(said, "40 bookings of 40 orders, 82000 cents", "%s", said);
        free(said);
}

static bool nothing_is_pending(void *context)
{
        struct consumer *consumer = context;
        redisReply *pending = redis_server_run(&consumer->fixture.redis, "XPENDING events billing");
        redisReply *groups = redis_server_run(&consumer->fixture.redis, "XINFO GROUPS events");
        bool is_done = pending->element[0]->integer == 0;

        /* …, "lag", 0: so many are still to be read. */
        is_done = is_done && groups->element[0]->element[11]->integer == 0;
        freeReplyObject(groups);
        freeReplyObject(pending);
        return is_done;
}

/* It commits, and cannot acknowledge: as if it had been killed in between. */
static void lose_an_acknowledgement(struct consumer *consumer, struct relay_process **relay)
{
        redis_server_do(&consumer->fixture.redis, "ACL SETUSER default -xack");
        setenv("WORKER", "one", 1);
        start(consumer);
        publish_orders(consumer);
        setenv("PGCOURIER_CRASH_AT", "before_settle:1", 1);
        *relay = relay_fixture_start(&consumer->fixture, "");
        deliver_twice(*relay);
        cr_expect_neq(process_wait(&consumer->process, DEADLINE_MS), 0);
        expect_value(consumer->admin, "SELECT count(*) FROM booking", "1");
        redis_server_do(&consumer->fixture.redis, "ACL SETUSER default +xack");
}

static bool waits_for_booking(void *context)
{
        struct consumer *consumer = context;

        return database_integer(consumer->admin,
                   "SELECT count(*) FROM pg_locks"
                   " WHERE relation = 'booking'::regclass AND NOT granted") == 1;
}

/* Killed in a transaction, with all entries in its hands, which another worker had before it. */
static void kill_within_a_change(struct consumer *consumer)
{
        database_exec(consumer->admin, "BEGIN; LOCK TABLE booking IN SHARE MODE");
        setenv("WORKER", "two", 1);
        start(consumer);
        wait_until(waits_for_booking, consumer, DEADLINE_MS, "a change waits for its lock");
        process_kill(&consumer->process);
        database_exec(consumer->admin, "ROLLBACK");
}

static void check_stream_consumer(const char *language_name)
{
        const struct language *language = find_language(language_name);
        struct consumer consumer;
        struct relay_process *relay;

        begin(&consumer, language, &language->stream_consumer);
        lose_an_acknowledgement(&consumer, &relay);
        kill_within_a_change(&consumer);
        setenv("WORKER", "three", 1);
        start(&consumer);
        await_bookings(&consumer);
        relay_fixture_await(&consumer.fixture, "events", N_ORDERS + 1);
        relay_stop(relay);
        wait_until(nothing_is_pending, &consumer, DEADLINE_MS, "all entries are acknowledged");
        stop(&consumer);

        expect_each_order_once(&consumer);
        /* The one that was not acknowledged, and what the relay delivered again. */
        cr_expect_eq(count_in_log(&consumer, "came again: "),
            1 + redis_server_count(&consumer.fixture.redis, "XLEN events") - N_ORDERS, "%s",
            read_file(consumer.log_path));
        relay_destroy(relay);
        end(&consumer);
}

static bool is_listening(void *context)
{
        struct consumer *consumer = context;

        if (!process_is_running(&consumer->process))
                test_abort("the receiver ended: %s", read_file(consumer->log_path));
        return port_accepts(consumer->port);
}

static bool have_come_again(void *context)
{
        return count_in_log(context, "came again: ") > 0;
}

#define EVENT_ID "00000000-0000-4000-8000-000000000001"

/* By a program that shares nothing with the receivers. To be freed. */
static char *sign(const char *sent_at, const char *body)
{
        static const char program[] =
            "import base64, hashlib, hmac, sys\n"
            "key = base64.b64decode('" SECRET "'[len('whsec_'):])\n"
            "signed = '" EVENT_ID ".' + sys.argv[1] + '.' + sys.argv[2]\n"
            "mac = hmac.new(key, signed.encode(), hashlib.sha256)\n"
            "print('v1,' + base64.b64encode(mac.digest()).decode(), end='')\n";
        char *folder = temp_folder();
        char *path = xasprintf("%s/signature", folder);
        char *signature;
        const char *argv[] = {"/usr/bin/python3", "-c", program, sent_at, body, NULL};

        cr_assert_eq(process_run(argv, path, false), 0);
        signature = read_file(path);
        free(path);
        free(folder);
        return signature;
}

static void expect_answer_to(const struct consumer *consumer, const char *prefix,
    const char *sent_at, const char *signature, const char *body, unsigned status)
{
        char *address = xasprintf("127.0.0.1:%u", consumer->port);
        char *headers = xasprintf("%sid: " EVENT_ID "\r\n%stimestamp: %s\r\n%ssignature: %s\r\n",
            prefix, prefix, sent_at, prefix, signature);
        struct http_reply reply = http_ask(address, "POST", "/", headers, body);

        cr_expect_eq(reply.status, status, "%s%s", headers, reply.head);
        http_reply_free(&reply);
        free(headers);
        free(address);
}

static void expect_answer(const struct consumer *consumer, const char *sent_at,
    const char *signature, const char *body, unsigned status)
{
        expect_answer_to(consumer, "webhook-", sent_at, signature, body, status);
}

#define BODY "{\"order\": 41, \"cents\": 0}"

static void expect_no_large_body_read(const struct consumer *consumer, const char *now)
{
        const size_t too_large = (1 << 20) + 1;
        char *body = xcalloc(too_large + 1, 1);

        memset(body, ' ', too_large);
        expect_answer(consumer, now, "v1,AAAA", body, 413);
        free(body);
}

static void expect_signatures_checked(struct consumer *consumer)
{
        char *now = xasprintf("%lld", (long long)time(NULL));
        char *signature = sign(now, BODY);
        char *among_others = xasprintf("v1,AAAA v2,%s %s v1,\xe4", signature, signature);
        char *of_another_version = xasprintf("v2%s", signature + 2);
        static const char *const too_far[] = {"1795230072", "4102444800"};
        char endless[400] = "";

        expect_answer(consumer, now, "", BODY, 401);
        expect_answer(consumer, now, "v1,AAAA", BODY, 401);
        expect_answer(consumer, now, "v1,\xe4", BODY, 401);
        expect_answer(consumer, now, of_another_version, BODY, 401);
        expect_answer(consumer, now, signature, "{\"order\": 42, \"cents\": 0}", 401);
        expect_answer(consumer, "x", "v1,AAAA", BODY, 401);
        memset(endless, '9', sizeof endless - 1);
        expect_answer(consumer, endless, "v1,AAAA", BODY, 401);
        for (size_t i = 0; i < 2; i++) {
                char *old = sign(too_far[i], BODY);
                expect_answer(consumer, too_far[i], old, BODY, 401);
                expect_answer(consumer, now, old, BODY, 401);
                free(old);
        }
        expect_value(consumer->admin, "SELECT count(*) FROM booking WHERE order_id > 40", "0");

        expect_no_large_body_read(consumer, now);

        expect_answer(consumer, now, among_others, BODY, 204);
        expect_answer(consumer, now, signature, BODY, 204);
        expect_value(consumer->admin, "SELECT count(*) FROM booking WHERE order_id > 40", "1");
        database_exec(consumer->admin, "DELETE FROM booking WHERE order_id > 40");
        free(of_another_version);
        free(among_others);
        free(signature);
        free(now);
}

/* It says that it is down, not that the event is bad. Its headers have other names meanwhile. */
static void expect_down_without_database(struct consumer *consumer)
{
        char *url = xasprintf("postgresql://billing_app@127.0.0.1:%u/none", free_port());
        char *now = xasprintf("%lld", (long long)time(NULL));
        char *signature = sign(now, BODY);

        setenv("DATABASE_URL", url, 1);
        setenv("WEBHOOK_HEADER_PREFIX", "x-hook-", 1);
        start(consumer);
        wait_until(is_listening, consumer, DEADLINE_MS, "the receiver listens");
        expect_answer_to(consumer, "x-hook-", now, signature, BODY, 503);
        expect_answer_to(consumer, "webhook-", now, signature, BODY, 401);
        stop(consumer);
        free(signature);
        free(now);
        free(url);
}

static void check_receiver(const char *language_name)
{
        const struct language *language = find_language(language_name);
        struct consumer consumer;
        struct relay_process *relay;

        begin(&consumer, language, &language->webhook_receiver);
        start(&consumer);
        wait_until(is_listening, &consumer, DEADLINE_MS, "the receiver listens");
        publish_orders(&consumer);
        setenv("PGCOURIER_CRASH_AT", "before_settle:1", 1);
        /* The receiver has the older of two secrets. */
        relay = relay_start("postgres: {dsn: \"%s\"}\n"
                            "sinks:\n"
                            "  - {name: hook, topics: [\"**\"], start: beginning,"
                            " retry: {first: 200ms, factor: 1, attempts: 0, max_age: 0},\n"
                            "     http: {url: \"http://127.0.0.1:%u/\","
                            " secrets: [" NEW_SECRET ", " SECRET "]}}\n",
            consumer.fixture.relay, consumer.port);
        deliver_twice(relay);
        await_bookings(&consumer);
        wait_until(have_come_again, &consumer, DEADLINE_MS, "an event comes again");
        await_in_database(consumer.fixture.admin,
            "SELECT NOT EXISTS (SELECT FROM courier.outbox, courier.cursor WHERE NOT"
            " courier.has_passed(from_snapshot, until_snapshot, last_id, id, txid))"
            " AND NOT EXISTS (SELECT FROM courier.parked)",
            "all events are settled");
        relay_stop(relay);

        expect_signatures_checked(&consumer);
        stop(&consumer);
        expect_down_without_database(&consumer);
        expect_each_order_once(&consumer);
        relay_destroy(relay);
        end(&consumer);
}

#define CONSUMERS_IN(language)                                                                     \
        Test(consumers, of_a_stream_in_##language##_book_each_order_once)                          \
        {                                                                                          \
                check_stream_consumer(#language);                                                  \
        }                                                                                          \
        Test(consumers, of_webhooks_in_##language##_book_each_order_once)                          \
        {                                                                                          \
                check_receiver(#language);                                                         \
        }

CONSUMERS_IN(python)
CONSUMERS_IN(node)
CONSUMERS_IN(go)
CONSUMERS_IN(java)
CONSUMERS_IN(php)
CONSUMERS_IN(ruby)

#endif

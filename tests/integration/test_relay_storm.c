/*
 * All kinds of connection in one loop, cut all the time: numbers of descriptors go from one library
 * to the next within a turn, and a library that watches one that is no longer its own hangs, aborts
 * or hears of another's. The short form of what scripts/chaos does for as long as one likes.
 */
#include "base/alloc.h"
#include "chaos/fault_proxy.h"
#include "support/http_receiver.h"
#include "support/relay_fixture.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROUNDS = 12, N_EACH = 10, N_EVENTS = (N_ROUNDS + 1) * N_EACH, MAX_MORE_FILES = 8 };

struct storm {
        struct relay_fixture fixture;
        struct relay_process *relay;
        struct http_receiver *http;
        struct smtp_receiver smtp;
        struct fault_proxy *proxy;
        struct fault_link *to_http;
        struct fault_link *to_smtp;
        struct fault_link *to_redis;
        unsigned seed;
        int n_published;
};

static unsigned count_files(const struct relay_process *relay)
{
        char *path = xasprintf("/proc/%d/fd", (int)relay->process.pid);
        DIR *folder = opendir(path);
        unsigned n = 0;

        cr_assert_not_null(folder);
        while (readdir(folder) != NULL)
                n++;
        closedir(folder);
        free(path);
        return n;
}

static void publish_some(struct storm *storm)
{
        char *sql = xasprintf(
            "SELECT courier.publish('mail.sent', json_build_object('to', 'b@example.org', "
            "'subject', 'n' || n || ';', 'text', 'x'), key => (n %% 4)::text) "
            "FROM generate_series(%d, %d) AS n ORDER BY n",
            storm->n_published, storm->n_published + N_EACH - 1);

        database_exec(storm->fixture.admin, sql);
        storm->n_published += N_EACH;
        free(sql);
}

static void reset_link(struct fault_link *link)
{
        fault_link_set(link, &(struct fault){.kind = FAULT_RESET});
        fault_link_set(link, &(struct fault){.kind = FAULT_NONE});
}

static void cut_one(struct storm *storm)
{
        switch (rand_r(&storm->seed) % 5) {
        case 0:
                reset_link(storm->to_http);
                break;
        case 1:
                reset_link(storm->to_smtp);
                break;
        case 2:
                reset_link(storm->to_redis);
                break;
        case 3:
                redis_server_do(&storm->fixture.redis, "CLIENT KILL TYPE normal");
                break;
        case 4:
                database_exec(storm->fixture.admin,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE usename = 'relay' AND datname = current_database()");
                break;
        }
}

static void await_settled(struct storm *storm)
{
        await_in_database(storm->fixture.admin,
            "SELECT count(*) = 3 AND " ALL_IS_SETTLED
            " AND NOT EXISTS (SELECT FROM courier.parked) FROM courier.cursor",
            "all sinks to have everything");
}

/* The number in "n17;", wherever it stands. */
static void note(bool *is_there, const char *text)
{
        int number = -1;

        for (const char *at = text; (at = strchr(at, 'n')) != NULL; at++) {
                char end = '\0';
                if (sscanf(at, "n%d%c", &number, &end) == 2 && end == ';')
                        break;
        }
        if (number >= 0 && number < N_EVENTS)
                is_there[number] = true;
}

static void expect_all(const bool *is_there, const char *where)
{
        for (int i = 0; i < N_EVENTS; i++)
                cr_expect(is_there[i], "%d is not in %s", i, where);
}

static void expect_nothing_lost(struct storm *storm)
{
        bool in_redis[N_EVENTS] = {false};
        bool posted[N_EVENTS] = {false};
        bool mailed[N_EVENTS] = {false};
        json_t *mails = smtp_receiver_mails(&storm->smtp);
        redisReply *entries = redis_server_run(&storm->fixture.redis, "XRANGE events - +");

        for (size_t i = 0; i < json_array_size(mails); i++)
                note(mailed, json_string_value(json_object_get(json_array_get(mails, i), "data")));
        for (unsigned i = 0; i < http_receiver_n_requests(storm->http); i++)
                note(posted, http_receiver_request(storm->http, i)->body);
        for (size_t i = 0; i < entries->elements; i++) {
                const redisReply *fields = entries->element[i]->element[1];
                for (size_t j = 0; j + 1 < fields->elements; j += 2)
                        if (strcmp(fields->element[j]->str, "payload") == 0)
                                note(in_redis, fields->element[j + 1]->str);
        }
        expect_all(in_redis, "Redis");
        expect_all(posted, "what was posted");
        expect_all(mailed, "what was mailed");
        freeReplyObject(entries);
        json_decref(mails);
}

static void begin(struct storm *storm)
{
        *storm = (struct storm){.seed = 9};
        relay_fixture_begin(&storm->fixture, postgres_shared());
        storm->http = http_receiver_start(NULL, NULL);
        smtp_receiver_init(&storm->smtp);
        smtp_receiver_start(&storm->smtp, NULL);
        storm->proxy = fault_proxy_start();
        storm->to_http = fault_proxy_add(storm->proxy, http_receiver_port(storm->http));
        storm->to_smtp = fault_proxy_add(storm->proxy, storm->smtp.port);
        storm->to_redis = fault_proxy_add(storm->proxy, storm->fixture.redis.port);
        storm->relay = relay_start(
            "postgres: {dsn: \"%s\"}\n"
            "relay: {standby: 20ms, sweep: 200ms}\n"
            "sinks:\n"
            "  - {name: bus, topics: [\"**\"], start: beginning,\n"
            "     redis: {url: \"redis://127.0.0.1:%u\", stream: events}}\n"
            "  - {name: hook, topics: [\"**\"], start: beginning, concurrency: 4,\n"
            "     retry: {first: 10ms, max: 50ms, attempts: 0},\n"
            "     http: {url: \"http://127.0.0.1:%u/\", timeout: 5s}}\n"
            "  - {name: mail, topics: [\"**\"], start: beginning,\n"
            "     retry: {first: 10ms, max: 50ms, attempts: 0},\n"
            "     email: {url: \"smtp://127.0.0.1:%u\", from: a@example.org, timeout: 5s}}\n",
            storm->fixture.relay, fault_link_port(storm->to_redis), fault_link_port(storm->to_http),
            fault_link_port(storm->to_smtp));
}

static void end(struct storm *storm)
{
        relay_destroy(storm->relay);
        fault_proxy_destroy(storm->proxy);
        smtp_receiver_deinit(&storm->smtp);
        http_receiver_destroy(storm->http);
        relay_fixture_end(&storm->fixture);
}

Test(relay_storm, loses_neither_events_nor_descriptors_while_all_connections_are_cut)
{
        struct storm storm;
        unsigned n_files;

        begin(&storm);
        publish_some(&storm);
        await_settled(&storm);
        n_files = count_files(storm.relay);
        for (int round = 0; round < N_ROUNDS; round++) {
                long long n_before = redis_server_count(&storm.fixture.redis, "XLEN events");
                publish_some(&storm);
                for (int i = 0; i < 10; i++)
                        cut_one(&storm);
                relay_fixture_await(&storm.fixture, "events", n_before + 1);
                for (int i = 0; i < 3; i++)
                        cut_one(&storm);
        }
        await_settled(&storm);

        cr_expect_leq(count_files(storm.relay), n_files + MAX_MORE_FILES, "%u files, not %u",
            count_files(storm.relay), n_files);
        expect_nothing_lost(&storm);
        cr_expect_eq(
            database_integer(storm.fixture.admin, "SELECT count(*) FROM courier.dead_letter"), 0);
        cr_expect_eq(relay_count_in_log(storm.relay, "event=starting"), 1);
        relay_stop(storm.relay);
        end(&storm);
}

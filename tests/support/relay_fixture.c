#include "support/relay_fixture.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM      "events"
#define DEADLINE_MS 60000

void relay_fixture_begin(struct relay_fixture *fixture, struct postgres *postgres)
{
        *fixture = (struct relay_fixture){.dsn = postgres_new_database(postgres)};
        fixture->app = dsn_as_user(fixture->dsn, "app");
        fixture->relay = dsn_as_user(fixture->dsn, "relay");
        fixture->admin = database_connect(fixture->dsn);
        redis_server_start(&fixture->redis, NULL);
}

void relay_fixture_end(struct relay_fixture *fixture)
{
        writers_destroy(fixture->writers);
        history_deinit(&fixture->history);
        redis_server_destroy(&fixture->redis);
        PQfinish(fixture->admin);
        free(fixture->dsn);
        free(fixture->app);
        free(fixture->relay);
}

struct relay_process *relay_fixture_start(const struct relay_fixture *fixture, const char *settings)
{
        return relay_start("postgres:\n"
                           "  dsn: \"%s\"\n"
                           "relay:\n"
                           "  standby: 50ms\n"
                           "sinks:\n"
                           "  - name: bus\n"
                           "    topics: [\"**\"]\n"
                           "    start: beginning\n"
                           "%s"
                           "    redis:\n"
                           "      url: unix://%s\n"
                           "      stream: " STREAM "\n",
            fixture->relay, settings, fixture->redis.socket_path);
}

void relay_fixture_write(struct relay_fixture *fixture, unsigned seed)
{
        fixture->writers = writers_start(
            fixture->app, &(struct writer_options){.n_writers = 4, .pause_us = 2000, .seed = seed});
}

struct awaited_stream {
        struct redis_server *redis;
        const char *name;
        long long n;
};

static bool has_entries(void *context)
{
        const struct awaited_stream *awaited = context;

        return redis_server_count(awaited->redis, "XLEN %s", awaited->name) >= awaited->n;
}

void relay_fixture_await(struct relay_fixture *fixture, const char *stream, long long n_entries)
{
        struct awaited_stream awaited = {.redis = &fixture->redis, .name = stream, .n = n_entries};

        wait_until(has_entries, &awaited, DEADLINE_MS, "events arrive in Redis");
}

void relay_fixture_await_more(struct relay_fixture *fixture, long long n_entries)
{
        long long n_now = redis_server_count(&fixture->redis, "XLEN " STREAM);

        relay_fixture_await(fixture, STREAM, n_now + n_entries);
}

static bool nothing_is_missing(void *context)
{
        struct relay_fixture *fixture = context;

        history_read_stream(&fixture->history, &fixture->redis, STREAM);
        return history_judge(&fixture->history, fixture->writers).n_lost == 0;
}

struct filter_result relay_fixture_check(struct relay_fixture *fixture, struct relay_process *relay)
{
        struct filter_result verdict;

        writers_stop(fixture->writers);
        wait_until(
            nothing_is_missing, fixture, DEADLINE_MS, "everything that was committed arrives");
        relay_stop(relay);
        history_read_stream(&fixture->history, &fixture->redis, STREAM);
        verdict = history_judge(&fixture->history, fixture->writers);
        if (verdict.n_misordered > 0 || verdict.n_uncommitted > 0)
                test_abort("%zu events out of order, %zu that were never committed; the first: %s",
                    verdict.n_misordered, verdict.n_uncommitted, verdict.first_fault);
        return verdict;
}

void publish(PGconn *connection, const char *topic, const char *key, const char *text)
{
        char *sql = xasprintf("SELECT courier.publish('%s', '\"%s\"', key => %s%s%s)", topic, text,
            key != NULL ? "'" : "", key != NULL ? key : "NULL", key != NULL ? "'" : "");

        database_exec(connection, sql);
        free(sql);
}

struct awaited_row {
        PGconn *connection;
        const char *sql;
};

static bool is_true(void *context)
{
        const struct awaited_row *awaited = context;
        char *value = database_value(awaited->connection, awaited->sql);
        bool yes = strcmp(value, "t") == 0;

        free(value);
        return yes;
}

void await_in_database(PGconn *connection, const char *sql, const char *what)
{
        struct awaited_row awaited = {.connection = connection, .sql = sql};

        wait_until(is_true, &awaited, DEADLINE_MS, what);
}

/* A field of the stream's entry of that index; NULL if there is none. Free it. */
static char *entry_field(
    struct relay_fixture *fixture, const char *stream, size_t index, const char *name)
{
        redisReply *reply = redis_server_run(&fixture->redis, "XRANGE %s - +", stream);
        char *value = NULL;
        const redisReply *fields;

        cr_assert_lt(index, reply->elements, "%s has no entry %zu", stream, index);
        fields = reply->element[index]->element[1];
        for (size_t i = 0; i + 1 < fields->elements; i += 2)
                if (strcmp(fields->element[i]->str, name) == 0)
                        value = xstrdup(fields->element[i + 1]->str);
        freeReplyObject(reply);
        return value;
}

void relay_fixture_expect_field(struct relay_fixture *fixture, const char *stream, size_t index,
    const char *name, const char *expected)
{
        char *value = entry_field(fixture, stream, index, name);

        cr_expect(value != NULL && strcmp(value, expected) == 0,
            "%s of entry %zu in %s is %s, not %s", name, index, stream,
            value != NULL ? value : "missing", expected);
        free(value);
}

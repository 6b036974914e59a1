/*
 * Where a receiver begins: with what was not committed when its row was inserted. That is so for
 * the transaction that inserts it, too, whatever its neighbours do meanwhile.
 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/*
 * One receiver for each row, of the topic that has its name. Of these steps: a statement, or
 *
 *   I  its row is inserted; B: the same with start => 'beginning'
 *   1  the transaction publishes it; so 2, 3
 *   N  a neighbour gets a transaction id, writes and commits
 *   L  a session gets an id and publishes 8; U: the same with 9; both commit when the row's transaction has
 */
static const struct {
        const char *name;
        const char *steps[12];
        const char *expected;
} cases[] = {
    {"id_then_neighbour", {"1", "N", "I", "2"}, "1 2"},
    {"id_and_no_neighbour", {"1", "I", "2"}, "1 2"},
    {"no_id_yet", {"N", "I", "N", "1"}, "1"},
    {"nothing_before", {"I", "1", "N", "2"}, "1 2"},
    {"between_others", {"L", "1", "U", "N", "I", "N", "2"}, "8 1 9 2"},
    {"savepoints",
        {"1", "SAVEPOINT a", "N", "I", "SAVEPOINT b", "2", "RELEASE b", "N", "3", "RELEASE a"},
        "1 2 3"},
    {"first_in_savepoint", {"SAVEPOINT a", "1", "N", "SAVEPOINT b", "I", "RELEASE b", "2"}, "1 2"},
    {"rolled_back_savepoint", {"SAVEPOINT a", "1", "N", "ROLLBACK TO a", "I", "2"}, "2"},
    {"repeatable_read",
        {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "1", "N", "I", "N", "2"}, "1 2"},
    {"beginning", {"1", "N", "B", "2"}, "0 1 2"},
};
#define N_CASES (sizeof cases / sizeof *cases)

struct fixture {
        struct relay_fixture relay;
        struct http_receiver *http;
        PGconn *neighbour, *low, *high; /* other applications */
};

static void publish_to(PGconn *connection, const char *name, const char *number)
{
        char *sql = xasprintf("SELECT courier.publish('%s', '%s', key => 'k')", name, number);

        database_exec(connection, sql);
        free(sql);
}

static void insert(struct fixture *fixture, const char *name, const char *start)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, topics, start)"
                              " VALUES ('hooks', '%s', 'http://127.0.0.1:%u/%s', '{%s}', '%s')",
            name, http_receiver_port(fixture->http), name, name, start);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

static void begin_and_publish(PGconn *connection, const char *name, const char *number)
{
        database_exec(connection, "BEGIN");
        publish_to(connection, name, number);
}

static void take_step(struct fixture *fixture, const char *name, const char *step)
{
        if (strlen(step) > 1)
                database_exec(fixture->relay.admin, step);
        else if (*step == 'I' || *step == 'B')
                insert(fixture, name, *step == 'I' ? "now" : "beginning");
        else if (*step == 'N')
                publish_to(fixture->neighbour, "nobody", "0");
        else if (*step == 'L')
                begin_and_publish(fixture->low, name, "8");
        else if (*step == 'U')
                begin_and_publish(fixture->high, name, "9");
        else
                publish_to(fixture->relay.admin, name, step);
}

static void play(struct fixture *fixture, const char *name, const char *const *steps)
{
        database_exec(fixture->relay.admin, "BEGIN");
        for (; *steps != NULL; steps++)
                take_step(fixture, name, *steps);
        database_exec(fixture->relay.admin, "COMMIT");
        if (PQtransactionStatus(fixture->low) == PQTRANS_INTRANS)
                database_exec(fixture->low, "COMMIT");
        if (PQtransactionStatus(fixture->high) == PQTRANS_INTRANS)
                database_exec(fixture->high, "COMMIT");
}

static struct relay_process *start(const struct fixture *fixture)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "sinks:\n"
                           "  - name: hooks\n"
                           "    topics: [\"**\"]\n"
                           "    http: {receivers: table, allow_networks: [127.0.0.1],"
                           " allow_ports: [%u]}\n",
            fixture->relay.relay, http_receiver_port(fixture->http));
}

/* The bodies that came for it, in order. */
static char *bodies(const struct fixture *fixture, const char *name)
{
        struct bytes all = {0};

        for (unsigned i = 0, n = http_receiver_n_requests(fixture->http); i < n; i++) {
                const struct http_request *request = http_receiver_request(fixture->http, i);
                if (strcmp(request->target + 1, name) == 0)
                        bytes_printf(&all, "%s%s", all.length > 0 ? " " : "", request->body);
        }
        return all.length > 0 ? all.data : xstrdup("");
}

struct awaited {
        const struct fixture *fixture;
        const char *name, *expected;
};

static bool has_come(void *context)
{
        const struct awaited *awaited = context;
        char *got = bodies(awaited->fixture, awaited->name);
        bool is_there = strlen(got) >= strlen(awaited->expected);

        free(got);
        return is_there;
}

Test(receiver_start, includes_all_that_was_not_committed_when_the_row_was_inserted)
{
        struct fixture fixture;
        struct relay_process *relay;

        relay_fixture_begin(&fixture.relay, postgres_shared());
        fixture.http = http_receiver_start(NULL, NULL);
        fixture.neighbour = database_connect(fixture.relay.app);
        fixture.low = database_connect(fixture.relay.app);
        fixture.high = database_connect(fixture.relay.app);
        for (size_t i = 0; i < N_CASES; i++) {
                publish_to(fixture.neighbour, cases[i].name,
                    "0"); /* not for it, unless from the beginning */
                play(&fixture, cases[i].name, cases[i].steps);
        }
        relay = start(&fixture);
        for (size_t i = 0; i < N_CASES; i++) {
                struct awaited awaited = {&fixture, cases[i].name, cases[i].expected};
                char *got;

                wait_until(has_come, &awaited, 20000, cases[i].name);
                got = bodies(&fixture, cases[i].name);
                cr_expect_str_eq(got, cases[i].expected, "%s got %s, not %s", cases[i].name, got,
                    cases[i].expected);
                free(got);
        }
        relay_stop(relay);
        relay_destroy(relay);
        PQfinish(fixture.neighbour);
        PQfinish(fixture.low);
        PQfinish(fixture.high);
        http_receiver_destroy(fixture.http);
        relay_fixture_end(&fixture.relay);
}

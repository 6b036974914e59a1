/*
 * One receiver refuses a single event, one is down, one is fine; as receivers of one sink, and as
 * sinks of their own. No receiver pays for what is wrong with another, nor a key for another key.
 */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N_KEYS = 20, N_FIRST = 60, N_ALL = 80, POISON = 5, N_TRIES = 5, SLOW_START = 2 };

/* What a receiver was sent. */
struct journal {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        int refused; /* this one with 422; 0: none */
        bool is_hurried;
        unsigned n_refusals;
        unsigned n_of_other_keys;
        unsigned n;
        int numbers[4 * N_ALL];
};

static void journal_init(struct journal *journal, int refused)
{
        *journal = (struct journal){.refused = refused};
        pthread_mutex_init(&journal->lock, NULL);
        pthread_cond_init(&journal->changed, NULL);
}

/* The last refusal is held back until all other keys are through: were they not to pass, none of
 * the two would ever come. */
static struct http_answer take(void *context, const struct http_request *request)
{
        struct journal *journal = context;
        int number = atoi(request->body);
        bool is_refused = number == journal->refused;

        pthread_mutex_lock(&journal->lock);
        cr_assert_lt(journal->n, sizeof journal->numbers / sizeof *journal->numbers);
        journal->numbers[journal->n++] = number;
        journal->n_of_other_keys += number % N_KEYS != POISON;
        journal->n_refusals += is_refused;
        pthread_cond_broadcast(&journal->changed);
        while (is_refused && journal->n_refusals == N_TRIES && !journal->is_hurried &&
               journal->n_of_other_keys < N_FIRST - N_FIRST / N_KEYS)
                pthread_cond_wait(&journal->changed, &journal->lock);
        pthread_mutex_unlock(&journal->lock);
        return (struct http_answer){.status = is_refused ? 422 : 204};
}

static void hurry(struct journal *journal)
{
        pthread_mutex_lock(&journal->lock);
        journal->is_hurried = true;
        pthread_cond_broadcast(&journal->changed);
        pthread_mutex_unlock(&journal->lock);
}

struct awaited {
        struct journal *journal;
        unsigned n;
};

static bool has_come(void *context)
{
        const struct awaited *awaited = context;
        bool is_there;

        pthread_mutex_lock(&awaited->journal->lock);
        is_there = awaited->journal->n >= awaited->n;
        pthread_mutex_unlock(&awaited->journal->lock);
        return is_there;
}

static void await(struct journal *journal, unsigned n, const char *what)
{
        struct awaited awaited = {journal, n};

        wait_until(has_come, &awaited, 30000, what);
}

/* Each number up to `last` so often, and those of one key in order. */
static void expect_numbers(const int *numbers, unsigned n, int last, int refused)
{
        int newest[N_KEYS] = {0};
        unsigned count[N_ALL + 1] = {0};

        for (unsigned i = 0; i < n; i++) {
                int key = numbers[i] % N_KEYS;
                cr_assert(numbers[i] >= 1 && numbers[i] <= last);
                cr_expect_geq(numbers[i], newest[key], "%d came after %d", numbers[i], newest[key]);
                newest[key] = numbers[i];
                count[numbers[i]]++;
        }
        for (int number = 1; number <= last; number++)
                cr_expect_eq(count[number], number == refused ? N_TRIES : 1, "%d came %u times",
                    number, count[number]);
}

struct fixture {
        struct relay_fixture relay;
        struct relay_process *process;
        struct http_receiver *picky;
        struct http_receiver *down;
        struct http_receiver *fine;
        struct journal picky_journal;
        struct journal fine_journal;
};

#define BEFORE "postgres: {dsn: \"%s\"}\nrelay: {sweep: 200ms}\nlog: {level: debug}\nsinks:\n"
#define RETRY  "retry: {first: 10ms, max: 20ms, attempts: 8}"

static void start_with_sinks(struct fixture *fixture)
{
        fixture->process =
            relay_start(BEFORE "  - {name: picky, topics: [\"t\"], start: beginning, " RETRY ",\n"
                               "     http: {url: \"http://127.0.0.1:%u/\"}}\n"
                               "  - {name: down, topics: [\"t\"], start: beginning, " RETRY ",\n"
                               "     http: {url: \"http://127.0.0.1:%u/\"}}\n"
                               "  - {name: fine, topics: [\"t\"], start: beginning, " RETRY ",\n"
                               "     http: {url: \"http://127.0.0.1:%u/\"}}\n",
                fixture->relay.relay, http_receiver_port(fixture->picky),
                http_receiver_port(fixture->down), http_receiver_port(fixture->fine));
}

static void start_with_receivers(struct fixture *fixture)
{
        char *sql = xasprintf("INSERT INTO courier.receiver (sink, name, url, start)"
                              " VALUES ('hooks', 'picky', 'http://127.0.0.1:%u/', 'beginning'),"
                              " ('hooks', 'down', 'http://127.0.0.1:%u/', 'beginning'),"
                              " ('hooks', 'fine', 'http://127.0.0.1:%u/', 'beginning')",
            http_receiver_port(fixture->picky), http_receiver_port(fixture->down),
            http_receiver_port(fixture->fine));

        database_exec(fixture->relay.admin, sql);
        free(sql);
        fixture->process =
            relay_start(BEFORE "  - {name: hooks, topics: [\"t\"], " RETRY ",\n"
                               "     http: {receivers: table, allow_networks: [127.0.0.1],\n"
                               "            allow_ports: [%u, %u, %u]}}\n",
                fixture->relay.relay, http_receiver_port(fixture->picky),
                http_receiver_port(fixture->down), http_receiver_port(fixture->fine));
}

static void publish_numbers(struct fixture *fixture, int from, int to)
{
        char *sql = xasprintf("SELECT courier.publish('t', to_json(n), key => (n %% %d)::text)"
                              " FROM generate_series(%d, %d) AS n ORDER BY n",
            N_KEYS, from, to);

        database_exec(fixture->relay.admin, sql);
        free(sql);
}

/* It is back: one finds that out, then so many as the slow start allows, and no others. */
static void come_back_slowly(struct fixture *fixture)
{
        http_receiver_answer(fixture->down, &(struct http_answer){.is_held = true});
        http_receiver_answer_next(fixture->down, &(struct http_answer){.status = 204});
        http_receiver_restart(fixture->down);
        http_receiver_wait(fixture->down, 1 + SLOW_START, 30000);
        publish_numbers(fixture, N_FIRST + 1, N_ALL);
        await(&fixture->fine_journal, N_ALL, "all that the fine one gets");
        cr_expect_eq(http_receiver_n_requests(fixture->down), 1 + SLOW_START, "%u requests at once",
            http_receiver_n_requests(fixture->down) - 1);
        http_receiver_release(fixture->down);
        http_receiver_wait(fixture->down, N_ALL, 30000);
}

static void expect_all_of_down(struct fixture *fixture)
{
        int numbers[N_ALL];

        cr_assert_eq(http_receiver_n_requests(fixture->down), N_ALL);
        for (unsigned i = 0; i < N_ALL; i++)
                numbers[i] = atoi(http_receiver_request(fixture->down, i)->body);
        expect_numbers(numbers, N_ALL, N_ALL, 0);
}

static void keep_apart(void (*start)(struct fixture *fixture))
{
        struct fixture fixture;
        struct journal *picky = &fixture.picky_journal;
        struct journal *fine = &fixture.fine_journal;

        relay_fixture_begin(&fixture.relay, postgres_shared());
        fixture.picky = http_receiver_start(NULL, NULL);
        fixture.down = http_receiver_start(NULL, NULL);
        fixture.fine = http_receiver_start(NULL, NULL);
        journal_init(picky, POISON);
        journal_init(fine, 0);
        http_receiver_decide(fixture.picky, take, picky);
        http_receiver_decide(fixture.fine, take, fine);
        http_receiver_stop(fixture.down);
        publish_numbers(&fixture, 1, N_FIRST);
        start(&fixture);

        await(fine, N_FIRST, "all that the fine one gets while another one is down");
        await(picky, N_FIRST + N_TRIES - 1, "all that the picky one gets");
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 FROM courier.dead_letter WHERE payload::text = '5'"
            " AND attempts = 5 AND reason = 'attempts'",
            "the refused event to be given up");
        relay_wait_for_log(fixture.process, "event=sink_still_down", 30000);
        /* The picky one's rows go with its next settle; an outage parks nothing. */
        await_in_database(
            fixture.relay.admin, "SELECT count(*) = 0 FROM courier.parked", "nothing to be parked");

        come_back_slowly(&fixture);
        await(picky, N_ALL + N_TRIES - 1, "all that the picky one gets");
        relay_stop(fixture.process);
        expect_numbers(picky->numbers, picky->n, N_ALL, POISON);
        expect_numbers(fine->numbers, fine->n, N_ALL, 0);
        expect_all_of_down(&fixture);
        cr_expect_eq(
            database_integer(fixture.relay.admin, "SELECT count(*) FROM courier.dead_letter"), 1);
        hurry(picky);
        relay_destroy(fixture.process);
        http_receiver_destroy(fixture.picky);
        http_receiver_destroy(fixture.down);
        http_receiver_destroy(fixture.fine);
        relay_fixture_end(&fixture.relay);
}

Test(relay_fairness, keeps_receivers_apart)
{
        keep_apart(start_with_receivers);
}

Test(relay_fairness, keeps_sinks_apart)
{
        keep_apart(start_with_sinks);
}

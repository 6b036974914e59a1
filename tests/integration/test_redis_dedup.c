/* exactly_once: what was delivered and not settled is known to the next connection, the next
 * sink and the next owner, and a former owner changes nothing any more. */
#include "redis_rig.h"

#include "base/alloc.h"
#include "support/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MARKS "{events}:delivered:driven"
#define OWNER "{events}:owner:driven"

static void own(struct rig *rig, uint64_t epoch)
{
        rig->driver.sink->ops->owned(rig->driver.sink, epoch);
}

static void open_marked(struct rig *rig, struct redis_server *server, unsigned n, uint64_t epoch)
{
        rig_init(rig, server, n);
        rig->config.exactly_once = true;
        rig_open(rig);
        if (epoch > 0)
                own(rig, epoch);
}

/* The events from `first` on come again as the next ones. */
static void repeat(struct rig *rig, unsigned first, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                rig->events[rig->driver.n_started + i] = rig->events[first + i];
}

static void settle(struct rig *rig, unsigned first, unsigned n)
{
        int64_t *ids = xcalloc(n, sizeof *ids);

        for (unsigned i = 0; i < n; i++)
                ids[i] = rig->events[first + i].id;
        rig->driver.sink->ops->settled(rig->driver.sink, ids, n);
        free(ids);
}

static void expect_count(struct redis_server *server, long long n_entries, long long n_marks)
{
        long long entries = redis_server_count(server, "XLEN events");
        long long marks = redis_server_count(server, "SCARD " MARKS);

        cr_expect(entries == n_entries, "%lld entries instead of %lld", entries, n_entries);
        cr_expect(marks == n_marks, "%lld marks instead of %lld", marks, n_marks);
}

static bool has_no_marks(void *server)
{
        return redis_server_count(server, "EXISTS " MARKS) == 0;
}

static bool has_three_marks(void *server)
{
        return redis_server_count(server, "SCARD " MARKS) == 3;
}

Test(redis_dedup, are_kept_until_their_events_are_settled)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        open_marked(&rig, &server, 1300, 1);
        rig_deliver_all(&rig, 1200);
        cr_expect(rig_count(&rig, OUTCOME_DELIVERED) == 1200);
        expect_stream_in_order(&server, &rig);
        expect_count(&server, 1200, 1200);

        settle(&rig, 0, 100); /* goes out with the next burst, or by itself */
        rig_deliver_all(&rig, 1);
        expect_count(&server, 1201, 1101);
        settle(&rig, 100, 1101);
        sink_driver_run_until(&rig.driver, has_no_marks, &server, "the marks to go");
        rig_deliver_all(&rig, 1);
        settle(&rig, 1201, 1);
        rig_destroy(&rig); /* at once: it leaves nothing behind */
        wait_until(has_no_marks, &server, 30000, "the last mark to go");
        redis_server_destroy(&server);
}

Test(redis_dedup, show_what_was_delivered_when_the_answer_was_lost)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        open_marked(&rig, &server, 30, 1);
        rig_deliver_all(&rig, 1);
        rig_deliver(&rig, 9); /* sent, and the answer is not read */
        while (redis_server_count(&server, "XLEN events") < 10)
                ;
        sink_driver_flush(&rig.driver);
        rig.driver.sink->ops->cancel(rig.driver.sink);
        sink_driver_finish(&rig.driver);
        cr_expect(rig_count(&rig, OUTCOME_CANCELLED) == 9);

        repeat(&rig, 1, 9);
        rig_deliver(&rig, 10); /* and a new one behind them */
        sink_driver_finish(&rig.driver);
        for (unsigned i = 10; i < 20; i++)
                expect_outcome(&rig, i, OUTCOME_DELIVERED, "");
        expect_count(&server, 11, 11);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_dedup, are_read_by_the_next_owner)
{
        struct redis_server server;
        struct rig first;
        struct rig second;

        redis_server_start(&server, NULL);
        open_marked(&first, &server, 5, 1);
        rig_deliver_all(&first, 5);
        settle(&first, 0, 2);
        sink_driver_run_until(&first.driver, has_three_marks, &server, "two marks to go");
        rig_destroy(&first);

        open_marked(&second, &server, 8, 2);
        for (unsigned i = 0; i < 6; i++) /* the settled ones never come again */
                second.events[i] = second.events[i + 2];
        rig_deliver_all(&second, 6);
        cr_expect(rig_count(&second, OUTCOME_DELIVERED) == 6);
        expect_count(&server, 8, 6);
        settle(&second, 0, 6);
        sink_driver_run_until(&second.driver, has_no_marks, &server, "the marks to go");
        rig_destroy(&second);
        redis_server_destroy(&server);
}

Test(redis_dedup, shut_a_former_owner_out)
{
        struct redis_server server;
        struct rig former;
        struct rig present;

        redis_server_start(&server, NULL);
        open_marked(&former, &server, 10, 7);
        open_marked(&present, &server, 10, 8);
        rig_deliver_all(&former, 2);
        rig_deliver_all(&present, 3); /* two of them are there */
        expect_count(&server, 3, 3);

        rig_deliver_all(&former, 1); /* its connection is alive, its claim is not */
        expect_outcome(&former, 2, OUTCOME_SINK_DOWN, "another connection has claimed");
        settle(&former, 0, 2);
        rig_deliver_all(&former, 1);
        expect_outcome(&former, 3, OUTCOME_SINK_DOWN, "a later owner of this lane");
        expect_count(&server, 3, 3);
        rig_deliver_all(&present, 1); /* undisturbed by all that */
        expect_outcome(&present, 3, OUTCOME_DELIVERED, "");
        expect_count(&server, 4, 4);

        own(&former, 9);
        repeat(&former, 2, 2);
        rig_deliver_all(&former, 3);
        expect_outcome(&former, 4, OUTCOME_DELIVERED, "");
        expect_count(&server, 5, 3); /* what it was told before is true, and went with it */
        rig_deliver_all(&present, 1);
        expect_outcome(&present, 4, OUTCOME_SINK_DOWN, "another connection has claimed");
        rig_destroy(&former);
        rig_destroy(&present);
        redis_server_destroy(&server);
}

Test(redis_dedup, are_not_set_for_an_event_that_the_stream_refuses)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        redis_server_do(&server, "SET events x");
        open_marked(&rig, &server, 20, 1);
        rig_deliver_all(&rig, 3);
        for (unsigned i = 0; i < 3; i++)
                expect_outcome(&rig, i, i == 0 ? OUTCOME_SINK_DOWN : OUTCOME_CANCELLED,
                    i == 0 ? "WRONGTYPE" : "");
        cr_expect(redis_server_count(&server, "SCARD " MARKS) == 0);

        redis_server_do(&server, "DEL events");
        redis_server_do(&server, "CONFIG SET maxmemory 1");
        rig_deliver_all(&rig, 3);
        expect_outcome(&rig, 3, OUTCOME_SINK_DOWN, "OOM");
        expect_count(&server, 0, 0);
        redis_server_do(&server, "CONFIG SET maxmemory 0");
        repeat(&rig, 0, 6);
        rig_deliver_all(&rig, 6);
        expect_count(&server, 6, 6);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

/* The mark is that of its first delivery: a killed relay left it, or has not removed it yet. */
Test(redis_dedup, hold_back_no_event_that_is_redriven)
{
        struct redis_server server;
        struct rig first;
        struct rig second;

        redis_server_start(&server, NULL);
        open_marked(&first, &server, 2, 1);
        rig_deliver_all(&first, 2);
        rig_destroy(&first);

        open_marked(&second, &server, 4, 2);
        second.events[0].is_redriven = true;
        rig_deliver_all(&second, 2);
        cr_expect(rig_count(&second, OUTCOME_DELIVERED) == 2);
        expect_count(&server, 3, 2);
        repeat(&second, 0, 1); /* as it would come to the next relay if this one was killed now */
        rig_deliver_all(&second, 1);
        expect_count(&server, 4, 2);
        settle(&second, 0, 2);
        sink_driver_run_until(&second.driver, has_no_marks, &server, "the marks to go");
        rig_destroy(&second);
        redis_server_destroy(&server);
}

/* A restored database gives ids out anew. */
Test(redis_dedup, do_not_mistake_another_event_of_the_same_number)
{
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, NULL);
        redis_server_do(&server, "SADD " MARKS " 1:ffffffff-0000-4000-8000-000000000001 junk 7:x");
        open_marked(&rig, &server, 3, 1);
        rig_deliver_all(&rig, 3);
        cr_expect(redis_server_count(&server, "XLEN events") == 3);
        settle(&rig, 0, 3); /* the other one cannot come any more, and goes too */
        rig_deliver(&rig, 0);
        sink_driver_finish(&rig.driver);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_dedup, leave_the_stream_to_its_owner_when_the_sink_is_only_probed)
{
        struct redis_server server;
        struct outcome outcome;
        struct rig rig;

        redis_server_start(&server, NULL);
        open_marked(&rig, &server, 1, 0);
        outcome = sink_driver_probe(&rig.driver);
        cr_expect(outcome.kind == OUTCOME_DELIVERED, "%s", outcome.reason);
        cr_expect(redis_server_count(&server, "EXISTS " OWNER) == 0);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

Test(redis_dedup, ask_for_the_permissions_that_they_need)
{
        static const char *const options[] = {
            "--user", "default", "on", "nopass", "~*", "+@all", "-eval", NULL};
        struct redis_server server;
        struct rig rig;

        redis_server_start(&server, options);
        open_marked(&rig, &server, 1, 1);
        rig_deliver_all(&rig, 1);
        expect_outcome(&rig, 0, OUTCOME_SINK_DOWN, "cannot claim the stream: NOPERM");
        cr_expect(rig.driver.attempts[0].outcome.needs_operator);
        rig_destroy(&rig);
        redis_server_destroy(&server);
}

enum { N_EVENTS = 5000, WINDOW = 40 };

struct killer {
        const struct redis_server *server;
        atomic_bool is_over;
        atomic_uint n_kills;
        atomic_uint n_windows; /* tried by the sink since it began */
        pthread_t thread;
};

static void *kill_connections(void *owner)
{
        struct killer *killer = owner;
        redisContext *context = redisConnect("127.0.0.1", killer->server->port);
        unsigned n_windows = 0;

        while (!atomic_load(&killer->is_over)) {
                /* A sink that cannot get a word in has nothing to lose. */
                if (atomic_load(&killer->n_windows) < n_windows + 3) {
                        freeReplyObject(redisCommand(context, "PING"));
                        continue;
                }
                n_windows = atomic_load(&killer->n_windows);
                redisReply *reply = redisCommand(context, "CLIENT KILL TYPE normal SKIPME yes");
                atomic_fetch_add(&killer->n_kills, reply->integer > 0);
                freeReplyObject(reply);
                for (unsigned i = 0; i < 10 + atomic_load(&killer->n_kills) % 30; i++)
                        freeReplyObject(redisCommand(context, "PING"));
        }
        redisFree(context);
        return NULL;
}

static unsigned count_true(const bool *flags)
{
        unsigned n = 0;

        for (unsigned i = 0; i < N_EVENTS; i++)
                n += flags[i];
        return n;
}

/* The next ones that are not delivered, as one burst. */
static void deliver_window(struct rig *rig, const struct event *events, bool *is_delivered)
{
        size_t first = rig->driver.n_started;
        unsigned event_of[WINDOW];
        unsigned n = 0;

        for (unsigned i = 0; i < N_EVENTS && n < WINDOW; i++)
                if (!is_delivered[i])
                        event_of[n++] = i;
        for (unsigned i = 0; i < n; i++)
                sink_driver_start(&rig->driver, &events[event_of[i]]);
        sink_driver_flush(&rig->driver);
        sink_driver_finish(&rig->driver);
        for (unsigned i = 0; i < n; i++) {
                const int64_t id = events[event_of[i]].id;
                if (rig->driver.attempts[first + i].outcome.kind != OUTCOME_DELIVERED)
                        continue;
                is_delivered[event_of[i]] = true;
                rig->driver.sink->ops->settled(rig->driver.sink, &id, 1);
        }
}

Test(redis_dedup, let_nothing_be_lost_or_repeated_while_connections_die)
{
        struct redis_server server;
        struct rig rig;
        struct killer killer = {.server = &server};
        bool *is_delivered = xcalloc(N_EVENTS, sizeof *is_delivered);

        redis_server_start(&server, NULL);
        open_marked(&rig, &server, N_EVENTS, 1);
        for (unsigned i = 0; i < N_EVENTS; i++)
                rig.events[i].key = i % 3 == 0 ? "a" : "b";
        pthread_create(&killer.thread, NULL, kill_connections, &killer);
        while (count_true(is_delivered) < N_EVENTS &&
               rig.driver.n_started < SINK_DRIVER_MAX_ATTEMPTS - WINDOW) {
                deliver_window(&rig, rig.events, is_delivered);
                atomic_fetch_add(&killer.n_windows, 1);
        }
        atomic_store(&killer.is_over, true);
        pthread_join(killer.thread, NULL);

        cr_expect(count_true(is_delivered) == N_EVENTS);
        cr_expect(atomic_load(&killer.n_kills) > 10, "%u kills", atomic_load(&killer.n_kills));
        cr_expect(redis_server_count(&server, "XLEN events") == N_EVENTS, "%lld entries of %d",
            redis_server_count(&server, "XLEN events"), N_EVENTS);
        rig_destroy(&rig);
        free(is_delivered);
        redis_server_destroy(&server);
}

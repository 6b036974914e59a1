/* The redis sink that asks three real sentinels who is master. */
#include "redis_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SENTINELS = 3, FIRST = 0, SECOND = 1 };

struct watched {
        struct redis_server servers[2]; /* the first one is master in the beginning */
        struct redis_server sentinels[SENTINELS];
        char hosts[SENTINELS][32];
        char *list[SENTINELS];
        char port[8];
        struct rig rig;
};

static void start_sentinel(struct watched *watched, unsigned i, const char *more)
{
        struct redis_server *sentinel = &watched->sentinels[i];
        char path[128];
        char log_path[128];
        FILE *file;

        *sentinel = (struct redis_server){.folder = temp_folder(), .port = free_port()};
        snprintf(path, sizeof path, "%s/sentinel.conf", sentinel->folder);
        snprintf(log_path, sizeof log_path, "%s/log.txt", sentinel->folder);
        file = fopen(path, "w");
        fprintf(file,
            "port %u\nbind 127.0.0.1\ndir %s\n"
            "sentinel monitor events 127.0.0.1 %u 2\n"
            "sentinel down-after-milliseconds events 1000\n"
            "sentinel failover-timeout events 5000\n%s",
            sentinel->port, sentinel->folder, watched->servers[FIRST].port, more);
        fclose(file);
        const char *const chmod_argv[] = {"chmod", "a+rw", path, NULL};
        process_run(chmod_argv, NULL, false);
        const char *const argv[] = {"redis-server", path, "--sentinel", NULL};
        process_start(&sentinel->process, argv, log_path, true);
        snprintf(watched->hosts[i], sizeof watched->hosts[i], "127.0.0.1:%u", sentinel->port);
        watched->list[i] = watched->hosts[i];
}

static bool sees_all(struct redis_server *sentinel)
{
        redisReply *reply;
        bool is_ready;

        if (!port_accepts(sentinel->port))
                return false;
        reply = redis_server_run(sentinel, "INFO sentinel");
        is_ready = strstr(reply->str, "status=ok") != NULL &&
                   strstr(reply->str, "slaves=1,sentinels=3") != NULL;
        freeReplyObject(reply);
        return is_ready;
}

static bool is_watched(void *context)
{
        struct watched *watched = context;

        for (unsigned i = 0; i < SENTINELS; i++)
                if (!sees_all(&watched->sentinels[i]))
                        return false;
        return true;
}

static bool is_asked(void *context)
{
        struct watched *watched = context;

        for (unsigned i = 0; i < SENTINELS; i++)
                if (!port_accepts(watched->sentinels[i].port))
                        return false;
        return true;
}

static bool replicates(void *context)
{
        return redis_server_count(context, "WAIT 1 100") == 1;
}

/* What a single sentinel can answer it knows at once. */
static void watch(struct watched *watched, unsigned n_events, bool has_failover)
{
        /* A master that has lost its replica takes nothing: what it took could be lost. */
        static const char *const master[] = {
            "--min-replicas-to-write", "1", "--repl-diskless-sync-delay", "0", NULL};
        static const char *replica[] = {"--min-replicas-to-write", "1",
            "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", NULL, NULL};
        static char name[] = "events";

        redis_server_start(&watched->servers[FIRST], master);
        snprintf(watched->port, sizeof watched->port, "%u", watched->servers[FIRST].port);
        replica[6] = watched->port;
        redis_server_start(&watched->servers[SECOND], replica);
        for (unsigned i = 0; i < SENTINELS; i++)
                start_sentinel(watched, i, "");
        wait_until(has_failover ? is_watched : is_asked, watched, 30000,
            "the sentinels do not find each other");
        wait_until(replicates, &watched->servers[FIRST], 10000, "nothing is replicated");
        rig_init(&watched->rig, &watched->servers[FIRST], n_events);
        watched->rig.config.host = NULL;
        watched->rig.config.sentinels = watched->list;
        watched->rig.config.n_sentinels = SENTINELS;
        watched->rig.config.master = name;
}

static void end(struct watched *watched)
{
        rig_destroy(&watched->rig);
        for (unsigned i = 0; i < SENTINELS; i++)
                redis_server_destroy(&watched->sentinels[i]);
        for (unsigned i = 0; i < 2; i++)
                redis_server_destroy(&watched->servers[i]);
}

/* As the relay would: again and again, until it is delivered. */
struct persistence {
        struct watched *watched;
        unsigned i;
        bool was_down;
};

static bool is_delivered(void *context)
{
        struct persistence *persistence = context;
        struct rig *rig = &persistence->watched->rig;
        struct outcome outcome = sink_driver_deliver(&rig->driver, &rig->events[persistence->i]);

        cr_assert(outcome.kind == OUTCOME_DELIVERED || outcome.kind == OUTCOME_SINK_DOWN, "%s: %s",
            outcome_name(outcome.kind), outcome.reason);
        persistence->was_down |= outcome.kind == OUTCOME_SINK_DOWN;
        return outcome.kind == OUTCOME_DELIVERED;
}

static bool has_name(void *context)
{
        redisReply *reply = redis_server_ask(context, "CLIENT LIST");
        bool has = reply != NULL && strstr(reply->str, "name=pgcourier") != NULL;

        freeReplyObject(reply);
        return has;
}

static bool has_switched(void *context)
{
        struct watched *watched = context;
        redisReply *reply =
            redis_server_run(&watched->sentinels[0], "SENTINEL GET-MASTER-ADDR-BY-NAME events");
        bool has = strtoul(reply->element[1]->str, NULL, 10) == watched->servers[SECOND].port;

        freeReplyObject(reply);
        return has;
}

static bool holds(const redisReply *reply, unsigned number)
{
        for (size_t i = 0; i < reply->elements; i++)
                if (strtoul(reply->element[i]->element[1]->element[1]->str + 24, NULL, 10) ==
                    number)
                        return true;
        return false;
}

/* Those from `first` to `end` the old master took while it was being replaced: what it then had not
 * replicated is gone with its role, and only Redis could help that. */
static void expect_none_lost(struct redis_server *server, unsigned n, unsigned first, unsigned end)
{
        redisReply *reply = redis_server_run(server, "XRANGE events - +");

        for (unsigned i = 0; i < n; i++)
                cr_expect((i >= first && i < end) || holds(reply, i), "%u is lost", i);
        freeReplyObject(reply);
}

static bool has_fifty(void *context)
{
        return redis_server_count(context, "XLEN events") == 50;
}

Test(redis_sentinel, follows_the_master_through_a_failover)
{
        enum { N = 5000 };
        const struct timespec pace = {.tv_nsec = 10 * 1000 * 1000};
        static struct watched watched;
        struct persistence persistence = {.watched = &watched};
        bool is_demoted = false;
        bool has_followed = false;
        unsigned n = 0;
        unsigned n_followed;

        watch(&watched, N, true);
        rig_open(&watched.rig);
        for (; n < 50; n++) {
                persistence.i = n;
                wait_until(is_delivered, &persistence, 30000, "an event is not delivered");
        }
        cr_expect(!persistence.was_down);
        wait_until(has_fifty, &watched.servers[SECOND], 10000, "nothing is replicated");
        cr_expect(has_name(&watched.servers[FIRST]));
        redis_server_do(&watched.sentinels[1], "SENTINEL FAILOVER events");
        /* Until the sink has followed, and a few more. The sentinels make a replica of the old
         * master too, but take ten seconds to be sure. */
        while (n < N && !(has_followed = has_name(&watched.servers[SECOND]))) {
                if (!is_demoted && has_switched(&watched)) {
                        redis_server_do(&watched.servers[FIRST], "REPLICAOF 127.0.0.1 %u",
                            watched.servers[SECOND].port);
                        is_demoted = true;
                }
                nanosleep(&pace, NULL); /* a steady load, for as long as it takes */
                persistence.i = n;
                n += is_delivered(&persistence);
        }
        cr_expect(has_followed);
        n_followed = n;
        for (unsigned end = n + 10; n < N && n < end; n++) {
                persistence.i = n;
                wait_until(is_delivered, &persistence, 30000, "an event is not delivered");
        }
        cr_expect(persistence.was_down);
        expect_none_lost(&watched.servers[SECOND], n, 50, n_followed);
        end(&watched);
}

/* One that is gone, one that knows no such master, and the one that helps. */
Test(redis_sentinel, asks_one_after_the_other)
{
        static struct watched watched;

        static char nowhere[] = "127.0.0.1:1";
        static char *list[3] = {nowhere};

        watch(&watched, 3, false);
        redis_server_do(&watched.sentinels[0], "SENTINEL REMOVE events");
        list[1] = watched.hosts[0];
        list[2] = watched.hosts[1];
        watched.rig.config.sentinels = list;
        rig_open(&watched.rig);
        rig_deliver_all(&watched.rig, 1);
        cr_expect(sink_driver_probe(&watched.rig.driver).kind == OUTCOME_DELIVERED);
        expect_outcome(&watched.rig, 0, OUTCOME_DELIVERED, "");

        redis_server_do(&watched.sentinels[1], "SENTINEL REMOVE events");
        redis_server_do(&watched.servers[FIRST], "CLIENT KILL TYPE normal");
        uv_run(&watched.rig.driver.loop, UV_RUN_DEFAULT);
        rig_deliver_all(&watched.rig, 1);
        expect_outcome(&watched.rig, 1, OUTCOME_SINK_DOWN, "knows no master 'events'");
        end(&watched);
}

/* It was away during a failover, say, and names a server that is a replica by now. */
Test(redis_sentinel, asks_another_sentinel_when_one_names_an_old_master)
{
        static struct watched watched;

        watch(&watched, 2, false);
        redis_server_do(&watched.sentinels[0], "SENTINEL REMOVE events");
        redis_server_do(&watched.sentinels[0], "SENTINEL MONITOR events 127.0.0.1 %u 2",
            watched.servers[SECOND].port);
        rig_open(&watched.rig);
        rig_deliver_all(&watched.rig, 1);
        rig_deliver_all(&watched.rig, 1);
        expect_outcome(&watched.rig, 0, OUTCOME_SINK_DOWN, "its role is replica, not master");
        expect_outcome(&watched.rig, 1, OUTCOME_DELIVERED, "");
        end(&watched);
}

Test(redis_sentinel, needs_no_more_than_the_documented_permissions)
{
        static struct watched watched;
        static char user[] = "app";
        static char password[] = "s3cret";
        static char sentinel_user[] = "asker";
        static char sentinel_password[] = "0ther";

        watch(&watched, 3, false);
        redis_server_do(&watched.servers[FIRST],
            "ACL SETUSER app on >s3cret ~events +xadd +multi +exec +ping +role +client|setname");
        for (unsigned i = 0; i < SENTINELS; i++)
                redis_server_do(&watched.sentinels[i],
                    "ACL SETUSER asker on >0ther +ping +client|setname "
                    "+sentinel|get-master-addr-by-name");
        watched.rig.config.user = user;
        watched.rig.config.password = password;
        watched.rig.config.sentinel_user = sentinel_user;
        watched.rig.config.sentinel_password = sentinel_password;
        rig_open(&watched.rig);
        rig_deliver_all(&watched.rig, 1);
        rig_deliver_all(&watched.rig, 2);
        cr_expect(rig_count(&watched.rig, OUTCOME_DELIVERED) == 3, "%s",
            watched.rig.driver.attempts[0].outcome.reason);
        end(&watched);
}

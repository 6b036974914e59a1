/* Another configuration for a relay that runs: nothing is lost, repeated or out of order, whatever
 * changes; nothing changes if it is wrong; who is not meant notices nothing. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEADLINE_MS = 30000 };

#define HEAD "postgres: {dsn: \"%s application_name=%s\"}\nrelay: {standby: 50ms}\nsinks:\n"
#define BUS                                                                                        \
        "  - {name: bus, topics: [\"test.*\"], start: beginning, max_in_flight: %d,\n"             \
        "     redis: {url: \"unix://%s\", stream: events}}\n"
#define HOOK                                                                                       \
        "  - {name: hook, topics: [\"hook\"], start: beginning,\n"                                 \
        "     http: {url: \"http://127.0.0.1:%u/\"%s}}\n"

struct fixture {
        struct relay_fixture relay;
        struct http_receiver *http;
        struct relay_process *process;
        unsigned n_reloads;
        unsigned n_published;
};

static void begin(struct fixture *fixture)
{
        *fixture = (struct fixture){.http = http_receiver_start(NULL, NULL)};
        relay_fixture_begin(&fixture->relay, postgres_shared());
}

static void end(struct fixture *fixture)
{
        relay_destroy(fixture->process);
        http_receiver_destroy(fixture->http);
        relay_fixture_end(&fixture->relay);
}

static bool has_reloaded(void *context)
{
        struct fixture *fixture = context;

        cr_assert(process_is_running(&fixture->process->process), "the relay has ended");
        return relay_count_in_log(fixture->process, "event=reloaded ") +
                   relay_count_in_log(fixture->process, "event=reload_failed ") >=
               fixture->n_reloads;
}

static void await_reload(struct fixture *fixture)
{
        fixture->n_reloads++;
        wait_until(has_reloaded, fixture, DEADLINE_MS, "the configuration is reloaded");
}

/* A relay with the two sinks; or, if it runs, another configuration of the same kind for it. */
#define configure(fixture, application, max_in_flight, more)                                       \
        ((fixture)->process == NULL                                                                \
                ? (void)((fixture)->process = relay_start(HEAD BUS HOOK, (fixture)->relay.relay,   \
                             application, max_in_flight, (fixture)->relay.redis.socket_path,       \
                             http_receiver_port((fixture)->http), more))                           \
                : relay_reload((fixture)->process, HEAD BUS HOOK, (fixture)->relay.relay,          \
                      application, max_in_flight, (fixture)->relay.redis.socket_path,              \
                      http_receiver_port((fixture)->http), more))

static void publish_to_hook(struct fixture *fixture)
{
        publish(fixture->relay.admin, "hook", "k", "x");
        fixture->n_published++;
}

static void expect_at_hook(struct fixture *fixture)
{
        http_receiver_wait(fixture->http, fixture->n_published, DEADLINE_MS);
        cr_assert_eq(http_receiver_n_requests(fixture->http), fixture->n_published);
}

/* Stops it, too. */
static void expect_each_once(struct fixture *fixture)
{
        const struct filter_result verdict = relay_fixture_check(&fixture->relay, fixture->process);

        cr_expect_eq(verdict.n_lost, 0);
        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
}

Test(reload, loses_repeats_and_misorders_nothing_in_200_reloads_and_leaves_others_alone)
{
        struct fixture fixture;

        begin(&fixture);
        configure(&fixture, "a", 100, "");
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        relay_fixture_write(&fixture.relay, 5);
        for (int i = 0; i < 200; i++) {
                configure(&fixture, "a", i % 2 == 0 ? 1000 : 100, "");
                if (i % 10 == 0)
                        publish_to_hook(&fixture);
                await_reload(&fixture);
        }
        expect_at_hook(&fixture);
        cr_expect_eq(http_receiver_n_connections(fixture.http), 1);
        cr_expect_eq(
            relay_count_in_log(fixture.process, "event=reloaded changed=bus unchanged=1"), 200);
        relay_fixture_await_more(&fixture.relay, 50);
        expect_each_once(&fixture);
        end(&fixture);
}

Test(reload, goes_over_to_other_sessions_under_load)
{
        struct fixture fixture;

        begin(&fixture);
        configure(&fixture, "a", 100, "");
        relay_fixture_write(&fixture.relay, 6);
        for (int i = 0; i < 10; i++) {
                relay_fixture_await_more(&fixture.relay, 20);
                configure(&fixture, i % 2 == 0 ? "b" : "a", 100, "");
                await_reload(&fixture);
                await_in_database(fixture.relay.admin,
                    i % 2 == 0 ? "SELECT count(*) > 0 FROM pg_stat_activity WHERE"
                                 " datname = current_database() AND application_name = 'b'"
                               : "SELECT count(*) > 0 FROM pg_stat_activity WHERE"
                                 " datname = current_database() AND application_name = 'a'",
                    "the other session");
        }
        cr_expect_eq(relay_count_in_log(fixture.process, "session=reopened"), 10);
        expect_each_once(&fixture);
        end(&fixture);
}

Test(reload, adds_changes_and_removes_sinks)
{
        struct fixture fixture;
        struct http_receiver *other = http_receiver_start(NULL, NULL);

        begin(&fixture);
        fixture.process =
            relay_start(HEAD BUS, fixture.relay.relay, "a", 100, fixture.relay.redis.socket_path);
        publish_to_hook(&fixture);
        relay_wait_for_log(fixture.process, "event=lane_owned sink=bus", DEADLINE_MS);

        configure(&fixture, "a", 100, "");
        await_reload(&fixture);
        relay_wait_for_log(fixture.process, "event=reloaded added=hook unchanged=1", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);

        relay_reload(fixture.process, HEAD BUS HOOK, fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path, http_receiver_port(other), "");
        await_reload(&fixture);
        publish(fixture.relay.admin, "hook", "k", "to the other");
        http_receiver_wait(other, 1, DEADLINE_MS);
        cr_expect_str_eq(http_receiver_request(other, 0)->body, "\"to the other\"");

        relay_reload(fixture.process, HEAD BUS, fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path);
        await_reload(&fixture);
        relay_wait_for_log(fixture.process, "event=sink_removed sink=hook", DEADLINE_MS);
        await_in_database(fixture.relay.admin,
            "SELECT count(*) = 1 AND bool_and(lock_id NOT IN (SELECT objid FROM pg_locks WHERE"
            " locktype = 'advisory' AND objid IS NOT NULL)) FROM courier.cursor WHERE sink = "
            "'hook'",
            "the cursor stays, its lock does not");
        publish_to_hook(&fixture);

        configure(&fixture, "a", 100, "");
        await_reload(&fixture);
        expect_at_hook(&fixture);
        relay_stop(fixture.process);
        http_receiver_destroy(other);
        end(&fixture);
}

Test(reload, keeps_the_old_configuration_if_the_new_one_is_wrong)
{
        struct fixture fixture;

        begin(&fixture);
        configure(&fixture, "a", 100, "");
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);

        configure(&fixture, "a", 7, ", timeout: soon");
        await_reload(&fixture);
        relay_wait_for_log(fixture.process, "sinks[1].http.timeout: ", DEADLINE_MS);
        cr_expect_eq(relay_count_in_log(fixture.process, "line=7 "), 1);

        configure(&fixture, "a", 7, "}, filter: \"$.a == \", retry: {");
        await_reload(&fixture);
        relay_wait_for_log(fixture.process,
            "PostgreSQL does not accept a new filter as a jsonpath predicate", DEADLINE_MS);

        configure(&fixture, "a port=1", 7, "");
        await_reload(&fixture);

        /* What only open() finds. */
        relay_reload(fixture.process,
            HEAD BUS HOOK "  - {name: m, topics: [x], email: {url: "
                          "\"smtp://127.0.0.1\", from: a@b.c, templates: %s}}\n",
            fixture.relay.relay, "a", 7, fixture.relay.redis.socket_path,
            http_receiver_port(fixture.http), "", fixture.process->folder);
        await_reload(&fixture);

        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        cr_expect_eq(http_receiver_n_connections(fixture.http), 1);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded "), 0);

        configure(&fixture, "a", 7, "");
        await_reload(&fixture);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded changed=bus"), 1);
        relay_stop(fixture.process);
        end(&fixture);
}

static void write_line(const char *path, const char *line)
{
        FILE *file = fopen(path, "w");

        cr_assert(file != NULL && fputs(line, file) >= 0 && fclose(file) == 0);
}

static void expect_bearer(struct fixture *fixture, unsigned request, const char *expected)
{
        char *value =
            http_request_header(http_receiver_request(fixture->http, request), "Authorization");

        cr_expect_str_eq(value, expected);
        free(value);
}

Test(reload, reads_files_with_secrets_again)
{
        struct fixture fixture;
        char *folder = temp_folder();
        char *path = xasprintf("%s/token", folder);
        char *certificate = xasprintf("%s/ca.pem", folder);
        char *more = xasprintf(", auth: {bearer_file: %s}, ca_file: %s", path, certificate);

        begin(&fixture);
        write_line(path, "first-token\n");
        write_line(certificate, "");
        configure(&fixture, "a", 100, more);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        expect_bearer(&fixture, 0, "Bearer first-token");

        configure(&fixture, "a", 100, more); /* the same: nothing happens */
        await_reload(&fixture);
        relay_wait_for_log(fixture.process, "event=reloaded unchanged=2", DEADLINE_MS);

        write_line(path, "second-token\n");
        configure(&fixture, "a", 100, more);
        await_reload(&fixture);
        relay_wait_for_log(fixture.process, "event=reloaded changed=hook", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        expect_bearer(&fixture, 1, "Bearer second-token");
        cr_expect_eq(relay_count_in_log(fixture.process, "-token"), 0, "no secret is logged");

        write_line(certificate, "# renewed\n"); /* which the sink reads by itself */
        configure(&fixture, "a", 100, more);
        await_reload(&fixture);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded changed=hook"), 2);
        relay_stop(fixture.process);
        end(&fixture);
        free(folder);
        free(path);
        free(certificate);
        free(more);
}

Test(reload, refuses_a_named_pipe_without_waiting_for_its_writer)
{
        struct fixture fixture;
        char *folder = temp_folder();
        char *pipe = xasprintf("%s/pipe", folder);
        char *more = xasprintf(", auth: {bearer_file: %s}", pipe);

        begin(&fixture);
        cr_assert_eq(mkfifo(pipe, 0600), 0);
        configure(&fixture, "a", 100, "");
        relay_wait_for_log(fixture.process, "event=lane_owned sink=hook", DEADLINE_MS);
        configure(&fixture, "a", 100, more);
        await_reload(&fixture);
        relay_wait_for_log(
            fixture.process, "is a named pipe; it must be a regular file", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        relay_stop(fixture.process);
        end(&fixture);
        free(folder);
        free(pipe);
        free(more);
}

/* A relay for which the token's file can be made to hang; what its configuration has more. */
static char *configure_with_file_that_hangs(struct fixture *fixture, const char *token)
{
        char *more = xasprintf(", auth: {bearer_file: %s}", token);
        char *options = xasprintf("verify_asan_link_order=0:%s",
            getenv("ASAN_OPTIONS") != NULL ? getenv("ASAN_OPTIONS") : "");

        write_line(token, "a-token\n");
        setenv("ASAN_OPTIONS", options, 1);
        setenv("PGCOURIER_HANGING_FILE", token, 1);
        process_preload(PGCOURIER_HANGING_FILE_LIBRARY);
        configure(fixture, "a", 100, more);
        process_preload(NULL);
        free(options);
        relay_wait_for_log(fixture->process, "event=lane_owned sink=hook", DEADLINE_MS);
        return more;
}

static bool has_reloaded_at_last(void *context)
{
        struct fixture *fixture = context;

        if (has_reloaded(fixture)) {
                fixture->n_reloads++;
                process_signal(&fixture->process->process, SIGHUP);
        }
        return relay_count_in_log(fixture->process, "event=reloaded ") > 0;
}

Test(reload, goes_on_while_a_file_does_not_answer)
{
        struct fixture fixture;
        char *folder = temp_folder();
        char *token = xasprintf("%s/token", folder);
        char *flag = xasprintf("%s.hangs", token);
        char *more;

        begin(&fixture);
        more = configure_with_file_that_hangs(&fixture, token);
        write_line(flag, "");
        configure(&fixture, "a", 200, more);
        relay_wait_for_log(fixture.process, "event=reloading", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        await_reload(&fixture);
        cr_expect_eq(relay_count_in_log(fixture.process, "token does not answer: the configuration "
                                                         "could not be read within 5 s"),
            1);

        configure(&fixture, "a", 300, more);
        await_reload(&fixture);
        cr_expect_eq(relay_count_in_log(
                         fixture.process, "an earlier reading has not ended: the file system of "),
            1);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);

        unlink(flag);
        wait_until(has_reloaded_at_last, &fixture, DEADLINE_MS, "a reload when it answers again");
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded changed=bus"), 1);
        relay_stop(fixture.process);
        end(&fixture);
        free(folder);
        free(token);
        free(flag);
        free(more);
}

Test(reload, can_be_stopped_while_a_file_does_not_answer)
{
        struct fixture fixture;
        char *folder = temp_folder();
        char *token = xasprintf("%s/token", folder);
        char *flag = xasprintf("%s.hangs", token);
        char *more;

        begin(&fixture);
        more = configure_with_file_that_hangs(&fixture, token);
        write_line(flag, "");
        configure(&fixture, "a", 200, more);
        relay_wait_for_log(fixture.process, "event=reloading", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        relay_stop(fixture.process); /* with 0 */
        cr_expect_eq(relay_count_in_log(fixture.process, "the relay is stopping"), 1);
        unlink(flag);
        end(&fixture);
        free(folder);
        free(token);
        free(flag);
        free(more);
}

static unsigned count_for(struct fixture *fixture, const char *target)
{
        unsigned n = 0;

        for (unsigned i = 0; i < http_receiver_n_requests(fixture->http); i++)
                n += strcmp(http_receiver_request(fixture->http, i)->target, target) == 0;
        return n;
}

Test(reload, changes_a_sink_with_many_receivers)
{
        struct fixture fixture;
        enum { N_ROUNDS = 30, N_EVENTS = 10 };
        char *sql;

        begin(&fixture);
        for (int i = 0; i <= N_ROUNDS; i++) {
                static const char format[] =
                    HEAD "  - {name: hooks, topics: [\"**\"], concurrency: %d, http: {receivers: "
                         "table,\n"
                         "     allow_networks: [127.0.0.1], allow_ports: [%u]}}\n";
                unsigned port = http_receiver_port(fixture.http);

                if (i == 0)
                        fixture.process = relay_start(format, fixture.relay.relay, "a", 9, port);
                else
                        relay_reload(
                            fixture.process, format, fixture.relay.relay, "a", 10 + i, port);
                if (i == 0) {
                        relay_wait_for_log(
                            fixture.process, "event=receivers_read sink=hooks", DEADLINE_MS);
                        sql = xasprintf("INSERT INTO courier.receiver (sink, name, url) SELECT"
                                        " 'hooks', n, 'http://127.0.0.1:%u/' || n"
                                        " FROM unnest('{a,b,c}'::text[]) AS n",
                            port);
                        database_exec(fixture.relay.admin, sql);
                        free(sql);
                        continue;
                }
                for (int n = 0; n < N_EVENTS; n++)
                        publish(fixture.relay.admin, "t", "k", "x");
                await_reload(&fixture);
        }
        http_receiver_wait(fixture.http, 3 * N_ROUNDS * N_EVENTS, DEADLINE_MS);
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded changed=hooks"), N_ROUNDS);
        cr_expect_eq(count_for(&fixture, "/a"), N_ROUNDS * N_EVENTS);
        cr_expect_eq(count_for(&fixture, "/b"), N_ROUNDS * N_EVENTS);
        cr_expect_eq(count_for(&fixture, "/c"), N_ROUNDS * N_EVENTS);
        end(&fixture);
}

/* Without a token or an endpoint there is a signal. */
static void expect_hint_of_pid(const char *config_path, const char *why, const char *pid)
{
        struct program_run run = program_run(NULL, "reload", "-c", config_path, NULL);

        cr_expect_neq(run.code, 0);
        cr_expect_not_null(strstr(run.err, why), "%s", run.err);
        cr_expect_not_null(strstr(run.err, pid), "%s", run.err);
        cr_expect_not_null(strstr(run.err, "SIGHUP"), "%s", run.err);
        cr_expect_not_null(strstr(run.err, "admin.token_file"), "%s", run.err);
        program_run_free(&run);
}

Test(reload, is_asked_for_by_the_command)
{
        struct fixture fixture;
        char *folder = temp_folder();
        static const char format[] =
            "admin: {listen: \"unix:%s/admin\", token: %s-token-for-a-test}\n" HEAD BUS "%s";
        struct program_run run;
        char *pid;

        begin(&fixture);
        fixture.process = relay_start(format, folder, "first", fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path, "");
        relay_wait_for_log(fixture.process, "event=lane_owned sink=bus", DEADLINE_MS);
        relay_rewrite(fixture.process, format, folder, "first", fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path, "  - {name: out, topics: [x], stdout: {}}\n");
        run = program_run(NULL, "reload", "-c", fixture.process->config_path, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        cr_expect_str_eq(run.out, "added     out\nreloaded: 1 sink unchanged\n");
        program_run_free(&run);

        relay_rewrite(fixture.process, format, folder, "first", fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path,
            "  - {name: m, topics: [x], filter: \"$.a ==\", stdout: {}}\n");
        run = program_run(NULL, "reload", "-c", fixture.process->config_path, NULL);
        cr_expect_neq(run.code, 0);
        cr_expect_not_null(strstr(run.err, "filter"), "%s", run.err);
        program_run_free(&run);

        /* Another address: the endpoint moves when the reload is done. */
        relay_reload(fixture.process, format, folder, "first", fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path, "");
        fixture.n_reloads = 2;
        await_reload(&fixture);
        relay_rewrite(fixture.process, "admin: {listen: \"unix:%s/moved\"}\n" HEAD BUS, folder,
            fixture.relay.relay, "a", 100, fixture.relay.redis.socket_path);
        process_signal(&fixture.process->process, SIGHUP);
        await_reload(&fixture);
        run = program_run(NULL, "health", "-c", fixture.process->config_path, NULL);
        cr_expect_eq(run.code, 0, "%s", run.err);
        program_run_free(&run);
        pid = xasprintf("`pgcourier reload --pid %d -c /", (int)fixture.process->process.pid);
        expect_hint_of_pid(fixture.process->config_path, "the relay has no admin.token_file", pid);
        free(pid);
        relay_rewrite(fixture.process, HEAD BUS, fixture.relay.relay, "a", 100,
            fixture.relay.redis.socket_path);
        expect_hint_of_pid(fixture.process->config_path, "has no admin endpoint",
            "`pgcourier reload --pid \"$(pidof pgcourier)\" -c /");
        relay_stop(fixture.process);
        free(folder);
        end(&fixture);
}

Test(reload, changes_the_log_and_signals_its_level)
{
        static const char format[] =
            "log: {format: %s, level: info}\npostgres: {dsn: \"%s\"}\nsinks:\n"
            "  - {name: hook, topics: [\"hook\"], start: beginning, http: {url: "
            "\"http://127.0.0.1:%u/\"}}\n";
        struct fixture fixture;
        unsigned port;

        begin(&fixture);
        port = http_receiver_port(fixture.http);
        fixture.process = relay_start(format, "logfmt", fixture.relay.relay, port);
        relay_wait_for_log(fixture.process, "event=lane_owned sink=hook", DEADLINE_MS);
        process_signal(&fixture.process->process, SIGUSR1);
        relay_wait_for_log(fixture.process, "event=log_level from=info to=debug", DEADLINE_MS);
        publish_to_hook(&fixture);
        relay_wait_for_log(fixture.process, "level=debug event=delivered ", DEADLINE_MS);
        process_signal(&fixture.process->process, SIGUSR2);
        relay_wait_for_log(fixture.process, "event=log_level from=debug to=info", DEADLINE_MS);

        relay_reload(fixture.process, format, "json", fixture.relay.relay, port);
        relay_wait_for_log(fixture.process, "\"event\":\"reloaded\",\"unchanged\":1", DEADLINE_MS);
        process_signal(&fixture.process->process, SIGUSR1);
        relay_wait_for_log(fixture.process, "\"event\":\"log_level\"", DEADLINE_MS);
        relay_reload(fixture.process, format, "logfmt", fixture.relay.relay, port);
        relay_wait_for_log(fixture.process, "event=reloaded ", DEADLINE_MS);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=delivered "), 1, "info again");
        end(&fixture);
}

/* One that accepts connections and never says a word. */
static int listen_in_silence(unsigned *out_port)
{
        struct sockaddr_in address = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof address;
        int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        cr_assert_eq(bind(file, (struct sockaddr *)&address, length), 0);
        cr_assert_eq(listen(file, 8), 0);
        cr_assert_eq(getsockname(file, (struct sockaddr *)&address, &length), 0);
        *out_port = ntohs(address.sin_port);
        return file;
}

Test(reload, can_be_stopped_while_it_tries_another_session)
{
        struct fixture fixture;
        unsigned port;
        int silent = listen_in_silence(&port);
        char *dsn;

        begin(&fixture);
        configure(&fixture, "a", 100, "");
        relay_wait_for_log(fixture.process, "event=lane_owned sink=hook", DEADLINE_MS);
        dsn = xasprintf("a host=127.0.0.1 port=%u", port);
        configure(&fixture, dsn, 100, "");
        relay_wait_for_log(fixture.process, "event=reloading", DEADLINE_MS);
        publish_to_hook(&fixture); /* the old session goes on */
        expect_at_hook(&fixture);
        relay_stop(fixture.process);
        cr_expect_eq(relay_count_in_log(fixture.process, "the relay is stopping"), 1);
        close(silent);
        free(dsn);
        end(&fixture);
}

Test(reload, can_be_stopped_and_repeated_while_a_sink_drains)
{
        struct fixture fixture;

        begin(&fixture);
        http_receiver_answer(fixture.http, &(struct http_answer){.is_held = true});
        configure(&fixture, "a", 100, "");
        publish_to_hook(&fixture);
        expect_at_hook(&fixture); /* the request; its answer is held */
        configure(&fixture, "a", 100, ", timeout: 60s");
        relay_wait_for_log(fixture.process, "event=sink_changed sink=hook", DEADLINE_MS);
        configure(&fixture, "a", 200, ", timeout: 50s"); /* remembered */
        relay_fixture_write(&fixture.relay, 8);
        relay_fixture_await_more(&fixture.relay, 50); /* others go on */
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloading"), 1);
        http_receiver_release(fixture.http);
        await_reload(&fixture);
        await_reload(&fixture);
        cr_expect_eq(relay_count_in_log(fixture.process, "event=reloaded changed=bus,hook"), 1);

        http_receiver_hold(fixture.http);
        publish_to_hook(&fixture);
        expect_at_hook(&fixture);
        configure(&fixture, "a", 300, ", timeout: 40s");
        relay_wait_for_log(fixture.process, "event=sink_changed sink=bus", DEADLINE_MS);
        writers_stop(fixture.relay.writers);
        process_signal(&fixture.process->process, SIGTERM);
        relay_wait_for_log(fixture.process, "event=stopping", DEADLINE_MS);
        http_receiver_release(fixture.http);
        cr_expect_eq(relay_wait(fixture.process, DEADLINE_MS), 0);

        relay_start_again(fixture.process);
        relay_wait_for_log(fixture.process, "event=lane_owned sink=hook", DEADLINE_MS);
        expect_each_once(&fixture);
        cr_expect_eq(http_receiver_n_requests(fixture.http), fixture.n_published);
        end(&fixture);
}

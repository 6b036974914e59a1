/* Passwords and tokens that are changed under a running relay: in the server, and in the file
 * that the configuration names. No other step is needed. */
#include "base/alloc.h"
#include "support/http_receiver.h"
#include "support/program.h"
#include "support/relay_fixture.h"
#include "support/smtp_receiver.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_MS = 30000 };

static struct relay_fixture fixture;
static char *folder, *secret_path, *socket_path;

static void prepare(void)
{
        /* Of its own: who may log in, and how, is the server's matter. */
        struct postgres *postgres = postgres_start();
        char *hba = xasprintf("%s/data/pg_hba.conf", postgres->folder);

        relay_fixture_begin(&fixture, postgres);
        database_exec(fixture.admin, "ALTER ROLE relay PASSWORD 'old'");
        replace_file(hba, "local all relay scram-sha-256\nlocal all all trust\n");
        database_exec(fixture.admin, "SELECT pg_reload_conf()");
        free(hba);
        folder = temp_folder();
        secret_path = xasprintf("%s/secret", folder);
        socket_path = xasprintf("%s/admin", folder);
        replace_file(secret_path, "old\n");
}

static void clean_up(void)
{
        relay_fixture_end(&fixture);
        free(secret_path);
        free(socket_path);
        free(folder);
}

TestSuite(credentials, .init = prepare, .fini = clean_up, .timeout = 120);

#define POSTGRES "postgres: {dsn: \"%s\", password_file: %s}\nadmin: {listen: \"unix:%s\"}\n"

static struct relay_process *start_with_file_for_postgres(void)
{
        struct relay_process *relay =
            relay_start(POSTGRES "sinks:\n  - {name: bus, topics: [\"**\"], start: beginning,\n"
                                 "     redis: {url: \"unix://%s\", stream: events}}\n",
                fixture.relay, secret_path, socket_path, fixture.redis.socket_path);

        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        return relay;
}

/* In the server; and all sessions end, as with a failover. */
static void rotate_in_postgres(void)
{
        database_exec(fixture.admin,
            "ALTER ROLE relay PASSWORD 'new'; SELECT pg_terminate_backend(pid)"
            " FROM pg_stat_activity WHERE usename = 'relay'");
}

Test(credentials, of_postgres_are_read_again_before_an_error_is_logged)
{
        struct relay_process *relay = start_with_file_for_postgres();

        replace_file(secret_path, "new\n");
        rotate_in_postgres();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "events", 2);
        relay_wait_for_log(relay, "event=credentials_read of=postgres", DEADLINE_MS);
        cr_expect_eq(relay_count_in_log(relay, "authentication failed"), 0);
        relay_stop(relay);
        relay_destroy(relay);
}

static bool status_says(void *text)
{
        struct program_run run = program_run(NULL, "status", "-c", text, NULL);
        bool says = program_says(run.out, "PostgreSQL refuses the login for ") &&
                    program_says(run.out, "password authentication failed for user \"relay\"") &&
                    program_says(run.out, "reconnects by itself");

        program_run_free(&run);
        return says;
}

Test(credentials, of_postgres_are_reported_until_they_are_right)
{
        struct relay_process *relay = start_with_file_for_postgres();
        struct program_run run;

        rotate_in_postgres();
        publish(fixture.admin, "a", NULL, "2");
        relay_wait_for_log(relay, "password authentication failed", DEADLINE_MS);
        wait_until(status_says, relay->config_path, DEADLINE_MS, "status tells of the login");
        cr_expect_eq(relay_count_in_log(relay, "event=credentials_read"), 0);

        replace_file(secret_path, "new\n");
        relay_fixture_await(&fixture, "events", 2);
        run = program_run(NULL, "status", "-c", relay->config_path, NULL);
        cr_expect_null(strstr(run.out, "refuses"), "%s", run.out);
        program_run_free(&run);
        relay_stop(relay);
        /* Of the one cause one connection tells, and not of each try in the first moment. */
        cr_expect_eq(relay_count_in_log(relay, "event=doorbell_connection_lost error=\"cannot"), 0);
        relay_destroy(relay);
}

Test(credentials, of_postgres_are_read_again_for_a_sink_that_calls_its_functions)
{
        static const char *const have_run[] = {
            "SELECT count(*) = 1 FROM public.ran", "SELECT count(*) = 2 FROM public.ran"};
        struct relay_process *relay;

        database_make_inbox(fixture.admin);
        database_exec(fixture.admin,
            "CREATE TABLE public.ran (event_id uuid); GRANT INSERT ON public.ran TO relay;"
            "GRANT courier_consumer TO relay;"
            "CREATE FUNCTION public.job(event courier.event) RETURNS void LANGUAGE sql"
            " AS 'INSERT INTO public.ran VALUES (event.id)'");
        relay =
            relay_start(POSTGRES "sinks:\n  - {name: jobs, topics: [\"**\"], start: beginning,\n"
                                 "     postgres: {call: public.job}}\n",
                fixture.relay, secret_path, socket_path);
        publish(fixture.admin, "a", NULL, "1");
        await_in_database(fixture.admin, have_run[0], "the first job");
        replace_file(secret_path, "new\n");
        rotate_in_postgres();
        publish(fixture.admin, "a", NULL, "2");
        await_in_database(fixture.admin, have_run[1], "the second job");
        relay_stop(relay);
        relay_destroy(relay);
}

static bool status_tells_of_filters(void *context)
{
        struct program_run run = program_run(NULL, "status", "-c", context, NULL);
        bool is_said = strstr(run.out, "Filters cannot be evaluated") != NULL;

        program_run_free(&run);
        return is_said;
}

/* The sessions that are there stay; but a filter is asked on a connection that is not there yet. */
Test(credentials, of_postgres_are_read_again_for_filters)
{
        struct relay_process *relay =
            relay_start(POSTGRES "sinks:\n  - {name: bus, topics: [\"**\"], start: beginning,\n"
                                 "     filter: '$.n == 1 || exists($)',\n"
                                 "     redis: {url: \"unix://%s\", stream: events}}\n",
                fixture.relay, secret_path, socket_path, fixture.redis.socket_path);

        relay_wait_for_log(relay, "event=lane_owned sink=bus", DEADLINE_MS);
        database_exec(fixture.admin, "ALTER ROLE relay PASSWORD 'new'");
        publish(fixture.admin, "a", NULL, "1");
        wait_until(
            status_tells_of_filters, relay->config_path, DEADLINE_MS, "status tells of filters");
        relay_wait_for_log(relay, "event=filters_failed", DEADLINE_MS);
        replace_file(secret_path, "new\n");
        relay_fixture_await(&fixture, "events", 1);
        relay_wait_for_log(relay, "event=credentials_read of=postgres", DEADLINE_MS);
        relay_stop(relay);
        relay_destroy(relay);
}

Test(credentials, of_postgres_that_are_wrong_at_the_start_are_tried_again)
{
        struct relay_process *relay;

        replace_file(secret_path, "wrong\n");
        relay = relay_start(POSTGRES "sinks:\n  - {name: bus, topics: [\"**\"], start: beginning,\n"
                                     "     redis: {url: \"unix://%s\", stream: events}}\n",
            fixture.relay, secret_path, socket_path, fixture.redis.socket_path);
        relay_wait_for_log(relay, "password authentication failed", DEADLINE_MS);
        publish(fixture.admin, "a", NULL, "1");
        replace_file(secret_path, "old\n");
        relay_fixture_await(&fixture, "events", 1);
        relay_stop(relay);
        relay_destroy(relay);
}

Test(credentials, of_postgres_that_a_whole_dsn_holds)
{
        struct relay_process *relay;
        char *dsn = xasprintf("%s password=old\n", fixture.relay);
        char *other = xasprintf("%s password=new\n", fixture.relay);

        replace_file(secret_path, dsn);
        relay = relay_start("postgres: {dsn_file: %s}\n"
                            "sinks:\n  - {name: bus, topics: [\"**\"], start: beginning,\n"
                            "     redis: {url: \"unix://%s\", stream: events}}\n",
            secret_path, fixture.redis.socket_path);
        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        replace_file(secret_path, other);
        rotate_in_postgres();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "events", 2);
        cr_expect_eq(relay_count_in_log(relay, "authentication failed"), 0);
        relay_stop(relay);
        relay_destroy(relay);
        free(dsn);
        free(other);
}

/* What else stands in the file of the configuration waits for a reload. */
Test(credentials, and_nothing_else_are_read_again)
{
        struct relay_process *relay = start_with_file_for_postgres();

        relay_rewrite(relay, "postgres: {dsn: host=nowhere}\nsinks: [\n");
        replace_file(secret_path, "new\n");
        rotate_in_postgres();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "events", 2);
        relay_stop(relay);
        relay_destroy(relay);
}

/* The relay's login to PostgreSQL stays as it is. */
#define OF_A_SINK "postgres: {dsn: \"%s password=old\"}\nsinks:\n"

static void rotate_in_redis(void)
{
        redis_server_do(&fixture.redis, "ACL SETUSER app resetpass >new");
        redis_server_do(&fixture.redis, "CLIENT KILL USER app");
}

static struct relay_process *start_with_file_for_redis(void)
{
        struct relay_process *relay;

        redis_server_do(&fixture.redis, "ACL SETUSER app on >old ~* &* +@all");
        relay = relay_start(OF_A_SINK
            "  - {name: bus, topics: [\"**\"], start: beginning, redis: {url: \"unix://%s\",\n"
            "     stream: events, user: app, password_file: %s}}\n"
            "  - {name: other, topics: [\"**\"], start: beginning, redis: {url: \"unix://%s\",\n"
            "     stream: others}}\n",
            fixture.relay, fixture.redis.socket_path, secret_path, fixture.redis.socket_path);
        publish(fixture.admin, "a", NULL, "1");
        relay_fixture_await(&fixture, "events", 1);
        relay_fixture_await(&fixture, "others", 1);
        return relay;
}

Test(credentials, of_redis_are_read_again_before_an_error_is_logged)
{
        struct relay_process *relay = start_with_file_for_redis();

        replace_file(secret_path, "new\n");
        rotate_in_redis();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "events", 2);
        relay_fixture_await(&fixture, "others", 2);
        relay_wait_for_log(relay, "event=credentials_read of=bus", DEADLINE_MS);
        cr_expect_eq(relay_count_in_log(relay, "event=sink_paused"), 0);
        cr_expect_eq(relay_count_in_log(relay, "event=sink_changed"), 1, "the other one stays");
        cr_expect_eq(relay_count_in_log(relay, "event=reloaded"), 0);
        relay_stop(relay);
        relay_destroy(relay);
}

Test(credentials, of_redis_are_reported_until_they_are_right)
{
        struct relay_process *relay = start_with_file_for_redis();

        rotate_in_redis();
        publish(fixture.admin, "a", NULL, "2");
        relay_wait_for_log(relay, "event=sink_paused sink=bus by=relay", DEADLINE_MS);
        replace_file(secret_path, "new\n");
        relay_fixture_await(&fixture, "events", 2);
        await_in_database(fixture.admin, "SELECT NOT EXISTS (SELECT FROM courier.pause)",
            "nothing is paused any more");
        relay_wait_for_log(relay, "event=sink_resumed sink=bus by=relay", DEADLINE_MS);
        relay_stop(relay);
        relay_destroy(relay);
}

/* As long as the file that is returned is there, that of the credentials does not answer. Free
 * it. */
static char *start_with_file_that_can_hang(struct relay_process **out_relay)
{
        char *options = xasprintf("verify_asan_link_order=0:%s",
            getenv("ASAN_OPTIONS") != NULL ? getenv("ASAN_OPTIONS") : "");

        setenv("ASAN_OPTIONS", options, 1);
        setenv("PGCOURIER_HANGING_FILE", secret_path, 1);
        process_preload(PGCOURIER_HANGING_FILE_LIBRARY);
        *out_relay = start_with_file_for_redis();
        process_preload(NULL);
        free(options);
        return xasprintf("%s.hangs", secret_path);
}

Test(credentials, delay_no_connection_when_a_file_does_not_answer)
{
        struct relay_process *relay;
        char *flag = start_with_file_that_can_hang(&relay);

        replace_file(secret_path, "new\n");
        replace_file(flag, "");
        rotate_in_redis();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "others", 2);
        relay_wait_for_log(relay, "event=credentials_unreadable of=bus", DEADLINE_MS);
        relay_wait_for_log(relay, "event=sink_paused sink=bus by=relay", DEADLINE_MS);
        publish(fixture.admin, "a", NULL, "3");
        relay_fixture_await(&fixture, "others", 3);

        unlink(flag);
        relay_fixture_await(&fixture, "events", 3);
        relay_stop(relay);
        relay_destroy(relay);
        free(flag);
}

Test(credentials, do_not_keep_the_relay_from_ending_while_their_file_does_not_answer)
{
        struct relay_process *relay;
        char *flag = start_with_file_that_can_hang(&relay);

        replace_file(flag, "");
        rotate_in_redis();
        publish(fixture.admin, "a", NULL, "2");
        relay_fixture_await(&fixture, "others", 2);
        relay_stop(relay); /* with 0 */
        unlink(flag);
        relay_destroy(relay);
        free(flag);
}

Test(credentials, of_a_mail_server_are_read_again)
{
        struct relay_process *relay;
        struct smtp_receiver smtp;

        smtp_receiver_init(&smtp);
        smtp_receiver_start(
            &smtp, (const char *[]){"--auth", "mailer:old", "--auth-without-tls", NULL});
        relay = relay_start(OF_A_SINK "  - {name: mail, topics: [\"mail\"], start: beginning,\n"
                                      "     email: {url: \"smtp://127.0.0.1:%u\", user: mailer,\n"
                                      "       from: a@example.org, password_file: %s}}\n",
            fixture.relay, smtp.port, secret_path);
        database_exec(fixture.admin,
            "SELECT courier.publish('mail',"
            " '{\"to\": \"a@b.example\", \"subject\": \"s\", \"text\": \"t\"}')");
        json_decref(smtp_receiver_wait_for(&smtp, 1));
        smtp_receiver_stop(&smtp);
        replace_file(secret_path, "new\n");
        smtp_receiver_start(
            &smtp, (const char *[]){"--auth", "mailer:new", "--auth-without-tls", NULL});
        database_exec(fixture.admin,
            "SELECT courier.publish('mail',"
            " '{\"to\": \"a@b.example\", \"subject\": \"s\", \"text\": \"t\"}')");
        json_decref(smtp_receiver_wait_for(&smtp, 2));
        cr_expect_eq(relay_count_in_log(relay, "event=sink_paused"), 0);
        relay_stop(relay);
        relay_destroy(relay);
        smtp_receiver_deinit(&smtp);
}

static struct http_answer judge_token(void *context, const struct http_request *request)
{
        bool is_right = strstr(request->header_lines, "Bearer new\n") != NULL;

        if (is_right)
                atomic_store((atomic_bool *)context, true);
        return (struct http_answer){.status = is_right ? 204 : 401};
}

static bool is_delivered(void *delivered)
{
        return atomic_load((atomic_bool *)delivered);
}

Test(credentials, of_a_webhook_are_read_again)
{
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *relay;
        atomic_bool delivered = false;

        http_receiver_decide(http, judge_token, &delivered);
        relay = relay_start(OF_A_SINK "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                                      "     http: {url: \"http://127.0.0.1:%u/\", signing: none,\n"
                                      "       auth: {bearer_file: %s}}}\n",
            fixture.relay, http_receiver_port(http), secret_path);
        relay_wait_for_log(relay, "event=lane_owned", DEADLINE_MS);
        replace_file(secret_path, "new\n");
        publish(fixture.admin, "a", NULL, "1");
        wait_until(is_delivered, &delivered, DEADLINE_MS, "the event is delivered");
        cr_expect_eq(relay_count_in_log(relay, "event=sink_paused"), 0);
        relay_stop(relay);
        relay_destroy(relay);
        http_receiver_destroy(http);
}

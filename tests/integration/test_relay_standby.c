/* Two relays with the same configuration: one owns the lane, the other takes over when it is
 * gone. */
#include "support/http_receiver.h"
#include "support/program.h"
#include "support/relay_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

struct pair {
        struct relay_process *owner;
        struct relay_process *standby;
};

static void await_roles(const struct pair *pair)
{
        relay_wait_for_log(pair->standby, "event=lane_owned_elsewhere", 30000);
        cr_assert_eq(relay_count_in_log(pair->owner, "event=lane_owned "), 1);
        cr_assert_eq(relay_count_in_log(pair->standby, "event=lane_owned "), 0);
}

static struct pair start_pair(const struct relay_fixture *fixture)
{
        struct pair pair;

        pair.owner = relay_fixture_start(fixture, "    max_in_flight: 50\n");
        relay_wait_for_log(pair.owner, "event=lane_owned ", 30000);
        pair.standby = relay_fixture_start(fixture, "    max_in_flight: 50\n");
        await_roles(&pair);
        return pair;
}

/* Who was the owner comes back and stands by. */
static void change_roles(struct pair *pair)
{
        struct relay_process *former_owner = pair->owner;

        relay_wait_for_log(pair->standby, "event=lane_owned ", 30000);
        pair->owner = pair->standby;
        pair->standby = former_owner;
        relay_start_again(former_owner);
        relay_wait_for_log(former_owner, "event=lane_owned_elsewhere", 30000);
        cr_assert_eq(relay_count_in_log(former_owner, "event=lane_owned "), 0);
}

static void destroy_pair(struct pair *pair)
{
        relay_destroy(pair->owner);
        relay_destroy(pair->standby);
}

Test(relay_standby, delivers_nothing_twice_when_the_owner_is_stopped)
{
        struct relay_fixture fixture;
        struct filter_result verdict;
        struct pair pair;

        relay_fixture_begin(&fixture, postgres_shared());
        pair = start_pair(&fixture);
        relay_fixture_write(&fixture, 11);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 200);
                relay_stop(pair.owner);
                change_roles(&pair);
        }
        relay_fixture_await_more(&fixture, 200);
        verdict = relay_fixture_check(&fixture, pair.owner);
        relay_stop(pair.standby);

        cr_expect_eq(verdict.n_repeated, 0, "%zu events came twice", verdict.n_repeated);
        destroy_pair(&pair);
        relay_fixture_end(&fixture);
}

Test(relay_standby, takes_over_when_the_owner_is_killed)
{
        struct relay_fixture fixture;
        struct filter_result verdict;
        struct pair pair;

        relay_fixture_begin(&fixture, postgres_shared());
        pair = start_pair(&fixture);
        relay_fixture_write(&fixture, 12);
        for (int i = 0; i < 3; i++) {
                relay_fixture_await_more(&fixture, 200);
                relay_kill(pair.owner);
                change_roles(&pair);
        }
        relay_fixture_await_more(&fixture, 200);
        verdict = relay_fixture_check(&fixture, pair.owner);
        relay_stop(pair.standby);

        cr_expect_leq(verdict.n_repeated, 3 * 50, "%zu events came twice", verdict.n_repeated);
        destroy_pair(&pair);
        relay_fixture_end(&fixture);
}

static struct relay_process *start_hook(
    const struct relay_fixture *fixture, const struct http_receiver *http)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                           "     http: {url: \"http://127.0.0.1:%u/\"}}\n",
            fixture->relay, http_receiver_port(http));
}

/* The session that holds the lane. */
static void terminate_sessions_of_owner(struct relay_fixture *fixture)
{
        database_exec(fixture->admin,
            "SELECT pg_terminate_backend(pid) FROM pg_locks "
            "WHERE locktype = 'advisory' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())");
}

/* The former owner wakes up with an answer in its hands, and the database lets it settle
 * nothing. */
Test(relay_standby, does_not_let_a_frozen_owner_settle)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *frozen;
        struct relay_process *second;
        char *before;
        char *after;

        relay_fixture_begin(&fixture, postgres_shared());
        http_receiver_answer_next(http, &(struct http_answer){.is_held = true});
        frozen = start_hook(&fixture, http);
        relay_wait_for_log(frozen, "event=lane_owned ", 30000);
        second = start_hook(&fixture, http);
        relay_wait_for_log(second, "event=lane_owned_elsewhere", 30000);
        publish(fixture.admin, "t", "k", "1");
        http_receiver_wait(http, 1, 30000);
        process_signal(&frozen->process, SIGSTOP);
        terminate_sessions_of_owner(&fixture);
        relay_wait_for_log(second, "event=lane_owned ", 30000);
        http_receiver_wait(http, 2, 30000);
        await_in_database(fixture.admin,
            "SELECT epoch = 2 AND until_snapshot IS NULL AND from_floor > 0 FROM courier.cursor",
            "the second relay settles");
        before = database_value(fixture.admin, "SELECT cursor::text FROM courier.cursor");
        http_receiver_release(http);
        process_signal(&frozen->process, SIGCONT);
        relay_wait_for_log(frozen, "event=outbox_connection_lost", 30000);
        relay_wait_for_log(frozen, "event=lane_owned_elsewhere", 30000);
        after = database_value(fixture.admin, "SELECT cursor::text FROM courier.cursor");

        cr_expect_str_eq(before, after);
        publish(fixture.admin, "t", "k", "2");
        http_receiver_wait(http, 3, 30000);
        relay_stop(frozen);
        relay_stop(second);
        cr_expect_eq(http_receiver_n_requests(http), 3);
        free(before);
        free(after);
        relay_destroy(frozen);
        relay_destroy(second);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

static struct relay_process *start_hook_with(
    const struct relay_fixture *fixture, const struct http_receiver *http, const char *path)
{
        return relay_start("postgres: {dsn: \"%s\"}\n"
                           "relay: {standby: 50ms}\n"
                           "sinks:\n"
                           "  - {name: hook, topics: [\"**\"], start: beginning,\n"
                           "     http: {url: \"http://127.0.0.1:%u/%s\"}}\n",
            fixture->relay, http_receiver_port(http), path);
}

/* What is to be noticed before it happens: that after a takeover events would go elsewhere. */
Test(relay_standby, warns_of_other_settings_before_a_takeover_and_tells_of_them_after_it)
{
        struct relay_fixture fixture;
        struct http_receiver *http = http_receiver_start(NULL, NULL);
        struct relay_process *owner, *same, *other;
        struct program_run run;
        char *noted;

        relay_fixture_begin(&fixture, postgres_shared());
        owner = start_hook_with(&fixture, http, "a?token=s3cret");
        relay_wait_for_log(owner, "event=lane_owned ", 30000);
        same = start_hook_with(&fixture, http, "a?token=s3cret");
        relay_wait_for_log(same, "event=lane_owned_elsewhere", 30000);
        other = start_hook_with(&fixture, http, "b");
        relay_wait_for_log(other, "event=sink_settings_differ sink=hook", 30000);
        cr_expect_eq(relay_count_in_log(same, "event=sink_settings_differ"), 0);
        cr_expect_eq(relay_count_in_log(owner, "event=sink_settings_changed"), 0);

        run = program_run(NULL, "status", "-c", other->config_path, NULL);
        cr_expect_not_null(
            strstr(run.out, "The relay that delivers hook has other settings for it"), "%s",
            run.out);
        cr_expect_not_null(strstr(run.out, "/a?... ("), "%s", run.out);
        cr_expect_null(strstr(run.out, "s3cret"), "%s", run.out);
        program_run_free(&run);
        run = program_run(NULL, "status", "-c", same->config_path, NULL);
        cr_expect_null(strstr(run.out, "other settings"), "%s", run.out);
        program_run_free(&run);
        noted = database_value(fixture.admin, "SELECT settings::text FROM courier.sink");
        cr_expect_null(strstr(noted, "s3cret"), "%s", noted);
        free(noted);

        relay_stop(same);
        relay_stop(owner);
        relay_wait_for_log(other, "event=lane_owned ", 30000);
        cr_expect_eq(relay_count_in_log(other, "level=info event=sink_settings_changed"), 1);
        relay_stop(other);
        relay_start_again(other); /* it is what it noted itself */
        relay_wait_for_log(other, "event=lane_owned ", 30000);
        cr_expect_eq(relay_count_in_log(other, "event=sink_settings_changed"), 0);
        relay_stop(other);
        relay_destroy(other);
        relay_destroy(same);
        relay_destroy(owner);
        http_receiver_destroy(http);
        relay_fixture_end(&fixture);
}

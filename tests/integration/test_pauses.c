/* Pauses as a relay reads and writes them, and the channel that tells of changes by hand. */
#include "base/alloc.h"
#include "outbox/outbox.h"
#include "support/postgres.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* A session that writes down what it is told. */
struct listener {
        uv_loop_t loop;
        struct postgres_config config;
        struct outbox *outbox;
        char told[1024]; /* "sink/by/reason " for each pause of the last answer */
        unsigned n_told, n_up, n_rung, n_controls;
        unsigned n_told_before_up;
};

static void on_up(void *owner)
{
        struct listener *listener = owner;

        listener->n_up++;
        listener->n_told_before_up = listener->n_told;
}

static void on_pauses(void *owner, const struct pause_list *list)
{
        struct listener *listener = owner;
        int length = 0;

        listener->n_told++;
        listener->told[0] = '\0';
        for (size_t i = 0; i < list->n_pauses; i++) {
                const struct pause *pause = &list->pauses[i];

                length += snprintf(listener->told + length, sizeof listener->told - (size_t)length,
                    "%s/%s/%s ", pause->sink, pause->by == PAUSED_BY_RELAY ? "relay" : "operator",
                    pause->reason != NULL ? pause->reason : "-");
        }
}

static void on_down(void *owner, const struct error *error, int64_t retry_ms)
{
        (void)owner;
        (void)retry_ms;
        test_abort("the session broke: %s", error->text);
}

static void on_refused(void *owner, const struct error *error)
{
        on_down(owner, error, 0);
}

static void on_rung(void *owner)
{
        struct listener *listener = owner;

        listener->n_rung++;
}

static void on_control(void *owner)
{
        struct listener *listener = owner;

        listener->n_controls++;
}

static void on_looking(void *owner)
{
        (void)owner;
}

static void on_looked(void *owner, uint64_t n_news, uint64_t n_ours)
{
        (void)owner;
        (void)n_news;
        (void)n_ours;
}

static void wait_for(struct listener *listener, const unsigned *count, unsigned at_least)
{
        while (*count < at_least)
                uv_run(&listener->loop, UV_RUN_ONCE);
}

static struct listener *listen_to(const char *dsn)
{
        static const struct outbox_events outbox_events = {.on_up = on_up,
            .on_pauses = on_pauses,
            .on_control = on_control,
            .on_down = on_down,
            .on_refused = on_refused};
        static const struct outbox_news news = {
            .on_rung = on_rung, .on_polling = on_looking, .on_polled = on_looked};
        struct listener *listener = xcalloc(1, sizeof *listener);

        listener->config = (struct postgres_config){.dsn = dsn_as_user(dsn, "relay"),
            .connect_timeout_ms = 30000,
            .query_timeout_ms = 30000};
        uv_loop_init(&listener->loop);
        listener->outbox =
            outbox_create(&listener->loop, &listener->config, &outbox_events, listener);
        outbox_listen(listener->outbox, &news, listener);
        outbox_open(listener->outbox);
        wait_for(listener, &listener->n_up, 1);
        return listener;
}

static void stop_listening(struct listener *listener)
{
        outbox_close(listener->outbox);
        outbox_destroy(listener->outbox);
        uv_run(&listener->loop, UV_RUN_DEFAULT);
        uv_loop_close(&listener->loop);
        free(listener->config.dsn);
        free(listener);
}

static void read_again(struct listener *listener)
{
        unsigned n_told = listener->n_told;

        outbox_read_pauses(listener->outbox);
        wait_for(listener, &listener->n_told, n_told + 1);
}

Test(pauses, are_told_before_the_session_is_up)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct listener *listener;

        database_exec(admin, "INSERT INTO courier.pause (sink, by, reason) VALUES"
                             " ('b', 'relay', 'refused'), ('b', 'operator', NULL),"
                             " ('a', 'operator', 'upkeep')");
        listener = listen_to(dsn);

        cr_expect(listener->n_told_before_up == 1);
        cr_expect_str_eq(listener->told, "a/operator/upkeep b/operator/- b/relay/refused ");
        stop_listening(listener);
        PQfinish(admin);
        free(dsn);
}

Test(pauses, of_the_relay_leave_an_operators_alone)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct listener *listener = listen_to(dsn);

        cr_expect_str_eq(listener->told, "");
        database_exec(admin, "INSERT INTO courier.pause (sink, by) VALUES ('a', 'operator')");
        outbox_write_pause(listener->outbox, "a", "401 from the \"server\"");
        outbox_write_pause(listener->outbox, "b", "first");
        outbox_write_pause(listener->outbox, "b", "second");
        read_again(listener);
        cr_expect_str_eq(
            listener->told, "a/operator/- a/relay/401 from the \"server\" b/relay/second ");

        outbox_remove_pause(listener->outbox, "a");
        outbox_remove_pause(listener->outbox, "never paused");
        read_again(listener);
        cr_expect_str_eq(listener->told, "a/operator/- b/relay/second ");
        stop_listening(listener);
        PQfinish(admin);
        free(dsn);
}

Test(pauses, that_are_written_again_stay_as_they_are)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct listener *listener = listen_to(dsn);
        char *before;
        char *after;

        outbox_write_pause(listener->outbox, "a", "same");
        read_again(listener);
        before = database_value(admin, "SELECT concat(ctid, paused_at) FROM courier.pause");
        outbox_write_pause(listener->outbox, "a", "same");
        read_again(listener);
        after = database_value(admin, "SELECT concat(ctid, paused_at) FROM courier.pause");

        cr_expect_str_eq(before, after);
        free(before);
        free(after);
        stop_listening(listener);
        PQfinish(admin);
        free(dsn);
}

Test(doorbell, tells_new_events_from_changes_by_hand)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct listener *listener = listen_to(dsn);

        cr_expect(listener->n_rung == 0 && listener->n_controls == 0);
        database_exec(admin, "INSERT INTO courier.pause (sink, by) VALUES ('a', 'operator')");
        wait_for(listener, &listener->n_controls, 1);
        cr_expect(listener->n_rung == 0);

        database_exec(admin, "NOTIFY courier");
        wait_for(listener, &listener->n_rung, 1);
        cr_expect(listener->n_controls == 1);

        outbox_write_pause(listener->outbox, "a", "our own changes ring as well");
        wait_for(listener, &listener->n_controls, 2);
        database_exec(admin, "NOTIFY courier_control");
        wait_for(listener, &listener->n_controls, 3);
        cr_expect(listener->n_rung == 1);
        stop_listening(listener);
        PQfinish(admin);
        free(dsn);
}

struct unread {
        struct listener *listener;
        int n_bytes;
};

static void count_unread(uv_handle_t *handle, void *context)
{
        struct unread *unread = context;
        uv_os_fd_t fd;
        int n_bytes;

        if (handle->type == UV_POLL && uv_fileno(handle, &fd) == 0 &&
            ioctl(fd, FIONREAD, &n_bytes) == 0)
                unread->n_bytes += n_bytes;
}

static bool has_more_unread(void *context)
{
        struct unread *before = context, now = {.listener = before->listener};

        uv_walk(&before->listener->loop, count_unread, &now);
        if (now.n_bytes <= before->n_bytes)
                return false;
        before->n_bytes = now.n_bytes;
        return true;
}

/* libpq looks no further than the next result, however much has been read. */
Test(doorbell, is_heard_behind_an_answer_that_came_in_the_same_moment, .timeout = 60)
{
        char *dsn = postgres_new_database(postgres_shared());
        PGconn *admin = database_connect(dsn);
        struct listener *listener = listen_to(dsn);
        struct unread unread = {.listener = listener};

        outbox_read_pauses(listener->outbox);
        wait_until(has_more_unread, &unread, 30000, "the answer is in the socket");
        database_exec(admin, "NOTIFY courier");
        wait_until(has_more_unread, &unread, 30000, "and the notification behind it");
        wait_for(listener, &listener->n_rung, 1);
        stop_listening(listener);
        PQfinish(admin);
        free(dsn);
}

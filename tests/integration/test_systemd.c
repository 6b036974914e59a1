/* The relay as a service of systemd: a real relay, and the test where systemd would listen. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "support/postgres.h"
#include "support/program.h"
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEADLINE_MS 30000

/* What was sent so far: each datagram between two lines of "--". */
struct manager {
        int file;
        struct bytes heard;
};

/* A name with a leading '@' is an abstract one. */
static void manager_listen(struct manager *manager, const char *name)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

        *manager = (struct manager){.file = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)};
        bytes_append_text(&manager->heard, "--\n");
        memcpy(address.sun_path, name, strlen(name));
        if (name[0] == '@')
                address.sun_path[0] = '\0';
        if (bind(manager->file, (struct sockaddr *)&address, length) != 0)
                test_abort("cannot bind %s", name);
        setenv("NOTIFY_SOCKET", name, 1);
}

static void listen_in_a_folder(struct manager *manager)
{
        char *folder = temp_folder();
        char *name = xasprintf("%s/notify", folder);

        manager_listen(manager, name);
        free(name);
        free(folder);
}

static void hear(struct manager *manager)
{
        char message[4096];
        ssize_t length;

        while ((length = recv(manager->file, message, sizeof message, 0)) > 0) {
                bytes_append(&manager->heard, message, (size_t)length);
                bytes_append_text(&manager->heard, "--\n");
        }
}

static void manager_leave(struct manager *manager)
{
        close(manager->file);
        bytes_deinit(&manager->heard);
}

static unsigned count(struct manager *manager, const char *text)
{
        unsigned n = 0;

        hear(manager);
        for (const char *at = manager->heard.data; (at = strstr(at, text)) != NULL; at++)
                n++;
        return n;
}

struct awaited {
        struct manager *manager;
        const char *text;
        unsigned n;
};

static bool is_heard(void *context)
{
        struct awaited *awaited = context;

        return count(awaited->manager, awaited->text) >= awaited->n;
}

static void await(struct manager *manager, const char *text, unsigned n)
{
        struct awaited awaited = {manager, text, n};

        wait_until(is_heard, &awaited, DEADLINE_MS, text);
}

/* `dsn` is freed. */
static struct relay_process *start_relay(char *dsn)
{
        struct relay_process *relay = relay_start("postgres:\n"
                                                  "  dsn: %s\n"
                                                  "sinks:\n"
                                                  "  - name: out\n"
                                                  "    topics: [\"*\"]\n"
                                                  "    stdout: {}\n",
            dsn);

        free(dsn);
        return relay;
}

Test(service, is_ready_once_it_owns_a_session_and_says_that_it_stops)
{
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        relay = start_relay(postgres_new_database(postgres_shared()));
        await(&manager, "--\nREADY=1\n", 1);
        cr_assert_eq(count(&manager, "STATUS=connecting to the database\n"), 1);
        cr_assert_eq(count(&manager, "STOPPING=1"), 0);
        cr_assert_eq(relay_count_in_log(relay, "event=outbox_connected"), 1);
        relay_stop(relay);

        cr_assert_eq(count(&manager, "--\nSTOPPING=1\n"), 1);
        cr_assert_eq(count(&manager, "WATCHDOG=1"), 0, "it was not asked for");
        relay_destroy(relay);
        manager_leave(&manager);
}

Test(service, is_never_ready_without_the_schema)
{
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        relay = start_relay(postgres_new_empty_database(postgres_shared()));

        cr_assert_eq(relay_wait(relay, DEADLINE_MS), 6);
        cr_assert_eq(count(&manager, "READY=1"), 0);
        cr_assert_eq(count(&manager, "--\nSTOPPING=1\n"), 1);
        relay_destroy(relay);
        manager_leave(&manager);
}

Test(service, says_what_it_waits_for_until_the_database_is_there)
{
        struct postgres *postgres = postgres_start();
        char *dsn = postgres_new_database(postgres);
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        postgres_stop(postgres);
        relay = start_relay(dsn);
        await(&manager, "STATUS=waiting: ", 1);
        cr_assert_eq(count(&manager, "READY=1"), 0);

        postgres_start_again(postgres);
        await(&manager, "--\nREADY=1\n", 1);
        relay_stop(relay);
        relay_destroy(relay);
        manager_leave(&manager);
        postgres_stop(postgres);
}

Test(service, gives_signs_of_life_three_times_in_the_watchdogs_interval)
{
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        setenv("WATCHDOG_USEC", "300000", 1);
        relay = start_relay(postgres_new_database(postgres_shared()));
        await(&manager, "--\nREADY=1\n", 1);
        await(&manager, "--\nWATCHDOG=1\n", 10);
        await(&manager, "STATUS=delivering to 1 of 1 sinks\n", 1);

        cr_assert_eq(count(&manager, "STATUS=delivering to 1 of 1 sinks\n"), 1,
            "words are said when they change");
        relay_stop(relay);
        relay_destroy(relay);
        manager_leave(&manager);
}

Test(service, says_when_it_reloads_and_when_that_is_over)
{
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        relay = start_relay(postgres_new_database(postgres_shared()));
        await(&manager, "--\nREADY=1\n", 1);
        process_signal(&relay->process, SIGHUP);
        await(&manager, "--\nRELOADING=1\nMONOTONIC_USEC=", 1);
        await(&manager, "--\nREADY=1\n", 2);

        relay_stop(relay);
        relay_destroy(relay);
        manager_leave(&manager);
}

Test(service, names_the_sinks_that_stand_still)
{
        struct manager manager;
        struct relay_process *relay;
        char *dsn = postgres_new_database(postgres_shared());
        struct program_run pause;

        listen_in_a_folder(&manager);
        setenv("WATCHDOG_USEC", "300000", 1);
        relay = start_relay(xstrdup(dsn));
        await(&manager, "STATUS=delivering to 1 of 1 sinks\n", 1);
        pause = program_run(NULL, "pause", "out", "--dsn", dsn, NULL);
        cr_assert_eq(pause.code, 0, "%s", pause.err);
        await(&manager, "STATUS=delivering to 1 of 1 sinks; out paused\n", 1);

        relay_stop(relay);
        program_run_free(&pause);
        relay_destroy(relay);
        manager_leave(&manager);
        free(dsn);
}

Test(service, leaves_a_watchdog_alone_that_watches_another_process)
{
        struct manager manager;
        struct relay_process *relay;

        listen_in_a_folder(&manager);
        setenv("WATCHDOG_USEC", "1000", 1);
        setenv("WATCHDOG_PID", "1", 1);
        relay = start_relay(postgres_new_database(postgres_shared()));
        await(&manager, "--\nREADY=1\n", 1);
        relay_stop(relay);

        cr_assert_eq(count(&manager, "WATCHDOG=1"), 0);
        relay_destroy(relay);
        manager_leave(&manager);
}

Test(service, finds_a_socket_in_the_abstract_name_space)
{
        struct manager manager;
        struct relay_process *relay;
        char *name = xasprintf("@pgcourier-test-%d", getpid());

        manager_listen(&manager, name);
        relay = start_relay(postgres_new_database(postgres_shared()));
        await(&manager, "--\nREADY=1\n", 1);
        relay_stop(relay);
        relay_destroy(relay);
        manager_leave(&manager);
        free(name);
}

Test(service, runs_on_when_its_messages_are_not_taken)
{
        struct relay_process *relay;

        setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
        relay = start_relay(postgres_new_database(postgres_shared()));
        relay_wait_for_log(relay, "event=lane_owned", DEADLINE_MS);

        cr_assert_eq(relay_count_in_log(relay, "event=service_manager_unreachable"), 1);
        relay_stop(relay);
        relay_destroy(relay);
}

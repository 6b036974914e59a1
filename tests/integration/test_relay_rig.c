/* The rig that runs the relay, with a shell script in the relay's place. */
#include "support/relay_process.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes `body` the program; it is called with "run -c FILE". */
static void be_the_relay(const char *body)
{
        char *folder = temp_folder();
        char path[128];
        FILE *file;

        snprintf(path, sizeof path, "%s/stand-in", folder);
        file = fopen(path, "w");
        fprintf(file, "#!/bin/sh\n%s\n", body);
        fclose(file);
        chmod(path, 0755);
        setenv("PGCOURIER", path, 1);
        free(folder);
}

#define OBEDIENT                                                                                   \
        "trap 'echo event=stopped; exit 0' TERM; echo event=ready; while :; do sleep 0.01; done"

Test(relay_rig, passes_the_config_file)
{
        be_the_relay("echo $1 $2; cat $3");
        struct relay_process *relay = relay_start("sweep: %ds\n", 7);

        int code = relay_wait(relay, 10000);

        cr_assert_eq(code, 0);
        cr_assert_eq(relay_count_in_log(relay, "run -c"), 1);
        cr_assert_eq(relay_count_in_log(relay, "sweep: 7s"), 1);
        relay_destroy(relay);
}

Test(relay_rig, stops_and_starts_again_and_reads_only_the_new_log)
{
        be_the_relay(OBEDIENT);
        struct relay_process *relay = relay_start("x");

        relay_wait_for_log(relay, "event=ready", 10000);
        relay_stop(relay);
        cr_assert_eq(relay_count_in_log(relay, "event=stopped"), 1);
        relay_start_again(relay);
        relay_wait_for_log(relay, "event=ready", 10000);

        cr_assert_eq(relay_count_in_log(relay, "event=stopped"), 0);
        relay_destroy(relay);
}

Test(relay_rig, measures_resident_memory)
{
        be_the_relay(OBEDIENT);
        struct relay_process *relay = relay_start("x");
        relay_wait_for_log(relay, "event=ready", 10000);

        long kib = relay_rss_kib(relay);

        cr_assert_gt(kib, 100);
        cr_assert_lt(kib, 100000);
        relay_destroy(relay);
}

Test(relay_rig, gives_the_exit_code_of_a_relay_that_ends_by_itself)
{
        be_the_relay("exit 3");
        struct relay_process *relay = relay_start("x");

        cr_assert_eq(relay_wait(relay, 10000), 3);
        relay_destroy(relay);
}

Test(relay_rig, aborts_when_the_relay_ends_before_the_awaited_line, .signal = SIGABRT)
{
        be_the_relay("exit 3");

        relay_wait_for_log(relay_start("x"), "event=ready", 10000);
}

Test(relay_rig, aborts_when_a_stopped_relay_exits_with_an_error, .signal = SIGABRT)
{
        be_the_relay("trap 'exit 1' TERM; echo event=ready; while :; do sleep 0.01; done");
        struct relay_process *relay = relay_start("x");
        relay_wait_for_log(relay, "event=ready", 10000);

        relay_stop(relay);
}

Test(relay_rig, aborts_on_a_sanitizer_report_even_if_the_relay_exits_with_0, .signal = SIGABRT)
{
        be_the_relay("echo 'ERROR: AddressSanitizer' > \"${ASAN_OPTIONS##*log_path=}.1\"");

        relay_wait(relay_start("x"), 10000);
}

Test(relay_rig, keeps_other_sanitizer_options_and_gives_each_relay_its_own_report)
{
        be_the_relay("echo options=$ASAN_OPTIONS.");
        setenv("ASAN_OPTIONS", "detect_leaks=1", 1);

        for (int i = 0; i < 2; i++) {
                struct relay_process *relay = relay_start("x");
                char expected[128];
                relay_wait(relay, 10000);
                snprintf(expected, sizeof expected, "options=detect_leaks=1:log_path=%s/sanitizer.",
                    relay->folder);
                cr_assert_eq(relay_count_in_log(relay, expected), 1);
                relay_destroy(relay);
        }
}

/* Both go on from the same one. */
Test(relay_rig, gives_no_port_to_two_processes)
{
        uint16_t ports[2] = {free_port()};
        int pipes[2][2];
        pid_t child;
        char end;

        cr_assert(pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
        child = fork();
        if (child == 0) {
                ports[1] = free_port();
                if (write(pipes[0][1], &ports[1], sizeof ports[1]) < 0 ||
                    read(pipes[1][0], &end, 1) < 0)
                        _exit(1);
                _exit(0);
        }
        cr_assert_eq(read(pipes[0][0], &ports[1], sizeof ports[1]), sizeof ports[1]);
        ports[0] = free_port();
        cr_assert_eq(write(pipes[1][1], "", 1), 1);
        waitpid(child, NULL, 0);
        cr_expect_neq(ports[0], ports[1]);
}

/* Crash points, each run in a process of its own, which then dies or does not. */
#include "base/crash_point.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that passes "a" and "ab" in turn, ten times each, and counts the rounds on a pipe. */
static int status_of_passing(const char *crash_at, size_t *out_rounds)
{
        int pipe_fds[2];
        char rounds[16];
        ssize_t n_bytes;
        int status;
        pid_t pid;

        cr_assert_eq(pipe(pipe_fds), 0);
        pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
                if (crash_at != NULL)
                        setenv("PGCOURIER_CRASH_AT", crash_at, 1);
                else
                        unsetenv("PGCOURIER_CRASH_AT");
                for (int i = 0; i < 10; i++) {
                        crash_point("a");
                        crash_point("ab");
                        if (write(pipe_fds[1], "r", 1) != 1)
                                _exit(2);
                }
                _exit(0);
        }
        close(pipe_fds[1]);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        n_bytes = read(pipe_fds[0], rounds, sizeof rounds);
        close(pipe_fds[0]);
        cr_assert_geq(n_bytes, 0);
        *out_rounds = (size_t)n_bytes;
        return status;
}

static void expect_crash(const char *crash_at, size_t expected_rounds)
{
        size_t rounds;
        int status = status_of_passing(crash_at, &rounds);

        cr_expect(
            WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: status %d", crash_at, status);
        cr_expect_eq(rounds, expected_rounds, "%s: after %zu rounds", crash_at, rounds);
}

static void expect_survival(const char *crash_at)
{
        size_t rounds;
        int status = status_of_passing(crash_at, &rounds);

        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d", crash_at, status);
        cr_expect_eq(rounds, 10);
}

Test(crash_point, kills_at_the_wanted_passing)
{
        expect_crash("a:1", 0);
        expect_crash("a:3", 2);
        expect_crash("ab:10", 9);
}

Test(crash_point, does_nothing_elsewhere)
{
        expect_survival(NULL);
        expect_survival("a:11");
        expect_survival("b:1");
        expect_survival("a:b:1");
}

Test(crash_point, is_refused_where_it_makes_no_sense)
{
        static const char *const wrong[] = {"a", "a:", "a:0", "a:1x", ""};
        size_t rounds;

        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
                int status = status_of_passing(wrong[i], &rounds);
                cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "'%s': status %d",
                    wrong[i], status);
        }
}

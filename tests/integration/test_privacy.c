/* What a running relay keeps to itself: its memory, its rights, and the secrets it was given. */
#include "base/alloc.h"
#include "support/postgres.h"
#include "support/program.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool says(const char *path, const char *text)
{
        char *content = read_file(path);
        bool says = strstr(content, text) != NULL;

        free(content);
        return says;
}

static bool is_connected(void *log_path)
{
        return says(log_path, "event=outbox_connected");
}

/* Of this process: "/proc/PID/NAME". */
static const char *proc_path(const struct process *process, const char *name)
{
        static char path[64];

        snprintf(path, sizeof path, "/proc/%ld/%s", (long)process->pid, name);
        return path;
}

/* As a user without rights: what the kernel shows of it tells what others may do with it. */
Test(privacy, of_memory_and_rights)
{
        char *database = postgres_new_database(postgres_shared());
        char *dsn = dsn_as_user(database, "relay");
        char *folder = temp_folder();
        char *log_path = xasprintf("%s/log", folder);
        char *program = xasprintf("%s/pgcourier", folder); /* a home folder may be closed to them */
        const char *copy[] = {"cp", getenv("PGCOURIER"), program, NULL};
        char *config_path;
        char *config = xasprintf(
            "postgres: { dsn: \"%s\" }\nsinks: [{ name: a, topics: [\"**\"], stdout: {} }]\n", dsn);
        struct process relay;
        struct stat status;

        config_path = program_file("pgcourier.yaml", config, strlen(config));
        cr_assert_eq(chmod(config_path, 0644), 0);
        cr_assert_eq(process_run(copy, NULL, false), 0);
        process_start(
            &relay, (const char *[]){program, "run", "-c", config_path, NULL}, log_path, true);
        wait_until(is_connected, log_path, 20000, "the relay does not connect");

        cr_expect(says(proc_path(&relay, "status"), "NoNewPrivs:\t1"));
        cr_expect(says(proc_path(&relay, "limits"), "Max core file size        0 "));
        /* The kernel gives the files of a process that is not dumpable to root. */
        cr_assert_eq(stat(proc_path(&relay, "environ"), &status), 0);
        cr_expect_eq(status.st_uid, 0);

        cr_expect_eq(process_stop(&relay), 0);
        free(config_path);
        free(config);
        free(program);
        free(log_path);
        free(folder);
        free(dsn);
        free(database);
}

/* The life of a private cluster: initdb, start, three ways to stop, start again. */
#include "support/postgres.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <unistd.h>

static struct postgres *clusters; /* those that this process started: postgres::next */

static bool has_server(const char *bin_folder)
{
        char path[640];

        snprintf(path, sizeof path, "%s/initdb", bin_folder);
        return access(path, X_OK) == 0;
}

/* The folder of initdb and postgres, which Debian keeps out of PATH. */
const char *postgres_bin_folder(void)
{
        static char folder[512];
        FILE *pg_config;
        glob_t found;

        if (folder[0] != '\0')
                return folder;
        pg_config = popen("pg_config --bindir 2>/dev/null", "r");
        if (pg_config != NULL && fgets(folder, sizeof folder, pg_config) != NULL)
                folder[strcspn(folder, "\n")] = '\0';
        if (pg_config != NULL)
                pclose(pg_config);
        if (has_server(folder))
                return folder;

        folder[0] = '\0';
        if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0) {
                for (size_t i = 0; i < found.gl_pathc; i++)
                        if (has_server(found.gl_pathv[i]) &&
                            strverscmp(found.gl_pathv[i], folder) > 0)
                                snprintf(folder, sizeof folder, "%s", found.gl_pathv[i]);
                globfree(&found);
        }
        if (folder[0] == '\0')
                test_abort("no PostgreSQL server: neither pg_config --bindir nor "
                           "/usr/lib/postgresql/*/bin has initdb; see scripts/deps");
        return folder;
}

static void run_initdb(const char *data, const char *log_path)
{
        char *initdb = xasprintf("%s/initdb", postgres_bin_folder());
        const char *argv[] = {initdb, "-D", data, "-A", "trust", "-N", "-E", "UTF8", "--locale=C",
            "-U", "postgres", NULL};

        if (process_run(argv, log_path, true) != 0)
                test_abort("initdb failed:\n%s", read_file(log_path));
        free(initdb);
}

/* initdb and the schema cost more than most tests, and a hundred programs start clusters. The
 * first of a run leaves one in the run's own folder, for all others to copy. NULL: there is no
 * such folder. */
static char *prepared_cluster(void)
{
        const char *run_folder = getenv("TMPDIR");
        struct postgres *first;
        char *prepared, *data;

        if (run_folder == NULL)
                return NULL;
        prepared = xasprintf("%s/cluster", run_folder);
        if (access(prepared, F_OK) == 0)
                return prepared;
        first = postgres_start_distinct();
        postgres_make_template(first);
        postgres_stop(first);
        data = xasprintf("%s/data", first->folder);
        if (rename(data, prepared) != 0 && errno != EEXIST && errno != ENOTEMPTY)
                test_abort("cannot move %s to %s: %s", data, prepared, strerror(errno));
        free(data);
        return prepared;
}

static void fill_anew(const struct postgres *postgres, const char *data, const void *nothing)
{
        (void)nothing;
        run_initdb(data, postgres->log_path);
}

/* A copy has the system identifier of what it is a copy of. */
static void fill_with_copy(const struct postgres *postgres, const char *data, const void *nothing)
{
        char *prepared = prepared_cluster();
        const char *argv[] = {"cp", "-a", "--reflink=auto", prepared, data, NULL};

        if (prepared == NULL)
                fill_anew(postgres, data, nothing);
        else if (process_run(argv, postgres->log_path, true) != 0)
                test_abort("cp failed:\n%s", read_file(postgres->log_path));
        free(prepared);
}

/* What pg_rewind wants, which also starts the server by itself; and a standby is soon back. */
static void fill_replicated(const struct postgres *postgres, const char *data, const void *nothing)
{
        char *path = xasprintf("%s/postgresql.auto.conf", data);
        FILE *settings;

        fill_with_copy(postgres, data, nothing);
        settings = fopen(path, "a");
        if (settings == NULL ||
            fputs("wal_log_hints = on\nwal_keep_size = 256MB\n", settings) < 0 ||
            fclose(settings) != 0)
                test_abort("cannot write %s: %s", path, strerror(errno));
        free(path);
}

static void start_postmaster(struct postgres *postgres)
{
        char *server = xasprintf("%s/postgres", postgres_bin_folder());
        char *data = xasprintf("%s/data", postgres->folder);
        char *sockets = xasprintf("unix_socket_directories=%s", postgres->folder);
        char *port = xasprintf("port=%u", postgres->port);
        char *addresses =
            xasprintf("listen_addresses=127.0.0.1%s%s", postgres->address != NULL ? "," : "",
                postgres->address != NULL ? postgres->address : "");
        const char *argv[] = {server, "-D", data, "-c", sockets, "-c", port, "-c", addresses, "-c",
            postgres->care == POSTGRES_DURABLE ? "fsync=on" : "fsync=off", "-c",
            postgres->care == POSTGRES_HASTY ? "full_page_writes=off" : "full_page_writes=on", "-c",
            "max_connections=200", "-c", "max_prepared_transactions=20", "-c",
            /* Files in the data folder: nothing is left in /dev/shm by a killed server. */
            "dynamic_shared_memory_type=mmap", "-c", "log_line_prefix=%m [%p] %u@%d ", NULL};

        process_start(&postgres->postmaster, argv, postgres->log_path, true);
        free(server);
        free(data);
        free(sockets);
        free(port);
        free(addresses);
}

static bool accepts_or_ended(void *context)
{
        struct postgres *postgres = context;
        char *dsn = postgres_dsn(postgres, "postgres", "postgres");
        bool accepts = PQping(dsn) == PQPING_OK;

        free(dsn);
        return accepts || !process_is_running(&postgres->postmaster);
}

/* False if the postmaster ended instead, as it does when another process took the port. */
static bool wait_until_it_accepts(struct postgres *postgres)
{
        wait_until(accepts_or_ended, postgres, 120000, "PostgreSQL accepts connections");
        if (process_is_running(&postgres->postmaster))
                return true;
        process_wait(&postgres->postmaster, 1000);
        return false;
}

static void stop_own_clusters(void)
{
        for (struct postgres *postgres = clusters; postgres != NULL; postgres = postgres->next)
                postgres_stop_immediate(postgres);
}

struct postgres *postgres_start_filled(
    enum postgres_care care, postgres_fill_fn *fill, const void *context)
{
        struct postgres *postgres = xcalloc(1, sizeof *postgres);
        char *data;

        postgres->care = care;
        postgres->folder = temp_folder();
        postgres->log_path = xasprintf("%s/log", postgres->folder);
        if (clusters == NULL)
                atexit(stop_own_clusters); /* after temp_folder(): runs before the folders go */
        postgres->next = clusters;
        clusters = postgres;
        data = xasprintf("%s/data", postgres->folder);
        fill(postgres, data, context);
        free(data);
        for (int tries = 0; tries < 5; tries++) {
                postgres->port = free_port();
                start_postmaster(postgres);
                if (wait_until_it_accepts(postgres))
                        return postgres;
        }
        test_abort("PostgreSQL does not start:\n%s", read_file(postgres->log_path));
}

struct postgres *postgres_start(void)
{
        return postgres_start_filled(POSTGRES_HASTY, fill_with_copy, NULL);
}

struct postgres *postgres_start_distinct(void)
{
        return postgres_start_filled(POSTGRES_HASTY, fill_anew, NULL);
}

struct postgres *postgres_start_durable(void)
{
        return postgres_start_filled(POSTGRES_DURABLE, fill_with_copy, NULL);
}

struct postgres *postgres_start_replicated(void)
{
        return postgres_start_filled(POSTGRES_REPLICATED, fill_replicated, NULL);
}

void postgres_start_again(struct postgres *postgres)
{
        if (postgres->postmaster.pid != 0)
                test_abort("postgres_start_again: the server was not stopped");
        start_postmaster(postgres);
        if (!wait_until_it_accepts(postgres))
                test_abort("PostgreSQL does not start again:\n%s", read_file(postgres->log_path));
}

static void require_own(const struct postgres *postgres)
{
        for (const struct postgres *own = clusters; own != NULL; own = own->next)
                if (own == postgres)
                        return;
        test_abort("a shared cluster is not a test's to stop: use postgres_start()");
}

void postgres_stop(struct postgres *postgres)
{
        require_own(postgres);
        process_signal(&postgres->postmaster, SIGINT);
        process_wait(&postgres->postmaster, 60000);
}

void postgres_stop_immediate(struct postgres *postgres)
{
        require_own(postgres);
        process_signal(&postgres->postmaster, SIGQUIT);
        process_wait(&postgres->postmaster, 60000);
}

/* The parent of a process, or 0 if it is gone or only waits to be reaped. */
static pid_t parent_of(pid_t pid)
{
        char path[64];
        char *stat;
        const char *after_name;
        char state = 'Z';
        int parent = 0;

        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        stat = read_file(path);
        after_name = strrchr(stat, ')');
        if (after_name == NULL || sscanf(after_name, ") %c %d", &state, &parent) != 2 ||
            state == 'Z')
                parent = 0;
        free(stat);
        return parent;
}

static bool is_gone(void *context)
{
        return parent_of(*(const pid_t *)context) == 0;
}

/* The postmaster's System V segment, which marks the data folder as in use, outlives it. */
static void remove_segment(const struct postgres *postgres)
{
        char *path = xasprintf("%s/data/postmaster.pid", postgres->folder);
        char *lock = read_file(path);
        char *line = lock;
        unsigned long key;
        int segment;

        for (int i = 1; i < 7 && line != NULL; i++) {
                line = strchr(line, '\n');
                line = line != NULL ? line + 1 : NULL;
        }
        if (line != NULL && sscanf(line, "%lu %d", &key, &segment) == 2)
                shmctl(segment, IPC_RMID, NULL);
        free(lock);
        free(path);
}

static void unlink_in(const char *folder, const char *name)
{
        char *path = xasprintf("%s/%s", folder, name);

        if (unlink(path) != 0 && errno != ENOENT)
                test_abort("cannot remove %s: %s", path, strerror(errno));
        free(path);
}

void postgres_kill(struct postgres *postgres)
{
        pid_t children[512];
        size_t n_children = 0;
        DIR *processes;
        char socket_lock[64];

        require_own(postgres);
        if (postgres->postmaster.pid == 0)
                return;
        /* Stopped first, it neither starts children nor reacts to the death of one. */
        process_signal(&postgres->postmaster, SIGSTOP);
        processes = opendir("/proc");
        for (struct dirent *entry = readdir(processes); entry != NULL; entry = readdir(processes)) {
                pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
                if (pid > 0 && n_children < 512 && parent_of(pid) == postgres->postmaster.pid)
                        children[n_children++] = pid;
        }
        closedir(processes);
        for (size_t i = 0; i < n_children; i++)
                kill(children[i], SIGKILL);
        process_kill(&postgres->postmaster);
        for (size_t i = 0; i < n_children; i++)
                wait_until(is_gone, &children[i], 30000, "a killed backend is gone");

        remove_segment(postgres);
        /* A process that was given one of the old ids would make the next start refuse. */
        snprintf(socket_lock, sizeof socket_lock, ".s.PGSQL.%u.lock", postgres->port);
        unlink_in(postgres->folder, socket_lock);
        unlink_in(postgres->folder, "data/postmaster.pid");
}

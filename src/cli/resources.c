#include "cli/resources.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* The loop's own, PostgreSQL's two connections, and some for a name to be resolved. */
enum { N_FILES = 12 };

static bool check_files(struct error *error)
{
        int files[N_FILES];
        int failure = 0;
        int n = 0;

        while (n < N_FILES && failure == 0) {
                files[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (files[n] < 0)
                        failure = errno;
                else
                        n++;
        }
        for (int i = 0; i < n; i++)
                close(files[i]);
        if (failure == 0)
                return true;
        return error_set(error, ERROR_TEMPORARY,
            "only %d of at least %d files can be opened besides standard output: %s. Raise the "
            "limit of open files (ulimit -n, LimitNOFILE=)",
            n, N_FILES, strerror(failure));
}

static void *wait_for_others(void *gate)
{
        pthread_mutex_lock(gate);
        pthread_mutex_unlock(gate);
        return NULL;
}

static bool check_threads(unsigned n_threads, struct error *error)
{
        pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
        pthread_t *threads = xcalloc(n_threads, sizeof *threads);
        int failure = 0;
        unsigned n = 0;

        pthread_mutex_lock(&gate); /* until all are there at the same time */
        while (n < n_threads && failure == 0) {
                failure = pthread_create(&threads[n], NULL, wait_for_others, &gate);
                n += failure == 0;
        }
        pthread_mutex_unlock(&gate);
        for (unsigned i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        free(threads);
        if (failure == 0)
                return true;
        return error_set(error, ERROR_TEMPORARY,
            "only %u of %u threads can be started: %s. Raise the limit of processes and threads "
            "(ulimit -u, TasksMax=, --pids-limit), or lower the concurrency of email sinks",
            n, n_threads, strerror(failure));
}

bool resources_check(unsigned n_threads, struct error *error)
{
        return check_files(error) && check_threads(n_threads, error);
}

uint64_t resources_raise_files(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) != 0)
                return 0;
        if (files.rlim_cur < files.rlim_max) {
                const struct rlimit raised = {
                    .rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
                if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
                        files.rlim_cur = files.rlim_max;
        }
        return files.rlim_cur;
}

void resources_keep_to_ourselves(void)
{
        const struct rlimit none = {0, 0};

        /* A kernel that knows none of these leaves things as they were. */
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

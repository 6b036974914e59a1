#include "cli/process.h"

#include "base/alloc.h"

#include <ares.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

/* OpenSSL also passes the calling line, and expects NULL for zero bytes. */
static void *openssl_malloc(size_t size, const char *file, int line)
{
        (void)file;
        (void)line;
        return size > 0 ? xmalloc(size) : NULL;
}

static void openssl_free(void *block, const char *file, int line)
{
        (void)file;
        (void)line;
        free(block);
}

static void *openssl_realloc(void *block, size_t size, const char *file, int line)
{
        if (size > 0)
                return xrealloc(block, size);
        openssl_free(block, file, line);
        return NULL;
}

void process_share_allocator(void)
{
        json_set_alloc_funcs(xmalloc, free);
        ares_library_init_mem(ARES_LIB_INIT_ALL, xmalloc, free, xrealloc);
        uv_replace_allocator(xmalloc, xrealloc, xcalloc, free);
        /* Refused if OpenSSL has been used already; then it keeps its own allocator. */
        (void)CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

bool process_init_curl(void)
{
        return curl_global_init_mem(
                   CURL_GLOBAL_DEFAULT, xmalloc, free, xrealloc, xstrdup, xcalloc) == CURLE_OK;
}

/* For the loop, two connections to PostgreSQL, and the resolution of a name. */
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

        pthread_mutex_lock(&gate); /* so that all run at the same time */
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

bool process_check_limits(unsigned n_threads, struct error *error)
{
        return check_files(error) && check_threads(n_threads, error);
}

uint64_t process_raise_files(void)
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

void process_keep_memory_private(void)
{
        const struct rlimit none = {0, 0};

        /* A kernel without them changes nothing. */
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

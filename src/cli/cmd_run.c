#include "base/alloc.h"
#include "base/regular_file.h"
#include "cli/commands.h"
#include "cli/process.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "log/log.h"
#include "loop/resolve.h"
#include "pg/dsn.h"
#include "relay/relay.h"
#include "relay/signals.h"
#include "sinks/registry.h"

#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG, ONCE, LOG_LEVEL };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the configuration; required"},
    [ONCE] = {"once", 0, NULL, false, "deliver what is in the outbox now, then end"},
    [LOG_LEVEL] = {"log-level", 0, "LEVEL", false,
        "debug, info, warn or error; else as\nthe configuration says"},
    {0},
};

static unsigned count_threads(const struct config *config)
{
        unsigned n_threads = 4;

        for (unsigned i = 0; i < config->n_sinks; i++)
                n_threads += sink_kind_threads(&config->sinks[i]);
        return n_threads;
}

/* libuv starts its threads at first use and never more. E-mail blocks one thread for each
 * message under way, standard output one, a module as many as it says; no sink may wait for the
 * threads of another. Returns the number of threads. */
static unsigned size_thread_pool(const struct config *config)
{
        const unsigned max_threads = 1024; /* libuv's */
        unsigned long n_threads;
        char text[24];

        snprintf(text, sizeof text, "%u", count_threads(config));
        if (setenv("UV_THREADPOOL_SIZE", text, 0) != 0)
                out_of_memory();
        n_threads = strtoul(getenv("UV_THREADPOOL_SIZE"), NULL, 10);
        return n_threads < max_threads ? (unsigned)n_threads : max_threads;
}

/* How many files are open when everything is busy. A receiver that keeps its connection open
 * between two events takes one more. */
static uint64_t count_files(const struct config *config)
{
        const uint64_t of_our_own = 32;
        uint64_t n_files = of_our_own + (config->admin != NULL ? ADMIN_CONNECTIONS : 0) +
                           (config->portal != NULL ? PORTAL_CONNECTIONS : 0);

        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                if (sink->concurrency > 0)
                        n_files += sink->concurrency;
                else if (sink->http != NULL)
                        n_files += sink->http->receivers == HTTP_RECEIVERS_TABLE
                                       ? HTTP_TABLE_CONCURRENCY_MIN
                                       : HTTP_CONCURRENCY;
                else if (sink->email != NULL)
                        n_files += EMAIL_CONCURRENCY;
                else
                        n_files++;
        }
        return n_files;
}

static void provide_files(const struct config *config)
{
        const uint64_t limit = process_raise_files();
        const uint64_t wanted = count_files(config);

        if (limit < wanted)
                log_warn("few_files", kv_int("limit", limit), kv_int("wanted", wanted),
                    kv_text("hint", "raise the limit of open files (ulimit -Hn, LimitNOFILE=): "
                                    "without that some connections fail when many are busy"));
}

static bool load_modules(const struct config *config, struct error *error)
{
        if (!sink_kinds_load(config, error))
                return false;
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const char *file = sink_module_file(&config->sinks[i]);
                if (file != NULL)
                        log_info("module_loaded", kv_text("sink", config->sinks[i].name),
                            kv_text("file", file),
                            kv_text("kind", sink_kind_of(&config->sinks[i])->kind),
                            kv_text("version", sink_module_find(file)->own->version));
        }
        return true;
}

/* What reloads need to know of the start. */
struct running {
        bool is_level_given; /* on the command line, which goes before the file */
        unsigned n_threads;  /* of the pool, which never grows */
};

static void apply_log(const struct running *running, const struct config *config)
{
        enum log_level level;

        log_set_format(config->log_format);
        if (!running->is_level_given && log_level_find(config->log_level, &level))
                log_set_level(level);
}

static void touch_modules(const struct config *config)
{
        for (unsigned i = 0; i < config->n_sinks; i++) {
                const char *file = sink_module_file(&config->sinks[i]);
                struct stat status;
                char *path;
                if (file == NULL)
                        continue;
                path = xasprintf("%s/%s", sink_module_folder(config->relay.modules), file);
                (void)regular_file_stat(path, &status); /* the load judges it */
                free(path);
        }
}

/* Runs on a thread of its own, so that a folder that does not answer blocks that thread and not
 * the loop. */
static struct config *load_again(
    const char *path, const char *text, size_t length, struct error *error)
{
        struct config *config =
            text != NULL ? config_load_text(path, text, length, error) : config_load(path, error);

        if (config != NULL && dsn_check(config->postgres.dsn, error)) {
                config_keep_served(config);
                touch_modules(config);
                return config;
        }
        config_free(config);
        return NULL;
}

static bool prepare_again(void *owner, const struct config *config, struct error *error)
{
        (void)owner;
        return load_modules(config, error);
}

static void use_name_servers(const struct config *config)
{
        resolve_use_servers(
            (const char *const *)config->relay.dns_servers, config->relay.n_dns_servers);
}

static void apply(void *owner, const struct config *config)
{
        const struct running *running = owner;
        unsigned wanted = count_threads(config);

        apply_log(running, config);
        use_name_servers(config);
        provide_files(config);
        if (wanted > running->n_threads)
                log_warn("few_threads", kv_int("have", running->n_threads),
                    kv_int("wanted", wanted),
                    kv_text("hint", "sinks that block a thread (email, stdout, modules) may wait "
                                    "for each other until the relay is restarted"));
}

static bool prepare(struct running *running, const struct config *config, struct error *error)
{
        apply_log(running, config);
        process_keep_memory_private();
        if (!load_modules(config, error))
                return false;
        provide_files(config);
        running->n_threads = size_thread_pool(config);
        if (!process_check_limits(running->n_threads, error))
                return false;
        use_name_servers(config);
        return process_init_curl() ||
               error_set(error, ERROR_SYSTEM, "libcurl cannot be initialised");
}

static bool run_config(
    struct config *config, const struct arguments *arguments, struct error *error)
{
        struct running running = {.is_level_given = arguments_has(arguments, LOG_LEVEL)};
        const struct relay_options relay_options = {.once = arguments_has(arguments, ONCE),
            .config_path = remedy_config(),
            .load = load_again,
            .prepare = prepare_again,
            .apply = apply,
            .owner = &running};
        bool ok;

        if (!prepare(&running, config, error)) {
                config_free(config);
                return false;
        }
        ok = relay_run(config, &relay_options, error);
        curl_global_cleanup();
        return ok;
}

static bool run_run(const struct arguments *arguments, struct error *error)
{
        const char *level_name = arguments_value(arguments, LOG_LEVEL);
        enum log_level level = LEVEL_INFO;
        struct config *config;

        if (!arguments_has(arguments, CONFIG))
                return error_set(
                    error, ERROR_USAGE, "run needs a configuration: pgcourier run -c FILE");
        if (level_name != NULL && !log_level_find(level_name, &level))
                return error_set(error, ERROR_USAGE,
                    "run: --log-level \"%.64s\" is not one of debug, info, warn, error",
                    level_name);
        log_set_level(level);
        log_fold_repeats();
        signals_hold();
        config = config_load(arguments_value(arguments, CONFIG), error);
        if (config == NULL)
                return false;
        config_keep_served(config);
        return run_config(config, arguments, error);
}

const struct command run_command = {
    .name = "run",
    .summary = "deliver events until SIGTERM or SIGINT",
    .usage = "-c FILE [--once] [--log-level LEVEL]",
    .details =
        "Reads the outbox and delivers its events to the sinks of the configuration. Stays in\n"
        "the foreground and logs to standard error. SIGTERM and SIGINT end it: it finishes\n"
        "what is in flight, settles and exits with 0.\n",
    .options = options,
    .run = run_run,
};

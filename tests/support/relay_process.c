#include "support/relay_process.h"

#include "base/alloc.h"

#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_config(const struct relay_process *relay, const char *format, va_list arguments)
{
        char *config = xvasprintf(format, arguments);

        replace_file(relay->config_path, config);
        free(config);
}

static const char *log_of_last_start(const struct relay_process *relay, char **out_whole)
{
        *out_whole = read_file(relay->log_path);
        return strlen(*out_whole) > (size_t)relay->log_start ? *out_whole + relay->log_start : "";
}

/* Reports go to files: a relay may be killed on purpose, and its exit code alone would not tell. By
 * env(1): threads of the test may read the environment just now. Free it. */
static char *sanitizer_options(const struct relay_process *relay, const char *variable)
{
        const char *set = getenv(variable);

        return xasprintf(
            "%s=%s:log_path=%s/sanitizer", variable, set != NULL ? set : "", relay->folder);
}

static void start_program(struct relay_process *relay)
{
        const char *program = getenv("PGCOURIER");
        char *asan = sanitizer_options(relay, "ASAN_OPTIONS");
        char *ubsan = sanitizer_options(relay, "UBSAN_OPTIONS");
        const char *argv[] = {"env", asan, ubsan, program, "run", "-c", relay->config_path, NULL};
        char *log = read_file(relay->log_path);

        if (program == NULL)
                test_abort(
                    "the environment variable PGCOURIER must name the program; ctest sets it");
        relay->log_start = (long)strlen(log);
        process_start(&relay->process, argv, relay->log_path, false);
        free(log);
        free(ubsan);
        free(asan);
}

static void check_sanitizers(const struct relay_process *relay)
{
        char *pattern = xasprintf("%s/sanitizer.*", relay->folder);
        glob_t reports;

        if (glob(pattern, 0, NULL, &reports) == 0)
                test_abort("%s", read_file(reports.gl_pathv[0]));
        free(pattern);
}

struct relay_process *relay_start(const char *config_format, ...)
{
        struct relay_process *relay = xcalloc(1, sizeof *relay);
        va_list arguments;

        relay->folder = temp_folder();
        relay->config_path = xasprintf("%s/pgcourier.yaml", relay->folder);
        relay->log_path = xasprintf("%s/relay.log", relay->folder);
        va_start(arguments, config_format);
        write_config(relay, config_format, arguments);
        va_end(arguments);
        start_program(relay);
        return relay;
}

void relay_start_again(struct relay_process *relay)
{
        if (relay->process.pid != 0)
                test_abort("relay_start_again: the relay was not stopped");
        start_program(relay);
}

void relay_rewrite(struct relay_process *relay, const char *config_format, ...)
{
        va_list arguments;

        va_start(arguments, config_format);
        write_config(relay, config_format, arguments);
        va_end(arguments);
}

void relay_reload(struct relay_process *relay, const char *config_format, ...)
{
        va_list arguments;

        va_start(arguments, config_format);
        write_config(relay, config_format, arguments);
        va_end(arguments);
        process_signal(&relay->process, SIGHUP);
}

unsigned relay_count_in_log(const struct relay_process *relay, const char *text)
{
        char *whole;
        const char *line = log_of_last_start(relay, &whole);
        unsigned count = 0;

        for (const char *end = strchr(line, '\n'); end != NULL;
             line = end + 1, end = strchr(line, '\n'))
                if (memmem(line, (size_t)(end - line), text, strlen(text)) != NULL)
                        count++;
        free(whole);
        return count;
}

struct awaited_line {
        struct relay_process *relay;
        const char *text;
};

static bool is_in_log(void *context)
{
        struct awaited_line *awaited = context;
        bool ended =
            !process_is_running(&awaited->relay->process); /* asked before the log is read */

        if (relay_count_in_log(awaited->relay, awaited->text) > 0)
                return true;
        if (ended) {
                check_sanitizers(awaited->relay);
                test_abort("the relay ended while a log line was awaited");
        }
        return false;
}

void relay_wait_for_log(struct relay_process *relay, const char *text, int64_t deadline_ms)
{
        struct awaited_line awaited = {.relay = relay, .text = text};
        char *what = xasprintf("'%s' in the relay's log %s", text, relay->log_path);

        wait_until(is_in_log, &awaited, deadline_ms, what);
        free(what);
}

int relay_wait(struct relay_process *relay, int64_t deadline_ms)
{
        int code = process_wait(&relay->process, deadline_ms);

        check_sanitizers(relay);
        return code;
}

void relay_stop(struct relay_process *relay)
{
        int code;

        process_signal(&relay->process, SIGTERM);
        code = relay_wait(relay, 60000);
        if (code != 0)
                test_abort("the relay exited with %d at SIGTERM", code);
}

void relay_kill(struct relay_process *relay)
{
        process_kill(&relay->process);
        check_sanitizers(relay);
}

long relay_rss_kib(const struct relay_process *relay)
{
        char path[64];
        char *status;
        const char *line;
        long kib = 0;

        snprintf(path, sizeof path, "/proc/%d/status", (int)relay->process.pid);
        status = read_file(path);
        line = strstr(status, "VmRSS:");
        if (line == NULL || sscanf(line, "VmRSS: %ld", &kib) != 1)
                test_abort("the relay has no resident memory: does it run?");
        free(status);
        return kib;
}

void relay_destroy(struct relay_process *relay)
{
        if (relay == NULL)
                return;
        relay_kill(relay);
        free(relay->folder);
        free(relay->config_path);
        free(relay->log_path);
        free(relay);
}

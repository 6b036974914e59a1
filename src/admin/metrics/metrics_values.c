#include "admin/metrics/metrics_values.h"

#include "telemetry/telemetry.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* NAN: not known. */
static double number(const json_t *value)
{
        if (json_is_boolean(value))
                return json_is_true(value);
        return json_is_number(value) ? json_number_value(value) : NAN;
}

static double number_at(const json_t *object, const char *const path[2])
{
        const json_t *value = json_object_get(object, path[0]);

        return number(path[1] != NULL ? json_object_get(value, path[1]) : value);
}

double value_seconds(int64_t us)
{
        return us > 0 ? (double)us / 1e6 : NAN;
}

double value_at_source(const struct metrics_source *source, const char *const path[2])
{
        return number_at(json_object_get(source->look, "source"), path);
}

double value_at_sink(const struct metrics_source *source, const struct sink_telemetry *sink,
    const char *const path[2])
{
        return number_at(json_object_get(json_object_get(source->look, "sinks"), sink->name), path);
}

static double at_marks(const struct metrics_source *source, const char *name)
{
        const json_t *marks = json_object_get(source->look, "marks");

        return json_is_null(marks) ? 0 : number(json_object_get(marks, name));
}

double value_marked(const struct metrics_source *source)
{
        return (double)source->telemetry->marks.marked;
}

double value_attempts_lost(const struct metrics_source *source)
{
        return (double)source->telemetry->attempts_lost.n;
}

double value_marks_failed(const struct metrics_source *source)
{
        return (double)source->telemetry->marks.failed;
}

double value_marks_dead(const struct metrics_source *source)
{
        return at_marks(source, "dead");
}

double value_marks_waiting(const struct metrics_source *source)
{
        return at_marks(source, "waiting");
}

double value_marks_lag(const struct metrics_source *source)
{
        return at_marks(source, "oldest_age");
}

double value_is_ready(const struct metrics_source *source)
{
        return source->telemetry->is_ready;
}

double value_is_source_up(const struct metrics_source *source)
{
        return source->telemetry->source.is_up;
}

double value_reconnects(const struct metrics_source *source)
{
        return (double)source->telemetry->source.reconnects;
}

double value_is_reload_ok(const struct metrics_source *source)
{
        return source->telemetry->config.is_last_reload_ok;
}

double value_loaded_at(const struct metrics_source *source)
{
        return value_seconds(source->telemetry->config.loaded_us);
}

double value_oldest_xmin(const struct metrics_source *source)
{
        const json_t *holder =
            json_object_get(json_object_get(source->look, "source"), "oldest_xmin");

        return json_is_null(holder) ? 0 : number(json_object_get(holder, "age")); /* no holder: 0 */
}

double value_foreign_locks(const struct metrics_source *source)
{
        const json_t *list =
            json_object_get(json_object_get(source->look, "source"), "foreign_locks");
        const json_t *holder;
        double n = 0;
        size_t i;

        if (!json_is_array(list))
                return NAN;
        json_array_foreach(list, i, holder) n +=
            json_number_value(json_object_get(holder, "locks"));
        return n;
}

double value_orphans(const struct metrics_source *source)
{
        const json_t *list = json_object_get(source->look, "orphans");

        return json_is_array(list) ? (double)json_array_size(list) : NAN;
}

double value_members(const struct metrics_source *source)
{
        const json_t *list = json_object_get(source->look, "relays");

        return json_is_array(list) ? (double)json_array_size(list) : NAN;
}

double value_cpu(const struct metrics_source *source)
{
        return source->process.cpu_seconds;
}

double value_resident(const struct metrics_source *source)
{
        return source->process.resident_bytes;
}

double value_virtual_memory(const struct metrics_source *source)
{
        return source->process.virtual_bytes;
}

double value_open_fds(const struct metrics_source *source)
{
        return source->process.open_fds;
}

double value_max_fds(const struct metrics_source *source)
{
        return source->process.max_fds;
}

double value_started_at(const struct metrics_source *source)
{
        return value_seconds(source->telemetry->started_us);
}

/* The second field is the program's name in parentheses, which may hold anything. */
static void read_stat(struct process_stats *out)
{
        double ticks = (double)sysconf(_SC_CLK_TCK);
        double pages = (double)sysconf(_SC_PAGESIZE);
        unsigned long long user, system, size;
        long long resident;
        char line[1024];
        const char *rest = NULL;
        FILE *file = fopen("/proc/self/stat", "re");

        if (file == NULL)
                return;
        if (fgets(line, sizeof line, file) != NULL)
                rest = strrchr(line, ')');
        fclose(file);
        if (rest == NULL ||
            sscanf(rest + 1,
                " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d"
                " %*u %llu %lld",
                &user, &system, &size, &resident) != 4)
                return;
        out->cpu_seconds = (double)(user + system) / ticks;
        out->virtual_bytes = (double)size;
        out->resident_bytes = (double)resident * pages;
}

static void read_fds(struct process_stats *out)
{
        DIR *folder = opendir("/proc/self/fd");
        struct rlimit limit;
        int n = 0;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
                out->max_fds = (double)limit.rlim_cur;
        if (folder == NULL)
                return;
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
                n += entry->d_name[0] != '.';
        closedir(folder);
        out->open_fds = n - 1; /* but that of the folder */
}

void process_stats_read(struct process_stats *out)
{
        *out = (struct process_stats){NAN, NAN, NAN, NAN, NAN};
        read_stat(out);
        read_fds(out);
}

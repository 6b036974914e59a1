#include "admin/metrics/process_stats.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

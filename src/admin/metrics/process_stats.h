/* What the kernel says of this process: for the process_* metrics, which every dashboard knows. */
#pragma once

/* Not a number: not known. */
struct process_stats {
        double cpu_seconds;
        double resident_bytes;
        double virtual_bytes;
        double open_fds;
        double max_fds;
};

void process_stats_read(struct process_stats *out);

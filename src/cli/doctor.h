/* The parts of `pgcourier doctor`. */
#pragma once

struct config;
struct report;

/* From now on, until the next call, notes which files with secrets others may read. */
void doctor_watch_secrets(void);

/* The process and its files: who we are, how many files may be open, who may read the
 * configuration and the secrets that were read since doctor_watch_secrets(). */
void doctor_check_host(const char *config_path, const struct config *config, struct report *report);

/* The parts of `pgcourier doctor`. */
#pragma once

struct blocking_conn;
struct config;
struct report;

/* From now on, until the next call, notes which files with secrets others may read. */
void doctor_watch_secrets(void);

/* The process and its files: who we are, how many files may be open, who may read the
 * configuration and the secrets that were read since doctor_watch_secrets(). */
void doctor_check_host(const char *config_path, const struct config *config, struct report *report);

/* When the certificates end that are met on the way to PostgreSQL, and to the sinks; and whether
 * they pass. A server that cannot be reached is left out. */
void doctor_check_session_certificate(struct blocking_conn *conn, struct report *report);
void doctor_check_certificates(const struct config *config, struct report *report);

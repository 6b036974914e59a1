/*
 * Child processes, free ports, temporary folders and awaited conditions for tests that run real
 * servers. Children die with the test process, however it ends. Every failure aborts the test with
 * a message that says what was tried.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
        pid_t pid; /* 0 once it has been waited for */
        char name[64];
};

/*
 * Starts argv[0] (looked up in PATH); argv ends with NULL. Standard output and error go to
 * `output_path` (appended), or nowhere if NULL. When the test runs as root and `unprivileged` is
 * set, the child runs as the user "postgres", as servers do. That user may not be able to read the
 * checkout, in /root or made under umask 077: what is read from there runs as the test does.
 */
void process_start(
    struct process *process, const char *const *argv, const char *output_path, bool unprivileged);

bool process_is_running(struct process *process);

/* After SIGSTOP, waits until all its threads stand still. */
void process_signal(struct process *process, int signal);

/* Waits for the end, at most deadline_ms (then aborts the test). The exit code, or 128 + signal. */
int process_wait(struct process *process, int64_t deadline_ms);

/* SIGTERM (SIGKILL for process_kill), then waits. Nothing if it has already been waited for. */
int process_stop(struct process *process);
void process_kill(struct process *process);

/* What is started from now on has this library first in it (LD_PRELOAD), until NULL. */
void process_preload(const char *library);

/* Runs to the end and returns the exit code; output as in process_start(). */
int process_run(const char *const *argv, const char *output_path, bool unprivileged);

/* A new folder in $TMPDIR or /tmp that "postgres" may use too; removed when the test process ends
 * normally. TMPDIR must be short (unix sockets) and without spaces (conninfo strings). Free it. */
char *temp_folder(void);

/* A TCP port on 127.0.0.1 that was free a moment ago, below the ephemeral range. No other test gets
 * it until this process ends. */
uint16_t free_port(void);

/* Asks `condition(context)` until it is true; aborts the test with `what` after deadline_ms. */
void wait_until(
    bool (*condition)(void *context), void *context, int64_t deadline_ms, const char *what);

/* True if a TCP connection to 127.0.0.1:port is accepted. */
bool port_accepts(uint16_t port);

/* The whole file as text ("" if it does not exist). Free it. */
char *read_file(const char *path);

/* Writes it; a reader sees the old text or the new, never a part. */
void replace_file(const char *path, const char *text);

/* Prints the ends of the logs of the last servers and relays that were started. */
void test_show_logs(void);

/* Aborts the test process with these logs and a message. */
void test_abort(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* One run of the built program (environment variable PGCOURIER) to its end, and what it said. */
#pragma once

struct program_run {
        int code;  /* exit code, or 128 + signal */
        char *out; /* owned */
        char *err; /* owned */
};

/* The words end with NULL. Standard input is /dev/null, or the file at `input_path` if not NULL. */
struct program_run program_run(const char *input_path, ...) __attribute__((sentinel));

void program_run_free(struct program_run *run);

/* A file with these bytes in a temporary folder of the test; free the path. */
char *program_file(const char *name, const void *content, unsigned long n_bytes);

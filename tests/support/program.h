/* One run of the built program (environment variable PGCOURIER) to its end, and what it said. */
#pragma once

#include <stdbool.h>

struct program_run {
        int code;  /* exit code, or 128 + signal */
        char *out; /* owned */
        char *err; /* owned */
};

/* The words end with NULL. Standard input is /dev/null, or the file at `input_path` if not NULL. */
struct program_run program_run(const char *input_path, ...) __attribute__((sentinel));

void program_run_free(struct program_run *run);

/* Whether the words are in the text, wherever that is wrapped: any white space counts as one
 * blank. */
bool program_says(const char *text, const char *words);

/* A file with these bytes in a temporary folder of the test; free the path. */
char *program_file(const char *name, const void *content, unsigned long n_bytes);

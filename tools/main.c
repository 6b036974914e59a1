/* pgcourier-tools: what the build makes of the program's tables. Not installed. */
#include "tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool run(int argc, char **argv, struct error *error)
{
        const char *what = argc > 1 ? argv[1] : "";

        if (argc == 2 && strcmp(what, "manual") == 0)
                return manual_print(error);
        if (argc == 3 && strcmp(what, "completion") == 0)
                return completion_print(argv[2], error);
        if (argc == 2 && strcmp(what, "config-docs") == 0) {
                config_docs_print();
                return true;
        }
        return error_set(error, ERROR_USAGE,
            "usage: pgcourier-tools manual <PAGE.scd | completion bash|zsh|fish | config-docs");
}

int main(int argc, char **argv)
{
        struct error error = {0};

        if (!run(argc, argv, &error)) {
                fprintf(stderr, "pgcourier-tools: %s\n", error.text);
                return error_exit_code(error.kind);
        }
        return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}

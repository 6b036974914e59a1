#include "support/program.h"

#include "base/alloc.h"
#include "support/process.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORDS 32

struct program_run program_run(const char *input_path, ...)
{
        static char *folder; /* for all runs of a test */
        char *out_path;
        char *err_path;
        const char *program = getenv("PGCOURIER");
        const char *argv[MAX_WORDS + 8] = {"sh", "-c",
            "in=$1 err=$2; shift 2; exec \"$@\" <\"$in\" 2>\"$err\"", "sh",
            input_path != NULL ? input_path : "/dev/null", NULL, program};
        struct program_run run;
        int n = 7;
        va_list words;

        if (program == NULL)
                test_abort("PGCOURIER is not set: run this test with ctest");
        if (folder == NULL)
                folder = temp_folder();
        out_path = xasprintf("%s/out", folder);
        err_path = xasprintf("%s/err", folder);
        unlink(out_path); /* of the run before: output is appended */
        argv[5] = err_path;
        va_start(words, input_path);
        for (const char *word; (word = va_arg(words, const char *)) != NULL;) {
                if (n == MAX_WORDS + 7)
                        test_abort("too many words for one command line");
                argv[n++] = word;
        }
        va_end(words);
        run.code = process_run(argv, out_path, false);
        run.out = read_file(out_path);
        run.err = read_file(err_path);
        free(out_path);
        free(err_path);
        return run;
}

void program_run_free(struct program_run *run)
{
        free(run->out);
        free(run->err);
        *run = (struct program_run){0};
}

char *program_file(const char *name, const void *content, unsigned long n_bytes)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/%s", folder, name);
        FILE *file = fopen(path, "wb");

        if (file == NULL || fwrite(content, 1, n_bytes, file) != n_bytes || fclose(file) != 0)
                test_abort("cannot write %s", path);
        free(folder);
        return path;
}

static char *on_one_line(const char *text)
{
        char *line = xstrdup(text), *to = line;

        for (const char *from = text; *from != '\0'; from++)
                if (isspace((unsigned char)*from) == 0)
                        *to++ = *from;
                else if (to > line && to[-1] != ' ')
                        *to++ = ' ';
        *to = '\0';
        return line;
}

bool program_says(const char *text, const char *words)
{
        char *line = on_one_line(text), *wanted = on_one_line(words);
        bool says = strstr(line, wanted) != NULL;

        free(line);
        free(wanted);
        return says;
}

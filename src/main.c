/* The command line → one command → one exit code. */
#include "cli/commands.h"
#include "cli/process.h"
#include "cli/remedy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* If the caller closed one of them, a socket or file of ours would take its number and get the
 * output. */
static bool open_missing_standard_files(void)
{
        for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
                if (fcntl(file, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != file)
                        return false;
        return true;
}

/* Without memory for a buffer glibc uses one of a single byte, and losing output then is no
 * error of the stream. */
static void give_output_a_buffer(void)
{
        static char buffer[BUFSIZ];

        setvbuf(stdout, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
}

/* Lost output is a failure, even if the command succeeded. */
static bool finish_output(struct error *error)
{
        bool failed_before = ferror(stdout) != 0;

        errno = 0;
        if (fflush(stdout) == 0 && !failed_before)
                return true;
        return error_set(error, ERROR_SYSTEM, "cannot write to standard output%s%s",
            errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
}

/* The text may quote a peer or the caller, and must not move the terminal's cursor. */
static void print_error(const struct error *error)
{
        char *text = remedy_complete(error->text);

        for (char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || *at == 0x7f)
                        *at = '?';
        fprintf(stderr, "pgcourier: %s\n", text);
        free(text);
}

int main(int argc, char **argv)
{
        struct error error = {0};
        struct error output_error = {0};

        if (!open_missing_standard_files())
                return EXIT_FAILURE;
        give_output_a_buffer();
        process_share_allocator();
        signal(SIGPIPE, SIG_IGN); /* a closed peer or pipe is an error of that write */

        if (!commands_run(argc, argv, &error))
                print_error(&error);
        if (!finish_output(&output_error))
                print_error(&output_error);
        return error_exit_code(error.kind != ERROR_NONE ? error.kind : output_error.kind);
}

#include "support/terminal.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/process.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS   32
#define DEADLINE_MS 60000

static void type(int terminal, const char *typed)
{
        size_t length = strlen(typed);

        if (write(terminal, typed, length) != (ssize_t)length)
                test_abort("cannot type \"%s\"", typed);
}

/* Reads until the program has closed its end: on Linux that is EIO. */
static void converse(int terminal, const char *prompt, const char *typed, struct bytes *output)
{
        char chunk[4096];

        bytes_append_text(output, "");
        for (;;) {
                struct pollfd readable = {.fd = terminal, .events = POLLIN};
                ssize_t n_read;
                if (poll(&readable, 1, DEADLINE_MS) <= 0)
                        test_abort("the program says nothing more after: %s", output->data);
                n_read = read(terminal, chunk, sizeof chunk);
                if (n_read < 0 && errno == EINTR)
                        continue;
                if (n_read <= 0)
                        return;
                bytes_append(output, chunk, (size_t)n_read);
                if (prompt != NULL && strstr(output->data, prompt) != NULL) {
                        type(terminal, typed);
                        prompt = NULL;
                }
        }
}

struct program_run terminal_run(const char *prompt, const char *typed, ...)
{
        const struct winsize size = {.ws_row = 24, .ws_col = 80};
        const char *argv[MAX_WORDS + 2] = {getenv("PGCOURIER")};
        struct bytes output = {0};
        int n = 1;
        int terminal;
        int status;
        pid_t child;
        va_list words;

        if (argv[0] == NULL)
                test_abort("PGCOURIER is not set: run this test with ctest");
        va_start(words, typed);
        for (const char *word; (word = va_arg(words, const char *)) != NULL;) {
                if (n > MAX_WORDS)
                        test_abort("too many words for one command line");
                argv[n++] = word;
        }
        va_end(words);

        child = forkpty(&terminal, NULL, NULL, &size);
        if (child < 0)
                test_abort("forkpty: %s", strerror(errno));
        if (child == 0) {
                execv(argv[0], (char *const *)(void *)argv);
                _exit(127);
        }
        converse(terminal, prompt, typed, &output);
        close(terminal);
        waitpid(child, &status, 0);
        return (struct program_run){
            .code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            .out = output.data,
            .err = xstrdup(""),
        };
}

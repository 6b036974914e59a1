/* A byte, of which the first bit says whether users stand before commands, then a crontab: each line
 * is a job, is noted, or is nothing; and what is read of a job, written as a line, reads the same. */
#include "cli/schedule/crontab.h"

#include "base/alloc.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"

static int count_words(const char *text)
{
        int n = 0;

        for (text += strspn(text, BLANKS); *text != '\0'; text += strspn(text, BLANKS)) {
                text += strcspn(text, BLANKS);
                n++;
        }
        return n;
}

static unsigned count_lines(const char *text)
{
        unsigned n = 0;

        for (; *text != '\0'; text++)
                n += *text == '\n' || text[1] == '\0';
        return n;
}

/* TIMES [USER] COMMAND, with % as \%. To be freed. */
static char *write_job(const struct crontab_line *job, bool has_users)
{
        size_t length = strlen(job->times) + strlen(" root ") + 2 * strlen(job->command) + 1;
        char *text = xcalloc(length, 1);
        char *to = text + strlen(strcat(strcpy(text, job->times), has_users ? " root " : " "));

        for (const char *from = job->command; *from != '\0'; from++) {
                if (*from == '%')
                        *to++ = '\\';
                *to++ = *from;
        }
        return text;
}

static void check_job(const struct crontab_line *job, bool has_users)
{
        char *text = write_job(job, has_users);
        size_t length = strlen(job->command);
        struct crontab again;
        struct crontab_line line;

        fuzz_require(count_words(job->times) == (*job->times == '@' ? 1 : 5),
            "five fields, or a word with @", job->times);
        fuzz_require(count_words(job->command) > 0, "a job has a command", job->times);
        while (strchr(BLANKS, job->command[length - 1]) != NULL)
                length--;
        crontab_init(&again, text, has_users);
        fuzz_require(crontab_next(&again, &line) && line.times != NULL &&
                         strcmp(line.times, job->times) == 0 &&
                         strncmp(line.command, job->command, length) == 0 &&
                         line.command[length] == '\0' && (line.note != NULL) == has_users,
            "a job that is written is read", text);
        crontab_line_deinit(&line);
        fuzz_require(!crontab_next(&again, &line), "a job is one line", text);
        crontab_deinit(&again);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        bool has_users = (fuzz_take_byte(&input) & 1) != 0;
        char *text = fuzz_take_text(&input);
        struct crontab crontab;
        struct crontab_line line;
        unsigned before = 0;

        crontab_init(&crontab, text, has_users);
        for (; crontab_next(&crontab, &line); before = crontab.number) {
                fuzz_require(crontab.number > before, "no line is read twice", text);
                fuzz_require(
                    line.times != NULL || line.note != NULL, "a line says something", text);
                fuzz_require(
                    (line.times != NULL) == (line.command != NULL), "a job is whole", text);
                if (line.times != NULL)
                        check_job(&line, has_users);
                crontab_line_deinit(&line);
        }
        fuzz_require(crontab.number == count_lines(text), "all lines are read", text);
        crontab_deinit(&crontab);
        free(text);
        return 0;
}

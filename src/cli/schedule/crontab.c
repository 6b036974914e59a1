#include "cli/schedule/crontab.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r"

void crontab_init(struct crontab *crontab, const char *text, bool has_users)
{
        *crontab = (struct crontab){.text = xstrdup(text), .has_users = has_users};
        crontab->rest = crontab->text;
}

void crontab_deinit(struct crontab *crontab)
{
        free(crontab->text);
        free(crontab->time_zone);
}

void crontab_line_deinit(struct crontab_line *line)
{
        free(line->times);
        free(line->command);
        free(line->note);
}

/* The value of NAME = "value", without its quotes; NULL: the line is none. */
static char *environment_value(char *line, size_t *out_name_length)
{
        size_t name_length = strcspn(line, "= \t");
        char *value = line + name_length + strspn(line + name_length, BLANKS);
        size_t length;

        if (*value != '=' || name_length == 0)
                return NULL;
        *out_name_length = name_length;
        value += 1 + strspn(value + 1, BLANKS);
        length = strlen(value);
        if (length >= 2 && (*value == '"' || *value == '\'') && value[length - 1] == *value) {
                value[length - 1] = '\0';
                value++;
        }
        return value;
}

/* Cuts n words off, and returns them as one text; NULL: there are not so many. */
static char *cut_words(char **inout_at, int n)
{
        char *begin = *inout_at;
        char *end = begin;

        for (int i = 0; i < n; i++) {
                end += strspn(end, BLANKS);
                if (*end == '\0')
                        return NULL;
                end += strcspn(end, BLANKS);
        }
        *inout_at = end + strspn(end, BLANKS);
        return xstrndup(begin, (size_t)(end - begin));
}

/* An unescaped % ends the command: what follows would be its input. True: there was one. */
static bool cut_input(char *command)
{
        char *to = command;

        for (const char *from = command; *from != '\0'; from++) {
                if (*from == '%') {
                        *to = '\0';
                        return true;
                }
                if (from[0] == '\\' && from[1] == '%')
                        from++;
                *to++ = *from;
        }
        *to = '\0';
        return false;
}

static void read_job(struct crontab *crontab, char *line, struct crontab_line *out_line)
{
        char *times = cut_words(&line, *line == '@' ? 1 : 5);
        char *user = times != NULL && crontab->has_users ? cut_words(&line, 1) : NULL;

        if (times == NULL || *line == '\0' || *line == '%' || (crontab->has_users && user == NULL))
                out_line->note = xasprintf("no command stands behind the times%s",
                    crontab->has_users ? " and the user" : "");
        else if (strcasecmp(times, "@reboot") == 0)
                out_line->note = xstrdup("@reboot is no time");
        else {
                out_line->command = xstrdup(line);
                if (cut_input(out_line->command))
                        out_line->note = xstrdup("the command's input, behind %, is left out");
                else if (user != NULL)
                        out_line->note = xasprintf("the user %s is left out", user);
                out_line->times = times;
                times = NULL;
        }
        free(user);
        free(times);
}

/* False: the line says nothing that is a job or has to be noted. */
static bool read_line(struct crontab *crontab, char *line, struct crontab_line *out_line)
{
        size_t name_length;
        char *value;

        for (size_t n = strlen(line); n > 0 && strchr(BLANKS, line[n - 1]) != NULL; n--)
                line[n - 1] = '\0';
        line += strspn(line, BLANKS);
        if (*line == '\0' || *line == '#')
                return false;
        value = isalpha((unsigned char)*line) || *line == '_'
                    ? environment_value(line, &name_length)
                    : NULL;
        if (value == NULL) {
                read_job(crontab, line, out_line);
                return true;
        }
        if (name_length == strlen("CRON_TZ") && strncmp(line, "CRON_TZ", name_length) == 0) {
                free(crontab->time_zone);
                crontab->time_zone = xstrdup(value);
                return false;
        }
        out_line->note = xasprintf("the environment's %.*s is left out", (int)name_length, line);
        return true;
}

bool crontab_next(struct crontab *crontab, struct crontab_line *out_line)
{
        *out_line = (struct crontab_line){0};
        while (*crontab->rest != '\0') {
                char *line = crontab->rest;
                size_t length = strcspn(line, "\n");

                crontab->rest = line + length + (line[length] == '\n');
                line[length] = '\0';
                crontab->number++;
                if (read_line(crontab, line, out_line))
                        return true;
        }
        return false;
}

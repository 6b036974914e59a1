#include "cli/input.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "cli/cli.h"
#include "cli/connect.h"
#include "config/units.h"
#include "config/values.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_AGO_MS (INT64_C(36500) * 24 * 60 * 60 * 1000)

bool input_can_ask(void)
{
        return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool input_ask(const char *question)
{
        char *answer = NULL;
        size_t capacity = 0;
        bool is_yes = false;

        fprintf(stderr, "%s? [y/N] ", question);
        if (getline(&answer, &capacity, stdin) > 0) {
                answer[strcspn(answer, "\r\n")] = '\0';
                is_yes = strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
        }
        free(answer);
        return is_yes;
}

bool input_confirm(const struct arguments *arguments, unsigned yes, const char *remedy,
    struct error *error, const char *format, ...)
{
        va_list words;
        char *question;
        bool is_yes = true;

        va_start(words, format);
        question = xvasprintf(format, words);
        va_end(words);
        if (arguments_has(arguments, yes))
                ;
        else if (input_can_ask())
                is_yes =
                    input_ask(question) || error_set(error, ERROR_SYSTEM, "nothing was changed");
        else
                is_yes = error_set(
                    error, ERROR_USAGE, "%s: that would %s; %s", arguments->name, question, remedy);
        free(question);
        return is_yes;
}

static bool read_all(
    int file, const char *name, size_t max_bytes, struct bytes *content, struct error *error)
{
        char chunk[65536];

        for (;;) {
                ssize_t n_read = read(file, chunk, sizeof chunk);
                if (n_read == 0)
                        return true;
                if (n_read < 0 && errno == EINTR)
                        continue;
                if (n_read < 0)
                        return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_SYSTEM,
                            "cannot read %.200s: %s", name, strerror(errno));
                if ((size_t)n_read > max_bytes - content->length)
                        return error_set(error, ERROR_USAGE, "%.200s has more than %zu MiB", name,
                            max_bytes >> 20);
                bytes_append(content, chunk, (size_t)n_read);
        }
}

bool input_read(const char *path, size_t max_bytes, struct bytes *out_content, struct error *error)
{
        bool is_standard_input = strcmp(path, "-") == 0;
        int file = is_standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        struct bytes content = {0};
        bool ok;

        if (file < 0)
                return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_SYSTEM,
                    "cannot open %.200s: %s", path, strerror(errno));
        ok =
            read_all(file, is_standard_input ? "standard input" : path, max_bytes, &content, error);
        if (!is_standard_input)
                close(file);
        if (ok)
                *out_content = content;
        else
                bytes_deinit(&content);
        return ok;
}

bool input_sink_name(const char *name, struct error *error)
{
        const char *fault = check_sink_name(name);

        if (strcmp(name, "courier.marks") == 0)
                return error_set(error, ERROR_USAGE,
                    "courier.marks is no sink: by its cursor relays mark the rows of attached "
                    "tables. It goes with the last attachment that has marks");
        return fault == NULL || error_set(error, ERROR_USAGE, "\"%.64s\" %s", name, fault);
}

bool input_lane(const char *value, int all, int *out_lane, struct error *error)
{
        uint64_t lane;

        *out_lane = all;
        if (value == NULL)
                return true;
        if (!units_parse_integer(value, &lane) || lane > INT_MAX)
                return error_set(
                    error, ERROR_USAGE, "--lane: \"%.64s\" is not the number of a lane", value);
        *out_lane = (int)lane;
        return true;
}

bool input_log_position(
    struct log_position *out_position, const char *option, const char *word, struct error *error)
{
        uint64_t id;

        *out_position = (struct log_position){.ago_ms = -1};
        if (word == NULL)
                return true;
        if (strcmp(word, "beginning") == 0) {
                out_position->id = 1;
                return true;
        }
        if (units_parse_integer(word, &id) && id > 0 && id <= INT64_MAX) {
                out_position->id = (int64_t)id;
                return true;
        }
        if (units_parse_duration(word, &out_position->ago_ms) && out_position->ago_ms <= MAX_AGO_MS)
                return true;
        out_position->ago_ms = -1;
        out_position->time = word;
        /* The server knows times; but what it would take besides (now, infinity) is none here. */
        return isdigit((unsigned char)*word) ||
               error_set(error, ERROR_USAGE,
                   "--%s: \"%.64s\" is not an ID, a time (2026-11-21T08:00Z), how long ago (2h) or "
                   "\"beginning\"",
                   option, word);
}

void input_time_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        if (strncmp(blocking_conn_sqlstate(conn), "2200", 4) == 0)
                error_set(error, ERROR_USAGE, "%s; write it as 2026-11-21T08:00Z",
                    blocking_conn_message(conn));
        else
                command_refused(conn, arguments, error);
}

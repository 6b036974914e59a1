#include "admin/findings/findings.h"
#include "admin/findings/findings_internal.h"
#include "base/bytes.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const json_t *status_get(const json_t *object, const char *name)
{
        return json_object_get(object, name);
}

const char *status_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(status_get(object, name));

        return text != NULL ? text : "";
}

double status_number(const json_t *object, const char *name)
{
        return json_number_value(status_get(object, name));
}

/* RFC 3339 in UTC; in seconds. */
static bool parse_time(const char *text, double *out)
{
        struct tm utc = {0};
        double seconds;
        char zone, end;

        if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%lf%c%c", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                &utc.tm_hour, &utc.tm_min, &seconds, &zone, &end) != 7 ||
            zone != 'Z')
                return false;
        utc.tm_year -= 1900;
        utc.tm_mon--;
        *out = (double)timegm(&utc) + seconds;
        return true;
}

/* 0 if `to` comes first, negative if either is not known. */
static double seconds_between(const char *from, const char *to)
{
        double from_s, to_s;

        if (!parse_time(from, &from_s) || !parse_time(to, &to_s))
                return -1;
        return to_s > from_s ? to_s - from_s : 0;
}

double seconds_since(const struct findings *findings, const char *time)
{
        return seconds_between(time, status_text(findings->status, "now"));
}

double seconds_until(const struct findings *findings, const char *time)
{
        return seconds_between(status_text(findings->status, "now"), time);
}

static void write_pair(
    char *text, size_t size, long long value, const char *unit, long long rest, const char *lesser)
{
        if (rest > 0)
                snprintf(text, size, "%lld %s %lld %s", value, unit, rest, lesser);
        else
                snprintf(text, size, "%lld %s", value, unit);
}

void findings_duration(char *text, size_t size, double seconds)
{
        long long whole = (long long)(seconds + 0.5);

        if (seconds < 9.95)
                snprintf(text, size, "%.1f s", seconds);
        else if (whole < 60)
                snprintf(text, size, "%lld s", whole);
        else if (whole < 3600)
                write_pair(text, size, whole / 60, "min", whole % 60, "s");
        else if (whole < 86400)
                write_pair(text, size, whole / 3600, "h", whole / 60 % 60, "min");
        else
                write_pair(text, size, whole / 86400, "d", whole / 3600 % 24, "h");
}

/* 1,500 */
static void write_grouped(char *text, size_t size, double n)
{
        char digits[32];
        int n_digits = snprintf(digits, sizeof digits, "%.0f", n);
        size_t length = 0;

        for (int i = 0; i < n_digits && length + 2 < size; i++) {
                if (i > 0 && (n_digits - i) % 3 == 0)
                        text[length++] = ',';
                text[length++] = digits[i];
        }
        text[length] = '\0';
}

struct counted words_counted(double n, const char *one, const char *many)
{
        struct counted counted;
        char number[48];

        write_grouped(number, sizeof number, n);
        snprintf(counted.text, sizeof counted.text, "%s %s", number, n == 1 ? one : many);
        return counted;
}

void waiting_append(struct bytes *text, const json_t *sink)
{
        const json_t *backlog = status_get(sink, "backlog");
        double n = status_number(backlog, "events");
        double n_parked = status_number(sink, "retrying") + status_number(sink, "unfinished") +
                          status_number(sink, "blocked");
        double oldest_s = status_number(backlog, "oldest_age");
        struct bytes words = {0};
        char age[48];

        if (!json_is_object(backlog)) {
                sentence_append(text, "Its events wait");
                return;
        }
        if (n + n_parked == 0) {
                sentence_append(text, "Nothing waits");
                return;
        }
        if (n > 0)
                bytes_printf(&words, "%s%s",
                    json_is_true(status_get(backlog, "is_exact")) ? "" : "About ",
                    words_counted(n, "event", "events").text);
        if (n_parked > 0)
                bytes_printf(&words, "%s%s", n > 0 ? " and " : "",
                    words_counted(n_parked, "parked delivery", "parked deliveries").text);
        bytes_printf(&words, " wait%s", n + n_parked == 1 ? "s" : "");
        if (oldest_s > 0) {
                findings_duration(age, sizeof age, oldest_s);
                bytes_printf(&words, ", the oldest for %s", age);
        }
        sentence_append(text, "%s", words.data);
        bytes_deinit(&words);
}

int text_up_to(const char *text, int max)
{
        int length = (int)strnlen(text, (size_t)max + 1);

        if (length <= max)
                return length;
        while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
                max--;
        return max;
}

void sentence_append(struct bytes *text, const char *format, ...)
{
        size_t before = text->length;
        char words[512];
        va_list arguments;
        size_t length;

        va_start(arguments, format);
        vsnprintf(words, sizeof words, format, arguments);
        va_end(arguments);
        length = (size_t)text_up_to(words, sizeof words - 8);
        if (length == 0)
                return;
        if (before > 0)
                bytes_append_text(text, " ");
        bytes_append(text, words, length);
        if (strchr(".!?", words[length - 1]) == NULL)
                bytes_append_text(text, ".");
}

static void append_file(struct bytes *command, const char *file)
{
        if (*file == '\0')
                return;
        bytes_append_shell_word(command, "-c");
        bytes_append_shell_word(command, file);
}

static const char *file_of(const struct findings *findings)
{
        return status_text(status_get(findings->status, "config"), "file");
}

static void psql_option(struct bytes *command, const char *option, const char *value)
{
        if (*value == '\0')
                return;
        bytes_append_shell_word(command, option);
        bytes_append_shell_word(command, value);
}

void psql_append(struct findings *findings, struct bytes *command, const char *sql)
{
        const json_t *source = status_get(findings->status, "source");
        const json_t *port = status_get(source, "port");
        char number[24] = "";

        if (json_is_integer(port))
                snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(port));
        bytes_append_shell_word(command, "psql");
        psql_option(command, "-h", status_text(source, "address"));
        psql_option(command, "-p", number);
        psql_option(command, "-d", status_text(source, "database"));
        psql_option(command, "-c", sql);
}

void command_append(struct findings *findings, struct bytes *command, ...)
{
        va_list words;
        const char *word;

        bytes_append_shell_word(command, "pgcourier");
        va_start(words, command);
        while ((word = va_arg(words, const char *)) != NULL)
                bytes_append_shell_word(command, word);
        va_end(words);
        append_file(command, file_of(findings));
}

const char *findings_level_name(enum findings_level level)
{
        static const char *const names[N_ATTENTION_LEVELS] = {"error", "warning", "note"};

        return names[level];
}

struct finding finding_of(enum findings_level level, const char *kind, const char *sink)
{
        return (struct finding){.kind = kind, .level = level, .sink = sink, .lasts_s = -1};
}

static const char *action_name(enum findings_action action)
{
        switch (action) {
        case ACTION_NONE:
                return NULL;
        case ACTION_RESUME:
                return "resume";
        case ACTION_DEAD:
                return "dead";
        case ACTION_BLOCKED:
                return "blocked";
        case ACTION_RELOAD:
                return "reload";
        }
        return NULL;
}

/* To the millisecond: more is noise of the sum. */
void findings_append_numbers(struct bytes *text, const json_t *numbers)
{
        size_t n = json_array_size(numbers);

        for (size_t i = 0, end; i < n; i = end) {
                json_int_t first = json_integer_value(json_array_get(numbers, i));

                for (end = i + 1; end < n; end++)
                        if (json_integer_value(json_array_get(numbers, end)) !=
                            first + (json_int_t)(end - i))
                                break;
                bytes_printf(text, "%s%" JSON_INTEGER_FORMAT, i > 0 ? ", " : "", first);
                if (end - i > 1)
                        bytes_printf(text, "%s%" JSON_INTEGER_FORMAT, end - i > 2 ? " to " : ", ",
                            first + (json_int_t)(end - i) - 1);
        }
}

void findings_append_owners(struct bytes *text, const json_t *shards)
{
        const json_t *owner;
        size_t i;

        json_array_foreach(status_get(shards, "owners"), i, owner)
        {
                const char *relay = status_text(owner, "relay");

                bytes_printf(text, "%s", i > 0 ? "; " : "");
                if (*relay != '\0')
                        bytes_printf(text, "%s: ", relay);
                else
                        bytes_printf(
                            text, "process %.0f of the database: ", status_number(owner, "pid"));
                findings_append_numbers(text, status_get(owner, "shards"));
        }
}

static json_t *lasts_of(const struct finding *finding)
{
        if (finding->lasts_s < 0)
                return json_null();
        return json_real((double)(long long)(finding->lasts_s * 1000 + 0.5) / 1000);
}

static json_t *action_of(const struct finding *finding)
{
        const char *name = action_name(finding->action);

        if (name == NULL)
                return json_null();
        return finding->sink != NULL ? json_pack("{s:s s:s}", "kind", name, "sink", finding->sink)
                                     : json_pack("{s:s}", "kind", name);
}

static const char *words_of(const struct bytes *text)
{
        return text->length > 0 ? text->data : "";
}

void findings_add(struct findings *findings, struct finding *finding)
{
        struct bytes id = {0};

        bytes_printf(&id, "%s%s%s", finding->kind, finding->sink != NULL ? ":" : "",
            finding->sink != NULL ? finding->sink : "");
        json_array_append_new(findings->list,
            json_pack("{s:s s:s s:s? s:s s:o s:s s:s s:s? s:o}", "id", id.data, "level",
                findings_level_name(finding->level), "sink", finding->sink, "title",
                words_of(&finding->title), "lasts", lasts_of(finding), "why",
                words_of(&finding->why), "remedy", words_of(&finding->remedy), "command",
                finding->command.data, "action", action_of(finding)));
        bytes_deinit(&id);
        bytes_deinit(&finding->title);
        bytes_deinit(&finding->why);
        bytes_deinit(&finding->remedy);
        bytes_deinit(&finding->command);
}

#include "log/log.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "log/log_fold.h"
#include "log/log_render.h"

#include <string.h>
#include <unistd.h>

/* One thread logs. */
static enum log_level configured = LEVEL_INFO;
static enum log_level lowest = LEVEL_INFO;
static enum log_format format = LOG_LOGFMT;
static bool is_folding;
static struct log_fold fold;

bool log_level_find(const char *name, enum log_level *out_level)
{
        for (int i = LEVEL_DEBUG; i <= LEVEL_ERROR; i++)
                if (strcmp(log_level_name((enum log_level)i), name) == 0) {
                        *out_level = (enum log_level)i;
                        return true;
                }
        return false;
}

void log_set_level(enum log_level level)
{
        configured = level;
        lowest = level;
}

void log_override_level(enum log_level level)
{
        if (level != lowest)
                log_emit(LEVEL_WARN, "log_level",
                    (const struct log_field[]){kv_text("from", log_level_name(lowest)),
                        kv_text("to", log_level_name(level)), {.name = NULL}});
        lowest = level;
}

void log_say_more(void)
{
        log_override_level(lowest > LEVEL_DEBUG ? lowest - 1 : LEVEL_DEBUG);
}

void log_say_as_configured(void)
{
        log_override_level(configured);
}

void log_set_format(enum log_format wanted)
{
        format = wanted;
}

bool log_enabled(enum log_level level)
{
        return level >= lowest;
}

static void write_line(
    enum log_level level, const char *event, const struct log_field *fields, int64_t now_us)
{
        static struct bytes line; /* kept between calls */
        char time[LOG_TIME_SIZE];

        bytes_clear(&line);
        log_time_text(time, now_us);
        if (format == LOG_JSON)
                log_render_json(&line, time, level, event, fields);
        else
                log_render_logfmt(&line, time, level, event, fields);

        /* One write per line keeps lines whole when several processes share a terminal. A log that
         * cannot be written has nowhere to say so. */
        ssize_t written = write(STDERR_FILENO, line.data, line.length);
        (void)written;
}

static void tell_over(int64_t now_us, bool is_end)
{
        const struct log_matter *matter;
        char first[LOG_TIME_SIZE], last[LOG_TIME_SIZE];

        while ((matter = log_fold_next_over(&fold, now_us, is_end)) != NULL) {
                log_time_text(first, matter->first_us);
                log_time_text(last, matter->last_us);
                write_line((enum log_level)matter->level, matter->event,
                    (const struct log_field[]){
                        kv_text("sink", *matter->sink != '\0' ? matter->sink : NULL),
                        kv_text("reason", *matter->reason != '\0' ? matter->reason : NULL),
                        kv_int("repeated", matter->n_folded), kv_text("first", first),
                        kv_text("last", last), {.name = NULL}},
                    now_us);
        }
}

void log_fold_repeats(void)
{
        is_folding = true;
}

void log_tell_repeats(bool is_end)
{
        if (is_folding)
                tell_over(clock_wall_us(), is_end);
}

static const char *text_of(const struct log_field *fields, const char *name)
{
        for (; fields->name != NULL; fields++)
                if (fields->kind == FIELD_TEXT && strcmp(fields->name, name) == 0)
                        return fields->text;
        return NULL;
}

/* Each dead letter is news, whatever it died of. */
static bool may_be_folded(enum log_level level, const char *event)
{
        return is_folding && level >= LEVEL_WARN && strcmp(event, "dead_letter") != 0;
}

void log_emit(enum log_level level, const char *event, const struct log_field *fields)
{
        int64_t now_us = clock_wall_us();

        if (may_be_folded(level, event)) {
                const char *reason = text_of(fields, "reason");
                if (reason == NULL)
                        reason = text_of(fields, "error");
                tell_over(now_us, false);
                if (!log_fold_passes(&fold, level, event, text_of(fields, "sink"), reason, now_us))
                        return;
        }
        write_line(level, event, fields, now_us);
}

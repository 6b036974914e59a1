#include "relay/reload_log.h"

#include "log/log.h"

#include <stdlib.h>
#include <string.h>

/* "FILE:LINE:COLUMN: …" → LINE; NULL: it does not begin like that. */
static const char *line_of(const char *text, const char *path, char *out_line, size_t size)
{
        size_t length = strlen(path);
        size_t n_digits;

        if (strncmp(text, path, length) != 0 || text[length] != ':')
                return NULL;
        text += length + 1;
        n_digits = strspn(text, "0123456789");
        if (n_digits == 0 || n_digits >= size)
                return NULL;
        memcpy(out_line, text, n_digits);
        out_line[n_digits] = '\0';
        return out_line;
}

void reload_log_failure(const struct error *error, const char *path)
{
        char line[16];

        log_error("reload_failed", kv_text("error", error->text), kv_text("file", path),
            kv_text("line", line_of(error->text, path, line, sizeof line)),
            kv_text("consequence", "the configuration stays as it was"));
}

void reload_log_sinks(
    const struct reload_plan *plan, const struct config *old, const struct config *new)
{
        for (unsigned i = 0; i < new->n_sinks; i++)
                if (plan->changes[i] == SINK_ADDED)
                        log_info("sink_added", kv_text("sink", new->sinks[i].name));
                else if (plan->changes[i] == SINK_CHANGED)
                        log_info("sink_changed", kv_text("sink", new->sinks[i].name));
        for (unsigned i = 0; i < old->n_sinks; i++)
                if (plan->is_removed[i])
                        log_warn("sink_removed", kv_text("sink", old->sinks[i].name),
                            kv_text("hint", "its cursor stays, and the events behind it are kept "
                                            "for it, until `pgcourier cursor drop` removes it"));
}

void reload_log_success(const struct reload_result *result, int64_t took_us)
{
        log_info("reloaded", kv_text("added", result->added), kv_text("changed", result->changed),
            kv_text("removed", result->removed), kv_int("unchanged", result->n_unchanged),
            kv_text("session", result->is_reopened ? "reopened" : "kept"),
            kv_ms("took_ms", (double)took_us / 1000));
}

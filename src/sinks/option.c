/* What modules call to read their options, and to say what is wrong with them. */
#include "pgcourier/option.h"

#include "base/bytes.h"
#include "base/error.h"
#include "config/suggest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct sink_option *sink_options_find(const struct sink_options *options, const char *name)
{
        for (size_t i = 0; i < options->n_options; i++)
                if (strcmp(options->options[i].name, name) == 0)
                        return &options->options[i];
        return NULL;
}

static bool is_among(const char *name, const char *const *names)
{
        for (; *names != NULL; names++)
                if (strcmp(*names, name) == 0)
                        return true;
        return false;
}

static void refuse_unknown(
    struct error *error, const struct sink_option *option, const char *const *names)
{
        struct bytes allowed = {0};
        const char *nearest = NULL;

        for (size_t i = 0; names[i] != NULL; i++) {
                bytes_printf(&allowed, "%s%s", i > 0 ? ", " : "", names[i]);
                nearest = suggest_nearer(option->name, nearest, names[i]);
        }
        if (nearest != NULL)
                sink_option_refused(error, option,
                    "is not a known option; did you mean %s? allowed: %s", nearest, allowed.data);
        else
                sink_option_refused(error, option, "is not a known option; allowed: %s",
                    allowed.data != NULL ? allowed.data : "none");
        bytes_deinit(&allowed);
}

bool sink_options_know(
    const struct sink_options *options, const char *const *names, struct error *error)
{
        for (size_t i = 0; i < options->n_options; i++) {
                if (is_among(options->options[i].name, names))
                        continue;
                refuse_unknown(error, &options->options[i], names);
                return false;
        }
        return true;
}

bool sink_options_flag(
    const struct sink_options *options, const char *name, bool *out_flag, struct error *error)
{
        const struct sink_option *option = sink_options_find(options, name);

        if (option == NULL)
                return true;
        if (strcmp(option->value, "true") == 0)
                *out_flag = true;
        else if (strcmp(option->value, "false") == 0)
                *out_flag = false;
        else
                return sink_option_refused(error, option, "is neither true nor false") != NULL;
        return true;
}

void *sink_option_refused(
    struct error *error, const struct sink_option *option, const char *format, ...)
{
        char reason[sizeof error->text];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(reason, sizeof reason, format, arguments);
        va_end(arguments);
        return sink_open_failed(error, "%s: %s", option->where, reason);
}

void *sink_option_missing(
    struct error *error, const struct sink_options *options, const char *name, const char *reason)
{
        return sink_open_failed(error, "%s: %s is required: %s", options->where, name, reason);
}

void *sink_open_failed(struct error *error, const char *format, ...)
{
        va_list arguments;

        error->kind = ERROR_CONFIG;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        return NULL;
}

#include "cli/bulk.h"

#include "cli/connect.h"
#include "cli/input.h"
#include "config/suggest.h"
#include "config/units.h"
#include "config/values.h"
#include "text/topic_pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_AGE_MS (INT64_C(36500) * 24 * 60 * 60 * 1000)

bool bulk_parse_id(const char *word, int64_t *out_id, struct error *error)
{
        uint64_t id;

        if (!units_parse_integer(word, &id) || id == 0 || id > INT64_MAX)
                return error_set(
                    error, ERROR_USAGE, "\"%.64s\" is not an ID: a whole number", word);
        *out_id = (int64_t)id;
        return true;
}

static bool read_ids(struct bulk *bulk, struct error *error)
{
        for (unsigned i = 0; i < bulk->arguments->n_operands; i++) {
                int64_t id;
                if (!bulk_parse_id(bulk->arguments->operands[i], &id, error))
                        return false;
                bytes_printf(&bulk->ids, "%s%" PRId64, i > 0 ? "," : "{", id);
        }
        if (bulk->ids.length > 0)
                bytes_append_text(&bulk->ids, "}");
        bulk->selection.ids = bulk->ids.data;
        return true;
}

static bool read_age(
    const struct bulk *bulk, unsigned option, int64_t *out_age_ms, struct error *error)
{
        const char *value = arguments_value(bulk->arguments, option);

        if (value == NULL) {
                *out_age_ms = -1;
                return true;
        }
        if (!units_parse_duration(value, out_age_ms))
                return error_set(error, ERROR_USAGE, "--%s: \"%.64s\" is not " UNITS_DURATION,
                    bulk->arguments->command->options[option].name, value);
        return *out_age_ms <= MAX_AGE_MS ||
               error_set(error, ERROR_USAGE, "--%s: \"%.64s\" is more than 36500d",
                   bulk->arguments->command->options[option].name, value);
}

static bool read_limit(struct bulk *bulk, struct error *error)
{
        const char *value = arguments_value(bulk->arguments, BULK_LIMIT);
        uint64_t limit;

        if (value == NULL)
                return true;
        if (!units_parse_integer(value, &limit) || limit == 0 || limit > INT64_MAX)
                return error_set(
                    error, ERROR_USAGE, "--limit: \"%.64s\" is not a whole number above 0", value);
        bulk->selection.limit = (int64_t)limit;
        return true;
}

static bool read_word(struct bulk *bulk, struct error *error)
{
        const char *const *words = bulk->subject->words;
        const char *option = bulk->arguments->command->options[BULK_WORD].name;
        const char *value = arguments_value(bulk->arguments, BULK_WORD);
        const char *meant = NULL;
        struct bytes text = {0};

        bulk->selection.word = value;
        if (value == NULL)
                return true;
        for (const char *const *word = words; *word != NULL; word++) {
                if (strcmp(value, *word) == 0)
                        return true;
                meant = suggest_nearer(value, meant, *word);
        }
        bytes_printf(&text, "--%s: \"%.64s\" is not one of ", option, value);
        for (const char *const *word = words; *word != NULL; word++)
                bytes_printf(&text, "%s%s", word == words ? "" : ", ", *word);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"%s\"?", meant);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool read_filters(struct bulk *bulk, struct error *error)
{
        const char *fault = NULL;

        bulk->selection.sink = arguments_value(bulk->arguments, BULK_SINK);
        bulk->selection.receiver = arguments_value(bulk->arguments, BULK_RECEIVER);
        bulk->selection.topic = arguments_value(bulk->arguments, BULK_TOPIC);
        bulk->selection.key = arguments_value(bulk->arguments, BULK_KEY);
        if (bulk->selection.topic != NULL)
                fault = *bulk->selection.topic == '!'
                            ? "excludes topics; only lists in the configuration may do that"
                            : topic_pattern_check(bulk->selection.topic);
        if (fault != NULL)
                return error_set(
                    error, ERROR_USAGE, "--topic: \"%.64s\" %s", bulk->selection.topic, fault);
        for (unsigned i = BULK_SINK; i <= BULK_KEY; i++) {
                const char *value = arguments_value(bulk->arguments, i);
                if (value != NULL && *value == '\0')
                        return error_set(error, ERROR_USAGE,
                            "--%s is empty, which matches nothing: leave it out for all",
                            bulk->arguments->command->options[i].name);
        }
        for (unsigned i = BULK_SINK; i <= BULK_NEWER_THAN; i++)
                bulk->has_filter |= arguments_has(bulk->arguments, i);
        return read_age(bulk, BULK_OLDER_THAN, &bulk->selection.older_than_ms, error) &&
               read_age(bulk, BULK_NEWER_THAN, &bulk->selection.newer_than_ms, error) &&
               read_limit(bulk, error);
}

/* A change names its rows, even if by --all. */
static bool check_aim(const struct bulk *bulk, struct error *error)
{
        bool is_aimed = bulk->has_filter || bulk->selection.ids != NULL;
        const char *command = bulk->arguments->name;

        if (is_aimed == !arguments_has(bulk->arguments, BULK_ALL))
                return true;
        if (is_aimed)
                return error_set(error, ERROR_USAGE,
                    "%s: --all cannot be combined with IDs or filters", command);
        return error_set(error, ERROR_USAGE,
            "%s: which %s? Give IDs, filters such as --sink NAME, or --all", command,
            bulk->subject->nouns);
}

static bool run(struct bulk *bulk, bool is_change, bulk_step_fn *step, struct error *error)
{
        struct blocking_conn *conn;

        if (!read_ids(bulk, error) || !read_filters(bulk, error) || !read_word(bulk, error) ||
            (is_change && !check_aim(bulk, error)))
                return false;
        conn = command_connect(bulk->arguments, error);
        return conn != NULL && step(conn, bulk, error);
}

bool bulk_read_rows(const struct arguments *arguments, const struct bulk_subject *subject,
    bulk_step_fn *step, struct error *error)
{
        struct bulk bulk = {.arguments = arguments, .subject = subject};
        bool ok = run(&bulk, false, step, error);

        bytes_deinit(&bulk.ids);
        return ok;
}

bool bulk_change_rows(const struct arguments *arguments, const struct bulk_subject *subject,
    bulk_step_fn *step, struct error *error)
{
        struct bulk bulk = {.arguments = arguments, .subject = subject};
        bool ok = run(&bulk, true, step, error);

        bytes_deinit(&bulk.ids);
        return ok;
}

static const char *noun(const struct bulk *bulk, int64_t n)
{
        return n == 1 ? bulk->subject->noun : bulk->subject->nouns;
}

bool bulk_confirm(const struct bulk *bulk, int64_t n, struct error *error)
{
        return bulk->selection.ids != NULL ||
               input_confirm(bulk->arguments, BULK_YES, "add --yes, or --dry-run to only count",
                   error, "%s %" PRId64 " %s", bulk->arguments->command->name, n, noun(bulk, n));
}

void bulk_print_result(const struct bulk *bulk, int64_t n_matched, const char *done, int64_t n_done,
    const char *sentence)
{
        bool is_dry_run = arguments_has(bulk->arguments, BULK_DRY_RUN);

        if (arguments_has(bulk->arguments, BULK_JSON))
                printf("{\"matched\":%" PRId64 ",\"%s\":%" PRId64 ",\"dry_run\":%s}\n", n_matched,
                    done, is_dry_run ? 0 : n_done, is_dry_run ? "true" : "false");
        else if (is_dry_run)
                printf("%" PRId64 " %s would be %s\n", n_matched, noun(bulk, n_matched), done);
        else if (n_matched > 0)
                printf("%" PRId64 " %s %s\n", n_done, noun(bulk, n_done), sentence);
}

bool bulk_found_none(const struct bulk *bulk, struct error *error)
{
        bool is_any = !bulk->has_filter && bulk->selection.ids == NULL;

        if (arguments_has(bulk->arguments, BULK_FAIL_EMPTY))
                return error_set(error, ERROR_EMPTY, "%s %s%s", is_any ? "there is no" : "no",
                    bulk->subject->noun, is_any ? "" : " matches");
        fprintf(stderr, "%s %s%s\n", is_any ? "there is no" : "no", bulk->subject->noun,
            is_any ? "" : " matches");
        return true;
}

bool bulk_check_missing(const struct bulk *bulk, const char *missing, struct error *error)
{
        if (*missing == '\0')
                return true;
        return error_set(error, ERROR_EMPTY, "no %s %s the ID %s", bulk->subject->noun,
            bulk->has_filter ? "that the filters let through has" : "has", missing);
}

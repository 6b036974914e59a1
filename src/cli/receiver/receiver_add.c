/*
 * `pgcourier receiver add` and `set`. The table checks every rule, and the sink checks its
 * own; this file reads the forms of the command line: lists, numbers, headers.
 */
#include "base/alloc.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/receiver/receiver_common.h"
#include "cli/receiver/receiver_delivery.h"
#include "cli/table.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/suggest.h"
#include "config/units.h"
#include "config/values.h"
#include "operator/receiver_rows.h"
#include "operator/sink_rows.h"
#include "pg/array_literal.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        SINK,
        URL,
        TOPICS,
        TYPES,
        FILTER,
        HEADER,
        CONCURRENCY,
        RATE,
        BURST,
        DESCRIPTION,
        SECRET_FILE,
        START,
        JSON
};

static const struct command_option options[] = {
    [SINK] = RECEIVER_OPTION_SINK,
    [URL] = {"url", 0, "URL", false, "where its events are posted to"},
    [TOPICS] = {"topics", 0, "A,B", true,
        "patterns: * is any characters up to the next\ndot, ** any at all, ! excludes;\n"
        "default: **,!courier.**"},
    [TYPES] = {"types", 0, "A,B", true, "the same for types; default: any"},
    [FILTER] = {"filter", 0, "JSONPATH", false,
        "a predicate that the payload must meet:\n'$.total > 100'"},
    [HEADER] = {"header", 0, "'NAME: VALUE'", true, "send this along; may be given several times"},
    [CONCURRENCY] = {"concurrency", 0, "N", false,
        "requests under way at the same time; default: 8"},
    [RATE] = {"rate", 0, "N", false, "events a second; default: 0, unlimited"},
    [BURST] = {"burst", 0, "N", false,
        "events that may go at once within the rate;\ndefault: those of one second"},
    [DESCRIPTION] = {"description", 0, "TEXT", false, "for people"},
    [SECRET_FILE] = RECEIVER_OPTION_SECRET_FILE,
    [START] = {"start", 0, "now|beginning", false,
        "beginning: also events that are in the outbox already;\n"
        "default: now, only events published from now on"},
    [JSON] = OPTION_JSON,
    {0},
};

struct addition {
        const struct arguments *arguments;
        bool is_change; /* set: what is not given stays, what is empty goes */
        const char *values[RECEIVER_N_FIELDS];
        const struct sink_config *sink; /* NULL without a configuration */
        struct config *config;
        char *secret; /* NULL: the table makes one */
        struct array_literal topics;
        struct array_literal types;
        json_t *headers;
        char *headers_text;
};

/* "a, b": each becomes an element of its own. */
static bool add_patterns(
    struct array_literal *array, const char *option, const char *list, struct error *error)
{
        while (true) {
                size_t length;
                char *pattern;
                list += strspn(list, " ");
                length = strcspn(list, ",");
                if (length == 0)
                        return error_set(error, ERROR_USAGE,
                            "--%s: there is an empty pattern; write them as 'a.*,b.**'", option);
                pattern = xstrndup(list, length);
                array_add_text(array, pattern);
                free(pattern);
                if (list[length] == '\0')
                        return true;
                list += length + 1;
        }
}

static bool read_patterns(struct addition *addition, unsigned option, enum receiver_field field,
    struct array_literal *array, struct error *error)
{
        const char *list;
        unsigned at = 0;

        if (!arguments_has(addition->arguments, option))
                return true;
        if (addition->is_change && field == RECEIVER_TYPES &&
            *arguments_value(addition->arguments, option) == '\0') {
                addition->values[field] = "{}"; /* any */
                return true;
        }
        while ((list = arguments_next(addition->arguments, option, &at)) != NULL)
                if (!add_patterns(array, options[option].name, list, error))
                        return false;
        addition->values[field] = array_end(array);
        return true;
}

static bool is_given_already(json_t *headers, const char *name)
{
        const char *other;
        json_t *value;

        json_object_foreach(headers, other, value) if (strcasecmp(other, name) == 0) return true;
        return false;
}

/* `removes`: a name without a value stands for null. */
static bool add_header(json_t *headers, const char *line, bool removes, struct error *error)
{
        const char *colon = strchr(line, ':');
        const char *fault;
        char *name;
        const char *value;
        bool ok = true;

        if (colon == NULL)
                return error_set(
                    error, ERROR_USAGE, "--header: \"%.64s\" is not 'NAME: VALUE'", line);
        value = colon + 1 + strspn(colon + 1, " ");
        name = xstrndup(line, (size_t)(colon - line));
        fault = check_header_name(name);
        if (fault != NULL)
                ok = error_set(error, ERROR_USAGE, "--header: \"%.64s\" %s", name, fault);
        else if (is_given_already(headers, name))
                ok = error_set(error, ERROR_USAGE, "--header: %.64s is given twice", name);
        else if (json_object_set_new(headers, name,
                     removes && *value == '\0' ? json_null() : json_string(value)) != 0)
                ok = error_set(
                    error, ERROR_USAGE, "--header: the value of %.64s is not valid UTF-8", name);
        free(name);
        return ok;
}

static bool read_headers(struct addition *addition, struct error *error)
{
        const struct arguments *arguments = addition->arguments;
        const char *line;
        unsigned at = 0;

        if (!arguments_has(arguments, HEADER))
                return true;
        addition->headers = json_object();
        while ((line = arguments_next(arguments, HEADER, &at)) != NULL)
                if (!add_header(addition->headers, line, addition->is_change, error))
                        return false;
        addition->headers_text = json_dumps(addition->headers, JSON_COMPACT);
        addition->values[RECEIVER_HEADERS] = addition->headers_text;
        return true;
}

static bool read_numbers(struct addition *addition, struct error *error)
{
        const struct arguments *arguments = addition->arguments;
        const char *concurrency = arguments_value(arguments, CONCURRENCY);
        const char *rate = arguments_value(arguments, RATE);
        const char *burst = arguments_value(arguments, BURST);
        uint64_t whole;
        double number;

        if (concurrency != NULL && !units_parse_integer(concurrency, &whole))
                return error_set(error, ERROR_USAGE,
                    "--concurrency: \"%.64s\" is not a whole number from 1 to 1024", concurrency);
        if (rate != NULL && !units_parse_number(rate, &number))
                return error_set(error, ERROR_USAGE,
                    "--rate: \"%.64s\" is not a number of events a second, such as 50 or 0.5",
                    rate);
        if (burst != NULL && !units_parse_integer(burst, &whole))
                return error_set(error, ERROR_USAGE,
                    "--burst: \"%.64s\" is not a whole number of events", burst);
        addition->values[RECEIVER_CONCURRENCY] = concurrency;
        addition->values[RECEIVER_RATE] = rate;
        addition->values[RECEIVER_BURST] = burst;
        return true;
}

/* An empty value would be stored as text, so it is refused. */
static bool read_texts(struct addition *addition, struct error *error)
{
        static const struct {
                unsigned option;
                enum receiver_field field;
        } texts[] = {{URL, RECEIVER_URL}, {DESCRIPTION, RECEIVER_DESCRIPTION},
            {FILTER, RECEIVER_FILTER}, {START, RECEIVER_START}};
        const struct arguments *arguments = addition->arguments;

        addition->values[RECEIVER_NAME] = arguments->operands[0];
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                const char *value = arguments_value(arguments, texts[i].option);
                bool may_go = addition->is_change && texts[i].option != URL;

                if (value != NULL && *value == '\0' && !may_go)
                        return error_set(
                            error, ERROR_USAGE, "--%s is empty", options[texts[i].option].name);
                addition->values[texts[i].field] = value;
        }
        return addition->is_change || addition->values[RECEIVER_URL] != NULL ||
               error_set(
                   error, ERROR_USAGE, "receiver add needs a URL: add --url https://HOST/PATH");
}

static bool read_sink(struct addition *addition, struct error *error)
{
        const char *path = addition->arguments->config_path;
        const char *name = arguments_value(addition->arguments, SINK);

        if (name != NULL && !input_sink_name(name, error))
                return false;
        if (path == NULL && name == NULL)
                return error_set(error, ERROR_USAGE,
                    "receiver add needs a sink: add --sink NAME, or -c FILE with the relay's "
                    "configuration");
        addition->values[RECEIVER_SINK] = name;
        if (path == NULL)
                return true;
        addition->config = config_load(path, error);
        if (addition->config == NULL)
                return false;
        addition->sink = receiver_find_sink(addition->config, name, error);
        if (addition->sink == NULL)
                return false;
        addition->values[RECEIVER_SINK] = addition->sink->name;
        return true;
}

static bool read_all(struct addition *addition, struct error *error)
{
        if (!read_texts(addition, error) || !read_numbers(addition, error) ||
            !read_headers(addition, error) ||
            !read_patterns(addition, TOPICS, RECEIVER_TOPICS, &addition->topics, error) ||
            !read_patterns(addition, TYPES, RECEIVER_TYPES, &addition->types, error) ||
            !receiver_read_secret(
                arguments_value(addition->arguments, SECRET_FILE), &addition->secret, error))
                return false;
        addition->values[RECEIVER_SECRET] = addition->secret;
        return read_sink(addition, error);
}

/* Lets the sink judge the receiver before it is added. */
static bool ask_sink(const struct addition *addition, struct error *error)
{
        size_t n_headers = json_object_size(addition->headers);
        struct event_header *headers = xcalloc(n_headers + 1, sizeof *headers);
        const char *secrets[] = {addition->secret};
        struct target_settings target = {.name = addition->values[RECEIVER_NAME],
            .url = addition->values[RECEIVER_URL],
            .secrets = secrets,
            .n_secrets = addition->secret != NULL,
            .headers = headers};
        struct error why = {0};
        const char *name;
        json_t *value;
        size_t i = 0;
        bool ok;

        json_object_foreach(addition->headers, name, value) if (json_is_string(value))
            headers[i++] = (struct event_header){name, json_string_value(value)};
        target.n_headers = i;
        ok = receiver_delivery_check(addition->sink, &target, &why) ||
             error_set(error, why.kind == ERROR_CONFIG ? ERROR_USAGE : why.kind,
                 "receiver %.100s: %s", addition->values[RECEIVER_NAME], why.text);
        free(headers);
        return ok;
}

/* A receiver of a misspelt sink would never get anything. */
static bool warn_of_unknown_sink(
    struct blocking_conn *conn, const struct addition *addition, struct error *error)
{
        const char *sink = addition->values[RECEIVER_SINK];
        bool is_known;

        if (addition->sink != NULL)
                return true;
        if (!pauses_knows_sink(conn, sink, &is_known, error))
                return false;
        if (!is_known)
                fprintf(stderr,
                    "no relay has run a sink %s here so far: is the name right? -c FILE checks "
                    "it\n",
                    sink);
        return true;
}

static bool add(struct blocking_conn *conn, const struct addition *addition, struct error *error)
{
        const char *name = addition->values[RECEIVER_NAME];
        bool as_json = arguments_has(addition->arguments, JSON);
        struct rows *rows = NULL;

        /* The configuration names the sink, so it exists even if no relay has run it yet. */
        if (addition->sink == NULL || receiver_note_sink(conn, addition->sink->name, error))
                rows = receiver_add(conn, addition->values, as_json, error);
        if (rows == NULL)
                return false;
        if (as_json) {
                table_print_json(rows, 0);
        } else {
                fprintf(stderr, "added %s to %s%s\n", name, addition->values[RECEIVER_SINK],
                    addition->secret == NULL ? "; its receiver verifies with this secret:" : "");
                if (addition->secret == NULL)
                        puts(rows_text(rows, 0, ADDED_SECRET));
        }
        rows_free(rows);
        return warn_of_unknown_sink(conn, addition, error) &&
               receiver_warn_of_unknown_types(conn, addition->values[RECEIVER_TYPES], error);
}

static void addition_deinit(struct addition *addition)
{
        free(addition->headers_text);
        json_decref(addition->headers);
        array_deinit(&addition->topics);
        array_deinit(&addition->types);
        secret_free(addition->secret);
        config_free(addition->config);
}

static bool run_add(const struct arguments *arguments, struct error *error)
{
        struct addition addition = {.arguments = arguments};
        struct blocking_conn *conn = NULL;
        bool ok;

        if (read_all(&addition, error) && (addition.sink == NULL || ask_sink(&addition, error)))
                conn = command_connect(arguments, error);
        ok = conn != NULL && add(conn, &addition, error);
        addition_deinit(&addition);
        return ok;
}

/* Lets its sink judge the new URL and headers, if there is a configuration that has the sink. */
static bool ask_its_sink(struct blocking_conn *conn, struct addition *addition, struct error *error)
{
        const char *path = addition->arguments->config_path;
        struct rows *parts;
        bool ok = true;

        if (path == NULL ||
            (addition->values[RECEIVER_URL] == NULL && addition->values[RECEIVER_HEADERS] == NULL))
                return true;
        addition->config = config_load(path, error);
        parts = addition->config != NULL
                    ? receiver_read_parts(conn, addition->values[RECEIVER_NAME], error)
                    : NULL;
        if (parts == NULL)
                return false;
        if (rows_count(parts) > 0) {
                struct addition asked = *addition;

                asked.sink = receiver_find_sink(
                    addition->config, rows_text(parts, 0, RECEIVER_PART_SINK), error);
                for (int i = 0; asked.values[RECEIVER_URL] == NULL && i < rows_count(parts); i++)
                        if (strcmp(rows_text(parts, i, RECEIVER_PART), "url") == 0)
                                asked.values[RECEIVER_URL] =
                                    rows_text(parts, i, RECEIVER_PART_VALUE);
                ok = asked.sink != NULL && ask_sink(&asked, error);
        }
        rows_free(parts);
        return ok;
}

static bool read_changes(struct addition *addition, struct error *error)
{
        static const unsigned fixed[] = {SINK, SECRET_FILE, START, JSON};
        const struct arguments *arguments = addition->arguments;
        bool is_any = false;

        for (unsigned i = 0; options[i].name != NULL; i++)
                is_any |= arguments_has(arguments, i);
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
                if (arguments_has(arguments, fixed[i]))
                        return error_set(error, ERROR_USAGE, "receiver set has no option --%s",
                            options[fixed[i]].name);
        if (!is_any)
                return error_set(error, ERROR_USAGE,
                    "receiver set needs something to change: --url, --topics, --types, --filter, "
                    "--header, --concurrency, --rate, --burst or --description");
        return read_texts(addition, error) && read_numbers(addition, error) &&
               read_headers(addition, error) &&
               read_patterns(addition, TOPICS, RECEIVER_TOPICS, &addition->topics, error) &&
               read_patterns(addition, TYPES, RECEIVER_TYPES, &addition->types, error);
}

static bool run_set(const struct arguments *arguments, struct error *error)
{
        struct addition addition = {.arguments = arguments, .is_change = true};
        const char *name = arguments->operands[0];
        struct blocking_conn *conn = NULL;
        struct rows *rows = NULL;
        bool ok;

        if (read_changes(&addition, error))
                conn = command_connect(arguments, error);
        if (conn != NULL && ask_its_sink(conn, &addition, error))
                rows = receiver_set(conn, addition.values, error);
        ok = rows != NULL;
        if (ok && rows_count(rows) == 0)
                ok = receiver_missing(conn, name, error);
        else if (ok)
                printf("changed %s\n", name);
        ok = ok && receiver_warn_of_unknown_types(conn, addition.values[RECEIVER_TYPES], error);
        rows_free(rows);
        addition_deinit(&addition);
        return ok;
}

const struct command receiver_set_command = {
    .name = "set",
    .usage = "NAME [--url URL] [--topics A,B] [--types A,B] [--filter JSONPATH]\n"
             "                 [--header 'NAME: VALUE']... [--concurrency N] [--rate N]\n"
             "                 [--burst N] [--description TEXT]",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_set,
};

const struct command receiver_add_command = {
    .name = "add",
    .usage = "NAME --url URL [--sink NAME] [--topics A,B] [--types A,B]\n"
             "                 [--filter JSONPATH] [--header 'NAME: VALUE']... [--concurrency N]\n"
             "                 [--rate N] [--burst N] [--description TEXT] [--secret-file FILE]\n"
             "                 [--start now|beginning] [--json]",
    .options = options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_add,
};

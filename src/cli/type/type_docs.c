/* `pgcourier type docs`: reads the catalogue and the sink, and writes a document of them. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/utf8.h"
#include "cli/connect.h"
#include "cli/type/type_common.h"
#include "config/config.h"
#include "config/suggest.h"
#include "operator/type_rows.h"
#include "pg/array_literal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT, OUTPUT, SINK, TITLE, ONLY };

static const struct command_option options[] = {
    [FORMAT] = {"format", 0, "FORMAT", false, "html, openapi or asyncapi; default: html"},
    [OUTPUT] = {"output", 'o', "FILE", false, "write it there instead of standard output"},
    [SINK] = {"sink", 0, "NAME", false,
        "which http sink makes the requests, if the\nconfiguration has several"},
    [TITLE] = {"title", 0, "TEXT", false, "of the document; default: Events"},
    [ONLY] = {"only", 0, "A,B", false,
        "only types that these patterns take: order.*,!order.x;\ndefault: all"},
    {0},
};

/* ---- the sink ----------------------------------------------------------------------------- */

/* One that fans out is likelier to be meant than one of our own. */
static bool is_likelier(const struct sink_config *sink, const struct sink_config *other)
{
        return sink_config_fans_out(sink) && !sink_config_fans_out(other);
}

static bool no_sink(const struct config *config, const char *name, struct error *error)
{
        struct bytes names = {0};

        for (unsigned i = 0; i < config->n_sinks; i++)
                if (config->sinks[i].http != NULL)
                        bytes_printf(
                            &names, "%s%s", names.length > 0 ? ", " : "", config->sinks[i].name);
        if (names.length == 0)
                error_set(error, ERROR_USAGE,
                    "the configuration has no http sink; without -c the requests of an http sink "
                    "with nothing but defaults are described");
        else if (name != NULL)
                error_set(error, ERROR_USAGE,
                    "--sink: the configuration has no http sink \"%.64s\"; there are: %s", name,
                    names.data);
        else
                error_set(error, ERROR_USAGE,
                    "which sink makes the requests? Add --sink NAME, one of: %s", names.data);
        bytes_deinit(&names);
        return false;
}

static const struct sink_config *find_sink(
    const struct config *config, const char *name, struct error *error)
{
        const struct sink_config *found = NULL;
        bool is_clear = true;

        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];

                if (sink->http == NULL || (name != NULL && strcmp(sink->name, name) != 0))
                        continue;
                if (found == NULL || is_likelier(sink, found)) {
                        found = sink;
                        is_clear = true;
                } else if (!is_likelier(found, sink)) {
                        is_clear = false;
                }
        }
        if (found != NULL && is_clear)
                return found;
        no_sink(config, name, error);
        return NULL;
}

static char plain_source[] = "pgcourier";
static const struct http_config plain_http = {.source = plain_source};

/* The configuration has to outlive the documents. */
static bool read_sink(const struct arguments *arguments, struct type_docs *docs,
    struct config **out_config, struct error *error)
{
        const char *name = arguments_value(arguments, SINK);
        const struct sink_config *sink;

        docs->http = &plain_http;
        docs->is_signed = true;
        if (arguments->config_path == NULL)
                return name == NULL || error_set(error, ERROR_USAGE,
                                           "--sink needs -c FILE with the relay's configuration");
        *out_config = config_load(arguments->config_path, error);
        if (*out_config == NULL)
                return false;
        sink = find_sink(*out_config, name, error);
        if (sink == NULL)
                return false;
        docs->http = sink->http;
        docs->is_signed =
            sink->http->signing != HTTP_SIGNING_NONE &&
            (sink_config_fans_out(sink) || sink->http->secret != NULL || sink->http->n_secrets > 0);
        return true;
}

/* ---- the catalogue ------------------------------------------------------------------------ */

static bool is_taken(const struct type_docs *docs, const char *key)
{
        for (size_t i = 0; i < docs->n_types; i++)
                if (strcmp(docs->types[i].key, key) == 0)
                        return true;
        return false;
}

/* What may be the name of a component, and is no other type's. */
static char *make_key(const struct type_docs *docs, const char *name)
{
        char *base = xstrdup(name);
        char *key;
        size_t n_alike = 1;

        for (char *at = base; *at != '\0'; at++)
                if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
                        *at) == NULL)
                        *at = '_';
        key = xstrdup(base);
        while (is_taken(docs, key)) {
                free(key);
                key = xasprintf("%s-%zu", base, ++n_alike);
        }
        free(base);
        return key;
}

/* PostgreSQL holds numbers that jansson does not; such a text is left out, and that is said. */
static json_t *parse(const char *name, const char *what, const char *text)
{
        struct error fault;
        json_t *json = text != NULL ? type_parse_json(what, text, &fault) : NULL;

        if (text != NULL && json == NULL)
                fprintf(stderr, "%s: left out its %s\n", name, fault.text);
        return json;
}

static void add_type(struct type_docs *docs, int row)
{
        struct type_doc *type = &docs->types[docs->n_types];

        *type = (struct type_doc){.name = rows_text(docs->rows, row, TYPE_ROW_NAME),
            .description = rows_text(docs->rows, row, TYPE_ROW_DESCRIPTION),
            .is_deprecated = rows_text(docs->rows, row, TYPE_ROW_DEPRECATED) != NULL,
            .example_text = rows_text(docs->rows, row, TYPE_ROW_EXAMPLE)};
        type->schema = parse(type->name, "schema", rows_text(docs->rows, row, TYPE_ROW_SCHEMA));
        type->example = parse(type->name, "example", type->example_text);
        type->key = make_key(docs, type->name);
        docs->n_types++;
}

static void take_rows(struct type_docs *docs, struct rows *rows)
{
        const char *newest = "";

        docs->rows = rows;
        docs->types = xcalloc((size_t)rows_count(rows) + 1, sizeof *docs->types);
        for (int i = 0; i < rows_count(rows); i++) {
                const char *changed = rows_text(rows, i, TYPE_ROW_CHANGED);
                if (strcmp(changed, newest) > 0)
                        newest = changed;
                add_type(docs, i);
        }
        snprintf(docs->revision, sizeof docs->revision, "%.10s", newest);
}

static void docs_deinit(struct type_docs *docs)
{
        for (size_t i = 0; i < docs->n_types; i++) {
                json_decref(docs->types[i].schema);
                json_decref(docs->types[i].example);
                free(docs->types[i].key);
        }
        free(docs->types);
        rows_free(docs->rows);
}

static bool read_types(
    struct blocking_conn *conn, const char *list, struct type_docs *docs, struct error *error)
{
        struct array_literal patterns = {0};
        char *words = list != NULL ? xstrdup(list) : NULL;
        struct rows *rows;
        char *rest = words;

        for (char *word; (word = strsep(&rest, ",")) != NULL;)
                array_add_text(&patterns, word + strspn(word, " "));
        rows = types_read(conn, list != NULL ? array_end(&patterns) : NULL, error);
        array_deinit(&patterns);
        free(words);
        if (rows == NULL)
                return false;
        take_rows(docs, rows);
        return docs->n_types > 0 ||
               error_set(error, ERROR_EMPTY, "%s",
                   list != NULL ? "--only: no type of the catalogue fits; see `pgcourier type list`"
                                : "the catalogue is empty; `pgcourier type set NAME` adds a type");
}

/* ---- the document ------------------------------------------------------------------------- */

enum format { FORMAT_HTML, FORMAT_OPENAPI, FORMAT_ASYNCAPI };

static bool read_format(
    const struct arguments *arguments, enum format *out_format, struct error *error)
{
        static const char *const names[] = {
            [FORMAT_HTML] = "html", [FORMAT_OPENAPI] = "openapi", [FORMAT_ASYNCAPI] = "asyncapi"};
        const char *given = arguments_value(arguments, FORMAT);
        const char *meant = NULL;

        *out_format = FORMAT_HTML;
        if (given == NULL)
                return true;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                if (strcmp(given, names[i]) == 0) {
                        *out_format = (enum format)i;
                        return true;
                }
                meant = suggest_nearer(given, meant, names[i]);
        }
        return error_set(error, ERROR_USAGE,
            "--format: \"%.64s\" is not one of html, openapi, asyncapi%s%s%s", given,
            meant != NULL ? "; did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?" : "");
}

static void render(struct bytes *out, const struct type_docs *docs, enum format format)
{
        json_t *document;
        char *text;

        if (format == FORMAT_HTML) {
                type_page_append(out, docs);
                return;
        }
        document = format == FORMAT_OPENAPI ? type_openapi(docs) : type_asyncapi(docs);
        text = type_json_text(document);
        bytes_append_text(out, text);
        bytes_append_text(out, "\n");
        free(text);
        json_decref(document);
}

static bool write_out(const char *path, const struct bytes *text, struct error *error)
{
        FILE *file = path != NULL ? fopen(path, "we") : stdout;
        bool ok;

        if (file == NULL)
                return error_set(error, errno == EACCES ? ERROR_PERMISSION : ERROR_SYSTEM,
                    "cannot write %.200s: %s", path, strerror(errno));
        ok = fwrite(text->data, 1, text->length, file) == text->length;
        if (path == NULL) /* main.c sees to what standard output could not take */
                return true;
        ok = fclose(file) == 0 && ok;
        return ok ||
               error_set(error, ERROR_SYSTEM, "cannot write %.200s: %s", path, strerror(errno));
}

static bool run_docs(const struct arguments *arguments, struct error *error)
{
        const char *title = arguments_value(arguments, TITLE);
        struct type_docs docs = {.title = title != NULL ? title : "Events"};
        struct config *config = NULL;
        struct blocking_conn *conn = NULL;
        struct bytes text = {0};
        enum format format;
        bool ok;

        if (!utf8_is_valid(docs.title))
                return error_set(error, ERROR_USAGE, "--title: the text is not UTF-8");
        if (read_format(arguments, &format, error) && read_sink(arguments, &docs, &config, error))
                conn = command_connect(arguments, error);
        ok = conn != NULL && read_types(conn, arguments_value(arguments, ONLY), &docs, error);
        if (ok) {
                render(&text, &docs, format);
                ok = write_out(arguments_value(arguments, OUTPUT), &text, error);
        }
        bytes_deinit(&text);
        docs_deinit(&docs);
        config_free(config);
        return ok;
}

const struct command type_docs_command = {
    .name = "docs",
    .usage = "[--format html|openapi|asyncapi] [-o FILE] [--sink NAME]\n"
             "                 [--title TEXT] [--only A,B]",
    .options = options,
    .run = run_docs,
};

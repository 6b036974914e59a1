#include "cli/receiver/receiver_common.h"

#include "base/bytes.h"
#include "cli/connect.h"
#include "config/config.h"
#include "config/secret.h"
#include "config/suggest.h"
#include "operator/receiver_rows.h"
#include "operator/type_rows.h"
#include "sinks/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table's rules are named as sentences: url_must_be_at_most_2048_bytes. */
static void broken_rule(const char *name, const char *constraint, struct error *error)
{
        struct bytes sentence = {0};

        bytes_append_text(&sentence, *constraint != '\0' ? constraint : "a rule is broken");
        for (char *at = sentence.data; *at != '\0'; at++)
                if (*at == '_')
                        *at = ' ';
        error_set(error, ERROR_USAGE, "receiver %.100s: %s", name, sentence.data);
        bytes_deinit(&sentence);
}

bool receiver_missing(struct blocking_conn *conn, const char *name, struct error *error)
{
        return name_missing(receiver_names(conn, error), "receiver", "receiver list", name, error);
}

void receiver_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error)
{
        const char *name = arguments->n_operands > 0 ? arguments->operands[0] : "list";
        const char *sqlstate = blocking_conn_sqlstate(conn);
        const char *message = blocking_conn_message(conn);

        if (strcmp(sqlstate, "23505") == 0)
                error_set(error, ERROR_USAGE,
                    "there is a receiver \"%.100s\" already; see `pgcourier receiver show %.100s`",
                    name, name);
        else if (strcmp(sqlstate, "P0002") == 0) /* rotate_secret()'s no_data_found */
                receiver_missing(conn, name, error);
        /* What check_receiver() says is a sentence already. */
        else if (strcmp(sqlstate, "23503") == 0)
                error_set(error, ERROR_USAGE,
                    "%s; here it is enough to add -c FILE with its configuration", message);
        else if (strcmp(blocking_conn_constraint(conn), "filter_must_be_a_predicate") == 0)
                error_set(error, ERROR_USAGE, "%s", message);
        else if (strncmp(sqlstate, "23", 2) == 0)
                broken_rule(name, blocking_conn_constraint(conn), error);
        else if (strcmp(sqlstate, "22003") == 0)
                error_set(error, ERROR_USAGE, "receiver %.100s: %s", name, message);
        /* syntax_error, invalid_regular_expression: our statements have none, a JSON path may. */
        else if (strcmp(sqlstate, "42601") == 0 || strcmp(sqlstate, "2201B") == 0)
                error_set(error, ERROR_USAGE,
                    "--filter: %s. Write a JSON path predicate such as '$.total > 100'", message);
        else
                command_refused(conn, arguments, error);
}

bool receiver_read_secret(const char *path, char **out_secret, struct error *error)
{
        struct error why = {0};

        *out_secret = NULL;
        if (path == NULL)
                return true;
        *out_secret = secret_read_line(path, &why);
        return *out_secret != NULL ||
               error_set(error, why.kind, "--secret-file: %.200s %s", path, why.text);
}

static void warn_of_unknown_type(const struct rows *names, const char *pattern)
{
        const char *meant = NULL;

        for (int i = 0; i < rows_count(names); i++)
                meant = suggest_nearer(pattern, meant, rows_text(names, i, 0));
        fprintf(stderr,
            "--types: no type of the catalogue fits %s%s%s%s; `pgcourier type list` names "
            "them\n",
            pattern, meant != NULL ? ": did you mean \"" : "", meant != NULL ? meant : "",
            meant != NULL ? "\"?" : "");
}

bool receiver_warn_of_unknown_types(
    struct blocking_conn *conn, const char *patterns, struct error *error)
{
        struct rows *unknown, *names;
        bool ok = true;

        if (patterns == NULL)
                return true;
        unknown = types_unknown(conn, patterns, error);
        if (unknown == NULL)
                return false;
        if (rows_count(unknown) > 0) {
                names = type_names(conn, error);
                ok = names != NULL;
                for (int i = 0; ok && i < rows_count(unknown); i++)
                        warn_of_unknown_type(names, rows_text(unknown, i, 0));
                rows_free(names);
        }
        rows_free(unknown);
        return ok;
}

static bool no_such_sink(const struct config *config, const char *name, struct error *error)
{
        struct bytes text = {0};
        const char *separator = "";

        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (!sink_config_fans_out(&config->sinks[i]))
                        continue;
                bytes_printf(&text, "%s%s", separator, config->sinks[i].name);
                separator = ", ";
        }
        if (text.length == 0)
                error_set(error, ERROR_USAGE,
                    "the configuration has no sink with receivers: table; only such a sink "
                    "delivers to receivers");
        else if (name == NULL)
                error_set(error, ERROR_USAGE,
                    "which sink? Add --sink NAME, one of those that deliver to receivers: %s",
                    text.data);
        else
                error_set(error, ERROR_USAGE,
                    "--sink: the configuration has no sink \"%.64s\" that delivers to receivers. "
                    "Those that do: %s",
                    name, text.data);
        bytes_deinit(&text);
        return false;
}

const struct sink_config *receiver_find_sink(
    const struct config *config, const char *name, struct error *error)
{
        const struct sink_config *found = NULL;
        unsigned n_found = 0;

        for (unsigned i = 0; i < config->n_sinks; i++) {
                const struct sink_config *sink = &config->sinks[i];
                if (!sink_config_fans_out(sink) || (name != NULL && strcmp(sink->name, name) != 0))
                        continue;
                found = sink;
                n_found++;
        }
        if (n_found == 1)
                return sink_kind_load(config->relay.modules, found, error) != NULL ? found : NULL;
        no_such_sink(config, name, error);
        return NULL;
}

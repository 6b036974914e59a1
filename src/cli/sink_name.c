#include "cli/sink_name.h"

#include "base/bytes.h"
#include "config/config.h"
#include "config/suggest.h"
#include "config/values.h"
#include "operator/pause_rows.h"

#include <string.h>

bool sink_name_check_form(const char *name, struct error *error)
{
        const char *fault = check_sink_name(name);

        return fault == NULL || error_set(error, ERROR_USAGE, "\"%.64s\" %s", name, fault);
}

static bool check_in_config(const struct config *config, const char *name, struct error *error)
{
        const char *meant = NULL;
        struct bytes text = {0};

        for (unsigned i = 0; i < config->n_sinks; i++) {
                if (strcmp(config->sinks[i].name, name) == 0)
                        return true;
                meant = suggest_nearer(name, meant, config->sinks[i].name);
        }
        bytes_printf(&text, "the configuration has no sink \"%.64s\"", name);
        if (meant != NULL)
                bytes_printf(&text, "; did you mean \"%s\"?", meant);
        else
                bytes_append_text(&text, ".");
        bytes_append_text(&text, " Sinks:");
        for (unsigned i = 0; i < config->n_sinks; i++)
                bytes_printf(&text, "%s %s", i > 0 ? "," : "", config->sinks[i].name);
        error_set(error, ERROR_USAGE, "%s", text.data);
        bytes_deinit(&text);
        return false;
}

static bool check_in_database(struct blocking_conn *conn, const char *name, struct error *error)
{
        bool is_known;

        if (!pauses_knows_sink(conn, name, &is_known, error))
                return false;
        return is_known ||
               error_set(error, ERROR_USAGE,
                   "no relay has run a sink \"%.64s\" here so far; check the name with -c FILE, or "
                   "add --force",
                   name);
}

bool sink_name_check(
    struct blocking_conn *conn, const char *name, const char *config_path, struct error *error)
{
        struct config *config;
        bool ok;

        if (config_path == NULL)
                return check_in_database(conn, name, error);
        config = config_load(config_path, error);
        ok = config != NULL && check_in_config(config, name, error);
        config_free(config);
        return ok;
}

#include "cli/status/status_source.h"

#include "admin/status_document.h"
#include "cli/admin_client.h"
#include "cli/connect.h"
#include "cli/remedy.h"
#include "config/config.h"
#include "operator/status_query.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_TIMEOUT_MS   15000
#define ENDPOINT_TIMEOUT_MS 2000

bool status_source_open(
    struct status_source *source, const char *dsn, const char *config_path, struct error *error)
{
        *source = (struct status_source){.dsn = dsn, .config_path = config_path};
        if (dsn != NULL && config_path != NULL)
                return error_set(
                    error, ERROR_USAGE, "--dsn and --config both name a database: give one");
        if (config_path == NULL)
                return true;
        source->config = config_load(config_path, error);
        return source->config != NULL;
}

static void disconnect(struct status_source *source)
{
        blocking_conn_close(source->conn);
        source->conn = NULL;
}

void status_source_close(struct status_source *source)
{
        disconnect(source);
        config_free(source->config);
        source->config = NULL;
}

/* NULL if there is no endpoint, or it does not answer: then `unanswered` says why. */
static json_t *ask_endpoint(struct status_source *source)
{
        struct admin_client *client;
        struct bytes body = {0};
        json_error_t fault;
        json_t *document = NULL;
        bool is_answered;
        long status;

        source->unanswered.kind = ERROR_NONE;
        if (source->config == NULL || source->config->admin == NULL)
                return NULL;
        client = admin_client_create(source->config->admin, &source->unanswered);
        if (client == NULL)
                return NULL;
        is_answered = admin_client_ask(
            client, "/api/status", NULL, ENDPOINT_TIMEOUT_MS, &status, &body, &source->unanswered);
        if (is_answered && status != 200) {
                admin_client_refused(status, &body, &source->unanswered);
        } else if (is_answered) {
                document = json_loadb(body.data, body.length, JSON_ALLOW_NUL, &fault);
                if (document == NULL)
                        error_set(&source->unanswered, ERROR_SINK,
                            "what the relay's admin endpoint %s answers is no status: %s",
                            source->config->admin->listen, fault.text);
        }
        bytes_deinit(&body);
        admin_client_close(client);
        return document;
}

static bool connect(struct status_source *source, struct error *error)
{
        if (source->conn != NULL)
                return true;
        source->conn =
            connect_to_schema(source->dsn, source->config_path, ANSWER_TIMEOUT_MS, error);
        if (source->conn == NULL)
                return false;
        if (blocking_conn_run(source->conn, look_session_sql, error))
                return true;
        disconnect(source);
        return false;
}

json_t *status_source_read(struct status_source *source, struct error *error)
{
        json_t *document = ask_endpoint(source);
        json_t *found;

        if (document != NULL || !connect(source, error))
                return document;
        found = status_query_ask(source->conn, source->config, error);
        if (found == NULL) {
                command_refused(source->conn, NULL, error);
                disconnect(source); /* the next one begins anew */
                return NULL;
        }
        document = status_document(&(struct status_basis){.found = found,
            .config = source->config,
            .config_file = source->config_path != NULL ? remedy_config() : NULL});
        json_decref(found);
        return document;
}

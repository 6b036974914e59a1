/* A health check for containers, which have no curl: the answer is the exit code. */
#include "cli/admin_client.h"
#include "cli/commands.h"

#include <jansson.h>
#include <stdio.h>

#define TIMEOUT_MS 5000

enum { CONFIG, READY };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    [READY] = {"ready", 0, NULL, false, "ask whether it can deliver, not only whether it runs"},
    {0},
};

static bool fail_unready(const struct bytes *body, struct error *error)
{
        json_t *document = json_loadb(body->data, body->length, 0, NULL);
        struct bytes words = {0};
        const json_t *condition;
        size_t i;

        bytes_append_text(&words, "not ready");
        json_array_foreach(json_object_get(document, "conditions"), i, condition)
        {
                if (!json_is_false(json_object_get(condition, "ok")))
                        continue;
                bytes_printf(&words, "; %s: %s",
                    json_string_value(json_object_get(condition, "name")),
                    json_string_value(json_object_get(condition, "words")));
        }
        error_set(error, ERROR_SYSTEM, "%s", words.data);
        bytes_deinit(&words);
        json_decref(document);
        return false;
}

static bool ask(struct admin_client *client, bool is_ready_asked, struct error *error)
{
        struct bytes body = {0};
        long status;
        bool ok = admin_client_ask(
            client, is_ready_asked ? "/readyz" : "/livez", NULL, TIMEOUT_MS, &status, &body, error);

        if (ok && status == 200)
                puts(is_ready_asked ? "ready" : "live");
        else if (ok && status == 503 && is_ready_asked)
                ok = fail_unready(&body, error);
        else if (ok)
                ok = admin_client_refused(status, &body, error);
        bytes_deinit(&body);
        return ok;
}

static bool run_health(const struct arguments *arguments, struct error *error)
{
        struct admin_client *client;
        bool ok;

        if (!arguments_has(arguments, CONFIG))
                return error_set(error, ERROR_USAGE,
                    "health needs the relay's configuration: pgcourier health -c FILE");
        client = admin_client_open(arguments_value(arguments, CONFIG), error);
        ok = client != NULL && ask(client, arguments_has(arguments, READY), error);
        admin_client_close(client);
        return ok;
}

const struct command health_command = {
    .name = "health",
    .summary = "ask a running relay whether it lives, or is ready",
    .usage = "-c FILE [--ready]",
    .details =
        "Asks the admin endpoint of the relay that runs with this configuration, and ends with 0\n"
        "or 1: made for HEALTHCHECK of a container image. Without --ready: the relay runs and its\n"
        "loop turns, whatever PostgreSQL and the sinks do. With --ready: it is connected to\n"
        "PostgreSQL, the schema is right, and no sink stands still for an unknown reason.\n",
    .options = options,
    .run = run_health,
};

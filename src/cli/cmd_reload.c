/* Makes a running relay reload its configuration: through its admin endpoint, which answers, or
 * by SIGHUP, which does not. */
#include "base/alloc.h"
#include "cli/admin_client.h"
#include "cli/commands.h"
#include "config/config.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sinks that are replaced finish what they have in flight first. */
#define TIMEOUT_MS        (2L * 60 * 1000)
#define STATUS_TIMEOUT_MS 2000

enum { CONFIG, PID };

static const struct command_option options[] = {
    [CONFIG] = {"config", 'c', "FILE", false, "the relay's configuration; required"},
    [PID] = {"pid", 'p', "PID", false,
        "the relay's process, to send it SIGHUP; without this\nits admin endpoint is asked"},
    {0},
};

static void print_names(const char *what, const json_t *names)
{
        const json_t *name;
        size_t i;

        json_array_foreach(names, i, name) printf("%-9s %s\n", what, json_string_value(name));
}

static void print_answer(const struct bytes *body)
{
        json_t *answer = json_loadb(body->data, body->length, 0, NULL);
        json_int_t n_unchanged = json_integer_value(json_object_get(answer, "unchanged"));

        print_names("added", json_object_get(answer, "added"));
        print_names("changed", json_object_get(answer, "changed"));
        print_names("removed", json_object_get(answer, "removed"));
        printf("reloaded: %" JSON_INTEGER_FORMAT " sink%s unchanged%s\n", n_unchanged,
            n_unchanged == 1 ? "" : "s",
            json_is_true(json_object_get(answer, "reopened"))
                ? ", sessions with PostgreSQL reopened"
                : "");
        json_decref(answer);
}

/* The receiver tells the process id even without a token. */
static bool changes_nothing(struct admin_client *client, struct error *error)
{
        struct error ignored;
        struct bytes body = {0};
        long code;
        json_t *status = NULL;
        const char *instance, *pid;

        if (admin_client_ask(
                client, "/api/status", NULL, STATUS_TIMEOUT_MS, &code, &body, &ignored) &&
            code == 200)
                status = json_loadb(body.data, body.length, JSON_ALLOW_NUL, NULL);
        instance = json_string_value(json_object_get(status, "instance")); /* host/pid */
        pid = instance != NULL ? strrchr(instance, '/') : NULL;
        if (pid != NULL)
                error_set(error, ERROR_PERMISSION,
                    "the relay has no admin.token_file, so its receiver changes nothing. On %.*s "
                    "send it SIGHUP: `pgcourier reload --pid %.20s`",
                    (int)(pid - instance), instance, pid + 1);
        else
                error_set(error, ERROR_PERMISSION,
                    "the relay has no admin.token_file, so its receiver changes "
                    "nothing. " ADMIN_CLIENT_BY_SIGNAL);
        json_decref(status);
        bytes_deinit(&body);
        return false;
}

static bool ask(const char *config_path, struct error *error)
{
        struct admin_client *client = admin_client_open(config_path, error);
        struct bytes body = {0};
        long status;
        bool ok = client != NULL &&
                  admin_client_ask(client, "/api/reload", "{}", TIMEOUT_MS, &status, &body, error);

        if (ok && status == 200)
                print_answer(&body);
        else if (ok && status == 403)
                ok = changes_nothing(client, error);
        else if (ok)
                ok = admin_client_refused(status, &body, error);
        bytes_deinit(&body);
        admin_client_close(client);
        return ok;
}

/* Most other programs end on SIGHUP. */
static bool check_is_relay(long pid, struct error *error)
{
        char *path = xasprintf("/proc/%ld/comm", pid);
        char name[32] = "";
        FILE *file = fopen(path, "r");

        free(path);
        if (file != NULL) {
                if (fgets(name, sizeof name, file) != NULL)
                        name[strcspn(name, "\n")] = '\0';
                fclose(file);
        }
        if (*name == '\0')
                return error_set(error, ERROR_EMPTY, "there is no process %ld", pid);
        return strcmp(name, "pgcourier") == 0 ||
               error_set(error, ERROR_USAGE, "process %ld is not pgcourier but %s", pid, name);
}

static bool send_signal(const char *config_path, const char *pid_text, struct error *error)
{
        struct config *config;
        char *end;
        long pid = strtol(pid_text, &end, 10);

        if (pid <= 0 || *end != '\0')
                return error_set(
                    error, ERROR_USAGE, "reload: --pid \"%.64s\" is not a process id", pid_text);
        config = config_load(
            config_path, error); /* a wrong file is refused here, before the relay is told */
        config_free(config);
        if (config == NULL || !check_is_relay(pid, error))
                return false;
        if (kill((pid_t)pid, SIGHUP) != 0)
                return error_set(error, errno == EPERM ? ERROR_PERMISSION : ERROR_SYSTEM,
                    "cannot signal process %ld: %s", pid, strerror(errno));
        printf("sent SIGHUP to process %ld; its log shows the result: event=reloaded or "
               "event=reload_failed\n",
            pid);
        return true;
}

static bool run_reload(const struct arguments *arguments, struct error *error)
{
        const char *config_path = arguments_value(arguments, CONFIG);
        const char *pid = arguments_value(arguments, PID);

        if (config_path == NULL)
                return error_set(error, ERROR_USAGE,
                    "reload needs the relay's configuration: pgcourier reload -c FILE");
        return pid != NULL ? send_signal(config_path, pid, error) : ask(config_path, error);
}

const struct command reload_command = {
    .name = "reload",
    .summary = "make a running relay load its configuration again",
    .usage = "-c FILE [--pid PID]",
    .details =
        "The relay reads the file again, checks all of it, and then adds, changes and removes\n"
        "sinks without losing or repeating a delivery; sinks that are the same are not touched.\n"
        "If anything is wrong, all stays as it was. Without --pid it is asked by the admin\n"
        "receiver that FILE names, and what has changed, or why nothing has, is printed once it\n"
        "is done. With --pid it gets SIGHUP, and its log shows the result.\n",
    .options = options,
    .run = run_reload,
};

#include "admin_rig.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 20000

void admin_rig_start(
    struct admin_rig *rig, struct postgres *postgres, const char *host, const char *settings)
{
        bool is_unix = strncmp(host, "unix:", 5) == 0;
        char *relay_dsn;
        char *listen = is_unix ? xstrdup(host) : xasprintf("%s:%u", host, free_port());

        rig->dsn = postgres_new_database(postgres);
        rig->owner = database_connect(rig->dsn);
        rig->address =
            is_unix ? xstrdup(listen) : xasprintf("127.0.0.1:%s", strchr(listen, ':') + 1);
        relay_dsn = dsn_as_user(rig->dsn, "relay");
        rig->relay = relay_start("postgres: {dsn: \"%s\"}\n"
                                 "admin: {listen: \"%s\"%s}\n"
                                 "sinks:\n"
                                 "  - name: out\n"
                                 "    topics: ['**']\n"
                                 "    start: beginning\n"
                                 "    stdout: {}\n",
            relay_dsn, listen, settings);
        relay_wait_for_log(rig->relay, "event=admin_listening", PATIENCE_MS);
        free(relay_dsn);
        free(listen);
}

void admin_rig_stop(struct admin_rig *rig)
{
        if (rig->relay->process.pid != 0)
                relay_stop(rig->relay);
        relay_destroy(rig->relay);
        PQfinish(rig->owner);
        free(rig->dsn);
        free(rig->address);
}

json_t *admin_rig_json(struct admin_rig *rig, const char *method, const char *path,
    const char *headers, const char *body, unsigned status)
{
        struct http_reply reply = http_ask(rig->address, method, path, headers, body);
        json_t *document = json_loads(reply.body, 0, NULL);

        cr_assert_eq(reply.status, status, "%s %s: %s%s", method, path, reply.head, reply.body);
        cr_assert_not_null(document, "%s %s: %s", method, path, reply.body);
        http_reply_free(&reply);
        return document;
}

struct wanted {
        struct admin_rig *rig;
        unsigned status;
        const char *member;
        const char *expected;
};

static bool is_status(void *context)
{
        struct wanted *wanted = context;
        struct http_reply reply = http_ask(wanted->rig->address, "GET", "/readyz", NULL, NULL);
        bool is_it = reply.status == wanted->status;

        http_reply_free(&reply);
        return is_it;
}

void admin_rig_await_ready(struct admin_rig *rig, unsigned status)
{
        struct wanted wanted = {.rig = rig, .status = status};

        wait_until(is_status, &wanted, PATIENCE_MS,
            status == 200 ? "/readyz does not become 200" : "/readyz does not become 503");
}

static bool is_value(void *context)
{
        struct wanted *wanted = context;
        json_t *status = admin_rig_json(wanted->rig, "GET", "/api/status", NULL, NULL, 200);
        json_t *value =
            json_object_get(json_array_get(json_object_get(status, "sinks"), 0), wanted->member);
        char *text = json_is_string(value) ? xstrdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY);
        bool is_it = text != NULL && strncmp(text, wanted->expected, strlen(wanted->expected)) == 0;

        free(text);
        json_decref(status);
        return is_it;
}

void admin_rig_await_sink(struct admin_rig *rig, const char *member, const char *expected)
{
        struct wanted wanted = {.rig = rig, .member = member, .expected = expected};
        char *what = xasprintf("the sink's %s does not become %s", member, expected);

        wait_until(is_value, &wanted, PATIENCE_MS, what);
        free(what);
}

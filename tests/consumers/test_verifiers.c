/*
 * Webhooks of a real relay before the verifiers that its receivers use: the packages of Standard
 * Webhooks, Svix, Stripe and GitHub (verifiers/verify.mjs), and for Python (verifiers/verify.py).
 * And before the class of docs/consumers/csharp, whose programs nothing here could run as a whole.
 */
#include "support/http_receiver.h"
#include "support/postgres_expect.h"
#include "support/relay_process.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEWEST "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OLDER  "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#define FOLDER PGCOURIER_SOURCE_FOLDER "/tests/consumers/verifiers"
#define KEPT   PGCOURIER_SOURCE_FOLDER "/.cache"
#define PAYLOAD                                                                                    \
        "{\"id\": \"evt_1\",  \"object\": \"event\", \"n\": 1.50, \"\xc3\xa9\": "                  \
        "\"\xe2\x82\xac\\u00e9\"}"

enum { DEADLINE_MS = 30000 };

/* The name is the path, too. */
static const struct {
        const char *name;
        const char *settings;
} sinks[] = {
    {"standard", ""},
    {"svix", ""},
    {"stripe", "signing: stripe, "},
    {"github", "signing: github, "},
};

enum { N_SINKS = sizeof sinks / sizeof sinks[0] };

static void write_file(
    const char *folder, const char *name, const char *kind, const char *text, size_t bytes)
{
        char *path = xasprintf("%s/%s.%s", folder, name, kind);
        FILE *file = fopen(path, "w");

        cr_assert(
            file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0, "%s", path);
        free(path);
}

static struct relay_process *start_relay(const char *dsn, uint16_t port)
{
        char *text = xstrdup("");
        struct relay_process *relay;

        for (size_t i = 0; i < N_SINKS; i++) {
                char *longer = xasprintf(
                    "%s  - {name: %s, topics: [\"**\"], start: beginning, http:"
                    " {%surl: \"http://127.0.0.1:%u/%s\", secrets: [" NEWEST ", " OLDER "]}}\n",
                    text, sinks[i].name, sinks[i].settings, port, sinks[i].name);
                free(text);
                text = longer;
        }
        relay = relay_start("postgres: {dsn: \"%s\"}\nsinks:\n%s", dsn, text);
        free(text);
        return relay;
}

/* One request of each sink, in a new folder. */
static char *collect_requests(void)
{
        struct test_database database = test_database_make();
        struct http_receiver *receiver = http_receiver_start(NULL, NULL);
        char *folder = temp_folder();
        struct relay_process *relay;

        database_exec(
            database.admin, "SELECT courier.publish('orders.created', '" PAYLOAD "', key => '17')");
        relay = start_relay(database.relay, http_receiver_port(receiver));
        http_receiver_wait(receiver, N_SINKS, DEADLINE_MS);
        relay_stop(relay);
        for (unsigned i = 0; i < N_SINKS; i++) {
                const struct http_request *request = http_receiver_request(receiver, i);
                const char *name = request->target + 1;

                write_file(folder, name, "body", request->body, request->body_bytes);
                write_file(
                    folder, name, "headers", request->header_lines, strlen(request->header_lines));
        }
        relay_destroy(relay);
        http_receiver_destroy(receiver);
        test_database_drop(&database);
        return folder;
}

/* What the judge printed. To be freed. */
static char *judge(const char *command)
{
        char *folder = collect_requests();
        char *whole = xasprintf("cd %s && %s . " NEWEST " " OLDER, folder, command);
        char *path = xasprintf("%s/said", folder);
        const char *argv[] = {"sh", "-c", whole, NULL};
        int code = process_run(argv, path, false);
        char *said = read_file(path);

        cr_expect_eq(code, 0, "%s", said);
        free(path);
        free(whole);
        free(folder);
        return said;
}

static void expect_said(const char *said, const char *words)
{
        cr_expect_not_null(strstr(said, words), "%s\nis not in what it said:\n%s", words, said);
}

Test(verifiers, of_node_take_each_request_and_no_changed_one)
{
        char *said;

        if (access(KEPT "/verifiers/node_modules", R_OK) != 0) {
                puts("no packages of npm here: scripts/deps --test gets them, where there is npm");
                return;
        }
        said = judge("ln -s '" KEPT "/verifiers/node_modules' && cp '" FOLDER
                     "/verify.mjs' . && " PGCOURIER_NODE " verify.mjs");
        expect_said(said, "standard: verified by 2, refused ");
        expect_said(said, "svix: verified by 2, refused ");
        expect_said(said, "stripe: verified by 2, refused ");
        expect_said(said, "github: verified by 1, refused ");
        free(said);
}

Test(verifiers, of_python_take_each_request_and_no_changed_one)
{
        char *said =
            judge("PYTHONPATH='" KEPT "/verifiers-python' /usr/bin/python3 '" FOLDER "/verify.py'");

        expect_said(said, "standard: verified by 2, refused ");
        expect_said(said, "svix: verified by 2, refused ");
        free(said);
}

/* The class alone is C# that Mono compiles, too, but for `using var`. */
Test(verifiers, of_csharp_take_each_request_and_no_changed_one)
{
        char *said = judge(
            "(printf 'using %s;\n' System System.Linq System.Security.Cryptography"
            " System.Text; sed -n '/^static class Webhook$/,/^}/{s/using "
            "var/var/;p}' '" PGCOURIER_SOURCE_FOLDER "/docs/consumers/csharp/WebhookReceiver.cs')"
            " >Webhook.cs && mcs -warnaserror -out:verify.exe Webhook.cs '" FOLDER
            "/Verify.cs' && mono verify.exe");

        expect_said(said, "standard: verified by 2, refused ");
        free(said);
}

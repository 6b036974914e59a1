/*
 * Every route of a real relay, taken from its own table: who gets in, by which
 * method, and what comes with each answer.
 */
#include "admin/http/routes.h"
#include "admin_rig.h"
#include "base/alloc.h"
#include "support/program_expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct admin_rig rig;

static void start(const char *host, const char *settings)
{
        admin_rig_start(&rig, postgres_shared(), host, settings);
}

static void stop(void)
{
        admin_rig_stop(&rig);
}

TestSuite(admin_routes, .fini = stop);

/* A path that the route's pattern fits. Free it. */
static char *path_of(const struct route *route)
{
        const char *star = strchr(route->path, '*');

        if (star == NULL)
                return xstrdup(route->path);
        return xasprintf("%.*s%s%s", (int)(star - route->path), route->path,
            strncmp(route->path, "/page/", 6) == 0 ? "style.css" : "out", star + 1);
}

/* Not GET: that of a stream would not end. */
static const char *method_of(const struct route *route)
{
        return strcmp(route->method, "GET") == 0 ? "HEAD" : "POST";
}

static unsigned ask(const struct route *route, const char *headers)
{
        char *path = path_of(route);
        bool is_post = strcmp(route->method, "POST") == 0;
        struct http_reply reply =
            http_ask(rig.address, method_of(route), path, headers, is_post ? "[]" : NULL);
        unsigned status = reply.status;

        cr_expect_not_null(strstr(reply.head, "Content-Security-Policy: default-src 'none'"));
        cr_expect_not_null(strstr(reply.head, "X-Content-Type-Options: nosniff\r\n"));
        cr_expect_not_null(strstr(reply.head, "Cache-Control: no-store\r\n"));
        cr_expect_null(strstr(reply.head, "Access-Control-"));
        http_reply_free(&reply);
        free(path);
        return status;
}

/* What none of its own checks of the request could answer: the token was let through. */
static bool is_let_in(unsigned status)
{
        return status == 200 || status == 400 || status == 404 || status == 503;
}

static void expect_token_needed(enum route_access from)
{
        static const char *const wrong[] = {JSON_TYPE,
            JSON_TYPE "Authorization: Bearer 0123456789abcdef0124\r\n",
            JSON_TYPE "Authorization: Basic " ADMIN_TOKEN "\r\n",
            JSON_TYPE "Authorization: " ADMIN_TOKEN "\r\n"};
        unsigned n_needed = 0;

        for (const struct route *route = admin_routes; route->path != NULL; route++) {
                bool is_needed = route->access >= from;

                n_needed += is_needed;
                for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
                        unsigned status = ask(route, wrong[i]);

                        cr_expect(is_needed ? status == 401 : is_let_in(status),
                            "%s %s with %s: %u", route->method, route->path, wrong[i], status);
                }
                cr_expect(is_let_in(ask(route, JSON_TYPE BEARER)), "%s", route->path);
        }
        cr_expect_geq(n_needed, 6, "the table has lost its routes");
}

Test(admin_routes, change_something_only_with_the_token)
{
        start("127.0.0.1", ", token: " ADMIN_TOKEN);

        expect_token_needed(ACCESS_OPERATOR);
}

Test(admin_routes, show_something_to_other_machines_only_with_the_token)
{
        start("0.0.0.0", ", token: " ADMIN_TOKEN);

        expect_token_needed(ACCESS_READ);
}

/* The table says itself what is open: that must be what tells nothing, and nothing that changes. */
Test(admin_routes, are_open_where_they_show_no_data)
{
        static const char *const open[] = {"/livez", "/readyz", "/", "/page/*"};

        start("127.0.0.1", "");

        for (const struct route *route = admin_routes; route->path != NULL; route++) {
                bool is_open = false;

                for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
                        is_open |= strcmp(route->path, open[i]) == 0;
                cr_expect_eq(route->access == ACCESS_OPEN, is_open, "%s", route->path);
                if (strcmp(route->method, "POST") == 0)
                        cr_expect_eq(route->access, ACCESS_OPERATOR, "%s", route->path);
        }
}

Test(admin_routes, change_nothing_where_no_token_is_configured)
{
        start("127.0.0.1", "");

        for (const struct route *route = admin_routes; route->path != NULL; route++) {
                if (route->access != ACCESS_OPERATOR)
                        continue;
                cr_expect_eq(ask(route, JSON_TYPE BEARER), 403, "%s", route->path);
                cr_expect_eq(ask(route, JSON_TYPE), 403, "%s", route->path);
        }
        json_t *refusal = admin_rig_json(&rig, "POST", "/api/log", JSON_TYPE, "{}", 403);
        cr_expect_not_null(strstr(json_string_value(json_object_get(refusal, "error")),
            "set admin.token_file to a file"));
        json_decref(refusal);
}

static void expect_405(const struct route *route, const char *method)
{
        char *path = path_of(route);
        struct http_reply reply = http_ask(rig.address, method, path, JSON_TYPE BEARER, NULL);
        const char *allow =
            strcmp(route->method, "GET") == 0 ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";

        cr_expect_eq(reply.status, 405, "%s %s: %s", method, path, reply.head);
        cr_expect_not_null(strstr(reply.head, allow), "%s", reply.head);
        http_reply_free(&reply);
        free(path);
}

Test(admin_routes, tell_which_method_they_take)
{
        start("127.0.0.1", ", token: " ADMIN_TOKEN);

        for (const struct route *route = admin_routes; route->path != NULL; route++) {
                expect_405(route, strcmp(route->method, "GET") == 0 ? "POST" : "GET");
                expect_405(route, "DELETE");
        }
}

static void expect_refused(const char *method, const char *path, const char *headers,
    const char *body, unsigned status, const char *words)
{
        json_t *refusal = admin_rig_json(&rig, method, path, headers, body, status);
        const char *said = json_string_value(json_object_get(refusal, "error"));

        cr_expect(said != NULL && strstr(said, words) != NULL, "%s", said);
        json_decref(refusal);
}

Test(admin_routes, refuse_what_they_do_not_understand)
{
        char *huge = xcalloc(1, 70000);

        memset(huge, ' ', 69999);
        start("127.0.0.1", ", token: " ADMIN_TOKEN ", allowed_hosts: [relay.example.com]");

        expect_refused("GET", "/nothing", NULL, NULL, 404, "nothing at this path");
        expect_refused("GET", "/livez/", NULL, NULL, 404, "nothing at this path");
        expect_refused("GET", "/page/..%2fsecret", NULL, NULL, 404, "nothing at this path");
        expect_refused("GET", "/livez", "Host: evil.example\r\n", NULL, 403, "admin.allowed_hosts");
        expect_refused("POST", "/api/log", "Host: evil.example\r\n" JSON_TYPE BEARER,
            "{\"level\":\"debug\"}", 403, "admin.allowed_hosts");
        json_decref(
            admin_rig_json(&rig, "GET", "/livez", "Host: relay.example.com:80\r\n", NULL, 200));
        expect_refused("POST", "/api/log", BEARER, "{}", 415, "application/json");
        expect_refused("POST", "/api/log", BEARER "Content-Type: text/plain\r\n", "{}", 415,
            "application/json");
        expect_refused("POST", "/api/log", JSON_TYPE BEARER, "{", 400, "JSON object: ");
        expect_refused("POST", "/api/log", JSON_TYPE BEARER, "[1]", 400, "JSON object");
        expect_refused("POST", "/api/log", JSON_TYPE BEARER, "{\"level\":\"loud\"}", 400, "debug");
        expect_refused("POST", "/api/log", JSON_TYPE BEARER, "{\"levels\":\"info\"}", 400,
            "unknown member \"levels\"");
        expect_refused("POST", "/api/log", JSON_TYPE BEARER, huge, 413, "64 KiB");
        expect_refused("POST", "/api/sinks/nobody/pause", JSON_TYPE BEARER, "{}", 404, "no sink");
        expect_refused("GET", "/api/events?sink=nobody", NULL, NULL, 404, "no sink");
        expect_refused("POST", "/api/sinks/out/pause", JSON_TYPE BEARER, "{\"reason\":\"a\\nb\"}",
            400, "one line");
        expect_refused("POST", "/api/dead/drop", JSON_TYPE BEARER, "{}", 400, "the body must name");
        expect_refused("POST", "/api/dead/drop", JSON_TYPE BEARER, "{\"sink\":\"out\"}", 400,
            "the body must name");
        expect_refused("POST", "/api/dead/drop", JSON_TYPE BEARER, "{\"ids\":[1,\"2\"]}", 400,
            "the body must name");
        expect_refused("GET", "/api/dead?limit=0", NULL, NULL, 400, "limit must be");
        free(huge);
}

Test(admin_routes, are_reached_by_a_unix_socket_that_goes_with_the_relay)
{
        char *folder = temp_folder();
        char *listen = xasprintf("unix:%s/admin.sock", folder);
        struct stat status;

        start(listen, "");
        cr_assert_eq(stat(listen + 5, &status), 0);
        cr_expect_eq(status.st_mode & 07777, 0660);
        json_decref(admin_rig_json(&rig, "GET", "/livez", NULL, NULL, 200));
        expect_output(program_run(NULL, "health", "-c", rig.relay->config_path, NULL), "live\n");

        /* A relay that was killed leaves it, and the next one replaces it. */
        relay_kill(rig.relay);
        cr_assert_eq(access(listen + 5, F_OK), 0);
        relay_start_again(rig.relay);
        relay_wait_for_log(rig.relay, "event=admin_listening", 20000);
        json_decref(admin_rig_json(&rig, "GET", "/livez", NULL, NULL, 200));
        relay_stop(rig.relay);
        cr_expect_neq(access(listen + 5, F_OK), 0, "the socket is still there");
        free(listen);
        free(folder);
}

Test(admin_routes, serve_the_page_with_a_policy_that_lets_nothing_else_in)
{
        struct http_reply reply;

        start("127.0.0.1", "");

        reply = http_ask(rig.address, "GET", "/", NULL, NULL);
        cr_expect_eq(reply.status, 200);
        cr_expect_not_null(strstr(reply.head, "Content-Type: text/html; charset=utf-8\r\n"));
        cr_expect_not_null(strstr(reply.head, "frame-ancestors 'none'"));
        cr_expect_null(strstr(reply.head, "unsafe-"), "%s", reply.head);
        cr_expect_not_null(strstr(reply.body, "<title>pgcourier"), "%s", reply.body);
        http_reply_free(&reply);
}

/* Kept connections that a real server closes behind our back: after a short idle time, and when it
 * is told to read its configuration anew. None may cost an event an attempt. */
#include "http_fixture.h"

#include "base/alloc.h"
#include "support/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define N_PARALLEL 20

static struct {
        struct process process;
        uint16_t port;
        char *folder;
} nginx;

static void write_config(const char *path, const char *keepalive)
{
        FILE *file = fopen(path, "w");

        cr_assert(file != NULL);
        fprintf(file,
            "daemon off;\nworker_processes 2;\npid %1$s/pid;\nerror_log %1$s/error.log;\n"
            "events {}\n"
            "http {\n"
            "  access_log off;\n"
            "  client_body_temp_path %1$s/body;\n  proxy_temp_path %1$s/proxy;\n"
            "  fastcgi_temp_path %1$s/fastcgi;\n  uwsgi_temp_path %1$s/uwsgi;\n"
            "  scgi_temp_path %1$s/scgi;\n"
            "  server {\n"
            "    listen 127.0.0.1:%2$u;\n    keepalive_timeout %3$s;\n"
            "    location / { return 204; }\n"
            "  }\n"
            "}\n",
            nginx.folder, nginx.port, keepalive);
        fclose(file);
}

static bool accepts(void *context)
{
        (void)context;
        if (!process_is_running(&nginx.process)) {
                char *path = xasprintf("%s/out.log", nginx.folder);
                test_abort("nginx ended at once: %s", read_file(path));
        }
        return port_accepts(nginx.port);
}

static void start_nginx(const char *keepalive)
{
        char *path;
        char *output;

        nginx.folder = temp_folder();
        nginx.port = free_port();
        path = xasprintf("%s/nginx.conf", nginx.folder);
        output = xasprintf("%s/out.log", nginx.folder);
        write_config(path, keepalive);
        process_start(&nginx.process,
            (const char *const[]){
                "/usr/sbin/nginx", "-p", nginx.folder, "-e", output, "-c", path, NULL},
            output, true);
        wait_until(accepts, NULL, 20000, "nginx does not listen");
        free(path);
        free(output);
}

static void stop_nginx(void)
{
        process_stop(&nginx.process);
        free(nginx.folder);
}

static void begin(struct http_fixture *fixture)
{
        http_fixture_init(fixture);
        snprintf(fixture->url, sizeof fixture->url, "http://127.0.0.1:%u/", nginx.port);
        fixture->concurrency = N_PARALLEL;
        http_fixture_open(fixture);
}

static void burst(struct http_fixture *fixture)
{
        const struct event event = json_event("{\"n\": 1}");

        for (int i = 0; i < N_PARALLEL; i++)
                sink_driver_start(&fixture->driver, &event);
        sink_driver_finish(&fixture->driver);
}

static void expect_all_delivered(struct http_fixture *fixture)
{
        for (size_t i = 0; i < fixture->driver.n_started; i++)
                expect_outcome(fixture->driver.attempts[i].outcome, OUTCOME_DELIVERED);
}

/* No connection from or to the server's port is established any more: it has closed them all. */
static bool has_closed_all(void *context)
{
        FILE *file = fopen("/proc/net/tcp", "r");
        unsigned n_established = 0;
        char line[512];

        (void)context;
        cr_assert(file != NULL);
        while (fgets(line, sizeof line, file) != NULL) {
                unsigned port;
                unsigned state;
                if (sscanf(line, " %*d: %*8x:%x %*8x:%*x %x", &port, &state) == 2 &&
                    port == nginx.port && state == 1)
                        n_established++;
        }
        fclose(file);
        return n_established == 0;
}

HTTP_TEST(http_sink_nginx, charges_no_attempt_for_connections_closed_while_idle)
{
        enum { N_ROUNDS = 3 };
        struct http_fixture fixture;

        start_nginx("200ms");
        begin(&fixture);
        for (int round = 0; round < N_ROUNDS; round++) {
                burst(&fixture);
                /* Once with the loop standing still, so that libcurl hears of it all at once. */
                if (round == 0)
                        wait_until(has_closed_all, NULL, 20000, "nginx keeps its connections");
                else
                        sink_driver_run_until(
                            &fixture.driver, has_closed_all, NULL, "nginx to close all");
        }
        expect_all_delivered(&fixture);
        http_fixture_end(&fixture);
        stop_nginx();
}

/* Closed so soon that requests and closings cross. */
HTTP_TEST(http_sink_nginx, charges_no_attempt_for_connections_closed_under_a_request)
{
        enum { N_ROUNDS = 30 };
        struct http_fixture fixture;

        start_nginx("5ms");
        begin(&fixture);
        for (int round = 0; round < N_ROUNDS; round++)
                burst(&fixture);
        expect_all_delivered(&fixture);
        http_fixture_end(&fixture);
        stop_nginx();
}

HTTP_TEST(http_sink_nginx, charges_no_attempt_while_the_server_is_reloaded)
{
        enum { N_RELOADS = 5, N_BURSTS = 10 };
        struct http_fixture fixture;

        start_nginx("60s");
        begin(&fixture);
        for (int reload = 0; reload < N_RELOADS; reload++) {
                process_signal(&nginx.process, SIGHUP);
                for (int i = 0; i < N_BURSTS; i++)
                        burst(&fixture);
        }
        expect_all_delivered(&fixture);
        http_fixture_end(&fixture);
        stop_nginx();
}

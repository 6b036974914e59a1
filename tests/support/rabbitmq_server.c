/*
 * Without the package's wrapper, which changes the user, and by RUNNING_UNDER_SYSTEMD without the
 * shell around the node: the child is the node itself, so signals reach it. epmd is a child, too;
 * started by the node, it would outlive the test. erl_call speaks to the node in some 10 ms, where
 * rabbitmqctl takes most of a second.
 */
#include "support/rabbitmq_server.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COOKIE "pgcouriertest"

enum { START_MS = 240000 };

static void run(const char *const *argv)
{
        if (process_run(argv, NULL, true) != 0)
                test_abort("%s %s fails", argv[0], argv[1]);
}

/* Signed by ca.pem. */
static void make_certificate(const char *folder, const char *name, const char *subject)
{
        char *script =
            xasprintf("cd '%s' && exec 2>/dev/null && openssl req -new -newkey ec "
                      "-pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=%s' "
                      "-addext subjectAltName=DNS:localhost -keyout %s-key.pem -out %s.csr && "
                      "openssl x509 -req -in %s.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial "
                      "-copy_extensions copy -days 2 -out %s.pem && chmod a+r *",
                folder, subject, name, name, name, name);

        run((const char *const[]){"sh", "-c", script, NULL});
        free(script);
}

static char *make_certificates(void)
{
        char *folder = temp_folder();
        char *script = xasprintf("cd '%s' && exec 2>/dev/null && openssl req -x509 -newkey ec "
                                 "-pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=test CA' "
                                 "-days 2 -keyout ca-key.pem -out ca.pem",
            folder);

        run((const char *const[]){"sh", "-c", script, NULL});
        free(script);
        make_certificate(folder, "server", "localhost");
        make_certificate(folder, "client", "client");
        return folder;
}

static void write_files(const struct rabbitmq_server *server)
{
        char path[160];
        char text[2048];

        snprintf(path, sizeof path, "%s/plugins", server->folder);
        replace_file(path, "[rabbitmq_auth_mechanism_ssl].\n");
        snprintf(path, sizeof path, "%s/rabbitmq.conf", server->folder);
        snprintf(text, sizeof text,
            "listeners.tcp.local = 127.0.0.1:%u\n"
            "listeners.ssl.local = 127.0.0.1:%u\n"
            "ssl_options.cacertfile = %s/ca.pem\n"
            "ssl_options.certfile = %s/server.pem\n"
            "ssl_options.keyfile = %s/server-key.pem\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
            "ssl_cert_login_from = common_name\n"
            "auth_mechanisms.1 = PLAIN\n"
            "auth_mechanisms.2 = EXTERNAL\n"
            "vm_memory_high_watermark.absolute = 4GB\n"
            "disk_free_limit.absolute = 1MB\n"
            "log.file.level = info\n",
            server->port, server->tls_port, server->certificates, server->certificates,
            server->certificates);
        replace_file(path, text);
}

static void start_epmd(struct rabbitmq_server *server)
{
        char port[8];

        server->epmd_port = free_port();
        snprintf(port, sizeof port, "%u", server->epmd_port);
        process_start(&server->epmd,
            (const char *const[]){"epmd", "-port", port, "-address", "127.0.0.1", NULL}, NULL,
            true);
}

static char *start_script(const struct rabbitmq_server *server)
{
        const char *folder = server->folder;

        return xasprintf(
            "export RABBITMQ_NODENAME=%s RABBITMQ_MNESIA_BASE=%s/mnesia RABBITMQ_LOG_BASE=%s/log "
            "RABBITMQ_CONFIG_FILE=%s/rabbitmq.conf RABBITMQ_ENABLED_PLUGINS_FILE=%s/plugins "
            "RABBITMQ_DIST_PORT=%u RABBITMQ_PID_FILE=%s/pid HOME=%s ERL_EPMD_PORT=%u "
            "ERL_EPMD_ADDRESS=127.0.0.1 RUNNING_UNDER_SYSTEMD=true RABBITMQ_CONF_ENV_FILE=%s/none "
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 2:2 +sbwt none -setcookie " COOKIE "%s'; "
            "cd %s; exec $(ls -d /usr/lib/rabbitmq/lib/rabbitmq_server-*)/sbin/rabbitmq-server",
            server->name, folder, folder, folder, folder, server->dist_port, folder, folder,
            server->epmd_port, folder, server->peers, folder);
}

void rabbitmq_server_restart_soon(struct rabbitmq_server *server)
{
        char log_path[160];
        char *script = start_script(server);

        snprintf(log_path, sizeof log_path, "%s/log.txt", server->folder);
        process_start(
            &server->process, (const char *const[]){"sh", "-c", script, NULL}, log_path, true);
        free(script);
}

static bool has_started(void *server_)
{
        struct rabbitmq_server *server = server_;
        char path[160];

        if (!process_is_running(&server->process)) {
                snprintf(path, sizeof path, "%s/log.txt", server->folder);
                test_abort("rabbitmq-server ended at once: %s", read_file(path));
        }
        return port_accepts(server->tls_port) && port_accepts(server->port);
}

void rabbitmq_server_wait(struct rabbitmq_server *server)
{
        wait_until(has_started, server, START_MS, "rabbitmq-server does not answer");
}

void rabbitmq_server_restart(struct rabbitmq_server *server)
{
        rabbitmq_server_restart_soon(server);
        rabbitmq_server_wait(server);
}

static void prepare(struct rabbitmq_server *server, const char *name)
{
        *server = (struct rabbitmq_server){.folder = temp_folder(),
            .certificates = make_certificates(),
            .port = free_port(),
            .tls_port = free_port(),
            .dist_port = free_port()};
        snprintf(server->name, sizeof server->name, "%s@localhost", name);
        write_files(server);
}

void rabbitmq_server_start_soon(struct rabbitmq_server *server)
{
        prepare(server, "single");
        start_epmd(server);
        rabbitmq_server_restart_soon(server);
}

void rabbitmq_server_start(struct rabbitmq_server *server)
{
        rabbitmq_server_start_soon(server);
        rabbitmq_server_wait(server);
}

static bool has_all_nodes(void *server)
{
        char *answer = rabbitmq_eval(server, "length(rabbit_nodes:all_running())");
        bool has_all = strcmp(answer, "3") == 0;

        free(answer);
        return has_all;
}

void rabbitmq_cluster_start(struct rabbitmq_server nodes[3])
{
        static const char *const names[] = {"one", "two", "three"};

        for (int i = 0; i < 3; i++) {
                prepare(&nodes[i], names[i]);
                snprintf(nodes[i].peers, sizeof nodes[i].peers,
                    " -rabbit cluster_nodes {[one@localhost],disc}");
                if (i == 0)
                        start_epmd(&nodes[0]);
                nodes[i].epmd_port = nodes[0].epmd_port;
                rabbitmq_server_restart_soon(&nodes[i]);
                if (i == 0)
                        rabbitmq_server_wait(&nodes[0]); /* the others join it */
        }
        rabbitmq_server_wait(&nodes[1]);
        rabbitmq_server_wait(&nodes[2]);
        wait_until(has_all_nodes, &nodes[0], START_MS, "the nodes make no cluster");
}

void rabbitmq_server_kill(struct rabbitmq_server *server)
{
        process_kill(&server->process);
}

void rabbitmq_server_pause(struct rabbitmq_server *server)
{
        process_signal(&server->process, SIGSTOP);
}

void rabbitmq_server_resume(struct rabbitmq_server *server)
{
        process_signal(&server->process, SIGCONT);
}

void rabbitmq_server_destroy(struct rabbitmq_server *server)
{
        process_kill(&server->process);
        if (server->epmd.pid != 0)
                process_kill(&server->epmd);
        free(server->folder);
        free(server->certificates);
}

/* For what is written and read at once. A test's processes must not share it. */
static const char *scratch(void)
{
        static char *folder;
        static pid_t owner;

        if (owner != getpid())
                folder = temp_folder();
        owner = getpid();
        return folder;
}

struct call {
        const char *script;
        const char *path;
        char *answer;
};

/* A node refuses a caller while it still sees one of the same name, the call before, leave. */
static bool is_let_in(void *context)
{
        struct call *call = context;

        free(call->answer);
        (void)unlink(call->path);
        (void)process_run((const char *const[]){"sh", "-c", call->script, NULL}, call->path, false);
        call->answer = read_file(call->path);
        return strstr(call->answer, "failed to connect") == NULL;
}

/* erl_call reads expressions, and prints {ok, VALUE} or {error, REASON}. */
static char *eval(const struct rabbitmq_server *server, const char *expression)
{
        const char *folder = scratch();
        char *path = xasprintf("%s/answer", folder);
        char *input = xasprintf("%s/expression", folder);
        char *line = xasprintf("%s.\n", expression);
        char *script =
            xasprintf("ERL_EPMD_PORT=%u HOME=%s exec erl_call -c " COOKIE " -n %s -e <%s",
                server->epmd_port, folder, server->name, input);
        struct call call;
        char *answer;
        size_t length;

        replace_file(input, line);
        call = (struct call){.script = script, .path = path};
        wait_until(is_let_in, &call, START_MS, "RabbitMQ's node lets erl_call in");
        answer = call.answer;
        length = strlen(answer);
        if (strncmp(answer, "{ok, ", 5) != 0 || length < 6)
                test_abort("erl_call says '%s' to %s", answer, expression);
        memmove(answer, answer + 5, length - 5);
        answer[length - 6] = '\0';
        free(script);
        free(line);
        free(input);
        free(path);
        return answer;
}

char *rabbitmq_eval(const struct rabbitmq_server *server, const char *format, ...)
{
        va_list arguments;
        char *expression;
        char *answer;

        va_start(arguments, format);
        expression = xvasprintf(format, arguments);
        va_end(arguments);
        answer = eval(server, expression);
        free(expression);
        return answer;
}

void rabbitmq_do(const struct rabbitmq_server *server, const char *format, ...)
{
        va_list arguments;
        char *expression;

        va_start(arguments, format);
        expression = xvasprintf(format, arguments);
        va_end(arguments);
        free(eval(server, expression));
        free(expression);
}

void rabbitmq_make_vhost(const struct rabbitmq_server *server, const char *vhost)
{
        rabbitmq_do(server,
            "_ = rabbit_vhost:add(<<\"%s\">>, <<\"test\">>), "
            "ok = rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"%s\">>, "
            "<<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"test\">>)",
            vhost, vhost);
}

void rabbitmq_make_exchange(
    const struct rabbitmq_server *server, const char *vhost, const char *name, const char *type)
{
        rabbitmq_do(server,
            "case rabbit_exchange:declare("
            "rabbit_misc:r(<<\"%s\">>, exchange, <<\"%s\">>), %s, true, false, false, [], "
            "<<\"test\">>) of {ok, _} -> ok; Made -> exchange = element(1, Made) end",
            vhost, name, type);
}

/* RabbitMQ 3.10 saves where a quorum queue has its log only every 5 s. If it is killed before, the
 * queue begins anew, without what it had confirmed; so that is saved here. */
void rabbitmq_make_queue(const struct rabbitmq_server *server, const char *vhost, const char *name,
    const char *arguments)
{
        rabbitmq_do(server,
            "begin new = element(1, rabbit_amqqueue:declare("
            "rabbit_misc:r(<<\"%s\">>, queue, <<\"%s\">>), true, false, [%s], none, "
            "<<\"test\">>)), "
            "[ok = dets:sync(Table) || Table <- dets:all()] end",
            vhost, name, arguments);
}

/* Nor does it save at once what was declared: with the binding that is done. */
void rabbitmq_bind(const struct rabbitmq_server *server, const char *vhost, const char *exchange,
    const char *queue, const char *routing_key)
{
        rabbitmq_do(server,
            "ok = rabbit_binding:add({binding, rabbit_misc:r(<<\"%s\">>, exchange, <<\"%s\">>), "
            "<<\"%s\">>, rabbit_misc:r(<<\"%s\">>, queue, <<\"%s\">>), []}, "
            "fun(_, _) -> ok end, <<\"test\">>), ok = mnesia:sync_log()",
            vhost, exchange, routing_key, vhost, queue);
}

char *rabbitmq_drain(
    const struct rabbitmq_server *server, const char *vhost, const char *queue, int n)
{
        char *path = xasprintf("%s/messages", scratch());
        char port[8];
        char number[16];
        char *messages;

        (void)unlink(path);
        snprintf(port, sizeof port, "%u", server->port);
        if (n == RABBITMQ_ALL)
                snprintf(number, sizeof number, "all");
        else
                snprintf(number, sizeof number, "%d", n);
        if (process_run((const char *const[]){"/usr/bin/python3",
                            PGCOURIER_SUPPORT_FOLDER "/rabbitmq_drain.py", port, vhost, queue,
                            number, NULL},
                path, false) != 0)
                test_abort("pika does not find %d messages in %s: %s", n, queue, read_file(path));
        messages = read_file(path);
        free(path);
        return messages;
}

void rabbitmq_set_alarm(const struct rabbitmq_server *server, bool is_short)
{
        if (is_short)
                rabbitmq_do(
                    server, "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})");
        else
                rabbitmq_do(server, "rabbit_alarm:clear_alarm({resource_limit, memory, node()})");
}

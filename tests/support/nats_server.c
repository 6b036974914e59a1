/* The connection is blocking, reads by the byte, and knows only what it needs of the protocol. */
#include "support/nats_server.h"

#include "base/alloc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { LINE_BYTES = 64 * 1024 };

struct talk {
        int socket;
        char line[LINE_BYTES];
};

static bool read_byte(struct talk *talk, char *out)
{
        return recv(talk->socket, out, 1, 0) == 1;
}

static bool read_line(struct talk *talk)
{
        size_t n = 0;

        while (n + 1 < sizeof talk->line && read_byte(talk, &talk->line[n]))
                if (talk->line[n++] == '\n') {
                        talk->line[n] = '\0';
                        return true;
                }
        return false;
}

static bool say(struct talk *talk, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool say(struct talk *talk, const char *format, ...)
{
        va_list arguments;
        char *text;
        bool is_said;

        va_start(arguments, format);
        text = xvasprintf(format, arguments);
        va_end(arguments);
        is_said = send(talk->socket, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
        free(text);
        return is_said;
}

static bool await(struct talk *talk, const char *word)
{
        while (read_line(talk)) {
                if (strncmp(talk->line, word, strlen(word)) == 0)
                        return true;
                if (strncmp(talk->line, "PING", 4) == 0 && !say(talk, "PONG\r\n"))
                        return false;
        }
        return false;
}

static bool open_talk(struct talk *talk, const struct nats_server *server)
{
        const struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(server->port),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const struct timeval limit = {.tv_sec = 10};

        talk->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(talk->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        return connect(talk->socket, (const struct sockaddr *)&address, sizeof address) == 0 &&
               await(talk, "INFO") &&
               say(talk,
                   "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true%s%s}\r\n"
                   "SUB rig.inbox 1\r\nPING\r\n",
                   server->login != NULL ? "," : "", server->login != NULL ? server->login : "") &&
               await(talk, "PONG");
}

/* NULL without an answer. The text of the payload. */
static char *ask(const struct nats_server *server, const char *subject, const char *body)
{
        struct talk *talk = xcalloc(1, sizeof *talk);
        char *answer = NULL;
        size_t n_read = 0;
        size_t n;

        if (open_talk(talk, server) &&
            say(talk, "PUB %s rig.inbox %zu\r\n%s\r\n", subject, strlen(body), body) &&
            await(talk, "MSG")) {
                n = strtoul(strrchr(talk->line, ' '), NULL, 10);
                answer = xcalloc(1, n + 1);
                while (n_read < n && read_byte(talk, answer + n_read))
                        n_read++;
        }
        close(talk->socket);
        free(talk);
        return answer;
}

json_t *nats_server_ask(struct nats_server *server, const char *subject, const char *body)
{
        char *whole = xasprintf("$JS.API.%s", subject);
        char *answer = ask(server, whole, body);
        json_t *object = answer != NULL ? json_loads(answer, 0, NULL) : NULL;

        if (object == NULL)
                test_abort("no answer to %s %s", subject, body);
        free(whole);
        free(answer);
        return object;
}

static bool answers(void *server_)
{
        struct nats_server *server = server_;
        char *answer;

        if (!process_is_running(&server->process)) {
                char *path = xasprintf("%s/log.txt", server->folder);
                test_abort("nats-server ended at once: %s", read_file(path));
        }
        if (!port_accepts(server->port))
                return false;
        if (strstr(server->config, "jetstream: disabled") != NULL ||
            strstr(server->config, "tls {") != NULL ||
            (server->login == NULL && strstr(server->config, "authorization") != NULL) ||
            strstr(server->config, "operator:") != NULL)
                return true; /* the rig cannot ask it */
        answer = ask(server, "$JS.API.INFO", "");
        free(answer);
        return answer != NULL;
}

static void start(struct nats_server *server)
{
        char *config_path = xasprintf("%s/nats.conf", server->folder);
        char *log_path = xasprintf("%s/log.txt", server->folder);
        const char *const argv[] = {"nats-server", "-c", config_path, NULL};

        replace_file(config_path, server->config);
        process_start(&server->process, argv, log_path, true);
        free(config_path);
        free(log_path);
}

void nats_server_restart(struct nats_server *server)
{
        start(server);
        wait_until(answers, server, 120000, "nats-server does not answer");
}

static char *make_config(const struct nats_server *server, const char *more)
{
        bool has_jetstream = more != NULL && strstr(more, "jetstream:") != NULL;
        char *jetstream = has_jetstream ? xstrdup("")
                                        : xasprintf("jetstream { store_dir: \"%s/store\", "
                                                    "max_mem: 64MB, max_file: 1GB }\n",
                                              server->folder);
        char *config = xasprintf("listen: 127.0.0.1:%u\nserver_name: n%u\nlame_duck_duration: 30s\n"
                                 "lame_duck_grace_period: 2s\npid_file: \"%s/pid\"\n%s%s\n",
            server->port, server->port, server->folder, jetstream, more != NULL ? more : "");

        free(jetstream);
        return config;
}

void nats_server_start_as(struct nats_server *server, const char *config, const char *login)
{
        *server =
            (struct nats_server){.folder = temp_folder(), .port = free_port(), .login = login};
        server->config = make_config(server, config);
        nats_server_restart(server);
}

void nats_server_start(struct nats_server *server, const char *config)
{
        nats_server_start_as(server, config, NULL);
}

void nats_server_kill(struct nats_server *server)
{
        process_kill(&server->process);
}

static unsigned count_reloads(const struct nats_server *server)
{
        char *path = xasprintf("%s/log.txt", server->folder);
        char *log = read_file(path);
        unsigned n = 0;

        for (const char *at = log; (at = strstr(at, "Reloaded server configuration")) != NULL; at++)
                n++;
        free(log);
        free(path);
        return n;
}

struct reload {
        const struct nats_server *server;
        unsigned n_before;
};

static bool is_reloaded(void *context)
{
        const struct reload *reload = context;

        return count_reloads(reload->server) > reload->n_before;
}

void nats_server_reload(struct nats_server *server, const char *config)
{
        struct reload reload = {server, count_reloads(server)};
        char *path = xasprintf("%s/nats.conf", server->folder);

        free(server->config);
        server->config = make_config(server, config);
        replace_file(path, server->config);
        process_signal(&server->process, SIGHUP);
        wait_until(is_reloaded, &reload, 10000, "nats-server does not reload its configuration");
        free(path);
}

void nats_server_pause(struct nats_server *server)
{
        process_signal(&server->process, SIGSTOP);
}

void nats_server_resume(struct nats_server *server)
{
        process_signal(&server->process, SIGCONT);
}

void nats_server_retire(struct nats_server *server)
{
        process_signal(&server->process, SIGUSR2);
}

void nats_server_destroy(struct nats_server *server)
{
        process_kill(&server->process);
        free(server->folder);
        free(server->config);
}

/* True once each of them knows a leader of JetStream. */
static bool has_leader(void *nodes_)
{
        struct nats_server *nodes = nodes_;

        for (unsigned i = 0; i < NATS_CLUSTER_NODES; i++) {
                char *answer = ask(&nodes[i], "$JS.API.INFO", "");
                bool is_ready = answer != NULL && strstr(answer, "\"error\"") == NULL;

                free(answer);
                if (!is_ready)
                        return false;
        }
        return true;
}

void nats_cluster_start(struct nats_server nodes[NATS_CLUSTER_NODES], const char *config)
{
        uint16_t routes[NATS_CLUSTER_NODES];

        for (unsigned i = 0; i < NATS_CLUSTER_NODES; i++) {
                nodes[i] = (struct nats_server){.folder = temp_folder(), .port = free_port()};
                routes[i] = free_port();
        }
        for (unsigned i = 0; i < NATS_CLUSTER_NODES; i++) {
                char *more = xasprintf("cluster { name: c, listen: 127.0.0.1:%u, routes: "
                                       "[nats://127.0.0.1:%u, nats://127.0.0.1:%u] }\n%s",
                    routes[i], routes[(i + 1) % NATS_CLUSTER_NODES],
                    routes[(i + 2) % NATS_CLUSTER_NODES], config != NULL ? config : "");
                nodes[i].config = make_config(&nodes[i], more);
                start(&nodes[i]);
                free(more);
        }
        wait_until(has_leader, nodes, 120000, "the cluster has no leader");
}

void nats_server_make_stream(
    struct nats_server *server, const char *name, const char *subjects, const char *more)
{
        char *subject = xasprintf("STREAM.CREATE.%s", name);
        char *body = xasprintf("{\"name\":\"%s\",\"subjects\":[\"%s\"],\"retention\":\"limits\","
                               "\"storage\":\"file\"%s}",
            name, subjects, more != NULL ? more : "");
        json_t *answer = nats_server_ask(server, subject, body);

        if (json_object_get(answer, "error") != NULL)
                test_abort("%s: %s", body, json_dumps(answer, 0));
        json_decref(answer);
        free(subject);
        free(body);
}

long long nats_server_count(struct nats_server *server, const char *stream)
{
        char *subject = xasprintf("STREAM.INFO.%s", stream);
        json_t *answer = nats_server_ask(server, subject, "");
        const json_t *state = json_object_get(answer, "state");
        long long n = json_integer_value(json_object_get(state, "messages"));

        if (state == NULL)
                test_abort("%s: %s", subject, json_dumps(answer, 0));
        json_decref(answer);
        free(subject);
        return n;
}

static char *decode(const json_t *value, size_t *out_length)
{
        const char *base64 = json_is_string(value) ? json_string_value(value) : "";
        size_t length = strlen(base64);
        char *text = xcalloc(1, length + 1);
        int n = EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64, (int)length);

        while (length > 0 && base64[--length] == '=')
                n--;
        *out_length = n > 0 ? (size_t)n : 0;
        text[*out_length] = '\0';
        return text;
}

bool nats_server_read(
    struct nats_server *server, const char *stream, long long number, struct nats_stored *out)
{
        char *subject = xasprintf("STREAM.MSG.GET.%s", stream);
        char *body = xasprintf("{\"seq\":%lld}", number);
        json_t *answer = nats_server_ask(server, subject, body);
        const json_t *message = json_object_get(answer, "message");
        size_t n;

        if (message != NULL) {
                out->subject = xstrdup(json_string_value(json_object_get(message, "subject")));
                out->headers = decode(json_object_get(message, "hdrs"), &n);
                out->payload = decode(json_object_get(message, "data"), &out->payload_bytes);
        }
        json_decref(answer);
        free(subject);
        free(body);
        return message != NULL;
}

void nats_stored_deinit(struct nats_stored *stored)
{
        free(stored->subject);
        free(stored->headers);
        free(stored->payload);
}

char *nats_stored_header(const struct nats_stored *stored, const char *name)
{
        size_t length = strlen(name);

        for (const char *line = strchr(stored->headers, '\n'); line != NULL;
             line = strchr(line, '\n')) {
                line++;
                if (strncmp(line, name, length) == 0 && strncmp(line + length, ": ", 2) == 0)
                        return xstrndup(line + length + 2, strcspn(line + length + 2, "\r"));
        }
        return NULL;
}

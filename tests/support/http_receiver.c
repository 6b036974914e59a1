#include "support/http_receiver.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "support/process.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define MAX_SCRIPTED 64

struct http_receiver {
        struct MHD_Daemon *daemon; /* NULL while stopped */
        uint16_t port;
        char *certificate; /* NULL: no TLS */
        char *key;
        http_decide_fn *decide; /* NULL: as told */
        void *decide_context;   /* borrowed */

        pthread_mutex_t lock;   /* of everything below */
        pthread_cond_t changed; /* released, stopping */
        bool is_released;
        bool is_stopping;
        struct http_answer usual;
        struct http_answer scripted[MAX_SCRIPTED];
        unsigned n_scripted;
        unsigned n_script_used;
        struct http_request **requests;
        unsigned n_requests;
        unsigned n_connections;
        unsigned n_dripped;
        unsigned n_flooded;
        bool closes_by_reset;
};

/* A request while it comes in, and its answer's body while that goes out. */
struct incoming {
        struct http_receiver *receiver;
        char *target;
        struct bytes body;
};

static void lock(struct http_receiver *receiver)
{
        pthread_mutex_lock(&receiver->lock);
}

static void unlock(struct http_receiver *receiver)
{
        pthread_mutex_unlock(&receiver->lock);
}

static enum MHD_Result on_header(
    void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
        (void)kind;
        bytes_printf(context, "%s: %s\n", name, value != NULL ? value : "");
        return MHD_YES;
}

static void free_request(struct http_request *request)
{
        free(request->method);
        free(request->target);
        free(request->header_lines);
        free(request->body);
        free(request);
}

static struct http_request *complete(
    struct incoming *incoming, struct MHD_Connection *connection, const char *method)
{
        struct http_request *request = xcalloc(1, sizeof *request);
        struct bytes headers = {0};

        bytes_append_text(&headers, "");
        bytes_append_text(&incoming->body, "");
        MHD_get_connection_values(connection, MHD_HEADER_KIND, on_header, &headers);
        request->method = xstrdup(method);
        request->target = xstrdup(incoming->target);
        request->header_lines = headers.data;
        request->body = incoming->body.data;
        request->body_bytes = incoming->body.length;
        incoming->body = (struct bytes){0};
        return request;
}

/* Takes the request; locked. */
static struct http_answer record(struct http_receiver *receiver, struct http_request *request)
{
        receiver->requests =
            xrealloc(receiver->requests, (receiver->n_requests + 1) * sizeof *receiver->requests);
        receiver->requests[receiver->n_requests++] = request;
        return receiver->n_script_used < receiver->n_scripted
                   ? receiver->scripted[receiver->n_script_used++]
                   : receiver->usual;
}

/* Takes the request. Also waits while the answer is held. */
static struct http_answer answer_to(struct http_receiver *receiver, struct http_request *request)
{
        struct http_answer answer;

        if (receiver->decide != NULL) {
                answer = receiver->decide(receiver->decide_context, request);
                free_request(request);
        }
        lock(receiver);
        if (receiver->decide == NULL)
                answer = record(receiver, request);
        while (answer.is_held && !receiver->is_released && !receiver->is_stopping)
                pthread_cond_wait(&receiver->changed, &receiver->lock);
        unlock(receiver);
        return answer;
}

static ssize_t on_drip_wanted(void *context, uint64_t position, char *buffer, size_t size)
{
        struct http_receiver *receiver = context;
        struct timespec until;
        bool is_stopping;

        (void)position;
        (void)size;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20 * 1000 * 1000;
        if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
        }
        lock(receiver);
        pthread_cond_timedwait(&receiver->changed, &receiver->lock, &until);
        is_stopping = receiver->is_stopping;
        receiver->n_dripped++;
        unlock(receiver);
        buffer[0] = '.';
        return is_stopping ? MHD_CONTENT_READER_END_WITH_ERROR : 1;
}

static ssize_t on_flood_wanted(void *context, uint64_t position, char *buffer, size_t size)
{
        struct http_receiver *receiver = context;
        bool is_stopping;

        (void)position;
        lock(receiver);
        is_stopping = receiver->is_stopping;
        receiver->n_flooded += (unsigned)size;
        unlock(receiver);
        memset(buffer, '~', size);
        return is_stopping ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)size;
}

/* The first half of what was announced, then the end of the connection. */
static ssize_t on_half_wanted(void *context, uint64_t position, char *buffer, size_t size)
{
        const char *body = context;
        size_t left = strlen(body) - (size_t)position;

        if (left == 0)
                return MHD_CONTENT_READER_END_WITH_ERROR;
        memcpy(buffer, body + position, left < size ? left : size);
        return (ssize_t)(left < size ? left : size);
}

static struct MHD_Response *response_of(
    struct http_receiver *receiver, const struct http_answer *answer)
{
        const char *body = answer->body != NULL ? answer->body : "";
        void *body_context = (void *)(uintptr_t)body;

        switch (answer->manner) {
        case ANSWER_NONE:
                return NULL;
        case ANSWER_WHOLE:
                return MHD_create_response_from_buffer(
                    strlen(body), body_context, MHD_RESPMEM_MUST_COPY);
        case ANSWER_HALF_BODY:
                return MHD_create_response_from_callback(
                    2 * strlen(body), 1024, on_half_wanted, body_context, NULL);
        case ANSWER_DRIPPING:
                return MHD_create_response_from_callback(
                    MHD_SIZE_UNKNOWN, 1024, on_drip_wanted, receiver, NULL);
        case ANSWER_FLOODING:
                return MHD_create_response_from_callback(
                    MHD_SIZE_UNKNOWN, 65536, on_flood_wanted, receiver, NULL);
        }
        abort();
}

static void add_header(struct MHD_Response *response, const char *line)
{
        const char *colon = strchr(line, ':');
        char *name;

        if (colon == NULL)
                test_abort("not a header: %s", line);
        name = xstrndup(line, (size_t)(colon - line));
        if (MHD_add_response_header(response, name, colon + 1 + strspn(colon + 1, " ")) != MHD_YES)
                test_abort("libmicrohttpd refuses the header: %s", line);
        free(name);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
    const char *method, const char *version, const char *data, size_t *data_bytes, void **state)
{
        struct incoming *incoming = *state;
        struct http_answer answer;
        struct MHD_Response *response;
        enum MHD_Result result;

        (void)url;
        (void)version;
        if (incoming->receiver == NULL) { /* the first of at least two calls: only headers so far */
                incoming->receiver = context;
                return MHD_YES;
        }
        if (*data_bytes > 0) {
                bytes_append(&incoming->body, data, *data_bytes);
                *data_bytes = 0;
                return MHD_YES;
        }
        answer = answer_to(context, complete(incoming, connection, method));
        response = response_of(context, &answer);
        if (response == NULL)
                return MHD_NO;
        for (size_t i = 0; i < sizeof answer.headers / sizeof answer.headers[0]; i++)
                if (answer.headers[i] != NULL)
                        add_header(response, answer.headers[i]);
        result = MHD_queue_response(
            connection, answer.status != 0 ? answer.status : MHD_HTTP_NO_CONTENT, response);
        MHD_destroy_response(response);
        return result;
}

/* The only place where libmicrohttpd shows the target with its query. */
static void *on_target(void *context, const char *target, struct MHD_Connection *connection)
{
        struct incoming *incoming = xcalloc(1, sizeof *incoming);

        (void)context;
        (void)connection;
        incoming->target = xstrdup(target);
        return incoming;
}

static void on_request_over(void *context, struct MHD_Connection *connection, void **state,
    enum MHD_RequestTerminationCode how)
{
        struct incoming *incoming = *state;

        (void)context;
        (void)connection;
        (void)how;
        if (incoming == NULL)
                return;
        bytes_deinit(&incoming->body);
        free(incoming->target);
        free(incoming);
        *state = NULL;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
    enum MHD_ConnectionNotificationCode what)
{
        const struct linger no_lingering = {.l_onoff = 1, .l_linger = 0};
        struct http_receiver *receiver = context;

        (void)state;
        if (what != MHD_CONNECTION_NOTIFY_STARTED)
                return;
        lock(receiver);
        receiver->n_connections++;
        if (receiver->closes_by_reset)
                setsockopt(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
                               ->connect_fd,
                    SOL_SOCKET, SO_LINGER, &no_lingering, sizeof no_lingering);
        unlock(receiver);
}

void http_receiver_restart(struct http_receiver *receiver)
{
        struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_port = htons(receiver->port),
            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, receiver->certificate},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, receiver->key}, {MHD_OPTION_END, 0, NULL}};
        const struct MHD_OptionItem *options = receiver->certificate != NULL ? tls : tls + 2;

        receiver->is_stopping = false;
        receiver->daemon =
            MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                                 (receiver->certificate != NULL ? MHD_USE_TLS : 0u),
                receiver->port, NULL, NULL, on_request, receiver, MHD_OPTION_SOCK_ADDR, &address,
                MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                (size_t)1 << 20, MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL,
                MHD_OPTION_NOTIFY_COMPLETED, on_request_over, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                on_connection, receiver, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
        if (receiver->daemon == NULL)
                test_abort("cannot serve HTTP on port %u", receiver->port);
}

static char *read_pem(const char *path)
{
        char *text = path != NULL ? read_file(path) : NULL;

        if (text != NULL && text[0] == '\0')
                test_abort("cannot read %s", path);
        return text;
}

struct http_receiver *http_receiver_start(const char *certificate_path, const char *key_path)
{
        struct http_receiver *receiver = xcalloc(1, sizeof *receiver);

        receiver->port = free_port();
        receiver->certificate = read_pem(certificate_path);
        receiver->key = read_pem(key_path);
        pthread_mutex_init(&receiver->lock, NULL);
        pthread_cond_init(&receiver->changed, NULL);
        http_receiver_restart(receiver);
        return receiver;
}

void http_receiver_stop(struct http_receiver *receiver)
{
        if (receiver->daemon == NULL)
                return;
        lock(receiver);
        receiver->is_stopping = true;
        pthread_cond_broadcast(&receiver->changed);
        unlock(receiver);
        MHD_stop_daemon(receiver->daemon);
        receiver->daemon = NULL;
}

void http_receiver_destroy(struct http_receiver *receiver)
{
        http_receiver_stop(receiver);
        for (unsigned i = 0; i < receiver->n_requests; i++)
                free_request(receiver->requests[i]);
        free(receiver->requests);
        free(receiver->certificate);
        free(receiver->key);
        pthread_cond_destroy(&receiver->changed);
        pthread_mutex_destroy(&receiver->lock);
        free(receiver);
}

uint16_t http_receiver_port(const struct http_receiver *receiver)
{
        return receiver->port;
}

void http_receiver_decide(struct http_receiver *receiver, http_decide_fn *decide, void *context)
{
        receiver->decide = decide;
        receiver->decide_context = context;
}

void http_receiver_hold(struct http_receiver *receiver)
{
        lock(receiver);
        receiver->is_released = false;
        unlock(receiver);
}

void http_receiver_answer(struct http_receiver *receiver, const struct http_answer *answer)
{
        lock(receiver);
        receiver->usual = *answer;
        receiver->is_released = false;
        unlock(receiver);
}

void http_receiver_answer_next(struct http_receiver *receiver, const struct http_answer *answer)
{
        lock(receiver);
        if (receiver->n_scripted == MAX_SCRIPTED)
                test_abort("more than %d scripted answers", MAX_SCRIPTED);
        receiver->scripted[receiver->n_scripted++] = *answer;
        receiver->is_released = false;
        unlock(receiver);
}

void http_receiver_release(struct http_receiver *receiver)
{
        lock(receiver);
        receiver->is_released = true;
        pthread_cond_broadcast(&receiver->changed);
        unlock(receiver);
}

void http_receiver_close_by_reset(struct http_receiver *receiver)
{
        lock(receiver);
        receiver->closes_by_reset = true;
        unlock(receiver);
}

static unsigned read_count(struct http_receiver *receiver, const unsigned *count)
{
        unsigned value;

        lock(receiver);
        value = *count;
        unlock(receiver);
        return value;
}

unsigned http_receiver_n_requests(struct http_receiver *receiver)
{
        return read_count(receiver, &receiver->n_requests);
}

unsigned http_receiver_n_connections(struct http_receiver *receiver)
{
        return read_count(receiver, &receiver->n_connections);
}

unsigned http_receiver_n_dripped(struct http_receiver *receiver)
{
        return read_count(receiver, &receiver->n_dripped);
}

unsigned http_receiver_n_flooded(struct http_receiver *receiver)
{
        return read_count(receiver, &receiver->n_flooded);
}

struct wanted {
        struct http_receiver *receiver;
        unsigned n_requests;
        const char *target;
};

static bool has_received(void *context)
{
        const struct wanted *wanted = context;

        return http_receiver_n_requests(wanted->receiver) >= wanted->n_requests;
}

void http_receiver_wait(struct http_receiver *receiver, unsigned n, int64_t deadline_ms)
{
        struct wanted wanted = {.receiver = receiver, .n_requests = n};
        char what[64];

        snprintf(what, sizeof what, "%u HTTP requests", n);
        wait_until(has_received, &wanted, deadline_ms, what);
}

unsigned http_receiver_count(struct http_receiver *receiver, const char *target)
{
        unsigned n = 0;

        for (unsigned i = 0, n_all = http_receiver_n_requests(receiver); i < n_all; i++)
                n += strcmp(http_receiver_request(receiver, i)->target, target) == 0;
        return n;
}

static bool has_received_for(void *context)
{
        const struct wanted *wanted = context;

        return http_receiver_count(wanted->receiver, wanted->target) >= wanted->n_requests;
}

void http_receiver_wait_for(
    struct http_receiver *receiver, const char *target, unsigned n, int64_t deadline_ms)
{
        struct wanted wanted = {.receiver = receiver, .n_requests = n, .target = target};

        wait_until(has_received_for, &wanted, deadline_ms, target);
}

const struct http_request *http_receiver_request(struct http_receiver *receiver, unsigned index)
{
        const struct http_request *request = NULL;

        lock(receiver);
        if (index < receiver->n_requests)
                request = receiver->requests[index];
        unlock(receiver);
        if (request == NULL)
                test_abort("there is no HTTP request of index %u", index);
        return request;
}

char *http_request_header(const struct http_request *request, const char *name)
{
        const size_t name_bytes = strlen(name);
        char *value = NULL;

        for (const char *line = request->header_lines; *line != '\0';) {
                const char *end = strchr(line, '\n');

                if (strncasecmp(line, name, name_bytes) == 0 && line[name_bytes] == ':') {
                        const char *text = line + name_bytes + 2;

                        if (value != NULL)
                                test_abort("the header %s came twice", name);
                        value = xstrndup(text, (size_t)(end - text));
                }
                line = end + 1;
        }
        return value;
}

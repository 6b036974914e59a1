/*
 * SWITCHES METHOD NUL PATH NUL HOST NUL AUTHORIZATION NUL TYPE NUL ARGUMENT NUL BODY: a request to
 * the admin endpoint. libmicrohttpd is left out: its calls are played by this file.
 */
#include "admin/admin_internal.h"
#include "admin/event_stream.h"
#include "admin/http/routes.h"
#include "fuzz.h"
#include "log/log.h"
#include "telemetry/telemetry.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN "0123456789abcdef"

enum { IS_PUBLIC = 1, HAS_TOKEN = 2, IS_TOO_LARGE = 4 };

struct http_call {
        char *method, *path, *host, *authorization, *type, *argument, *body;
        size_t body_length;
        bool is_too_large;
        unsigned n_answers;
        unsigned status;
};

/* What an operation was asked for, and a stream that was opened: both end when the route has
 * returned. */
static struct {
        unsigned n;
        admin_done_fn *on_done; /* NULL: it was answered at once */
        void *context;
} asked;
static struct {
        http_stream_ended_fn *on_ended; /* NULL: none */
        void *owner;
} opened;

const char *http_call_method(const struct http_call *request)
{
        return request->method;
}

const char *http_call_path(const struct http_call *request)
{
        return request->path;
}

const char *http_call_header(const struct http_call *request, const char *name)
{
        const char *value = strcasecmp(name, "Host") == 0            ? request->host
                            : strcasecmp(name, "Authorization") == 0 ? request->authorization
                            : strcasecmp(name, "Content-Type") == 0  ? request->type
                                                                     : "";

        return *value != '\0' ? value : NULL;
}

const char *http_call_argument(const struct http_call *request, const char *name)
{
        (void)name;
        return *request->argument != '\0' ? request->argument : NULL;
}

const char *http_call_body(const struct http_call *request, size_t *out_length)
{
        *out_length = request->body_length;
        return request->body;
}

bool http_call_is_too_large(const struct http_call *request)
{
        return request->is_too_large;
}

void http_call_answer(struct http_call *request, const struct http_answer *answer)
{
        request->n_answers++;
        request->status = answer->status;
}

struct http_stream *http_call_stream(struct http_call *request, const struct http_answer *answer,
    size_t max_waiting_bytes, http_stream_ended_fn *on_ended, void *owner)
{
        (void)max_waiting_bytes;
        http_call_answer(request, answer);
        opened.on_ended = on_ended;
        opened.owner = owner;
        return NULL;
}

void http_stream_write(struct http_stream *stream, const void *data, size_t length)
{
        (void)stream, (void)data, (void)length;
}

bool http_stream_is_read(const struct http_stream *stream)
{
        (void)stream;
        return true;
}

static const json_t *look(void *owner)
{
        (void)owner;
        return NULL;
}

static const char *look_failure(void *owner)
{
        (void)owner;
        return NULL;
}

static bool look_again(void *owner, admin_done_fn *on_done, void *context)
{
        (void)owner, (void)on_done, (void)context;
        return false;
}

static void ask(admin_done_fn *on_done, void *context)
{
        asked.n++;
        asked.on_done = on_done;
        asked.context = context;
}

static void pause_sink(
    void *owner, const char *sink, const char *reason, admin_done_fn *on_done, void *context)
{
        (void)owner;
        fuzz_require(strcmp(sink, "out") == 0, "only a sink that there is", sink);
        fuzz_require(
            reason == NULL || fuzz_is_one_line(reason, false), "a reason is one line", reason);
        ask(on_done, context);
}

static void resume_sink(void *owner, const char *sink, admin_done_fn *on_done, void *context)
{
        pause_sink(owner, sink, NULL, on_done, context);
}

static void list_dead(void *owner, const char *sink, int64_t before, unsigned limit,
    admin_done_fn *on_done, void *context)
{
        (void)owner, (void)sink;
        fuzz_require(before >= 0 && limit >= 1 && limit <= 200, "a page is bounded", "");
        asked.on_done = on_done; /* changes nothing: does not count */
        asked.context = context;
}

static void change_dead(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context)
{
        (void)owner;
        fuzz_require((selection->n_ids > 0) != (selection->sink != NULL),
            "either ids, or all of a sink", "");
        ask(on_done, context);
}

static void reload(void *owner, admin_done_fn *on_done, void *context)
{
        (void)owner;
        ask(on_done, context);
}

static bool set_log_level(void *owner, const char *level)
{
        (void)owner;
        asked.n++;
        return strcmp(level, "debug") == 0;
}

static void check(const struct http_call *request, unsigned switches)
{
        bool has_token = (switches & HAS_TOKEN) &&
                         strlen(request->authorization) == 7 + sizeof TOKEN - 1 &&
                         strncasecmp(request->authorization, "Bearer ", 7) == 0 &&
                         strcmp(request->authorization + 7, TOKEN) == 0;
        bool is_told =
            strncmp(request->path, "/api/", 5) == 0 || strcmp(request->path, "/metrics") == 0;

        fuzz_require(request->n_answers == 1, "each request is answered once", request->path);
        fuzz_require(asked.n == 0 || has_token, "only the token changes something", request->path);
        fuzz_require(asked.n == 0 || strcmp(request->method, "POST") == 0,
            "only POST changes something", request->method);
        fuzz_require(request->status != 200 || has_token || !(switches & IS_PUBLIC) || !is_told,
            "others are told nothing without the token", request->path);
        fuzz_require(request->status != 200 || !request->is_too_large, "too much is refused", "");
        fuzz_require(request->status != 200 || strstr(request->host, "evil") == NULL,
            "another host is refused", request->host);
}

static void end_what_was_begun(void)
{
        json_t *result = json_object();

        if (asked.on_done != NULL)
                asked.on_done(asked.context, result, NULL);
        if (opened.on_ended != NULL)
                opened.on_ended(opened.owner);
        json_decref(result);
}

static void ask_route(struct http_call *request, unsigned switches)
{
        static const struct admin_operations operations = {.look = look,
            .look_failure = look_failure,
            .pause = pause_sink,
            .resume = resume_sink,
            .list_dead = list_dead,
            .redrive = change_dead,
            .look_again = look_again,
            .drop = change_dead};
        const struct admin_config config = {.listen = NULL};
        struct admin admin = {.is_local = !(switches & IS_PUBLIC),
            .options = {.config = &config,
                .operations = &operations,
                .reload = reload,
                .set_log_level = set_log_level}};
        static uv_loop_t loop;

        if (loop.data == NULL)
                uv_loop_init(&loop);
        loop.data = &loop;
        admin.loop = &loop;
        admin.options.telemetry = telemetry_create(0, 1);
        struct sink_telemetry *sink =
            telemetry_open_sink(admin.options.telemetry, "out", "stdout", 0);
        admin.streams = event_streams_create(&admin);
        token_init(&admin.token, switches & HAS_TOKEN ? TOKEN : NULL);
        memset(&asked, 0, sizeof asked);
        memset(&opened, 0, sizeof opened);
        routes_answer(&admin, request);
        end_what_was_begun();
        check(request, switches);
        event_streams_destroy(admin.streams);
        telemetry_close_sink(sink);
        telemetry_destroy(admin.options.telemetry);
        uv_run(&loop, UV_RUN_DEFAULT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input input = {data, size};
        unsigned switches = fuzz_take_byte(&input);
        struct http_call request = {.is_too_large = switches & IS_TOO_LARGE};

        log_set_level(LEVEL_ERROR);
        request.method = fuzz_take_text(&input);
        request.path = fuzz_take_text(&input);
        request.host = fuzz_take_text(&input);
        request.authorization = fuzz_take_text(&input);
        request.type = fuzz_take_text(&input);
        request.argument = fuzz_take_text(&input);
        request.body = fuzz_take_rest(&input, &request.body_length);
        ask_route(&request, switches);
        free(request.method);
        free(request.path);
        free(request.host);
        free(request.authorization);
        free(request.type);
        free(request.argument);
        free(request.body);
        return 0;
}

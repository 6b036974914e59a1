/*
 * What people ask the database and change in it. A route checks the request, then starts an
 * operation; the end of the operation answers the request.
 */
#include "admin/admin_internal.h"
#include "admin/http/answer.h"
#include "base/alloc.h"
#include "log/log.h"
#include "telemetry/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        MAX_IDS = 1000,
        DEAD_DEFAULT = 50,
        DEAD_MAX = 200,
        MAX_REASON = 500,
        RECEIVERS_MAX = 200,
        ATTEMPTS_MAX = 200,
        TRACE_MAX = 1000
};

/* The request is the whole context: it may outlive the endpoint. */
static void on_done(void *context, json_t *result, const struct error *error)
{
        struct http_call *request = context;

        if (error != NULL)
                answer_error(request, error);
        else
                answer_json(request, 200, json_incref(result));
}

static bool is_sink(struct admin *admin, struct http_call *request, const char *name)
{
        if (telemetry_find_sink(admin->options.telemetry, name) != NULL)
                return true;
        answer_refusal(
            request, 404, "this relay has no sink of that name; `pgcourier status` lists them");
        return false;
}

/* Refuses members that we do not know: a misspelt one would be ignored, and something else done. */
static bool knows_members(struct http_call *request, const json_t *body, const char *const *names)
{
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)body, name, value)
        {
                const char *const *known = names;

                while (*known != NULL && strcmp(*known, name) != 0)
                        known++;
                if (*known == NULL) {
                        answer_refusal(request, 400, "unknown member \"%.64s\"", name);
                        return false;
                }
        }
        return true;
}

/* It ends up in a line of the log and in tables. */
static bool is_one_line(const char *text)
{
        while (*text != '\0' && (unsigned char)*text >= ' ' && *text != 0x7f)
                text++;
        return *text == '\0';
}

/* {"reason": …} or {} */
static bool read_reason(struct http_call *request, const json_t *body, const char **out_reason)
{
        static const char *const members[] = {"reason", NULL};
        const json_t *given = json_object_get(body, "reason");

        *out_reason = json_string_value(given);
        if (!knows_members(request, body, members))
                return false;
        if (given == NULL ||
            (*out_reason != NULL && strlen(*out_reason) <= MAX_REASON && is_one_line(*out_reason)))
                return true;
        answer_refusal(request, 400, "\"reason\" must be one line of up to %d bytes", MAX_REASON);
        return false;
}

void answer_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        const char *reason;

        if (!read_reason(request, body, &reason) || !is_sink(admin, request, name))
                return;
        log_info("admin_pause", kv_text("sink", name), kv_text("reason", reason));
        options->operations->pause(options->owner, name, reason, on_done, request);
}

void answer_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const char *const members[] = {NULL};
        const struct admin_options *options = &admin->options;

        if (!knows_members(request, body, members) || !is_sink(admin, request, name))
                return;
        log_info("admin_resume", kv_text("sink", name));
        options->operations->resume(options->owner, name, on_done, request);
}

/* False if it is there and is no whole number from `min` on. */
static bool read_number(
    struct http_call *request, const char *name, int64_t min, int64_t max, int64_t *out_number)
{
        const char *text = http_call_argument(request, name);
        char *end;

        if (text == NULL)
                return true;
        errno = 0;
        *out_number = strtoll(text, &end, 10);
        if (errno == 0 && end != text && *end == '\0' && *out_number >= min && *out_number <= max)
                return true;
        answer_refusal(request, 400, "%s must be a whole number from %jd to %jd", name,
            (intmax_t)min, (intmax_t)max);
        return false;
}

void answer_dead(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        int64_t before = 0;
        int64_t limit = DEAD_DEFAULT;

        (void)name;
        (void)body;
        if (!read_number(request, "before", 1, INT64_MAX, &before) ||
            !read_number(request, "limit", 1, DEAD_MAX, &limit))
                return;
        options->operations->list_dead(options->owner, http_call_argument(request, "sink"), before,
            (unsigned)limit, on_done, request);
}

/* The argument if it is a whole number, as text; else the fallback. False: it is none. */
static bool read_limit(struct http_call *request, const char *name, int64_t min, int64_t max,
    const char *fallback, const char **out_text)
{
        const char *text = http_call_argument(request, name);
        int64_t number;

        *out_text = text != NULL ? text : fallback;
        return read_number(request, name, min, max, &number);
}

void answer_receivers(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        const char *parameters[ADMIN_QUESTION_PARAMETERS] = {http_call_argument(request, "sink"),
            http_call_argument(request, "search"), http_call_argument(request, "state")};

        (void)name;
        (void)body;
        if (read_limit(request, "limit", 1, RECEIVERS_MAX, "50", &parameters[3]) &&
            read_limit(request, "offset", 0, INT32_MAX, "0", &parameters[4]))
                options->operations->ask(
                    options->owner, ADMIN_RECEIVERS, parameters, on_done, request);
}

void answer_receiver(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        const char *parameters[ADMIN_QUESTION_PARAMETERS] = {name};

        (void)body;
        if (read_limit(request, "attempts", 0, ATTEMPTS_MAX, "20", &parameters[1]))
                options->operations->ask(
                    options->owner, ADMIN_RECEIVER, parameters, on_done, request);
}

void answer_trace(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        const char *parameters[ADMIN_QUESTION_PARAMETERS] = {name};

        (void)body;
        if (read_limit(request, "limit", 1, TRACE_MAX, "200", &parameters[1]))
                options->operations->ask(options->owner, ADMIN_TRACE, parameters, on_done, request);
}

void answer_types(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const struct admin_options *options = &admin->options;
        const char *parameters[ADMIN_QUESTION_PARAMETERS] = {NULL};

        (void)name;
        (void)body;
        options->operations->ask(options->owner, ADMIN_TYPES, parameters, on_done, request);
}

static void set_receiver_state(struct admin *admin, struct http_call *request, const char *name,
    const char *state, const char *reason)
{
        const struct admin_options *options = &admin->options;

        log_info("admin_receiver", kv_text("receiver", name), kv_text("state", state),
            kv_text("reason", reason));
        options->operations->set_receiver_state(
            options->owner, name, state, reason, on_done, request);
}

void answer_receiver_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        const char *reason;

        if (read_reason(request, body, &reason))
                set_receiver_state(admin, request, name, "paused", reason);
}

void answer_receiver_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const char *const members[] = {NULL};

        if (knows_members(request, body, members))
                set_receiver_state(admin, request, name, "active", NULL);
}

/* {"name": …}: it may hold anything, also a slash. */
static void change_schedule(struct admin *admin, struct http_call *request, const json_t *body,
    enum admin_schedule_change change)
{
        static const char *const members[] = {"name", NULL};
        static const char *const words[] = {[ADMIN_SCHEDULE_PAUSE] = "pause",
            [ADMIN_SCHEDULE_RESUME] = "resume",
            [ADMIN_SCHEDULE_RUN] = "run"};
        const struct admin_options *options = &admin->options;
        const char *name = json_string_value(json_object_get(body, "name"));

        if (!knows_members(request, body, members))
                return;
        if (name == NULL) {
                answer_refusal(request, 400, "\"name\" must be the name of a schedule");
                return;
        }
        log_info("admin_schedule", kv_text("schedule", name), kv_text("change", words[change]));
        options->operations->change_schedule(options->owner, change, name, on_done, request);
}

void answer_schedule_pause(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)name;
        change_schedule(admin, request, body, ADMIN_SCHEDULE_PAUSE);
}

void answer_schedule_resume(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)name;
        change_schedule(admin, request, body, ADMIN_SCHEDULE_RESUME);
}

void answer_schedule_run(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)name;
        change_schedule(admin, request, body, ADMIN_SCHEDULE_RUN);
}

/* {"ids": [17, 18]} */
static bool read_ids(const json_t *list, int64_t ids[MAX_IDS], struct admin_selection *selection)
{
        if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > MAX_IDS)
                return false;
        for (size_t i = 0; i < json_array_size(list); i++) {
                ids[i] = json_integer_value(json_array_get(list, i));
                if (ids[i] < 1)
                        return false;
        }
        selection->ids = ids;
        selection->n_ids = (unsigned)json_array_size(list);
        return true;
}

/* Exactly one of the two ways to say which; "all" of every sink is none of them. */
static bool read_selection(
    const json_t *body, int64_t ids[MAX_IDS], struct admin_selection *selection)
{
        const json_t *list = json_object_get(body, "ids");

        *selection =
            (struct admin_selection){.sink = json_string_value(json_object_get(body, "sink"))};
        if (list != NULL)
                return json_object_size(body) == 1 && read_ids(list, ids, selection);
        return selection->sink != NULL && json_is_true(json_object_get(body, "all"));
}

typedef void change_fn(
    void *owner, const struct admin_selection *selection, admin_done_fn *on_done, void *context);

static void change_dead(struct admin *admin, struct http_call *request, const json_t *body,
    change_fn *change, const char *event)
{
        static const char *const members[] = {"ids", "sink", "all", NULL};
        struct admin_selection selection;
        int64_t ids[MAX_IDS];

        if (!knows_members(request, body, members))
                return;
        if (!read_selection(body, ids, &selection)) {
                answer_refusal(request, 400,
                    "the body must name deliveries: {\"ids\": [17, 18]} (up to %d), or {\"sink\": "
                    "\"billing\", "
                    "\"all\": true}",
                    MAX_IDS);
                return;
        }
        log_emit(LEVEL_INFO, event,
            (const struct log_field[]){
                kv_text("sink", selection.sink), kv_int("ids", selection.n_ids), {.name = NULL}});
        change(admin->options.owner, &selection, on_done, request);
}

void answer_redrive(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)name;
        change_dead(admin, request, body, admin->options.operations->redrive, "admin_dead_redrive");
}

void answer_drop(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        (void)name;
        change_dead(admin, request, body, admin->options.operations->drop, "admin_dead_drop");
}

void answer_reload(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const char *const members[] = {NULL};
        const struct admin_options *options = &admin->options;

        (void)name;
        if (!knows_members(request, body, members))
                return;
        log_info("admin_reload");
        options->reload(options->relay, on_done, request);
}

void answer_log(
    struct admin *admin, struct http_call *request, const char *name, const json_t *body)
{
        static const char *const members[] = {"level", NULL};
        const struct admin_options *options = &admin->options;
        const char *level = json_string_value(json_object_get(body, "level"));

        (void)name;
        if (!knows_members(request, body, members))
                return;
        if (level == NULL || !options->set_log_level(options->relay, level)) {
                answer_refusal(request, 400, "\"level\" must be one of debug, info, warn, error");
                return;
        }
        log_info("admin_log_level", kv_text("level", level));
        answer_json(request, 200, json_pack("{s:s}", "level", level));
}

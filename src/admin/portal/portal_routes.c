/*
 * What can be asked. A route reads the request and asks the database one question,
 * whose answer says whose link it is, whether that may do this, and what came of
 * it. For a new URL there are two: whose link it is, then, if its sink would
 * deliver there, the change.
 *
 * All words are for the receiver's owner, who knows nothing of sinks, lanes and
 * this configuration. What PostgreSQL says stays here.
 */
#include "admin/http/answer.h"
#include "admin/http/routes.h"
#include "admin/portal/portal_internal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "log/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_URL = 2048 };

const struct portal_route portal_routes[] = {
    {"GET", "/api/receiver", PORTAL_RECEIVER, NULL, 1},
    {"GET", "/api/events", PORTAL_EVENTS, NULL, 2},
    {"GET", "/api/events/*", PORTAL_EVENT, NULL, 1},
    {"GET", "/api/open", PORTAL_OPEN, NULL, 1},
    {"GET", "/api/attempts", PORTAL_ATTEMPTS, NULL, 2},
    {"POST", "/api/resend", PORTAL_RESEND, "resend", 1},
    {"POST", "/api/pause", PORTAL_PAUSE, "pause", 1},
    {"POST", "/api/resume", PORTAL_RESUME, "pause", 1},
    {"POST", "/api/url", PORTAL_URL, "url", 4},
    {"POST", "/api/secret", PORTAL_SECRET, "secret", 4},
    {0},
};

/* Whether portal.manage does. */
static bool allows(const struct portal_config *config, const char *right)
{
        bool is_listed = config->n_manage == 0;

        for (unsigned i = 0; i < config->n_manage; i++)
                is_listed |= strcmp(config->manage[i], right) == 0;
        return is_listed;
}

struct question {
        struct portal *portal; /* borrowed */
        struct http_call *request;
        const struct portal_route *route;
        struct portal_hash hash;
        struct sockaddr_storage peer;
        bool has_peer;
        bool is_url_checked;
        char *parameters[PORTAL_PARAMETERS]; /* owned */
};

static void question_free(struct question *question)
{
        portal_access_end(&question->portal->access, &question->hash);
        for (size_t i = 0; i < PORTAL_PARAMETERS; i++)
                free(question->parameters[i]);
        free(question);
}

static struct question *question_create(struct portal *portal, struct http_call *request,
    const struct portal_route *route, const struct portal_hash *hash)
{
        const struct sockaddr *peer = http_call_peer(request);
        struct question *question = xcalloc(1, sizeof *question);

        *question =
            (struct question){.portal = portal, .request = request, .route = route, .hash = *hash};
        if (peer != NULL) {
                question->has_peer = true;
                memcpy(&question->peer, peer,
                    peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                : sizeof(struct sockaddr_in));
        }
        return question;
}

static void on_done(void *context, const struct portal_answer *answer, const struct error *error);

static void ask(struct question *question, enum portal_question what)
{
        const struct portal_options *options = &question->portal->options;
        const char *const parameters[PORTAL_PARAMETERS] = {question->parameters[0],
            question->parameters[1], question->parameters[2], question->parameters[3]};

        options->ask(options->owner, what, &question->hash, parameters, on_done, question);
}

static json_t *rights(const struct question *question, bool can_manage)
{
        static const char *const all[] = {"resend", "pause", "url", "secret"};
        json_t *list = json_array();

        for (size_t i = 0; can_manage && i < sizeof all / sizeof all[0]; i++)
                if (allows(question->portal->options.config, all[i]))
                        json_array_append_new(list, json_string(all[i]));
        return list;
}

/* What the database does not know: what this link may do, and how the sink signs. */
static void complete(const struct question *question, const struct portal_answer *answer)
{
        const struct portal_options *options = &question->portal->options;
        struct portal_sink sink;
        bool is_known = options->tell_sink(options->relay, answer->sink, &sink);

        json_object_set_new(answer->document, "may", rights(question, answer->can_manage));
        json_object_set_new(
            answer->document, "signing", is_known ? json_string(sink.signing) : json_null());
        json_object_set_new(
            answer->document, "attempts_kept", is_known ? json_string(sink.attempts) : json_null());
        json_object_set_new(
            answer->document, "is_gzip", is_known ? json_boolean(sink.is_gzip) : json_null());
}

static void log_change(const struct question *question, const struct portal_answer *answer)
{
        bool is_resend = question->route->question == PORTAL_RESEND;

        log_info("portal_action", kv_text("action", strrchr(question->route->path, '/') + 1),
            kv_text("receiver", answer->receiver), kv_int("link", answer->link),
            kv_text("event", is_resend ? question->parameters[0] : NULL));
}

/* The link is good, and may do this. */
static void answer_question(struct question *question, const struct portal_answer *answer)
{
        struct http_call *request = question->request;
        const char *refused = json_string_value(json_object_get(answer->document, "refused"));

        if (answer->document == NULL) {
                answer_refusal(request, 404, "There is no such event of yours.");
                return;
        }
        if (refused != NULL) {
                answer_refusal(request, 409, "%s", refused);
                return;
        }
        if (question->route->right != NULL)
                log_change(question, answer);
        if (question->route->question == PORTAL_RECEIVER)
                complete(question, answer);
        answer_json(request, 200, json_incref(answer->document));
}

/* False: it was answered. */
static bool check_url(struct question *question, const struct portal_answer *answer)
{
        const struct portal_options *options = &question->portal->options;
        char words[256];

        if (options->permits_url(
                options->relay, answer->sink, question->parameters[0], words, sizeof words))
                return true;
        answer_refusal(question->request, 400, "%s", words);
        return false;
}

static void on_done(void *context, const struct portal_answer *answer, const struct error *error)
{
        struct question *question = context;
        struct http_call *request = question->request;
        const struct sockaddr *peer =
            question->has_peer ? (const struct sockaddr *)&question->peer : NULL;
        bool is_url = question->route->question == PORTAL_URL && !question->is_url_checked;

        if (error == NULL)
                portal_access_learn(&question->portal->access, &question->hash, peer,
                    answer->link != 0, clock_monotonic_us());
        if (error != NULL) {
                log_warn("portal_unanswered", kv_text("path", question->route->path),
                    kv_text("error", error->text));
                answer_refusal(request, 503, "This cannot be answered now. Try again in a minute.");
        } else if (answer->link == 0) {
                answer_refusal(
                    request, 401, "This link has expired or was withdrawn. Ask for a new one.");
        } else if (question->route->right != NULL && !answer->can_manage) {
                answer_refusal(request, 403, "This link can only show, and change nothing.");
        } else if (is_url && check_url(question, answer)) {
                question->is_url_checked = true;
                ask(question, PORTAL_URL);
                return;
        } else if (!is_url) {
                answer_question(question, answer);
        }
        question_free(question);
}

static bool is_number(const char *text)
{
        size_t length = strspn(text, "0123456789");

        return length > 0 && length <= 18 && text[length] == '\0';
}

/* ?before=NUMBER */
static bool read_before(struct question *question)
{
        const char *before = http_call_argument(question->request, "before");

        if (before == NULL)
                return true;
        question->parameters[0] = xstrdup(before);
        return is_number(before);
}

/* ?before=MICROSECONDS.NUMBER.NUMBER&failed=true; the first is what "next" was. */
static bool read_page(struct question *question)
{
        const char *before = http_call_argument(question->request, "before");
        const char *failed = http_call_argument(question->request, "failed");

        if (failed != NULL && strcmp(failed, "true") != 0 && strcmp(failed, "false") != 0)
                return false;
        question->parameters[3] = xstrdup(failed != NULL ? failed : "false");
        for (size_t i = 0; before != NULL && i < 3; i++) {
                size_t length = strcspn(before, ".");

                question->parameters[i] = xstrndup(before, length);
                if (!is_number(question->parameters[i]) || before[length] != (i < 2 ? '.' : '\0'))
                        return false;
                before += length + 1;
        }
        return true;
}

static bool is_id(const char *text)
{
        static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

        for (size_t i = 0; i < sizeof form; i++)
                if (form[i] == 'x'
                        ? text[i] == '\0' || strchr("0123456789abcdefABCDEF", text[i]) == NULL
                        : text[i] != form[i])
                        return false;
        return true;
}

/* {"event": 17} or {"url": "https://…"}, or {}: nothing else, so that nothing is misread. */
static bool read_body(struct question *question, const json_t *body)
{
        enum portal_question what = question->route->question;
        const json_t *event = json_object_get(body, "event");
        const char *url = json_string_value(json_object_get(body, "url"));
        size_t n_members = json_object_size(body);

        switch (what) {
        case PORTAL_RESEND:
                if (n_members != 1 || !json_is_integer(event) || json_integer_value(event) < 1)
                        return false;
                question->parameters[0] =
                    xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(event));
                return true;
        case PORTAL_URL:
                if (n_members != 1 || url == NULL || strlen(url) > MAX_URL)
                        return false;
                question->parameters[0] = xstrdup(url);
                return true;
        case PORTAL_PAUSE:
        case PORTAL_RESUME:
        case PORTAL_SECRET:
                return n_members == 0;
        case PORTAL_RECEIVER:
        case PORTAL_EVENTS:
        case PORTAL_OPEN:
        case PORTAL_ATTEMPTS:
        case PORTAL_EVENT:
        case PORTAL_LOOK:
                break;
        }
        abort(); /* none of these is a POST */
}

/* False: it was answered. */
static bool read_post(struct question *question)
{
        struct http_call *request = question->request;
        const struct portal_config *config = question->portal->options.config;
        json_t *body = route_read_body(request);
        bool ok = body != NULL && read_body(question, body);

        if (body != NULL && !ok)
                answer_refusal(request, 400,
                    question->route->question == PORTAL_RESEND ? "The body must be {\"event\": 17}."
                    : question->route->question == PORTAL_URL
                        ? "The body must be {\"url\": \"https://…\"}, of at most 2048 bytes."
                        : "The body must be {}.");
        json_decref(body);
        if (!ok || allows(config, question->route->right))
                return ok;
        answer_refusal(request, 403, "This cannot be changed here. Ask the sender of the events.");
        return false;
}

/* False: it was answered. */
static bool read_request(struct question *question, const char *name)
{
        const char *wrong = NULL;

        switch (question->route->question) {
        case PORTAL_RECEIVER:
        case PORTAL_OPEN:
                return true;
        case PORTAL_EVENTS:
                wrong = read_before(question) ? NULL : "\"before\" must be the number of an event.";
                break;
        case PORTAL_ATTEMPTS:
                wrong = read_page(question)
                            ? NULL
                            : "\"before\" must be what \"next\" was, and \"failed\" true or false.";
                break;
        case PORTAL_EVENT:
                question->parameters[0] = xstrdup(name);
                wrong = is_number(name) || is_id(name) ? NULL : "There is no such event of yours.";
                if (wrong != NULL) {
                        answer_refusal(question->request, 404, "%s", wrong);
                        return false;
                }
                break;
        case PORTAL_LOOK:
        case PORTAL_RESEND:
        case PORTAL_PAUSE:
        case PORTAL_RESUME:
        case PORTAL_URL:
        case PORTAL_SECRET:
                return read_post(question);
        }
        if (wrong != NULL)
                answer_refusal(question->request, 400, "%s", wrong);
        return wrong == NULL;
}

void portal_route_answer(struct portal *portal, struct http_call *request,
    const struct portal_route *route, const char *name, const struct portal_hash *hash)
{
        struct question *question = question_create(portal, request, route, hash);

        if (read_request(question, name))
                ask(question, route->question == PORTAL_URL ? PORTAL_LOOK : route->question);
        else
                question_free(question);
}

/*
 * A request: IDLE -> TAKEN -> RUNNING -> IDLE
 *                      -> WAITING (for the host's addresses) -> RUNNING -> IDLE
 *
 * The message is made, and signed, when the request really runs: the time in it
 * is the time of sending, however long the addresses took.
 */
#include "sinks/http/http_requests.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "config/config.h"
#include "loop/timer.h"
#include "sinks/http/client/curl_client.h"
#include "sinks/http/client/http1_client.h"
#include "sinks/http/client/http_client.h"
#include "sinks/http/http_host.h"
#include "sinks/http/http_message.h"
#include "sinks/http/http_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum request_state { REQUEST_IDLE, REQUEST_TAKEN, REQUEST_WAITING, REQUEST_RUNNING };

struct http_requests {
        const struct http_config *config; /* borrowed */
        struct http_client *client;       /* owned */
        http_request_done_fn *on_done;
        void *owner; /* borrowed */
        unsigned n_busy;

        /* request::link, by state: idle ones, and oldest first those that wait and run */
        struct list idle;
        struct list waiting;
        struct list running;

        struct timer *probe_timer; /* carries an outcome that was known at once to a later turn */
        struct outcome probe_outcome;
        struct http_target *probe_target;
};

struct request {
        struct list link;
        struct list beside; /* in target->waiting, while WAITING */
        enum request_state state;
        struct http_requests *requests;
        struct http_target *target;
        struct attempt **attempts; /* the relay's; the array is ours */
        size_t n_attempts;         /* 0: a probe, or idle */
        struct http_message message;
        struct http_exchange *exchange; /* while RUNNING */
};

/* The only place that assigns request->state. */
static void enter(struct request *request, enum request_state next)
{
        struct http_requests *requests = request->requests;

        request->state = next;
        list_remove(&request->link);
        list_remove(&request->beside);

        switch (next) {
        case REQUEST_IDLE:
                requests->n_busy--;
                http_message_clear(&request->message);
                free(request->attempts);
                request->attempts = NULL;
                request->n_attempts = 0;
                list_push_front(&requests->idle, &request->link);
                break;
        case REQUEST_TAKEN:
                requests->n_busy++;
                break;
        case REQUEST_WAITING:
                list_push_back(&requests->waiting, &request->link);
                list_push_back(&request->target->waiting, &request->beside);
                break;
        case REQUEST_RUNNING:
                list_push_back(&requests->running, &request->link);
                break;
        }
}

/* Ends a request from inside a call of ours. */
static void answer_later(struct request *request, const struct outcome *outcome)
{
        struct http_requests *requests = request->requests;

        for (size_t i = 0; i < request->n_attempts; i++)
                attempt_finish_later(request->attempts[i], outcome);
        if (request->n_attempts == 0) {
                requests->probe_outcome = *outcome;
                requests->probe_target = request->target;
                timer_arm(requests->probe_timer, 0);
        }
        enter(request, REQUEST_IDLE);
}

static void on_probe_answered(void *owner)
{
        struct http_requests *requests = owner;

        requests->on_done(
            requests->owner, requests->probe_target, NULL, 0, &requests->probe_outcome);
}

static void on_exchange_done(void *owner, const struct http_result *result)
{
        struct request *request = owner;
        struct http_requests *requests = request->requests;
        struct http_target *target = request->target;
        struct attempt **attempts = request->attempts;
        size_t n_attempts = request->n_attempts;
        bool is_connected = n_attempts == 0 && result->code == CURLE_OK;
        struct outcome outcome =
            is_connected ? outcome_delivered : http_result_classify(result, requests->config);

        if (result->status == 0 && !result->is_sent && !is_connected)
                http_host_expire(target->host);
        /* on_done() may start the next request, or cancel all: so this one is idle first. */
        request->attempts = NULL;
        enter(request, REQUEST_IDLE);
        requests->on_done(requests->owner, target, attempts, n_attempts, &outcome);
        free(attempts);
}

static struct request *take(struct http_requests *requests, struct http_target *target)
{
        struct request *request;

        if (!list_is_empty(&requests->idle)) {
                request = list_owner(requests->idle.next, struct request, link);
        } else {
                request = xcalloc(1, sizeof *request);
                list_init(&request->link);
                list_init(&request->beside);
                request->requests = requests;
        }
        request->target = target;
        enter(request, REQUEST_TAKEN);
        return request;
}

static bool post(struct request *request, struct error *error)
{
        const struct http_post post = {.target = request->target,
            .lines = &request->message.lines,
            .body = request->message.body,
            .body_bytes = request->message.body_bytes};

        request->exchange =
            http_client_post(request->requests->client, &post, on_exchange_done, request, error);
        return request->exchange != NULL;
}

static bool connect_only(struct request *request, struct error *error)
{
        request->exchange = http_client_connect(
            request->requests->client, request->target, on_exchange_done, request, error);
        return request->exchange != NULL;
}

static void run(struct request *request)
{
        struct error error;
        struct outcome outcome;

        if (request->n_attempts > 0 &&
            !http_message_make(&request->message, request->requests->config, request->target,
                request->attempts, request->n_attempts, clock_wall_us() / 1000000, &outcome)) {
                answer_later(request, &outcome);
        } else if (request->n_attempts > 0 ? post(request, &error)
                                           : connect_only(request, &error)) {
                enter(request, REQUEST_RUNNING);
        } else {
                outcome = outcome_down(OUTCOME_FAULT_OTHER, false, "%s", error.text);
                answer_later(request, &outcome);
        }
}

static void run_when_ready(struct request *request)
{
        if (http_host_is_ready(request->target->host))
                run(request);
        else
                enter(request, REQUEST_WAITING);
}

unsigned http_requests_count(const struct http_requests *requests)
{
        return requests->n_busy;
}

void http_requests_start(struct http_requests *requests, struct http_target *target,
    struct attempt *const *attempts, size_t n_attempts)
{
        struct request *request = take(requests, target);

        request->attempts = xcalloc(n_attempts, sizeof *request->attempts);
        memcpy(request->attempts, attempts, n_attempts * sizeof *request->attempts);
        request->n_attempts = n_attempts;
        run_when_ready(request);
}

void http_requests_probe(struct http_requests *requests, struct http_target *target)
{
        run_when_ready(take(requests, target));
}

void http_requests_host_settled(
    struct http_requests *requests, struct http_target *target, const char *failure)
{
        struct outcome outcome;

        if (failure != NULL)
                outcome =
                    outcome_down(OUTCOME_FAULT_DNS, false, "the host of %s has no address: %s",
                        requests->config->proxy != NULL ? "the sink's proxy"
                        : requests->config->url != NULL ? "the sink's url"
                                                        : "the receiver's url",
                        failure);
        list_for_each (link, &target->waiting) {
                struct request *request = list_owner(link, struct request, beside);

                if (failure == NULL)
                        run(request);
                else
                        answer_later(request, &outcome);
        }
}

void http_requests_cancel(struct http_requests *requests)
{
        list_for_each (link, &requests->waiting) {
                struct request *request = list_owner(link, struct request, link);

                if (request->n_attempts > 0) /* a probe has its own deadline */
                        answer_later(request, &outcome_cancelled);
        }
        list_for_each (running, &requests->running) {
                struct request *request = list_owner(running, struct request, link);
                struct outcome outcome = outcome_cancelled;

                if (request->n_attempts == 0)
                        continue;
                http_exchange_stop(request->exchange, &outcome);
                /* Of a refused batch it is not known which event was meant. */
                if (request->n_attempts > 1 && outcome.kind != OUTCOME_DELIVERED)
                        outcome = outcome_cancelled;
                answer_later(request, &outcome);
        }
}

struct http_requests *http_requests_create(uv_loop_t *loop, const struct http_config *config,
    const struct address_guard *guard, unsigned max_connections, http_request_done_fn *on_done,
    void *owner)
{
        struct http_requests *requests = xcalloc(1, sizeof *requests);
        bool is_ours = config->proxy == NULL && config->http_version == HTTP_VERSION_1_1 &&
                       !config->by_libcurl;

        requests->config = config;
        requests->on_done = on_done;
        requests->owner = owner;
        requests->client = is_ours ? http1_client_create(loop, config, guard, max_connections)
                                   : curl_client_create(loop, config, guard, max_connections);
        requests->probe_timer = timer_create_on(loop, on_probe_answered, requests);
        list_init(&requests->idle);
        list_init(&requests->waiting);
        list_init(&requests->running);
        return requests;
}

void http_requests_destroy(struct http_requests *requests)
{
        assert(list_is_empty(&requests->waiting) && list_is_empty(&requests->running));
        list_for_each (link, &requests->idle) {
                struct request *request = list_owner(link, struct request, link);

                http_message_deinit(&request->message);
                free(request);
        }
        http_client_destroy(requests->client);
        timer_destroy(requests->probe_timer);
        free(requests);
}

/*
 * One POST for each event, as pgcourier's http sink sends it, by libcurl's multi interface: up to
 * 256 requests in flight on connections that stay open. curl_multi_socket_action() with epoll, as
 * its cost does not grow with the number of requests in flight. Nothing keeps the events of one key
 * in order.
 */
#include "database.h"
#include "sink.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define IN_FLIGHT 256

static CURLM *multi;
static int poll_fd;
static long timeout_ms = -1;
static CURL *idle[IN_FLIGHT];
static int n_idle, n_running;

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known)
{
        struct epoll_event event = {.data.fd = fd};

        (void)easy, (void)user;
        if (what == CURL_POLL_REMOVE) {
                epoll_ctl(poll_fd, EPOLL_CTL_DEL, fd, NULL);
                return 0;
        }
        event.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
        if (epoll_ctl(poll_fd, known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
                die("epoll_ctl", strerror(errno));
        curl_multi_assign(multi, fd, &poll_fd); /* anything but NULL: it is known now */
        return 0;
}

static int on_timeout(CURLM *curl, long wanted_ms, void *user)
{
        (void)curl, (void)user;
        timeout_ms = wanted_ms;
        return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
        (void)data, (void)user;
        return size * n;
}

static void http_open(const char *where)
{
        char url[64];

        snprintf(url, sizeof url, "http://127.0.0.1:%s/1", where);
        curl_global_init(CURL_GLOBAL_DEFAULT);
        poll_fd = epoll_create1(0);
        multi = curl_multi_init();
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timeout);
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)IN_FLIGHT);
        for (n_idle = 0; n_idle < IN_FLIGHT; n_idle++) {
                CURL *easy = idle[n_idle] = curl_easy_init();

                curl_easy_setopt(easy, CURLOPT_URL, url);
                curl_easy_setopt(easy, CURLOPT_POST, 1L);
                curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        }
}

static struct curl_slist *header(struct curl_slist *list, const char *name, struct text value)
{
        char line[2048];

        if (value.data == NULL)
                return list;
        snprintf(line, sizeof line, "%s: %.*s", name, (int)value.length, value.data);
        return curl_slist_append(list, line);
}

static struct curl_slist *headers_of(const struct event *event)
{
        char seconds[24];
        struct text id = {.data = event->event_id, .length = sizeof event->event_id};
        struct text now = {.data = seconds,
            .length = (size_t)snprintf(seconds, sizeof seconds, "%lld", (long long)time(NULL))};
        struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");

        list = header(list, "webhook-id", id);
        list = header(list, "webhook-timestamp", now);
        list = header(list, "x-event-topic", event->topic);
        list = header(list, "x-event-key", event->key);
        list = header(list, "x-event-type", event->type);
        return curl_slist_append(list, "Expect:");
}

static void take_answers(void)
{
        CURLMsg *message;
        int n_left;

        while ((message = curl_multi_info_read(multi, &n_left)) != NULL) {
                CURL *easy = message->easy_handle;
                struct curl_slist *headers;
                long status = 0;

                if (message->data.result != CURLE_OK)
                        die("HTTP", curl_easy_strerror(message->data.result));
                curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
                if (status != 200)
                        die("HTTP", "refused");
                curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&headers);
                curl_slist_free_all(headers);
                curl_multi_remove_handle(multi, easy);
                idle[n_idle++] = easy;
        }
}

static void turn(void)
{
        struct epoll_event events[IN_FLIGHT];
        int n = epoll_wait(poll_fd, events, IN_FLIGHT, (int)timeout_ms);

        for (int i = 0; i < n; i++)
                curl_multi_socket_action(multi, events[i].data.fd,
                    (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                        (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                        (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0),
                    &n_running);
        if (n == 0 || timeout_ms == 0)
                curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &n_running);
        take_answers();
}

static void http_add(const struct event *event)
{
        struct curl_slist *headers = headers_of(event);
        CURL *easy;

        while (n_idle == 0)
                turn();
        easy = idle[--n_idle];
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_PRIVATE, headers);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, event->payload.data);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)event->payload.length);
        curl_multi_add_handle(multi, easy);
}

static void http_await(void)
{
        while (n_idle < IN_FLIGHT)
                turn();
}

const struct sink http_sink = {
    .name = "http", .open = http_open, .add = http_add, .await = http_await};

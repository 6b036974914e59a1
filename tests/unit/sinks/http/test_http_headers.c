#include "base/alloc.h"
#include "base/error.h"
#include "config/config.h"
#include "sinks/http/http_headers.h"
#include "sinks/http/http_target.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_ID "0190e7c4-5d1f-7cc3-98c4-dc0c0c07398f"

static struct event event_of(const char *topic, const char *key)
{
        return (struct event){.event_id = EVENT_ID,
            .topic = topic,
            .key = key,
            .payload = "{}",
            .payload_bytes = 2,
            .is_json = true};
}

/* The line of that header, without its end; lives until the next call. NULL: there is none. */
static const char *line_of(const struct bytes *lines, const char *name)
{
        static char line[300];

        for (const char *at = lines->data; at != NULL && *at != '\0'; at = strchr(at, '\n') + 1) {
                if (strncmp(at, name, strlen(name)) != 0 || at[strlen(name)] != ':')
                        continue;
                snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\r"), at);
                return line;
        }
        return NULL;
}

static bool make_headers(const struct http_config *config, const struct event *event,
    struct bytes *lines, struct outcome *out_rejected)
{
        const struct http_request_head head = {.config = config,
            .event = event,
            .id = event->event_id,
            .now_s = 1,
            .body = event->payload,
            .body_bytes = event->payload_bytes};

        return http_headers_append(&head, lines, out_rejected);
}

static void expect_key(const char *key, const char *line)
{
        const struct http_config config = {0};
        const struct event event = event_of("orders", key);
        struct outcome rejected;
        struct bytes lines = {0};

        cr_assert(make_headers(&config, &event, &lines, &rejected));
        cr_expect_str_eq(line_of(&lines, "x-event-key"), line);
        bytes_deinit(&lines);
}

static void expect_rejected(
    const struct http_config *config, const struct event *event, const char *name)
{
        struct outcome rejected = {.kind = OUTCOME_DELIVERED};
        struct bytes lines = {0};

        cr_expect_not(make_headers(config, event, &lines, &rejected));
        bytes_deinit(&lines);
        cr_expect_eq(rejected.kind, OUTCOME_REJECTED);
        cr_expect(strstr(rejected.reason, name) != NULL, "%s", rejected.reason);
}

Test(http_headers, encodes_what_is_not_visible_ascii)
{
        expect_key("42", "x-event-key: 42");
        expect_key("a b", "x-event-key: a%20b");
        expect_key("50%", "x-event-key: 50%25");
        expect_key("k\xc3\xa4se", "x-event-key: k%C3%A4se");
        expect_key("!~/:;,=\"", "x-event-key: !~/:;,=\"");
        expect_key("", "x-event-key: ");
}

Test(http_headers, rejects_control_characters_in_topic_key_and_type)
{
        static const char *const bad[] = {"a\r\nx: y", "a\n", "\ra", "a\tb", "\x01", "\x7f"};
        const struct http_config config = {0};

        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                struct event event = event_of(bad[i], NULL);

                expect_rejected(&config, &event, "x-event-topic");
                event = event_of("orders", bad[i]);
                expect_rejected(&config, &event, "x-event-key");
                event = event_of("orders", NULL);
                event.type = bad[i];
                expect_rejected(&config, &event, "x-event-type");
        }
}

Test(http_headers, passes_on_listed_event_headers_only)
{
        char traceparent[] = "traceparent";
        char empty[] = "X-Empty";
        char absent[] = "x-absent";
        char *names[] = {traceparent, empty, absent};
        const struct http_config config = {.headers = names, .n_headers = 3};
        const struct event_header headers[] = {
            {"TraceParent", "00-\xc3\xa4 b"}, {"x-empty", ""}, {"x-secret", "not listed"}};
        struct event event = event_of("orders", NULL);
        struct outcome rejected;
        struct bytes lines = {0};

        event.headers = headers;
        event.n_headers = 3;
        cr_assert(make_headers(&config, &event, &lines, &rejected));
        cr_expect_str_eq(line_of(&lines, "traceparent"), "traceparent: 00-\xc3\xa4 b");
        cr_expect_str_eq(line_of(&lines, "X-Empty"), "X-Empty: ");
        cr_expect_null(line_of(&lines, "x-absent"));
        cr_expect_null(line_of(&lines, "x-secret"));
        cr_expect_null(line_of(&lines, "webhook-signature"));
        bytes_deinit(&lines);
}

Test(http_headers, rejects_event_headers_that_would_arrive_changed)
{
        static const char *const bad[] = {"a\r\nx: y", "a\nb", "a\rb", "\t", "\x7f", " a", "a "};
        char traceparent[] = "traceparent";
        char *names[] = {traceparent};
        const struct http_config config = {.headers = names, .n_headers = 1};

        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                const struct event_header header = {"traceparent", bad[i]};
                struct event event = event_of("orders", NULL);

                event.headers = &header;
                event.n_headers = 1;
                expect_rejected(&config, &event, "traceparent");
        }
}

Test(http_headers, refuses_names_that_are_not_for_events)
{
        static const char *const bad[] = {"", "a b", "a:b", "a\r\nb", "k\xc3\xa4se",
            "Content-Length", "HOST", "webhook-id", "Webhook-Signature", "x-event-anything",
            "transfer-encoding"};
        static const char *const good[] = {
            "authorization", "traceparent", "hostess", "x-eventful", "te2"};

        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                char *name = xstrdup(bad[i]);
                const struct http_config config = {.headers = &name, .n_headers = 1};
                struct error error = {.kind = ERROR_NONE};

                cr_expect(!http_headers_check_names(&config, &error), "accepted: %s", name);
                cr_expect_eq(error.kind, ERROR_CONFIG);
                cr_expect(strstr(error.text, name) != NULL);
                free(name);
        }
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
                char *name = xstrdup(good[i]);
                const struct http_config config = {.headers = &name, .n_headers = 1};
                struct error error;

                cr_expect(http_headers_check_names(&config, &error), "refused: %s", name);
                free(name);
        }
}

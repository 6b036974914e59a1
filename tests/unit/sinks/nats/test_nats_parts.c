/* The small pure parts of the nats sink: subjects, servers, what is pending, INFO and CONNECT. */
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/nats/nats_credentials.h"
#include "sinks/nats/nats_greeting.h"
#include "sinks/nats/nats_pending.h"
#include "sinks/nats/nats_servers.h"
#include "sinks/nats/nats_subject.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char *problem(const char *text)
{
        return nats_subject_problem(text, strlen(text), "mine.answers");
}

Test(nats_subject, lets_only_those_through_that_are_for_events)
{
        static const char *const good[] = {"a", "events.orders", "caf\xc3\xa9.1", "a.$b", "INBOX.x",
            "mine.answersheets", "a-b_c/d:e"};
        static const char *const bad[] = {"", "$JS.API.STREAM.DELETE.X", "$SYS", "_INBOX",
            "_INBOX.a", "_INBOXES", "mine.answers", "mine.answers.a", "a b", "a\tb", "a\r\nb",
            "a\x7f", "a.*", "*", "a*b", "a.>", "a>", "a..b", ".a", "a.", "."};

        for (size_t i = 0; i < sizeof good / sizeof *good; i++)
                cr_expect(problem(good[i]) == NULL, "%s %s", good[i], problem(good[i]));
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
                cr_expect(problem(bad[i]) != NULL, "%s", bad[i]);
}

Test(nats_subject, has_at_most_a_kibibyte)
{
        char text[NATS_MAX_SUBJECT_BYTES + 2];

        memset(text, 'a', sizeof text);
        cr_expect(nats_subject_problem(text, NATS_MAX_SUBJECT_BYTES, "_INBOX") == NULL);
        cr_expect(nats_subject_problem(text, NATS_MAX_SUBJECT_BYTES + 1, "_INBOX") != NULL);
}

Test(nats_subject, is_made_of_an_event)
{
        struct error error;
        struct outcome refusal;
        struct nats_subject *subject =
            nats_subject_create("e.{{topic}}.{{type}}.{{key}}.{{id}}", "_INBOX", &error);
        struct event event = {.event_id = "u-1", .topic = "t", .type = "y", .key = "k"};
        const struct bytes *text = nats_subject_of(subject, &event, &refusal);
        char shown[4];

        cr_assert_not_null(text);
        cr_expect_str_eq(text->data, "e.t.y.k.u-1");
        cr_expect(nats_subject_is_per_event(subject) && nats_subject_is_unique(subject));
        event.key = "$JS";
        cr_expect_str_eq(nats_subject_of(subject, &event, &refusal)->data, "e.t.y.$JS.u-1");
        event.key = "a*";
        cr_expect_null(nats_subject_of(subject, &event, &refusal));
        cr_expect(refusal.kind == OUTCOME_REJECTED);
        nats_subject_describe(subject, &event, shown, sizeof shown);
        cr_expect_str_eq(shown, "e.t");
        nats_subject_destroy(subject);
}

/* The subjects of recent topics are kept; a topic that was refused must be refused again. */
Test(nats_subject, remembers_nothing_wrong)
{
        struct error error;
        struct outcome refusal;
        struct nats_subject *subject = nats_subject_create("{{topic}}", "_INBOX", &error);
        struct event event = {.event_id = "u-1"};

        for (unsigned i = 0; i < 3; i++) {
                event.topic = "$ab";
                cr_expect_null(nats_subject_of(subject, &event, &refusal));
                event.topic = "eab"; /* in the same place */
                cr_expect_str_eq(nats_subject_of(subject, &event, &refusal)->data, "eab");
        }
        nats_subject_destroy(subject);
}

Test(nats_subject, is_checked_when_it_is_fixed)
{
        struct error error;

        cr_expect_null(nats_subject_create("a b", "_INBOX", &error));
        cr_expect(strstr(error.text, "blank") != NULL);
        cr_expect_null(nats_subject_create("$JS.API", "_INBOX", &error));
        cr_expect_null(nats_subject_create("a.{{other}}", "_INBOX", &error));
}

static void expect_filter(const char *template, const char *expected)
{
        struct error error;
        struct nats_subject *subject = nats_subject_create(template, "_INBOX", &error);
        struct bytes filter = {0};

        cr_expect(nats_subject_append_filter(subject, &filter) == (expected != NULL));
        if (expected != NULL)
                cr_expect_str_eq(filter.data, expected);
        bytes_deinit(&filter);
        nats_subject_destroy(subject);
}

Test(nats_subject, has_a_filter_that_holds_all_of_them)
{
        expect_filter("a.b", "a.b");
        expect_filter("events.{{topic}}", "events.>");
        expect_filter("a.b.pre-{{topic}}.c", "a.b.>");
        expect_filter("{{topic}}", NULL);
        expect_filter("pre{{topic}}", NULL);
}

/* Servers. */

static bool has(const struct nats_servers *servers, const char *host, unsigned port)
{
        for (unsigned i = 0; i < servers->n; i++)
                if (strcmp(servers->items[i].address.host, host) == 0 &&
                    servers->items[i].address.port == port)
                        return true;
        return false;
}

Test(nats_servers, are_all_tried_in_an_order_that_is_drawn)
{
        char *texts[] = {(char[]){"nats://a"}, (char[]){"b:1"}, (char[]){"tls://[::1]:2"}};
        const struct nats_config config = {.servers = texts, .n_servers = 3};
        struct nats_servers servers;
        struct error error;
        unsigned first[3] = {0};

        for (unsigned random = 1; random <= 60; random++) {
                cr_assert(nats_servers_init(&servers, &config, random * 7919u, &error));
                cr_expect(
                    has(&servers, "a", 4222) && has(&servers, "b", 1) && has(&servers, "::1", 2));
                first[servers.items[0].address.port == 4222 ? 0
                      : servers.items[0].address.port == 1  ? 1
                                                            : 2]++;
                for (unsigned i = 0; i < 3; i++) {
                        cr_expect(nats_servers_current(&servers)->is_tls ==
                                  (servers.items[i].address.port == 2));
                        nats_servers_advance(&servers);
                }
                cr_expect(servers.current == 0);
                nats_servers_deinit(&servers);
        }
        cr_expect(first[0] > 5 && first[1] > 5 && first[2] > 5);
}

Test(nats_servers, learn_others_and_forget_them)
{
        char *texts[] = {(char[]){"a:1"}};
        char *urls[] = {(char[]){"10.0.0.2:4222"}, (char[]){"a:1"}, (char[]){"[::1]:5"},
            (char[]){"user:pw@x:1"}, (char[]){"x y"}, (char[]){""}};
        const struct nats_config config = {.servers = texts, .n_servers = 1};
        struct nats_servers servers;
        struct error error;

        cr_assert(nats_servers_init(&servers, &config, 1, &error));
        nats_servers_learn(&servers, urls, 6);
        cr_expect(servers.n == 3, "%u", servers.n);
        cr_expect(has(&servers, "10.0.0.2", 4222) && has(&servers, "::1", 5));

        /* The one that is in use stays. */
        nats_servers_advance(&servers);
        nats_servers_learn(&servers, urls + 1, 1);
        cr_expect(servers.n == 2 && servers.current == 1);
        nats_servers_learn(&servers, urls, 0);
        cr_expect(servers.n == 2);
        nats_servers_deinit(&servers);
}

Test(nats_servers, that_are_learned_have_tls_like_the_others)
{
        char *texts[] = {(char[]){"tls://a:1"}};
        char *urls[] = {(char[]){"b:2"}};
        const struct nats_config config = {.servers = texts, .n_servers = 1};
        struct nats_servers servers;
        struct error error;

        cr_assert(nats_servers_init(&servers, &config, 1, &error));
        nats_servers_learn(&servers, urls, 1);
        cr_expect(servers.n == 2 && servers.items[1].address.is_tls);
        nats_servers_deinit(&servers);
}

Test(nats_servers, must_make_sense)
{
        char *texts[] = {(char[]){"a:1"}, (char[]){"http://b"}};
        struct nats_config config = {.servers = texts, .n_servers = 2};
        struct nats_servers servers;
        struct error error;

        cr_expect(!nats_servers_init(&servers, &config, 1, &error));
        cr_expect(strstr(error.text, "unknown scheme") != NULL, "%s", error.text);
        config.n_servers = 0;
        cr_expect(!nats_servers_init(&servers, &config, 1, &error));
}

/* What is pending. */

static struct attempt *attempt_of(unsigned i)
{
        static char attempts[1000];

        return (struct attempt *)(void *)&attempts[i]; /* only its address counts */
}

Test(nats_pending, finds_each_attempt_by_its_token_once)
{
        char tokens[500][NATS_TOKEN_BYTES];
        size_t lengths[500];
        struct nats_pending pending;

        nats_pending_init(&pending);
        for (unsigned i = 0; i < 500; i++)
                nats_pending_add(&pending, attempt_of(i));
        cr_expect(pending.n_waiting == 500);
        for (unsigned i = 0; i < 500; i++) {
                unsigned slot = nats_pending_waiting(&pending);
                cr_expect(nats_pending_at(&pending, slot)->attempt == attempt_of(i));
                lengths[i] = nats_pending_name(&pending, slot, tokens[i]);
                cr_expect(nats_pending_find(&pending, tokens[i], lengths[i]) == 0, "not sent yet");
                nats_pending_note_sent(&pending, slot, i, 1);
        }
        cr_expect(pending.n_waiting == 0 && pending.n_sent == 500);
        for (unsigned i = 500; i-- > 0;) {
                unsigned slot = nats_pending_find(&pending, tokens[i], lengths[i]);
                cr_assert(slot != 0);
                cr_expect(nats_pending_take(&pending, slot) == attempt_of(i));
                cr_expect(nats_pending_find(&pending, tokens[i], lengths[i]) == 0);
        }
        cr_expect(pending.n_sent == 0);
        nats_pending_deinit(&pending);
}

/* A late answer to an attempt that is over is never one to another event. */
Test(nats_pending, uses_no_token_twice)
{
        char old[NATS_TOKEN_BYTES];
        char token[NATS_TOKEN_BYTES];
        struct nats_pending pending;
        size_t old_bytes;
        unsigned slot;

        nats_pending_init(&pending);
        nats_pending_add(&pending, attempt_of(1));
        slot = nats_pending_waiting(&pending);
        old_bytes = nats_pending_name(&pending, slot, old);
        nats_pending_note_sent(&pending, slot, 5, 1);
        nats_pending_take(&pending, slot);
        nats_pending_add(&pending, attempt_of(2));
        cr_expect(nats_pending_waiting(&pending) == slot, "another slot: the test means nothing");
        nats_pending_name(&pending, slot, token);
        nats_pending_note_sent(&pending, slot, 6, 1);

        cr_expect(nats_pending_find(&pending, old, old_bytes) == 0);
        nats_pending_take(&pending, slot);
        nats_pending_deinit(&pending);
}

Test(nats_pending, finds_nothing_by_what_is_no_token)
{
        static const char *const others[] = {
            "", "0", "1", "2", "3", "ffffffff", "xyz", "-1", "12345678901234567", "1000003"};
        struct nats_pending pending;

        nats_pending_init(&pending);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
                cr_expect(nats_pending_find(&pending, others[i], strlen(others[i])) == 0);
        nats_pending_deinit(&pending);
}

/* Greeting. */

static bool parse(const char *json, struct nats_info *info)
{
        return nats_info_parse(json, strlen(json), info);
}

Test(nats_greeting, reads_what_a_server_says_of_itself)
{
        struct nats_info info;

        cr_assert(
            parse("{\"headers\":true,\"max_payload\":1048576,\"nonce\":\"abc\",\"tls_required\":"
                  "true,\"ldm\":true,\"connect_urls\":[\"a:1\",\"b:2\",3],\"other\":null}",
                &info));
        cr_expect(info.has_headers && info.requires_tls && info.is_lame_duck && !info.offers_tls);
        cr_expect(info.max_payload == 1048576);
        cr_expect_str_eq(info.nonce, "abc");
        cr_expect(info.n_urls == 2);
        cr_expect_str_eq(info.urls[1], "b:2");
        nats_info_deinit(&info);
        cr_expect(parse("{}", &info));
        nats_info_deinit(&info);
}

Test(nats_greeting, believes_nothing_that_makes_no_sense)
{
        static const char *const texts[] = {"", "x", "[]", "1", "{\"headers\":1}",
            "{\"max_payload\":-1}", "{\"max_payload\":\"1\"}", "{\"nonce\":1}",
            "{\"connect_urls\":{}}", "{\"tls_required\":\"no\"}"};
        struct nats_info info;

        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
                cr_expect(!parse(texts[i], &info), "%s", texts[i]);
}

Test(nats_greeting, says_who_we_are)
{
        struct nats_config config = {
            .user = (char[]){"a\"b"}, .password = (char[]){"p\xc3\xa9\r\n"}};
        const struct nats_credentials none = {0};
        const struct nats_info info = {0};
        struct bytes out = {0};

        nats_append_connect(&out, &config, &none, &info);
        cr_expect(strncmp(out.data, "CONNECT {", 9) == 0);
        cr_expect(strstr(out.data, "\"user\":\"a\\\"b\"") != NULL, "%s", out.data);
        cr_expect(strstr(out.data, "\"pass\":\"p\xc3\xa9\\r\\n\"") != NULL, "%s", out.data);
        cr_expect(strstr(out.data, "\"pedantic\":true") != NULL);
        cr_expect(strstr(out.data, "\"no_responders\":true") != NULL);
        cr_expect(strchr(out.data, '\r') == out.data + out.length - 2, "one line");
        bytes_deinit(&out);
}

/* The base layer, and the outcomes that every sink makes. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/list.h"
#include "log/log.h"
#include "pgcourier/outcome.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(bytes, grow_and_stay_terminated)
{
        struct bytes bytes = {0};

        for (int i = 0; i < 1000; i++)
                bytes_printf(&bytes, "%03d,", i);

        cr_assert_eq(bytes.length, 4000);
        cr_assert_eq(strlen(bytes.data), 4000);
        cr_assert_eq(strncmp(bytes.data, "000,001,", 8), 0);
        cr_assert_str_eq(bytes.data + 3996, "999,");
        bytes_deinit(&bytes);
}

Test(bytes, have_room_for_what_others_write)
{
        struct bytes bytes = {0};

        for (size_t size = 0; size < 300; size++) {
                char *at;

                bytes_append(&bytes, "ab", 2);
                at = bytes_reserve(&bytes, size);
                cr_assert(at == bytes.data + bytes.length);
                memset(at, 'x', size + 1); /* the sanitizer watches */
                bytes_clear(&bytes);
        }
        bytes_deinit(&bytes);
}

Test(bytes, hold_nul_bytes)
{
        struct bytes bytes = {0};

        bytes_append(&bytes, "a\0b", 3);
        bytes_append(&bytes, "", 0);

        cr_assert_eq(bytes.length, 3);
        cr_assert_eq(memcmp(bytes.data, "a\0b", 4), 0);
        bytes_deinit(&bytes);
}

Test(bytes, keep_their_storage_when_cleared_and_lose_it_at_the_end)
{
        struct bytes bytes = {0};

        bytes_clear(&bytes);
        bytes_append_text(&bytes, "something");
        bytes_clear(&bytes);
        cr_assert_str_eq(bytes.data, "");
        cr_assert_gt(bytes.capacity, 0);
        bytes_append_text(&bytes, "else");
        cr_assert_str_eq(bytes.data, "else");

        bytes_deinit(&bytes);

        cr_assert_null(bytes.data);
        cr_assert_eq(bytes.length, 0);
}

struct item {
        int number;
        struct list link;
};

static char *numbers_in(struct list *head)
{
        struct bytes text = {0};

        bytes_append_text(&text, "");
        list_for_each (link, head)
                bytes_printf(&text, "%d ", list_owner(link, struct item, link)->number);
        return text.data;
}

#define assert_numbers(head, expected)                                                             \
        do {                                                                                       \
                char *actual = numbers_in(head);                                                   \
                cr_assert_str_eq(actual, (expected));                                              \
                free(actual);                                                                      \
        } while (0)

Test(list, keeps_the_order_of_insertion)
{
        struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
        struct list head;

        list_init(&head);
        assert_numbers(&head, "");
        list_push_back(&head, &items[1].link);
        list_push_back(&head, &items[3].link);
        list_push_front(&head, &items[0].link);
        list_insert_before(&items[3].link, &items[2].link);

        assert_numbers(&head, "0 1 2 3 ");
}

Test(list, lets_a_loop_remove_what_it_visits)
{
        struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
        struct list head;

        list_init(&head);
        for (int i = 0; i < 3; i++)
                list_push_back(&head, &items[i].link);

        list_for_each (link, &head)
                if (list_owner(link, struct item, link)->number != 1)
                        list_remove(link);

        assert_numbers(&head, "1 ");
        cr_assert(list_is_empty(&items[0].link));
        list_remove(&items[1].link);
        cr_assert(list_is_empty(&head));
}

Test(list, may_remove_a_link_twice)
{
        struct list head;
        struct item item;

        list_init(&head);
        list_push_back(&head, &item.link);

        list_remove(&item.link);
        list_remove(&item.link);

        cr_assert(list_is_empty(&head));
}

/* What `fields` look like on stderr, without the timestamp. */
static char *logged(enum log_level level, const struct log_field *fields)
{
        static const char *const timestamp = "ts=2026-11-20T10:00:00.123456Z ";
        char line[4096];
        int kept = dup(STDERR_FILENO);
        int pipe_ends[2];
        ssize_t length;

        cr_assert_eq(pipe(pipe_ends), 0);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[1]);
        log_emit(level, "tested", fields);
        dup2(kept, STDERR_FILENO);
        close(kept);
        length = read(pipe_ends[0], line, sizeof line - 1);
        close(pipe_ends[0]);
        cr_assert_gt(length, (ssize_t)strlen(timestamp));
        line[length] = '\0';
        cr_assert_eq(strncmp(line, "ts=20", 5), 0);
        cr_assert_eq(line[strlen(timestamp) - 2], 'Z');
        return xstrdup(line + strlen(timestamp));
}

#define assert_logged(level, expected, ...)                                                        \
        do {                                                                                       \
                char *actual =                                                                     \
                    logged(level, (const struct log_field[]){__VA_ARGS__, {.name = NULL}});        \
                cr_assert_str_eq(actual, (expected));                                              \
                free(actual);                                                                      \
        } while (0)

Test(log, writes_one_line_of_names_and_values)
{
        assert_logged(LEVEL_INFO,
            "level=info event=tested sink=billing backlog=-12 took_ms=1.500\n",
            kv_text("sink", "billing"), kv_int("backlog", -12), kv_ms("took_ms", 1.5));
}

Test(log, names_every_level)
{
        assert_logged(LEVEL_DEBUG, "level=debug event=tested n=1\n", kv_int("n", 1));
        assert_logged(LEVEL_WARN, "level=warn event=tested n=1\n", kv_int("n", 1));
        assert_logged(LEVEL_ERROR, "level=error event=tested n=1\n", kv_int("n", 1));
}

Test(log, leaves_out_a_text_that_is_null)
{
        assert_logged(
            LEVEL_INFO, "level=info event=tested n=1\n", kv_text("key", NULL), kv_int("n", 1));
}

Test(log, quotes_what_could_be_taken_for_another_field)
{
        assert_logged(LEVEL_INFO, "level=info event=tested a=\"two words\" b=\"x=y\" c=\"\"\n",
            kv_text("a", "two words"), kv_text("b", "x=y"), kv_text("c", ""));
}

Test(log, escapes_what_could_end_the_line_or_the_quotes)
{
        assert_logged(LEVEL_INFO,
            "level=info event=tested a=\"x\\nlevel=error\" b=\"\\\"\\\\\" "
            "c=\"\\x1b[31m\\x7f\\x0d\"\n",
            kv_text("a", "x\nlevel=error"), kv_text("b", "\"\\"), kv_text("c", "\x1b[31m\x7f\r"));
}

Test(log, leaves_utf8_readable)
{
        assert_logged(LEVEL_INFO, "level=info event=tested key=Größe\n", kv_text("key", "Größe"));
}

Test(log, is_enabled_from_the_level_set_upwards)
{
        cr_assert_not(log_enabled(LEVEL_DEBUG));
        cr_assert(log_enabled(LEVEL_INFO));

        log_set_level(LEVEL_ERROR);

        cr_assert_not(log_enabled(LEVEL_WARN));
        cr_assert(log_enabled(LEVEL_ERROR));
}

Test(error, holds_kind_and_text_and_says_false)
{
        struct error error = {0};

        cr_assert_not(error_set(&error, ERROR_CONFIG, "%s: line %d", "a.yaml", 7));

        cr_assert_eq(error.kind, ERROR_CONFIG);
        cr_assert_str_eq(error.text, "a.yaml: line 7");
}

Test(error, cuts_a_text_that_is_too_long)
{
        struct error error;

        error_set(&error, ERROR_SYSTEM, "%5000d", 1);

        cr_assert_eq(strlen(error.text), sizeof error.text - 1);
}

Test(error, cuts_no_character_in_two)
{
        struct error error;

        for (int n = 0; n < 4; n++) {
                error_set(&error, ERROR_CONFIG, "%*s\xe2\x80\xa6 and more",
                    (int)sizeof error.text - 4 + n, "");
                cr_expect_eq(strchr(error.text, '\xe2') == NULL, n > 0, "%d", n);
                cr_expect_eq(strchr(error.text, '\x80') == NULL, n > 0, "%d", n);
        }
}

/* Scripts rely on these numbers: they never change. */
Test(error, gives_each_kind_its_own_exit_code)
{
        cr_assert_eq(error_exit_code(ERROR_NONE), 0);
        cr_assert_eq(error_exit_code(ERROR_SYSTEM), 1);
        cr_assert_eq(error_exit_code(ERROR_USAGE), 2);
        cr_assert_eq(error_exit_code(ERROR_CONFIG), 3);
        cr_assert_eq(error_exit_code(ERROR_DATABASE), 4);
        cr_assert_eq(error_exit_code(ERROR_SINK), 5);
        cr_assert_eq(error_exit_code(ERROR_SCHEMA), 6);
        cr_assert_eq(error_exit_code(ERROR_PERMISSION), 7);
}

Test(outcome, is_made_with_a_reason_and_without_a_delay)
{
        struct outcome outcome = outcome_make(OUTCOME_REJECTED, "status %d", 422);

        cr_assert_eq(outcome.kind, OUTCOME_REJECTED);
        cr_assert_eq(outcome.delay_ms, OUTCOME_NO_DELAY);
        cr_assert_str_eq(outcome.reason, "status 422");
}

Test(outcome, cleans_the_words_of_a_peer)
{
        struct outcome outcome = outcome_make(OUTCOME_RETRY, "%s", "no\r\nway\t\x1b[31m\x7f\xff.");

        cr_assert_str_eq(outcome.reason, "no  way ?[31m??.");
}

Test(outcome, cuts_a_reason_that_is_too_long)
{
        struct outcome outcome = outcome_make(OUTCOME_RETRY, "%5000d", 1);

        cr_assert_eq(strlen(outcome.reason), sizeof outcome.reason - 1);
}

Test(outcome, has_a_name_for_logs_and_metrics)
{
        cr_assert_str_eq(outcome_name(OUTCOME_DELIVERED), "delivered");
        cr_assert_str_eq(outcome_name(OUTCOME_RETRY), "retry");
        cr_assert_str_eq(outcome_name(OUTCOME_REJECTED), "rejected");
        cr_assert_str_eq(outcome_name(OUTCOME_SINK_DOWN), "sink_down");
        cr_assert_str_eq(outcome_name(OUTCOME_CANCELLED), "cancelled");
}

Test(alloc, ends_with_one_line_and_exit_code_75_when_memory_is_out)
{
        char words[64] = {0};
        int channel[2];
        int status;
        pid_t child;

        cr_assert_eq(pipe(channel), 0);
        child = fork();
        if (child == 0) {
                dup2(channel[1], STDERR_FILENO);
                out_of_memory();
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_gt(read(channel[0], words, sizeof words - 1), 0);

        cr_assert_str_eq(words, "pgcourier: out of memory\n");
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 75);
        close(channel[0]);
        close(channel[1]);
}

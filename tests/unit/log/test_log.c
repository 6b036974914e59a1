/* What a log line looks like whatever stands in it, and which lines are counted instead. */
#include "log/log_fold.h"
#include "log/log_render.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#define SECOND INT64_C(1000000)

static json_t *render(const char *text)
{
        struct bytes line = {0};
        json_t *object;

        log_render_json(&line, "2026-11-20T10:00:00.123456Z", LEVEL_WARN, "sink_down",
            (const struct log_field[]){kv_text("sink", "a"), kv_text("reason", text),
                kv_text("left_out", NULL), kv_int("n", -5), kv_ms("took_ms", 1.5), {.name = NULL}});
        cr_assert_eq(line.data[line.length - 1], '\n');
        cr_assert_null(memchr(line.data, '\n', line.length - 1), "one line");
        object = json_loadb(line.data, line.length, 0, NULL);
        cr_assert_not_null(object, "no JSON: %s", line.data);
        bytes_deinit(&line);
        return object;
}

Test(log, writes_valid_json_whatever_is_said)
{
        static const struct {
                const char *said, *expected;
        } cases[] = {{"plain", "plain"}, {"", ""}, {"a\"b\\c\n\t\x01\x7f", "a\"b\\c\n\t\x01\x7f"},
            {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
            {"x\xffy", "x\xef\xbf\xbdy"}, {"\xc3", "\xef\xbf\xbd"},
            {"\xc0\xafz", "\xef\xbf\xbd\xef\xbf\xbdz"},
            {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
            {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
            {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"}};

        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                json_t *object = render(cases[i].said);
                cr_expect_str_eq(
                    json_string_value(json_object_get(object, "reason")), cases[i].expected);
                cr_expect_str_eq(json_string_value(json_object_get(object, "level")), "warn");
                cr_expect_eq(json_integer_value(json_object_get(object, "n")), -5);
                cr_expect_eq(json_object_size(object), 7);
                json_decref(object);
        }
}

Test(log, writes_the_first_of_a_matter_and_counts_the_others)
{
        static struct log_fold fold;
        const struct log_matter *over;
        unsigned n_written = 0;

        for (int i = 0; i < 100; i++)
                n_written += log_fold_passes(&fold, 2, "delivery_failed", "a", "503", i * 1000);
        cr_expect_eq(n_written, LOG_FOLD_FREE);
        cr_expect(log_fold_passes(&fold, 2, "delivery_failed", "a", "500", 0), "another reason");
        cr_expect(log_fold_passes(&fold, 2, "delivery_failed", "b", "503", 0), "another sink");
        cr_expect(log_fold_passes(&fold, 2, "sink_down", "a", "503", 0), "another event");

        cr_expect_null(log_fold_next_over(&fold, 59 * SECOND, false));
        over = log_fold_next_over(&fold, 60 * SECOND, false);
        cr_assert_not_null(over);
        cr_expect_str_eq(over->event, "delivery_failed");
        cr_expect_str_eq(over->reason, "503");
        cr_expect_eq(over->n_folded, 100 - LOG_FOLD_FREE);
        cr_expect_eq(over->first_us, LOG_FOLD_FREE * 1000);
        cr_expect_eq(over->last_us, 99 * 1000);
        cr_expect_null(log_fold_next_over(&fold, 60 * SECOND, false), "told once");
        cr_expect(log_fold_passes(&fold, 2, "delivery_failed", "a", "503", 61 * SECOND), "anew");
}

Test(log, folds_reasons_that_differ_only_in_a_duration)
{
        static struct log_fold fold;
        unsigned n_written = 0;
        char reason[64];

        for (int i = 0; i < 30; i++) {
                snprintf(reason, sizeof reason, "port 80 after %d ms: refused", i);
                n_written += log_fold_passes(&fold, 2, "e", NULL, reason, 0);
        }
        cr_expect_eq(n_written, LOG_FOLD_FREE);
        cr_expect(log_fold_passes(&fold, 2, "e", NULL, "port 81 after 1 ms: refused", 0));
        cr_expect_not_null(log_fold_next_over(&fold, 0, true), "at the end, too");
}

Test(log, writes_a_line_rather_than_losing_one)
{
        static struct log_fold fold;
        char reason[16];

        for (int i = 0; i < 5 * LOG_FOLD_MATTERS; i++) {
                snprintf(reason, sizeof reason, "%d", i);
                cr_expect(log_fold_passes(&fold, 2, "e", "a", reason, 0));
        }
}

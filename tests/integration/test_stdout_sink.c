/* The stdout sink, with this process's standard output replaced by pipes and files. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "config/config.h"
#include "sinks/registry.h"
#include "sinks/sink_contract.h"
#include "support/process.h"
#include "support/sink_driver.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct stdout_config config = {.payload = true};
static struct sink_driver driver;
static int reader; /* the other end of standard output, non-blocking */

static void redirect(int output)
{
        fflush(stdout);
        dup2(output, STDOUT_FILENO);
        close(output);
}

static void prepare(void)
{
        int ends[2];

        cr_assert_eq(pipe(ends), 0);
        reader = ends[0];
        fcntl(reader, F_SETFL, O_NONBLOCK);
        redirect(ends[1]);
        sink_driver_init(&driver, sink_kind_find("stdout"), &config);
}

static void clean_up(void)
{
        sink_driver_deinit(&driver);
}

TestSuite(stdout_sink, .init = prepare, .fini = clean_up, .timeout = 60);

static void assert_outcome(size_t number, enum outcome_kind kind)
{
        const struct driven_attempt *driven = &driver.attempts[number];

        cr_assert(driven->is_finished);
        cr_assert_eq(driven->outcome.kind, kind, "attempt %zu: %s: %s", number,
            outcome_name(driven->outcome.kind), driven->outcome.reason);
}

/* What can be read now, appended to `text`. */
static void drain(struct bytes *text)
{
        char buffer[65536];
        ssize_t n;

        while ((n = read(reader, buffer, sizeof buffer)) > 0)
                bytes_append(text, buffer, (size_t)n);
}

/* What has been written, and not what will be because there is room again. */
static void drain_once(struct bytes *text)
{
        int n_bytes = 0;
        char *room;

        cr_assert_eq(ioctl(reader, FIONREAD, &n_bytes), 0);
        room = bytes_reserve(text, (size_t)n_bytes);
        cr_assert_eq(read(reader, room, (size_t)n_bytes), n_bytes);
        room[n_bytes] = '\0';
        text->length += (size_t)n_bytes;
}

static bool drain_until_finished(void *context)
{
        drain(context);
        return driver.n_finished == driver.n_started;
}

/* Each line whole, and of the events first, first + 1, … in this order. */
static void assert_lines(struct bytes *text, int64_t first, size_t n)
{
        char *rest = text->data;

        for (size_t i = 0; i < n; i++) {
                char *end = strchr(rest, '\n');
                struct event event = sample_event(first + (int64_t)i, "");
                cr_assert(end != NULL, "line %zu is missing", i);
                cr_assert(strncmp(rest, "{\"id\": \"", 8) == 0 && end[-1] == '}');
                cr_assert_eq(strncmp(rest + 8, event.event_id, 36), 0, "line %zu", i);
                rest = end + 1;
        }
        cr_assert_str_eq(rest, "");
}

static void start_many(size_t n, const char *json)
{
        for (size_t i = 0; i < n; i++) {
                struct event event = sample_event((int64_t)driver.n_started, json);
                sink_driver_start(&driver, &event);
        }
        sink_driver_flush(&driver);
}

Test(stdout_sink, writes_a_burst_in_order)
{
        struct bytes text = {0};

        start_many(20000, "{\"n\": 1}");
        sink_driver_run_until(&driver, drain_until_finished, &text, "the last line");
        drain(&text);

        assert_lines(&text, 0, 20000);
        for (size_t i = 0; i < 20000; i++) {
                assert_outcome(i, OUTCOME_DELIVERED);
                cr_assert_eq(driver.attempts[i].place, i);
        }
        bytes_deinit(&text);
}

static bool has_finished_some(void *context)
{
        (void)context;
        return driver.n_finished > 0;
}

static bool has_ticked(void *context)
{
        return ++*(unsigned *)context > 50;
}

/* What was written fits into the pipe: only whole lines there may count as delivered. */
Test(stdout_sink, delivers_only_what_a_full_pipe_has_taken)
{
        struct bytes text = {0};
        size_t n_delivered;
        size_t n_lines = 0;
        unsigned ticks = 0;

        start_many(5000, "{\"n\": 1}");
        sink_driver_run_until(&driver, has_finished_some, NULL, "the first answer");
        /* The loop turns although the pipe is not read, and still nothing more is delivered. */
        sink_driver_run_until(&driver, has_ticked, &ticks, "turns of the loop");
        n_delivered = driver.n_finished;
        cr_assert_lt(n_delivered, 5000);
        drain_once(&text);
        for (const char *at = text.data; (at = strchr(at, '\n')) != NULL; at++)
                n_lines++;
        cr_assert_eq(n_delivered, n_lines);

        sink_driver_run_until(&driver, drain_until_finished, &text, "the last line");
        drain(&text);
        assert_lines(&text, 0, 5000);
        bytes_deinit(&text);
}

Test(stdout_sink, writes_lines_longer_than_a_pipe)
{
        struct bytes text = {0};
        char *json = xcalloc(300001, 1);

        memset(json, ' ', 300000);
        json[0] = '1';
        start_many(3, json);
        sink_driver_run_until(&driver, drain_until_finished, &text, "the last line");
        drain(&text);

        assert_lines(&text, 0, 3);
        bytes_deinit(&text);
        free(json);
}

Test(stdout_sink, answers_sink_down_when_the_pipe_has_no_reader)
{
        close(reader);
        start_many(3, "1");
        sink_driver_finish(&driver);

        for (size_t i = 0; i < 3; i++)
                assert_outcome(i, OUTCOME_SINK_DOWN);
        cr_assert(strstr(driver.attempts[0].outcome.reason, "Broken pipe") != NULL);
        cr_assert_eq(sink_driver_probe(&driver).kind, OUTCOME_SINK_DOWN);
        /* And again, for the relay will ask again. */
        start_many(1, "1");
        sink_driver_finish(&driver);
        assert_outcome(3, OUTCOME_SINK_DOWN);
}

Test(stdout_sink, answers_sink_down_for_a_full_disk)
{
        redirect(open("/dev/full", O_WRONLY));
        start_many(2, "1");
        sink_driver_finish(&driver);

        assert_outcome(0, OUTCOME_SINK_DOWN);
        assert_outcome(1, OUTCOME_SINK_DOWN);
}

Test(stdout_sink, completes_a_line_that_was_begun_when_it_was_cancelled)
{
        struct bytes text = {0};
        char *json = xcalloc(100001, 1);
        unsigned ticks = 0;
        const char *line_end;

        memset(json, ' ', 100000);
        json[0] = '1';
        start_many(2, json);
        sink_driver_run_until(&driver, has_ticked, &ticks, "turns of the loop");
        sink_cancel(driver.sink);
        sink_driver_finish(&driver);
        assert_outcome(0, OUTCOME_CANCELLED);
        assert_outcome(1, OUTCOME_CANCELLED);

        start_many(1, "2");
        sink_driver_run_until(&driver, drain_until_finished, &text, "the last line");
        drain(&text);
        assert_outcome(2, OUTCOME_DELIVERED);
        line_end = strchr(text.data, '\n');
        cr_assert(line_end - text.data > 100000 && line_end[-1] == '}');
        cr_assert(strncmp(line_end + 1, "{\"id\": ", 7) == 0);
        cr_assert(strchr(line_end + 1, '\n') == text.data + text.length - 1);
        bytes_deinit(&text);
        free(json);
}

Test(stdout_sink, cancels_what_has_not_been_written)
{
        struct event event = sample_event(1, "1");

        /* Without flush nothing has begun. */
        sink_driver_start(&driver, &event);
        sink_cancel(driver.sink);
        sink_driver_finish(&driver);
        assert_outcome(0, OUTCOME_CANCELLED);

        sink_driver_start(&driver, &event);
        sink_driver_flush(&driver);
        sink_driver_finish(&driver);
        assert_outcome(1, OUTCOME_DELIVERED);
}

struct pair {
        struct sink_driver *drivers[2];
        struct bytes text;
};

static bool drain_until_both_finished(void *context)
{
        struct pair *pair = context;
        struct sink_driver *other = pair->drivers[1];

        drain(&pair->text);
        uv_run(&other->loop, UV_RUN_NOWAIT);
        return driver.n_finished == driver.n_started && other->n_finished == other->n_started;
}

Test(stdout_sink, never_mixes_the_lines_of_two_sinks)
{
        struct sink_driver other;
        struct pair pair = {.drivers = {&driver, &other}};
        char *json = xcalloc(10001, 1);
        size_t n_lines = 0;

        memset(json, ' ', 10000);
        json[0] = '1';
        sink_driver_init(&other, sink_kind_find("stdout"), &config);
        for (int64_t i = 0; i < 200; i++) {
                struct event event = sample_event(i, json);
                sink_driver_start(&driver, &event);
                sink_driver_start(&other, &event);
        }
        sink_driver_flush(&driver);
        sink_driver_flush(&other);
        sink_driver_run_until(&driver, drain_until_both_finished, &pair, "the last line of both");
        drain(&pair.text);

        for (char *at = pair.text.data, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
                cr_assert(strncmp(at, "{\"id\": ", 7) == 0 && end[-1] == '}');
                cr_assert(end - at > 10000 && end - at < 10300, "%td", end - at);
                n_lines++;
        }
        cr_assert_eq(n_lines, 400);
        sink_driver_deinit(&other);
        bytes_deinit(&pair.text);
        free(json);
}

Test(stdout_sink, writes_into_a_file)
{
        char *folder = temp_folder();
        char *path = xasprintf("%s/out", folder);
        struct bytes text = {0};
        char *content;

        redirect(open(path, O_WRONLY | O_CREAT, 0600));
        cr_assert_eq(sink_driver_probe(&driver).kind, OUTCOME_DELIVERED);
        start_many(1000, "{\"n\": 1}");
        sink_driver_finish(&driver);

        content = read_file(path);
        bytes_append_text(&text, content);
        assert_lines(&text, 0, 1000);
        bytes_deinit(&text);
        free(content);
        free(path);
        free(folder);
}

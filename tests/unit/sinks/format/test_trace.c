#include "sinks/format/trace.h"

#include <criterion/criterion.h>

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static struct trace trace_with(const char *parent, const char *state)
{
        const struct event_header headers[] = {{"Traceparent", parent}, {"tracestate", state}};
        const struct event event = {.headers = headers, .n_headers = 2};

        return trace_of(&event);
}

Test(trace, drops_traces_that_are_not_valid)
{
        static const char *const bad[] = {"", "00", "00-abc",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7\r\n01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g"};

        cr_expect_str_eq(trace_with(PARENT, "a=b").parent, PARENT);
        cr_expect_str_eq(trace_with(PARENT, "a=b").state, "a=b");
        cr_expect_null(trace_with(PARENT, "a=b\r\nx: y").state);
        cr_expect_not_null(trace_with(PARENT, "a=b\r\nx: y").parent);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                cr_expect_null(trace_with(bad[i], "a=b").parent, "%s", bad[i]);
                cr_expect_null(trace_with(bad[i], "a=b").state, "%s", bad[i]);
        }
}

Test(trace, knows_its_headers_in_upper_and_lower_case)
{
        cr_expect(trace_is_header("traceparent"));
        cr_expect(trace_is_header("TraceState"));
        cr_expect_not(trace_is_header("trace"));
        cr_expect_not(trace_is_header("traceparents"));
}

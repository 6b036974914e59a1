#include "sinks/format/event_time.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_time(struct event_time *time, int64_t us, const char *expected)
{
        cr_expect_str_eq(event_time_text(time, us), expected);
        cr_expect_eq(time->length, strlen(expected));
}

Test(event_time, is_utc_to_the_microsecond)
{
        struct event_time time = {0};

        expect_time(&time, 0, "1970-01-01T00:00:00.000000Z");
        expect_time(&time, 1706745599000001, "2024-01-31T23:59:59.000001Z");
        expect_time(&time, 1706745599999999, "2024-01-31T23:59:59.999999Z");
        expect_time(&time, 1706745600000000, "2024-02-01T00:00:00.000000Z");
        expect_time(&time, 1706745599000020, "2024-01-31T23:59:59.000020Z");
}

Test(event_time, reaches_before_1970_and_beyond_four_digits)
{
        struct event_time time = {0};

        expect_time(&time, -1, "1969-12-31T23:59:59.999999Z");
        expect_time(&time, -1000000, "1969-12-31T23:59:59.000000Z");
        expect_time(&time, -1000001, "1969-12-31T23:59:58.999999Z");
        expect_time(&time, -62135596800000000, "0001-01-01T00:00:00.000000Z");
        expect_time(&time, INT64_MAX, "294247-01-10T04:00:54.775807Z");
        expect_time(&time, INT64_MIN, "-290308-12-21T19:59:05.224192Z");
}

#include "sinks/format/event_time.h"

#include <stdio.h>
#include <time.h>

#define FRACTION ".000000Z"

static void format_second(struct event_time *time, int64_t second)
{
        time_t when = second;
        struct tm utc = {0};

        gmtime_r(&when, &utc);
        time->length = (size_t)snprintf(time->text, sizeof time->text,
            "%04d-%02d-%02dT%02d:%02d:%02d" FRACTION, utc.tm_year + 1900, utc.tm_mon + 1,
            utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
        time->second = second;
}

const char *event_time_text(struct event_time *time, int64_t wall_us)
{
        int64_t second = wall_us / 1000000;
        int64_t rest = wall_us % 1000000;
        char *digit;

        if (rest < 0) {
                second--;
                rest += 1000000;
        }
        if (time->length == 0 || second != time->second)
                format_second(time, second);
        digit = time->text + time->length - 2; /* before the Z */
        for (int i = 0; i < 6; i++, rest /= 10)
                *digit-- = (char)('0' + rest % 10);
        return time->text;
}

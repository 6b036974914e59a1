#include "admin/json_values.h"

#include <stdio.h>
#include <time.h>

json_t *json_time(int64_t wall_us)
{
        time_t seconds = (time_t)(wall_us / 1000000);
        struct tm utc;
        char text[64];
        size_t length;

        if (wall_us <= 0)
                return json_null();
        gmtime_r(&seconds, &utc);
        length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
        snprintf(text + length, sizeof text - length, ".%03dZ", (int)(wall_us / 1000 % 1000));
        return json_string(text);
}

json_t *json_seconds(double seconds)
{
        return seconds < 0 ? json_null() : json_real(seconds);
}

json_t *json_words(const char *text)
{
        json_t *words = text != NULL && *text != '\0' ? json_string(text) : NULL;

        return words != NULL ? words : json_null();
}

json_t *json_member(const json_t *object, const char *name)
{
        json_t *member = json_object_get(object, name);

        return member != NULL ? json_incref(member) : json_null();
}

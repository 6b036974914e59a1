#include "base/crash_point.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Only one point is ever wanted, so one counter does; threads may pass it too. */
static atomic_ulong n_passed;

void crash_point(const char *name)
{
        const char *wanted = getenv("PGCOURIER_CRASH_AT");
        const char *colon;
        char *end;
        unsigned long number;

        if (wanted == NULL)
                return;
        /* A run that was to crash and cannot must not look like one that survived. */
        colon = strrchr(wanted, ':');
        assert(colon != NULL);
        number = strtoul(colon + 1, &end, 10);
        assert(number > 0 && *end == '\0');
        if (strlen(name) == (size_t)(colon - wanted) &&
            strncmp(name, wanted, (size_t)(colon - wanted)) == 0 && ++n_passed == number)
                raise(SIGKILL);
}

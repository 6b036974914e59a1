/* What an error of PostgreSQL says about an event, or about the sink. Pure. */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>

/* The fields of an error; NULL: the server gave none. */
struct postgres_error {
        const char *sqlstate; /* never NULL */
        const char *message;
        const char *detail;
        const char *context; /* within which function; NULL: it is of our own statement */
};

struct postgres_verdict {
        struct outcome outcome;
        bool is_of_event;  /* another event in its place may succeed */
        bool ends_session; /* the session is of no use any more */
};

struct postgres_verdict postgres_error_judge(const struct postgres_error *error);

/* The delay that an error PC002 gives in its DETAIL: seconds, a duration as in the config file, or
 * an interval as PostgreSQL writes it ("01:30:00"). Up to a day. */
bool postgres_delay_parse(const char *detail, int64_t *out_ms);

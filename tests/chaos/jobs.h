/*
 * The function that a sink calls for each event, in the outbox's own database. It writes down which
 * events it was called for, so that what it has done can be compared with what was published; and it
 * fails now and then when it has done so, and refuses some events for good.
 */
#pragma once

#include "chaos/arrivals.h"

/* The inbox, the function "jobs.run" and the right to call it. `dsn` is the superuser's. */
void jobs_begin(const char *dsn, bool with_refusals);

/* All that it has done, in the order of its calls. */
void jobs_read(struct arrivals *arrivals, const char *dsn);

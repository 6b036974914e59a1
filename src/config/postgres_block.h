/* The block postgres of a sink: a function that is called, or a table. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* The rules between its keys, and with those of its sink. */
bool check_postgres_sink(
    const struct source *source, const struct sink_config *sink, const char *sink_path);

/* What to connect with, which is `of_outbox` if the sink has no dsn of its own. NULL is allowed: a
 * sink of another kind. */
void postgres_sink_choose_server(
    struct postgres_sink_config *sink, const struct postgres_config *of_outbox);

/* The block postgres of a sink: a function that is called, or a table. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* The rules between its keys. */
bool check_postgres_sink(
    const struct source *source, const struct postgres_sink_config *postgres, const char *path);

/* What to connect with, which is `of_outbox` if the sink has no dsn of its own. */
void postgres_sink_choose_server(
    struct postgres_sink_config *sink, const struct postgres_config *of_outbox);

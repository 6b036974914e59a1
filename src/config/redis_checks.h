/* Which keys of a redis block go together. */
#pragma once

#include <stdbool.h>

struct redis_config;
struct source;

bool check_redis_options(
    const struct source *source, const struct redis_config *redis, const char *path);

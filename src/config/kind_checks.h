/* The rules between the keys of one kind of sink. */
#pragma once

#include "config/config.h"
#include "config/source.h"

#include <stdbool.h>

/* `path` is that of the block. What follows from other keys (of a redis sink what its URL holds, of an
 * email sink the domain of Message-ID) is set. On failure the source's error is set. */
bool check_redis(const struct source *source, struct redis_config *redis, const char *path);
bool check_http(const struct source *source, const struct http_config *http, const char *path);
bool check_email(const struct source *source, struct email_config *email, const char *path);

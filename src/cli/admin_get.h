/* A question to the admin endpoint of a running relay, for commands. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>

struct admin_config;

/* GET of `path` with the token of the configuration, if it has one. False, with the reason, if nobody
 * answers within two seconds, or anything but 200. */
bool admin_get(const struct admin_config *admin, const char *path, struct bytes *out_body,
    struct error *error) __attribute__((warn_unused_result));

/* How the rows of the key tables are written, for the files that hold them. */
#pragma once

#include "config/config.h"
#include "config/config_keys.h"

#define MEMBER(type, member)                                                                       \
        .offset = offsetof(type, member), .value_bytes = sizeof(((type *)NULL)->member)
#define LIST(type, member, count)                                                                  \
        .is_list = true, .offset = offsetof(type, member), .count_offset = offsetof(type, count),  \
        .value_bytes = sizeof(*((type *)NULL)->member)
#define BLOCK(name, type, rows)                                                                    \
        const struct config_block name = {                                                         \
            .keys = (rows), .n_keys = sizeof(rows) / sizeof *(rows), .struct_bytes = sizeof(type)}

/* The blocks of the kinds of sinks: sink_config.c. */
extern const struct config_block redis_block, http_block, email_block, stdout_block, module_block;

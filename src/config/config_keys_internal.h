/* How the rows of the key tables are written, for the files that hold them. */
#pragma once

#include "config/config.h"
#include "config/config_keys.h"

/* Of the struct that OWNER is, around each table. */
#define MEMBER(member)                                                                             \
        .offset = offsetof(OWNER, member), .value_bytes = sizeof(((OWNER *)NULL)->member)
#define LIST(member, count)                                                                        \
        .is_list = true, .offset = offsetof(OWNER, member),                                        \
        .count_offset = offsetof(OWNER, count), .value_bytes = sizeof(*((OWNER *)NULL)->member)
/* The row of a file that holds the member's value. */
#define FILE_OF(member)                                                                            \
        {                                                                                          \
#member "_file", KEY_FILE_OF, MEMBER(member), .help = "a file that holds " #member \
        }
#define BLOCK(name, rows)                                                                          \
        const struct config_block name = {.keys = (rows),                                          \
            .n_keys = sizeof(rows) / sizeof *(rows),                                               \
            .struct_bytes = sizeof(OWNER)}

/* The blocks of the kinds of sinks: sink_config.c and broker_keys.c. */
extern const struct config_block redis_block, http_block, email_block, stdout_block, module_block;
extern const struct config_block nats_block, rabbitmq_block, kafka_block, postgres_sink_block;

extern const struct config_block debezium_block;

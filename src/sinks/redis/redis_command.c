#include "sinks/redis/redis_command.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "config/config.h"
#include "sinks/redis/redis_layout.h"
#include "sinks/redis/redis_target.h"
#include "sinks/redis/resp_write.h"

#include <stdlib.h>

struct redis_command {
        const struct redis_config *config; /* borrowed */
        struct redis_target *target;       /* owned */
        struct redis_layout *layout;       /* owned */
};

struct redis_command *redis_command_create(const struct redis_config *config, struct error *error)
{
        const char *name = config->mode == REDIS_PUBSUB ? config->channel : config->stream;
        struct redis_target *target = redis_target_create(name, config->max_streams, error);
        struct redis_command *command;

        if (target == NULL)
                return NULL;
        command = xcalloc(1, sizeof *command);
        command->config = config;
        command->target = target;
        command->layout = redis_layout_create(config);
        return command;
}

void redis_command_destroy(struct redis_command *command)
{
        if (command == NULL)
                return;
        redis_target_destroy(command->target);
        redis_layout_destroy(command->layout);
        free(command);
}

bool redis_command_is_target_per_event(const struct redis_command *command)
{
        return redis_target_is_per_event(command->target);
}

bool redis_command_admit(
    struct redis_command *command, const struct event *event, struct outcome *out_refusal)
{
        return redis_target_admit(command->target, event, out_refusal);
}

const struct bytes *redis_command_target(struct redis_command *command, const struct event *event)
{
        return redis_target_name(command->target, event);
}

static bool is_trimming(const struct redis_config *config)
{
        return config->maxlen > 0 || config->minid_ms > 0;
}

size_t redis_command_n_words(const struct redis_command *command, const struct event *event)
{
        switch (command->config->mode) {
        case REDIS_STREAM:
                return 3 + (is_trimming(command->config) ? 3 : 0) +
                       redis_layout_n_words(command->layout, event);
        case REDIS_PUBSUB:
                return 3;
        }
        abort();
}

/* Entries have the time of Redis' clock as their id; ours is not far from it. */
static uint64_t oldest_ms(const struct redis_config *config)
{
        int64_t ms = clock_wall_us() / 1000 - config->minid_ms;

        return ms > 0 ? (uint64_t)ms : 0;
}

static void append_trimming(const struct redis_config *config, struct bytes *out)
{
        if (config->maxlen > 0) {
                REDIS_APPEND_WORD(out, 6, "MAXLEN");
                REDIS_APPEND_WORD(out, 1, "~");
                redis_append_number(out, config->maxlen);
        } else if (config->minid_ms > 0) {
                REDIS_APPEND_WORD(out, 5, "MINID");
                REDIS_APPEND_WORD(out, 1, "~");
                redis_append_number(out, oldest_ms(config));
        }
}

void redis_command_append_words(
    struct redis_command *command, const struct event *event, struct bytes *out)
{
        const struct bytes *name = redis_command_target(command, event);

        switch (command->config->mode) {
        case REDIS_STREAM:
                REDIS_APPEND_WORD(out, 4, "XADD");
                redis_append_word(out, name->data, name->length);
                append_trimming(command->config, out);
                REDIS_APPEND_WORD(out, 1, "*");
                redis_layout_append_fields(command->layout, event, out);
                return;
        case REDIS_PUBSUB:
                REDIS_APPEND_WORD(out, 7, "PUBLISH");
                redis_append_word(out, name->data, name->length);
                redis_layout_append_message(command->layout, event, out);
                return;
        }
}

void redis_command_encode(
    struct redis_command *command, const struct event *event, struct bytes *out)
{
        redis_append_count(out, '*', redis_command_n_words(command, event));
        redis_command_append_words(command, event, out);
}

void redis_command_describe(
    const struct redis_command *command, const struct event *event, char *name, size_t size)
{
        redis_target_describe(command->target, event, name, size);
}

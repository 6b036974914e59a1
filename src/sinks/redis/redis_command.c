/*
 * Where the topic alone makes the target's name, the names of recent topics are at hand: this runs
 * for each event, and neighbouring events have few topics.
 *
 * Names are kept for the life of the sink. A stream without a writer still belongs to its readers,
 * so no name is forgotten to make room for another. An event that would make one name too many is
 * rejected rather than tried again: it becomes a dead letter at once, delays no other event, and
 * can be redriven when the limit has been raised.
 */
#include "sinks/redis/redis_command.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "sinks/format/cloudevents.h"
#include "sinks/redis/redis_layout.h"
#include "sinks/redis/resp_write.h"
#include "text/template.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = 1024 /* with max_streams a bound on the memory of the names */ };
enum { N_RECENT = 16 };
enum { TOPIC, TYPE, KEY, N_VARIABLES };

static const char *const variables[N_VARIABLES + 1] = {"topic", "type", "key", NULL};

struct recent_name {
        struct bytes topic; /* NULL: none yet */
        struct bytes name;
        bool is_admitted;
};

struct redis_command {
        const struct redis_config *config; /* borrowed */
        struct redis_layout *layout;       /* owned */

        /* The target's name, made of a template. */
        struct template *template; /* owned */
        bool is_per_event;
        bool is_by_topic; /* the name depends on nothing but the topic */
        struct recent_name recent[N_RECENT];
        struct bytes name; /* for the event at hand, unless is_by_topic */
        uint32_t n_names;
        void *names; /* those admitted, if redis.max_streams limits them: a tree of owned texts */
};

static int compare(const void *a, const void *b)
{
        return strcmp(a, b);
}

struct redis_command *redis_command_create(const struct redis_config *config, struct error *error)
{
        const char *name = config->mode == REDIS_PUBSUB ? config->channel : config->stream;
        struct template *template = template_compile(name, variables, error);
        struct redis_command *command;

        if (template == NULL)
                return NULL;
        command = xcalloc(1, sizeof *command);
        command->config = config;
        command->layout = redis_layout_create(config);
        command->template = template;
        command->is_per_event = template_has_variables(template);
        command->is_by_topic = !template_uses(template, TYPE) && !template_uses(template, KEY);
        return command;
}

void redis_command_destroy(struct redis_command *command)
{
        if (command == NULL)
                return;
        redis_layout_destroy(command->layout);
        template_destroy(command->template);
        bytes_deinit(&command->name);
        for (size_t i = 0; i < N_RECENT; i++) {
                bytes_deinit(&command->recent[i].topic);
                bytes_deinit(&command->recent[i].name);
        }
        tdestroy(command->names, free);
        free(command);
}

bool redis_command_is_target_per_event(const struct redis_command *command)
{
        return command->is_per_event;
}

static void render(
    const struct redis_command *command, const struct event *event, struct bytes *name)
{
        const char *const values[N_VARIABLES] = {[TOPIC] = event->topic,
            [TYPE] = event->type != NULL ? event->type : "",
            [KEY] = event->key != NULL ? event->key : ""};

        bytes_clear(name);
        bytes_append_text(name, "");
        template_render(command->template, values, name);
}

/* That of the event's topic. */
static struct recent_name *recent_name_of(struct redis_command *command, const struct event *event)
{
        size_t length = strlen(event->topic);
        unsigned char last = length > 0 ? (unsigned char)event->topic[length - 1] : 0;
        struct recent_name *recent = &command->recent[(7 * length + last) % N_RECENT];

        if (recent->topic.data != NULL && strcmp(recent->topic.data, event->topic) == 0)
                return recent;
        bytes_clear(&recent->topic);
        bytes_append(&recent->topic, event->topic, length);
        render(command, event, &recent->name);
        recent->is_admitted = false;
        return recent;
}

static bool is_known(const struct redis_command *command, const char *name)
{
        return tfind(name, &command->names, compare) != NULL;
}

static void learn(struct redis_command *command, const char *name)
{
        if (tsearch(xstrdup(name), &command->names, compare) == NULL)
                out_of_memory();
        command->n_names++;
}

static bool refuse(struct outcome *out_refusal, const char *reason)
{
        *out_refusal = outcome_make(OUTCOME_REJECTED, "%s", reason);
        return false;
}

static bool has_its_parts(
    const struct redis_command *command, const struct event *event, struct outcome *out_refusal)
{
        if (event->key == NULL && template_uses(command->template, KEY))
                return refuse(
                    out_refusal, "the event has no key, which the stream's name needs ({{key}})");
        if (event->type == NULL && template_uses(command->template, TYPE))
                return refuse(
                    out_refusal, "the event has no type, which the stream's name needs ({{type}})");
        return true;
}

static bool admit_name(
    struct redis_command *command, const struct bytes *name, struct outcome *out_refusal)
{
        if (is_known(command, name->data))
                return true;
        if (utf8_has_control(name->data))
                return refuse(out_refusal, "the stream's name would hold a control character");
        if (name->length > MAX_NAME_BYTES) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the stream's name would have %zu bytes; allowed: %d", name->length,
                    MAX_NAME_BYTES);
                return false;
        }
        if (command->config->max_streams > 0 && command->n_names >= command->config->max_streams) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "a new stream would exceed redis.max_streams (%" PRIu32
                    "); raise it and redrive the event, or use fewer variables in "
                    "the name",
                    command->config->max_streams);
                return false;
        }
        if (command->config->max_streams > 0)
                learn(command, name->data);
        return true;
}

static bool admit_target(
    struct redis_command *command, const struct event *event, struct outcome *out_refusal)
{
        struct recent_name *recent;

        if (!command->is_per_event)
                return true;
        if (!command->is_by_topic)
                return has_its_parts(command, event, out_refusal) &&
                       admit_name(command, redis_command_target(command, event), out_refusal);
        recent = recent_name_of(command, event);
        recent->is_admitted =
            recent->is_admitted || admit_name(command, &recent->name, out_refusal);
        return recent->is_admitted;
}

bool redis_command_admit(
    struct redis_command *command, const struct event *event, struct outcome *out_refusal)
{
        if (command->config->format == FORMAT_CLOUDEVENTS &&
            !cloudevents_can_carry(event, out_refusal))
                return false;
        return admit_target(command, event, out_refusal);
}

const struct bytes *redis_command_target(struct redis_command *command, const struct event *event)
{
        if (command->is_by_topic)
                return &recent_name_of(command, event)->name;
        render(command, event, &command->name);
        return &command->name;
}

void redis_command_describe(
    const struct redis_command *command, const struct event *event, char *name, size_t size)
{
        struct bytes full = {0};

        render(command, event, &full);
        utf8_copy(name, size, full.data);
        bytes_deinit(&full);
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

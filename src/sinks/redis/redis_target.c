/*
 * Where the topic alone makes the name, those of the topics of late are at hand: this runs for each
 * event, and neighbouring ones have few topics.
 *
 * The names that were made are kept for the life of the sink: what would become
 * of a stream nobody writes to any more is not for us to say, so none is
 * forgotten to make room. An event that would make one too many is rejected
 * rather than tried again: it becomes a dead letter at once, holds nobody up,
 * and can be redriven when the limit has been raised.
 */
#include "sinks/redis/redis_target.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "pgcourier/event.h"
#include "pgcourier/outcome.h"
#include "text/template.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = 1024 /* with max_names a bound on the memory of the names */ };
enum { N_RECENT = 16 };
enum { TOPIC, TYPE, KEY, N_VARIABLES };

static const char *const variables[N_VARIABLES + 1] = {"topic", "type", "key", NULL};

struct recent_name {
        struct bytes topic; /* NULL: none yet */
        struct bytes name;
        bool is_admitted;
};

struct redis_target {
        struct template *template; /* owned */
        bool is_per_event;
        bool is_by_topic; /* nothing but the topic makes a difference */
        struct recent_name recent[N_RECENT];
        struct bytes name; /* for the event at hand, unless is_by_topic */
        uint32_t max_names;
        uint32_t n_names;
        void *names; /* a tree of owned texts */
};

static int compare(const void *a, const void *b)
{
        return strcmp(a, b);
}

struct redis_target *redis_target_create(
    const char *name_template, uint32_t max_names, struct error *error)
{
        struct redis_target *target;
        struct template *template = template_compile(name_template, variables, error);

        if (template == NULL)
                return NULL;
        target = xcalloc(1, sizeof *target);
        target->template = template;
        target->is_per_event = template_has_variables(template);
        target->is_by_topic = !template_uses(template, TYPE) && !template_uses(template, KEY);
        target->max_names = max_names;
        return target;
}

void redis_target_destroy(struct redis_target *target)
{
        if (target == NULL)
                return;
        template_destroy(target->template);
        bytes_deinit(&target->name);
        for (size_t i = 0; i < N_RECENT; i++) {
                bytes_deinit(&target->recent[i].topic);
                bytes_deinit(&target->recent[i].name);
        }
        tdestroy(target->names, free);
        free(target);
}

bool redis_target_is_per_event(const struct redis_target *target)
{
        return target->is_per_event;
}

static void render(const struct redis_target *target, const struct event *event, struct bytes *name)
{
        const char *const values[N_VARIABLES] = {[TOPIC] = event->topic,
            [TYPE] = event->type != NULL ? event->type : "",
            [KEY] = event->key != NULL ? event->key : ""};

        bytes_clear(name);
        bytes_append_text(name, "");
        template_render(target->template, values, name);
}

/* That of the event's topic. */
static struct recent_name *recent_name_of(struct redis_target *target, const struct event *event)
{
        size_t length = strlen(event->topic);
        unsigned char last = length > 0 ? (unsigned char)event->topic[length - 1] : 0;
        struct recent_name *recent = &target->recent[(7 * length + last) % N_RECENT];

        if (recent->topic.data != NULL && strcmp(recent->topic.data, event->topic) == 0)
                return recent;
        bytes_clear(&recent->topic);
        bytes_append(&recent->topic, event->topic, length);
        render(target, event, &recent->name);
        recent->is_admitted = false;
        return recent;
}

static bool is_known(const struct redis_target *target, const char *name)
{
        return tfind(name, &target->names, compare) != NULL;
}

static void learn(struct redis_target *target, const char *name)
{
        if (tsearch(xstrdup(name), &target->names, compare) == NULL)
                out_of_memory();
        target->n_names++;
}

static bool has_control_character(const char *name)
{
        for (; *name != '\0'; name++)
                if ((unsigned char)*name < ' ' || *name == 0x7f)
                        return true;
        return false;
}

static bool refuse(struct outcome *out_refusal, const char *reason)
{
        *out_refusal = outcome_make(OUTCOME_REJECTED, "%s", reason);
        return false;
}

static bool has_its_parts(
    const struct redis_target *target, const struct event *event, struct outcome *out_refusal)
{
        if (event->key == NULL && template_uses(target->template, KEY))
                return refuse(out_refusal, "the event has no key to name its stream by ({{key}})");
        if (event->type == NULL && template_uses(target->template, TYPE))
                return refuse(
                    out_refusal, "the event has no type to name its stream by ({{type}})");
        return true;
}

static bool admit_name(
    struct redis_target *target, const struct bytes *name, struct outcome *out_refusal)
{
        if (is_known(target, name->data))
                return true;
        if (has_control_character(name->data))
                return refuse(out_refusal, "the stream's name would hold a control character");
        if (name->length > MAX_NAME_BYTES) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the stream's name would have %zu bytes; allowed: %d", name->length,
                    MAX_NAME_BYTES);
                return false;
        }
        if (target->max_names > 0 && target->n_names >= target->max_names) {
                *out_refusal = outcome_make(OUTCOME_REJECTED,
                    "the stream would be one more than redis.max_streams (%" PRIu32
                    ") allows; raise it and redrive the event, or name streams by less",
                    target->max_names);
                return false;
        }
        if (target->max_names > 0)
                learn(target, name->data);
        return true;
}

bool redis_target_admit(
    struct redis_target *target, const struct event *event, struct outcome *out_refusal)
{
        struct recent_name *recent;

        if (!target->is_per_event)
                return true;
        if (!target->is_by_topic)
                return has_its_parts(target, event, out_refusal) &&
                       admit_name(target, redis_target_name(target, event), out_refusal);
        recent = recent_name_of(target, event);
        recent->is_admitted = recent->is_admitted || admit_name(target, &recent->name, out_refusal);
        return recent->is_admitted;
}

const struct bytes *redis_target_name(struct redis_target *target, const struct event *event)
{
        if (target->is_by_topic)
                return &recent_name_of(target, event)->name;
        render(target, event, &target->name);
        return &target->name;
}

void redis_target_describe(
    const struct redis_target *target, const struct event *event, char *name, size_t size)
{
        struct bytes full = {0};

        render(target, event, &full);
        utf8_copy(name, size, full.data);
        bytes_deinit(&full);
}

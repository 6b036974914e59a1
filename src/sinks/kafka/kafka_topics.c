#include "sinks/kafka/kafka_topics.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/utf8.h"
#include "config/config.h"
#include "pgcourier/event.h"
#include "text/template.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = 249 /* Kafka's own */ };
enum { TOPIC, TYPE, KEY, N_VARIABLES };

static const char *const variables[N_VARIABLES + 1] = {"topic", "type", "key", NULL};

struct kafka_topics {
        const struct kafka_config *config; /* borrowed */
        struct template *template;         /* owned */
        bool are_fixed;
        struct bytes name; /* of the event at hand */
        void *tree;        /* of owned struct kafka_topic */
        uint32_t n_topics;
        struct kafka_topic *recent; /* the last one found */
};

static int compare(const void *a, const void *b)
{
        return strcmp(((const struct kafka_topic *)a)->name, ((const struct kafka_topic *)b)->name);
}

static void render(const struct kafka_topics *topics, const struct event *event, struct bytes *name)
{
        const char *const values[N_VARIABLES] = {[TOPIC] = event->topic,
            [TYPE] = event->type != NULL ? event->type : "",
            [KEY] = event->key != NULL ? event->key : ""};

        bytes_clear(name);
        bytes_append_text(name, "");
        template_render(topics->template, values, name);
}

/* What is wrong with a name; NULL: nothing. */
static const char *flaw_of(const struct bytes *name)
{
        if (name->length == 0)
                return "is empty";
        if (name->length > MAX_NAME_BYTES)
                return "is longer than 249 bytes";
        if (strspn(
                name->data, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
            name->length)
                return "holds a character other than A-Z, a-z, 0-9, '.', '_' and '-'";
        if (strcmp(name->data, ".") == 0 || strcmp(name->data, "..") == 0)
                return "is . or ..";
        if (strncmp(name->data, "__", 2) == 0)
                return "begins with __, as Kafka's own topics do";
        return NULL;
}

struct kafka_topics *kafka_topics_create(const struct kafka_config *config, struct error *error)
{
        struct template *template = template_compile(config->topic, variables, error);
        struct kafka_topics *topics;

        if (template == NULL)
                return NULL;
        topics = xcalloc(1, sizeof *topics);
        topics->config = config;
        topics->template = template;
        topics->are_fixed = !template_has_variables(template);
        return topics;
}

static void close_topic(struct kafka_topic *topic)
{
        if (topic->handle != NULL)
                rd_kafka_topic_destroy(topic->handle);
        topic->handle = NULL;
}

static void free_topic(void *topic_)
{
        struct kafka_topic *topic = topic_;

        close_topic(topic);
        free(topic->name);
        free(topic);
}

void kafka_topics_destroy(struct kafka_topics *topics)
{
        if (topics == NULL)
                return;
        tdestroy(topics->tree, free_topic);
        template_destroy(topics->template);
        bytes_deinit(&topics->name);
        free(topics);
}

bool kafka_topics_are_fixed(const struct kafka_topics *topics)
{
        return topics->are_fixed;
}

const char *kafka_topics_fixed_name(const struct kafka_topics *topics)
{
        return topics->config->topic;
}

static struct kafka_topic *refuse(struct outcome *out_rejected, const struct outcome outcome)
{
        *out_rejected = outcome;
        return NULL;
}

static struct kafka_topic *add(struct kafka_topics *topics, struct outcome *out_rejected)
{
        const char *flaw = flaw_of(&topics->name);
        struct kafka_topic *topic;

        if (flaw != NULL)
                return refuse(
                    out_rejected, outcome_make(OUTCOME_REJECTED, "the name of the topic %s", flaw));
        if (topics->config->max_topics > 0 && topics->n_topics >= topics->config->max_topics)
                return refuse(out_rejected,
                    outcome_make(OUTCOME_REJECTED,
                        "a new topic would exceed kafka.max_topics (%" PRIu32
                        "); raise it and redrive the event, or use fewer variables in the name",
                        topics->config->max_topics));
        topic = xcalloc(1, sizeof *topic);
        topic->name = xstrdup(topics->name.data);
        topic->state = topics->config->create_topics ? KAFKA_TOPIC_NEW : KAFKA_TOPIC_READY;
        if (tsearch(topic, &topics->tree, compare) == NULL)
                out_of_memory();
        topics->n_topics++;
        return topic;
}

struct kafka_topic *kafka_topics_find(
    struct kafka_topics *topics, const struct event *event, struct outcome *out_rejected)
{
        struct kafka_topic key;
        struct kafka_topic **found;

        if (topics->are_fixed && topics->recent != NULL)
                return topics->recent;
        if (event->key == NULL && template_uses(topics->template, KEY))
                return refuse(out_rejected,
                    outcome_make(OUTCOME_REJECTED,
                        "the event has no key, which the topic's name needs ({{key}})"));
        if (event->type == NULL && template_uses(topics->template, TYPE))
                return refuse(out_rejected,
                    outcome_make(OUTCOME_REJECTED,
                        "the event has no type, which the topic's name needs ({{type}})"));
        render(topics, event, &topics->name);
        if (topics->recent != NULL && strcmp(topics->recent->name, topics->name.data) == 0)
                return topics->recent;
        key.name = topics->name.data;
        found = tfind(&key, &topics->tree, compare);
        topics->recent = found != NULL ? *found : add(topics, out_rejected);
        return topics->recent;
}

void kafka_topics_describe(
    const struct kafka_topics *topics, const struct event *event, char *text, size_t size)
{
        struct bytes name = {0};

        render(topics, event, &name);
        utf8_copy(text, size, name.data);
        bytes_deinit(&name);
}

bool kafka_topic_open(struct kafka_topic *topic, rd_kafka_t *client)
{
        if (topic->handle == NULL)
                topic->handle = rd_kafka_topic_new(client, topic->name, NULL);
        return topic->handle != NULL;
}

static void close_node(const void *node, VISIT visit, void *topics_)
{
        const struct kafka_topics *topics = topics_;
        struct kafka_topic *topic = *(struct kafka_topic *const *)node;

        if (visit != postorder && visit != leaf)
                return;
        close_topic(topic);
        if (topics->config->create_topics && topic->state == KAFKA_TOPIC_CREATING)
                topic->state = KAFKA_TOPIC_NEW;
}

void kafka_topics_close(struct kafka_topics *topics)
{
        twalk_r(topics->tree, close_node, topics);
}

void kafka_topics_made(struct kafka_topics *topics, const char *name, bool is_there)
{
        struct kafka_topic key = {.name = (char *)(uintptr_t)name};
        struct kafka_topic **found = tfind(&key, &topics->tree, compare);

        if (found != NULL)
                (*found)->state = is_there ? KAFKA_TOPIC_READY : KAFKA_TOPIC_NEW;
}

void kafka_topics_forget(const struct kafka_topics *topics, struct kafka_topic *topic)
{
        if (topics->config->create_topics)
                topic->state = KAFKA_TOPIC_NEW;
}

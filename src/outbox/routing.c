#include "outbox/routing.h"

#include "text/topic_pattern.h"

#include <string.h>

/* Of pgcourier's own events. */
#define OWN_PREFIX "courier."

static bool is_own(const char *text)
{
        return strncmp(text, OWN_PREFIX, sizeof OWN_PREFIX - 1) == 0;
}

/* Exclusions count whatever they begin with: `!**.failed` leaves out our own events, too. */
static bool takes_own_topic(const struct routing *routing, const char *topic)
{
        bool is_taken = false;

        for (size_t i = 0; i < routing->n_topics; i++) {
                const char *entry = routing->topics[i];

                if (*entry == '!' && topic_pattern_matches(entry + 1, topic))
                        return false;
                if (is_own(entry) && topic_pattern_matches(entry, topic))
                        is_taken = true;
        }
        return is_taken;
}

bool routing_matches_topic(const struct routing *routing, const char *topic)
{
        if (routing->is_receiver && is_own(topic))
                return takes_own_topic(routing, topic);
        return topic_patterns_match(routing->topics, routing->n_topics, topic);
}

static bool header_condition_holds(const char *condition, const struct event *event)
{
        size_t name_length = strcspn(condition, "=");
        const char *value = condition[name_length] == '=' ? condition + name_length + 1 : NULL;

        for (size_t i = 0; i < event->n_headers; i++) {
                const struct event_header *header = &event->headers[i];

                if (strncmp(header->name, condition, name_length) == 0 &&
                    header->name[name_length] == '\0')
                        return value == NULL || strcmp(header->value, value) == 0;
        }
        return false;
}

bool routing_matches(const struct routing *routing, const struct event *event)
{
        if (!routing_matches_topic(routing, event->topic))
                return false;
        if (routing->n_types > 0 && (event->type == NULL || !topic_patterns_match(routing->types,
                                                                routing->n_types, event->type)))
                return false;
        for (size_t i = 0; i < routing->n_headers; i++)
                if (!header_condition_holds(routing->headers[i], event))
                        return false;
        return true;
}

#include "sinks/format/cloudevents.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "sinks/format/event_json.h"
#include "sinks/format/event_time.h"

#include <stddef.h>
#include <string.h>

enum { MAX_NAME = 20 /* "SHOULD NOT exceed", says the specification */ };

struct walk {
        cloudevents_attribute_fn *on_attribute;
        void *owner;
};

static void tell(const struct walk *walk, const char *name, const char *value)
{
        const struct cloudevents_attribute attribute = {.name = name, .value = value};

        walk->on_attribute(walk->owner, &attribute);
}

static bool is_reserved(const char *name)
{
        static const char *const reserved[] = {"specversion", "id", "source", "type", "subject",
            "time", "datacontenttype", "partitionkey", "topic", "redriven", "data"};

        for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
                if (strcmp(reserved[i], name) == 0)
                        return true;
        return false;
}

/* A name outside the allowed letters would make the whole event invalid. */
bool cloudevents_is_extension(const char *name)
{
        size_t length = 0;

        while ((name[length] >= 'a' && name[length] <= 'z') ||
               (name[length] >= '0' && name[length] <= '9'))
                length++;
        return length > 0 && length <= MAX_NAME && name[length] == '\0' && !is_reserved(name);
}

static bool is_forbidden(const char *text)
{
        return text != NULL && utf8_has_control(text);
}

static const char *forbidden_part(const struct event *event)
{
        if (is_forbidden(event->topic))
                return "topic";
        if (is_forbidden(event->key))
                return "key";
        return is_forbidden(event->type) ? "type" : NULL;
}

bool cloudevents_can_carry(const struct event *event, struct outcome *out_rejected)
{
        const char *kind = "";
        const char *name = forbidden_part(event);

        for (size_t i = 0; i < event->n_headers && name == NULL; i++)
                if (cloudevents_is_extension(event->headers[i].name) &&
                    is_forbidden(event->headers[i].value)) {
                        kind = "header ";
                        name = event->headers[i].name;
                }
        if (name == NULL)
                return true;
        *out_rejected = outcome_make(OUTCOME_REJECTED,
            "the event's %s%s holds a line break or another control character, which CloudEvents "
            "forbid",
            kind, name);
        return false;
}

const char *cloudevents_data_type(const struct event *event)
{
        return event->is_json ? "application/json" : "application/octet-stream";
}

void cloudevents_each_attribute(const struct event *event, const char *source,
    struct event_time *time, cloudevents_attribute_fn *on_attribute, void *owner)
{
        const struct walk walk = {on_attribute, owner};
        const struct cloudevents_attribute redriven = {"redriven", "true", true};
        bool has_key = event->key != NULL && event->key[0] != '\0';
        bool has_type = event->type != NULL && event->type[0] != '\0';

        tell(&walk, "specversion", "1.0");
        tell(&walk, "id", event->event_id);
        tell(&walk, "source", source);
        tell(&walk, "type", has_type ? event->type : event->topic);
        if (has_key)
                tell(&walk, "subject", event->key);
        tell(&walk, "time", event_time_text(time, event->created_us));
        tell(&walk, "datacontenttype", cloudevents_data_type(event));
        if (has_key)
                tell(&walk, "partitionkey", event->key);
        tell(&walk, "topic", event->topic);
        if (event->is_redriven)
                on_attribute(owner, &redriven);
        for (size_t i = 0; i < event->n_headers; i++)
                if (cloudevents_is_extension(event->headers[i].name))
                        tell(&walk, event->headers[i].name, event->headers[i].value);
}

static void append_attribute(void *owner, const struct cloudevents_attribute *attribute)
{
        struct bytes *out = owner;

        bytes_append_text(out, "\"");
        bytes_append_text(out, attribute->name); /* nothing in it needs an escape */
        bytes_append_text(out, "\":");
        if (attribute->is_boolean)
                bytes_append_text(out, attribute->value);
        else
                event_json_append_text(out, attribute->value);
        bytes_append_text(out, ",");
}

void cloudevents_append_json(
    struct bytes *out, const struct event *event, const char *source, struct event_time *time)
{
        bytes_append_text(out, "{");
        cloudevents_each_attribute(event, source, time, append_attribute, out);
        if (event->is_json) {
                bytes_append_text(out, "\"data\":");
                bytes_append(out, event->payload, event->payload_bytes);
        } else {
                bytes_append_text(out, "\"data_base64\":");
                event_json_append_base64(out, event->payload, event->payload_bytes);
        }
        bytes_append_text(out, "}");
}

/*
 * The catalogue for programs: as an OpenAPI 3.1 document with webhooks, and as an AsyncAPI 3.0
 * document. Both have the schemas of the payloads as components. A "$ref" in such a schema that
 * begins with # means that schema, and would mean the whole document there: it is rewritten.
 */
#include "base/alloc.h"
#include "cli/type/type_common.h"
#include "cli/type/type_envelope.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

static json_t *refer(const char *section, const char *key)
{
        return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", section, key));
}

/* In place. What stands below "const", "enum", "default" and examples is data. */
static void rewrite_refs(json_t *schema, const char *key)
{
        static const char *const data[] = {"const", "enum", "default", "examples", "example"};
        const char *name;
        json_t *value;
        void *next;
        size_t i;

        if (json_is_array(schema))
                json_array_foreach(schema, i, value) rewrite_refs(value, key);
        if (!json_is_object(schema))
                return;
        json_object_foreach_safe(schema, next, name, value)
        {
                const char *ref = strcmp(name, "$ref") == 0 ? json_string_value(value) : NULL;
                bool is_data = false;

                for (size_t j = 0; j < sizeof data / sizeof *data; j++)
                        is_data |= strcmp(name, data[j]) == 0 && !json_is_object(value);
                if (ref != NULL && ref[0] == '#' && (ref[1] == '/' || ref[1] == '\0'))
                        json_object_set_new(
                            schema, name, json_sprintf("#/components/schemas/%s%s", key, ref + 1));
                else if (!is_data)
                        rewrite_refs(value, key);
        }
}

/* The schema of a payload as a component. */
static json_t *payload_component(const struct type_doc *type)
{
        json_t *schema;

        if (type->schema == NULL)
                return json_pack("{s:s}", "description", "Any JSON");
        schema = json_deep_copy(type->schema);
        if (schema == NULL)
                out_of_memory();
        json_object_del(schema, "$schema"); /* both documents have dialects of their own */
        json_object_del(schema, "$id");     /* it would be another base for every $ref */
        rewrite_refs(schema, type->key);
        return schema;
}

static json_t *payload_components(const struct type_docs *docs)
{
        json_t *schemas = json_object();

        for (size_t i = 0; i < docs->n_types; i++)
                json_object_set_new(
                    schemas, docs->types[i].key, payload_component(&docs->types[i]));
        return schemas;
}

static json_t *event_schema(const struct type_docs *docs, const struct type_doc *type)
{
        return envelope_schema(docs, type, refer("schemas", type->key));
}

/* Bodies with several events. */
static json_t *batch_schema(const struct type_docs *docs)
{
        json_t *items = json_array();

        for (size_t i = 0; i < docs->n_types; i++)
                json_array_append_new(items, event_schema(docs, &docs->types[i]));
        return json_pack(
            "{s:s s:i s:{s:o}}", "type", "array", "minItems", 1, "items", "anyOf", items);
}

static void describe(json_t *object, const struct type_doc *type)
{
        if (type->description != NULL)
                json_object_set_new(object, "description", json_string(type->description));
}

static json_t *header_schema(const struct envelope_header *header)
{
        json_t *schema = json_pack("{s:s}", "type", header->is_number ? "integer" : "string");

        if (header->constant != NULL)
                json_object_set_new(schema, "const", json_string(header->constant));
        if (header->format != NULL)
                json_object_set_new(schema, "format", json_string(header->format));
        return schema;
}

static json_t *info(const struct type_docs *docs)
{
        json_t *object = json_pack("{s:s s:s}", "title", docs->title, "version", docs->revision);
        const char *signature = envelope_signature(docs);

        json_object_set_new(object, "description",
            json_sprintf("Events come as POST requests, each at least once. Answer with a 2xx "
                         "status when the event is safe; other requests are repeated.%s%s",
                signature != NULL ? "\n\nThe signature: " : "",
                signature != NULL ? signature : ""));
        return object;
}

/* ---- OpenAPI ------------------------------------------------------------------------------ */

static void add_parameter(void *owner, const struct envelope_header *header)
{
        json_array_append_new(
            owner, json_pack("{s:s s:s s:s s:b s:o}", "name", header->name, "in", "header",
                       "description", header->meaning, "required", (int)header->is_required,
                       "schema", header_schema(header)));
}

static json_t *responses(const struct http_config *http)
{
        json_t *all = json_pack("{s:{s:s} s:{s:s} s:{s:s}}", "2XX", "description",
            "The event is safe, and is not sent again", "410", "description",
            http->on_410 == HTTP_ON_410_PAUSE ? "The receiver wants no more, ever"
                                              : "The receiver does not take this event",
            "default", "description", "The event is sent again later");

        if (http->accept_409)
                json_object_set_new(
                    all, "409", json_pack("{s:s}", "description", "The event is here already"));
        return all;
}

/* `type` NULL: a batch. */
static json_t *operation(const struct type_docs *docs, const struct type_doc *type)
{
        json_t *parameters = json_array();
        json_t *media = json_pack(
            "{s:o}", "schema", type != NULL ? event_schema(docs, type) : batch_schema(docs));
        json_t *example = type != NULL ? envelope_example(docs, type) : NULL;
        json_t *post;

        envelope_each_header(docs, type, add_parameter, parameters);
        if (example != NULL)
                json_object_set_new(media, "example", example);
        post = json_pack("{s:o s:{s:b s:{s:o}} s:o s:[]}", "parameters", parameters, "requestBody",
            "required", 1, "content", envelope_content_type(docs), media, "responses",
            responses(docs->http), "security");
        json_object_set_new(
            post, "operationId", json_sprintf("on-%s", type != NULL ? type->key : "events"));
        json_object_set_new(
            post, "summary", json_string(type != NULL ? type->name : "Several events"));
        if (type != NULL && type->is_deprecated)
                json_object_set_new(post, "deprecated", json_true());
        if (type != NULL)
                describe(post, type);
        return json_pack("{s:o}", "post", post);
}

json_t *type_openapi(const struct type_docs *docs)
{
        json_t *webhooks = json_object();

        for (size_t i = 0; docs->http->batch == NULL && i < docs->n_types; i++)
                json_object_set_new(
                    webhooks, docs->types[i].name, operation(docs, &docs->types[i]));
        if (docs->http->batch != NULL)
                json_object_set_new(webhooks, "events", operation(docs, NULL));
        return json_pack("{s:s s:o s:o s:{s:o}}", "openapi", "3.1.0", "info", info(docs),
            "webhooks", webhooks, "components", "schemas", payload_components(docs));
}

/* ---- AsyncAPI ----------------------------------------------------------------------------- */

struct header_lists {
        json_t *properties, *required;
};

static void add_property(void *owner, const struct envelope_header *header)
{
        struct header_lists *lists = owner;
        json_t *schema = header_schema(header);

        json_object_set_new(schema, "description", json_string(header->meaning));
        json_object_set_new(lists->properties, header->name, schema);
        if (header->is_required)
                json_array_append_new(lists->required, json_string(header->name));
}

/* `type` NULL: a batch. */
static json_t *message(const struct type_docs *docs, const struct type_doc *type)
{
        struct header_lists lists = {json_object(), json_array()};
        json_t *example = type != NULL ? envelope_example(docs, type) : NULL;
        const char *name = type != NULL ? type->name : "events";
        json_t *message;

        envelope_each_header(docs, type, add_property, &lists);
        message = json_pack("{s:s s:o s:s s:{s:s s:o s:o} s:o}", "name", name, "title",
            json_sprintf("%s%s", name, type != NULL && type->is_deprecated ? " (deprecated)" : ""),
            "contentType", envelope_content_type(docs), "headers", "type", "object", "properties",
            lists.properties, "required", lists.required, "payload",
            type != NULL ? event_schema(docs, type) : batch_schema(docs));
        if (example != NULL)
                json_object_set_new(message, "examples", json_pack("[{s:o}]", "payload", example));
        if (type != NULL)
                describe(message, type);
        if (type != NULL && type->is_deprecated)
                json_object_set_new(message, "x-deprecated", json_true());
        return message;
}

json_t *type_asyncapi(const struct type_docs *docs)
{
        json_t *messages = json_object();
        json_t *of_channel = json_object();
        json_t *of_operation = json_array();
        const bool is_batch = docs->http->batch != NULL;

        for (size_t i = 0; i < (is_batch ? 1 : docs->n_types); i++) {
                const struct type_doc *type = is_batch ? NULL : &docs->types[i];
                const char *key = is_batch ? "events" : type->key;

                json_object_set_new(messages, key, message(docs, type));
                json_object_set_new(of_channel, key, refer("messages", key));
                json_array_append_new(
                    of_operation, json_pack("{s:o}", "$ref",
                                      json_sprintf("#/channels/webhook/messages/%s", key)));
        }
        return json_pack(
            "{s:s s:o s:s s:{s:{s:n s:s s:o}} s:{s:{s:s s:{s:s} s:s s:{s:{s:s s:s}} s:o}}"
            " s:{s:o s:o}}",
            "asyncapi", "3.0.0", "info", info(docs), "defaultContentType",
            envelope_content_type(docs), "channels", "webhook", "address", "description",
            "The URL that the receiver has named", "messages", of_channel, "operations",
            "sendEvent", "action", "send", "channel", "$ref", "#/channels/webhook", "summary",
            "Posts an event to the receiver", "bindings", "http", "method", "POST",
            "bindingVersion", "0.3.0", "messages", of_operation, "components", "messages", messages,
            "schemas", payload_components(docs));
}

#include "outbox/endpoint.h"

#include "base/alloc.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *row, const char *name)
{
        return json_string_value(json_object_get(row, name)); /* NULL for null */
}

static char **texts_of(const json_t *row, const char *name, size_t *out_n)
{
        const json_t *array = json_object_get(row, name);
        size_t n = json_array_size(array);
        const char **texts = xcalloc(n + 1, sizeof *texts);

        for (size_t i = 0; i < n; i++)
                texts[i] = json_string_value(json_array_get(array, i));
        *out_n = n;
        return (char **)(void *)texts;
}

static struct event_header *headers_of(json_t *row, size_t *out_n)
{
        json_t *object = json_object_get(row, "headers");
        struct event_header *headers = xcalloc(json_object_size(object) + 1, sizeof *headers);
        const char *name;
        json_t *value;
        size_t n = 0;

        json_object_foreach(object, name, value)
        {
                headers[n++] =
                    (struct event_header){.name = name, .value = json_string_value(value)};
        }
        *out_n = n;
        return headers;
}

static enum endpoint_state state_of(const json_t *row)
{
        const char *name = text_of(row, "state");

        if (strcmp(name, "active") == 0)
                return ENDPOINT_ACTIVE;
        return strcmp(name, "paused") == 0 ? ENDPOINT_PAUSED : ENDPOINT_DISABLED;
}

struct endpoint *endpoint_read(int32_t id, int64_t version, const char *text)
{
        struct endpoint *endpoint = xcalloc(1, sizeof *endpoint);
        json_t *row = json_loads(text, 0, NULL);
        const json_t *failing_for = json_object_get(row, "failing_for");

        if (row == NULL)
                out_of_memory();
        endpoint->n_references = 1;
        endpoint->row = row;
        endpoint->id = id;
        endpoint->version = version;
        endpoint->name = text_of(row, "name");
        endpoint->url = text_of(row, "url");
        endpoint->secrets = (const char *const *)texts_of(row, "secrets", &endpoint->n_secrets);
        endpoint->headers = headers_of(row, &endpoint->n_headers);
        endpoint->routing = (struct routing){.filter = text_of(row, "filter"), .is_receiver = true};
        endpoint->routing.topics = texts_of(row, "topics", &endpoint->routing.n_topics);
        endpoint->routing.types = texts_of(row, "types", &endpoint->routing.n_types);
        endpoint->start_snapshot = text_of(row, "start_snapshot");
        endpoint->start_floor = json_integer_value(json_object_get(row, "start_floor"));
        endpoint->concurrency = (uint32_t)json_integer_value(json_object_get(row, "concurrency"));
        endpoint->rate_per_s = json_number_value(json_object_get(row, "rate"));
        endpoint->rate_burst = (uint32_t)json_integer_value(json_object_get(row, "burst"));
        endpoint->state = state_of(row);
        endpoint->state_reason = text_of(row, "reason");
        endpoint->failing_for_ms =
            json_is_integer(failing_for) ? json_integer_value(failing_for) : -1;
        return endpoint;
}

struct endpoint *endpoint_ref(const struct endpoint *endpoint)
{
        struct endpoint *mine = (struct endpoint *)(uintptr_t)endpoint;

        mine->n_references++;
        return mine;
}

void endpoint_unref(struct endpoint *endpoint)
{
        if (endpoint == NULL || --endpoint->n_references > 0)
                return;
        for (size_t i = 0; i < endpoint->n_secrets; i++) {
                char *secret = (char *)(uintptr_t)endpoint->secrets[i];
                explicit_bzero(secret, strlen(secret));
        }
        json_decref(endpoint->row);
        free((void *)(uintptr_t)endpoint->secrets);
        free((void *)(uintptr_t)endpoint->headers);
        free((void *)(uintptr_t)endpoint->routing.topics);
        free((void *)(uintptr_t)endpoint->routing.types);
        free(endpoint);
}

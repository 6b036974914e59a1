#include "sinks/email/email_payload.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

bool email_payload_reject(struct outcome *out_rejected, const char *member, const char *problem)
{
        *out_rejected =
            outcome_make(OUTCOME_REJECTED, "payload member \"%.80s\": %s", member, problem);
        return false;
}

static const char *parse_problem(const json_error_t *failure)
{
        enum json_error_code code = json_error_code(failure);

        if (code == json_error_duplicate_key)
                return "a member occurs twice";
        if (code == json_error_numeric_overflow)
                return "a number is beyond 1e308";
        return "not JSON that can be read (or it holds a NUL or a lone surrogate)";
}

/* jansson's own message would quote the payload: only the place is told. */
json_t *email_payload_parse(const struct event *event, struct outcome *out_rejected)
{
        json_error_t failure = {0};
        json_t *payload;

        if (!event->is_json) {
                *out_rejected = outcome_make(OUTCOME_REJECTED,
                    "an email needs a JSON payload; this event was published as binary data");
                return NULL;
        }
        payload = json_loadb(event->payload, event->payload_bytes,
            JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &failure);
        if (payload == NULL) {
                *out_rejected = outcome_make(OUTCOME_REJECTED, "payload, line %d, column %d: %s",
                    failure.line, failure.column, parse_problem(&failure));
                return NULL;
        }
        if (json_is_object(payload))
                return payload;
        json_decref(payload);
        *out_rejected = outcome_make(OUTCOME_REJECTED,
            "the payload is not a JSON object with to, and subject and text or html, or template");
        return NULL;
}

json_t *email_payload_member(const json_t *object, const char *member)
{
        json_t *value = json_object_get(object, member);

        return json_is_null(value) ? NULL : value;
}

bool email_payload_read_text(const char **out_text, const json_t *object, const char *member,
    const char *place, struct outcome *out_rejected)
{
        const json_t *value = email_payload_member(object, member);

        if (value == NULL)
                return true;
        if (!json_is_string(value))
                return email_payload_reject(out_rejected, place, "expected a string");
        *out_text = json_string_value(value);
        return true;
}

static bool is_named(const char *names, const char *name)
{
        size_t length = strlen(name);

        for (;;) {
                size_t next = strcspn(names, ",");
                if (next == length && memcmp(names, name, length) == 0)
                        return true;
                if (names[next] == '\0')
                        return false;
                names += next + 2;
        }
}

bool email_payload_has_only(
    json_t *object, const char *place, const char *allowed, struct outcome *out_rejected)
{
        const char *member;
        json_t *value;
        char where[160];
        char problem[160];

        json_object_foreach(object, member, value)
        {
                if (is_named(allowed, member))
                        continue;
                snprintf(
                    where, sizeof where, "%s%s%.64s", place, *place != '\0' ? "." : "", member);
                snprintf(problem, sizeof problem, "unknown; allowed are %s", allowed);
                return email_payload_reject(out_rejected, where, problem);
        }
        return true;
}

struct scan {
        const char *at;
        const char *end;
};

static bool begins_number(char byte)
{
        return byte == '-' || (byte >= '0' && byte <= '9');
}

static void skip_string(struct scan *scan)
{
        for (scan->at++; scan->at < scan->end && *scan->at != '"'; scan->at++)
                if (*scan->at == '\\')
                        scan->at++;
        scan->at++;
}

/* The next number of the text, as a JSON string. */
static json_t *take_number(struct scan *scan)
{
        const char *start;

        while (scan->at < scan->end && !begins_number(*scan->at)) {
                if (*scan->at == '"')
                        skip_string(scan);
                else
                        scan->at++;
        }
        start = scan->at;
        while (scan->at < scan->end && (begins_number(*scan->at) || strchr("+.eE", *scan->at)))
                scan->at++;
        return json_stringn(start, (size_t)(scan->at - start));
}

static void replace(json_t *value, struct scan *scan)
{
        if (json_is_object(value)) {
                for (void *at = json_object_iter(value); at != NULL;
                     at = json_object_iter_next(value, at)) {
                        if (json_is_number(json_object_iter_value(at)))
                                json_object_iter_set_new(value, at, take_number(scan));
                        else
                                replace(json_object_iter_value(at), scan);
                }
        } else if (json_is_array(value)) {
                for (size_t i = 0; i < json_array_size(value); i++) {
                        if (json_is_number(json_array_get(value, i)))
                                json_array_set_new(value, i, take_number(scan));
                        else
                                replace(json_array_get(value, i), scan);
                }
        }
}

/* jansson keeps members in the order of the text, so the numbers of the tree and those of the text
 * come in the same order: walking both at once needs no parser of our own. */
void json_numbers_to_texts(json_t *root, const char *json, size_t length)
{
        struct scan scan = {.at = json, .end = json + length};

        replace(root, &scan);
}

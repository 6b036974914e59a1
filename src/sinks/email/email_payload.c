#include "sinks/email/email_payload.h"

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

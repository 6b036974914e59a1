/* The JSON object that an event for the email sink carries: read, and refused in the same words
 * wherever one of its members is wrong. */
#pragma once

#include "pgcourier/event.h"
#include "pgcourier/outcome.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A new reference; NULL if the payload is not a JSON object. */
json_t *email_payload_parse(const struct event *event, struct outcome *out_rejected);

/* Always false. `member` may be a place in one: "attachments[1].name". */
bool email_payload_reject(struct outcome *out_rejected, const char *member, const char *problem);

/* A member of an object, borrowed; NULL if there is none, or if it is null. */
json_t *email_payload_member(const json_t *object, const char *member);

/* The text of a member; *out_text stays as it is if there is none, or null. `place` is what a
 * refusal calls it. */
bool email_payload_read_text(const char **out_text, const json_t *object, const char *member,
    const char *place, struct outcome *out_rejected);

/* `allowed` are names with ", " between them. */
bool email_payload_has_only(
    json_t *object, const char *place, const char *allowed, struct outcome *out_rejected);

/*
 * Makes each number in `root` a text, written as in `json`, from which `root` was parsed with
 * JSON_REJECT_DUPLICATES. `root` itself stays what it is. A parsed number is a double: 12.50 would
 * come back as 12.5 and 12345678901234567890 as 1.2345678901234567e19, and in
 * a receipt that is wrong.
 */
void json_numbers_to_texts(json_t *root, const char *json, size_t length);

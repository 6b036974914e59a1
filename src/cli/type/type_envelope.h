/*
 * The request by which an event reaches a receiver, for documents: its headers, its body around the
 * payload, and a sample. The sample is made by the functions of the http sink itself; the lists
 * beside it say in words what those do, and tests compare both with real requests.
 */
#pragma once

#include "base/bytes.h"
#include "cli/type/type_common.h"

#include <jansson.h>
#include <stdbool.h>

struct envelope_header {
        const char *name;
        const char *meaning;
        const char *constant; /* the value is always this; or NULL */
        const char *format;   /* of a JSON Schema; or NULL */
        bool is_number;
        bool is_required;
};

/* The header lines about the event, or the events; Content-Type is not among them. `type` may be
 * NULL if there is a batch, which has events of several types. */
typedef void envelope_header_fn(void *owner, const struct envelope_header *header);
void envelope_each_header(const struct type_docs *docs, const struct type_doc *type,
    envelope_header_fn *on_header, void *owner);

const char *envelope_content_type(const struct type_docs *docs);

/* The JSON Schema of a body with one event, or of an item of a body with several. `payload` (a new
 * reference, which is consumed) is that of the payload. */
json_t *envelope_schema(const struct type_docs *docs, const struct type_doc *type, json_t *payload);

/* The body of the sample as JSON; NULL if the type has no example. A new reference. */
json_t *envelope_example(const struct type_docs *docs, const struct type_doc *type);

/* The sample as it goes over the wire, unpacked. False if the type has no example. */
#define ENVELOPE_SECRET "whsec_ZXhhbXBsZSBvZiBhIHNlY3JldCBvZiAzMiBieXRlcyE="
bool envelope_sample_append(
    struct bytes *out, const struct type_docs *docs, const struct type_doc *type);

/* How the signature is made, in words; NULL: requests are not signed. */
const char *envelope_signature(const struct type_docs *docs);

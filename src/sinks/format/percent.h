/* Percent-encoding of any text for a header, as CloudEvents have it for HTTP and NATS. Pure. */
#pragma once

#include <stdbool.h>

struct bytes;

/*
 * What is not visible ASCII is encoded, so no receiver stumbles over UTF-8 or strips a space; '%'
 * is, too, or decoding would be ambiguous. Strictly: '"' as well, which CloudEvents want.
 *
 * Control characters are encoded like others. The caller refuses them before: no honest key holds
 * them, and a line break that a gateway decodes too early is an injection.
 */
void percent_append(struct bytes *out, const char *text, bool is_strict);

/* An event on the command line, for `publish` and `send`; and why the server did not take it. */
#pragma once

#include "cli/cli.h"

#define PUBLISH_MAX_BODY_BYTES                                                                     \
        ((size_t)64 << 20) /* held whole here, in the server and in the relay */

/* JSON as it stands there, @FILE, or - for standard input. */
bool publish_read_payload(const char *value, struct bytes *out_payload, struct error *error);

/* Of all values of that option, NAME=VALUE each: *out_json becomes a JSON object as text, or
 * NULL if there is none. */
bool publish_make_headers(
    const struct arguments *arguments, unsigned option, char **out_json, struct error *error);

/* Puts the server's refusal of an event into the words of the command line. */
void publish_refused(
    struct blocking_conn *conn, const struct arguments *arguments, struct error *error);

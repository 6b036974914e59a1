/* Request bodies, compressed. */
#pragma once

#include <stddef.h>

struct bytes;

/* Appends `data` as one gzip member. */
void http_gzip_append(struct bytes *out, const void *data, size_t length);

/* Which of several relays this is, for people: "web1/4711", host and process id. */
#pragma once

#include <stddef.h>

/* What PostgreSQL keeps of an application_name, with its NUL. */
#define INSTANCE_SHORT_SIZE 64

/* `before` and then the name. Of a long host only the beginning, so that the process id fits. */
void instance_name(char *out, size_t size, const char *before);

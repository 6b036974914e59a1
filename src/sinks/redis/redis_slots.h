/* In which of its slots a Redis Cluster keeps a key. Pure. */
#pragma once

#include <stddef.h>

enum { REDIS_SLOTS = 16384 };

/* Of a key with a {tag} that is not empty, only the tag counts. */
unsigned redis_slot_of(const char *key, size_t length);

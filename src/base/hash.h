/*
 * FNV-1a, 64 bit (Fowler, Noll, Vo). For short texts, and where an adversary gains nothing by
 * collisions: those who choose keys and names here can slow down only their own events.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* The hash of all bytes so far, with one or more added; it begins with HASH_START. */
static inline uint64_t hash_byte(uint64_t hash, unsigned char byte)
{
        return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t length)
{
        for (const unsigned char *at = data; length > 0; at++, length--)
                hash = hash_byte(hash, *at);
        return hash;
}

static inline uint64_t hash_text(const char *text)
{
        uint64_t hash = HASH_START;

        for (; *text != '\0'; text++)
                hash = hash_byte(hash, (unsigned char)*text);
        return hash;
}

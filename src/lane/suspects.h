/*
 * The events, and the targets of events, that the destination has answered as one that is down.
 * Whether that is their fault shows when others are answered; it outlives their parking. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most 1,024: beyond that one of them is forgotten, and comes under suspicion anew. */
struct suspects {
        struct suspect *all; /* owned; NULL: there has been none */
        size_t n;
};

/* `key`: the id of an event, or the key of a target, which is no id; 0: nothing is noted. `since`:
 * the number, in its lane, of the first attempt that begins after its failure. */
void suspects_note(struct suspects *suspects, uint64_t key, uint64_t since);
uint64_t suspects_since(const struct suspects *suspects, uint64_t key); /* 0: it has not failed */
bool suspects_forget(struct suspects *suspects, uint64_t key);          /* false: it had not */
void suspects_forget_all(struct suspects *suspects);

/*
 * The config file as libcyaml loads it: the shape of the key tables, every
 * scalar still the text that was written. libcyaml makes sure that there are
 * no unknown and no repeated keys, and that mappings, lists and scalars stand
 * where the tables want them. Types finer than that are ours (fill.c): libcyaml
 * reads 010 as eight, and knows neither units nor ranges.
 */
#pragma once

#include "config/config_keys.h"
#include "config/source.h"

#include <stdbool.h>
#include <stdint.h>

/* One per key of a block, in the order of its rows. */
struct raw_slot {
        void *value;    /* NULL: the key is not there. A scalar: char *. A list of texts: char **.
                         * A block: struct raw_slot[n_keys]. A list of blocks: those, in a row. */
        uint64_t count; /* of lists */
};

struct raw {
        struct raw_slot *slots; /* of config_root */
        struct raw_schema *schema;
};

/* On failure the source's error is set. Release it in either case; that clears the texts. */
bool raw_load(const struct source *source, struct raw *out_raw);
void raw_deinit(struct raw *raw);

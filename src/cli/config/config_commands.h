/* The parts of `pgcourier config`. */
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

json_t *config_schema(void);

struct config_block;
struct config_key;

/* Something in it is required, so the block is. */
bool config_block_is_required(const struct config_block *block);

/* "list of texts" */
const char *config_type_name(const struct config_key *key);

/* Tables in Markdown, on standard output. */
bool config_docs_print(struct error *error);

/* What they say of a key instead of its help, or NULL; of so many keys. */
const char *config_note_of(const char *block, const char *key);
unsigned config_notes_count(void);

/* Every key with the value in force and where it comes from, on standard output. */
bool config_show(const char *path, bool as_json, struct error *error);

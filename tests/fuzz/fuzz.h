/*
 * What fuzz targets share. An input is taken apart into fields that end in
 * NUL, which no text of ours can hold: so a corpus file stays readable and a
 * mutation of one field leaves the others alone.
 */
#pragma once

#include "pgcourier/outcome.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
        const uint8_t *data;
        size_t size;
};

/* Behind the last field comes "". To be freed: a block of its own, so that reading past it is
 * seen. */
char *fuzz_take_text(struct fuzz_input *input);
char *fuzz_take_rest(struct fuzz_input *input, size_t *out_size);
/* The next byte; 0 behind the end. */
unsigned fuzz_take_byte(struct fuzz_input *input);

/* Without CR, LF and all other characters below space but, perhaps, the tab. */
bool fuzz_is_one_line(const char *text, bool may_have_tab);

/* Says what was promised and dies. */
void fuzz_require(bool is_kept, const char *promise, const char *detail);

/* What holds of each outcome: a known kind, a sane delay, a reason of one line. */
void fuzz_require_outcome(const struct outcome *outcome);

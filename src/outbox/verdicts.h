/* A settlement's verdicts as parameters: one array for each column. */
#pragma once

#include "outbox/settlement.h"
#include "pg/array_literal.h"

enum { N_VERDICT_COLUMNS = 12 };

struct verdict_arrays {
        struct array_literal columns[N_VERDICT_COLUMNS];
};

/* Sets values[0 .. N_VERDICT_COLUMNS), which are borrowed from the arrays. */
void verdict_arrays_init(
    struct verdict_arrays *arrays, const struct settlement *settlement, const char **values);
void verdict_arrays_deinit(struct verdict_arrays *arrays);

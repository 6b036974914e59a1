/* The whole program with one allocation failing, or all from one on. */
#include "torture/rig.h"

#include <criterion/criterion.h>

TORTURE(allocations, one_fails, RUN_UNTIL_THERE, "allocation", "")
TORTURE(allocations, all_fail_from_then_on, RUN_ONCE, "allocation", "+")

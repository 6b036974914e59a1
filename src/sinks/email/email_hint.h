/* When a mail server wants to see a mail again. Pure. */
#pragma once

#include <stdint.h>

/*
 * The delay that the text of a temporary refusal asks for, as greylisting
 * servers do: "try again in 300 seconds", "retry after 5 minutes". At most an
 * hour; OUTCOME_NO_DELAY if it names none.
 */
int64_t smtp_hinted_delay_ms(const char *words);

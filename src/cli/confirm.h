/* Before something that cannot be taken back: somebody at the terminal says so, or --yes did. */
#pragma once

#include <stdbool.h>

/* Whether there is somebody to ask: standard input and standard error are a terminal. */
bool confirm_can_ask(void);

/* Asks on standard error; only "y" and "yes" are a yes. */
bool confirm_ask(const char *question);

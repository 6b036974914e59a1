/* The version of pgcourier and of the interface in this folder. */
#pragma once

#define PGCOURIER_VERSION "0.1.0"

/* Of what modules and the program expect of each other: pgcourier/module.h says what it covers. */
#define PGCOURIER_SINK_INTERFACE 1

/* The version of pgcourier and of the interface in this folder. */
#pragma once

#define PGCOURIER_VERSION "0.1.0"

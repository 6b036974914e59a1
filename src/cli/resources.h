/*
 * What libuv aborts without, asked for before it does: descriptors for its pipes, threads for its
 * pool. Later on a lack of descriptors only makes connections fail, and they are tried again.
 */
#pragma once

#include <stdbool.h>

struct error;

bool resources_check(unsigned n_threads, struct error *error);

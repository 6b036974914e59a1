/*
 * What libuv aborts without, asked for before it does: descriptors for its pipes, threads for its
 * pool. Later on a lack of descriptors only makes connections fail, and they are tried again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

bool resources_check(unsigned n_threads, struct error *error);

/* Raises the limit of open files as far as it goes without privileges: a service manager's default
 * is made for programs that watch them with select(), and ours do not. Returns how many may be
 * open then. */
uint64_t resources_raise_files(void);

/* What is in memory stays there: no core file holds a secret, no other process of the same user may
 * look into this one; and no program that this one might start gains rights by being started. */
void resources_keep_to_ourselves(void);

/*
 * What the process arranges before its libraries work.
 *
 * They allocate as we do, so that they never see an allocation fail: where they
 * do, some crash (OpenSSL), some abort (libuv), and jansson calls a text invalid
 * that it had no memory to read, which would give an event up. libpq and hiredis
 * cannot be told; what fails in them breaks the connection, and it is made anew.
 *
 * libuv aborts without descriptors for its pipes and threads for its pool, so
 * both are tried first. Later on a lack of descriptors only makes connections
 * fail, and they are tried again.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* First of all. */
void process_share_allocator(void);

/* Before any thread is started; undone by curl_global_cleanup(). False if libcurl refuses. */
bool process_init_curl(void);

/* ERROR_TEMPORARY: so many threads, or a dozen files, are not to be had. */
bool process_check_limits(unsigned n_threads, struct error *error);

/* Raises the limit of open files as far as it goes without privileges: a service manager's default
 * is made for programs that watch them with select(), and ours do not. Returns how many may be
 * open then. */
uint64_t process_raise_files(void);

/* No core file holds a secret, no other process of the same user may look into this one, and no
 * program that this one might start gains rights by being started. */
void process_keep_memory_private(void);

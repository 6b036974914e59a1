/*
 * What the libraries are told before anyone uses them: to allocate as we do, so that they never see
 * an allocation fail. Of what follows where they do, some crash (OpenSSL), some abort (libuv), some
 * say "not valid" of what they had no memory to read (jansson), which would give an event up.
 * libpq and hiredis have no such place; what fails in them breaks the connection, and it is made
 * anew.
 */
#pragma once

#include <stdbool.h>

/* First of all. */
void libraries_share_allocator(void);

/* Before any thread is started; undone by curl_global_cleanup(). */
bool libraries_init_curl(void);
